"""Write the skill for a new task with a frozen guide: one model call, no solver and no grader."""

from __future__ import annotations

from heldout.errors import HarnessError, SetupError
from heldout.models.base import Model
from heldout.records import Candidate
from heldout.skills.guide import check_guide, kind_of
from heldout.skills.modules import NO_SKILL_FILE, SKILL_FILE
from heldout.skills.new_task import NewTask
from heldout.skills.visible import visible
from heldout.skills.writer import WriterTask, Written, write_skill

__all__ = ["compile_skill", "needed_guide"]


def needed_guide(candidate: Candidate, *, of: str) -> Candidate:
    """The candidate, if it is a guide; `SetupError` says what it is else, `of` whose it is."""
    try:
        kind = kind_of(candidate)
        if kind == "guide":
            check_guide(candidate.files)
            return candidate
    except HarnessError as fault:
        raise SetupError(f"the final candidate of {of} is no guide: {fault}") from fault
    what = f"has no skill ({NO_SKILL_FILE})" if kind == "none" else f"is one skill for all tasks ({SKILL_FILE})"
    way_out = "" if kind == "none" else f"; take it as it is: heldout export {of} --to skill"
    raise SetupError(f"the final candidate of {of} is no guide: it {what}{way_out}")


def compile_skill(guide: Candidate, task: NewTask, *, model: Model, max_tokens: int, seed: int) -> Written:
    """Ask the writer once, with exactly what it is given in a run."""
    shown = WriterTask(task.request, visible(task.scene))
    return write_skill(guide.files, shown, model=model, max_tokens=max_tokens, seed=seed)
