"""The improver without a model: it chooses labelled examples from train and edits phrases of the instruction."""

from __future__ import annotations

import random
from typing import Literal

from pydantic import Field

from heldout.config import ImproverConfig
from heldout.harness import Prompt, read_prompt
from heldout.improvers.base import View
from heldout.improvers.phrases import PHRASES
from heldout.improvers.prompt_moves import MOVES, Changed, Setting
from heldout.models.base import Model
from heldout.options import read_options
from heldout.records import Candidate, Proposal, Record

__all__ = ["DemonstrationsImprover", "DemonstrationsOptions"]

MoveName = Literal["add", "swap", "drop", "reorder", "phrase"]

_WEIGHTS = {"add": 5, "swap": 4, "phrase": 4, "drop": 1, "reorder": 2}
"""How often each move is tried first."""

_SECOND_MOVE = 0.4
"""Chance of a second move in the same proposal: single ones are often too small to measure."""

_TRIES = 25


class DemonstrationsOptions(Record):
    """`improver.options` of `demonstrations`."""

    max_demonstrations: int = Field(default=12, ge=0, le=200)
    """Examples that a prompt may show."""
    moves: tuple[MoveName, ...] = Field(default=("add", "swap", "drop", "reorder", "phrase"), min_length=1)
    """Kinds of change that are tried."""
    phrases: tuple[str, ...] = PHRASES
    """Sentences that may join or leave the instruction; `{labels}` becomes the list of labels."""


class DemonstrationsImprover:
    """One or two small moves from the incumbent, drawn from the view's seed and led by its failures.

    It never proposes the incumbent or an earlier candidate; None when twenty-five draws find nothing new.
    """

    uses_model = False

    def __init__(self, config: ImproverConfig, model: Model | None = None) -> None:
        del model
        self.options = read_options(DemonstrationsOptions, config.options, where=f"improver {config.kind!r}")

    def propose(self, view: View) -> Proposal | None:
        """A changed prompt. `HarnessError` where the incumbent's folder cannot be read."""
        prompt = read_prompt(view.incumbent.files)
        rng = random.Random(f"demonstrations {view.seed}")
        setting = Setting(view, rng, self.options.max_demonstrations, self.options.phrases)
        known = {view.incumbent.digest, *(attempt.digest for attempt in view.history)}
        for _ in range(_TRIES):
            changed = self._changed(prompt, setting)
            files = {**view.incumbent.files, **changed.prompt.files()}
            if changed.note and Candidate(files=files, weights=view.incumbent.weights).digest not in known:
                return Proposal(files=files, note=changed.note)
        return None

    def _changed(self, prompt: Prompt, setting: Setting) -> Changed:
        """One move, sometimes two; the note is empty where none applied."""
        count = 2 if setting.rng.random() < _SECOND_MOVE else 1
        notes: list[str] = []
        for name in self._order(setting.rng):
            changed = MOVES[name](prompt, setting)
            if changed is not None:
                prompt, notes = changed.prompt, [*notes, changed.note]
            if len(notes) == count:
                break
        return Changed(prompt, "; ".join(notes))

    def _order(self, rng: random.Random) -> list[MoveName]:
        """The moves in random order, heavier ones earlier (Efraimidis and Spirakis 2006)."""
        return sorted(self.options.moves, key=lambda name: -(rng.random() ** (1 / _WEIGHTS[name])))
