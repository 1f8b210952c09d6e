"""One merged edit after a whole pass over the train tasks: a loop like Trace2Skill.

Trace2Skill, as arXiv 2609.39148 describes it, reads many trajectories, turns each into a local patch, and merges the
patches into one skill. "Like" is our reading of that description, not its code: a pass runs the whole train role with
the head, the attributor names the fault of each failed trace, and one question to the editor, with all of them and a
few passed traces as examples, gives one edit. It is kept where the run's gate lets it: the preset's `tolerance` keeps
it where the select score does not fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.improvers.skill_roles import Attribution
from heldout.loops.base import Edits, Found
from heldout.loops.session import Session
from heldout.loops.skills.attributing import attribute_all, told
from heldout.loops.skills.beginning import begin
from heldout.loops.skills.deciding import decide, no_proposal
from heldout.loops.skills.editing import ask_for_edit
from heldout.loops.skills.options import MergedOptions
from heldout.loops.skills.selecting import best_so_far, select_final
from heldout.loops.skills.solving import run_batch
from heldout.loops.skills.state import Batch, Learnable, SkillSearch
from heldout.loops.skills.tabling import compare
from heldout.options import read_options
from heldout.records import Candidate
from heldout.store.skill_events import ModuleEdited

__all__ = ["MergedPatches"]

TRACK = "skill"


@dataclass(slots=True)
class MergedPatches:
    """One track, the skill."""

    session: Session
    options_model: ClassVar[type[MergedOptions]] = MergedOptions
    edits: ClassVar[Edits] = "skills"
    _found: Found | None = None

    def run(self, start: Candidate) -> Found:
        """Measure the start, passes of solve, trace, merge and gate, and the final selection."""
        options = read_options(MergedOptions, self.session.config.options, where="the loop 'merged_patches'")
        search = begin(self.session, start, options, target="skill")
        for number in range(1, min(options.passes, self.session.config.search.generations) + 1):
            self._pass(search, number, examples=options.examples)
            if search.gives_up:
                break
        self._found = Found(*select_final(search), ended=search.ended)
        return self._found

    def found(self, start: Candidate) -> Found:
        """The final selection, or for a run that stopped early the head, if it beats the start on select."""
        return self._found or Found(*best_so_far(self.session, start, track=TRACK))

    def _pass(self, search: SkillSearch, number: int, *, examples: int) -> None:
        """The whole train role, every failure, one edit."""
        batch = run_batch(search, search.head.candidate, self.session.tasks.train, number=number)
        learnable = attribute_all(search, batch)
        if not learnable:
            no_proposal(search, number, "no failure of the pass could be learned from")
            return
        edited = _merge(search, batch, learnable, examples=examples)
        if edited.digest is None:
            no_proposal(search, number, f"no candidate: {edited.fault}", edit=edited)
            return
        candidate = self.session.store.load(edited.digest)
        decide(search, edited, compare(search, search.head, candidate, number=number))


def _merge(search: SkillSearch, batch: Batch, learnable: tuple[Learnable, ...], *, examples: int) -> ModuleEdited:
    """Failed traces first, in the order of their faults, then passed ones, whose fault is empty."""
    failed = {trace.task.id for trace in batch.failed}
    passed = [trace for trace in batch.traces if trace.task.id not in failed][:examples]
    traces = (*(one.trace for one in learnable), *passed)
    faults = (*(told(one) for one in learnable), *(Attribution() for _ in passed))
    return ask_for_edit(search, batch.candidate, traces, faults, number=batch.round, module=None)
