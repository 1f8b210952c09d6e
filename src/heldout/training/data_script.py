"""Runs a data builder that a language model wrote, in a sandbox, and checks every line of what it wrote."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from heldout.errors import ImproverError
from heldout.records import TrainTask
from heldout.sandbox import Completed, Limits, Sandboxes, Scene
from heldout.sandbox.syntax import syntax_tree
from heldout.tasks.examples import Pair

__all__ = [
    "EXAMPLES_FILE",
    "LINE_BYTES",
    "SCRIPT_BYTES",
    "SCRIPT_FILE",
    "SCRIPT_LIMITS",
    "TRAIN_FILE",
    "run_data_script",
    "script_fault",
]

SCRIPT_FILE, TRAIN_FILE, EXAMPLES_FILE = "build.py", "train.jsonl", "examples.jsonl"

SCRIPT_BYTES = 64_000
"""Longest script."""
LINE_BYTES = 64_000
"""Longest line of the examples."""
SCRIPT_LIMITS = Limits(wall_s=60.0, cpu_s=45.0, memory_mb=1024, processes=16, file_mb=32, disk_mb=64, output_bytes=8192)
"""Of one run; no network, and nothing of this machine but its Python."""

_FIELDS = {"prompt", "completion"}
_SAID = 1_500
"""Characters of a script's own output that an error quotes."""
_SHOWN = 120


def run_data_script(
    script: str,
    failures: Sequence[TrainTask],
    *,
    solutions: Mapping[str, str],
    sandbox: Sandboxes,
    count: int,
    seed: int,
    limits: Limits = SCRIPT_LIMITS,
) -> tuple[Pair, ...]:
    """The first `count` examples that `python3 build.py COUNT SEED` writes to `examples.jsonl`.

    The script finds `train.jsonl`: the failed train tasks as lines {"id", "input", "family", "reference",
    "solution"}, the last from `solutions` (an answer that is right, by task id; empty where none is known). Each line
    of its output is {"prompt": text, "completion": text}, both not blank. `ImproverError` for whatever is wrong with
    the script or a line, which it names; `SandboxError` where the sandbox itself failed, which says nothing of the
    script. It never runs outside a sandbox.
    """
    fault = script_fault(script)
    if fault:
        raise ImproverError(fault)
    shown = {"id", "input", "family", "reference"}
    rows = [task.model_dump(include=shown) | {"solution": solutions.get(task.id, "")} for task in failures]
    train = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    scene = Scene(files={SCRIPT_FILE: script, TRAIN_FILE: train}, limits=limits)
    with sandbox.open(scene) as box:
        ended = box.run(["python3", SCRIPT_FILE, str(count), str(seed)])
        if ended.exit_code != 0 or ended.killed:
            raise ImproverError(_why_it_ended(ended, limits))
        written = box.snapshot().get(EXAMPLES_FILE)
    if written is None:
        raise ImproverError(
            f"the data script left no regular UTF-8 file {EXAMPLES_FILE} in its working folder{_quoted(ended.output)}"
        )
    pairs = tuple(_pair(line, number) for number, line in enumerate(_lines(written), start=1) if line.strip())
    if not pairs:
        raise ImproverError(f"the data script wrote no example to {EXAMPLES_FILE}{_quoted(ended.output)}")
    return pairs[:count]


def script_fault(script: str) -> str:
    """What is wrong with a script before anything of it runs: its size, its signs, its syntax; empty where nothing is.

    It is only parsed, as `ast.parse` would.
    """
    size = len(script.encode("utf-8", "replace"))
    if not script.strip() or size > SCRIPT_BYTES or "\0" in script:
        return f"a data script is a text of at most {SCRIPT_BYTES} bytes without NUL; this one has {size} bytes"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an odd escape in somebody else's text
            syntax_tree(script, SCRIPT_FILE)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as cause:
        return f"the data script is no Python: {cause or type(cause).__name__}"
    return ""


def _why_it_ended(ended: Completed, limits: Limits) -> str:
    words = {
        "time": f"took more than {limits.wall_s:g} s, or {limits.cpu_s:g} s of processor time",
        "processes": f"had more than {limits.processes} processes at once",
        "disk": f"wrote more than {limits.disk_mb} MB, or a file of more than {limits.file_mb} MB",
        "memory": f"used more memory than it may ({limits.memory_mb} MB a process)",
    }
    fault = words.get(ended.killed, f"ended with exit code {ended.exit_code}")
    return f"the data script {fault}{_quoted(ended.output)}"


def _quoted(output: str) -> str:
    said = output.strip()[-_SAID:]
    return f"; it said: {said}" if said else ""


def _lines(text: str) -> list[str]:
    """Only at line feeds: a text may hold other signs that Python takes for line ends."""
    return text.split("\n")


def _pair(line: str, number: int) -> Pair:
    where = f"line {number} of {EXAMPLES_FILE}"
    size = len(line.encode("utf-8", "replace"))
    if size > LINE_BYTES:
        raise ImproverError(f"{where} has {size} bytes; at most {LINE_BYTES} are allowed")
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as cause:
        raise ImproverError(f"{where} is no JSON ({cause}): {line[:_SHOWN]!r}") from cause
    if not isinstance(row, dict) or row.keys() != _FIELDS:
        raise ImproverError(f'{where} is not {{"prompt": text, "completion": text}}: {line[:_SHOWN]!r}')
    for name in sorted(_FIELDS):
        _check_text(row[name], f"{name} in {where}")
    return Pair(prompt=row["prompt"], completion=row["completion"])


def _check_text(value: Any, what: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ImproverError(f"the {what} is {str(value)[:_SHOWN]!r}; expected a text that is not blank")
    if any("\ud800" <= sign <= "\udfff" or sign == "\0" for sign in value):
        raise ImproverError(f"the {what} holds half a character (a lone surrogate) or NUL, which no file of texts can")
