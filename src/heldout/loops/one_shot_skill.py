"""One skill for all tasks, written once and never edited: the one-shot baseline of arXiv 2609.39148.

The paper compares with a skill that a model writes before anything was tried. Our reading: the writer sees a few train
tasks and what they show, no traces and no scores; and the skill is held against no skill on a fresh select sweep, as
the finals of all loops are, which the paper's baseline is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.loops.base import Edits, Found
from heldout.loops.session import Session
from heldout.loops.skills.beginning import begin
from heldout.loops.skills.drafting import draft
from heldout.loops.skills.options import DraftedOptions
from heldout.loops.skills.selecting import best_so_far, select_final
from heldout.options import read_options
from heldout.records import Candidate

__all__ = ["OneShotSkill"]

TRACK = "skill"


@dataclass(slots=True)
class OneShotSkill:
    """One track, the skill; one draft, no rounds, and no gate."""

    session: Session
    options_model: ClassVar[type[DraftedOptions]] = DraftedOptions
    edits: ClassVar[Edits] = "skills"
    _found: Found | None = None

    def run(self, start: Candidate) -> Found:
        """Measure the start, draft a skill, and let a fresh sweep decide between the two."""
        options = read_options(DraftedOptions, self.session.config.options, where="the loop 'one_shot_skill'")
        search = begin(self.session, start, options, target="skill")
        draft(search, tasks=options.drafted_from)
        self._found = Found(*select_final(search), ended="one skill was drafted")
        return self._found

    def found(self, start: Candidate) -> Found:
        """The final selection, or for a run that stopped early the skill, if it beats the start on select."""
        return self._found or Found(*best_so_far(self.session, start, track=TRACK))
