"""A laboratory without a world: verdicts by kind of probe, from a pool of units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heldout.records import Edit, Evidence, EvidenceVerdict, ProbeKind, edits_digest

__all__ = ["ScriptedLaboratory"]


@dataclass
class ScriptedLaboratory:
    """Gives each kind the verdict that the script names (else *inconclusive*), for one unit a task; a supporting
    `fix_probe` flips all its targets."""

    verdicts: Mapping[ProbeKind, EvidenceVerdict] = field(default_factory=dict)
    units: int = 8
    base: str = ""
    """Digest that drafts are bound to."""
    available: frozenset[ProbeKind] = frozenset(ProbeKind)
    waited_s: float = 0.0
    round: int = 1
    episode: int = 0
    made: list[Evidence] = field(default_factory=list)
    """Everything that was returned, in order."""

    def probe(
        self,
        kind: ProbeKind,
        tasks: Sequence[str],
        *,
        step: int | None = None,
        command: str | None = None,
        edits: Iterable[Edit] = (),
        base_round: int | None = None,
    ) -> Evidence:
        draft = tuple(edits)
        verdict = self.verdicts.get(kind, EvidenceVerdict.INCONCLUSIVE)
        refused = "the round's pool is used up" if len(tasks) > self.units else ""
        flips = tasks if kind is ProbeKind.FIX_PROBE and verdict is EvidenceVerdict.SUPPORTS else ()
        evidence = Evidence(
            round=self.round,
            episode=self.episode,
            ordinal=len(self.made),
            kind=kind,
            tasks=tuple(tasks),
            step=step,
            base=self.base,
            edits=edits_digest(draft) if draft else "",
            verdict=EvidenceVerdict.NONE if refused else verdict,
            units=0 if refused else len(tasks),
            refused=refused,
            flips=() if refused else tuple(flips),
            detail=f"base round {base_round}" if base_round is not None else command or "",
        )
        self.units -= evidence.units
        self.made.append(evidence)
        return evidence

    def units_left(self) -> int:
        return self.units
