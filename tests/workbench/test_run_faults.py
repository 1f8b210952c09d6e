"""What the world does to a whole run: a full disk, a damaged file, a signal, hanging and raising plug-ins."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from run_events import of_kind, paid, written
from scripted_solver import is_check, served, shown, skilled

from heldout.config import RunConfig
from heldout.errors import SetupError
from heldout.store import RunFolder, read_events
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer, SeenRequest
from heldout.workbench import Opening, resume

Config = Callable[..., RunConfig]
Finish = Callable[[RunConfig], RunFolder]
Command = Callable[..., tuple[int, str, str]]


def final(folder: RunFolder) -> str:
    return str(of_kind(folder, "run.finished")[-1]["final"])


class TestAFullDisk:
    LIMITED = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
from heldout.cli import main
main(sys.argv[2:])
"""

    @pytest.mark.parametrize("share", [0.03, 0.3, 0.9])
    def test_in_the_middle_of_a_run_is_told_and_a_resume_ends_it(
        self, tiny: Config, finish: Finish, tmp_path: Path, share: float
    ) -> None:
        config = tiny({"seed": 3})
        whole = finish(config)
        folder = RunFolder(tmp_path / "full")
        limit = max(int(share * whole.events.stat().st_size), whole.config.stat().st_size)
        words = ("run", written(config, tmp_path / "c.toml"), "--out", str(folder.path))
        done = self.limited(limit, words)
        assert done.returncode == 1, done.stderr
        assert "the disk is full" in done.stderr
        assert "--resume" in done.stderr
        assert "Traceback" not in done.stderr
        kept = list(read_events(folder.events))
        assert 0 < len(kept) < len(list(read_events(whole.events)))
        again = self.limited(limit, (*words, "--resume"))
        assert (again.returncode, "the disk is full" in again.stderr) == (1, True), again.stderr
        resume(Opening(folder.path, command="again", resume=True))
        assert final(folder) == final(whole)
        assert paid(folder) == paid(whole)

    def test_that_has_room_for_all_but_the_report_loses_nothing(
        self, tiny: Config, finish: Finish, tmp_path: Path
    ) -> None:
        config = small(tiny)
        whole = finish(config)
        limit = whole.events.stat().st_size + 2000
        assert limit < whole.report.stat().st_size, "the report is what must not fit"
        folder = RunFolder(tmp_path / "full")
        done = self.limited(limit, ("run", written(config, tmp_path / "c.toml"), "--out", str(folder.path)))
        assert done.returncode == 1
        assert f"heldout report {folder.path}" in done.stderr
        assert "Traceback" not in done.stderr
        assert final(folder) == final(whole)

    def test_of_a_real_small_file_system_is_told_twice_and_survived(
        self, tiny: Config, finish: Finish, tmp_path: Path
    ) -> None:
        config = tiny({"seed": 3})
        whole = finish(config)
        disk = tmp_path / "disk"
        disk.mkdir()
        run = f"{sys.executable} -m heldout run {written(config, tmp_path / 'c.toml')} --out {disk}/r"
        script = f"""
        mount -t tmpfs -o size=100k none {disk} || exit 77
        {run}; echo "first $?" >&2
        {run} --resume; echo "second $?" >&2
        mount -o remount,size=20m {disk}
        {run} --resume; echo "third $?" >&2
        cp {disk}/r/events.jsonl {tmp_path}/after.jsonl
        """
        command = ["unshare", "-rm", "sh", "-c", script]
        if shutil.which("unshare") is None:
            pytest.skip("this machine has no unshare")
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        if done.returncode == 77 or "first" not in done.stderr:
            pytest.skip("this machine lets nobody mount a file system")
        assert [line for line in done.stderr.split("\n") if line[:5] in ("first", "secon", "third")] == [
            "first 1",
            "second 1",
            "third 0",
        ], done.stderr
        assert done.stderr.count("the disk is full") == 2
        assert "Traceback" not in done.stderr
        events = list(read_events(tmp_path / "after.jsonl"))
        assert [event.data["final"] for event in events if event.kind == "run.finished"] == [final(whole)]

    def limited(self, limit: int, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", self.LIMITED, str(limit), *words]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


class TestADamagedJournal:
    def test_a_truncated_last_line_is_dropped_and_the_run_goes_on(
        self, heldout: Command, tiny: Config, finish: Finish
    ) -> None:
        folder = finish(tiny({"seed": 3}))
        goal, lines = final(folder), folder.events.read_bytes().splitlines(keepends=True)
        folder.events.write_bytes(b"".join(lines[:40]) + lines[40][:-9])
        code, _, err = heldout("run", "--resume", "--out", str(folder.path))
        assert (code, err) == (0, "")
        assert final(folder) == goal
        assert of_kind(folder, "run.resumed")[0]["dropped"] == lines[40][:-9].decode()

    @pytest.mark.parametrize("number", [1, 30, 60])
    def test_one_changed_byte_stops_every_command_with_its_line_and_changes_nothing(
        self, heldout: Command, tiny: Config, finish: Finish, number: int
    ) -> None:
        folder = finish(tiny({"seed": 3}))
        lines = folder.events.read_bytes().splitlines(keepends=True)
        middle = len(lines[number - 1]) // 2
        lines[number - 1] = lines[number - 1][:middle] + b"~" + lines[number - 1][middle + 1 :]
        folder.events.write_bytes(b"".join(lines))
        folder.index.unlink()
        report = folder.report.read_bytes()
        for words in (("run", "--resume", "--out"), ("show",), ("report",), ("audit",)):
            code, _, err = heldout(*words, str(folder.path))
            assert code == 1, words
            assert f"line {number} of" in err
            assert "is damaged" in err
        assert folder.events.read_bytes() == b"".join(lines)
        assert folder.report.read_bytes() == report


HARNESS = """
import os, subprocess, sys, time
from pathlib import Path
from heldout.testing import PlainHarness

class Harness(PlainHarness):
    def __init__(self, *, answer, labels, max_tokens):
        super().__init__()
    def run(self, candidate, task, episode):
        number = int(task.id.split("-")[1])
        if number % BAD == 0:
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            Path(f"{child.pid}.pid").touch()
            if number % (2 * BAD) == 0:
                time.sleep(600)
        return super().run(candidate, task, episode)
"""

ODD_HARNESS = """
from heldout.testing import PlainHarness

class Harness(PlainHarness):
    def __init__(self, *, answer, labels, max_tokens):
        super().__init__()
    def run(self, candidate, task, episode):
        if int(task.id.split("-")[1]) % 7 == 0:
            raise KeyError(task.id)
        return super().run(candidate, task, episode)
"""


def small(config: Config, *layers: object) -> RunConfig:
    sizes = {"tasks": {"train": 6, "select": 6, "audit": 6}, "search": {"generations": 1}, "noise": {"tasks": 2}}
    return config(sizes, {"seed": 3}, *layers)


class TestProcesses:
    def test_decide_as_inline_does(self, tiny: Config, finish: Finish) -> None:
        inline = finish(small(tiny))
        apart = finish(small(tiny, {"executor": {"kind": "process", "workers": 4}}))
        for kind in ("decision", "candidate", "track.moved"):
            assert of_kind(inline, kind) == of_kind(apart, kind)
        assert [data["gain"] for data in of_kind(inline, "audit")] == [data["gain"] for data in of_kind(apart, "audit")]
        scores = [{data["key"]: data["score"] for data in of_kind(one, "outcome")} for one in (inline, apart)]
        assert scores[0] == scores[1]

    @pytest.mark.slow
    def test_a_hanging_harness_is_killed_and_failed_and_nothing_is_left_running(
        self, tiny: Config, finish: Finish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "hanging_harness.py").write_text(HARNESS.replace("BAD", "5"))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])
        tiny()
        with ScriptedServer(skilled(tmp_path / "rows.jsonl")) as server:
            folder = finish(
                small(
                    tiny,
                    served(server.url),
                    {"solver": {"harness": "hanging_harness:Harness", "model": {"timeout_s": 2, "retries": 0}}},
                    {"executor": {"kind": "process", "workers": 6, "timeout_s": 8}, "noise": {"tasks": 0}},
                )
            )
        outcomes = of_kind(folder, "outcome")
        hung = [data for data in outcomes if int(data["task"].split("-")[1]) % 10 == 0]
        assert hung
        for data in hung:
            assert (data["status"], data["score"]) == ("failed", 0.0)
            assert data["error"] == "the job was killed after 8 s (executor.timeout_s)"
        assert all("error" not in data for data in outcomes if data not in hung)
        children = [int(path.stem) for path in tmp_path.glob("*.pid")]
        assert len(children) >= len(hung)
        assert all(gone(pid) for pid in children)

    def test_a_limit_below_the_models_own_patience_is_refused(self, tiny: Config, finish: Finish) -> None:
        hasty = {"executor": {"kind": "process", "timeout_s": 4}}
        with pytest.raises(SetupError, match=r"executor\.timeout_s = 4 is less than what the model may take"):
            finish(tiny(served("http://127.0.0.1:1/v1"), hasty))

    @pytest.mark.parametrize("kind", ["inline", "threads", pytest.param("process", marks=pytest.mark.slow)])
    def test_a_harness_that_raises_fails_the_task_under_every_executor(
        self, tiny: Config, finish: Finish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        (tmp_path / "odd_harness.py").write_text(ODD_HARNESS)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])
        tiny()
        with ScriptedServer(skilled(tmp_path / "rows.jsonl")) as server:
            harness = {"solver": {"harness": "odd_harness:Harness"}, "executor": {"kind": kind, "workers": 4}}
            folder = finish(small(tiny, served(server.url), harness))
        raised = [data for data in of_kind(folder, "outcome") if int(data["task"].split("-")[1]) % 7 == 0]
        assert raised
        assert {(data["status"], data["score"]) for data in raised} == {("failed", 0.0)}
        assert all("the harness 'odd_harness:Harness' raised: KeyError: 'task-" in data["error"] for data in raised)


def gone(pid: int) -> bool:
    """Whether a process ended (a zombie has ended too) within five seconds."""
    for _ in range(100):
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def default_interrupt() -> None:
    """A test runner in the background of a shell ignores SIGINT, and its children would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_the_run_at_once_and_it_can_be_resumed(
        self, tiny: Config, finish: Finish, tmp_path: Path, number: signal.Signals
    ) -> None:
        """With eight requests in flight that a server would only answer after a minute."""
        stuck = True

        def fault(request: SeenRequest) -> ScriptedReply | None:
            return ScriptedReply(delay_s=60) if stuck and len(request.body["messages"]) > 2 else None

        tiny()
        folder = RunFolder(tmp_path / "stopped")
        with ScriptedServer(skilled(tmp_path / "rows.jsonl", fault=fault)) as server:
            threads = {"executor": {"kind": "threads", "workers": 8}}
            config = tiny(served(server.url, timeout_s=100, retries=4), threads)
            process = self.start(config, folder, tmp_path)
            self.wait_for(lambda: sum(not is_check(seen) for seen in server.requests if shown(seen)) >= 8, process)
            sent = time.monotonic()
            process.send_signal(number)
            out, err = process.communicate(timeout=50)
            assert time.monotonic() - sent < 30
            assert process.returncode == 130, err
            assert "interrupted; what was recorded is kept, and --resume continues it" in err
            assert "Traceback" not in err
            assert json.loads(out)["error"].startswith("interrupted")
            assert [event.kind for event in read_events(folder.events)].count("outcome") >= 12
            stuck = False
            resume(Opening(folder.path, command="again", resume=True))
            whole = finish(config)
        assert final(folder) == final(whole)
        assert paid(folder) == paid(whole)

    def test_a_signal_kills_the_jobs_that_run_in_processes(self, tiny: Config, tmp_path: Path) -> None:
        (tmp_path / "hanging_harness.py").write_text(HARNESS.replace("BAD", "1"))
        tiny()
        with ScriptedServer(skilled(tmp_path / "rows.jsonl")) as server:
            harness = {"solver": {"harness": "hanging_harness:Harness"}, "executor": {"kind": "process", "workers": 3}}
            process = self.start(tiny(served(server.url), harness), RunFolder(tmp_path / "r"), tmp_path)
            self.wait_for(lambda: len(list(tmp_path.glob("*.pid"))) >= 3, process)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=50)
        assert process.returncode == 130, err
        assert all(gone(int(path.stem)) for path in tmp_path.glob("*.pid"))

    @staticmethod
    def start(config: RunConfig, folder: RunFolder, here: Path) -> subprocess.Popen[str]:
        words = ("run", written(config, here / "c.toml"), "--out", str(folder.path), "--json")
        return subprocess.Popen(
            [sys.executable, "-m", "heldout", *words],
            cwd=here,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=default_interrupt,  # noqa: PLW1509 - it calls nothing that a fork could have broken
        )

    @staticmethod
    def wait_for(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the run never got so far"
            time.sleep(0.02)


def test_nothing_of_a_test_is_left_running() -> None:
    """The suite's own children: a worker of the tests above that lived on would be one."""
    mine = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False
    )
    assert "time.sleep(600)" not in mine.stdout
