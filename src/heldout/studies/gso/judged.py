"""The arm that a content judge decides alone: what the claim about judges is held against (spec §7)."""

from __future__ import annotations

from dataclasses import dataclass

from heldout.loops.gso import Gso
from heldout.loops.session import unscored
from heldout.loops.skills.attributing import attribute
from heldout.loops.skills.deciding import move, no_proposal, settle
from heldout.loops.skills.editing import edit
from heldout.loops.skills.solving import solve
from heldout.loops.skills.state import SkillSearch
from heldout.records import Candidate, Decision, Verdict
from heldout.skills.judge import RuleJudge
from heldout.store.skill_events import Judged, ModuleEdited

__all__ = ["JudgedGso"]


@dataclass(slots=True)
class JudgedGso(Gso):
    """`gso` without select sweeps: an edit is kept where the rule judge scores the guide higher than before.

    An ablation that no run outside this study can choose. The final selection stays as it is in all loops.
    """

    def _round(self, search: SkillSearch, number: int) -> None:
        learnable = attribute(search, solve(search, number))
        if learnable is None:
            no_proposal(search, number, "no failure of the batch could be learned from")
            return
        edited = edit(search, learnable, number=number)
        if edited.digest is None:
            no_proposal(search, number, f"no candidate: {edited.fault}", edit=edited)
            return
        self._judge(search, edited, self.session.store.load(edited.digest))

    def _judge(self, search: SkillSearch, edited: ModuleEdited, candidate: Candidate) -> None:
        before, after = (self._verdict(one) for one in (search.head.candidate, candidate))
        better = (after.total or 0.0) > (before.total or 0.0)
        reason = f"the judge's total goes from {before.total} to {after.total}"
        verdict = Verdict.ACCEPT if better else Verdict.REJECT
        decision = Decision(gate="judge", verdict=verdict, winner=0, reason=reason)
        child = unscored(candidate)
        settle(search, edited, decision, parent=search.head, candidate=child, table=None)
        if better:
            move(search, child, number=edited.round, why=reason)

    def _verdict(self, candidate: Candidate) -> Judged:
        """Once for each text, on record."""
        known = self.session.recorder.find("judge", f"{candidate.digest}/rules", Judged)
        return known or self.session.recorder.record("judge", RuleJudge().judge(candidate))
