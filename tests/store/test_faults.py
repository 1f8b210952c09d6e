"""What the world does to a writer: kill -9, a full disk, a second process."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from heldout.errors import SetupError, StoreError
from heldout.records import Outcome
from heldout.store import Journal, RunLock, read_events

MakeOutcome = Callable[[int], Outcome]

PREAMBLE = """
import os, random, resource, signal, sys, time
from pathlib import Path
from heldout.errors import StoreError
from heldout.records import Outcome
from heldout.store import Journal, RunLock, read_events

def outcome(number):
    return Outcome(key=f"k{number}", purpose="select", candidate="c", task=f"t{number}", score=1.0, status="passed")
"""


def python(script: str, *arguments: object, under: tuple[str, ...] = ()) -> str:
    """Run a script in a process of its own; its output, or a failure with what it said."""
    command = [*under, sys.executable, "-c", PREAMBLE + textwrap.dedent(script), *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kill_9_at_twenty_moments_loses_nothing_that_was_returned(tmp_path: Path) -> None:
    """Each child counts in a pipe what `append` has returned for; it is killed in the middle of it."""
    path = tmp_path / "events.jsonl"
    script = """
    path = Path(sys.argv[1])
    moments = random.Random(7)
    for round in range(20):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            journal = Journal.open(path)
            for number in range(10**9):
                seq = journal.append("outcome", outcome(number)).seq
                os.write(write_end, b"%d\\n" % seq)
        os.close(write_end)
        first = os.read(read_end, 100)
        time.sleep(moments.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        seen = first
        while more := os.read(read_end, 65536):
            seen += more
        os.close(read_end)
        returned = int(seen.split()[-1])
        with Journal.open(path) as journal:
            kept = [event.seq for event in journal.read_from(0)]
            assert kept == list(range(len(journal)))
            assert len(kept) in (returned + 1, returned + 2), (len(kept), returned)
        print(len(kept))
    """
    sizes = [int(line) for line in python(script, path).split()]
    assert len(sizes) == 20
    assert sizes == sorted(set(sizes))


FILL = """
path, limit = Path(sys.argv[1]), int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
journal = Journal.open(path)
count = 0
try:
    while count < 100_000:
        journal.append("outcome", outcome(count))
        count += 1
except StoreError as error:
    message = str(error)
assert "the disk is full" in message and "--resume" in message and f"event {count} " in message, message
assert [event.data["task"] for event in read_events(path)] == [f"t{i}" for i in range(count)]
assert path.read_bytes().endswith(b"}\\n")
"""


def test_a_file_size_limit_is_told_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    python(FILL + "print(count)", path, 10_001)
    assert 9_000 < path.stat().st_size <= 10_001
    with Journal.open(path) as journal:
        assert journal.dropped == ""


def test_a_full_file_system_is_told_and_the_run_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """A real, small file system, in a mount namespace of the test's own."""
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}"
    unshare = ("unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh")
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], check=False, stderr=subprocess.DEVNULL).returncode
    ):
        pytest.skip("this machine lets nobody mount a file system")
    script = """
    filler.unlink()
    assert journal.append("outcome", outcome(count)).seq == count
    journal.close()
    with Journal.open(path) as journal:
        assert len(journal) == count + 1 and journal.dropped == ""
    """
    filler = "filler = Path(sys.argv[1]).with_name('filler')\nfiller.write_bytes(b'0' * 32768)\n"
    python(filler + FILL + textwrap.dedent(script), tmp_path / "events.jsonl", 0, under=unshare)


def test_a_device_that_is_full_refuses_and_stays_refused(five: Path, outcome: MakeOutcome) -> None:
    """Writing fails and cutting back fails too: nothing may follow what could be half a line."""
    content = five.read_bytes()
    journal = Journal.open(five)
    ours = [int(name) for name in os.listdir("/proc/self/fd") if _leads_to(name, five)]
    assert len(ours) == 1
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, ours[0])
    os.close(full)
    with pytest.raises(StoreError, match="the disk is full"):
        journal.append("outcome", outcome(5))
    with pytest.raises(StoreError, match="could not be cut off"):
        journal.append("outcome", outcome(5))
    assert five.read_bytes() == content
    assert [event.seq for event in journal.read_from(0)] == [0, 1, 2, 3, 4]
    with pytest.raises(StoreError, match=os.strerror(errno.EINVAL)):
        journal.close()
    with pytest.raises(StoreError, match="closed"):
        journal.append("outcome", outcome(5))


def _leads_to(descriptor: str, path: Path) -> bool:
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink() == path
    except OSError:
        return False


def test_a_second_writer_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    path = tmp_path / "writer.lock"
    child = subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + "lock = RunLock.acquire(Path(sys.argv[1])); print(); input()", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    host = os.uname().nodename
    with pytest.raises(SetupError, match=rf"written by process {child.pid} on {host} since 20\d\d-.*-c"):
        RunLock.acquire(path)
    child.communicate("\n")
    RunLock.acquire(path).release()


def test_the_lock_of_a_killed_process_counts_for_nothing_even_where_its_forks_live_on(tmp_path: Path) -> None:
    script = """
    path = Path(sys.argv[1])
    read_end, write_end = os.pipe()
    writer = os.fork()
    if writer == 0:
        lock = RunLock.acquire(path)
        worker = os.fork()
        if worker == 0:
            time.sleep(60)
        os.write(write_end, b"%d" % worker)
        time.sleep(60)
    worker = int(os.read(read_end, 20))
    try:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        os.kill(worker, 0)
        assert RunLock.acquire(path).holder.pid == os.getpid()
    finally:
        os.kill(worker, signal.SIGKILL)
    """
    python(script, tmp_path / "writer.lock")


def test_a_fork_does_not_take_the_lock_away_from_its_parent(tmp_path: Path) -> None:
    script = """
    path = Path(sys.argv[1])
    lock = RunLock.acquire(path)
    if os.fork() == 0:
        lock.release()
        os._exit(0)
    os.wait()
    try:
        RunLock.acquire(path)
    except Exception as error:
        print(error)
    """
    assert "is being written by process" in python(script, tmp_path / "writer.lock")


def test_release_lets_another_in_and_may_come_twice(tmp_path: Path) -> None:
    with RunLock.acquire(tmp_path / "writer.lock") as first, pytest.raises(SetupError, match=f"process {os.getpid()}"):
        RunLock.acquire(tmp_path / "writer.lock")
    first.release()
    RunLock.acquire(tmp_path / "writer.lock").release()


def test_an_unreadable_lock_file_still_keeps_a_second_writer_out(tmp_path: Path) -> None:
    path = tmp_path / "writer.lock"
    with RunLock.acquire(path):
        path.write_text("{")
        with pytest.raises(SetupError, match="written by another process"):
            RunLock.acquire(path)


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "writer.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(SetupError, match="cannot write in"):
        RunLock.acquire(tmp_path / "writer.lock")
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_folder_that_is_not_there_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot write in"):
        RunLock.acquire(tmp_path / "no" / "writer.lock")


def test_a_reader_beside_a_live_writer_only_ever_sees_a_whole_beginning(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            PREAMBLE
            + "journal = Journal.open(Path(sys.argv[1])); print(flush=True)\n"
            + "for number in range(20_000): journal.append('outcome', outcome(number))",
            path,
        ],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    counts = []
    while child.poll() is None:
        seqs = [event.seq for event in read_events(path)]
        assert seqs == list(range(len(seqs)))
        counts.append(len(seqs))
    child.stdout.close()
    assert child.returncode == 0
    assert counts == sorted(counts)
    assert sum(1 for _ in read_events(path)) == 20_000
