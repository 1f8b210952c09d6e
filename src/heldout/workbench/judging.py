"""The judge of finished texts: after the audit, beside the test scores, and never used to accept anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from heldout.config import ModelConfig, RunConfig
from heldout.errors import BudgetExhausted, ModelError
from heldout.ledger import lost_with
from heldout.loops import Session, load_loop
from heldout.loops.skills.options import JudgeOptions, SkillOptions
from heldout.models import make_model
from heldout.options import read_options
from heldout.skills.judge import make_judge
from heldout.skills.rubric import Judge
from heldout.store.events import RunFinished
from heldout.store.skill_events import Judged
from heldout.workbench.guards import guard_model

__all__ = ["judge_finished", "judging_model"]


def judge_finished(session: Session, finished: RunFinished | None) -> None:
    """Score the start and the final, and with the rules, which cost nothing, every candidate that was measured.

    A budget that ends, or a model that does not answer, leaves the rest without a verdict.
    """
    options = _options(session.config)
    if finished is None or session.skills is None or options is None:
        return
    if not session.known(finished.start):
        return  # the budget ended before anything was measured
    digests = dict.fromkeys((finished.start, finished.final))
    if options.kind == "rules":
        measured = {one.candidate for one in session.engine.recorded.values()}
        digests |= dict.fromkeys(digest for digest in session.candidates() if digest in measured)
    if options.kind != "none":
        with _judge(session) as judge:
            for digest in digests:
                if not _judged(session, judge, digest):
                    break


def judging_model(config: RunConfig) -> ModelConfig | None:
    """The model that a run's judge asks; None where there is none."""
    options = _options(config)
    if options is None or options.kind != "model":
        return None
    return options.model or config.solver.model


def _options(config: RunConfig) -> JudgeOptions | None:
    """None for loops over anything else than skills."""
    model = getattr(load_loop(config.loop), "options_model", None)
    if model is None or not issubclass(model, SkillOptions):
        return None
    options: SkillOptions = read_options(model, config.options, where=f"the loop {config.loop!r}")
    return options.judge


@contextmanager
def _judge(session: Session) -> Iterator[Judge]:
    wanted = judging_model(session.config)
    if wanted is None:
        yield make_judge()
        return
    model = guard_model(make_model(wanted))
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
        found = Judged(
            candidate=digest, judge=judge.name, scores={}, total=None, error=str(error), unanswered=True, spend=spend
        )
    else:
        spend = ledger.price(judge.name, found.spend)
        reservation.settle(spend)
        found = found.model_copy(update={"spend": spend})
    session.recorder.record("judge", found)
    return not found.unanswered
