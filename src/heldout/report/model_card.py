"""The README.md of an exported model: where it comes from, what it was trained on, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heldout.report.numbers import count, interval, percent, points, signed
from heldout.report.summary import RunSummary
from heldout.report.training_history import TrainingHistory
from heldout.report.training_lineage import ModelRow
from heldout.report.untrusted import one_line
from heldout.report.verdict import lost_abilities
from heldout.store.events import AuditResult
from heldout.store.weights import WeightsOrigin

__all__ = ["Origins", "model_card"]

_LOAD = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForCausalLM.from_pretrained("{folder}")
```"""


@dataclass(frozen=True, slots=True)
class Origins:
    """What the store of weights says of the exported ones."""

    weights: str
    """Digest in the run's store."""
    ancestry: Sequence[tuple[str, WeightsOrigin]]
    """These weights, their parent, and so on to the checkpoint that was brought."""
    merged: bool
    """They were adapters, merged on their base for this folder."""
    folder: str
    """Name of the exported folder."""
    setting: str
    """How the model was asked: harness, temperature, longest reply."""
    instruction: str = ""
    """The system turn of training and evaluation."""


def model_card(summary: RunSummary, training: TrainingHistory, origins: Origins) -> str:
    """Markdown. Every figure is of the run's journal; `heldout show RUN` prints them again."""
    parts = [
        "---\nlibrary_name: transformers\npipeline_tag: text-generation\n---",
        f"# {one_line(summary.started.run, 80)}",
        _summary(summary, origins),
        "## Load it",
        _LOAD.format(folder=origins.folder),
        _asked(origins),
        "## What was measured",
        *_measured(summary),
        "## What it was measured on elsewhere",
        *_elsewhere(summary, training),
        "## Where it comes from",
        _lineage(training, origins),
        _repeat(summary),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(summary: RunSummary, origins: Origins) -> str:
    base = origins.ancestry[-1][1].source or origins.ancestry[-1][0][:12]
    made = (
        f"Trained from `{_code(base)}` by the loop `{_code(summary.started.loop)}` of Heldout {summary.started.heldout}"
    )
    made += f", for the tasks `{_code(summary.started.source)}`: {one_line(summary.started.description, 600)}"
    if summary.start.digest == summary.final.digest:
        made += "\n\n**This is the start checkpoint itself: nothing that was trained was better.**"
    if summary.started.simulated_improver:
        made += f"\n\n**The improver {one_line(summary.started.improver, 60)} was a simulation of one.**"
    return made


def _asked(origins: Origins) -> str:
    told = f"Measured with {origins.setting}."
    if origins.instruction.strip():
        told += f" System turn in training and evaluation:\n\n```text\n{origins.instruction.strip()}\n```"
    return told


def _measured(summary: RunSummary) -> Iterator[str]:
    audit, gains = summary.audit, summary.gains
    if audit is None:
        yield "**Nobody has checked the gain**: the audit role is still sealed."
    elif audit.gain is None or audit.n_tasks == 0 or audit.start == audit.final:
        yield "The final is the start, so there was no gain to audit."
        yield from _notes(summary)
        return
    else:
        yield (
            f"Audited gain over the start: **{points(audit.gain)}** ({audit.confidence * 100:.0f} % interval "
            f"{interval(audit.interval)}) on {count(audit.n_tasks)} tasks that no decision and no training example "
            f"saw: {percent(audit.start_mean)} before, {percent(audit.final_mean)} after. "
            + (f"{count(audit.missing)} tasks were not measured." if audit.missing else "Every task was measured.")
        )
    believed = f"The search itself saw {points(gains.believed)} on the tasks that it chose by"
    over, gap = "", gains.overstatement
    if gap is not None:
        more = "as much as" if signed(gap) == "0.0" else f"{signed(gap)[1:]} {'more' if gap > 0 else 'less'} than"
        over = f", {more} the audit found"
    yield f"{believed}{over}."
    yield from _notes(summary)


def _notes(summary: RunSummary) -> Iterator[str]:
    yield from (f"Note: {one_line(note, 400)}" for note in summary.notes)


def _elsewhere(summary: RunSummary, training: TrainingHistory) -> Iterator[str]:
    measured = [one for one in summary.reports if one.gain is not None and one.n_tasks and one.start != one.final]
    if not measured:
        spoilt = "" if summary.start.digest == summary.final.digest else ", and training may have spoiled it"
        yield f"Nothing: what else the model can or cannot do was not measured{spoilt}."
        return
    rows = [row for one in measured for row in _rows(one)]
    yield "| role | tasks | start | final | gain | interval |\n|---|--:|--:|--:|--:|--:|\n" + "\n".join(rows)
    yield from (f"**{sentence}**" for sentence in lost_abilities(summary))
    if training.floor is not None:
        yield training.floor.sentence


def _rows(found: AuditResult) -> Iterator[str]:
    role = _cell(found.role)
    yield _row(role, found.n_tasks, (found.start_mean, found.final_mean, found.gain), found.interval)
    for one in found.families:
        name = f"{role}: {_cell(one.family or 'no family')}"
        yield _row(name, one.n_tasks, (one.start_mean, one.final_mean, one.gain), one.interval)


def _row(name: str, tasks: int, levels: tuple[float | None, ...], ends: tuple[float, float] | None) -> str:
    start, final, gain = levels
    return f"| {name} | {count(tasks)} | {percent(start)} | {percent(final)} | {signed(gain)} | {interval(ends)} |"


def _lineage(training: TrainingHistory, origins: Origins) -> str:
    known = {row.weights: row for row in training.models if row.weights is not None}
    lines = [_step(digest, origin, known.get(digest)) for digest, origin in reversed(origins.ancestry)]
    merged = "Adapters, merged on their base for this folder. " if origins.merged else ""
    return f"{merged}Weights in the run's store: `{origins.weights}`.\n\n" + "\n".join(lines)


def _step(digest: str, origin: WeightsOrigin, row: ModelRow | None) -> str:
    if origin.parent is None:
        return f"1. `{digest}`: the checkpoint that was brought, `{_code(origin.source)}`."
    why = f" {one_line(row.note, 120)}, round {row.round} ({row.fate})," if row is not None else ""
    return f"1. `{digest}`:{why} data `{origin.data}`, config `{origin.config}`, seed {origin.seed}."


def _repeat(summary: RunSummary) -> str:
    return f"The run is repeated by\n\n```sh\n{one_line(summary.started.command, 2000)}\n```"


def _code(text: str) -> str:
    """Untrusted text inside backticks."""
    return one_line(text, 120).replace("`", "'")


def _cell(text: str) -> str:
    """Untrusted text inside a table."""
    return one_line(text, 60).replace("|", "/").replace("`", "'")
