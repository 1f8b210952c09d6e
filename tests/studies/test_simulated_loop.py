"""Part (b): the reference results, the claims, and what they would say of other numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heldout.studies import Claim, ClaimVerdict, Part, Table
from heldout.studies.winners_curse.arms import RULES, Arm
from heldout.studies.winners_curse.claims import Evidence, simulated_claims
from heldout.studies.winners_curse.simulated_loop import SimulationPlan, simulated_loop
from heldout.studies.winners_curse.summaries import ArmRuns, run_arm


def _table(part: Part, name: str) -> Table:
    return next(table for table in part.tables if table.name == name)


@pytest.fixture(scope="module")
def quick() -> Part:
    return simulated_loop(quick=True)


def test_the_reference_table_has_every_stated_number_at_these_sizes(quick: Part) -> None:
    rows = _table(quick, "simulated_reference").rows
    stated = {(row[0], row[1], row[2]): row[3] for row in rows}
    assert stated["greedy", 16, "inflation"] == 16.7
    assert stated["bayes", 64, "true gain"] == 20.0
    assert stated["greedy, f = 0.3", 64, "inflation"] == 8.5
    assert len(rows) == 2 * (5 * 4 + 3 + 1) + 1
    assert all(row[-1] for row in rows)


def test_arms_at_equal_cost_spend_at_most_the_total(quick: Part) -> None:
    spent = [row[2] for row in _table(quick, "simulated_equal_cost").rows]
    assert max(spent) <= 1_296  # type: ignore[type-var, operator]
    assert min(spent) >= 1_000  # type: ignore[type-var, operator]


def test_claims_come_in_order_and_a_table_without_256_items_leaves_c1_open(quick: Part) -> None:
    assert [claim.id for claim in quick.claims] == [f"C{at}" for at in range(1, 9)]
    assert quick.claims[0].verdict is ClaimVerdict.UNDECIDED


def test_equal_plans_give_equal_parts() -> None:
    plan = SimulationPlan(sizes=(16, 64), seeds=3, claim_seeds=3, coverage_runs=20)
    assert simulated_loop(plan) == simulated_loop(plan)


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    arms = {(rule, n): run_arm(Arm(rule, n), 60) for rule in RULES for n in (16, 64)}
    strong = {n: run_arm(Arm("greedy", n, world_name="strong"), 60) for n in (16, 64)}
    plain = {n: run_arm(Arm("greedy", n, world_name="plain"), 60) for n in (16, 64)}
    return Evidence(arms, strong=strong, plain=plain)


def _claim(evidence: Evidence, name: str) -> Claim:
    return next(claim for claim in simulated_claims(evidence) if claim.id == name)


def _shifted(arm: ArmRuns, gain: float) -> ArmRuns:
    return ArmRuns(arm.arm, tuple(replace(run, skill_final=run.skill_final + gain) for run in arm.runs))


def test_c5_is_not_reproduced_while_select_confirm_leads_and_would_be_if_strict_rules_lost(evidence: Evidence) -> None:
    found = _claim(evidence, "C5")
    assert found.verdict is ClaimVerdict.NOT_REPRODUCED
    assert "select_confirm at n = 16" in found.sentence
    lost = {key: arm if key[0] == "greedy" else _shifted(arm, -0.2) for key, arm in evidence.standard.items()}
    assert _claim(replace(evidence, standard=lost), "C5").verdict is ClaimVerdict.REPRODUCED


def test_c8_turns_when_a_strong_start_truly_gains(evidence: Evidence) -> None:
    assert _claim(evidence, "C8").verdict is ClaimVerdict.REPRODUCED
    gained = {n: _shifted(arm, 0.2) for n, arm in evidence.strong.items()}
    assert _claim(replace(evidence, strong=gained), "C8").verdict is ClaimVerdict.NOT_REPRODUCED


def test_c6_turns_when_the_audit_is_off_by_five_points(evidence: Evidence) -> None:
    off = {
        key: ArmRuns(arm.arm, tuple(replace(run, audit_gain=run.audit_gain + 0.05) for run in arm.runs))
        for key, arm in evidence.standard.items()
    }
    assert _claim(replace(evidence, standard=off), "C6").verdict is ClaimVerdict.NOT_REPRODUCED


def test_c4_rests_on_measured_minus_model(evidence: Evidence) -> None:
    claim, arm = _claim(evidence, "C4"), evidence.greedy[16]
    measured, model = arm.overstatement(first=False), arm.model(first=False)
    assert measured is not None
    assert model is not None
    assert claim.number == pytest.approx(measured.value - model.value)
    later = [commit for run in arm.runs for commit in run.commits[1:]]
    assert measured.value == pytest.approx(100 * np.mean([commit.measured - commit.real for commit in later]))


@pytest.mark.slow
def test_at_200_seeds_the_rules_meet_the_reference_table_in_every_cell() -> None:
    part = simulated_loop()
    rows = _table(part, "simulated_reference").rows
    of_the_table = [row for row in rows if row[2] in ("inflation", "reported gain", "true gain", "commits")]
    assert len(of_the_table) == 63
    assert [row[:3] for row in of_the_table if not row[-1]] == []
    # One of the other ten is missed: the stated RMSE of the audit at n = 64 lies 0.8 above its own formula.
    assert [row[:3] for row in rows if not row[-1]] == [("greedy", 64, "RMSE of 64-item audit")]
    verdicts = {claim.id: claim.verdict for claim in part.claims}
    assert verdicts.pop("C5") is ClaimVerdict.NOT_REPRODUCED
    assert set(verdicts.values()) == {ClaimVerdict.REPRODUCED}
