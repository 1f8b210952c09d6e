"""Failures by signature, with one representative of each in full view (the style of Self-Harness)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heldout.improvers.evidence.base import (
    REPORT_BYTES,
    EvidenceReport,
    Materials,
    clipped,
    frontier_text,
    history_text,
    listed,
    shared_files,
    trace_path,
)
from heldout.improvers.evidence.digest import numbers_text
from heldout.probes.base import Attribution, SignatureEntry, Trace
from heldout.probes.signatures import signature

__all__ = ["Clusters"]

_MOST = 8
"""Clusters shown in the report, the largest; all of them are in the files."""

_CLUSTER_BYTES = 1200
_SECTION_BYTES = 1500


class Clusters:
    """A cluster is a failure signature; its representative has the shortest minimised trace, else the fewest turns."""

    name = "clusters"

    def report(self, materials: Materials) -> EvidenceReport:
        """Clusters by size, then the frontier and the history; `clusters/N.md` has each in full."""
        groups: dict[str, list[str]] = {}
        for task, trace in sorted(materials.traces.items()):
            if trace.passed is False:
                groups.setdefault(signature(trace), []).append(task)
        ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        files = shared_files(materials)
        shown = []
        for number, (failure, tasks) in enumerate(ordered, start=1):
            text = _cluster(failure, tasks, materials)
            files[f"clusters/{number}.md"] = clipped(text, REPORT_BYTES)
            shown.append(f"{clipped(text, _CLUSTER_BYTES)}\n(all of it in clusters/{number}.md)")
        rest = [f"{len(shown) - _MOST} smaller clusters are in clusters/."] if len(shown) > _MOST else []
        sections = [
            clipped(numbers_text(materials), _SECTION_BYTES),
            *(shown[:_MOST] or ["No failures."]),
            *rest,
            clipped(frontier_text(materials.history).strip(), _SECTION_BYTES),
            clipped(history_text(materials.history).strip(), _SECTION_BYTES),
        ]
        return EvidenceReport(clipped("\n\n".join(sections) + "\n", REPORT_BYTES), files)


def _cluster(failure: str, tasks: Sequence[str], materials: Materials) -> str:
    minimised = {one.task: one for one in materials.attributions if not one.passed and one.task in tasks}
    chosen = _representative(tasks, materials.traces, minimised)
    entry = next((entry for entry in materials.ledger if entry.signature == failure), None)
    lines = [f"## {len(tasks)} failing: `{failure}`", "", f"Tasks: {listed(tasks)}", *_fate(entry)]
    if chosen in minimised:
        one = minimised[chosen]
        lines.append(f"Cause, from {chosen}: {one.cause}; commands that suffice:")
        lines += [f"    {command}" for command in one.commands]
    trace = materials.traces[chosen]
    last = next((step.output for step in reversed(trace.steps) if step.output.strip()), "")
    lines += [f"Representative: {chosen} ({trace_path(chosen)})", "Its commands:"]
    lines += [f"    {number}. {clipped(command, 200)}" for number, command in enumerate(trace.commands)]
    lines += ["Its last output:", clipped(last.strip(), 800)]
    lines += ["What the grader says:", clipped(trace.feedback.strip(), 800)] if trace.feedback.strip() else []
    return "\n".join(lines)


def _representative(tasks: Sequence[str], traces: Mapping[str, Trace], minimised: Mapping[str, Attribution]) -> str:
    def cost(task: str) -> tuple[bool, int, str]:
        one = minimised.get(task)
        return (one is None, len(one.keep) if one else len(traces[task].steps), task)

    return min(tasks, key=cost)


def _fate(entry: SignatureEntry | None) -> list[str]:
    return [] if entry is None else [f"Ledger: {entry.status}, since round {entry.first_round}, cause {entry.cause}"]
