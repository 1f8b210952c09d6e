"""What the HTML page shows of a loop over skills, gathered once."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heldout.records import Spend
from heldout.report.candidate_files import CandidateFiles
from heldout.report.diffs import FileDiff
from heldout.report.numbers import count, dollars
from heldout.report.retention_chart import ArmMark, retention_chart
from heldout.report.round_plot import RoundMark, round_plot
from heldout.report.skill_arms import Arm, arms_of, name_of
from heldout.report.skill_history import SkillHistory
from heldout.report.skill_rounds import SkillEdit, SkillRound
from heldout.report.skill_use import Episode, SkillUse, left_texts, total_use
from heldout.report.summary import RunSummary
from heldout.report.untrusted import one_line
from heldout.skills.modules import MODULES
from heldout.store.skill_events import FaultAttributed, Judged

__all__ = ["EditShown", "FaultShown", "JudgedShown", "ModuleChange", "RoundShown", "SkillPage", "gather_skills"]

_WIDTHS = (760, 340)
"""Of a chart on a desk and on a phone, in pixels."""
_MAX_DIFFS = 200
"""Edits whose difference is written out."""
_MAX_CHARACTERS = 6_000
"""Of a transient skill or a first fault; the whole text lies in the run's folder."""


@dataclass(frozen=True, slots=True)
class ModuleChange:
    """One file of the guide, from start to final."""

    path: str
    title: str
    """Of the module; empty for a file that is none."""
    diff: FileDiff | None
    """None where it is unchanged."""


@dataclass(frozen=True, slots=True)
class FaultShown:
    """One attribution with what the failed episode left."""

    fault: FaultAttributed
    title: str
    """Of the blamed module."""
    texts: tuple[tuple[str, str, str], ...]
    """(name, digest, text cut to a few thousand characters) of each; the text is empty where it cannot be read."""


@dataclass(frozen=True, slots=True)
class EditShown:
    """One edit with what it changed, or would have changed."""

    edit: SkillEdit
    titles: tuple[str, ...]
    """Of the edited modules."""
    diff: tuple[FileDiff, ...] | None
    """None where it is not written out, or a folder cannot be read."""


@dataclass(frozen=True, slots=True)
class RoundShown:
    """One round."""

    round: SkillRound
    faults: tuple[FaultShown, ...]
    edits: tuple[EditShown, ...]


@dataclass(frozen=True, slots=True)
class JudgedShown:
    """One judged text with the name of its candidate."""

    name: str
    judged: Judged


@dataclass(frozen=True, slots=True)
class SkillPage:
    """Retention, modules, rounds, judge."""

    history: SkillHistory
    start_name: str
    arms: tuple[Arm, ...]
    """No skill, start and final on audit."""
    modules: tuple[ModuleChange, ...] | None
    """None where a folder cannot be read, or no guide is evolved."""
    rounds: tuple[RoundShown, ...]
    judged: tuple[JudgedShown, ...]
    total: SkillUse
    """Skill calls and recoveries over all purposes."""
    retention_chart: tuple[Markup, ...]
    """For a desk and for a phone; empty where there is nothing to draw, like the next one."""
    round_plot: tuple[Markup, ...]


def gather_skills(
    connection: sqlite3.Connection, whole: RunSummary, *, skills: SkillHistory, files: CandidateFiles
) -> SkillPage:
    """Read what the history alone does not hold: folders, differences, texts of failed episodes."""
    start, final = whole.start.digest, whole.final.digest
    marks = _marks(skills)
    return SkillPage(
        history=skills,
        start_name=skills.name_of_start(start),
        arms=arms_of(whole, skills),
        modules=_modules(files, start, final) if skills.target == "guide" else None,
        rounds=_rounds(connection, skills, files=files),
        judged=tuple(JudgedShown(name_of(one.candidate, whole, skills), one) for one in skills.judged),
        total=total_use(skills.use),
        retention_chart=tuple(
            retention_chart(marks, width=width, simulated=whole.started.simulated) for width in _WIDTHS if marks
        ),
        round_plot=_plots(skills, start, files=files),
    )


def _marks(skills: SkillHistory) -> tuple[ArmMark, ...]:
    found = [
        ArmMark(
            kind=arm.arm if arm.arm in ("start", "final") else "other",
            name=one_line(arm.arm, 24),  # drawings are markup already, so the page does not make them legible
            train=arm.train_gain,
            train_interval=arm.train_interval,
            audit=arm.audit_gain,
            audit_interval=arm.audit_interval,
            verdict=one_line(arm.verdict, 24),
        )
        for arm in (skills.arms(skills.retention) if skills.retention else ())
    ]
    drawn = [one for one in found if all(map(math.isfinite, (*one.train_interval, *one.audit_interval)))]
    # The final last, so that it lies on top.
    return tuple(sorted(drawn, key=lambda one: ("other", "start", "final").index(one.kind)))


def _modules(files: CandidateFiles, start: str, final: str) -> tuple[ModuleChange, ...] | None:
    """Every module in order, changed or not, then any other file that differs."""
    found = files.diff(start, final)
    if found is None:
        return None
    changed = {one.path: one for one in found}
    own = [ModuleChange(path, title, changed.pop(path, None)) for path, title in MODULES.items()]
    return (*own, *(ModuleChange(path, "", diff) for path, diff in changed.items()))


def _rounds(connection: sqlite3.Connection, skills: SkillHistory, *, files: CandidateFiles) -> tuple[RoundShown, ...]:
    left = left_texts(connection, [episode for one in skills.rounds for episode in _blamed(one)])
    written, shown = 0, []
    for one in reversed(skills.rounds):
        room = max(0, _MAX_DIFFS - written)
        edits = [_edit(edit, files if place < room else None) for place, edit in enumerate(one.edits)]
        written += len(edits)
        faults = [
            _fault(fault, left.get(episode, {}), files) for fault, episode in zip(one.faults, _blamed(one), strict=True)
        ]
        shown.append(RoundShown(one, tuple(faults), tuple(edits)))
    return tuple(reversed(shown))


def _blamed(one: SkillRound) -> tuple[Episode, ...]:
    """The failed episode of each attribution."""
    head = "" if one.started is None else one.started.head
    return tuple(Episode(one.number, head, fault.task) for fault in one.faults)


def _edit(edit: SkillEdit, files: CandidateFiles | None) -> EditShown:
    edited = edit.edited
    titles = tuple(MODULES.get(path, "") for path in (edited.edited if edited else ()))
    if edited is None or files is None or not edited.proposal.edits:
        return EditShown(edit, titles, None)
    return EditShown(edit, titles, files.edited(edited.head, edited.proposal.edits))


def _fault(fault: FaultAttributed, left: Mapping[str, str], files: CandidateFiles) -> FaultShown:
    texts = ((name, digest, (files.files(digest) or {}).get(name, "")) for name, digest in sorted(left.items()))
    cut = tuple((name, digest, text[:_MAX_CHARACTERS]) for name, digest, text in texts)
    return FaultShown(fault, MODULES.get(fault.module or "", ""), cut)


def _plots(skills: SkillHistory, start: str, *, files: CandidateFiles) -> tuple[Markup, ...]:
    rounds = [one for one in skills.rounds if one.number > 0]
    if not rounds:
        return ()
    name, cost, write = _cost(skills.rounds)
    marks, head = [RoundMark(0, _words(files, start))], start
    for one in rounds:
        tried = []
        for edit in one.edits:
            digest = edit.edited.digest if edit.edited is not None else None
            words = _words(files, digest)
            tried += [] if words is None else [(words, edit.fate)]
        head = one.head_after or head
        marks.append(RoundMark(one.number, _words(files, head), tuple(tried), cost(one.spend)))
    return tuple(round_plot(marks, width=width, cost_name=name, write=write) for width in _WIDTHS)


def _words(files: CandidateFiles, digest: str | None) -> int | None:
    found = files.files(digest)
    return None if found is None else sum(len(text.split()) for text in found.values())


def _cost(rounds: Sequence[SkillRound]) -> tuple[str, Callable[[Spend], float], Callable[[float], str]]:
    """Dollars where anything cost some, else tokens, else evaluations: name, size, and how it is written."""
    total = sum((one.spend for one in rounds), start=Spend())
    if total.cost_usd > 0:
        return "dollars", lambda spend: spend.cost_usd, dollars
    if total.tokens_in + total.tokens_out > 0:
        return "tokens", lambda spend: float(spend.tokens_in + spend.tokens_out), _short
    return "evaluations", lambda spend: float(spend.evaluations), count


def _short(value: float) -> str:
    """A number of tokens beside an axis: `950`, `12 k`, `1.5 M`."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"
