"""The start of one arm: what the start guide says, as one skill for all tasks, so that no draft stands between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heldout.records import Candidate
from heldout.skills.guide import start_guide
from heldout.studies.gso.measuring import as_one_skill
from heldout.studies.gso.shadow import ShadowHarness

__all__ = ["RulesShadow"]


class RulesShadow(ShadowHarness):
    """The shadow harness; a run begins with the start guide's own sentences as one skill."""

    @staticmethod
    def start_folder(options: Mapping[str, Any]) -> Mapping[str, str]:
        """See above; `options.start` is not asked."""
        del options
        return as_one_skill(Candidate(files=start_guide())).files
