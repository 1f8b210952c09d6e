"""What an improver may ask of the world: experiments on train tasks, paid from one pool a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from heldout.harness.steps import Step
from heldout.records import Edit, Evidence, ProbeKind, Record, Spend, TrainTask

__all__ = ["Attribution", "Laboratory", "ProbeNoise", "SignatureEntry", "Suggestion", "Trace"]


@dataclass(frozen=True, slots=True)
class Trace:
    """One recorded episode of the head on a train task, as an improver may see it (no reference answer)."""

    task: TrainTask
    """Its `reference` is always empty here."""
    passed: bool | None
    """None where it was not measured."""
    steps: tuple[Step, ...]
    feedback: str
    """What the grader says of a failure, without its tests; empty for a pass."""
    error: str = ""
    """What ended the episode where neither the agent nor the task did (a crash, the step limit)."""
    measures: Mapping[str, float] | None = None

    @property
    def commands(self) -> tuple[str, ...]:
        """What was really run, in order; probe steps count these from 0."""
        return tuple(step.command for step in self.steps if step.kind == "command" and step.command is not None)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Commands of a trace that may suffice for its outcome, and what asking cost."""

    keep: tuple[int, ...] | None
    """Indices in order; None for no idea."""
    spend: Spend


class Attribution(Record):
    """A minimised failure (or success): the smallest commands found that still show it."""

    task: str
    signature: str
    """Error class and masked message of the failure; empty for a success."""
    passed: bool
    keep: tuple[int, ...]
    """Indices of the commands that suffice."""
    commands: tuple[str, ...]
    """Those commands."""
    cause: str
    """`omission`, `commission`, `unknown`; `success` for a success."""
    replays: int
    """Replays that it took."""


class ProbeNoise(Record):
    """What a draft without any effect would show, from the run's own start-against-itself data (spec §6, point 3)."""

    disagreement: float
    """Share of tasks on which two runs of the same harness differ."""
    false_flip: float
    """P(a failing target passes once)."""
    false_confirmed: float
    """P(it passes twice)."""
    false_support: float
    """P(a fix_probe of three targets says *supports*)."""
    screen_net: float
    """Expected net of a no-effect screen."""
    screen_best: float
    """Expected best net of the round's screens."""


class SignatureEntry(Record):
    """One line of the failure ledger."""

    signature: str
    first_round: int
    example: str
    """A train id."""
    cause: str = "unknown"
    """`omission`, `commission` or `unknown`, from attribution."""
    core: tuple[str, ...] = ()
    """Commands of its minimal trace."""
    hits: Mapping[int, tuple[str, ...]] = {}
    """Round to the train ids that failed with it."""
    status: str = "ALIVE"
    """`EXTINCT` (no hit in the newest sweep), `GROWING` (more hits than in the sweep before), else `ALIVE`."""


class Laboratory(Protocol):
    """The only way from an improver to an experiment. It holds no task, grader or model: requests are served
    elsewhere. Every call returns Evidence; one that was refused says so in `refused` and costs nothing.
    Safe to use from the episode's own thread only.
    """

    available: frozenset[ProbeKind]
    """Kinds that this run offers; empty in arms without verification."""
    waited_s: float
    """Seconds for which the episode has waited for experiments; they are paid for as such, not by the episode."""

    def probe(
        self,
        kind: ProbeKind,
        tasks: Sequence[str],
        *,
        step: int | None = None,
        command: str | None = None,
        edits: Iterable[Edit] = (),
        base_round: int | None = None,
    ) -> Evidence:
        """`replay`, `ablate` and `substitute` take one task (and a step, and a command); `fix_probe` takes edits and
        up to three tasks that fail now; `run_episode` takes one task and, if wished, edits. `base_round` is what the
        edits are made to, as in `EditProposal`."""

    def units_left(self) -> int:
        """Units left in the round's pool."""
