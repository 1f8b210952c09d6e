"""What evidence says of a claim, and the one rule that is enforced: no prediction rests on what was refuted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from heldout.records import Claim, EditProposal, Evidence, EvidenceVerdict, ProbeKind

__all__ = ["ClaimStatus", "claim_status", "inconsistencies"]


class ClaimStatus(StrEnum):
    """What is known of a diagnosis."""

    REFUTED = "refuted"
    VERIFIED = "verified"
    HYPOTHESIS = "hypothesis"


def claim_status(claim: Claim, evidence: Iterable[Evidence], *, edits: str = "", base: str = "") -> ClaimStatus:
    """Any evidence that refutes the claim refutes it; else any that supports it verifies it; else it is a hypothesis.

    Evidence bears on a claim by what was tested, whether the claim cites it or not: a replay on every claim of a step
    of that task; `ablate` and `substitute` on a claim of the same task and step; `fix_probe` on a target, and only
    where draft and base are those of `edits` and `base` (digests): a draft says nothing of another one.
    """
    verdicts = {_bearing(claim, item, edits=edits, base=base) for item in evidence}
    if EvidenceVerdict.REFUTES in verdicts:
        return ClaimStatus.REFUTED
    return ClaimStatus.VERIFIED if EvidenceVerdict.SUPPORTS in verdicts else ClaimStatus.HYPOTHESIS


def inconsistencies(
    proposal: EditProposal, evidence: Sequence[Evidence], *, edits_digest: str, base: str
) -> tuple[str, ...]:
    """Why the proposal contradicts the evidence of its round, one sentence for each; empty where it does not.

    `predicted_fixes` may hold no task with a refuted diagnosis, and no target that a `fix_probe` of the same edits on
    the same base refuted. Evidence never forces acceptance and never blocks other edits.
    """
    faults = []
    for task in dict.fromkeys(proposal.predicted_fixes):
        claims = [claim for claim in proposal.claims if claim.task == task]
        refuted = [
            claim
            for claim in claims
            if claim_status(claim, evidence, edits=edits_digest, base=base) is ClaimStatus.REFUTED
        ]
        drafts = [item for item in evidence if _refuted_target(item, task, edits=edits_digest, base=base)]
        if drafts:
            faults.append(
                f"predicted_fixes holds {task!r}, which did not pass under exactly these edits (evidence "
                f"{', '.join(item.id for item in drafts)}); leave the task out or change the edits"
            )
        elif refuted:
            faults.append(
                f"predicted_fixes holds {task!r}, whose diagnosis {refuted[0].diagnosis!r} is refuted (evidence "
                f"{', '.join(_refuting(refuted[0], evidence))}); leave the task out or diagnose it anew"
            )
    return tuple(faults)


def _bearing(claim: Claim, item: Evidence, *, edits: str, base: str) -> EvidenceVerdict:
    """What this evidence says of the claim; NONE where it does not bear on it."""
    if item.refused or claim.task not in item.tasks:
        return EvidenceVerdict.NONE
    if item.kind is ProbeKind.REPLAY:
        return EvidenceVerdict.NONE if claim.step is None else item.verdict
    if item.kind in (ProbeKind.ABLATE, ProbeKind.SUBSTITUTE):
        return item.verdict if claim.step == item.step else EvidenceVerdict.NONE
    if item.kind is ProbeKind.FIX_PROBE and (item.edits, item.base) == (edits, base):
        # A draft supports the diagnosis of those targets only that it was seen to mend.
        refuting = item.verdict is EvidenceVerdict.REFUTES
        return item.verdict if refuting or claim.task in item.flips else EvidenceVerdict.NONE
    return EvidenceVerdict.NONE


def _refuted_target(item: Evidence, task: str, *, edits: str, base: str) -> bool:
    bound = item.kind is ProbeKind.FIX_PROBE and (item.edits, item.base) == (edits, base)
    return bound and not item.refused and item.verdict is EvidenceVerdict.REFUTES and task in item.tasks


def _refuting(claim: Claim, evidence: Iterable[Evidence]) -> list[str]:
    refuting = (EvidenceVerdict.REFUTES,)
    return [item.id for item in evidence if _bearing(claim, item, edits="", base="") in refuting]
