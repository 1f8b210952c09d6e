"""Keep-if-better under measurement noise: The Winner's Curse in LLM Self-Improvement Loops (arXiv 2610.09239)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from heldout.config import GateConfig
from heldout.errors import ModelError
from heldout.gates import Gate, GenerationTable, make_gate
from heldout.improvers import Attempt
from heldout.loops.base import Edits, Found, NoOptions
from heldout.loops.noise import measure_noise
from heldout.loops.proposing import draw_failures, edit_size, nothing_proposed, propose, step_seed
from heldout.loops.session import Scored, Session, gain_over, unscored
from heldout.records import Candidate, Comparison, Decision, Verdict
from heldout.stats import VarianceComponents, mean_measured, selection_overstatement, variance_components
from heldout.store.events import Decided, GenerationStarted, NoiseEstimated, TrackMoved

__all__ = ["WinnersCurse"]

TRACK = "instruction"
PILOT_GENERATION = 0


@dataclass(slots=True)
class WinnersCurse:
    """Section numbers refer to the specification of the loop; one instance runs once."""

    session: Session
    options_model: ClassVar[type[NoOptions]] = NoOptions
    edits: ClassVar[Edits] = "candidates"
    components: tuple[VarianceComponents, ...] = ()
    """Noise estimates of the generations so far."""

    def run(self, start: Candidate) -> Found:
        """The whole search: measure the start, know the noise, then G generations of keep-if-better."""
        session, search = self.session, self.session.config.search
        first = session.score_start(start, track=TRACK)
        self._pilot(first)
        measure_noise(session, first, _calibrated(session))
        if search.iterate:
            for generation in range(1, search.generations + 1):
                self._generation(start, generation)
        else:
            self._best_of_n(first)
        return self.found(start)

    def found(self, start: Candidate) -> Found:
        """The start always competes: a head that does not beat it on select gives way."""
        first = self.session.start or unscored(start)
        head = self.session.heads.get(TRACK, first)
        return Found(first, head if (gain_over(first, head) or 0.0) > 0.0 else first)

    def _generation(self, start: Candidate, generation: int) -> None:
        """Draw failures, propose K rewrites, score each on the same n items, apply the rule, move the head (§4)."""
        session, search = self.session, self.session.config.search
        incumbent = session.heads[TRACK]
        repeat = generation * session.gate.repeats if search.rerun_incumbent else 0
        if repeat:
            incumbent = session.score_on_select(incumbent.candidate, first_repeat=repeat)
        failures = draw_failures(session, incumbent.candidate, generation)
        proposed = propose(session, incumbent.candidate, failures, generation=generation, count=search.candidates)
        scored = [session.score_on_select(candidate, first_repeat=repeat) for candidate in proposed]
        self._decide(start, incumbent, scored, generation=generation)

    def _best_of_n(self, start: Scored) -> None:
        """The arm without iteration: every proposal is made from the start, and one decision is made at the end."""
        session, search = self.session, self.session.config.search
        scored: list[Scored] = []
        for generation in range(1, search.generations + 1):
            failures = draw_failures(session, start.candidate, generation)
            proposed = propose(session, start.candidate, failures, generation=generation, count=search.candidates)
            scored += [session.score_on_select(candidate) for candidate in proposed]
        self._decide(start.candidate, start, scored, generation=search.generations)

    def _pilot(self, start: Scored) -> None:
        """`bayes_pilot`: one generation from the start on a large set gives the prior of true gains (§4, P2)."""
        session, gate = self.session, self.session.config.gate
        if gate.kind != "bayes_pilot" or gate.prior is not None:
            return
        tasks = session.tasks.spare[: gate.pilot_tasks]
        incumbent = session.measure(start.candidate, tasks, purpose="pilot")
        failures = draw_failures(session, start.candidate, PILOT_GENERATION)
        proposed = propose(session, start.candidate, failures, generation=PILOT_GENERATION, count=gate.pilot_candidates)
        scores = [session.measure(candidate, tasks, purpose="pilot")[:, 0] for candidate in proposed]
        pilot = variance_components(incumbent[:, 0], np.stack(scores)) if len(scores) > 1 else None
        if pilot is None:
            few = f"the pilot measured too little for a prior ({len(scores)} candidates)"
            raise ModelError(f"{few}; set gate.prior, or another gate")
        session.gate = make_gate(gate, prior=(pilot.mu, pilot.s))
        session.recorder.record("noise.estimated", _estimate(pilot, PILOT_GENERATION))

    def _decide(self, start: Candidate, incumbent: Scored, scored: Sequence[Scored], *, generation: int) -> None:
        session = self.session
        if not scored:
            asked = range(generation if session.config.search.iterate else 1, generation + 1)
            nothing = nothing_proposed(session, asked)
            session.recorder.record("decision", _decided(generation, incumbent, scored, nothing))
            return
        table = GenerationTable(
            incumbent=incumbent.scores,
            candidates=np.stack([one.scores for one in scored]),
            edit_sizes=np.array([edit_size(incumbent.candidate, one.candidate) for one in scored]),
            seed=step_seed(session.config.seed, generation, -1),
            past=self.components,
        )
        self._estimate_noise(table, generation)
        decision = session.decide(table)
        if decision.verdict is Verdict.CONFIRM and decision.winner is not None:
            fresh = self._confirm(incumbent.candidate, scored[decision.winner].candidate, generation)
            decision = session.decide(replace(table, fresh=fresh))
        session.recorder.record("decision", _decided(generation, incumbent, scored, decision))
        self._commit(start, incumbent, scored, decision=decision, generation=generation)

    def _confirm(self, incumbent: Candidate, winner: Candidate, generation: int) -> Comparison:
        """New select tasks for the winner and the incumbent; each is used once in a run."""
        session, count = self.session, self.session.gate.fresh_tasks
        tasks = session.tasks.spare[(generation - 1) * count : generation * count]
        return Comparison(
            tasks=tuple(task.id for task in tasks),
            a=session.measure(incumbent, tasks, purpose="fresh"),
            b=session.measure(winner, tasks, purpose="fresh"),
        )

    def _commit(
        self, start: Candidate, incumbent: Scored, scored: Sequence[Scored], *, decision: Decision, generation: int
    ) -> None:
        session = self.session
        for index, one in enumerate(scored):
            verdict = decision.verdict.value if index == decision.winner else "not the best"
            session.history.append(Attempt(one.candidate.digest, session.note_of(one.candidate), one.mean, verdict))
        if decision.verdict is not Verdict.ACCEPT or decision.winner is None:
            return
        winner = scored[decision.winner]
        moved = TrackMoved(
            track=TRACK,
            origin=incumbent.candidate.digest,
            target=winner.candidate.digest,
            generation=generation,
            why=decision.reason,
        )
        session.move(winner, moved)
        following = session.recorder.find("generation.started", str(generation + 1), GenerationStarted)
        session.hold_audit(start, winner.candidate, passed=following is not None)

    def _estimate_noise(self, table: GenerationTable, generation: int) -> None:
        """Variance components from per-item outcomes (§4); they need two candidates."""
        if table.candidates.shape[0] < 2:
            return
        estimate = variance_components(mean_measured(table.incumbent), mean_measured(table.candidates))
        if estimate is None:
            return
        self.components += (estimate,)
        self.session.recorder.record("noise.estimated", _estimate(estimate, generation))


def _calibrated(session: Session) -> list[Gate]:
    """The run's own rule and greedy, for comparison."""
    own = session.gate
    return [own] if own.name == "greedy" else [own, make_gate(GateConfig(kind="greedy"))]


def _estimate(components: VarianceComponents, generation: int) -> NoiseEstimated:
    spread = components.s**2 + components.sigma**2
    overstated = selection_overstatement(components.k, components.s, components.sigma) if spread > 0 else 0.0
    return NoiseEstimated(
        generation=generation,
        n=components.n,
        mu=components.mu,
        s=components.s,
        sigma=components.sigma,
        sigma0=components.sigma0,
        lam=components.lam,
        s_cut=components.s_cut,
        sigma0_cut=components.sigma0_cut,
        expected_overstatement=overstated,
    )


def _decided(generation: int, incumbent: Scored, scored: Sequence[Scored], decision: Decision) -> Decided:
    return Decided(
        generation=generation,
        incumbent=incumbent.candidate.digest,
        candidates=tuple(one.candidate.digest for one in scored),
        incumbent_score=incumbent.mean,
        scores=tuple(one.mean for one in scored),
        winner=None if decision.winner is None else scored[decision.winner].candidate.digest,
        decision=decision,
    )
