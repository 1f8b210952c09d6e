"""What the pools of probes were spent on, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from heldout.records import Evidence, EvidenceVerdict, ProbeKind
from heldout.report.rounds import AgentHistory

__all__ = ["META", "ProbeUse", "Refusal", "probe_use", "probes_by_kind", "probes_by_round", "refusals"]

META = -1
"""The episode of evidence that a meta-episode asked for."""


@dataclass(frozen=True, slots=True)
class ProbeUse:
    """Probes that have something in common."""

    name: str
    run: int
    """Carried out."""
    refused: int
    units: int
    """Of the pool."""
    meta: int
    """Units that meta-episodes spent."""
    supports: int
    refutes: int
    inconclusive: int
    plain: int
    """Carried out, without a verdict."""
    confirmed: int
    """Targets that passed, and passed again."""
    unconfirmed: int
    """Targets that passed once and failed the second run; they count as no flip."""
    broken: int
    """Canaries that passed before and failed under a draft."""
    unmeasured: int
    """Targets whose run gave nothing."""
    drafts: int
    """Drafts that `fix_probe` ran."""
    drafts_supported: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason for which probes were not carried out."""

    reason: str
    count: int


def probe_use(evidence: Iterable[Evidence], *, name: str = "all") -> ProbeUse:
    """Sums over these probes; a refused one counts in `refused` alone."""
    found = list(evidence)
    run = [one for one in found if not one.refused]
    verdicts = Counter(one.verdict for one in run)
    drafts = [one for one in run if one.kind is ProbeKind.FIX_PROBE]
    return ProbeUse(
        name=name,
        run=len(run),
        refused=len(found) - len(run),
        units=sum(one.units for one in run),
        meta=sum(one.units for one in run if one.episode == META),
        supports=verdicts[EvidenceVerdict.SUPPORTS],
        refutes=verdicts[EvidenceVerdict.REFUTES],
        inconclusive=verdicts[EvidenceVerdict.INCONCLUSIVE],
        plain=verdicts[EvidenceVerdict.NONE],
        confirmed=sum(len(one.flips) for one in run),
        unconfirmed=sum(len(one.unconfirmed) for one in run),
        broken=sum(len(one.broken) for one in run),
        unmeasured=sum(len(one.unmeasured) for one in run),
        drafts=len(drafts),
        drafts_supported=sum(one.verdict is EvidenceVerdict.SUPPORTS for one in drafts),
    )


def probes_by_kind(evidence: Iterable[Evidence]) -> tuple[ProbeUse, ...]:
    """A sum for each kind that was asked for, in the order of the kinds."""
    found = list(evidence)
    kinds = [kind for kind in ProbeKind if any(one.kind is kind for one in found)]
    return tuple(probe_use((one for one in found if one.kind is kind), name=kind.value) for kind in kinds)


def probes_by_round(agents: AgentHistory) -> tuple[ProbeUse, ...]:
    """A sum for each round; those of the method audit are marked `(audit)`."""
    own = [probe_use(one.evidence, name=str(one.number)) for one in agents.rounds]
    apart = [probe_use(one.evidence, name=f"{one.number} (audit)") for one in agents.audited if one.evidence]
    return (*own, *apart)


def refusals(evidence: Iterable[Evidence]) -> tuple[Refusal, ...]:
    """Why probes were refused, the most frequent reason first."""
    counts = Counter(one.refused for one in evidence if one.refused)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Refusal(reason, count) for reason, count in ordered)
