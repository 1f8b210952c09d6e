"""Round 0 of loops that begin with a skill: one for all tasks, written before anything was tried."""

from __future__ import annotations

from functools import partial

from heldout.errors import ModelError
from heldout.improvers.skill_roles import DraftView
from heldout.loops.proposing import step_seed
from heldout.loops.session import Scored
from heldout.loops.skills.attributing import copied
from heldout.loops.skills.deciding import decision_of, move, no_proposal, settle
from heldout.loops.skills.editing import answered_edit
from heldout.loops.skills.solving import draw_batch, shown
from heldout.loops.skills.state import SkillSearch
from heldout.loops.skills.tabling import compare_once, record_table
from heldout.records import Verdict
from heldout.store.skill_events import ModuleEdited

__all__ = ["draft"]

DRAFT = 0
"""The round that the draft is recorded under."""


def draft(search: SkillSearch, *, tasks: int) -> bool:
    """One skill for all tasks, from so many train tasks; it becomes the head whatever it scores on select.

    Whether there is one: a draft that cannot be used leaves the head where it is. `ModelError` where the improver's
    model does not answer, before more is spent; a resumed run asks again.
    """
    edit = _asked(search, tasks)
    if edit.unanswered:
        raise ModelError(f"the improver's model did not answer when it was asked for a first skill: {edit.fault}")
    if edit.digest is None:
        no_proposal(search, DRAFT, f"no skill was drafted: {edit.fault}", edit=edit)
        search.idle = 0  # the draft is no round
        return False
    measured = compare_once(search, search.head.candidate, search.session.store.load(edit.digest))
    table = record_table(search, measured, number=DRAFT)
    reason = "the drafted skill is the head whatever it scores; the final selection holds it against the start"
    decision = decision_of(table, gate="draft", verdict=Verdict.ACCEPT, reason=reason)
    drafted = Scored(measured.candidate, measured.after[:, None])
    settle(search, edit, decision, parent=search.head, candidate=drafted, table=table)
    move(search, drafted, number=DRAFT, why=reason)
    return True


def _asked(search: SkillSearch, tasks: int) -> ModuleEdited:
    session, head = search.session, search.head.candidate
    shared = draw_batch(session.tasks.train, size=tasks, number=1, seed=session.config.seed)
    view = DraftView(
        seed=step_seed(session.config.seed, DRAFT, 0),
        head=copied(head),
        tasks=tuple((task, shown(search, task)) for task in shared),
        description=session.tasks.description,
        run_seed=session.config.seed,
    )
    return answered_edit(search, head, partial(search.improver.draft, view), number=DRAFT)
