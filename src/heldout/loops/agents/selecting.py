"""The final selection: the start and the best kept rounds on one fresh, paired sweep (spec §4, step 12; §5)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from heldout.loops.agents.state import Agents, Kept
from heldout.loops.agents.sweeping import measured_sweep
from heldout.loops.session import Scored, score_column
from heldout.rollouts import Sweep
from heldout.stats import EQUAL_WITHIN
from heldout.store.agent_events import Finalist, FinalSelected

__all__ = ["best_so_far", "common_tasks", "finalists", "lead", "select_final"]

FRESH_REPEAT = 1_000_000
"""Repeat, and so the seeds, of the fresh sweeps: one that no round used."""

Scores = NDArray[np.float64]
"""Shape (n,), NaN where not measured."""


def finalists(agents: Agents) -> list[Kept]:
    """The start, if it always competes, and the top kept rounds by select score whose hooks work; in round order."""
    options = agents.options.final
    start = agents.kept[0]
    usable = [one for one in agents.competing if not one.broken_hooks and one.score is not None]
    pool = usable if options.keep_start else [start, *usable]
    later_first = options.ties == "later"
    best = sorted(pool, key=lambda one: (-lead(start.select, one.select), -one.round if later_first else one.round))
    chosen = {one.round: one for one in ([start] if options.keep_start or not best else []) + best[: options.top]}
    return [chosen[number] for number in sorted(chosen)]


def select_final(agents: Agents) -> tuple[Scored, Scored]:
    """The start and the final with the scores that they were compared by, recorded as `selected`."""
    chosen = finalists(agents)
    if len(chosen) == 1:
        only = chosen[0]
        scored = Scored(only.candidate, only.select[:, None])
        _record(agents, chosen, {only.round: only.select}, only, rule="the only finalist")
        return Scored(agents.start, agents.kept[0].select[:, None]), scored
    fresh = {one.round: _fresh(agents, one) for one in chosen}
    compared = {one.round: _compared(agents, one, fresh[one.round]) for one in chosen}
    best = _best(agents, chosen, compared)
    _record(agents, chosen, fresh, best, rule=_rule(agents, compared))
    start = compared.get(0, agents.kept[0].select)
    return Scored(agents.start, start[:, None]), Scored(best.candidate, compared[best.round][:, None])


def best_so_far(agents: Agents) -> Scored:
    """Without fresh sweeps (the budget is spent): the best recorded select score; of equals the start, the earliest."""
    start = agents.kept[0]
    usable = [one for one in agents.competing if not one.broken_hooks and _holds(start.select, one.select)]
    best = max([start, *usable], key=lambda one: (lead(start.select, one.select), -one.round))
    return Scored(best.candidate, best.select[:, None])


def lead(start: Scores, other: Scores) -> float:
    """Mean difference to the start over the tasks that both were measured on; 0 where there is none.

    Scores are never compared as means over different tasks: what fails might go missing, and lift the mean.
    """
    difference = other - start
    measured = difference[~np.isnan(difference)]
    return float(measured.mean()) if measured.size else 0.0


def common_tasks(compared: Mapping[int, Scores], *, coverage: float) -> tuple[NDArray[np.bool_], frozenset[int]]:
    """The tasks on which finalists are compared, as a mask, and the rounds that take part: the first one, and those
    that share so much of the tasks with it. The tasks are those that all of them were measured on."""
    measured = {number: ~np.isnan(scores) for number, scores in compared.items()}
    first = min(measured)
    rounds = {number for number, there in measured.items() if (there & measured[first]).mean() >= coverage}
    rounds |= {first}
    mask: NDArray[np.bool_] = np.logical_and.reduce([measured[number] for number in sorted(rounds)])
    return mask, frozenset(rounds)


def _best(agents: Agents, chosen: list[Kept], compared: Mapping[int, Scores]) -> Kept:
    """The highest on the tasks that all share, of those that do not owe their place to what they lack."""
    tasks, rounds = common_tasks(compared, coverage=agents.options.select.coverage)
    first, later = min(chosen, key=lambda one: one.round), agents.options.final.ties == "later"
    order = sorted(
        (one for one in chosen if one.round in rounds),
        key=lambda one: (-_mean(compared[one.round][tasks]), _tie(one, later)),
    )
    return next(one for one in order if one is first or _holds(compared[first.round], compared[one.round]))


def _holds(start: Scores, other: Scores) -> bool:
    """Whether it would not fall behind the start if every score that only it lacks were a failure; see
    `gates.missing`. Nothing is asked of one that lacks nothing."""
    lacks = np.isnan(other) & ~np.isnan(start)
    return not lacks.any() or lead(start, np.where(lacks, 0.0, other)) > EQUAL_WITHIN


def _rule(agents: Agents, compared: Mapping[int, Scores]) -> str:
    options = agents.options.final
    tasks, rounds = common_tasks(compared, coverage=agents.options.select.coverage)
    rule = f"highest {'fresh score' if options.score == 'fresh' else 'mean of recorded and fresh score'}"
    if not tasks.all():
        rule += f" on the {tasks.sum()} of {tasks.size} tasks that all were measured on"
    out = ", ".join(str(number) for number in sorted(compared.keys() - rounds))
    return f"{rule}; of equals the {options.ties}" + (f"; too little was measured of round {out}" if out else "")


def _fresh(agents: Agents, one: Kept) -> Scores:
    sweep = Sweep(one.candidate, agents.session.tasks.select, "final", FRESH_REPEAT)
    return score_column(measured_sweep(agents.session, sweep, agents.options.select))


def _compared(agents: Agents, one: Kept, fresh: Scores) -> Scores:
    """The fresh scores, or where that is asked for the mean of both; a task that lacks one of the two lacks it."""
    return fresh if agents.options.final.score == "fresh" else (one.select + fresh) / 2.0


def _mean(scores: Scores) -> float:
    measured = scores[~np.isnan(scores)]
    return float(measured.mean()) if measured.size else -1.0


def _tie(one: Kept, later: bool) -> tuple[int, int]:
    """Of equal finalists the earlier, then the smaller one; or the later, as in the published code."""
    size = sum(len(text.encode()) for text in one.candidate.files.values())
    return (-one.round if later else one.round, size)


def _record(agents: Agents, chosen: list[Kept], fresh: Mapping[int, Scores], best: Kept, *, rule: str) -> None:
    compared = {one.round: _compared(agents, one, fresh[one.round]) for one in chosen}
    tasks, rounds = common_tasks(compared, coverage=agents.options.select.coverage)
    entries = []
    for one in chosen:
        found = fresh[one.round]
        counts = one.round in rounds and tasks.any()
        entries.append(
            Finalist(
                round=one.round,
                digest=one.candidate.digest,
                journaled=one.score,
                fresh=None if np.isnan(found).all() else _mean(found),
                score=_mean(compared[one.round][tasks]) if counts else None,
            )
        )
    selected = FinalSelected(finalists=tuple(entries), final=best.candidate.digest, rule=rule)
    agents.session.recorder.record("selected", selected)
