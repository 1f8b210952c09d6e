"""What a run's journal says: how its attempts ended, what they cost, which error dominated, and other finals."""

from __future__ import annotations

from itertools import dropwhile

from heldout.loops.base import Found
from heldout.loops.session import Session
from heldout.records import Record, Verdict
from heldout.stats import EQUAL_WITHIN
from heldout.store.events import Decided, Event
from heldout.store.training_events import (
    AttemptEnded,
    Diagnosed,
    Preflighted,
    TrainingEnded,
    TrainingNoise,
    TrustedHash,
)

__all__ = ["EVALUATED", "Noise", "Round", "Trail", "first_kept", "noise_of", "scores_of", "trail_of", "without_start"]

EVALUATED = ("accepted", "rejected", "undecided")
"""Ends of an attempt whose model was measured."""

_NO_ATTEMPT = "no_strategy"


class Round(Record):
    """One round of a run."""

    number: int
    dominant: str
    """The first fault of the most failures on the diagnosis tasks; empty where nothing fails, or the budget ended
    before a diagnosis."""
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
    diagnosed = {one.round: one for one in session.recorder.every("diagnosis", Diagnosed)}
    begun = [one.round for one in session.recorder.every("trusted.hash", TrustedHash) if one.moment == "before"]
    simulated = session.ground is not None and session.ground.trainer == "simulated"
    rounds = []
    for number in sorted({*diagnosed, *begun}):
        cost = _simulated_s(session, number) if simulated else _cost(session, number, attempts.get(number))
        if number in diagnosed or cost:
            rounds.append(_round(number, diagnosed.get(number), attempts.get(number), cpu_s=cost))
    spent = sum(one.cpu_s for one in rounds) if simulated else session.ledger.total.cpu_s
    return Trail(rounds=tuple(rounds), spent_s=spent)


def _cost(session: Session, number: int, attempt: AttemptEnded | None) -> float:
    """Seconds of a round. Of the one that the budget ended in they are those of every event since it began:
    evaluations, diagnosis, building, preflights and trainings, those that were stopped or died among them."""
    if attempt is not None:
        return attempt.spend.cpu_s
    events = session.recorder.journal.read_from(0)
    since = dropwhile(lambda one: not _begins(one, number), events)
    return sum(float(one.data["spend"].get("cpu_s", 0.0)) for one in since if "spend" in one.data)


def _begins(event: Event, number: int) -> bool:
    return event.kind == "trusted.hash" and (event.data["round"], event.data["moment"]) == (number, "before")


def _simulated_s(session: Session, number: int) -> float:
    """The simulated seconds of a round, which trainings alone have that did not die."""
    recorder = session.recorder
    short = [one.spend for one in recorder.every("preflight", Preflighted) if one.round == number and one.losses]
    full = [one.spend for one in recorder.every("training", TrainingEnded) if one.round == number and one.losses]
    return sum(spend.cpu_s for spend in (*short, *full))


def _round(number: int, diagnosed: Diagnosed | None, attempt: AttemptEnded | None, *, cpu_s: float) -> Round:
    clusters = () if diagnosed is None else diagnosed.clusters
    largest = min(clusters, key=lambda one: (-one.count, one.code), default=None)
    seen = Round(number=number, dominant="" if largest is None else largest.code, cpu_s=cpu_s)
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
