"""Start against final by family, on tables small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from heldout.audit.families import by_family
from heldout.records import Comparison

NAN = float("nan")


def table(a: list[float], b: list[float]) -> Comparison:
    tasks = tuple(f"t{number}" for number in range(len(a)))
    return Comparison(tasks=tasks, a=np.array(a)[:, None], b=np.array(b)[:, None])


def test_each_family_has_its_own_paired_gain_and_what_is_missing_counts_for_nothing() -> None:
    found = by_family(
        table([1, 1, 0, 1, 1, NAN], [1, 1, 1, 0, 1, 1]),
        ["copy", "copy", "copy", "sort", "sort", "sort"],
        confidence=0.95,
    )
    assert [(one.family, one.n_tasks, one.missing) for one in found] == [("copy", 3, 0), ("sort", 2, 1)]
    copy, sort = found
    assert (copy.start_mean, copy.final_mean, copy.gain) == pytest.approx((2 / 3, 1.0, 1 / 3))
    assert (sort.start_mean, sort.final_mean, sort.gain) == pytest.approx((1.0, 0.5, -0.5))
    assert copy.interval is not None
    assert copy.interval[0] < 1 / 3 < copy.interval[1]


@pytest.mark.parametrize("families", [["one"] * 4, ["", "", "", ""]])
def test_a_single_family_says_nothing_by_family(families: list[str]) -> None:
    assert by_family(table([0, 0, 1, 1], [1, 1, 1, 1]), families, confidence=0.95) == ()


def test_a_family_for_each_task_says_nothing_by_family() -> None:
    many = [f"family {number}" for number in range(61)]
    assert by_family(table([0.0] * 61, [1.0] * 61), many, confidence=0.95) == ()
    assert len(by_family(table([0.0] * 60, [1.0] * 60), many[:60], confidence=0.95)) == 60
