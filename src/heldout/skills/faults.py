"""The fault that a solver declares as it submits: one line of its last command's output."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heldout.harness.steps import Step
from heldout.skills.modules import Stage

__all__ = ["FAULT_MARKER", "FIRST_FAULT_FILE", "DeclaredFault", "declared_fault"]

FAULT_MARKER = "HELDOUT_FAULT"

FIRST_FAULT_FILE = "first_fault.md"
"""Name of the artifact that keeps the first fault of an episode."""

_LINE = re.compile(rf"^{FAULT_MARKER}[ \t]+(?P<stage>[^:\r\n]{{1,80}}):[ \t]*(?P<what>[^\r\n]*)", re.MULTILINE)
_STAGES = frozenset(stage.value for stage in Stage)


@dataclass(frozen=True, slots=True)
class DeclaredFault:
    """What a solver says of its own result."""

    stage: str
    """A `Stage`, or the solver's own words where they name none."""
    what: str

    @property
    def text(self) -> str:
        """The artifact."""
        return f"{self.stage}: {self.what}\n"


def declared_fault(steps: Sequence[Step]) -> DeclaredFault | None:
    """The fault in the output of the command that ended an episode, or None; the first, where there are several.

    `steps` end with the submission: alone, or behind the command that held it.
    """
    submission = steps[-1] if steps[-1].command is not None or len(steps) == 1 else steps[-2]
    found = _LINE.search(submission.output)
    if found is None:
        return None
    stage = " ".join(found["stage"].split())
    return DeclaredFault(stage.lower() if stage.lower() in _STAGES else stage, found["what"].strip())
