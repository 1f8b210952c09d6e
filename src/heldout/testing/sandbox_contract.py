"""What every kind of sandbox must do; subclass it, give it a `sandboxes` fixture, and pytest runs it."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from heldout.errors import SandboxError
from heldout.sandbox.base import Limits, Sandbox, Sandboxes, Scene

__all__ = ["SandboxContract"]

_SCENE = Scene(
    files={"README.md": "grüße\n", "pkg/mod.py": "A = 1\n"},
    env={"GREETING": "good morning"},
    limits=Limits(wall_s=20.0, disk_mb=16, file_mb=8),
)
_SHOUTER = ["sh", "-c", 'while read -r line; do echo "$line!"; done']


class SandboxContract:
    """Needs a fixture `sandboxes`: the kind under test, which the fixture has skipped where `fault()` says why."""

    @pytest.fixture
    def sandbox(self, sandboxes: Sandboxes) -> Iterator[Sandbox]:
        with sandboxes.open(_SCENE) as sandbox:
            yield sandbox

    def test_names_itself_and_travels_to_a_worker(self, sandboxes: Sandboxes) -> None:
        copy: Sandboxes = pickle.loads(pickle.dumps(sandboxes))
        assert copy.fingerprint == sandboxes.fingerprint != ""
        assert copy.fault() is None

    def test_begins_with_the_files_and_variables_of_its_scene_and_no_others(self, sandbox: Sandbox) -> None:
        shown = sandbox.run(["sh", "-c", 'pwd; echo "$HOME $GREETING"; cat README.md; find . -type f | sort'])
        assert shown.exit_code == 0
        assert shown.output == "/work\n/work good morning\ngrüße\n./README.md\n./pkg/mod.py\n"

    def test_an_exit_code_is_data_and_both_streams_are_output(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
        assert done.exit_code == 7
        assert sorted(done.output.split()) == ["err", "out"]
        assert done.killed == ""
        assert done.wall_s > 0.0

    def test_a_command_that_does_not_exist_is_data(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["no-such-program"])
        assert done.exit_code == 127
        assert "no-such-program" in done.output

    def test_a_command_that_kills_itself_ends_with_128_and_the_signal(self, sandbox: Sandbox) -> None:
        assert sandbox.run(["sh", "-c", "kill -9 $$"]).exit_code == 137

    def test_input_reaches_the_command_and_may_be_left_unread(self, sandbox: Sandbox) -> None:
        assert sandbox.run(["tr", "a-z", "A-Z"], stdin="héllo").output.upper() == "HÉLLO"
        assert sandbox.run(["wc", "-c"], stdin="x" * 1_000_000).output.strip() == "1000000"
        assert sandbox.run(["true"], stdin="x" * 1_000_000).exit_code == 0
        assert sandbox.run(["cat"]).output == ""

    def test_both_folders_last_from_command_to_command(self, sandbox: Sandbox) -> None:
        sandbox.run(["sh", "-c", "echo one >a; echo two >/tmp/b"])
        assert sandbox.run(["cat", "a", "/tmp/b"]).output == "one\ntwo\n"

    def test_one_sandbox_sees_nothing_of_another(self, sandboxes: Sandboxes, sandbox: Sandbox) -> None:
        sandbox.run(["touch", "/work/mine", "/tmp/mine"])
        with sandboxes.open(_SCENE) as other:
            assert other.run(["ls", "/tmp", "/work"]).output.count("mine") == 0

    def test_output_is_kept_to_its_limit_with_head_and_tail(self, sandbox: Sandbox) -> None:
        limits = Limits(wall_s=20.0, output_bytes=1024)
        done = sandbox.run(
            ["sh", "-c", "echo head; i=0; while [ $i -lt 999 ]; do echo fill; i=$((i+1)); done; echo tail"],
            limits=limits,
        )
        assert done.exit_code == 0
        assert done.output.startswith("head\n")
        assert done.output.endswith("fill\ntail\n")
        assert len(done.output.encode()) < 1024 + 60
        assert "bytes left out" in done.output

    def test_what_passes_its_wall_clock_is_killed(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["sh", "-c", "echo begun; sleep 60"], limits=Limits(wall_s=1.0))
        assert (done.killed, done.exit_code, done.output) == ("time", 137, "begun\n")
        assert done.wall_s < 15.0
        assert sandbox.run(["echo", "again"]).output == "again\n"

    def test_nothing_that_a_command_started_outlives_it(self, sandbox: Sandbox) -> None:
        sandbox.run(["sh", "-c", "(setsid sh -c 'sleep 0.3; touch /work/late' >/dev/null 2>&1 &) ; exit 0"])
        sandbox.run(["sleep", "0.6"])
        assert "late" not in sandbox.snapshot()

    def test_a_snapshot_is_the_text_of_the_work_folder(self, sandbox: Sandbox) -> None:
        script = (
            "mkdir -p __pycache__ sub/.pytest_cache; echo x >__pycache__/m.pyc; echo x >sub/.pytest_cache/c; "
            "printf '\\377\\376' >binary; ln -s /etc/passwd link; mkfifo pipe; rm README.md; printf 'n\\r\\n' >sub/new"
        )
        assert sandbox.run(["sh", "-c", script]).exit_code == 0
        assert sandbox.snapshot() == {"pkg/mod.py": "A = 1\n", "sub/new": "n\r\n"}

    def test_encoded_files_begin_and_are_shown_as_base64_whatever_their_bytes(self, sandboxes: Sandboxes) -> None:
        data = b"PK\x03\x04\xff\x00"
        text = base64.b64encode(data).decode()
        scene = _SCENE.model_copy(update={"files": {"a/Book.XLSX": text, "n.txt": "n"}, "encoded": (".xlsx",)})
        with sandboxes.open(scene) as sandbox:
            assert sandbox.run(["wc", "-c", "a/Book.XLSX"]).output.split()[0] == "6"
            assert sandbox.snapshot() == scene.files
            script = "printf plain >p.xlsx; printf '\\377' >q.bin; cp a/Book.XLSX copy.xlsx; rm a/Book.XLSX"
            assert sandbox.run(["sh", "-c", script]).exit_code == 0
            assert sandbox.snapshot() == {"copy.xlsx": text, "n.txt": "n", "p.xlsx": "cGxhaW4="}

    def test_an_encoded_file_that_is_no_base64_is_refused_by_name(self, sandboxes: Sandboxes) -> None:
        scene = Scene(files={"in/book.xlsx": "no base64!"}, encoded=(".xlsx",))
        with pytest.raises(SandboxError, match=r"in/book\.xlsx"), sandboxes.open(scene):
            pass

    def test_there_is_no_network_and_no_writable_place_but_two(self, sandbox: Sandbox) -> None:
        assert sandbox.run(["sh", "-c", "cat /proc/net/dev | grep -c :"]).output.strip() in ("0", "1")
        for place in ("/usr/x", "/etc/x", "/x", "/dev/x", "/bin/x"):
            assert sandbox.run(["sh", "-c", f": >{place}"]).exit_code != 0, place

    def test_there_are_the_devices_that_programs_expect(self, sandbox: Sandbox) -> None:
        script = "echo gone >/dev/null; head -c 9 /dev/zero | wc -c; head -c 9 /dev/urandom | wc -c"
        assert sandbox.run(["sh", "-c", script]).output.split() == ["9", "9"]
        opened = sandbox.run(["python3", "-c", "import pty; print(all(pty.openpty()))"])
        assert opened.output == "True\n"

    def test_a_path_out_of_the_work_folder_is_refused(self, sandboxes: Sandboxes) -> None:
        for path in ("../x", "/etc/x", "a/../../x", "", ".", "a//b", "a\0b"):
            with pytest.raises(SandboxError, match="no path in a sandbox"), sandboxes.open(Scene(files={path: ""})):
                pass

    def test_talks_line_by_line_and_shares_the_work_folder(self, sandbox: Sandbox) -> None:
        talk = sandbox.talk(_SHOUTER)
        assert talk.ask("one", timeout_s=20.0) == "one!"
        sandbox.run(["true"])
        assert talk.ask("ü two", timeout_s=20.0) == "ü two!"
        writer = sandbox.talk(["sh", "-c", "read -r line; echo $line >said; echo done"])
        assert writer.ask("hello", timeout_s=20.0) == "done"
        assert sandbox.snapshot()["said"] == "hello\n"
        talk.close()
        talk.close()
        with pytest.raises(SandboxError, match="has ended"):
            talk.ask("more", timeout_s=20.0)

    def test_a_silent_or_dead_process_ends_the_conversation(self, sandbox: Sandbox) -> None:
        silent = sandbox.talk(["sleep", "60"])
        with pytest.raises(SandboxError, match="no answer within"):
            silent.ask("anyone?", timeout_s=0.5)
        with pytest.raises(SandboxError, match="has ended"):
            silent.ask("anyone?", timeout_s=0.5)
        dead = sandbox.talk(["sh", "-c", "echo because >&2; exit 3"])
        with pytest.raises(SandboxError, match=r"ended without an answer.*because"):
            dead.ask("anyone?", timeout_s=20.0)

    def test_several_threads_work_in_sandboxes_of_their_own(self, sandboxes: Sandboxes) -> None:
        def work(number: int) -> str:
            with sandboxes.open(Scene(files={"n": str(number)}, limits=_SCENE.limits)) as sandbox:
                return sandbox.run(["cat", "n"]).output

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(8))) == [str(number) for number in range(8)]
