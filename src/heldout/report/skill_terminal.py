"""Views of a loop over skills for the terminal: learning, retention, rounds, skill calls, judge."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from heldout.report.numbers import count, interval, percent, points, signed, tally
from heldout.report.skill_arms import arms_of, learning_name, name_of
from heldout.report.skill_history import SkillHistory
from heldout.report.skill_json import JUDGE_NOTE
from heldout.report.skill_rounds import SkillEdit, SkillRound
from heldout.report.skill_use import SkillUse, total_use
from heldout.report.summary import RunSummary
from heldout.report.tables import plain_table
from heldout.report.untrusted import one_line
from heldout.skills.modules import MODULES
from heldout.store.skill_events import ArmRetention, Retention

__all__ = ["learning_view", "skills_view"]

_IDS = 12
"""Task ids that one line names at most; the page and the JSON object have all of them."""

_FAULTS = 3
"""Faults that one row names at most."""


def learning_view(summary: RunSummary, skills: SkillHistory) -> RenderableType:
    """What the loop believed, and in bold what it learned: final minus start on audit; then every arm's mean there."""
    gains, audit = summary.gains, summary.audit
    ends = f"{percent(summary.start.select.value)} to {percent(summary.final.select.value)}"
    measured = f"{interval(audit.interval)} ({audit.confidence * 100:.0f} %)" if audit else "heldout audit opens it"
    start_name = skills.name_of_start(summary.start.digest)
    columns = [
        ("Believed", "what the loop reports", points(gains.believed), ends),
        ("Audited", learning_name(start_name, skills.target), points(gains.audited), measured),
    ]
    if gains.recorded is not None:
        columns.insert(0, ("Recorded", "when it was kept", points(gains.recorded), "before the fresh sweep"))
    table = plain_table()
    for name, kind, _, _ in columns:
        table.add_column(Text.assemble((name, "bold"), f"\n{kind}"), ratio=1)
    table.add_row(*(Text(value, style="bold" if name == "Audited" else "") for name, _, value, _ in columns))
    table.add_row(*(detail for _, _, _, detail in columns), style="dim")
    arms = "; ".join(f"{one.name} {percent(one.mean)}" for one in arms_of(summary, skills))
    words = f"On audit: {arms}."
    if gains.overstatement is not None:
        words += f" Overstatement {points(gains.overstatement)} (believed minus audited)."
    return Group(table, _words(words))


def skills_view(summary: RunSummary, skills: SkillHistory) -> RenderableType:
    """What a person wants to see of the rounds at once; the page has the rest."""
    parts: list[RenderableType] = [_retention(one, skills.arms(one)) for one in skills.retentions]
    if not parts and summary.audit is not None and summary.start.digest != summary.final.digest:
        parts.append(_words(f"Retention: not measured. Where the budget ended before it: {_measure(summary)}"))
    if skills.rounds:
        parts += [_rounds(skills.rounds), _flipped(skills.rounds)]
    if skills.chance is not None:
        parts.append(_words(skills.chance.sentence))
    if skills.selected is not None:
        parts += [_finalists(skills, start=summary.start.digest), _words(f"Rule: {one_line(skills.selected.rule)}.")]
    if skills.use:
        parts.append(_use(skills.use))
    if skills.judged:
        parts.append(_judged(summary, skills))
    if skills.judge_agreement:
        parts.append(_words(skills.judge_agreement))
    return Group(*parts)


def _measure(summary: RunSummary) -> str:
    return f"heldout audit {one_line(summary.started.run, 80)} budget.evaluations=MORE"


def _retention(found: Retention, arms: Sequence[ArmRetention]) -> RenderableType:
    if not arms:
        return _words(f"Retention on {one_line(found.role, 40)}: refused. {one_line(found.refused)}".rstrip())
    table = plain_table(title=f"Retention: gains over no skill, train against {one_line(found.role, 40)}")
    for name in ("arm", "train gain", "audit gain", "retention", "verdict"):
        table.add_column(name, justify="left" if name in ("arm", "verdict") else "right")
    for arm in arms:
        table.add_row(
            Text(one_line(arm.arm, 24)),
            f"{signed(arm.train_gain)}\n{interval(arm.train_interval)}",
            f"{signed(arm.audit_gain)}\n{interval(arm.audit_interval)}",
            f"{signed(arm.retention)}\n{interval(arm.retention_interval)}",
            Text(one_line(arm.verdict, 24)),
        )
    words = (
        f"In points, with {found.confidence * 100:.0f} % intervals over tasks ({count(found.n_train)} train, "
        f"{count(found.n_audit)} {one_line(found.role, 40)}). No skill: {percent(found.none_train)} on train, "
        f"{percent(found.none_audit)} on {one_line(found.role, 40)}."
    )
    return Group(table, _words(words))


def _rounds(rounds: Sequence[SkillRound]) -> Table:
    table = plain_table(title="Rounds")
    for name in ("round", "failed", "first fault", "edited", "verdict", "u", "R/B", "n"):
        left = name in ("first fault", "edited", "verdict")
        table.add_column(name, justify="left" if left else "right", overflow="fold", no_wrap=name in ("u", "R/B", "n"))
    for one in rounds:
        tables = one.tables
        table.add_row(
            str(one.number or "draft"),
            "-" if one.started is None else f"{len(one.started.failed)}/{len(one.started.batch)}",
            Text("\n".join(_fault(one)) or "-"),
            Text("\n".join(_edited(one.edits)) or "-"),
            one.state,
            "\n".join(tally(found.utility) for found in tables) or "-",
            "\n".join(f"{count(found.repairs)}/{count(found.regressions)}" for found in tables) or "-",
            "\n".join(f"{found.n}" for found in tables) or "-",
        )
    return table


def _fault(one: SkillRound) -> list[str]:
    more = [f"and {len(one.faults) - _FAULTS} more"] if len(one.faults) > _FAULTS else []
    found = one.faults[:_FAULTS]
    return [f"{one_line(fault.task, 30)}: {one_line(fault.stage, 30) or 'non-learnable'}" for fault in found] + more


def _edited(edits: Sequence[SkillEdit]) -> list[str]:
    paths = [path for one in edits for path in one.paths]
    return [one_line(path.removesuffix(".md") if path in MODULES else path, 30) for path in paths[:4]]


def _flipped(rounds: Sequence[SkillRound]) -> RenderableType:
    """Repaired and broken select tasks by id, round by round, and why edits were not run."""
    lines = []
    for one in rounds:
        for edit in one.edits:
            named = (("repaired", edit.repaired), ("broken", edit.broken), ("not measured", edit.missing))
            told = [f"{what} {_named(tasks)}" for what, tasks in named if tasks]
            if edit.table is not None and edit.table.unconfirmed:
                told.append(f"not confirmed {_named(edit.table.unconfirmed)}")
            if edit.why_not_run:
                told.append(f"not run: {one_line(edit.why_not_run, 160)}")
            if told:
                name = f"Round {one.number}" if one.number else "Draft"
                lines.append(f"{name}: {'; '.join(told)}.")
    return _words("\n".join(lines)) if lines else Text()


def _named(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - _IDS} more" if len(tasks) > _IDS else ""
    return ", ".join(one_line(task, 40) for task in tasks[:_IDS]) + more


def _finalists(skills: SkillHistory, *, start: str) -> Table:
    table = plain_table(title="Final selection")
    for name in ("after round", "recorded", "fresh", "compared by", ""):
        table.add_column(name, justify="right" if name else "left")
    for one in skills.selected.finalists if skills.selected else ():
        table.add_row(
            "start" if one.digest == start else str(one.round or "draft"),
            percent(one.journaled),
            "not run" if one.fresh is None else percent(one.fresh),
            percent(one.score),
            "chosen" if skills.selected is not None and one.digest == skills.selected.final else "",
        )
    return table


def _use(rows: Sequence[SkillUse]) -> RenderableType:
    table = plain_table(title="Skill calls and recoveries (their cost is in the table below)", show_footer=True)
    foot = _counted(total_use(rows))
    names = ("purpose", "episodes", "skill calls", "faults declared", "recoveries", "then passed")
    for name, end in zip(names, foot, strict=True):
        table.add_column(name, end, justify="left" if name == "purpose" else "right")
    for row in rows:
        table.add_row(*_counted(row))
    return table


def _counted(row: SkillUse) -> list[str]:
    numbers = (row.episodes, row.skill_calls, row.faults_declared, row.recoveries, row.recovered)
    return [row.purpose, *map(count, numbers)]


def _judged(summary: RunSummary, skills: SkillHistory) -> RenderableType:
    table = plain_table(title=f"Judge, 1 to 5 ({JUDGE_NOTE})")
    for name in ("text", "judge", "total", "scores"):
        table.add_column(name, justify="right" if name == "total" else "left", overflow="fold")
    for one in skills.judged:
        scores = ", ".join(f"{one_line(name, 24)} {score:.1f}" for name, score in one.scores.items())
        told = (
            one_line(one.error) if one.error else scores + (f"; capped: {one_line(one.capped)}" if one.capped else "")
        )
        name = name_of(one.candidate, summary, skills)
        table.add_row(
            Text(one_line(name, 40)),
            Text(one_line(one.judge, 30)),
            "not measured" if one.error else f"{one.total:.2f}",
            Text(told),
        )
    return table


def _words(text: str) -> RenderableType:
    return Padding(Text(text), (0, 0, 1, 1))
