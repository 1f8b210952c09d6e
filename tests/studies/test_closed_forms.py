"""Part (a): closed forms against simulation, and the specification's figures."""

from __future__ import annotations

import pytest

from heldout.studies import Part, Table
from heldout.studies.tables import Estimate
from heldout.studies.winners_curse import closed_forms


@pytest.fixture(scope="module")
def part() -> Part:
    return closed_forms()


def _table(part: Part, name: str) -> Table:
    return next(table for table in part.tables if table.name == name)


def test_every_closed_form_is_met_by_its_simulation(part: Part) -> None:
    for quantity, setting, _, expected, simulated, difference, ok in _table(part, "closed_forms").rows:
        assert isinstance(simulated, Estimate)
        assert isinstance(expected, float | int)
        assert difference == pytest.approx(simulated.value - expected)
        assert ok is True, f"{quantity} at {setting}: {expected} against {simulated}"


def test_p1_is_within_a_tenth_of_a_point_of_the_stated_nine_point_two_one(part: Part) -> None:
    rows = [row for row in _table(part, "closed_forms").rows if row[0] == "P1, overstatement of the best"]
    stated = [row for row in rows if row[2] == 9.21]
    assert len(stated) == 3
    for row in stated:
        assert row[3] == pytest.approx(9.206, abs=0.005)  # 1.0294 * 100 / sqrt(125)
        assert isinstance(row[4], Estimate)
        assert row[4].value == pytest.approx(9.21, abs=0.1)


def test_the_smallest_committing_tables_are_the_papers(part: Part) -> None:
    assert [row[-1] for row in _table(part, "rule_tables").rows] == [True] * 4


def test_another_seed_draws_other_numbers_and_the_same_seed_the_same(part: Part) -> None:
    assert closed_forms() == part
    assert _table(closed_forms(seed=1), "closed_forms").rows != _table(part, "closed_forms").rows
