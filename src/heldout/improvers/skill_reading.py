"""What the simulated improver of skills reads off a trace, and what it knows of the task behind it.

Both are the world's own records: the decisions that the simulated solver writes into its programs, and the job that a
train task's reference names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from pydantic import ValidationError

from heldout.harness.steps import Step
from heldout.improvers.skill_roles import Attribution, SkillTrace
from heldout.records import TrainTask
from heldout.skills.modules import MODULE_OF_STAGE, MODULES, Stage
from heldout.worlds.tables.generator import job_of
from heldout.worlds.tables.job import Job, Origin
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.truth import PART_MODULE, PART_STAGE, wrong_parts

__all__ = ["Reading", "attribution_of", "blamed_part", "job_behind", "misread", "read_trace"]

_NO_STAGE_OF_ITS_OWN = Stage.BOUNDED_RECOVERY
"""Goes with a module that no stage leads to: failure attribution is to blame where a recovery was aimed wrongly."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Whom a failure is blamed on."""

    stage: str
    module: str
    part: Part | None
    """None where the fault is of no single part."""


def read_trace(trace: SkillTrace, *, recovery: bool) -> Reading | None:
    """The truth about a failed trace: its first wrong part, or the recovery that was to mend it and did not, where one
    was and `recovery` says so. None where no decision was wrong: nothing can be learned from it."""
    wrong = _in_order(wrong_parts(trace.steps))
    if not wrong:
        return None
    if recovery and trace.first_fault and trace.measures.get("recoveries", 0.0) >= 1.0:
        stage = Stage.BOUNDED_RECOVERY
        return Reading(stage, MODULE_OF_STAGE[stage], None)
    return Reading(PART_STAGE[wrong[0]], PART_MODULE[wrong[0]], wrong[0])


def misread(true: Reading, rng: Random) -> Reading:
    """A wrong reading: another module, each of the five as likely as the others, with a stage and a part of its own."""
    module = rng.choice([name for name in MODULES if name != true.module])
    stages = [stage for stage, responsible in MODULE_OF_STAGE.items() if responsible == module]
    parts = [part for part in Part if PART_MODULE[part] == module]
    part = rng.choice(parts) if parts else None
    stage = PART_STAGE[part] if part is not None else rng.choice(stages or [_NO_STAGE_OF_ITS_OWN])
    return Reading(stage, module, part)


def attribution_of(reading: Reading, trace: SkillTrace) -> Attribution:
    """The reading as an attributor's answer; its mechanism begins with the part, which `blamed_part` finds again."""
    step = _first_step(trace.steps, reading.part)
    if reading.part is None:
        mechanism = f"{reading.stage}: what was done after the first fault did not mend it"
    else:
        mechanism = f"{reading.part}: decided wrongly"
    return Attribution(
        step=step,
        stage=reading.stage,
        module=reading.module,
        mechanism=mechanism,
        evidence=_evidence(trace, step),
        preserve="what was decided rightly in this task, and all that other tasks need",
    )


def blamed_part(fault: Attribution) -> Part | None:
    """The part that an attribution of this improver blames."""
    word = fault.mechanism.partition(":")[0]
    return next((part for part in Part if part == word), None)


def job_behind(task: TrainTask) -> Job | None:
    """The job that a train task's reference names; None for a task of another world."""
    try:
        origin = Origin.model_validate_json(task.reference)
    except ValidationError:
        return None
    return job_of(origin)


def _in_order(parts: frozenset[Part]) -> list[Part]:
    return [part for part in Part if part in parts]


def _first_step(steps: Sequence[Step], part: Part | None) -> int | None:
    """The first turn whose program decided the part wrongly; of no part, the last that decided anything wrongly."""
    decided = [(number, wrong_parts((step,))) for number, step in enumerate(steps)]
    if part is None:
        return next((number for number, wrong in reversed(decided) if wrong), None)
    return next((number for number, wrong in decided if part in wrong), None)


def _evidence(trace: SkillTrace, step: int | None) -> str:
    words = [f"turn {step}" if step is not None else "", trace.feedback or "the grader did not accept the result"]
    return ": ".join(word for word in words if word)
