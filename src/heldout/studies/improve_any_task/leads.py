"""Full against other arms, paired over seeds and averaged over the starts, with Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.stats import holm_adjusted, holm_divisors, paired_t_test
from heldout.studies.gso.claims import Lead
from heldout.studies.improve_any_task.arms import FULL
from heldout.studies.improve_any_task.plans import STARTS, Start
from heldout.studies.improve_any_task.runs import Result
from heldout.studies.improve_any_task.summaries import Arms, Known, Measure, both_starts, known, over

__all__ = [
    "ALPHA",
    "audit",
    "by_start",
    "difference",
    "exact_audit",
    "lead_of",
    "others_of",
    "same_models",
    "seeds_of",
]

ALPHA = 0.05
"""Of every family of comparisons, by Holm's rule."""


def audit(one: Result) -> float:
    """Of the final, measured."""
    return one.final.worth.audit


def exact_audit(one: Result) -> float:
    """Of the final, exactly; NaN for real models."""
    exact = one.final.worth.exact
    return float("nan") if exact is None else exact


def others_of(arms: Arms) -> list[str]:
    """The arms that full is compared with: those that are run from every start."""
    starts = _starts(arms)
    return [one for one in arms[starts[0]] if one != FULL and all(one in arms[start] for start in starts)]


def same_models(arms: Arms, one: str, other: str) -> bool:
    """Whether two arms end with the same weights in every run: then nothing that is asked of a final can differ."""
    pairs = [
        pair
        for start in _starts(arms)
        for pair in zip(arms[start][one].results, arms[start][other].results, strict=True)
    ]
    return all(first.final.worth.weights == second.final.worth.weights for first, second in pairs)


def lead_of(arms: Arms, others: Sequence[str], measure: Measure = audit) -> Lead:
    """Full minus each of the others; those that differ in no seed, or have fewer than two, are not compared."""
    own = both_starts(arms, FULL, measure)
    values = {other: both_starts(arms, other, measure) for other in others}
    tests = {other: paired_t_test(given, own) for other, given in values.items()}
    p_values = {other: p for other, p in tests.items() if p is not None}
    divisors = dict(zip(p_values, holm_divisors(list(p_values.values()), alpha=ALPHA), strict=True))
    return Lead(
        {other: known(own - values[other], confidence=1.0 - ALPHA / divisors[other]) for other in p_values},
        dict(zip(p_values, holm_adjusted(list(p_values.values())), strict=True)),
    )


def difference(arms: Arms, one: str, other: str, measure: Measure = audit, *, unit: float = 1.0) -> Known:
    """One arm minus another, with its plain interval."""
    return known(both_starts(arms, one, measure) - both_starts(arms, other, measure), unit=unit)


def by_start(arms: Arms, one: str, other: str, measure: Measure = audit, *, unit: float = 1.0) -> str:
    """The same from each start, in words."""

    return ", ".join(
        f"{start} {over(difference({start: arms[start]}, one, other, measure, unit=unit))}" for start in _starts(arms)
    )


def seeds_of(arms: Arms) -> str:
    """For what a number rests on."""
    starts = _starts(arms)
    return f"paired over {len(arms[starts[0]][FULL].results)} seeds, mean of the starts {' and '.join(starts)}"


def _starts(arms: Arms) -> list[Start]:
    return [start for start in STARTS if start in arms]
