"""The failure ledger: which failures were seen when, and which are gone. It feeds reports, never a gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from heldout.probes.base import Attribution, SignatureEntry, Trace
from heldout.probes.signatures import signature
from heldout.store.agent_events import SignatureSeen

__all__ = ["FailureLedger", "clustered", "seen_in_sweep"]


@dataclass(slots=True)
class FailureLedger:
    """Signatures by the train sweeps in which tasks failed with them; built by replaying recorded events."""

    sweeps: list[int] = field(default_factory=list)
    """Rounds in which train was swept, ascending; a sweep without any failure is one too."""
    _seen: dict[str, dict[int, SignatureSeen]] = field(default_factory=dict)

    @classmethod
    def replay(cls, events: Iterable[SignatureSeen], *, sweeps: Iterable[int] = ()) -> FailureLedger:
        """A ledger of these events; `sweeps` are the rounds that were swept (`RoundStarted.swept`)."""
        ledger = cls()
        for number in sweeps:
            ledger.swept(number)
        for event in events:
            ledger.see(event)
        return ledger

    def swept(self, round: int) -> None:
        """Train was swept in this round."""
        if round not in self.sweeps:
            self.sweeps = sorted([*self.sweeps, round])

    def see(self, event: SignatureSeen) -> None:
        """The failures of one sweep that share a signature; the same event twice changes nothing."""
        self.swept(event.round)
        self._seen.setdefault(event.signature, {})[event.round] = event

    @property
    def known(self) -> frozenset[str]:
        """Every signature that was ever seen."""
        return frozenset(self._seen)

    def entries(self) -> tuple[SignatureEntry, ...]:
        """One line for each signature, in the order in which they first came (then by signature)."""
        made = [self._entry(signature, seen) for signature, seen in self._seen.items()]
        return tuple(sorted(made, key=lambda entry: (entry.first_round, entry.signature)))

    def _entry(self, signature: str, seen: Mapping[int, SignatureSeen]) -> SignatureEntry:
        rounds = sorted(seen)
        explained = [seen[number] for number in rounds if seen[number].cause != "unknown"]
        newest = explained[-1] if explained else seen[rounds[-1]]
        return SignatureEntry(
            signature=signature,
            first_round=rounds[0],
            example=next((task for number in rounds for task in seen[number].tasks), ""),
            cause=newest.cause,
            core=newest.core,
            hits={number: seen[number].tasks for number in rounds},
            status=self._status(seen),
        )

    def _status(self, seen: Mapping[int, SignatureSeen]) -> str:
        now, *before = [len(seen[number].tasks) if number in seen else 0 for number in self.sweeps[:-3:-1]]
        if now == 0:
            return "EXTINCT"
        return "GROWING" if before and now > before[0] else "ALIVE"


def clustered(traces: Iterable[Trace]) -> dict[str, tuple[Trace, ...]]:
    """Failing traces by signature, each cluster in the order of the traces."""
    clusters: dict[str, tuple[Trace, ...]] = {}
    for trace in traces:
        if trace.passed is False:
            found = signature(trace)
            clusters[found] = (*clusters.get(found, ()), trace)
    return clusters


def seen_in_sweep(
    round: int, traces: Iterable[Trace], *, attributions: Iterable[Attribution] = ()
) -> tuple[SignatureSeen, ...]:
    """The events of one train sweep, by signature; an attribution lends its class and core to its signature."""
    explained: dict[str, Attribution] = {}
    for found in attributions:
        if not found.passed and (found.signature not in explained or explained[found.signature].cause == "unknown"):
            explained[found.signature] = found
    made = []
    for name, cluster in sorted(clustered(traces).items()):
        attribution = explained.get(name)
        made.append(
            SignatureSeen(
                round=round,
                signature=name,
                tasks=tuple(trace.task.id for trace in cluster),
                cause=attribution.cause if attribution else "unknown",
                core=attribution.commands if attribution else (),
            )
        )
    return tuple(made)
