"""An overview with layers below it: numbers, then each failure in a few lines, then the traces (the style of AHE)."""

from __future__ import annotations

from heldout.improvers.evidence.base import (
    REPORT_BYTES,
    EvidenceReport,
    Materials,
    attribution_text,
    clipped,
    frontier_text,
    history_text,
    ledger_text,
    listed,
    result_of,
    shared_files,
    trace_path,
)
from heldout.probes.base import Trace
from heldout.probes.signatures import signature

__all__ = ["Digest", "numbers_text"]

_OVERVIEW_BYTES = 3 * 1024
_FAILURES_BYTES = 5 * 1024
_SECTION_BYTES = 1900
"""Of each further section, so that the whole stays within the limit of a report."""


class Digest:
    """Three layers: the report, `tasks/ID.md` (a failure in a few lines) and `traces/ID.md`."""

    name = "digest"

    def report(self, materials: Materials) -> EvidenceReport:
        """Numbers, failures one line each, and the shared sections, each cut to a size of its own."""
        files = shared_files(materials)
        failing = {task: trace for task, trace in sorted(materials.traces.items()) if trace.passed is False}
        for task, trace in failing.items():
            files[_task_path(task)] = _summary(task, trace)
        rows = [f"- {task}: `{signature(trace)}` (more in {_task_path(task)})" for task, trace in failing.items()]
        sections = [
            clipped(numbers_text(materials), _OVERVIEW_BYTES),
            clipped("## Failures\n\n" + ("\n".join(rows) or "None."), _FAILURES_BYTES),
            *(
                clipped(text.strip(), _SECTION_BYTES)
                for text in (
                    attribution_text(materials.attributions),
                    ledger_text(materials.ledger),
                    frontier_text(materials.history),
                    history_text(materials.history),
                )
            ),
        ]
        return EvidenceReport(clipped("\n\n".join(sections) + "\n", REPORT_BYTES), files)


def numbers_text(materials: Materials) -> str:
    """How many passed and failed, and in how many turns."""
    by_result: dict[str, list[str]] = {"passed": [], "failed": [], "not measured": []}
    for task, trace in sorted(materials.traces.items()):
        by_result[result_of(trace)].append(task)
    lines = [f"# Round {materials.round}", ""]
    lines += [f"- {name}: {len(tasks)} ({listed(tasks)})" for name, tasks in by_result.items()]
    passed, failed = (_turns(turns) for turns in (materials.turns_passed, materials.turns_failed))
    lines.append(f"- mean turns: {passed} where it passed, {failed} where it failed")
    return "\n".join(lines)


def _task_path(task: str) -> str:
    return "tasks/" + trace_path(task).removeprefix("traces/")


def _summary(task: str, trace: Trace) -> str:
    commands = [f"{number}. {clipped(command, 300)}" for number, command in enumerate(trace.commands)]
    last = next((step.output for step in reversed(trace.steps) if step.output.strip()), "")
    return clipped(
        f"# {task}\n\nFailure: `{signature(trace)}`\n\n## Commands\n\n" + "\n".join(commands) + "\n\n"
        f"## Last output\n\n{clipped(last.strip(), 1500)}\n\n## What the grader says\n\n"
        f"{clipped(trace.feedback.strip() or 'nothing', 1500)}\n\nThe whole trace: {trace_path(task)}\n",
        REPORT_BYTES,
    )


def _turns(turns: float | None) -> str:
    return "not measured" if turns is None else f"{turns:.1f}"
