"""Quantiles of the t and beta distributions, from the regularised incomplete beta function.

Own code because scipy is only a test dependency; the tests hold it against scipy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

__all__ = ["beta_quantile", "incomplete_beta", "normal_quantile", "t_quantile", "t_tail"]

_TINY = 1e-300
_TERMS = 20_000


def normal_quantile(confidence: float) -> float:
    """z with P(|Z| < z) = `confidence`, for a standard normal Z."""
    _check_confidence(confidence)
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, df: int) -> float:
    """t with P(|T| < t) = `confidence`, for Student's T with `df` degrees of freedom.

    Newton's method on `t_tail`. The distribution function is concave for
    t > 0 and the normal quantile lies below the root, so the steps rise to it and never pass it.
    """
    if df < 1:
        raise ValueError(f"degrees of freedom must be at least 1, got {df!r}")
    t = normal_quantile(confidence)
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    for _ in range(200):
        density = math.exp(log_scale - (df + 1) / 2 * math.log1p(t * t / df))
        step = (t_tail(t, df) - (1.0 - confidence)) / (2.0 * density)
        t += step
        if abs(step) <= 1e-13 * t:
            break
    return t


def t_tail(t: float, df: int) -> float:
    """P(|T| > t) for Student's T with `df` degrees of freedom: I_{df / (df + t²)}(df/2, 1/2)."""
    return incomplete_beta(df / (df + t * t), df / 2, 0.5)


def beta_quantile(probability: float, a: float, b: float) -> float:
    """x with I_x(a, b) = `probability`, by bisection to the last bit."""
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"a probability lies in [0, 1], got {probability!r}")
    low, high = 0.0, 1.0
    while True:
        middle = (low + high) / 2.0
        if middle in (low, high):
            return middle
        if incomplete_beta(middle, a, b) < probability:
            low = middle
        else:
            high = middle


def incomplete_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b), regularised (DLMF 8.17.2), for a, b > 0 and x in [0, 1]."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(1.0 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / (a * _continued_fraction(x, a, b))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + …)) of DLMF 8.17.22, by the modified Lentz method."""
    value, c, d = 1.0, 1.0, 0.0
    for term in range(1, _TERMS):
        m = term // 2
        if term % 2:
            factor = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            factor = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / ((1.0 + factor * d) or _TINY)
        c = (1.0 + factor / c) or _TINY
        value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence lies between 0 and 1, got {confidence!r}")
