"""The seccomp filter of the sandbox: kernel services that would get around its limits or that no program here needs.

The kernel runs the program at every system call (seccomp(2), classic BPF). It closes what namespaces and rlimits
leave open: memory that belongs to no process (memfd, System V shared memory), new user namespaces (in which a process
could mount file systems of any size), sockets that no network namespace confines (vsock reaches the hypervisor), and
the parts of the kernel with the longest record of holes (io_uring, bpf, userfaultfd, keyrings).
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["FILTERED_MACHINES", "filter_program"]

_X86_64: Mapping[str, int] = {
    "shmget": 29, "socket": 41, "clone": 56, "semget": 64, "msgget": 68, "syslog": 103, "modify_ldt": 154,
    "pivot_root": 155, "chroot": 161, "acct": 163, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
    "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "kexec_load": 246,
    "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "fanotify_init": 300,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "finit_module": 313, "memfd_create": 319,
    "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_GENERIC: Mapping[str, int] = {
    "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "quotactl": 60, "acct": 89, "unshare": 97,
    "kexec_load": 104, "init_module": 105, "delete_module": 106, "syslog": 116, "msgget": 186, "semget": 190,
    "shmget": 194, "socket": 198, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "swapon": 224,
    "swapoff": 225, "perf_event_open": 241, "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265,
    "setns": 268, "finit_module": 273, "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip
_EVERYWHERE: Mapping[str, int] = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "mount_setattr": 442,
    "quotactl_fd": 443, "memfd_secret": 447,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Machine:
    audit: int
    """AUDIT_ARCH of linux/audit.h."""
    numbers: Mapping[str, int]


_MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(0xC000003E, {**_X86_64, **_EVERYWHERE}),
    "aarch64": _Machine(0xC00000B7, {**_GENERIC, **_EVERYWHERE}),
    "riscv64": _Machine(0xC00000F3, {**_GENERIC, **_EVERYWHERE}),
}
FILTERED_MACHINES: Sequence[str] = tuple(_MACHINES)
"""Values of `platform.machine()` that there is a filter for."""

_CHECKED = ("clone", "unshare", "socket")
"""Refused for some arguments only."""
_NEW_NAMESPACE = 0x7E020000
"""CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET of linux/sched.h."""
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: those that a network namespace confines."""
_X32_BIT = 0x40000000

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _MACHINE_AT, _ARGUMENT_AT = 0, 4, 16
"""Offsets in struct seccomp_data; of the first argument the lower half, on these little-endian machines."""


def filter_program(machine: str | None = None) -> bytes:
    """The filter as an array of struct sock_filter, for this machine or for `machine` (a key of the table)."""
    return b"".join(_instructions(_MACHINES[machine or platform.machine()]))


def _instructions(machine: _Machine) -> Iterator[bytes]:
    numbers = machine.numbers
    yield _op(_LOAD, _MACHINE_AT)
    yield _op(_JUMP_EQUAL, machine.audit, then=1)
    yield _op(_RETURN, _KILL)
    yield _op(_LOAD, _NUMBER_AT)
    yield _op(_JUMP_AT_LEAST, _X32_BIT, otherwise=1)
    yield _refuse(errno.ENOSYS)
    # Absent rather than forbidden: programs have a second way where a kernel lacks a call. The flags of clone3 lie in
    # memory that a filter cannot read, so it is absent too, and the C library takes clone.
    for name in sorted(set(numbers) - set(_CHECKED)):
        yield _op(_JUMP_EQUAL, numbers[name], otherwise=1)
        yield _refuse(errno.ENOSYS)
    for name in ("clone", "unshare"):
        yield _op(_JUMP_EQUAL, numbers[name], otherwise=4)
        yield _op(_LOAD, _ARGUMENT_AT)
        yield _op(_JUMP_ANY_BIT, _NEW_NAMESPACE, otherwise=1)
        yield _refuse(errno.EPERM)
        yield _op(_RETURN, _ALLOW)
    yield _op(_JUMP_EQUAL, numbers["socket"], otherwise=2 + len(_FAMILIES))
    yield _op(_LOAD, _ARGUMENT_AT)
    for index, family in enumerate(_FAMILIES):
        yield _op(_JUMP_EQUAL, family, then=len(_FAMILIES) - index)
    yield _refuse(errno.EAFNOSUPPORT)
    yield _op(_RETURN, _ALLOW)


def _refuse(number: int) -> bytes:
    return _op(_RETURN, _ERRNO | number)


def _op(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One struct sock_filter; the jumps count instructions to skip."""
    return struct.pack("=HBBI", code, then, otherwise, value)
