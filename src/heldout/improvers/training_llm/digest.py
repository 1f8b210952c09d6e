"""Clusters, failures, strategies and earlier attempts as texts of a stated length."""

from __future__ import annotations

import json
from collections.abc import Sequence

from heldout.improvers.clipping import clipped
from heldout.improvers.training_roles import Asset, Failed, Recipe
from heldout.improvers.training_weighing import Weighed
from heldout.store.training_events import AttemptEnded, Check, Cluster, WeighedStrategy

__all__ = [
    "asset_text",
    "check_text",
    "cluster_text",
    "failure_text",
    "history_text",
    "recipe_text",
    "shown_failures",
    "strategy_text",
]

_ATTEMPTS_SHOWN = 12
_ASSETS_SHOWN = 6
_REASON_SHOWN = 300
_SCRIPT_SHOWN = 6_000


def shown_failures(failures: Sequence[Failed], clusters: Sequence[Cluster], count: int) -> tuple[Failed, ...]:
    """At most `count` of them, of every cluster in turn, the largest cluster first."""
    queues = [[one for one in failures if one.faults[:1] == (cluster.code,)] for cluster in clusters]
    known = {cluster.code for cluster in clusters}
    queues.append([one for one in failures if not one.faults or one.faults[0] not in known])
    picked: list[Failed] = []
    for place in range(len(failures)):
        picked += [queue[place] for queue in queues if place < len(queue)]
    return tuple(picked[:count])


def failure_text(failed: Failed, *, limit: int) -> str:
    """One failed train task in at most about `limit` characters."""
    room = max(100, limit // 4)
    measured = ", ".join(f"{name} {value:g}" for name, value in sorted(failed.measures.items()))
    lines = [
        f"### train task {failed.task.id}{f' ({failed.task.family})' if failed.task.family else ''}",
        f"faults: {', '.join(failed.faults) or 'not named'}{f'; {clipped(measured, 200)}' if measured else ''}",
        f"task: {clipped(failed.task.input, room)}",
        f"answer: {'none' if failed.answer is None else clipped(failed.answer, room)}",
        f"reference: {clipped(failed.task.reference, room)}" if failed.task.reference else "",
        f"right answer: {clipped(failed.solution, room)}" if failed.solution not in ("", failed.task.reference) else "",
        f"grader: {clipped(failed.feedback, room)}" if failed.feedback else "",
    ]
    return "\n".join(line for line in lines if line)


def cluster_text(clusters: Sequence[Cluster]) -> str:
    """A line for each cluster."""
    return "\n".join(
        f"- {one.code}: {one.count} tasks (f {one.share:.3f})"
        f"{f', in {one.also} more behind another fault' if one.also else ''}"
        f"{f', fix rate {one.fix_rate:.2f}, {one.recoverable:.1f} recoverable points' if one.recoverable else ''}"
        for one in clusters
    )


def history_text(history: Sequence[AttemptEnded]) -> str:
    """What became of the newest attempts."""
    return "\n".join(_attempt_text(one) for one in history[-_ATTEMPTS_SHOWN:])


def strategy_text(weighed: Sequence[Weighed]) -> str:
    """The library's strategies as they stand here, a line for each."""
    return "\n".join(_strategy_line(one.row, one.recipe) for one in weighed)


def asset_text(assets: Sequence[Asset]) -> str:
    """The newest validated assets, a line for each."""
    return "\n".join(
        f"- {one.name} ({one.kind}), of {one.strategy or 'no strategy'} for {one.focal or 'no problem'}, validated on "
        f"{one.validated_on[:12]}"
        for one in assets[-_ASSETS_SHOWN:]
    )


def check_text(checks: Sequence[Check]) -> str:
    """Failed checks first, with what was found and wanted."""
    ordered = sorted(checks, key=lambda check: check.passed)
    return "\n".join(
        f"- {check.name}: {'passed' if check.passed else 'FAILED'}; found {clipped(check.found, _REASON_SHOWN)}; "
        f"wanted {clipped(check.wanted, _REASON_SHOWN)}"
        for check in ordered
    )


def recipe_text(recipe: Recipe) -> str:
    """A recipe as the JSON that a builder answers with, and its script."""
    plain = recipe.model_dump(exclude={"script"})
    plain["builder"] = recipe.builder or "script"
    said = json.dumps(plain, ensure_ascii=False, indent=1)
    script = f"\n\n````python\n{clipped(recipe.script, _SCRIPT_SHOWN)}\n````" if recipe.script else ""
    return f"{said}{script}"


def _strategy_line(row: WeighedStrategy, recipe: Recipe) -> str:
    closed = f"; not open: {row.lost}" if row.lost else ""
    return (
        f"- {row.id}: {row.mechanism} Reported {row.reported_gain:g} points ({row.reported_on}; {row.source}). fits "
        f"{row.fits:.2f}, P {row.reproduces:.2f}, about {row.cost_s:.0f} s, {row.implementation} effort, builder "
        f"{recipe.builder or 'script'}; risk: {row.risk or 'none told'}{closed}"
    )


def _attempt_text(one: AttemptEnded) -> str:
    gain = "" if one.select_gain is None else f", select gain {100.0 * one.select_gain:+.1f} points"
    tried = f"{one.strategy or 'no strategy'} for {one.focal or 'no problem'}"
    return f"- round {one.round}: {tried}: {one.status}{gain}; {clipped(one.reason, _REASON_SHOWN)}"
