"""What earlier attempts say of a problem and of a strategy. An accident of the machine says nothing of either."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from heldout.improvers.strategies import Library, Strategy
from heldout.store.training_events import AttemptEnded

__all__ = [
    "KEPT",
    "PRIOR_STRENGTH",
    "bar",
    "base_id",
    "first_accepted",
    "fix_rate",
    "pace",
    "reproduces",
    "tried_on_head",
]

KEPT = "+kept"
"""Ending of the id of a strategy that was combined with validated builders."""

PRIOR_STRENGTH = 2.0
"""Attempts that a library's own estimate of reproduction counts for."""

_FAILED: Mapping[str, str] = {
    "rejected": "was rejected",
    "undecided": "was undecided",
    "preflight_failed": "failed its preflight",
    "contaminated": "met sealed tasks",
    "no_data": "gave no data",
    "training_failed": "died in training",
    "repeated": "repeated an earlier attempt",
}
"""Status of an attempt that bars its recipe, in words. `not_measured` bars nothing."""
_UNTIL_THE_HEAD_MOVES = ("rejected", "undecided", "repeated")
_COUNTS_AGAINST = ("rejected", "preflight_failed", "contaminated", "no_data", "training_failed")
_RAN_WHOLE = ("accepted", "rejected", "undecided")
_SLOWEST = 100.0


def fix_rate(code: str, history: Sequence[AttemptEnded]) -> float:
    """q of a cluster: the mean of a Beta(1, 1) after the accepted and rejected attempts on it, 0.5 before any.

    Attempts that never came to a decision leave it as it is.
    """
    accepted = sum(one.focal == code and one.status == "accepted" for one in history)
    rejected = sum(one.focal == code and one.status == "rejected" for one in history)
    return (1 + accepted) / (2 + accepted + rejected)


def reproduces(strategy: Strategy, history: Sequence[AttemptEnded]) -> float:
    """P of a strategy: its library's estimate as `PRIOR_STRENGTH` attempts, and then what happened here.

    An acceptance counts for it; a rejection, and an attempt that its own recipe ended, against it. An undecided one
    and one that was not measured count for nothing.
    """
    own = [one.status for one in history if base_id(one.strategy) == strategy.id]
    worked = sum(status == "accepted" for status in own)
    failed = sum(status in _COUNTS_AGAINST for status in own)
    return (PRIOR_STRENGTH * strategy.reproduces + worked) / (PRIOR_STRENGTH + worked + failed)


def bar(strategy: str, history: Sequence[AttemptEnded]) -> str:
    """Why the same recipe is not run again; empty where it may be.

    A recipe that met sealed tasks, or never came to a whole training, stays barred, whatever it is combined with. One
    that was rejected is open again once another model is the head: then it is another experiment.
    """
    for number, one in enumerate(history):
        if one.status not in _FAILED or base_id(one.strategy) != base_id(strategy):
            continue
        if one.status in _UNTIL_THE_HEAD_MOVES:
            if one.strategy != strategy or any(later.status == "accepted" for later in history[number:]):
                continue
            return f"{_FAILED[one.status]} in round {one.round} with the same recipe on this model"
        return f"{_FAILED[one.status]} in round {one.round} with the same recipe"
    return ""


def tried_on_head(strategy: str, history: Sequence[AttemptEnded]) -> int:
    """Attempts of this strategy since a model was last accepted that did not move the head; −1 where its recipe is
    barred for another reason."""
    count = 0
    for one in history:
        if one.status == "accepted":
            count = 0
        elif one.strategy == strategy and one.status in _UNTIL_THE_HEAD_MOVES:
            count += 1
    settled = [one for one in history if one.status not in _UNTIL_THE_HEAD_MOVES]
    return -1 if bar(strategy, settled) else count


def first_accepted(history: Sequence[AttemptEnded]) -> str | None:
    """Id of the strategy that was accepted first."""
    return next((one.strategy for one in history if one.status == "accepted"), None)


def pace(library: Library, history: Sequence[AttemptEnded]) -> float:
    """How much longer attempts take here than the library says: the median over those that ran whole, 1 before any.

    One factor for all strategies, so that measured seconds, which differ a little from run to run, never change which
    of two scores is the larger.
    """
    ratios = []
    for one in history:
        strategy = library.get(base_id(one.strategy))
        took = _seconds(one)
        if strategy is not None and one.status in _RAN_WHOLE and took > 0.0:
            ratios.append(took / strategy.cost_s)
    return min(_SLOWEST, max(1.0 / _SLOWEST, statistics.median(ratios))) if ratios else 1.0


def base_id(strategy: str) -> str:
    """The strategy itself, of one that was combined with validated builders."""
    return strategy.removesuffix(KEPT)


def _seconds(attempt: AttemptEnded) -> float:
    """Of the scarcest thing that was used, without a second training for the noise, which no other attempt has."""
    name = next((name for name in ("gpu_s", "cpu_s", "wall_s") if getattr(attempt.spend, name)), "wall_s")
    return float(getattr(attempt.spend, name) - getattr(attempt.noise_spend, name))
