"""The parts of the bubblewrap sandbox: failing closed, what is shown, what a start that fails is explained by."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heldout.errors import SandboxError
from heldout.sandbox import Limits, Sandbox, Scene
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.sandbox.confined import limited
from heldout.sandbox.faults import explain, missing_tool
from heldout.sandbox.syscalls import FILTERED_MACHINES, filter_program
from heldout.sandbox.system import layout

FAULT = Bubblewrap().fault()
needs_bubblewrap = pytest.mark.skipif(FAULT is not None, reason=str(FAULT))


class TestFailsClosed:
    def test_without_bubblewrap_nothing_runs_and_the_message_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SandboxError, match="apt-get install bubblewrap"), Bubblewrap().open(Scene()):
            pytest.fail("a sandbox was opened")
        fault = Bubblewrap().fault()
        assert fault is not None
        assert "'bwrap' of the package bubblewrap is not on the PATH" in fault

    def test_without_user_namespaces_nothing_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("bwrap", "nsenter", "mount", "unshare"):
            (tmp_path / name).write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2; exit 1\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SandboxError, match="Operation not permitted"), Bubblewrap().open(Scene()):
            pytest.fail("a sandbox was opened")
        assert "Operation not permitted" in str(Bubblewrap().fault())

    @needs_bubblewrap
    def test_a_bubblewrap_that_fails_is_no_command_that_failed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: no such luck' >&2; exit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
        tmp_path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        with Bubblewrap().open(Scene()) as sandbox, pytest.raises(SandboxError, match="did not start"):
            sandbox.run(["true"])

    def test_another_system_is_told_of_the_other_sandbox(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "darwin")
        assert "needs Linux" in str(Bubblewrap().fault())
        with pytest.raises(SandboxError, match="docker"), Bubblewrap().open(Scene()):
            pytest.fail("a sandbox was opened")


class TestWhatIsShown:
    def test_a_mount_hides_nothing_and_lies_in_nothing(self, tmp_path: Path) -> None:
        for point in (
            "/work",
            "/work/x",
            "/tmp/x",
            "/usr",
            "/usr/lib/x",
            "/",
            "/etc/x",
            "data",
            "/a/../b",
            "/a/",
            "/proc/x",
        ):
            with pytest.raises(SandboxError, match="no place for a mount"):
                layout({str(tmp_path): point}, {})
        assert layout({str(tmp_path): "/data"}, {}).binds["/data"] == str(tmp_path.resolve())

    def test_a_mount_is_a_folder_that_exists(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        for source in ("relative", str(tmp_path / "absent"), str(tmp_path / "file")):
            with pytest.raises(SandboxError, match="no folder of this machine"):
                layout({source: "/data"}, {})

    def test_a_variable_is_one(self) -> None:
        for name, value in (("", "x"), ("A=B", "x"), ("A", "x\0")):
            with pytest.raises(SandboxError, match="no environment variable"):
                layout({}, {name: value})

    def test_a_working_folder_among_the_programs_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir("/usr/share")
        with pytest.raises(SandboxError, match="could read your files"):
            layout({}, {})

    @needs_bubblewrap
    def test_a_mount_that_only_root_may_read_is_refused_with_the_command_that_mends_it(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o700)
        with Bubblewrap().open(Scene()) as sandbox:
            if sandbox._files.owner is None:  # type: ignore[attr-defined]
                pytest.skip("Heldout is not run as root here")
        with (
            pytest.raises(SandboxError, match="chmod o\\+rx"),
            Bubblewrap().open(Scene(mounts={str(tmp_path): "/data"})),
        ):
            pytest.fail("a sandbox was opened")

    @needs_bubblewrap
    def test_python_is_the_one_that_runs_heldout(self) -> None:
        with Bubblewrap().open(Scene(files={"a": ""})) as sandbox:
            for name in ("python", "python3"):
                done = sandbox.run([name, "-c", "import sys; print(sys.version, sys.prefix == sys.base_prefix)"])
                assert done.output == f"{sys.version} True\n"

    @needs_bubblewrap
    def test_paths_with_spaces_are_mounted(self, tmp_path: Path) -> None:
        source = tmp_path / "a b\\c#d"
        source.mkdir()
        (source / "f").write_text("x")
        with Bubblewrap().open(Scene(mounts={str(source): "/my data"})) as sandbox:
            assert sandbox.run(["cat", "/my data/f"]).output == "x"


class TestCommands:
    @pytest.fixture
    def sandbox(self) -> Iterator[Sandbox]:
        with Bubblewrap().open(Scene()) as sandbox:
            yield sandbox

    @needs_bubblewrap
    def test_what_no_program_can_be_given_is_data_as_in_a_shell(self, sandbox: Sandbox) -> None:
        for argv in (["echo", "a\0b"], ["echo", "x" * 200_000], ["echo", *["x" * 1000] * 2000], ["echo", "\ud800"]):
            assert sandbox.run(argv).exit_code == 126
        assert len(sandbox.run(["echo", "x" * 100_000], limits=Limits(output_bytes=200_000)).output) == 100_001
        with pytest.raises(SandboxError, match="empty"):
            sandbox.run([])

    @needs_bubblewrap
    def test_names_of_shell_builtins_mean_programs(self, sandbox: Sandbox) -> None:
        assert sandbox.run(["echo", "a\\nb"]).output == "a\\nb\n"
        assert sandbox.run(["exit", "3"]).exit_code == 127
        assert sandbox.run(["A=1"]).exit_code == 127

    @needs_bubblewrap
    def test_time_on_the_processor_is_that_of_all_processes(self, sandbox: Sandbox) -> None:
        burn = "import time; e = time.process_time() + 0.15\nwhile time.process_time() < e: pass"
        done = sandbox.run(["sh", "-c", 'python3 -c "$0" & python3 -c "$0"; wait', burn])
        assert 0.3 <= done.cpu_s < 2.0

    @needs_bubblewrap
    def test_streams_can_be_opened_by_name(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["sh", "-c", "cat /dev/stdin >/dev/stdout; echo err >/dev/stderr"], stdin="in\n")
        assert done.output == "in\nerr\n"

    def test_limits_reach_the_shell_in_its_units(self) -> None:
        limits = Limits(cpu_s=1.2, memory_mb=100, file_mb=2, processes=7)
        script = limited(["true"], limits)[2]
        for words in ("-t 2;", "-v 102400;", "-f 4096;", "-c 0;"):
            assert f"ulimit {words}" in script


class TestFilter:
    @pytest.mark.parametrize("machine", FILTERED_MACHINES)
    def test_every_jump_lands_inside_and_every_path_returns(self, machine: str) -> None:
        program = list(struct.iter_unpack("=HBBI", filter_program(machine)))
        assert len(program) < 4096
        for index, (code, then, otherwise, _) in enumerate(program):
            assert index + 1 + max(then, otherwise) < len(program) or code == 0x06
        assert program[-1][0] == 0x06

    def test_verdicts_for_calls_of_this_kind_of_machine(self) -> None:
        def verdict(number: int, argument: int = 0, machine: int = 0xC000003E) -> int:
            return _run_filter(filter_program("x86_64"), {0: number, 4: machine, 16: argument})

        allow, absent, forbidden, no_family, kill = 0x7FFF0000, 0x50026, 0x50001, 0x50061, 0x80000000
        assert verdict(0) == allow  # read
        assert verdict(319) == absent  # memfd_create
        assert verdict(435) == absent  # clone3
        assert verdict(56, 0x11) == allow  # clone as in fork
        assert verdict(56, 0x10000011) == forbidden  # with CLONE_NEWUSER
        assert verdict(272, 0x400) == allow  # unshare(CLONE_FILES)
        assert verdict(272, 0x20000) == forbidden  # unshare(CLONE_NEWNS)
        assert [verdict(41, family) for family in (1, 2, 10, 16)] == [allow] * 4
        assert [verdict(41, family) for family in (0, 17, 38, 40)] == [no_family] * 4
        assert verdict(0x40000000) == absent  # the x32 way to call
        assert verdict(0, machine=0x40000003) == kill  # a 32-bit program


def _run_filter(program: bytes, data: dict[int, int]) -> int:
    """What the kernel would return: classic BPF, of which the filter uses five instructions."""
    steps, at, held = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == 0x20:
            held = data[value]
        elif code == 0x06:
            return int(value)
        else:
            met = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            at += then if met else otherwise


class TestExplanations:
    @pytest.mark.parametrize(
        ("setting", "value", "mend"),
        [
            ("proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
            ("proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
            (
                "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                "1",
                "kernel.apparmor_restrict_unprivileged_userns=0",
            ),
            (".dockerenv", "", "seccomp=unconfined"),
        ],
    )
    def test_a_setting_that_forbids_is_named_with_the_command(
        self, tmp_path: Path, setting: str, value: str, mend: str
    ) -> None:
        path = tmp_path / setting
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
        fault = explain("unshare: Operation not permitted", root=tmp_path)
        assert mend in fault.mend
        assert "Operation not permitted" in fault.reason

    def test_a_setting_that_allows_is_not_named(self, tmp_path: Path) -> None:
        path = tmp_path / "proc/sys/user/max_user_namespaces"
        path.parent.mkdir(parents=True)
        path.write_text("95000\n")
        assert "max_user_namespaces" not in str(explain("something else", root=tmp_path))

    def test_a_missing_program_is_named_with_its_package(self) -> None:
        fault = missing_tool(("bwrap", "nsenter"), lambda name: None if name == "nsenter" else f"/bin/{name}")
        assert fault is not None
        assert "util-linux" in fault.mend
        assert missing_tool(("bwrap",), lambda name: name) is None
