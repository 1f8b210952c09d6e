from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.stats import holm_adjusted, holm_divisors

P = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12)


def test_adjusted_values_by_hand() -> None:
    """4 · 0.01, 3 · 0.015, then 2 · 0.04 = 0.08, and 1 · 0.03 may not fall below the one before it."""
    assert holm_adjusted([0.04, 0.01, 0.03, 0.015]) == pytest.approx((0.06, 0.04, 0.06, 0.045))
    assert holm_adjusted([0.5, 0.6, 0.9]) == (1.0, 1.0, 1.0)
    assert holm_adjusted([0.03]) == (0.03,)
    assert holm_adjusted([]) == ()


def test_divisors_go_down_until_the_first_failure_and_no_further() -> None:
    assert holm_divisors([0.04, 0.01, 0.03, 0.015]) == (2, 4, 2, 3)
    assert holm_divisors([0.02, 0.03, 0.04]) == (3, 3, 3)
    assert holm_divisors([0.001, 0.002, 0.003]) == (3, 2, 1)


@given(p_values=P)
def test_a_value_is_rejected_at_its_divisor_exactly_where_its_adjusted_value_is(p_values: list[float]) -> None:
    adjusted, divisors = holm_adjusted(p_values), holm_divisors(p_values, alpha=0.05)
    for p, corrected, divisor in zip(p_values, adjusted, divisors, strict=True):
        if abs(p * divisor - 0.05) > 1e-9:
            assert (p <= 0.05 / divisor) == (corrected <= 0.05)
        assert corrected >= p


def test_the_family_wise_error_stays_below_alpha_over_2000_null_families() -> None:
    """Of 9 means compared two by two, which depend on each other."""
    rng = np.random.default_rng(11)
    from scipy import stats as scipy_stats

    false = 0
    for _ in range(2000):
        means = rng.standard_normal(9)
        z = [abs(a - b) / np.sqrt(2) for i, a in enumerate(means) for b in means[:i]]
        false += min(holm_adjusted([float(2 * scipy_stats.norm.sf(value)) for value in z])) <= 0.05
    assert false / 2000 <= 0.05


def test_what_is_no_p_value_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1\.2"):
        holm_adjusted([0.5, 1.2])
    with pytest.raises(ValueError, match="nan"):
        holm_divisors([float("nan")])
