"""The final selection: the start and the best kept rounds on one fresh, paired sweep (spec §4, step 12; §5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heldout.loops.agents.state import Agents, Kept
from heldout.loops.agents.sweeping import measured_sweep
from heldout.loops.session import Scored, score_column
from heldout.rollouts import Sweep
from heldout.store.agent_events import Finalist, FinalSelected

__all__ = ["best_so_far", "finalists", "select_final"]

FRESH_REPEAT = 1_000_000
"""Repeat, and so the seeds, of the fresh sweeps: one that no round used."""


def finalists(agents: Agents) -> list[Kept]:
    """The start, if it always competes, and the top kept rounds by select score whose hooks work; in round order."""
    options = agents.options.final
    start = agents.kept[0]
    usable = [one for one in agents.competing if not one.broken_hooks and one.score is not None]
    pool = usable if options.keep_start else [start, *usable]
    later_first = options.ties == "later"
    best = sorted(pool, key=lambda one: (-(one.score or 0.0), -one.round if later_first else one.round))[: options.top]
    chosen = {one.round: one for one in ([start, *best] if options.keep_start else best or [start])}
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
    options = agents.options.final
    compared = {one.round: _compared(agents, one, fresh[one.round]) for one in chosen}
    order = sorted(chosen, key=lambda one: (-_score(compared[one.round]), _tie(one, options.ties == "later")))
    best = order[0]
    rule = f"highest {'fresh score' if options.score == 'fresh' else 'mean of recorded and fresh score'}"
    _record(agents, chosen, fresh, best, rule=f"{rule}; of equals the {options.ties}")
    start = compared.get(0, agents.kept[0].select)
    return Scored(agents.start, start[:, None]), Scored(best.candidate, compared[best.round][:, None])


def best_so_far(agents: Agents) -> Scored:
    """Without fresh sweeps (the budget is spent): the best recorded select score; of equals the start, the earliest."""
    start = agents.kept[0]
    usable = [one for one in agents.competing if not one.broken_hooks and one.score is not None]
    best = max([start, *usable], key=lambda one: (one.score or 0.0, -one.round))
    return Scored(best.candidate, best.select[:, None])


def _fresh(agents: Agents, one: Kept) -> NDArray[np.float64]:
    sweep = Sweep(one.candidate, agents.session.tasks.select, "final", FRESH_REPEAT)
    return score_column(measured_sweep(agents.session, sweep, agents.options.select))


def _compared(agents: Agents, one: Kept, fresh: NDArray[np.float64]) -> NDArray[np.float64]:
    if agents.options.final.score == "fresh":
        return fresh
    both = np.stack([one.select, fresh])
    counts = (~np.isnan(both)).sum(axis=0)
    mean: NDArray[np.float64] = np.where(counts > 0, np.nansum(both, axis=0) / np.maximum(counts, 1), np.nan)
    return mean


def _score(scores: NDArray[np.float64]) -> float:
    measured = scores[~np.isnan(scores)]
    return float(measured.mean()) if measured.size else -1.0


def _tie(one: Kept, later: bool) -> tuple[int, int]:
    """Of equal finalists the earlier, then the smaller one; or the later, as in the published code."""
    size = sum(len(text.encode()) for text in one.candidate.files.values())
    return (-one.round if later else one.round, size)


def _record(
    agents: Agents, chosen: list[Kept], fresh: dict[int, NDArray[np.float64]], best: Kept, *, rule: str
) -> None:
    entries = []
    for one in chosen:
        found = fresh[one.round]
        compared = _compared(agents, one, found)
        entries.append(
            Finalist(
                round=one.round,
                digest=one.candidate.digest,
                journaled=one.score,
                fresh=None if np.isnan(found).all() else _score(found),
                score=None if np.isnan(compared).all() else _score(compared),
            )
        )
    selected = FinalSelected(finalists=tuple(entries), final=best.candidate.digest, rule=rule)
    agents.session.recorder.record("selected", selected)
