"""Every pair of settings on the same tasks, as one family of comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from heldout.audit import CompareResult, compare_outcomes, pair
from heldout.records import Comparison
from heldout.stats import holm_adjusted, holm_divisors, mean_measured
from heldout.studies.verse_published.released import HOSTS, Released

__all__ = ["ALPHA", "Contest", "Pair", "compare_all", "pooled"]

ALPHA = 0.05

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Pair:
    """B minus A on the same tasks, in points; repeats are averaged first, so that a task is one observation."""

    a: Released
    b: Released
    result: CompareResult
    """At 95 %, not corrected."""
    holm_p: float
    """Adjusted for all pairs of the test set."""
    divisor: int
    """Holm's divisor of α for this pair."""
    corrected: Interval
    """Interval of confidence 1 − α / `divisor`: it leaves out 0 exactly where Holm's rule rejects."""

    @property
    def gain(self) -> float:
        return _points(self.result.mean_difference)

    @property
    def standard_error(self) -> float:
        """Over tasks."""
        return _points(self.result.standard_error)

    @property
    def repeats_error(self) -> float:
        """What the two stated standard errors of repeats would give, were they all there is to err."""
        return math.hypot(self.a.sem, self.b.sem)

    @property
    def p_value(self) -> float:
        return 1.0 if self.result.p_value is None else self.result.p_value

    @property
    def interval(self) -> Interval:
        return _interval(self.result)

    def turned(self) -> Pair:
        """The same comparison as A minus B."""
        low, high = self.corrected
        back = _compare(self.b, self.a)
        return Pair(self.b, self.a, back, self.holm_p, self.divisor, (-high, -low))


@dataclass(frozen=True, slots=True)
class Contest:
    """All settings on one test set, and all pairs of them."""

    settings: Mapping[str, Released]
    pairs: tuple[Pair, ...]
    """In the order of the settings; B is the later one."""

    def of(self, better: str, worse: str) -> Pair:
        """`better` minus `worse`."""
        for one in self.pairs:
            if (one.a.name, one.b.name) == (worse, better):
                return one
            if (one.a.name, one.b.name) == (better, worse):
                return one.turned()
        raise KeyError((better, worse))

    def family(self, wanted: Iterable[tuple[str, str]]) -> tuple[Pair, ...]:
        """Some of the pairs, (better, worse), corrected for their own number only."""
        return _corrected([(pair.a, pair.b, pair.result) for pair in (self.of(*names) for names in wanted)])


def compare_all(settings: Mapping[str, Released]) -> Contest:
    """Compare every pair, and correct for the number of pairs (Holm)."""
    compared = [(a, b, _compare(a, b)) for a, b in combinations(settings.values(), 2)]
    return Contest(settings, _corrected(compared))


def pooled(contest: Contest) -> CompareResult:
    """VERSE against its host, averaged over the hosts within each task: one comparison, tasks as the unit."""
    sides = []
    for names in (tuple(HOSTS), tuple(HOSTS.values())):
        columns = [mean_measured(contest.settings[name].scores) for name in names]
        sides.append(np.mean(columns, axis=0)[:, None])
    tasks = tuple(sorted(next(iter(contest.settings.values())).outcomes.scores))
    return compare_outcomes(Comparison(tasks, *sides))


def _corrected(compared: Sequence[tuple[Released, Released, CompareResult]]) -> tuple[Pair, ...]:
    p_values = [1.0 if result.p_value is None else result.p_value for _, _, result in compared]
    adjusted, divisors = holm_adjusted(p_values), holm_divisors(p_values, alpha=ALPHA)
    return tuple(
        Pair(a, b, result, p, divisor, _interval(_compare(a, b, confidence=1.0 - ALPHA / divisor)))
        for (a, b, result), p, divisor in zip(compared, adjusted, divisors, strict=True)
    )


def _compare(a: Released, b: Released, *, confidence: float = 1.0 - ALPHA) -> CompareResult:
    return compare_outcomes(pair(a.outcomes, b.outcomes), confidence=confidence)


def _interval(result: CompareResult) -> Interval:
    low, high = result.interval or (-1.0, 1.0)
    return _points(low), _points(high)


def _points(value: float | None) -> float:
    """To a billionth of a point, so that a sum in another order gives no −0.0."""
    return round(100.0 * (value or 0.0), 9) + 0.0
