"""The seam to environments: where an agent's task begins, and how what it left behind becomes an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

from heldout.records import Task
from heldout.sandbox import Scene

__all__ = ["Environment", "changes_answer", "read_changes"]


class Environment(Protocol):
    """Gives every task its beginning. Picklable; made anew from the task source in each process that needs it.

    It is handed to harnesses, which run what candidates contain: nothing of a grader or of a reference answer
    may be reachable from a scene.
    """

    fingerprint: str
    """Identity of the environment and its settings, for cache keys."""

    def scene(self, task: Task, *, seed: int) -> Scene:
        """The work folder of a task at its start. `seed` is the run's own (what differs from one run to the next of
        a world that is not deterministic). `TaskError` for a task that is not of this source."""


def changes_answer(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The answer of an agent's episode: canonical JSON of every file that changed, null for one that is gone."""
    changed: dict[str, str | None] = {path: text for path, text in after.items() if before.get(path) != text}
    changed |= {path: None for path in before if path not in after}
    return json.dumps(changed, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def read_changes(answer: str | None) -> dict[str, str | None]:
    """The changed files that an answer holds; empty for None and for text that is no such answer."""
    if answer is None:
        return {}
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    if not isinstance(found, dict) or not all(text is None or isinstance(text, str) for text in found.values()):
        return {}
    return found
