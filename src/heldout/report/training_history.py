"""Everything that a loop over model weights recorded: rounds, models, other abilities, noise, trusted parts."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from heldout.report.queries import SELECT, Mean, Means, means, payloads
from heldout.report.training_cut import with_cut
from heldout.report.training_lineage import ModelRow, lineage, weights_of
from heldout.report.training_rounds import TrainingRound, dominant_errors, training_rounds
from heldout.store.agent_events import FinalSelected
from heldout.store.events import AuditOpened, CandidateAdded, Decided, SplitMade
from heldout.store.training_events import TRAINING_PAYLOADS, AbilitiesMeasured, TrainingNoise, TrustedHash

__all__ = ["Floor", "TrainingHistory", "Trusted", "after_search", "training_history", "trusted_of"]

_FLOOR = "options.retain.floor"
"""How the opening of a role for the floor begins (`AuditOpened.by`)."""
_DIAGNOSED_ON = "train"
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Trusted:
    """What no training may change, hashed before and after each round."""

    parts: tuple[str, ...]
    rounds: int
    """Rounds hashed on both sides."""
    changed: Mapping[int, tuple[str, ...]]
    """Round to the parts that changed in it, or between the one before and it; a run that has one is void."""
    between: tuple[int, ...] = ()
    """Those of these rounds that they changed before: the run was stopped then, or between two rounds."""

    @property
    def sentence(self) -> str:
        """In words, for every view."""
        if self.changed:
            told = "; ".join(f"{self._when(number)}: {', '.join(parts)}" for number, parts in self.changed.items())
            return f"Trusted parts CHANGED ({told}): the run is void from there on."
        names = ", ".join(self.parts)
        if not self.rounds:
            return f"Trusted parts ({names}) were hashed before the first round, which has not ended."
        times = "the one round" if self.rounds == 1 else f"each of {self.rounds} rounds"
        return f"Trusted parts ({names}) were hashed before and after {times}: unchanged."

    def _when(self, number: int) -> str:
        return f"between rounds {number - 1} and {number}" if number in self.between else f"round {number}"


@dataclass(frozen=True, slots=True)
class Floor:
    """Other abilities where a floor decides with them, so that their role was opened during the search."""

    role: str
    measured: tuple[AbilitiesMeasured, ...]
    """Each child that the gate would have accepted."""

    @property
    def sentence(self) -> str:
        """In words, for every view."""
        return (
            f"The role {self.role} was opened during the search, since {_FLOOR} decides with it: its figures are no "
            "longer of tasks that no decision saw."
        )


@dataclass(frozen=True, slots=True)
class TrainingHistory:
    """Everything that a loop over model weights recorded."""

    rounds: tuple[TrainingRound, ...]
    selected: FinalSelected | None
    models: tuple[ModelRow, ...]
    """The start first."""
    decides_on: Literal["select", "train"]
    """`train`: the tasks that are diagnosed decide too (the paper's rule, an ablation)."""
    noise: TrainingNoise | None
    """One recipe trained twice."""
    floor: Floor | None
    trusted: Trusted | None

    @property
    def dominant(self) -> tuple[str, ...]:
        """The dominant error of each diagnosed model; what stays the same stands once."""
        return dominant_errors(self.rounds)

    @property
    def dominant_line(self) -> str:
        """`The dominant error went stop → wrapper → carry.`; empty before anything failed."""
        if not self.dominant:
            return ""
        if len(self.dominant) == 1:
            return f"The dominant error was {self.dominant[0]} throughout."
        return f"The dominant error went {' → '.join(self.dominant)}."

    @property
    def codes(self) -> tuple[str, ...]:
        """Every first fault that was seen, the most frequent over all rounds first."""
        total: dict[str, int] = {}
        for cluster in (cluster for one in self.rounds if one.diagnosed for cluster in one.diagnosed.clusters):
            total[cluster.code] = total.get(cluster.code, 0) + cluster.count
        return tuple(sorted(total, key=lambda code: (-total[code], code)))

    def count(self, status: str) -> int:
        """Attempts that ended so (`AttemptEnded.status`)."""
        return sum(one.status == status for one in self.rounds)

    def weights_of(self, candidate: str) -> str | None:
        """Digest of a candidate's weights, as far as the journal says it."""
        return weights_of(self.models, candidate)

    def model(self, candidate: str) -> ModelRow | None:
        return next((one for one in self.models if one.candidate == candidate), None)

    def recorded_gain(self, start: str, final: str) -> float | None:
        """The final's score when it was decided on, minus the start's; None where no finalist was measured anew."""
        finalists = self.selected.finalists if self.selected else ()
        if all(one.fresh is None for one in finalists):
            return None
        scores = {one.digest: one.journaled for one in finalists}
        before, after = scores.get(start), scores.get(final)
        return None if before is None or after is None else after - before

    def with_decided(self, known: Means) -> Means:
        """The means with the scores that decisions rested on in place of select scores that differ or are absent."""
        return _with_decided(known, [one.decided for one in self.rounds if one.decided is not None])


def training_history(connection: sqlite3.Connection, *, known: Means | None = None) -> TrainingHistory | None:
    """What the run recorded of trainings, or None where its loop trains nothing."""
    added = payloads(connection, CandidateAdded)
    if not any(one.track == "model" for one in added[:1]) and not _has_training_events(connection):
        return None
    splits, floor = payloads(connection, SplitMade), _floor(connection)
    sealed = after_search(splits[-1] if splits else None, floor)
    rounds = with_cut(connection, training_rounds(connection), sealed=sealed)
    selections, noises = payloads(connection, FinalSelected), payloads(connection, TrainingNoise)
    measured = means(connection) if known is None else known
    decided = [one.decided for one in rounds if one.decided is not None]
    return TrainingHistory(
        rounds=rounds,
        selected=selections[-1] if selections else None,
        models=lineage(connection, rounds, _with_decided(measured, decided)),
        decides_on=_decides_on(decided, measured),
        noise=noises[-1] if noises else None,
        floor=floor,
        trusted=trusted_of(payloads(connection, TrustedHash)),
    )


def after_search(split: SplitMade | None, floor: Floor | None) -> frozenset[str]:
    """Roles that stay sealed until the last decision; one that a floor opened is part of the search."""
    roles = set(split.roles if split else ()) - {_DIAGNOSED_ON, SELECT}
    return frozenset(roles - ({floor.role} if floor else set()))


def _has_training_events(connection: sqlite3.Connection) -> bool:
    kinds = tuple(TRAINING_PAYLOADS)
    query = f"SELECT 1 FROM events WHERE kind IN ({', '.join('?' * len(kinds))}) LIMIT 1"
    return connection.execute(query, kinds).fetchone() is not None


def _with_decided(known: Means, decided: Sequence[Decided]) -> Means:
    nothing, found = Mean(n=0, missing=0, value=None), dict(known)
    for one in decided:
        scores = {one.incumbent: one.incumbent_score, **dict(zip(one.candidates, one.scores, strict=True))}
        for digest, score in scores.items():
            row = known.get((SELECT, digest), nothing)
            if score is not None and (row.value is None or abs(row.value - score) > _SAME):
                found[SELECT, digest] = replace(row, value=score, standard_error=None)
    return found


def _decides_on(decided: Sequence[Decided], known: Means) -> Literal["select", "train"]:
    """Children that decide on the diagnosed tasks are run on no others."""
    children = [digest for one in decided for digest in one.candidates]
    unseen = [digest for digest in children if (SELECT, digest) not in known]
    return "train" if unseen and all((_DIAGNOSED_ON, digest) in known for digest in unseen) else "select"


def _floor(connection: sqlite3.Connection) -> Floor | None:
    measured = {one.candidate: one for one in payloads(connection, AbilitiesMeasured)}
    openings = [one for one in payloads(connection, AuditOpened) if one.by.startswith(_FLOOR)]
    if not measured and not openings:
        return None
    return Floor(openings[0].role if openings else "retain", tuple(measured.values()))


def trusted_of(hashes: Sequence[TrustedHash]) -> Trusted | None:
    """What all these hashes say; None where nothing was hashed."""
    if not hashes:
        return None
    after = {one.round: one for one in hashes if one.moment == "after"}
    changed: dict[int, tuple[str, ...]] = {}
    for one in hashes:  # a change between two rounds is found before the second of them
        if one.changed:
            changed[one.round] = tuple(dict.fromkeys((*changed.get(one.round, ()), *one.changed)))
    between = tuple(one.round for one in hashes if one.changed and one.moment == "before")
    return Trusted(tuple(hashes[-1].digests), len(after), changed, between)
