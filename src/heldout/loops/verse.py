"""A verified self-evolving optimizer for agent harnesses: VERSE (arXiv 2610.02616)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.loops.agents.attempting import Attempted, attempt
from heldout.loops.agents.beginning import begin
from heldout.loops.agents.deciding import decide, nothing_measured
from heldout.loops.agents.experiments import Experiments, attribute
from heldout.loops.agents.method_audit import audit_method
from heldout.loops.agents.options import VerseOptions
from heldout.loops.agents.reflecting import RoundFacts, reflect
from heldout.loops.agents.selecting import best_so_far, select_final
from heldout.loops.agents.showing import record_signatures, show, traces_of
from heldout.loops.agents.state import Agents, Round, Shown
from heldout.loops.agents.sweeping import confirm, must_sweep, score_predictions, sweep_train
from heldout.loops.base import Edits, Found
from heldout.loops.session import Session, unscored
from heldout.records import Candidate
from heldout.store.agent_events import FlipsConfirmed, RoundStarted

__all__ = ["Verse"]


@dataclass(slots=True)
class Verse:
    """Two tracks: the harness, and the improver's own method. Step numbers refer to §4 of the specification."""

    session: Session
    options_model: ClassVar[type[VerseOptions]] = VerseOptions
    edits: ClassVar[Edits] = "folders"
    _agents: Agents | None = None
    _found: Found | None = None

    def run(self, start: Candidate) -> Found:
        """Sweep the start on train and select, know the noise, then R rounds, the final selection, the method audit."""
        agents = self._agents = begin(self.session, start)
        for number in range(1, self.session.config.search.generations + 1):
            self._round(agents, number)
        self._found = Found(*select_final(agents))
        audit_method(agents)
        return self._found

    def found(self, start: Candidate) -> Found:
        """The final selection, or for a run that stopped early the best harness by its recorded select score."""
        if self._found is not None:
            return self._found
        first = self.session.start or unscored(start)
        return Found(first, first if self._agents is None else best_so_far(self._agents))

    def _round(self, agents: Agents, number: int) -> None:
        """One round; whatever does not keep its edit leaves the harness head where it was."""
        shown = self._evidence(agents, number)
        experiments = Experiments.of_round(agents, Round(number, draw=number))
        attempted = attempt(agents, Round(number, draw=number), shown, agents.method, experiments)
        flips = self._gate(agents, number, attempted)
        facts = RoundFacts(number, agents.notes[-1], attempted, flips, experiments.evidence(), shown)
        agents.method = reflect(agents, facts, experiments)

    def _evidence(self, agents: Agents, number: int) -> Shown:
        """Steps 1 and 2: a train sweep where it is due, predictions scored, failures minimised, all of it shown."""
        due = must_sweep(agents, number)
        started = RoundStarted(round=number, head=agents.head.candidate.digest, method=agents.method.digest, swept=due)
        agents.session.recorder.record("round.started", started)
        if due:
            sweep_train(agents)
            score_predictions(agents)
        traces = traces_of(agents, agents.sweeps[-1])
        if due or number == 1:
            agents.attributions = attribute(agents, number, traces)
            record_signatures(agents, number, traces)
        return show(agents, number, traces)

    def _gate(self, agents: Agents, number: int, attempted: Attempted) -> FlipsConfirmed | None:
        """Steps 8 to 10: the select sweep, flips confirmed, the paired table to the gate, the head moved or not."""
        if attempted.winner is None or attempted.winner.digest is None:
            nothing_measured(agents, number, attempted)
            return None
        candidate = self.session.store.load(attempted.winner.digest)
        flips, measured = confirm(agents, Round(number, draw=number), candidate, base=agents.head)
        decide(agents, attempted.winner, flips, measured)
        return flips
