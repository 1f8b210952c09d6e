"""The judge of finished texts: after the audit, beside the test scores, and never used to accept anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from heldout.errors import BudgetExhausted, ModelError
from heldout.ledger import lost_with
from heldout.loops import Session, load_loop
from heldout.loops.skills.options import JudgeOptions, SkillOptions
from heldout.models import make_model
from heldout.options import read_options
from heldout.records import Spend
from heldout.skills.judge import make_judge
from heldout.skills.rubric import Judge
from heldout.store.events import RunFinished
from heldout.store.skill_events import Judged
from heldout.workbench.guards import guard_model

__all__ = ["judge_finished"]


def judge_finished(session: Session, finished: RunFinished | None) -> None:
    """Score the start and the final, and with the rules, which cost nothing, every candidate that was measured.

    A budget that ends, or a model that does not answer, leaves the rest without a verdict.
    """
    loop = load_loop(session.config.loop)
    model = getattr(loop, "options_model", None)
    if finished is None or session.skills is None or model is None or not issubclass(model, SkillOptions):
        return
    if not session.known(finished.start):
        return  # the budget ended before anything was measured
    options = read_options(model, session.config.options, where=f"the loop {session.config.loop!r}").judge
    digests = dict.fromkeys((finished.start, finished.final))
    if options.kind == "rules":
        measured = {one.candidate for one in session.engine.recorded.values()}
        digests |= dict.fromkeys(digest for digest in session.candidates() if digest in measured)
    if options.kind != "none":
        with _judge(session, options) as judge:
            for digest in digests:
                if not _judged(session, judge, digest):
                    break


@contextmanager
def _judge(session: Session, options: JudgeOptions) -> Iterator[Judge]:
    if options.kind == "rules":
        yield make_judge()
        return
    model = guard_model(make_model(options.model or session.config.solver.model))
    try:
        yield make_judge(model)
    finally:
        model.close()


def _judged(session: Session, judge: Judge, digest: str) -> bool:
    """One verdict on record, paid for; False where there can be no more."""
    if session.recorder.find("judge", f"{digest}/{judge.name}", Judged) is not None:
        return True
    candidate, ledger = session.store.load(digest), session.ledger
    try:
        reservation = ledger.reserve("judge", ledger.price(judge.name, judge.bound(candidate)))
    except BudgetExhausted:
        return False
    try:
        found = judge.judge(candidate)
    except ModelError as error:
        spend = ledger.price(judge.name, lost_with(error))
        reservation.settle(spend)
        found = Judged(candidate=digest, judge=judge.name, scores={}, total=None, error=str(error), spend=spend)
    else:
        spend = ledger.price(judge.name, found.spend)
        reservation.settle(spend)
        found = found.model_copy(update={"spend": spend})
    session.recorder.record("judge", found)
    return found.spend == Spend() or found.error is None
