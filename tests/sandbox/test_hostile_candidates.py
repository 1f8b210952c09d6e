"""What a hostile command tries: nothing leaks, nothing hangs, and the sandbox is usable afterwards."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from heldout.errors import SandboxError
from heldout.sandbox import Completed, Limits, Sandbox, Scene
from heldout.sandbox.bubblewrap import Bubblewrap

LIMITS = Limits(wall_s=10.0, cpu_s=5.0, memory_mb=256, processes=16, file_mb=4, disk_mb=8, output_bytes=4096)
FAULT = Bubblewrap().fault()
pytestmark = pytest.mark.skipif(FAULT is not None, reason=str(FAULT))


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Bubblewrap().open(Scene(files={"kept.txt": "kept\n"}, limits=LIMITS)) as sandbox:
        yield sandbox
        assert sandbox.run(["cat", "kept.txt"]).output == "kept\n", "not usable afterwards"


def python(sandbox: Sandbox, code: str, limits: Limits | None = None) -> Completed:
    return sandbox.run(["python3", "-c", textwrap.dedent(code)], limits=limits)


def test_a_command_that_closes_its_folders_keeps_no_later_one_from_running(sandbox: Sandbox) -> None:
    assert sandbox.run(["chmod", "000", "/work", "/tmp"]).exit_code == 0
    assert sandbox.snapshot() == {"kept.txt": "kept\n"}
    assert (
        sandbox.run(["sh", "-c", "echo more >>kept.txt && cat kept.txt && cp kept.txt /tmp"]).output == "kept\nmore\n"
    )
    assert sandbox.run(["sh", "-c", "echo kept >kept.txt"]).exit_code == 0


class TestResources:
    def test_a_fork_bomb_is_ended_as_too_many_processes(self, sandbox: Sandbox) -> None:
        done = python(sandbox, "import os\nwhile True:\n try: os.fork()\n except OSError: pass")
        assert (done.killed, done.exit_code) == ("processes", 137)
        assert done.wall_s < 5.0

    def test_forks_fail_in_the_kernel_where_nobody_counts_them(self, sandbox: Sandbox) -> None:
        if tuple(map(int, os.uname().release.split(".")[:2])) < (5, 14):
            pytest.skip("this kernel counts processes per user of the machine")
        code = """if True:
            import os, signal
            for number in range(500):
                try:
                    if os.fork() == 0:
                        signal.pause()
                except BlockingIOError:
                    os.write(1, b"%d" % number)
                    os._exit(0)
        """
        unwatched = sandbox._start(["python3", "-c", code], LIMITS, stdin=subprocess.DEVNULL)  # type: ignore[attr-defined]
        assert unwatched.popen.stdout.read() == b"%d" % (LIMITS.processes + 16 - 1)  # the command itself is one
        sandbox._finish(unwatched)  # type: ignore[attr-defined]

    def test_threads_count_as_processes(self, sandbox: Sandbox) -> None:
        code = "import threading, time\nfor _ in range(20): threading.Thread(target=time.sleep, args=(30,)).start()"
        limits = LIMITS.model_copy(update={"memory_mb": 4096})
        assert python(sandbox, code, limits).killed == "processes"

    def test_as_many_processes_as_allowed_may_run(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["sh", "-c", "for i in $(seq 14); do sleep 0.3 & done; wait; echo ok"])
        assert (done.killed, done.output) == ("", "ok\n")

    @pytest.mark.parametrize("place", ["/work", "/tmp", "/dev/shm"])
    def test_a_disk_filler_meets_the_end_of_the_disk(self, sandbox: Sandbox, place: str) -> None:
        script = "i=0; while :; do head -c 3000000 /dev/zero >$0/fill$i; i=$((i+1)); done"
        done = sandbox.run(["sh", "-c", script, place])
        assert (done.killed, done.exit_code) == ("disk", 137)
        assert done.wall_s < 5.0
        held = sandbox.run(["du", "-sm", place]).output
        assert int(held.split()[0]) <= LIMITS.disk_mb
        assert sandbox.run(["sh", "-c", f"rm {place}/fill*; echo free"]).output == "free\n"

    def test_reserving_blocks_without_writing_them_is_refused_too(self, sandbox: Sandbox) -> None:
        code = """
            import os
            for n in range(99):
                os.posix_fallocate(os.open(f"f{n}", os.O_CREAT | os.O_WRONLY), 0, 1 << 20)
        """
        assert "No space left" in python(sandbox, code).output
        assert len(sandbox.snapshot()) - 1 <= LIMITS.disk_mb
        sandbox.run(["sh", "-c", "rm f*"])

    def test_a_huge_number_of_files_is_bounded(self, sandbox: Sandbox) -> None:
        done = python(sandbox, "for n in range(10**6): open(f'/work/{n}', 'w').close()")
        assert done.killed == "disk"
        assert len(sandbox.snapshot()) <= 256 * LIMITS.disk_mb
        python(sandbox, "import os\nfor name in os.listdir('.'): name == 'kept.txt' or os.remove(name)")

    def test_one_file_has_a_largest_size(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["sh", "-c", "exec head -c 5000000 /dev/zero >big"])
        assert (done.killed, done.exit_code) == ("disk", 128 + signal.SIGXFSZ)
        sandbox.run(["rm", "big"])

    def test_memory_of_one_process_is_bounded(self, sandbox: Sandbox) -> None:
        done = python(sandbox, "x = bytearray(300 << 20)")
        assert done.exit_code == 1
        assert "MemoryError" in done.output

    def test_memory_of_all_processes_together_is_bounded(self, sandbox: Sandbox) -> None:
        code = """
            import os, time
            for _ in range(8):
                if os.fork() == 0:
                    x = bytearray(b"x") * (40 << 20)
                    time.sleep(30)
            time.sleep(30)
        """
        limits = LIMITS.model_copy(update={"memory_mb": 64})
        assert python(sandbox, code, limits).killed == "memory"

    def test_memory_that_forks_share_counts_once(self, sandbox: Sandbox) -> None:
        code = """
            import os, time
            x = bytearray(b"x") * (40 << 20)
            for _ in range(8):
                if os.fork() == 0:
                    time.sleep(0.4)
                    os._exit(0)
            for _ in range(8):
                os.wait()
            print("ok")
        """
        done = python(sandbox, code, LIMITS.model_copy(update={"memory_mb": 64}))
        assert (done.killed, done.output) == ("", "ok\n")

    def test_memory_outside_of_processes_is_not_to_be_had(self, sandbox: Sandbox) -> None:
        done = python(
            sandbox,
            """
            import ctypes, errno, os
            libc = ctypes.CDLL(None, use_errno=True)
            for call in (lambda: libc.shmget(0, 1 << 20, 0o1600), lambda: libc.memfd_create(b"x", 0),
                         lambda: libc.msgget(0, 0o1600), lambda: libc.semget(0, 1000, 0o1600)):
                print(call(), errno.errorcode[ctypes.get_errno()])
            """,
        )
        assert done.output == "-1 ENOSYS\n" * 4

    def test_endless_output_is_capped_while_it_is_read(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["yes", "x" * 100], limits=LIMITS.model_copy(update={"wall_s": 1.0}))
        assert done.killed == "time"
        assert len(done.output.encode()) < LIMITS.output_bytes + 60
        assert int(re.findall(r"(\d+) bytes left out", done.output)[0]) > 1_000_000

    def test_a_processor_hog_is_ended_by_the_kernel(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["sh", "-c", "while :; do :; done"], limits=LIMITS.model_copy(update={"cpu_s": 1.0}))
        assert (done.killed, done.exit_code) == ("time", 137)
        assert 0.5 < done.cpu_s < 3.0

    def test_signals_that_are_ignored_do_not_help(self, sandbox: Sandbox) -> None:
        limits = LIMITS.model_copy(update={"wall_s": 0.5})
        done = sandbox.run(["sh", "-c", "trap '' TERM INT HUP XCPU; while :; do sleep 5; done"], limits=limits)
        assert done.killed == "time"
        assert done.wall_s < 5.0

    def test_a_wall_clock_that_ends_before_the_command_begins_ends_it(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["sleep", "30"], limits=LIMITS.model_copy(update={"wall_s": 0.001}))
        assert done.killed == "time"
        assert done.wall_s < 5.0

    def test_input_that_is_never_read_hangs_nothing(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["sleep", "0.2"], stdin="x" * 5_000_000)
        assert (done.exit_code, done.killed) == (0, "")


class TestSecrets:
    def test_no_file_of_this_machine_but_its_programs_is_there(self, sandbox: Sandbox, tmp_path: Path) -> None:
        grader = tmp_path / "hidden_test.py"
        grader.write_text("SECRET-ANSWER")
        environment = [Path(sys.prefix)] if sys.prefix != sys.base_prefix else []
        system = [Path(path) for path in ("/etc/shadow", "/etc/hostname", "/var", "/run", "/home", "/sys")]
        for path in (grader, Path(__file__).resolve(), Path.home(), *environment, *system):
            done = sandbox.run(["cat", str(path)])
            assert done.exit_code != 0, path
            assert "SECRET" not in done.output
            assert sandbox.run(["ls", "-d", str(path)]).exit_code != 0, path

    def test_no_environment_variable_of_this_process_is_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        with Bubblewrap().open(Scene(env={"PLAIN": "1"})) as sandbox:
            shown = sandbox.run(["env"]).output
            everywhere = sandbox.run(["sh", "-c", "cat /proc/*/environ"]).output
        assert "sk-secret" not in shown + everywhere
        names = {line.partition("=")[0] for line in shown.splitlines()}
        expected = {"PATH", "HOME", "USER", "LANG", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PLAIN", "PWD"}
        assert names - {"_", "SHLVL", "OLDPWD"} == expected

    def test_no_process_of_this_machine_is_seen_or_reached(self, sandbox: Sandbox) -> None:
        assert sandbox.run(["sh", "-c", "ls /proc | grep -c '^[0-9]'"]).output.strip() in ("3", "4", "5")
        done = sandbox.run(["sh", "-c", f"kill -9 {os.getpid()} {os.getppid()}; cat /proc/{os.getpid()}/environ"])
        assert done.exit_code != 0
        assert "PATH" not in done.output

    def test_killing_its_process_1_fails_and_killing_its_parent_ends_the_command_only(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["sh", "-c", "kill -9 1; kill -9 $PPID; echo alive"])
        assert done.output == "alive\n"
        assert sandbox.run(["sh", "-c", "kill -9 -1; echo reached"]).exit_code in (0, 137)

    def test_process_1_does_not_open_a_way_out(self, sandbox: Sandbox) -> None:
        script = "ls /proc/1/root/; cat /proc/1/root/etc/shadow; ls /proc/1/cwd/.. /proc/self/fd"
        done = sandbox.run(["sh", "-c", script])
        assert "home" not in done.output
        assert "root:" not in done.output
        assert "No such file" in done.output

    def test_open_descriptors_of_this_process_are_not_passed_on(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("SECRET")
        with (tmp_path / "secret").open() as file:
            os.set_inheritable(file.fileno(), True)
            shown = sandbox.run(["sh", "-c", "ls -l /proc/self/fd /proc/1/fd; cat <&3 <&4 <&5 <&6 <&7"]).output
        assert "SECRET" not in shown
        assert "secret" not in shown

    def test_it_has_no_rights_and_cannot_get_any(self, sandbox: Sandbox) -> None:
        status = sandbox.run(["cat", "/proc/self/status"]).output
        assert re.findall(r"Cap(?:Prm|Eff|Bnd|Amb|Inh):\s*(\w+)", status) == ["0" * 16] * 5
        assert re.search(r"NoNewPrivs:\s*1", status)
        assert re.search(r"Seccomp:\s*2", status)
        assert sandbox.run(["id", "-u"]).output == "1000\n"
        spaces = ("unshare -Ur true", "unshare -m true", "nsenter -t 1 -m true", "chroot / true")
        for command in (*spaces, "mount -t tmpfs x /tmp", "su -c true", "chown 0 kept.txt", "mknod n b 254 0"):
            assert sandbox.run(["sh", "-c", command]).exit_code != 0, command

    def test_the_host_sees_it_as_nobody_where_heldout_is_root(self, sandbox: Sandbox) -> None:
        if os.geteuid() != 0:
            pytest.skip("Heldout is not run as root here")
        sandbox.run(["touch", "mine"])
        assert os.stat("mine", dir_fd=sandbox._files.work).st_uid == 65534  # type: ignore[attr-defined]

    def test_kernel_settings_cannot_be_written(self, sandbox: Sandbox) -> None:
        for path in ("sys/kernel/core_pattern", "sysrq-trigger", "sys/vm/drop_caches", "sys/user/max_user_namespaces"):
            assert sandbox.run(["sh", "-c", f"echo x >/proc/{path}"]).exit_code != 0, path


class TestNetwork:
    def test_a_server_on_this_machine_is_not_reached(self, sandbox: Sandbox) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            done = python(sandbox, f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=2)")
            assert "ConnectionRefusedError" in done.output
            server.settimeout(0.1)
            with pytest.raises(TimeoutError):
                server.accept()

    def test_there_is_no_way_out(self, sandbox: Sandbox) -> None:
        done = python(sandbox, "import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=2)")
        assert "Network is unreachable" in done.output
        names = sandbox.run(["sh", "-c", "cut -d: -f1 /proc/net/dev | tail -n +3"]).output.split()
        assert names == ["lo"]

    def test_an_abstract_socket_of_this_machine_is_not_reached(self, sandbox: Sandbox) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("\0heldout-hostile-test")
            server.listen()
            done = python(sandbox, "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0heldout-hostile-test')")
        assert "ConnectionRefusedError" in done.output

    def test_sockets_that_no_namespace_confines_are_not_to_be_had(self, sandbox: Sandbox) -> None:
        for family in (40, 38, 17):  # vsock reaches the hypervisor; alg the kernel's ciphers; packet the wire
            done = python(sandbox, f"import socket\nsocket.socket({family}, socket.SOCK_STREAM)")
            assert done.exit_code == 1
            assert "Address family not supported" in done.output

    def test_a_server_of_its_own_works(self, sandbox: Sandbox) -> None:
        code = """
            import socket
            server = socket.create_server(("127.0.0.1", 0))
            socket.create_connection(server.getsockname()).sendall(b"hi")
            print(server.accept()[0].recv(2).decode())
        """
        assert python(sandbox, code).output == "hi\n"


class TestFiles:
    def test_links_out_of_the_work_folder_are_not_followed(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("SECRET")
        links = {"a": "/etc/shadow", "b": f"{tmp_path}/secret", "c": str(tmp_path), "d": "/", "e": ".", "f": "kept.txt"}
        for name, target in links.items():
            assert sandbox.run(["ln", "-s", target, name]).exit_code == 0
        assert sandbox.snapshot() == {"kept.txt": "kept\n"}

    def test_special_files_do_not_hang_a_snapshot(self, sandbox: Sandbox) -> None:
        python(sandbox, "import os, socket\nos.mkfifo('f')\nsocket.socket(socket.AF_UNIX).bind('s')\nos.mkdir('d', 0)")
        sandbox.run(["sh", "-c", "echo x >closed; chmod 0 closed; mknod n c 1 5; ln -s /dev/zero z"])
        begun = time.monotonic()
        assert set(sandbox.snapshot()) - {"closed"} == {"kept.txt"}
        assert time.monotonic() - begun < 2.0

    def test_a_snapshot_is_bounded_where_files_are_larger_than_the_disk(self, sandbox: Sandbox) -> None:
        sandbox.run(["sh", "-c", "for i in 1 2 3 4 5 6; do truncate -s 3M hole$i; done"])
        shown = sandbox.snapshot()
        assert sum(len(text) for text in shown.values()) <= LIMITS.disk_mb << 20
        assert set(shown) == {"hole1", "hole2", "kept.txt"}

    def test_folders_without_end_and_names_without_text_are_left_out(self, sandbox: Sandbox) -> None:
        code = """
            import os
            open(b"\\xff\\xfe", "w").close()
            open("new\\nline", "w").close()
            for _ in range(900):
                os.mkdir("d"); os.chdir("d"); open("f", "w").close()
        """
        assert python(sandbox, code).exit_code == 0
        shown = sandbox.snapshot()
        assert "new\nline" in shown
        assert max(path.count("/") for path in shown) == 63
        assert all(path.isprintable() or path == "new\nline" for path in shown)

    def test_a_folder_that_turns_into_a_link_while_it_is_read_leads_nowhere(self, sandbox: Sandbox) -> None:
        flipper = sandbox.talk(
            ["sh", "-c", "read -r _; echo on; while :; do mkdir d; echo x >d/passwd; rm -r d; ln -s /etc d; rm d; done"]
        )
        assert flipper.ask("go", timeout_s=5.0) == "on"
        for _ in range(300):
            assert sandbox.snapshot().get("d/passwd", "x\n") in ("x\n", "")
        flipper.close()
        sandbox.run(["rm", "-rf", "d"])

    def test_read_only_mounts_are_read_only(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        (tmp_path / "data.txt").write_text("data")
        with Bubblewrap().open(Scene(mounts={str(tmp_path): "/data"}, limits=LIMITS)) as sandbox:
            assert sandbox.run(["cat", "/data/data.txt"]).output == "data"
            for script in (": >/data/new", "echo x >>/data/data.txt", "rm -f /data/data.txt", "chmod 777 /data"):
                assert sandbox.run(["sh", "-c", script]).exit_code != 0, script
        assert [path.name for path in tmp_path.iterdir()] == ["data.txt"]
        assert (tmp_path / "data.txt").read_text() == "data"

    def test_nothing_is_left_on_this_machine(self) -> None:
        mounts = Path("/proc/mounts").read_text()
        with Bubblewrap().open(Scene(files={"a": "b"})) as sandbox:
            sandbox.run(["touch", "/tmp/heldout-left", "/work/heldout-left"])
            assert Path("/proc/mounts").read_text() == mounts
            assert not Path("/tmp/heldout-left").exists()


class TestSurvivors:
    def test_nothing_outlives_its_command_however_it_detaches(self, sandbox: Sandbox) -> None:
        marker = f"31{os.getpid()}"
        script = f"(setsid sleep {marker} </dev/null >/dev/null 2>&1 &); nohup sleep {marker} >/dev/null 2>&1 & exit 4"
        done = sandbox.run(["sh", "-c", script])
        assert done.exit_code == 4
        assert done.wall_s < 5.0
        assert not processes_with(marker)

    def test_a_child_that_keeps_the_output_open_does_not_hold_up_the_end(self, sandbox: Sandbox) -> None:
        done = sandbox.run(["sh", "-c", "sleep 30 & echo done"])
        assert (done.output, done.exit_code) == ("done\n", 0)
        assert done.wall_s < 5.0

    def test_closing_the_sandbox_ends_a_command_that_another_thread_runs(self) -> None:
        results: list[Completed | SandboxError] = []
        with Bubblewrap().open(Scene(limits=LIMITS)) as sandbox:
            talk = sandbox.talk(["cat"])
            assert talk.ask("x", timeout_s=5.0) == "x"
            thread = threading.Thread(target=lambda: results.append(sandbox.run(["sleep", "30"])))
            thread.start()
            time.sleep(0.1)
        thread.join(5.0)
        assert isinstance(results[0], Completed)
        assert results[0].exit_code == 137
        with pytest.raises(SandboxError, match="closed"):
            sandbox.run(["true"])

    @pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.004, 0.3])
    def test_killing_heldout_leaves_nothing_running(self, delay_s: float) -> None:
        marker = f"32{os.getpid()}{int(delay_s * 1000)}"
        code = f"""
            import threading, sys
            from heldout.sandbox import Scene
            from heldout.sandbox.bubblewrap import Bubblewrap
            with Bubblewrap().open(Scene()) as sandbox:
                talk = sandbox.talk(["sh", "-c", "setsid sleep {marker} & while read -r line; do echo $line; done"])
                talk.ask("x", timeout_s=20)
                print("ready", flush=True)
                sandbox.run(["sh", "-c", "trap '' TERM; setsid sleep {marker} & sleep {marker}"])
        """
        with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE) as heldout:
            assert heldout.stdout is not None
            assert heldout.stdout.readline() == b"ready\n"
            time.sleep(delay_s)
            heldout.kill()
        # A start that was under way may still come to be for an instant, so one look is not enough.
        absent, deadline = 0, time.monotonic() + 20.0
        while absent < 20 and time.monotonic() < deadline:
            absent = 0 if processes_with(marker) else absent + 1
            time.sleep(0.01)
        assert absent == 20


class TestConversations:
    def test_an_answer_without_end_is_refused(self, sandbox: Sandbox) -> None:
        talk = sandbox.talk(["sh", "-c", "read -r _; cat /dev/zero"])
        with pytest.raises(SandboxError, match="4 MB without a line end"):
            talk.ask("x", timeout_s=10.0)

    def test_a_question_that_is_not_read_ends_at_its_timeout(self, sandbox: Sandbox) -> None:
        with pytest.raises(SandboxError, match="no answer within"):
            sandbox.talk(["sleep", "30"]).ask("x" * 5_000_000, timeout_s=0.5)

    def test_complaints_without_end_neither_block_nor_fill_memory(self, sandbox: Sandbox) -> None:
        talk = sandbox.talk(["sh", "-c", "read -r _; yes complaint | head -c 3000000 >&2; echo answer"])
        assert talk.ask("x", timeout_s=10.0) == "answer"

    def test_a_question_of_two_lines_is_refused(self, sandbox: Sandbox) -> None:
        with pytest.raises(SandboxError, match="one line"):
            sandbox.talk(["cat"]).ask("a\nb", timeout_s=5.0)

    def test_too_many_processes_between_questions_end_it(self, sandbox: Sandbox) -> None:
        script = "read -r _; echo ok; for i in $(seq 20); do sleep 30 & done; read -r _; echo still"
        talk = sandbox.talk(["sh", "-c", script])
        assert talk.ask("x", timeout_s=5.0) == "ok"
        time.sleep(0.6)
        with pytest.raises(SandboxError, match="limit of processes"):
            talk.ask("x", timeout_s=5.0)

    def test_threads_pass_a_conversation_on(self, sandbox: Sandbox) -> None:
        made: list[object] = []
        thread = threading.Thread(target=lambda: made.append(sandbox.talk(["cat"])))
        thread.start()
        thread.join()
        (talk,) = made
        assert talk.ask("still here", timeout_s=5.0) == "still here"  # type: ignore[attr-defined]


def processes_with(marker: str) -> list[str]:
    """Command lines on this machine that sleep for `marker`."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            line = (folder / "cmdline").read_text() if folder.name.isdigit() else ""
        except OSError:
            continue
        if line.startswith("sleep") and marker in line:
            found.append(line)
    return found
