"""What an improver asked for, and which request a schedule without agency puts in its place."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import field_validator

from heldout.harness.protocol import COMMAND_BYTES
from heldout.probes.base import Trace
from heldout.records import Edit, ProbeKind, Record, digest_of

__all__ = ["DRAFTS", "TARGETS", "ProbeRequest", "Schedule", "scheduled"]

Schedule = Literal["chosen", "random", "fixed"]

TARGETS = 3
"""Tasks that one `fix_probe` may name."""

DRAFTS = frozenset({ProbeKind.FIX_PROBE, ProbeKind.RUN_EPISODE})
"""Kinds that run whole episodes; the others replay a trace."""

_STEPPED = frozenset({ProbeKind.ABLATE, ProbeKind.SUBSTITUTE})


class ProbeRequest(Record):
    """One call of `Laboratory.probe`; it crosses a queue and holds what the improver said and nothing else.

    What is no such request at all (a step that is no number) is the improver's own `ValidationError`.
    """

    kind: ProbeKind
    tasks: tuple[str, ...]
    step: int | None = None
    command: str | None = None
    edits: tuple[Edit, ...] = ()
    base_round: int | None = None

    @field_validator("tasks", "command")
    @classmethod
    def _can_be_written(cls, said: tuple[str, ...] | str | None) -> tuple[str, ...] | str | None:
        """It goes on record whatever becomes of it: half a character cannot, and a book should not."""
        words = said if isinstance(said, tuple) else (said or "",)
        if sum(map(len, words)) > COMMAND_BYTES:
            raise ValueError(f"a request holds at most {COMMAND_BYTES} characters")
        for word in words:
            word.encode()
        return said

    @property
    def units(self) -> int:
        """What it takes from the pool: one, or one for each target of a draft."""
        return len(self.tasks) if self.kind is ProbeKind.FIX_PROBE else 1

    def relevant(self) -> ProbeRequest:
        """The request without what its kind does not read."""
        return ProbeRequest(
            kind=self.kind,
            tasks=self.tasks,
            step=self.step if self.kind in _STEPPED else None,
            command=self.command if self.kind is ProbeKind.SUBSTITUTE else None,
            edits=self.edits if self.kind in DRAFTS else (),
            base_round=self.base_round if self.kind in DRAFTS else None,
        )


def scheduled(
    request: ProbeRequest,
    schedule: Schedule,
    *,
    kinds: Sequence[ProbeKind],
    traces: Mapping[str, Trace],
    seed: int,
    place: tuple[int, int, int],
) -> ProbeRequest:
    """The request that is carried out, for arms in which the improver does not choose (specification, §7).

    Under `chosen` it is the improver's own. Otherwise the improver says only *that* it probes, and lends its draft
    and its command; kind, tasks and step come from the schedule, at the same prices from the same pool. `random`
    draws them evenly from the kinds in `kinds` that can run and from the tasks that fail now. `fixed` takes the kinds
    in turn, the failing tasks in the order of their ids, and the last command. `place` is (round, episode, ordinal),
    and with `seed` the only source of chance.
    """
    if schedule == "chosen":
        return request.relevant()
    failing = sorted(task for task, trace in traces.items() if trace.passed is False)
    able = [kind for kind in kinds if _can_run(kind, request)]
    if not failing or not able:
        return request.relevant()
    count = min(max(len(request.tasks), 1), TARGETS, len(failing))
    ordinal = place[2]
    if schedule == "fixed":
        kind = able[ordinal % len(able)]
        targets = tuple(failing[(ordinal + number) % len(failing)] for number in range(count))
        step = max(len(traces[targets[0]].commands) - 1, 0)
    else:
        chance = random.Random(digest_of(["schedule", seed, *place]))
        kind = chance.choice(able)
        targets = tuple(chance.sample(failing, count))
        step = chance.randrange(max(len(traces[targets[0]].commands), 1))
    tasks = targets if kind is ProbeKind.FIX_PROBE else targets[:1]
    return request.model_copy(update={"kind": kind, "tasks": tasks, "step": step}).relevant()


def _can_run(kind: ProbeKind, request: ProbeRequest) -> bool:
    if kind is ProbeKind.FIX_PROBE:
        return bool(request.edits)
    return kind is not ProbeKind.SUBSTITUTE or request.command is not None
