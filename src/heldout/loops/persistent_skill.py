"""One skill that is kept and rewritten after failures, if a gate lets it: a loop like SkillOpt.

SkillOpt, as arXiv 2609.39148 describes it, edits one persistent skill and keeps an edit where the validation score
rises. "Like" is our reading of that description, not its code: here a round makes one edit after one attributed
failure, with the attributor, the editor, the paired sweeps, and the final selection that `gso` has, so that the two
differ in what is kept (a skill for all tasks, not a guide) and in the gate. `gate.kind = "greedy"` is the strict rule;
`repairs_over_regressions` gives the arm "persistent skill, GSO gate", in which no module is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.loops.base import Edits, Found
from heldout.loops.session import Session
from heldout.loops.skills.attributing import attribute
from heldout.loops.skills.beginning import begin
from heldout.loops.skills.deciding import decide, no_proposal
from heldout.loops.skills.drafting import draft
from heldout.loops.skills.editing import edit
from heldout.loops.skills.options import DraftedOptions
from heldout.loops.skills.selecting import best_so_far, select_final
from heldout.loops.skills.solving import solve
from heldout.loops.skills.state import SkillSearch
from heldout.loops.skills.tabling import compare
from heldout.options import read_options
from heldout.records import Candidate
from heldout.skills.guide import kind_of

__all__ = ["PersistentSkill"]

TRACK = "skill"


@dataclass(slots=True)
class PersistentSkill:
    """One track, the skill."""

    session: Session
    options_model: ClassVar[type[DraftedOptions]] = DraftedOptions
    edits: ClassVar[Edits] = "skills"
    _found: Found | None = None

    def run(self, start: Candidate) -> Found:
        """Measure the start, draft a skill where it is none, rounds of solve, trace, edit and gate, and the choice."""
        options = read_options(DraftedOptions, self.session.config.options, where="the loop 'persistent_skill'")
        search = begin(self.session, start, options, target="skill")
        if kind_of(start) == "none":
            draft(search, tasks=options.drafted_from)
        for number in range(1, self.session.config.search.generations + 1):
            self._round(search, number)
            if search.gives_up:
                break
        self._found = Found(*select_final(search), ended=search.ended)
        return self._found

    def found(self, start: Candidate) -> Found:
        """The final selection, or for a run that stopped early the head, if it beats the start on select."""
        return self._found or Found(*best_so_far(self.session, start, track=TRACK))

    def _round(self, search: SkillSearch, number: int) -> None:
        """One batch, one failure, one edit of the skill."""
        batch = solve(search, number)
        learnable = attribute(search, batch)
        if learnable is None:
            no_proposal(search, number, "no failure of the batch could be learned from")
            return
        edited = edit(search, learnable, number=number)
        if edited.digest is None:
            no_proposal(search, number, f"no candidate: {edited.fault}", edit=edited)
            return
        candidate = self.session.store.load(edited.digest)
        decide(search, edited, compare(search, search.head, candidate, number=number))
