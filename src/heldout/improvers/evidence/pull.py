"""Free browsing: the text is an index, and everything is in the files (the style of Meta-Harness)."""

from __future__ import annotations

from heldout.improvers.evidence.base import (
    REPORT_BYTES,
    EvidenceReport,
    Materials,
    clipped,
    result_of,
    shared_files,
    trace_path,
)

__all__ = ["Pull"]


class Pull:
    """Says what there is and shows nothing of it: what to read is the improver's own choice."""

    name = "pull"

    def report(self, materials: Materials) -> EvidenceReport:
        """One line for each trace and each file."""
        files = shared_files(materials)
        lines = [f"# Round {materials.round}: what there is to read", ""]
        for task, trace in sorted(materials.traces.items(), key=lambda item: (_RANK[item[1].passed], item[0])):
            path = trace_path(task)
            lines.append(f"- {path}: {result_of(trace)}, {len(trace.steps)} turns, {_size(files[path])}")
        others = [path for path in files if not path.startswith("traces/")]
        lines += [f"- {path}: {_size(files[path])}" for path in others]
        return EvidenceReport(clipped("\n".join(lines) + "\n", REPORT_BYTES), files)


_RANK = {False: 0, None: 1, True: 2}
"""Failures first."""


def _size(text: str) -> str:
    return f"{len(text.encode(errors='replace'))} bytes"
