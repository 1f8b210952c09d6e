"""Several tests at once: Holm's step-down rule (Holm 1979), which needs nothing of how the tests depend."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["holm_adjusted", "holm_divisors"]


def holm_adjusted(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the given order: at most α exactly where Holm's rule rejects at family-wise level α.

    The k-th smallest of m (k from 0) times m − k, no smaller than the one before it, at most 1.
    """
    adjusted = [0.0] * len(p_values)
    floor = 0.0
    for place, index in enumerate(_ascending(p_values)):
        floor = max(floor, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = floor
    return tuple(adjusted)


def holm_divisors(p_values: Sequence[float], *, alpha: float = 0.05) -> tuple[int, ...]:
    """By how much α is divided where each test is judged: m, m − 1, … until the first that fails, then no further.

    So an interval of confidence 1 − α / divisor leaves out the null value exactly where Holm's rule rejects.
    """
    divisors = [0] * len(p_values)
    divisor = len(p_values)
    failed = False
    for place, index in enumerate(_ascending(p_values)):
        if not failed:
            divisor = len(p_values) - place
            failed = p_values[index] > alpha / divisor
        divisors[index] = divisor
    return tuple(divisors)


def _ascending(p_values: Sequence[float]) -> list[int]:
    wrong = [value for value in p_values if not 0.0 <= value <= 1.0]
    if wrong:
        raise ValueError(f"a p-value lies in [0, 1], got {wrong[0]!r}")
    return sorted(range(len(p_values)), key=lambda index: (p_values[index], index))
