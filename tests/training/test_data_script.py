"""Data builders that a model wrote: what they give, and what hostile ones do to us (nothing)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heldout.errors import ImproverError, SandboxError
from heldout.records import TrainTask
from heldout.sandbox import Limits
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.tasks.examples import Pair
from heldout.training.data_script import LINE_BYTES, SCRIPT_BYTES, run_data_script

FAULT = Bubblewrap().fault()
pytestmark = pytest.mark.skipif(FAULT is not None, reason=str(FAULT))

FAILURES = tuple(
    TrainTask(id=f"t{number}", input=f"Say \u2028{number}.", reference=f"ünï {number}", family="say")
    for number in range(3)
)
SOLUTIONS = {"t1": "It is 1."}
SMALL = Limits(wall_s=5.0, cpu_s=3.0, memory_mb=256, processes=8, file_mb=2, disk_mb=4, output_bytes=4096)
"""Tight, so that hostile scripts end soon."""

GOOD = """
import json, random, sys
count, seed = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)
tasks = [json.loads(line) for line in open("train.jsonl", encoding="utf-8")]
with open("examples.jsonl", "w", encoding="utf-8") as out:
    for number in range(count):
        task = rng.choice(tasks)
        row = {"prompt": f"{task['input']} ({number})", "completion": task["reference"]}
        out.write(json.dumps(row, ensure_ascii=False) + "\\n")
"""


def run(script: str, *, count: int = 5, seed: int = 7, limits: Limits = SMALL) -> tuple[Pair, ...]:
    """The script in the real sandbox."""
    return run_data_script(
        script, FAILURES, solutions=SOLUTIONS, sandbox=Bubblewrap(), count=count, seed=seed, limits=limits
    )


def writes(text: str) -> str:
    """A script that writes this text."""
    return f"open('examples.jsonl', 'w', encoding='utf-8').write({text!r})"


def line(prompt: object = "Ask.", completion: object = "Answer.") -> str:
    """A line of the examples."""
    return f"{json.dumps({'prompt': prompt, 'completion': completion}, ensure_ascii=False)}\n"


def test_a_script_reads_the_failures_and_its_examples_come_back() -> None:
    pairs = run(GOOD)
    assert len(pairs) == 5
    assert {pair.completion for pair in pairs} <= {"ünï 0", "ünï 1", "ünï 2"}
    assert pairs[4].prompt.endswith("(4)")
    assert {(pair.task, pair.score) for pair in pairs} == {("", None)}


def test_a_script_reads_an_answer_that_is_right_where_one_is_known() -> None:
    script = (
        "import json\n"
        "rows = [json.loads(row) for row in open('train.jsonl', encoding='utf-8').read().split('\\n') if row]\n"
        "with open('examples.jsonl', 'w') as file:\n"
        "    for row in rows:\n"
        "        print(json.dumps({'prompt': row['id'], 'completion': row['solution'] or 'unknown'}), file=file)\n"
    )
    assert [pair.completion for pair in run(script)] == ["unknown", "It is 1.", "unknown"]


def test_an_odd_escape_is_no_fault_and_no_warning_of_ours() -> None:
    assert len(run("x = '\\d'\n" + writes(line()))) == 1


def test_the_seed_is_all_its_randomness() -> None:
    assert run(GOOD) == run(GOOD) != run(GOOD, seed=8)


def test_more_than_was_asked_for_is_cut_and_less_is_taken() -> None:
    assert len(run(writes(line() * 9), count=4)) == 4
    assert len(run(writes(f"\n{line()}\n\n"), count=4)) == 1


ROWS = {
    "no JSON": ("{nope}\n", "line 2 of examples.jsonl is no JSON"),
    "a list": ('["a", "b"]\n', 'line 2 of examples.jsonl is not {"prompt": text, "completion": text}'),
    "a field too many": ('{"prompt": "a", "completion": "b", "id": "s1"}\n', "line 2 of examples.jsonl is not"),
    "a field missing": ('{"prompt": "a"}\n', "line 2 of examples.jsonl is not"),
    "a number": (line(3), "the prompt in line 2 of examples.jsonl is '3'; expected a text"),
    "a blank completion": (line("a", " \n"), "the completion in line 2 of examples.jsonl is"),
    "half a character": ('{"prompt": "\\ud800", "completion": "b"}\n', "the prompt in line 2 .* half a character"),
    "NUL": ('{"prompt": "a\\u0000", "completion": "b"}\n', "or NUL"),
    "deep": (f"{'[' * 20000}\n", "line 2 of examples.jsonl is no JSON"),
    "a huge number": (f"{'1' * 10000}\n", "line 2 of examples.jsonl is no JSON"),
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_wrong_line_is_named_and_nothing_is_taken(kind: str) -> None:
    text, fault = ROWS[kind]
    with pytest.raises(ImproverError, match=fault):
        run(writes(line() + text))


def test_a_huge_line_is_named_and_not_quoted() -> None:
    script = f"open('examples.jsonl', 'w').write({line()!r} + 'a' * {LINE_BYTES + 1})"
    with pytest.raises(ImproverError, match=rf"line 2 of examples.jsonl has {LINE_BYTES + 1} bytes; at most") as caught:
        run(script)
    assert len(str(caught.value)) < 200


def test_an_endless_script_is_killed() -> None:
    with pytest.raises(ImproverError, match=r"took more than 1 s, or 3 s of processor time"):
        run("while True: pass", limits=SMALL.model_copy(update={"wall_s": 1.0}))


HOSTILE = {
    "raises": ("raise ValueError('no idea')", r"ended with exit code 1; it said: .*no idea"),
    "exits": ("import sys; sys.exit(3)", "ended with exit code 3"),
    "leaves without a word": ("import os; os._exit(0)", "left no regular UTF-8 file examples.jsonl"),
    "forks": ("import os\nwhile True:\n    os.fork()", "processes at once|exit code"),
    "fills the disk": (
        "n = 0\nwhile True:\n    n += 1\n    open(f'f{n}', 'w').write('x' * 1000000)",
        "wrote more than 4 MB",
    ),
    "writes one huge file": ("f = open('examples.jsonl', 'w')\nwhile True: f.write('x' * 100000)", "2 MB|exit code"),
    "eats memory": ("x = []\nwhile True: x.append(bytearray(10 ** 7))", "exit code 1; it said: .*MemoryError"),
    "links to a file of the system": (
        "import os; os.symlink('/etc/passwd', 'examples.jsonl')",
        "left no regular UTF-8 file",
    ),
    "links to its input": ("import os; os.symlink('train.jsonl', 'examples.jsonl')", "left no regular UTF-8 file"),
    "a pipe": ("import os; os.mkfifo('examples.jsonl')", "left no regular UTF-8 file"),
    "a folder": ("import os; os.mkdir('examples.jsonl')", "left no regular UTF-8 file"),
    "no UTF-8": ("open('examples.jsonl', 'wb').write(b'\\xff\\xfe')", "left no regular UTF-8 file"),
    "nothing in it": ("open('examples.jsonl', 'w')", "wrote no example"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_script_is_an_improver_error_that_says_what_it_did(kind: str) -> None:
    script, fault = HOSTILE[kind]
    with pytest.raises(ImproverError, match=f"(?s){fault}"):
        run(script)


def test_endless_output_is_capped_and_does_not_hide_the_examples() -> None:
    noisy = f"import sys\nfor _ in range(3000): sys.stdout.write('x' * 1000)\n{writes(line())}"
    assert run(noisy) == (Pair(prompt="Ask.", completion="Answer."),)
    with pytest.raises(ImproverError) as caught:
        run("print('x' * 10**7)")
    assert len(str(caught.value)) < 3000


def test_there_is_no_network_and_nothing_of_this_machine_to_read() -> None:
    probing = f"""
import os, socket
try:
    socket.create_connection(("127.0.0.1", 22), timeout=1)
    raise SystemExit("reached the network")
except OSError:
    pass
if os.path.exists({str(Path(__file__).resolve())!r}) or "HELDOUT_SECRET" in os.environ or sorted(os.listdir(".")) != [
    "build.py", "train.jsonl"
]:
    raise SystemExit("saw too much")
{writes(line())}
"""
    assert len(run(probing)) == 1


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("", "at most 64000 bytes"),
        (f"#{'x' * SCRIPT_BYTES}", "at most 64000 bytes"),
        ("print('a\0')", "without NUL"),
        ("def f(:", "the data script is no Python"),
        ("x = '\ud800'", "the data script is no Python"),
        (f"x = {'-' * 60_000}1", "the data script is no Python"),
        (f"x = {'a.' * 30_000}a", "the data script is no Python"),
    ],
)
def test_what_is_no_script_is_told_before_a_sandbox_is_opened(script: str, fault: str) -> None:
    with pytest.raises(ImproverError, match=fault):
        run_data_script(script, FAILURES, solutions={}, sandbox=Closed(), count=1, seed=0)


class Closed:
    """A kind of sandbox that does not work here."""

    fingerprint = "closed"

    def fault(self) -> str | None:
        return "it is closed"

    def open(self, scene: object) -> object:  # noqa: ARG002 - the seam has it
        raise SandboxError("no sandbox starts here")


def test_without_a_sandbox_nothing_runs_and_the_script_is_not_to_blame(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with pytest.raises(SandboxError, match="no sandbox starts here"):
        run_data_script(f"open({str(mark)!r}, 'w')", FAILURES, solutions={}, sandbox=Closed(), count=1, seed=0)
    assert not mark.exists()
