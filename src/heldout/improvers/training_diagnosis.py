"""The diagnostician by rules: fix rates from what happened so far, and the cluster with the most to win."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal

from heldout.improvers.training_history import fix_rate
from heldout.improvers.training_roles import Diagnosis, DiagnosisView, Failed
from heldout.store.training_events import Cluster

__all__ = ["READ", "FocalChoice", "diagnose", "failures_of", "focal_cluster", "recoverable"]

READ = 5
"""Failures that a diagnosis reads and cites, or all where there are fewer."""

FocalChoice = Literal["largest", "random"]


def diagnose(view: DiagnosisView, *, focal: FocalChoice = "largest") -> Diagnosis:
    """q of every cluster, one focal problem, and at least five failures that were read."""
    if not view.clusters:
        return Diagnosis(why=f"none of the {view.n} measured diagnosis tasks fails")
    rates = {cluster.code: fix_rate(cluster.code, view.history) for cluster in view.clusters}
    chosen = focal_cluster(view, rates, focal)
    read = failures_of(chosen.code, view.failures)[:READ]
    return Diagnosis(
        fix_rates=rates,
        focal=chosen.code,
        cited=tuple(failed.task.id for failed in read),
        why=" ".join((_said(view, chosen, rates, focal), _reading(chosen.code, read))).strip(),
    )


def focal_cluster(view: DiagnosisView, rates: Mapping[str, float], focal: FocalChoice = "largest") -> Cluster:
    """The cluster with the most recoverable points (of equal ones the larger, then by code), or a random one."""
    if focal == "random":
        rng = Random(f"training focal {view.seed}")
        return rng.choice(sorted(view.clusters, key=lambda cluster: cluster.code))
    return min(view.clusters, key=lambda one: (-recoverable(one, rates), -one.count, one.code))


def recoverable(cluster: Cluster, rates: Mapping[str, float]) -> float:
    """f · q · 100, in points (`systems/improve_any_task.md`, section 4)."""
    return cluster.share * rates.get(cluster.code, 0.5) * 100.0


def failures_of(code: str, failures: Sequence[Failed]) -> tuple[Failed, ...]:
    """All of them: first those whose first fault it is, then those that have it behind another, then the rest."""

    def place(failed: Failed) -> int:
        return 2 if code not in failed.faults else 0 if failed.faults[0] == code else 1

    return tuple(sorted(failures, key=place))


def _said(view: DiagnosisView, chosen: Cluster, rates: Mapping[str, float], focal: FocalChoice) -> str:
    drawn = " (drawn at random)" if focal == "random" else ""
    accepted = sum(one.focal == chosen.code and one.status == "accepted" for one in view.history)
    rejected = sum(one.focal == chosen.code and one.status == "rejected" for one in view.history)
    tried = f"{accepted} accepted and {rejected} rejected so far" if accepted + rejected else "not tried yet"
    others = sorted((one for one in view.clusters if one.code != chosen.code), key=lambda one: -recoverable(one, rates))
    rest = "; ".join(f"{one.code} {recoverable(one, rates):.1f}" for one in others[:3])
    return (
        f"{chosen.code}{drawn}: {chosen.count} of {view.n} tasks (f {chosen.share:.3f}), fix rate "
        f"{rates[chosen.code]:.2f} ({tried}): {recoverable(chosen, rates):.1f} recoverable points"
        f"{f'; then {rest}' if rest else ''}."
    )


def _reading(code: str, read: Sequence[Failed]) -> str:
    """What the failures that were read have in common."""
    if not read:
        return "No failure could be read."
    own = [failed for failed in read if code in failed.faults]
    beside = Counter(fault for failed in own for fault in failed.faults if fault != code)
    parts = [f"Of {len(read)} read, {len(own)} have it"]
    parts += [f"{count} of these also {fault}" for fault, count in sorted(beside.items())]
    stopped = [failed.measures["stopped"] for failed in read if "stopped" in failed.measures]
    if stopped:
        parts.append(f"{sum(value >= 1.0 for value in stopped)} of {len(stopped)} stopped by themselves")
    return f"{'; '.join(parts)}."
