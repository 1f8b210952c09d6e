"""Everything that the HTML page shows, gathered once from the index and the candidate folders."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heldout.report.agent_page import AgentPage, gather_agents
from heldout.report.candidate_files import CandidateFiles
from heldout.report.charts import GainMark, Series, candidate_dots, gain_forest, level_curve
from heldout.report.diffs import FileDiff
from heldout.report.fates import Fate
from heldout.report.history import CandidateRow, GenerationRow, candidates, generations, oracle_role
from heldout.report.marks import Dot, Point
from heldout.report.queries import (
    Flicker,
    Flips,
    Mean,
    Means,
    MissingReason,
    flickering,
    flips,
    means,
    missing_reasons,
)
from heldout.report.skill_arms import learning_name
from heldout.report.skill_page import SkillPage, gather_skills
from heldout.report.summary import RunSummary, summary
from heldout.report.training_page import TrainingPage, gather_training
from heldout.report.verdict import Verdict, verdict
from heldout.store import RunFolder

__all__ = ["Charts", "Entry", "Page", "Round", "gather"]

_MAX_DIFFS = 200
"""Proposals whose difference is written out; a page of thousands would be too large to open."""

_WIDTHS = (760, 340)
"""Of a chart on a desk and on a phone, in pixels."""

_Z95 = 1.96
"""Normal quantile: the bands of the curve are drawn, not decided on."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One proposal with its difference against its parent."""

    row: CandidateRow
    diff: tuple[FileDiff, ...] | None
    """None where it is not written out, or a folder cannot be read."""


@dataclass(frozen=True, slots=True)
class Round:
    """One generation: its decision and its proposals."""

    generation: int
    decided: GenerationRow | None
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Charts:
    """Each chart for a desk and for a phone; empty where there is nothing to draw."""

    gains: tuple[Markup, ...]
    curve: tuple[Markup, ...]
    candidates: tuple[Markup, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """What the template is given."""

    summary: RunSummary
    verdict: Verdict
    charts: Charts
    rounds: tuple[Round, ...]
    change: tuple[FileDiff, ...] | None
    final_files: Mapping[str, str] | None
    flips: Flips | None
    flickering: tuple[Flicker, ...]
    missing: tuple[MissingReason, ...]
    oracle: str | None
    config: str | None
    """Text of the run's config file, to repeat it with."""
    agents: AgentPage | None
    """What a loop over agents did in its rounds; None for other loops."""
    skills: SkillPage | None
    """What a loop over skills did, and how much of its gain was retained; None for other loops."""
    training: TrainingPage | None
    """What a loop over model weights did; None for other loops."""

    @property
    def learning(self) -> str:
        """What the audited gain of a loop over skills is called."""
        return "" if self.skills is None else learning_name(self.skills.start_name, self.skills.history.target)


def gather(connection: sqlite3.Connection, run: RunFolder) -> Page:
    """Read the run once; a candidate folder that cannot be read leaves its difference out, and nothing else."""
    measured = means(connection)
    whole = summary(connection, known=measured)
    agents, skills, training = whole.agents, whole.skills, whole.training
    known = measured if agents is None else agents.with_confirmed(measured)
    known = known if skills is None else skills.with_decided(measured)
    known = known if training is None else training.with_decided(measured)
    steps = generations(connection, known=known, skills=skills)
    rows = candidates(connection, known=known, agents=agents, skills=skills, training=training)
    folders = CandidateFiles(run)
    final = folders.files(whole.final.digest)
    return Page(
        summary=whole,
        verdict=verdict(whole),
        charts=_charts(whole, known, steps=steps, rows=rows),
        rounds=_rounds(rows, steps, folders=folders),
        change=folders.diff(whole.start.digest, whole.final.digest),
        final_files=final,
        flips=flips(connection, whole.audit) if whole.audit else None,
        flickering=flickering(connection),
        missing=missing_reasons(connection),
        oracle=oracle_role(connection),
        config=_config(run),
        agents=None if agents is None else gather_agents(connection, run, agents=agents, files=folders),
        skills=None if skills is None else gather_skills(connection, whole, skills=skills, files=folders),
        training=None if training is None else gather_training(whole, known, training=training, run=run),
    )


def _rounds(
    rows: Sequence[CandidateRow], steps: Sequence[GenerationRow], *, folders: CandidateFiles
) -> tuple[Round, ...]:
    shown = _written_out(rows)
    entries: dict[int, list[Entry]] = {}
    for place, row in enumerate(rows):
        if row.fate is Fate.START:
            continue
        diff = folders.diff(row.parent, row.digest) if place in shown and row.parent else None
        entries.setdefault(row.generation, []).append(Entry(row, diff))
    decided = {step.generation: step for step in steps if step.decision is not None}
    return tuple(
        Round(generation, decided.get(generation), tuple(entries.get(generation, ())))
        for generation in sorted(entries.keys() | decided.keys())
    )


def _written_out(rows: Sequence[CandidateRow]) -> frozenset[int]:
    """Accepted proposals first, then the latest."""
    order = sorted(range(len(rows)), key=lambda place: (rows[place].fate is Fate.ACCEPTED, place), reverse=True)
    return frozenset(order[:_MAX_DIFFS])


def _charts(whole: RunSummary, known: Means, *, steps: Sequence[GenerationRow], rows: Sequence[CandidateRow]) -> Charts:
    last = max((step.generation for step in steps), default=0)
    series = _curve(whole, steps, known=known)
    unit = "generation" if whole.agents is None and whole.skills is None and whole.training is None else "round"
    dots = _dots(rows, unit=unit)
    incumbents = [
        Point(step.generation, step.incumbent_select.value)
        for step in steps
        if step.generation and step.incumbent_select.value is not None
    ]
    marks = _marks(whole)
    return Charts(
        gains=tuple(gain_forest(marks, width=width) for width in _WIDTHS if marks),
        curve=tuple(
            level_curve(series, generations=last, width=width, unit=unit) for width in _WIDTHS if series and last
        ),
        candidates=tuple(
            candidate_dots(dots, incumbents, generations=last, width=width, unit=unit)
            for width in _WIDTHS
            if dots and last
        ),
    )


def _marks(whole: RunSummary) -> tuple[GainMark, ...]:
    gains, audit = whole.gains, whole.audit
    found = (
        ("believed", "Recorded", gains.recorded, None),
        ("believed", "Believed", gains.believed, None),
        ("model", "Corrected", gains.corrected, None),
        (
            "measured",
            "Audited" if whole.skills is None else "Learning",
            gains.audited,
            audit.interval if audit else None,
        ),
    )
    return tuple(GainMark(tone, name, gain, ends) for tone, name, gain, ends in found if gain is not None)


def _curve(whole: RunSummary, steps: Sequence[GenerationRow], *, known: Means) -> tuple[Series, ...]:
    believed = _points([(step.generation, step.head_select) for step in steps], band=False)
    gold = _points([(step.generation, step.head_gold) for step in steps], band=True)
    lines = [Series("believed", believed)]
    if gold:
        lines.append(Series("measured", gold))
    elif whole.audit is not None and steps:
        ends = [(0, whole.audit.start), (_round_of_final(whole, steps), whole.audit.final)]
        audited = [(at, known.get((whole.audit.role, digest))) for at, digest in ends]
        points = _points([(at, mean) for at, mean in audited if mean is not None], band=True)
        lines.append(Series("measured", points, steps=False))
    return tuple(line for line in lines if line.points)


def _round_of_final(whole: RunSummary, steps: Sequence[GenerationRow]) -> int:
    """Where the final stands on the curve: at the end, but for a loop whose final selection may go back."""
    told = whole.agents or whole.training or whole.skills
    chosen = None if told is None else told.selected
    back = [one.round for one in chosen.finalists if one.digest == whole.final.digest] if chosen else []
    return back[0] if back else steps[-1].generation


def _points(means_at: Sequence[tuple[int, Mean]], *, band: bool) -> tuple[Point, ...]:
    result = []
    for at, mean in means_at:
        if mean.value is None:
            continue
        error = mean.standard_error if band else None
        ends = None if error is None else (max(0.0, mean.value - _Z95 * error), min(1.0, mean.value + _Z95 * error))
        result.append(Point(at, mean.value, ends))
    return tuple(result)


def _dots(rows: Sequence[CandidateRow], *, unit: str) -> tuple[Dot, ...]:
    width: dict[int, int] = {}
    for row in rows:
        width[row.generation] = max(width.get(row.generation, 1), row.index + 1)
    return tuple(
        Dot(
            generation=row.generation,
            shift=((row.index + 0.5) / width[row.generation] - 0.5) * 0.8,
            score=row.select.value,
            fate=row.fate.value,
            title=f"{unit} {row.generation}, candidate {row.index + 1}: {row.fate.value}",
            gold=row.gold.value,
        )
        for row in rows
        if row.select.value is not None
    )


def _config(run: RunFolder) -> str | None:
    return run.config.read_text(encoding="utf-8", errors="replace") if run.config.is_file() else None
