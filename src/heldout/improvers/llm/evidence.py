"""What an improver may read, as texts: traces, harness, method, history, and the outcome of its own round."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from heldout.harness.steps import Step
from heldout.improvers.agent import MetaView, RoundNote, RoundView
from heldout.probes.base import Attribution, SignatureEntry, Trace
from heldout.probes.claims import claim_status
from heldout.records import Claim, EditProposal, Evidence, digest_of, edits_digest

__all__ = [
    "attributions_text",
    "evidence_line",
    "history_text",
    "ledger_text",
    "meta_files",
    "proposal_files",
    "trace_path",
    "trace_text",
    "traces_text",
]

_UNSAFE = re.compile(r"[^\w.-]")


def proposal_files(view: RoundView) -> dict[str, str]:
    """The tree that a proposal is written from; nothing in it is not in the view."""
    files = {
        "evidence/report.md": view.report,
        "evidence/attributions.md": attributions_text(view.attributions),
        "evidence/ledger.md": ledger_text(view.ledger),
        "history/rounds.md": history_text(view.history),
    }
    files |= {trace_path(trace): trace_text(trace) for trace in view.traces.values()}
    files |= _placed("harness", view.head.files) | _placed("method", view.method.files)
    files |= view.files
    for number, base in view.bases.items():
        if base.digest != view.head.digest:
            files |= _placed(f"bases/{number}", base.files)
    return {path: text for path, text in files.items() if text}


def meta_files(view: MetaView) -> dict[str, str]:
    """The tree that the improver's own method is edited from."""
    files = {
        "evidence/card.md": view.card,
        "evidence/probes.md": "\n".join(evidence_line(item) for item in view.evidence),
        "evidence/proposals.md": proposals_text(view.proposals, view.evidence),
        "evidence/ledger.md": ledger_text(view.ledger),
        "history/rounds.md": history_text([view.note]),
    }
    files |= {trace_path(trace): trace_text(trace) for trace in view.traces.values()}
    files |= _placed("method", view.method.files)
    return {path: text for path, text in files.items() if text}


def trace_path(trace: Trace) -> str:
    """Where a trace is found; ids with odd characters are told apart by a digest."""
    name = _UNSAFE.sub("_", trace.task.id)
    return f"evidence/traces/{name if name == trace.task.id else f'{name}-{digest_of(trace.task.id)[:6]}'}.txt"


def trace_text(trace: Trace) -> str:
    """A recorded episode in full. Commands carry the numbers that probes count by."""
    head = [f"task: {trace.task.id}", f"outcome: {_outcome(trace)}"]
    head += [f"feedback: {trace.feedback}"] if trace.feedback else []
    head += [f"ended by: {trace.error}"] if trace.error else []
    if trace.measures:
        head.append("measures: " + ", ".join(f"{name} {value:g}" for name, value in sorted(trace.measures.items())))
    number = 0
    parts = ["\n".join(head), f"## The task\n{trace.task.input}"]
    for turn, step in enumerate(trace.steps, start=1):
        ran = step.kind == "command" and step.command is not None
        parts.append(_step_text(step, turn=turn, number=number if ran else None))
        number += ran
    return "\n\n".join(parts) + "\n"


def traces_text(traces: Iterable[Trace]) -> str:
    """One line for each trace, failures first."""
    rank = {False: 0, None: 1, True: 2}
    ordered = sorted(traces, key=lambda trace: (rank[trace.passed], trace.task.id))
    return "\n".join(f"- {trace.task.id}: {_outcome(trace)}, {len(trace.commands)} commands" for trace in ordered)


def attributions_text(found: Sequence[Attribution]) -> str:
    """Minimised traces: the fewest commands that still show an outcome."""
    return "\n".join(
        f"- {item.task}: {item.cause}; commands {list(item.keep)} of its trace suffice"
        f"{f'; {item.signature}' if item.signature else ''}\n"
        + "".join(f"    $ {line}\n" for command in item.commands for line in command.splitlines())
        for item in found
    )


def ledger_text(entries: Sequence[SignatureEntry]) -> str:
    """The failure ledger, one signature a line."""
    return "\n".join(
        f"- {entry.status} {entry.signature} (cause {entry.cause}, first in round {entry.first_round}, for example "
        f"{entry.example}; hits by round {', '.join(f'{n}: {len(ids)}' for n, ids in sorted(entry.hits.items()))})"
        for entry in entries
    )


def history_text(notes: Sequence[RoundNote]) -> str:
    """What became of earlier rounds."""
    return "\n".join(_note_text(note) for note in notes)


def proposals_text(proposals: Sequence[EditProposal], evidence: Sequence[Evidence]) -> str:
    """A round's proposals, the winner first, and what its evidence says of every claim."""
    parts = []
    for number, proposal in enumerate(proposals):
        title = "winner" if number == 0 else f"other {number}"
        lines = [f"## {title}: {proposal.note or proposal.error or 'nothing was submitted'}"]
        lines += [f"error: {proposal.error}"] if proposal.error else []
        lines += [f"edits {edit.path}: {_size(edit.content)}" for edit in proposal.edits]
        lines.append(f"predicted fixes: {', '.join(proposal.predicted_fixes) or 'none'}")
        lines += [_claim_line(claim, proposal, evidence) for claim in proposal.claims]
        if proposal.measures:
            lines.append(", ".join(f"{name} {value:g}" for name, value in sorted(proposal.measures.items())))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def evidence_line(item: Evidence) -> str:
    """One probe, in a line."""
    if item.refused:
        return f"{item.kind} of {', '.join(item.tasks) or 'nothing'}: not run, {item.refused}"
    step = "" if item.step is None else f", command {item.step}"
    parts = [f"evidence {item.id}: {item.kind} of {', '.join(item.tasks)}{step}: {item.verdict}"]
    parts += [f"confirmed flips: {', '.join(item.flips)}"] if item.flips else []
    parts += [f"passed once and failed the second run: {', '.join(item.unconfirmed)}"] if item.unconfirmed else []
    parts += [f"broke the canary {', '.join(item.broken)}"] if item.broken else []
    parts += [item.detail] if item.detail else []
    return "; ".join([*parts, f"{item.units} units"])


def _placed(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    return {f"{folder}/{path}": text for path, text in files.items()}


def _outcome(trace: Trace) -> str:
    return {True: "passed", False: "FAILED", None: "not measured"}[trace.passed]


def _step_text(step: Step, *, turn: int, number: int | None) -> str:
    lines = [f"## Turn {turn}: {step.kind}"]
    if step.text and step.text != step.command:
        lines.append(step.text)
    if step.command is not None:
        label = "not run" if number is None else f"command {number}"
        lines.append(f"[{label}] $ {step.command}")
    if step.output or step.exit_code is not None:
        code = "" if step.exit_code is None else f" (exit code {step.exit_code})"
        lines.append(f"[output{code}{f', killed: {step.killed}' if step.killed else ''}]\n{step.output}")
    return "\n".join(lines)


def _note_text(note: RoundNote) -> str:
    parts = [f"- round {note.round}: {note.verdict}{f' {note.label}' if note.label else ''}"]
    parts += [note.note] if note.note else []
    parts += [f"edited {', '.join(note.edited)}"] if note.edited else []
    if note.select_before is not None and note.select_after is not None:
        parts.append(f"select score {note.select_before:.3f} → {note.select_after:.3f}")
    parts += [f"select tasks fixed: {', '.join(note.fixed)}"] if note.fixed else []
    parts += [f"select tasks broken: {', '.join(note.broken)}"] if note.broken else []
    if note.predictions:
        parts.append("predictions: " + ", ".join(f"{task} {outcome}" for task, outcome in note.predictions.items()))
    return "; ".join(parts)


def _claim_line(claim: Claim, proposal: EditProposal, evidence: Sequence[Evidence]) -> str:
    status = claim_status(claim, evidence, edits=edits_digest(proposal.edits), base=_base_of(proposal, evidence))
    return f"claim on {claim.task}: {claim.diagnosis} ({status}; cites {', '.join(claim.evidence) or 'nothing'})"


def _base_of(proposal: EditProposal, evidence: Sequence[Evidence]) -> str:
    """The base of the probes of exactly these edits: the view of a meta-episode names no other."""
    edits = edits_digest(proposal.edits)
    return next((item.base for item in evidence if item.edits == edits), "")


def _size(content: str | None) -> str:
    return "deleted" if content is None else f"{len(content)} characters"
