"""What a failure looks like from outside: its error class and its message, with everything incidental masked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from heldout.harness.base import Replayed
from heldout.probes.base import Trace

__all__ = ["Ending", "command_ending", "ending", "error_class", "error_line", "masked", "replayed_classes", "signature"]

CHARACTERS = 120
"""Of a signature."""

_LOOKED_AT = 2000
"""Characters of a line that are masked; the time that masks take grows with the square of a line of signs alone."""

UNEXPLAINED = "wrong answer"
"""Signature of a failure of which nothing says why."""

_MASKS = (
    (re.compile(r"(?<!\w)(['\"`])(?:(?!\1).)*\1(?!\w)|‘[^’]*’|“[^”]*”"), "<str>"),
    (
        re.compile(r"(?<![\w<>/])(?:(?:~|\.{1,2})?/)?(?:[\w.@+-]+/)+[\w.@+-]*|(?<![\w<>/.])[~.]{0,2}/[\w.@+-]+"),
        "<path>",
    ),
    (
        re.compile(r"(?<![\w<>/])[\w-]+\.(?:pyi?|txt|md|json|toml|ya?ml|cfg|ini|csv|log|sh|c|h|js|ts|go|rs|java)\b"),
        "<path>",
    ),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b"), "<hex>"),
    (re.compile(r"(?:(?<!\w)[-+])?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)
"""In this order: a quotation may hold a path, a path a number."""

_RAISED = re.compile(
    r"^(?:E\s+)?(?:\w+\.)*([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Iteration))(?::\s*(.*))?$"
)
_ASSERTED = re.compile(r"^E\s+(assert\b.*)$")
_FAILED = re.compile(r"^(?:FAILED|ERROR)\b.* - (.+)$")
_COMPLAINT = re.compile(
    r"\b(error|fatal|fail(?:ed|ure)?|not found|no such|denied|invalid|unrecognized|unknown|cannot|unable)\b",
    re.IGNORECASE,
)
_OURS = re.compile(
    r"^\W*(?:exit(?:ed)?|return(?:ed)?)(?:\s+with)?(?:\s+(?:code|status))?\W*-?\d+\W*(?:killed:.*)?$"
    r"|^\(no output\)$|^\[\.\.\. \d+ of \d+ bytes left out \.\.\.\]$",
    re.IGNORECASE,
)
"""What a tool loop adds to an output."""

_PROGRAM_PATH = re.compile(r"^\S*/(?=[\w.-]+: )")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a failed episode ended, and who says so."""

    origin: Literal["", "episode", "command", "grader"]
    """Empty for an episode that did not fail. `episode`: a crash, the step limit, format errors. `command`: the last
    command that failed for good. `grader`: only the grader saw it, so the state that was left is what is wrong."""
    signature: str


def signature(trace: Trace) -> str:
    """Error class and masked message of a failure, at most 120 characters; empty for what did not fail."""
    return ending(trace).signature


def error_class(signature: str) -> str:
    """What stands before the first colon: the exception, the program that complained, or the whole of it."""
    return signature.partition(":")[0].strip()


def ending(trace: Trace) -> Ending:
    """How the trace ended: what stopped the episode, else what its commands or its grader say."""
    if trace.passed is not False:
        return Ending("", "")
    if trace.error:
        return Ending("episode", masked(_first_line(trace.error)))
    if trace.steps and trace.steps[-1].kind == "format_error":
        return Ending("episode", "format error")
    return command_ending(trace)


def command_ending(trace: Trace) -> Ending:
    """The ending that a replay can show: what stopped the episode is left out, since no model is in a replay.

    The last failing command that has something to say counts. One that the same command overcame later is not how
    the trace ended, and a silent one (a search without a hit) counts only where nobody says more.
    """
    ran = [(step.command, step.output, step.exit_code or 0) for step in trace.steps if step.kind == "command"]
    failing = _unrecovered((command or "", output, code) for command, output, code in ran)
    telling = [found for output, code in failing if (found := _said(output, code))]
    if telling:
        return Ending("command", telling[-1])
    if trace.feedback.strip():
        return Ending("grader", masked(error_line(trace.feedback)))
    return Ending("grader", f"exit {failing[-1][1]}" if failing else UNEXPLAINED)


def replayed_classes(commands: Sequence[str], replayed: Replayed) -> frozenset[str]:
    """The error class of every command of a replay that failed and was not overcome."""
    ran = zip(commands, replayed.outputs, replayed.exit_codes, strict=True)
    return frozenset(error_class(found) for output, code in _unrecovered(ran) if (found := _said(output, code)))


def masked(text: str) -> str:
    """The beginning of `text` on one line, quotations, paths, hexadecimal and other numbers masked, cut to 120."""
    text = text[:_LOOKED_AT]
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text.strip()[:CHARACTERS]


def error_line(output: str) -> str:
    """The line that says what went wrong: the last exception or assertion, else the last complaint, else the last."""
    lines = [line.strip() for line in output.splitlines()]
    lines = [line for line in lines if line and not _OURS.match(line)]
    for find in (_exception, _complaint):
        for line in reversed(lines):
            found = find(line)
            if found:
                return found
    return lines[-1] if lines else ""


def _exception(line: str) -> str:
    summary = _FAILED.match(line)
    line = summary.group(1).strip() if summary else line
    raised = _RAISED.match(line)
    if raised:
        return f"{raised.group(1)}: {raised.group(2)}" if raised.group(2) else raised.group(1)
    asserted = _ASSERTED.match(line) or (re.match(r"^(assert\b.*)$", line) if summary else None)
    return f"AssertionError: {asserted.group(1)}" if asserted else ""


def _complaint(line: str) -> str:
    return _PROGRAM_PATH.sub("", line) if _COMPLAINT.search(line) else ""


def _unrecovered(ran: Iterable[tuple[str, str, int]]) -> list[tuple[str, int]]:
    """Output and exit code of each failing command that did not succeed later, in order."""
    failing: dict[str, tuple[str, int]] = {}
    for command, output, code in ran:
        failing.pop(command, None)
        if code != 0:
            failing[command] = (output, code)
    return list(failing.values())


def _said(output: str, code: int) -> str:
    line = error_line(output)
    if code > 128 and not _exception(line):
        return f"killed: signal {code - 128}"
    return masked(line)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
