"""Diagnosis first: attribute the error, choose a direction, execute it (ImproveAnyTask, arXiv 2610.06347)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.loops.base import Edits, Found
from heldout.loops.session import Session, unscored
from heldout.loops.weights.beginning import begin
from heldout.loops.weights.deciding import add_child, decide, measure_training_noise
from heldout.loops.weights.diagnosing import attribute
from heldout.loops.weights.directing import direct
from heldout.loops.weights.evaluating import score
from heldout.loops.weights.fitting import fit
from heldout.loops.weights.keeping import end_attempt, guard, keep_assets, note_of
from heldout.loops.weights.options import ImproveOptions
from heldout.loops.weights.preflighting import prepare
from heldout.loops.weights.selecting import best_so_far, select_final
from heldout.loops.weights.state import Direction, Grounded, Prepared, WeightsSearch
from heldout.options import read_options
from heldout.records import Candidate
from heldout.store.training_events import AttemptEnded

__all__ = ["ImproveAnyTask"]


@dataclass(slots=True)
class ImproveAnyTask:
    """One track, the model's weights, and the assets that its trainings prove. Step numbers refer to the
    specification of the loop."""

    session: Session
    options_model: ClassVar[type[ImproveOptions]] = ImproveOptions
    edits: ClassVar[Edits] = "weights"
    _found: Found | None = None
    _search: WeightsSearch | None = None

    def run(self, start: Candidate) -> Found:
        """Measure the start, know the noise, then rounds of diagnosis, direction and execution; the final selection."""
        options = read_options(ImproveOptions, self.session.config.options, where="the loop 'improve_any_task'")
        search = self._search = begin(self.session, start, options)
        for number in range(1, self.session.config.search.generations + 1):
            guard(search, number)
            attempt = self._round(search, number)
            guard(search, number, after=True)
            if attempt.status == "no_strategy":
                search.ended = attempt.reason
                break
        self._found = Found(*select_final(search), ended=search.ended)
        return self._found

    def found(self, start: Candidate) -> Found:
        """The final selection; for a run that stopped early, from what was measured until then."""
        if self._found is not None:
            return self._found
        if self._search is None:
            first = self.session.start or unscored(start)
            return Found(first, first)
        return Found(*best_so_far(self._search))

    def _round(self, search: WeightsSearch, number: int) -> AttemptEnded:
        """Evaluate and attribute, direct, build and climb the ladder (steps 1 to 5a and b)."""
        attributed = attribute(search, number)
        if attributed.diagnosed.focal is None:
            return end_attempt(search, Direction(number, attributed))
        direction = Direction(number, attributed, direct(search, attributed, number))
        prepared = prepare(search, direction)
        if isinstance(prepared, Grounded):
            return end_attempt(search, direction, grounded=prepared)
        return self._execute(search, direction, prepared)

    def _execute(self, search: WeightsSearch, direction: Direction, prepared: Prepared) -> AttemptEnded:
        """The full training, its child on the deciding tasks, the gate, and what was proven (steps 5c and 6)."""
        trained = fit(search, prepared, direction.number)
        if trained.weights is None:
            return end_attempt(search, direction, prepared=prepared, trained=trained)
        keep_assets(search, direction, prepared, trained)
        note = note_of(direction)
        child = score(search, add_child(search, trained, note=note))
        search.pool.append((direction.number, child))
        measure_training_noise(search, prepared, child, direction.number, note=note)
        decision = decide(search, child, direction.number)
        return end_attempt(search, direction, prepared=prepared, trained=trained, decision=decision, child=child)
