"""Why a sandbox does not start on this machine, and the command that mends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Fault", "explain", "missing_tool"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A reason and a remedy."""

    reason: str
    mend: str
    """A command, or where no command helps, what to do."""

    def __str__(self) -> str:
        return f"{self.reason}; what mends it: {self.mend}"


_PACKAGES = {"bwrap": "bubblewrap", "unshare": "util-linux", "nsenter": "util-linux", "mount": "util-linux"}
_SWITCHES = (
    ("proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    ("proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    (
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (for good: a file in /etc/sysctl.d)",
    ),
)
"""Kernel settings that forbid user namespaces: file, forbidding value, remedy (as root)."""
_CONTAINER_MARKS = (".dockerenv", "run/.containerenv")


def missing_tool(names: Sequence[str], find: Callable[[str], str | None]) -> Fault | None:
    """The first of the programs that is not installed; only those whose package is known."""
    for name in names:
        if find(name) is None:
            package = _PACKAGES[name]
            return Fault(
                f"{name!r} of the package {package} is not on the PATH, and nothing runs unprotected instead",
                f"apt-get install {package} (elsewhere: dnf install {package}, apk add {package}, pacman -S {package})",
            )
    return None


def explain(said: str, *, root: Path = Path("/")) -> Fault:
    """What lies behind the message of a start that failed; `root` is where kernel settings are looked up."""
    reason = f"bubblewrap does not start here: {said.strip()[-500:]!r}"
    for name, forbids, mend in _SWITCHES:
        if _content(root / name) == forbids:
            return Fault(f"{reason}; /{name} is {forbids}, which forbids user namespaces", mend)
    if any((root / mark).exists() for mark in _CONTAINER_MARKS):
        return Fault(
            f"{reason}; this is a container, whose engine may forbid namespaces in it",
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            '--security-opt systempaths=unconfined …, or sandbox = "docker" on a machine that is no container',
        )
    return Fault(reason, "unshare --user --mount true (as the user who runs Heldout) tells more; it has to work")


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None
