"""The shadow harness with a model that is out where a test says so."""

from __future__ import annotations

from collections.abc import Callable

from heldout.errors import ModelError
from heldout.harness.base import Episode
from heldout.records import Candidate, Task, Trajectory
from heldout.studies.verse.shadow import ShadowHarness

Outage = Callable[[Candidate, Task, int], bool]
"""(candidate, task, seed of the episode) -> whether the model does not answer."""

OUTAGES: list[Outage] = []
"""`out` replaces them."""

RUNS: list[tuple[str, str]] = []
"""(candidate, task) of every episode that was begun, in order, since `out`."""


class OutageHarness(ShadowHarness):
    """Not measured where one of `OUTAGES` says so."""

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        RUNS.append((candidate.digest, task.id))
        if any(outage(candidate, task, episode.seed) for outage in OUTAGES):
            raise ModelError("the endpoint is down", calls=1)
        return super().run(candidate, task, episode)


def out(*outages: Outage) -> None:
    """From now on the model is out where one of these says so, and runs are counted anew."""
    OUTAGES[:] = outages
    RUNS.clear()
