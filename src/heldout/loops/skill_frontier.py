"""Edits after failures, of the best few skills in turn: a loop like EvoSkill.

EvoSkill, as arXiv 2609.39148 describes it, evolves skills from failures and keeps a frontier of the best by validation
score. "Like" is our reading of that description, not its code: the frontier begins with the start alone; a round takes
its parents in turn, best first, edits one after the first learnable failure of a train batch, with the attributor and
the editor of the other loops, and scores the child on select once, at the seeds of the start. It enters a frontier that
is not full, and else if it beats the worst of it. The run's own gate is not asked. The best of the frontier is the
head, and meets the start in the same final selection as the finals of all loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.loops.base import Edits, Found
from heldout.loops.session import Session
from heldout.loops.skills.attributing import attribute
from heldout.loops.skills.beginning import begin
from heldout.loops.skills.deciding import decision_of, move, no_proposal, settle
from heldout.loops.skills.editing import edit
from heldout.loops.skills.frontier import Frontier
from heldout.loops.skills.options import FrontierOptions
from heldout.loops.skills.selecting import best_so_far, select_final
from heldout.loops.skills.solving import solve
from heldout.loops.skills.state import SkillSearch
from heldout.loops.skills.tabling import compare_once, record_table
from heldout.options import read_options
from heldout.records import Candidate
from heldout.store.skill_events import ModuleEdited

__all__ = ["SkillFrontier"]

TRACK = "skill"


@dataclass(slots=True)
class SkillFrontier:
    """One track, the best skill; its rivals lie beside it in the frontier."""

    session: Session
    options_model: ClassVar[type[FrontierOptions]] = FrontierOptions
    edits: ClassVar[Edits] = "skills"
    _found: Found | None = None

    def run(self, start: Candidate) -> Found:
        """Measure the start, rounds of solve, trace, edit and score, and the final selection of the best."""
        options = read_options(FrontierOptions, self.session.config.options, where="the loop 'skill_frontier'")
        search = begin(self.session, start, options, target="skill")
        frontier = Frontier.from_start(search.head, size=options.frontier)
        for number in range(1, self.session.config.search.generations + 1):
            self._round(search, frontier, number)
            if search.gives_up:
                break
        self._found = Found(*select_final(search), ended=search.ended)
        return self._found

    def found(self, start: Candidate) -> Found:
        """The final selection, or for a run that stopped early the best, if it beats the start on select."""
        return self._found or Found(*best_so_far(self.session, start, track=TRACK))

    def _round(self, search: SkillSearch, frontier: Frontier, number: int) -> None:
        """One parent, one batch, one failure, one edit, one score."""
        parent = frontier.parent(number)
        learnable = attribute(search, solve(search, number, parent=parent.candidate))
        if learnable is None:
            no_proposal(search, number, "no failure of the batch could be learned from", parent=parent)
            return
        edited = edit(search, learnable, number=number)
        if edited.digest is None:
            no_proposal(search, number, f"no candidate: {edited.fault}", edit=edited, parent=parent)
            return
        self._enter(search, frontier, edited)

    def _enter(self, search: SkillSearch, frontier: Frontier, edited: ModuleEdited) -> None:
        """Score the child, let it enter the frontier or not, and move the head to the best."""
        number, load = edited.round, self.session.store.load
        measured = compare_once(search, load(edited.head), load(str(edited.digest)))
        table = record_table(search, measured, number=number)
        parent, child = measured.sides
        entry = frontier.offer(child, number=number, coverage=search.options.sweep.coverage)
        decision = decision_of(table, gate="frontier", verdict=entry.verdict, reason=entry.reason)
        settle(search, edited, decision, parent=parent, candidate=child, table=table)
        best = frontier.best
        if best.candidate.digest != search.head.candidate.digest:
            move(search, best, number=number, why=f"the best of the frontier: {entry.reason}")
