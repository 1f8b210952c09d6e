"""Step 2 of a round: the first failed train task that something can be learned from."""

from __future__ import annotations

from functools import partial

from heldout.improvers.skill_roles import Attribution, FaultView, SkillTrace
from heldout.loops.paying import paid_call
from heldout.loops.proposing import step_seed
from heldout.loops.skills.state import Batch, Learnable, SkillSearch
from heldout.records import Candidate
from heldout.skills.modules import MODULE_OF_STAGE, MODULES, Stage
from heldout.store.skill_events import FaultAttributed

__all__ = ["attribute", "attribute_all", "attribute_one", "copied", "told"]

ATTRIBUTOR = 1000
"""Index from which the attributor's seeds are drawn, apart from the editor's."""


def attribute(search: SkillSearch, batch: Batch) -> Learnable | None:
    """Ask about the failed tasks in order until one is learnable; None where none is."""
    for index, trace in enumerate(batch.failed[: search.options.attribution.tries]):
        fault = attribute_one(search, batch, trace, index=index)
        if fault.module is not None:
            return Learnable(batch.candidate, trace, fault, fault.module)
        if fault.unanswered:
            return None
    return None


def attribute_all(search: SkillSearch, batch: Batch) -> tuple[Learnable, ...]:
    """Ask about every failed task, in order; those that can be learned from."""
    faults = [attribute_one(search, batch, trace, index=index) for index, trace in enumerate(batch.failed)]
    return tuple(
        Learnable(batch.candidate, trace, fault, fault.module)
        for trace, fault in zip(batch.failed, faults, strict=True)
        if fault.module is not None
    )


def attribute_one(search: SkillSearch, batch: Batch, trace: SkillTrace, *, index: int) -> FaultAttributed:
    """The attributor's reading of one trace, on record."""
    session, number = search.session, batch.round
    known = session.recorder.find("fault.attributed", f"{number}/{index}", FaultAttributed)
    if known is not None:
        return known
    view = FaultView(
        round=number,
        seed=step_seed(session.config.seed, number, ATTRIBUTOR + index),
        head=copied(batch.candidate),
        target=search.target,
        trace=trace,
        description=session.tasks.description,
        run_seed=session.config.seed,
    )
    ask = partial(search.improver.attribute, view)
    answered = paid_call(session, ask, Attribution, bound=search.improver.bound, purpose="attribute")
    found = answered.value or Attribution()
    stage, module, fault = _placed(search, found)
    attributed = FaultAttributed(
        round=number,
        index=index,
        task=trace.task.id,
        step=found.step,
        stage=stage,
        module=module,
        mechanism=found.mechanism,
        evidence=found.evidence,
        preserve=found.preserve,
        error=answered.error or fault or None,
        unanswered=answered.unanswered,
        spend=answered.spend,
    )
    return session.recorder.record("fault.attributed", attributed)


def told(learnable: Learnable) -> Attribution:
    """The fault record as an editor is told it."""
    fault = learnable.fault
    return Attribution(
        step=fault.step,
        stage=fault.stage,
        module=learnable.module,
        mechanism=fault.mechanism,
        evidence=fault.evidence,
        preserve=fault.preserve,
    )


def copied(candidate: Candidate) -> Candidate:
    """A copy: an improver that edits it in place changes nobody's head."""
    return Candidate(files=dict(candidate.files), weights=candidate.weights, parent=candidate.parent)


def _placed(search: SkillSearch, found: Attribution) -> tuple[str, str | None, str]:
    """Stage and module, or none with what is wrong with the answer. A named module counts; else the stage's own."""
    if not found.stage and found.module is None:
        return "", None, ""
    stages = [stage.value for stage in Stage]
    if found.stage and found.stage not in stages:
        return "", None, f"the attributor named the stage {found.stage!r}; there is {', '.join(stages)}"
    if found.module is not None and found.module not in MODULES:
        return "", None, f"the attributor named the module {found.module!r}; there is {', '.join(MODULES)}"
    mapped = {stage.value: module for stage, module in MODULE_OF_STAGE.items()} | dict(search.options.attribution.map)
    return found.stage, found.module or mapped[found.stage], ""
