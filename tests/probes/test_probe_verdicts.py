"""Verdicts, claims and consistency: each row of the specification's table, by hand."""

from __future__ import annotations

import pytest

from heldout.probes import ClaimStatus, claim_status, inconsistencies
from heldout.probes.verdicts import TargetRun, ablate_verdict, fix_verdict, replay_verdict, substitute_verdict
from heldout.records import Claim, Edit, EditProposal, Evidence, EvidenceVerdict, ProbeKind, edits_digest

SUPPORTS, REFUTES = EvidenceVerdict.SUPPORTS, EvidenceVerdict.REFUTES
INCONCLUSIVE, NONE = EvidenceVerdict.INCONCLUSIVE, EvidenceVerdict.NONE


@pytest.mark.parametrize(
    ("passed", "score", "verdict"),
    [
        (False, 0.0, INCONCLUSIVE),
        (False, 1.0, REFUTES),
        (True, 1.0, INCONCLUSIVE),
        (True, 0.0, REFUTES),
        (False, None, INCONCLUSIVE),
        (True, None, INCONCLUSIVE),
    ],
)
def test_a_replay_that_does_not_reproduce_refutes_and_one_that_does_says_nothing(
    passed: bool, score: float | None, verdict: EvidenceVerdict
) -> None:
    assert replay_verdict(passed, score) is verdict


@pytest.mark.parametrize(
    ("passed", "full", "without", "verdict"),
    [
        (False, 0.0, 1.0, SUPPORTS),
        (True, 1.0, 0.0, SUPPORTS),
        (False, 0.0, 0.0, INCONCLUSIVE),
        (True, 1.0, 1.0, INCONCLUSIVE),
        (False, 1.0, 1.0, INCONCLUSIVE),
        (True, 0.0, 0.0, INCONCLUSIVE),
        (False, 1.0, None, INCONCLUSIVE),
        (True, 0.0, None, INCONCLUSIVE),
        (False, None, None, INCONCLUSIVE),
        (False, 0.0, None, INCONCLUSIVE),
    ],
)
def test_an_ablation_supports_on_a_flip_and_never_refutes(
    passed: bool, full: float | None, without: float | None, verdict: EvidenceVerdict
) -> None:
    assert ablate_verdict(passed, full, without) is verdict


def test_a_substitution_supports_on_a_pass_and_never_refutes() -> None:
    assert [substitute_verdict(score) for score in (1.0, 0.0, None)] == [SUPPORTS, INCONCLUSIVE, INCONCLUSIVE]


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ([(1.0, 1.0), (0.0, None)], SUPPORTS),
        ([(1.0, 0.0), (0.0, None)], INCONCLUSIVE),
        ([(1.0, 1.0), (1.0, 0.0)], SUPPORTS),
        ([(0.0, None), (0.0, None)], REFUTES),
        ([(0.0, None), (None, None)], INCONCLUSIVE),
        ([(1.0, None)], INCONCLUSIVE),
        ([], INCONCLUSIVE),
    ],
)
def test_a_draft_supports_with_one_confirmed_pass_and_refutes_only_where_all_failed(
    runs: list[tuple[float | None, float | None]], verdict: EvidenceVerdict
) -> None:
    assert fix_verdict([TargetRun(f"t{i}", *run) for i, run in enumerate(runs)]) is verdict


def test_a_pass_that_a_second_run_does_not_confirm_is_never_counted_as_a_flip() -> None:
    denied, lost = TargetRun("t1", 1.0, 0.0), TargetRun("t1", 1.0, None)
    assert (denied.flipped, denied.unconfirmed, denied.unmeasured) == (False, True, False)
    assert (lost.flipped, lost.unconfirmed, lost.unmeasured) == (False, False, True)


def evidence(kind: ProbeKind, verdict: EvidenceVerdict, *tasks: str, **rest: object) -> Evidence:
    return Evidence(round=3, episode=1, ordinal=2, kind=kind, tasks=tasks, verdict=verdict, **rest)  # type: ignore[arg-type]


STEP = Claim(task="t1", diagnosis="it undid its own mend", step=4)
PLAIN = Claim(task="t1", diagnosis="it never ran the checks")
GONE = evidence(ProbeKind.REPLAY, REFUTES, "t1")
CAUSE = evidence(ProbeKind.ABLATE, SUPPORTS, "t1", step=4)
MENDED = evidence(ProbeKind.FIX_PROBE, SUPPORTS, "t1", "t2", edits="X", base="B", flips=("t1",))
DEAD = evidence(ProbeKind.FIX_PROBE, REFUTES, "t1", "t2", edits="X", base="B")


def test_any_refutation_refutes_else_any_support_verifies_else_it_is_a_hypothesis() -> None:
    assert claim_status(STEP, []) is ClaimStatus.HYPOTHESIS
    assert claim_status(STEP, [CAUSE]) is ClaimStatus.VERIFIED
    assert claim_status(STEP, [CAUSE, GONE]) is ClaimStatus.REFUTED


def test_a_replay_refutes_every_step_claim_on_its_trace_and_no_other() -> None:
    assert claim_status(STEP.model_copy(update={"step": 0}), [GONE]) is ClaimStatus.REFUTED
    assert claim_status(PLAIN, [GONE]) is ClaimStatus.HYPOTHESIS
    assert claim_status(STEP.model_copy(update={"task": "t2"}), [GONE]) is ClaimStatus.HYPOTHESIS
    valid = evidence(ProbeKind.REPLAY, INCONCLUSIVE, "t1")
    assert claim_status(STEP, [valid]) is ClaimStatus.HYPOTHESIS


def test_an_ablation_bears_on_its_own_step_alone() -> None:
    assert claim_status(STEP.model_copy(update={"step": 3}), [CAUSE]) is ClaimStatus.HYPOTHESIS
    assert claim_status(PLAIN, [CAUSE]) is ClaimStatus.HYPOTHESIS


def test_a_draft_bears_on_claims_of_the_same_edits_on_the_same_base() -> None:
    assert claim_status(PLAIN, [MENDED], edits="X", base="B") is ClaimStatus.VERIFIED
    assert claim_status(PLAIN, [MENDED], edits="Y", base="B") is ClaimStatus.HYPOTHESIS
    assert claim_status(PLAIN, [MENDED], edits="X", base="C") is ClaimStatus.HYPOTHESIS
    other = PLAIN.model_copy(update={"task": "t2"})
    assert claim_status(other, [MENDED], edits="X", base="B") is ClaimStatus.HYPOTHESIS, "t2 did not flip"
    assert claim_status(PLAIN, [DEAD], edits="X", base="B") is ClaimStatus.REFUTED


def test_a_refused_probe_and_a_plain_run_say_nothing() -> None:
    refused = GONE.model_copy(update={"refused": "the count"})
    plain = evidence(ProbeKind.RUN_EPISODE, NONE, "t1", edits="X", base="B", passed=("t1",))
    assert claim_status(STEP, [refused, plain], edits="X", base="B") is ClaimStatus.HYPOTHESIS


def test_a_prediction_on_a_refuted_diagnosis_is_inconsistent() -> None:
    proposal = EditProposal(predicted_fixes=("t1", "t2"), claims=(STEP,))
    (fault,) = inconsistencies(proposal, [GONE], edits_digest="Y", base="B")
    assert fault == (
        "predicted_fixes holds 't1', whose diagnosis 'it undid its own mend' is refuted (evidence 3/1/2); "
        "leave the task out or diagnose it anew"
    )
    without = proposal.model_copy(update={"predicted_fixes": ("t2",)})
    assert inconsistencies(without, [GONE], edits_digest="Y", base="B") == ()


def test_a_target_that_the_same_edits_did_not_fix_may_not_be_predicted() -> None:
    proposal = EditProposal(predicted_fixes=("t2", "t9"))
    (fault,) = inconsistencies(proposal, [DEAD], edits_digest="X", base="B")
    assert "'t2', which did not pass under exactly these edits (evidence 3/1/2)" in fault


def test_edits_have_one_digest_exactly_where_they_make_one_folder() -> None:
    good, bad, other = Edit(path="a", content="good"), Edit(path="a", content="bad"), Edit(path="b", content=None)
    assert edits_digest([good, other]) == edits_digest([other, good])
    assert edits_digest([bad, good]) == edits_digest([good]) != edits_digest([good, bad]) == edits_digest([bad])
    assert edits_digest([Edit(path="b", content="")]) != edits_digest([other])


def test_a_refutation_for_edits_digest_x_never_blocks_an_edit_whose_digest_is_not_x() -> None:
    proposal = EditProposal(predicted_fixes=("t1", "t2"), claims=(STEP, PLAIN))
    for edits, base in (("Y", "B"), ("X", "C"), ("", "B"), ("x", "B")):
        assert inconsistencies(proposal, [DEAD], edits_digest=edits, base=base) == ()
    assert len(inconsistencies(proposal, [DEAD], edits_digest="X", base="B")) == 2


def test_evidence_never_forces_acceptance_and_its_absence_blocks_nothing() -> None:
    proposal = EditProposal(predicted_fixes=("t1",), claims=(STEP,))
    assert inconsistencies(proposal, [], edits_digest="X", base="B") == ()
    assert inconsistencies(EditProposal(claims=(STEP,)), [GONE, DEAD], edits_digest="X", base="B") == ()


def test_a_missing_outcome_changes_neither_side_of_a_fix_probe() -> None:
    measured = [TargetRun("t1", 1.0, 1.0), TargetRun("t2", 0.0)]
    assert fix_verdict([*measured, TargetRun("t3", None)]) is fix_verdict(measured)
    assert fix_verdict([TargetRun("t2", 0.0), TargetRun("t3", None)]) is not REFUTES
