"""Generalizable skill optimization: one inherited guide, a fresh skill for each task (GSO, arXiv 2609.39148)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from heldout.loops.base import Edits, Found
from heldout.loops.session import Scored, Session, gain_over
from heldout.loops.skills.attributing import attribute
from heldout.loops.skills.beginning import begin
from heldout.loops.skills.deciding import decide, decision_of, move, no_proposal, settle
from heldout.loops.skills.editing import edit
from heldout.loops.skills.options import GsoOptions
from heldout.loops.skills.selecting import best_so_far, select_final
from heldout.loops.skills.solving import solve
from heldout.loops.skills.state import SkillSearch
from heldout.loops.skills.tabling import Measured, compare, compare_once, record_table
from heldout.options import read_options
from heldout.records import Candidate, Verdict
from heldout.stats import EQUAL_WITHIN
from heldout.store.skill_events import ModuleEdited

__all__ = ["Gso"]

TRACK = "guide"


@dataclass(slots=True)
class Gso:
    """One track, the guide. Section and step numbers refer to the specification of the loop."""

    session: Session
    options_model: ClassVar[type[GsoOptions]] = GsoOptions
    edits: ClassVar[Edits] = "skills"
    _found: Found | None = None
    _competing: list[tuple[float, int, Scored]] = field(default_factory=list)
    """Best of N: gain on select, round, candidate."""

    def run(self, start: Candidate) -> Found:
        """Measure the start, know the noise, then rounds of solve, trace, edit and gate (§4); the final selection."""
        options = read_options(GsoOptions, self.session.config.options, where="the loop 'gso'")
        search = begin(self.session, start, options, target="guide")
        for number in range(1, self.session.config.search.generations + 1):
            self._round(search, number)
            if self._iterates and search.gives_up:
                break
        self._choose(search)
        self._found = self._ended(search)
        return self._found

    def found(self, start: Candidate) -> Found:
        """The final selection, or for a run that stopped early the head, if it beats the start on select."""
        return self._found or Found(*best_so_far(self.session, start, track=TRACK))

    def _round(self, search: SkillSearch, number: int) -> None:
        """One batch, one failure, one edit; whatever does not accept it leaves the head where it was."""
        options = read_options(GsoOptions, self.session.config.options, where="the loop 'gso'")
        batch = solve(search, number)
        learnable = attribute(search, batch)
        if learnable is None:
            no_proposal(search, number, "no failure of the batch could be learned from")
            return
        edited = edit(search, learnable, number=number, any_module=options.modules == "any")
        if edited.digest is None:
            no_proposal(search, number, f"no candidate: {edited.fault}", edit=edited)
            return
        candidate = self.session.store.load(edited.digest)
        if self._iterates:
            decide(search, edited, compare(search, search.head, candidate, number=number))
        else:
            self._compete(search, edited, compare_once(search, search.start, candidate))

    @property
    def _iterates(self) -> bool:
        return self.session.config.search.iterate

    def _compete(self, search: SkillSearch, edited: ModuleEdited, measured: Measured) -> None:
        """The arm without iteration: every edit is one of the start guide, scored once at the start's own seeds, and
        none moves the head yet. One that was hardly measured does not compete."""
        table = record_table(search, measured, number=edited.round)
        reason = "best of N: one choice is made at the end"
        gate, undecided = self.session.gate.name, Verdict.UNDECIDED
        decision = decision_of(table, gate=gate, verdict=undecided, reason=reason)
        parent, candidate = measured.sides
        settle(search, edited, decision, parent=parent, candidate=candidate, table=table)
        gain = gain_over(parent, candidate)
        if gain is not None and table.coverage >= search.options.sweep.coverage:
            self._competing.append((gain, edited.round, candidate))

    def _ended(self, search: SkillSearch) -> Found:
        """The final selection; best of N runs every round, however idle."""
        found = Found(*select_final(search))
        return replace(found, ended=search.ended) if self._iterates else found

    def _choose(self, search: SkillSearch) -> None:
        """Best of N: the edit that gained most on select, the earliest of equals, is put to the final selection."""
        best = max(self._competing, key=lambda one: (one[0], -one[1]), default=None)
        if best is not None and best[0] > EQUAL_WITHIN:
            why, rounds = f"the largest gain of {len(self._competing)} edits of the start", self.session.config.search
            move(search, best[2], number=best[1], why=why, after=rounds.generations)
