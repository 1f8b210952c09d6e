"""A plug-in harness that replays, and older ones that do not say whether they do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from heldout.errors import HarnessError
from heldout.harness import Replayed
from heldout.records import Task
from heldout.testing import PlainHarness
from heldout.workbench.guards import GuardedHarness, guard_harness

TASK = Task(id="t", input="x")


class Old:
    """Made before harnesses had the flag."""

    fingerprint = "old"


class Replaying(Old):
    replayable = True

    def replay(self, task: Task, commands: Sequence[str], *, seed: int) -> object:
        del task
        first = commands[0]
        return Replayed(answer=first, outputs=(str(seed),), exit_codes=(0,)) if first != "odd" else first


def guarded(harness: object) -> GuardedHarness:
    found = guard_harness(harness, name="mine")  # type: ignore[arg-type]
    assert isinstance(found, GuardedHarness)
    return found


def test_a_harness_that_does_not_say_so_is_not_replayable() -> None:
    assert not guarded(Old()).replayable
    assert guarded(Replaying()).replayable


def test_ours_is_not_guarded() -> None:
    plain = PlainHarness()
    assert guard_harness(plain, name="plain") is plain


def test_replays_pass_through_and_faults_get_the_harness_name() -> None:
    harness = guarded(Replaying())
    assert harness.replay(TASK, ("ls",), seed=7).outputs == ("7",)
    with pytest.raises(HarnessError, match=r"the harness 'mine' returned 'odd', not a heldout\.harness\.Replayed"):
        harness.replay(TASK, ("odd",), seed=0)
    with pytest.raises(HarnessError, match="the harness 'mine' raised while it replayed commands: IndexError"):
        harness.replay(TASK, (), seed=0)
