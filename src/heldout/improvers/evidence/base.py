"""The seam to evidence styles, and the texts that they share.

Nothing here holds a select, audit or test body: of select tasks there are ids only, in the notes of earlier rounds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from heldout.improvers.agent import RoundNote
from heldout.probes.base import Attribution, SignatureEntry, Trace
from heldout.records import Verdict

__all__ = [
    "REPORT_BYTES",
    "TRACE_BYTES",
    "EvidenceReport",
    "EvidenceSource",
    "Materials",
    "attribution_text",
    "clipped",
    "frontier_text",
    "history_text",
    "ledger_text",
    "listed",
    "mean_turns",
    "shared_files",
    "trace_path",
    "trace_text",
]

REPORT_BYTES = 16 * 1024
"""Longest text of a report, in UTF-8. Longer ones keep their head and tail with a line between that says so."""

TRACE_BYTES = 48 * 1024
"""Longest file of one trace; each of its outputs is cut first, to `_OUTPUT_BYTES`."""

_OUTPUT_BYTES = 8 * 1024
_FILE_BYTES = 32 * 1024
"""Longest other file."""


@dataclass(frozen=True, slots=True)
class Materials:
    """What a round has to show."""

    round: int
    traces: Mapping[str, Trace]
    """Train id to its newest trace under the head."""
    attributions: tuple[Attribution, ...] = ()
    ledger: tuple[SignatureEntry, ...] = ()
    history: tuple[RoundNote, ...] = ()
    turns_passed: float | None = None
    """Mean turns of the episodes that passed; None where none did."""
    turns_failed: float | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    """Files of the executor to show, read-only."""


@dataclass(frozen=True, slots=True)
class EvidenceReport:
    """What an improver is given to read."""

    text: str
    """At most `REPORT_BYTES`."""
    files: Mapping[str, str]
    """Relative path to text, for an improver that can browse; each of bounded size."""


class EvidenceSource(Protocol):
    """A style of showing trajectories; fixed in a run. A pure function of the materials."""

    name: str

    def report(self, materials: Materials) -> EvidenceReport:
        """The report of a round."""


def mean_turns(traces: Iterable[Trace]) -> tuple[float | None, float | None]:
    """Mean turns of passing and of failing episodes; a trace that was not measured counts on neither side."""
    turns: dict[bool, list[float]] = {True: [], False: []}
    for trace in traces:
        if trace.passed is not None:
            turns[trace.passed].append((trace.measures or {}).get("turns", float(len(trace.steps))))
    passed, failed = (sum(found) / len(found) if found else None for found in (turns[True], turns[False]))
    return passed, failed


def clipped(text: str, limit_bytes: int) -> str:
    """`text` in at most so many bytes: two thirds of the head and a third of the tail around a line that says what is
    missing. Limits below 120 bytes leave no room for that line."""
    data = text.encode(errors="replace")
    if len(data) <= limit_bytes:
        return text
    room = limit_bytes - 80
    head, tail = data[: room - room // 3], data[len(data) - room // 3 :]
    missing = len(data) - len(head) - len(tail)
    return f"{head.decode(errors='ignore')}\n[… {missing} bytes left out …]\n{tail.decode(errors='ignore')}"


def listed(ids: Sequence[str], most: int = 12) -> str:
    """Ids in one line, the first ones and the number of the rest."""
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more if ids else "none"


def trace_path(task: str) -> str:
    """Where the trace of a task lies among the files."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", task).lstrip(".")[:100] or "_"
    if name != task:
        name += "-" + hashlib.sha256(task.encode(errors="replace")).hexdigest()[:8]
    return f"traces/{name}.md"


def trace_text(trace: Trace) -> str:
    """One episode in full, as far as it fits."""
    lines = [f"# {trace.task.id}", "", f"Result: {result_of(trace)}"]
    if trace.error:
        lines.append(f"Ended by: {trace.error}")
    if trace.measures:
        lines.append("Counted: " + ", ".join(f"{name} {value:g}" for name, value in sorted(trace.measures.items())))
    lines += ["", "## Task", "", trace.task.input.strip()]
    commands = 0
    for number, step in enumerate(trace.steps):
        lines += ["", f"## Turn {number}: {step.kind}", ""]
        lines += [step.text.strip(), ""] if step.text.strip() else []
        if step.command is not None:
            label = f"command {commands}" if step.kind == "command" else "command, not run"
            commands += step.kind == "command"
            lines += [f"{label}, exit {step.exit_code}{f', killed by {step.killed}' if step.killed else ''}:"]
            lines += [step.command, ""]
        lines += ["output:", clipped(step.output.rstrip(), _OUTPUT_BYTES)] if step.output.strip() else []
    if trace.feedback.strip():
        lines += ["", "## What the grader says", "", clipped(trace.feedback.strip(), _OUTPUT_BYTES)]
    return clipped("\n".join(lines) + "\n", TRACE_BYTES)


def result_of(trace: Trace) -> str:
    """`passed`, `failed` or `not measured`."""
    return {True: "passed", False: "failed", None: "not measured"}[trace.passed]


def attribution_text(attributions: Iterable[Attribution]) -> str:
    """Minimised traces: what of a failure or a success suffices to show it."""
    blocks = []
    for one in attributions:
        about = f"failure `{one.signature}`, cause: {one.cause}" if not one.passed else "success"
        kept = "\n".join(f"    {command}" for command in one.commands)
        numbers = ", ".join(map(str, one.keep)) or "none"
        blocks.append(f"### {one.task}\n{about}; commands that suffice: {numbers} ({one.replays} replays)\n{kept}")
    return clipped("## Minimised traces\n\n" + ("\n\n".join(blocks) or "None in this round."), _FILE_BYTES) + "\n"


def ledger_text(ledger: Iterable[SignatureEntry]) -> str:
    """Every failure signature with its fate, those that grow first."""
    order = {"GROWING": 0, "ALIVE": 1, "EXTINCT": 2}
    rows = [
        f"- {entry.status} `{entry.signature}`: since round {entry.first_round}, cause {entry.cause}, "
        f"hits {', '.join(f'{number}: {len(ids)}' for number, ids in sorted(entry.hits.items())) or 'none'}, "
        f"for example {entry.example}"
        for entry in sorted(ledger, key=lambda entry: (order.get(entry.status, 3), entry.signature))
    ]
    return clipped("## Failure ledger\n\n" + ("\n".join(rows) or "Not kept in this run."), _FILE_BYTES) + "\n"


def frontier_text(history: Iterable[RoundNote]) -> str:
    """Select ids that each kept round fixed and lost."""
    rows = [
        f"- round {note.round}: FIXED {listed(note.fixed, 40)}; LOST {listed(note.broken, 40)}"
        for note in history
        if note.verdict == Verdict.ACCEPT
    ]
    return (
        clipped("## Frontier of select tasks, by id\n\n" + ("\n".join(rows) or "No round was kept."), _FILE_BYTES)
        + "\n"
    )


def history_text(history: Iterable[RoundNote]) -> str:
    """What became of earlier rounds."""
    rows = []
    for note in history:
        scores = f"{_score(note.select_before)} to {_score(note.select_after)}"
        predicted = ", ".join(f"{task} {found}" for task, found in sorted(note.predictions.items()))
        rows.append(
            f"- round {note.round}: {note.verdict}{f', {note.label}' if note.label else ''}; select {scores}; "
            f"edited {', '.join(note.edited) or 'nothing'}{f'; predictions: {predicted}' if predicted else ''}"
            f"{f'; {clipped(note.note, 600)}' if note.note else ''}"
        )
    return clipped("## Earlier rounds\n\n" + ("\n".join(rows) or "This is the first round."), _FILE_BYTES) + "\n"


def shared_files(materials: Materials) -> dict[str, str]:
    """The files of every style: one a trace, and one for each other kind of material."""
    files = {trace_path(task): trace_text(trace) for task, trace in sorted(materials.traces.items())}
    files["attributions.md"] = attribution_text(materials.attributions)
    files["ledger.md"] = ledger_text(materials.ledger)
    files["frontier.md"] = frontier_text(materials.history)
    files["history.md"] = history_text(materials.history)
    return files | {f"source/{path}": clipped(text, _FILE_BYTES) for path, text in materials.source.items()}


def _score(score: float | None) -> str:
    return "not measured" if score is None else f"{100 * score:.1f} %"
