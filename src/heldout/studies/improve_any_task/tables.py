"""The tables of parts (a) and (b)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from heldout.studies.improve_any_task.arms import FULL, MIXTURE, TWICE
from heldout.studies.improve_any_task.leads import (
    audit,
    difference,
    exact_audit,
    lead_of,
    others_of,
    same_models,
)
from heldout.studies.improve_any_task.plans import STARTS
from heldout.studies.improve_any_task.reading import EVALUATED
from heldout.studies.improve_any_task.runs import Result
from heldout.studies.improve_any_task.summaries import NOTHING, SAME, ArmRuns, Arms, both_starts, named
from heldout.studies.tables import Cell, Table

__all__ = [
    "Found",
    "attempts_table",
    "differences_table",
    "dominant_table",
    "gains_table",
    "measured",
    "ordered",
    "without_budget",
]

_FIXED_STEPS = f" The steps of `{MIXTURE}` are fixed beforehand, so that it does not fill its budget"

_SHOWN = 3
"""Errors that a cell names."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was run, divided by what it is for."""

    every: Arms
    compared: Arms
    twice: Arms
    """One recipe, trained with two seeds."""


def ordered(every: Arms) -> Found:
    """The arms that are compared, and those that measure noise."""
    compared = {start: {name: runs for name, runs in given.items() if name != TWICE} for start, given in every.items()}
    twice = {start: {name: given[name] for name in given if name == TWICE} for start, given in every.items()}
    return Found(every, compared, {start: given for start, given in twice.items() if given})


def without_budget(arms: Arms) -> list[str]:
    """The arms that are run for a fixed number of rounds, whatever that costs."""
    return list(dict.fromkeys(runs.name for given in arms.values() for runs in given.values() if runs.arm.rounds))


def gains_table(arms: Arms, *, name: str, simulated: bool) -> Table:
    """The audited gain of every arm, and what the run itself promised."""
    rows: list[tuple[Cell, ...]] = []
    for start, given in arms.items():
        for runs in given.values():
            gain = runs.change(lambda one: one.gain)
            row: list[Cell] = [start, runs.name, 100.0 * runs.mean(lambda one: one.begun.worth.audit)]
            row += [gain.value, gain.low, gain.high]
            row += [runs.known(lambda one: one.exact_gain).estimate] if simulated else []
            row += [runs.known(lambda one: one.select_gain).estimate]
            row += [runs.known(lambda one: one.overstatement, unit=2.0).estimate]
            row += [100.0 * runs.mean(lambda one: float(one.is_start)), SAME if runs.unchanged else None]
            rows.append(tuple(row))
    return Table(
        name=name,
        title="Every arm: what the audit says of its final",
        note=(
            f"{'A simulation. ' if simulated else ''}Points; `low` and `high` are the 95 % t interval over seeds of "
            "the audited gain over the start, ± is one standard error. `select gain`: on the tasks that decide, as the "
            "run reports it; `overstatement` is that minus the audited gain."
            + (" `exact`: the expectation on the same audit tasks, known here." if simulated else "")
            + f" `{SAME}`: the final is the start in every run, so that its gain in these runs is 0 by identity."
        ),
        columns=(
            *("start", "arm", "start's audit, %", "audited gain", "low", "high"),
            *(("exact gain",) if simulated else ()),
            *("select gain", "overstatement", "nothing improved, %", "note"),
        ),
        rows=tuple(rows),
    )


def differences_table(arms: Arms, *, name: str) -> Table:
    """Full minus every other arm that is run from both starts, and what each of the two spent."""
    starts, others = [start for start in STARTS if start in arms], others_of(arms)
    lead = lead_of(arms, others)
    rows = [
        (
            other,
            *_difference(arms, other, p=lead.p_values.get(other)),
            *(100.0 * float((arms[at][FULL].values(audit) - arms[at][other].values(audit)).mean()) for at in starts),
            *(float(both_starts(arms, arm, _spent).mean()) for arm in (FULL, other)),
            SAME if same_models(arms, FULL, other) else None,
        )
        for other in others
    ]
    return Table(
        name=name,
        title="Full minus every other arm",
        note=(
            "Points of the audited score at an equal budget of processor seconds, paired over seeds, mean of the "
            "starts; `low` and `high` are the plain 95 % t interval, `p` is adjusted by Holm's rule for all rows (C1 "
            "to C3 have a family of their own). Below zero the other arm is ahead. `spent`: mean seconds of a search."
            + (f"{_FIXED_STEPS}; what it spent stands in the table of attempts." if MIXTURE in others else "")
            + f" `{SAME}`: both end with the same weights in every run, so that they differ by 0, by identity."
        ),
        columns=(
            "other arm",
            "full minus it",
            "low",
            "high",
            "p",
            "exact",
            *starts,
            "full spent, s",
            "it spent, s",
            "note",
        ),
        rows=tuple(rows),
    )


def _difference(arms: Arms, other: str, *, p: float | None) -> tuple[Cell, ...]:
    plain = NOTHING if same_models(arms, FULL, other) else difference(arms, FULL, other)
    return (plain.value, plain.low, plain.high, p, difference(arms, FULL, other, exact_audit).estimate)


def _spent(one: Result) -> float:
    return one.trail.spent_s


def attempts_table(arms: Arms, *, name: str, simulated: bool) -> Table:
    """How attempts ended, and what was spent."""
    free = without_budget(arms)
    rows: list[tuple[Cell, ...]] = []
    for start, given in arms.items():
        for runs in given.values():
            if runs.arm.of:
                continue
            wasted = runs.known(lambda one: one.trail.wasted_share).estimate
            rows.append(
                (
                    *(start, runs.name, runs.mean(lambda one: float(len(one.trail.attempts)))),
                    *(runs.mean(lambda one: float(one.trail.count("accepted"))), runs.mean(measured)),
                    runs.mean(lambda one: float(one.trail.count("preflight_failed"))),
                    runs.mean(lambda one: float(one.trail.failed - one.trail.count("preflight_failed"))),
                    *(wasted, runs.mean(lambda one: one.trail.spent_s)),
                )
            )
    return Table(
        name=name,
        title="Attempts, and wasted spend",
        note=(
            "Means of a run. `measured`: attempts with a model that was put to the gate; `failed otherwise`: void or "
            "missing data, a training that died. `wasted`: percent of all processor seconds that went into attempts "
            "which left the model as it was, the one that the budget ended among them; ± is one standard error over "
            "seeds."
            + (f"{_FIXED_STEPS}." if any(MIXTURE in given for given in arms.values()) else "")
            + (f" The rounds of {named(free)} are fixed, and have no budget." if free else "")
            + (" Seconds are simulated for trainings." if simulated else "")
        ),
        columns=(
            *("start", "arm", "attempts", "accepted", "measured", "failed preflight", "failed otherwise"),
            *("wasted, %", "spent, s"),
        ),
        rows=tuple(rows),
    )


def measured(one: Result) -> float:
    """Attempts with a model that was put to the gate."""
    return float(one.trail.count(*EVALUATED))


def dominant_table(arms: Arms, *, name: str) -> Table:
    """The dominant error of each round, over seeds."""
    longest = max(len(one.trail.dominant) for given in arms.values() for runs in given.values() for one in runs.results)
    rows = [
        (start, runs.name, *(_dominant(runs, at) for at in range(longest)))
        for start, given in arms.items()
        for runs in given.values()
        if not runs.arm.of
    ]
    return Table(
        name=name,
        title="The dominant error, round by round",
        note=(
            "The first fault of most failures on the diagnosis tasks at the beginning of a round: percent of the seeds "
            "that have such a round, the commonest first, and how many have it where not all do."
        ),
        columns=("start", "arm", *(f"round {at + 1}" for at in range(longest))),
        rows=tuple(rows),
    )


def _dominant(runs: ArmRuns, at: int) -> str | None:
    codes = Counter(one.trail.dominant[at] for one in runs.results if len(one.trail.dominant) > at)
    if not codes:
        return None
    common = sorted(codes.items(), key=lambda one: (-one[1], one[0]))[:_SHOWN]
    told = ", ".join(f"{code} {100 * count / codes.total():.0f}" for code, count in common)
    return told if codes.total() == len(runs.results) else f"{told} (of {codes.total()})"
