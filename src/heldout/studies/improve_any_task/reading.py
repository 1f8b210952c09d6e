"""What a run's journal says: how its attempts ended, what they cost, which error dominated, and other finals."""

from __future__ import annotations

from heldout.loops.base import Found
from heldout.loops.session import Session
from heldout.loops.weights.fitting import stopped_key
from heldout.records import Record, Verdict
from heldout.stats import EQUAL_WITHIN
from heldout.store.events import Decided
from heldout.store.training_events import AttemptEnded, Diagnosed, Preflighted, TrainingEnded, TrainingNoise

__all__ = ["EVALUATED", "Noise", "Round", "Trail", "first_kept", "noise_of", "scores_of", "trail_of", "without_start"]

EVALUATED = ("accepted", "rejected", "undecided")
"""Ends of an attempt whose model was measured."""

_NO_ATTEMPT = "no_strategy"


class Round(Record):
    """One round of a run."""

    number: int
    dominant: str
    """The first fault of the most failures on the diagnosis tasks; empty where nothing fails."""
    strategy: str = ""
    status: str = ""
    """Of the attempt; empty where the budget ended in it."""
    cpu_s: float = 0.0


class Trail(Record):
    """The rounds of a run, and what its search cost."""

    rounds: tuple[Round, ...]
    spent_s: float
    """Processor seconds; of a simulation those of its trainings alone, so that equal runs cost the same."""

    @property
    def attempts(self) -> tuple[Round, ...]:
        """Rounds in which something was tried to its end."""
        return tuple(one for one in self.rounds if one.status not in ("", _NO_ATTEMPT))

    def count(self, *statuses: str) -> int:
        """Attempts that ended so."""
        return sum(one.status in statuses for one in self.attempts)

    @property
    def failed(self) -> int:
        """Attempts that never came to a model that was measured."""
        return len(self.attempts) - self.count(*EVALUATED)

    @property
    def wasted_share(self) -> float:
        """Of everything spent: attempts that left the model as it was (spec §6.7), or that the budget ended."""
        wasted = sum(one.cpu_s for one in self.rounds if one.status not in ("accepted", _NO_ATTEMPT))
        return wasted / self.spent_s if self.spent_s else 0.0

    @property
    def dominant(self) -> tuple[str, ...]:
        """The dominant error of every round in which something failed."""
        return tuple(one.dominant for one in self.rounds if one.dominant)

    @property
    def changes(self) -> bool:
        """Whether the dominant error was another one at some time."""
        return len(set(self.dominant)) > 1


class Noise(Record):
    """One recipe, trained with two seeds, on the same select tasks."""

    n: int
    difference: float
    flips: float


def trail_of(session: Session) -> Trail:
    """Of a search that has ended."""
    attempts = {one.round: one for one in session.recorder.every("attempt", AttemptEnded)}
    diagnosed = session.recorder.every("diagnosis", Diagnosed)
    simulated = session.ground is not None and session.ground.trainer == "simulated"
    costs = {one.round: _cost(session, attempts.get(one.round), one.round, simulated=simulated) for one in diagnosed}
    rounds = [_round(one, attempts.get(one.round), cpu_s=costs[one.round]) for one in diagnosed]
    return Trail(rounds=tuple(rounds), spent_s=sum(costs.values()) if simulated else session.ledger.total.cpu_s)


def _cost(session: Session, attempt: AttemptEnded | None, number: int, *, simulated: bool) -> float:
    """Seconds of a round; of a simulation the simulated ones alone, which trainings have that did not die."""
    if attempt is not None and not simulated:
        return attempt.spend.cpu_s
    recorder, prefix = session.recorder, stopped_key("training", f"round-{number}-").rstrip("/")
    short = [one.spend for one in recorder.every("preflight", Preflighted) if one.round == number and one.losses]
    full = [one.spend for one in recorder.every("training", TrainingEnded) if one.round == number and one.losses]
    stopped = [] if simulated else [one.spend for key, one in recorder.prepared.items() if key.startswith(prefix)]
    return sum(spend.cpu_s for spend in (*short, *full, *stopped))


def _round(diagnosed: Diagnosed, attempt: AttemptEnded | None, *, cpu_s: float) -> Round:
    largest = min(diagnosed.clusters, key=lambda one: (-one.count, one.code), default=None)
    seen = Round(number=diagnosed.round, dominant="" if largest is None else largest.code, cpu_s=cpu_s)
    if attempt is None:
        return seen
    return seen.model_copy(update={"strategy": attempt.strategy, "status": attempt.status})


def noise_of(session: Session) -> Noise | None:
    """Where a recipe was trained twice."""
    found = next(iter(session.recorder.every("training.noise", TrainingNoise)), None)
    if found is None or found.flips is None:
        return None
    return Noise(n=found.n, difference=found.difference, flips=found.flips)


def scores_of(session: Session, found: Found) -> dict[str, float | None]:
    """Mean on the deciding tasks of the start and of every child that was decided on, and of the final, by digest."""
    scores = {one.candidate.digest: one.mean for one in (found.start, found.final)}
    for decided in session.recorder.every("decision", Decided):
        scores |= dict(zip(decided.candidates, decided.scores, strict=True))
    return scores


def first_kept(session: Session) -> str | None:
    """Digest of the first child that was accepted."""
    decided = session.recorder.every("decision", Decided)
    return next((one.candidates[0] for one in decided if one.decision.verdict is Verdict.ACCEPT), None)


def without_start(session: Session, found: Found) -> str:
    """Digest of the final by the paper's rule: the head, or another child that measured better, and the start only
    where there is no child. It is what `options.keep_start = false` gives (a test compares both)."""
    start = found.start.candidate.digest
    decisions = session.recorder.every("decision", Decided)
    children = {one.candidates[0]: one.scores[0] for one in decisions if one.scores[0] is not None}
    head = next(iter(session.heads.values())).candidate.digest
    listed = [head] if head != start else []
    others = [digest for digest in children if digest not in (start, *listed)]
    listed += sorted(others, key=lambda digest: -(children[digest] or 0.0))[:1]
    best = listed[0] if listed else start
    for digest in listed[1:]:
        if (children[digest] or 0.0) > (children[best] or 0.0) + EQUAL_WITHIN:
            best = digest
    return best
