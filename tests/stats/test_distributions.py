from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from heldout.stats import beta_quantile, incomplete_beta, normal_quantile, t_quantile, t_tail


@pytest.mark.parametrize("df", [1, 2, 3, 7, 15, 63, 255, 999, 100_000])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.9999])
def test_t_quantile_agrees_with_scipy(df: int, confidence: float) -> None:
    expected = scipy_stats.t.ppf((1 + confidence) / 2, df)
    assert t_quantile(confidence, df) == pytest.approx(expected, rel=1e-8)


def test_t_quantile_of_one_degree_of_freedom_is_the_cauchy_quantile() -> None:
    assert t_quantile(0.95, 1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-12)


@pytest.mark.parametrize(("t", "df"), [(0.0, 5), (1.0, 1), (2.5, 15), (9.0, 200)])
def test_t_tail_agrees_with_scipy(t: float, df: int) -> None:
    assert t_tail(t, df) == pytest.approx(2 * scipy_stats.t.sf(t, df), rel=1e-10)


@given(
    x=st.floats(0.0, 1.0),
    a=st.floats(0.5, 500.0),
    b=st.floats(0.5, 500.0),
)
def test_incomplete_beta_agrees_with_scipy(x: float, a: float, b: float) -> None:
    assert incomplete_beta(x, a, b) == pytest.approx(scipy_stats.beta.cdf(x, a, b), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(("p", "a", "b"), [(0.025, 5, 1), (0.975, 6, 4), (0.5, 1, 1), (0.999, 0.5, 40)])
def test_beta_quantile_agrees_with_scipy(p: float, a: float, b: float) -> None:
    assert beta_quantile(p, a, b) == pytest.approx(scipy_stats.beta.ppf(p, a, b), rel=1e-10)


def test_normal_quantile_is_two_sided() -> None:
    assert normal_quantile(0.95) == pytest.approx(1.959963985, abs=1e-9)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 1.2])
def test_impossible_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence lies between 0 and 1"):
        t_quantile(confidence, 4)


def test_zero_degrees_of_freedom_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        t_quantile(0.95, 0)
