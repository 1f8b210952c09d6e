"""Sweeps of train and select, their retries, and the confirmation of flips."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heldout.loops.agents.options import SelectOptions
from heldout.loops.agents.state import Agents, Kept, Round, Swept
from heldout.loops.session import Session, score_column
from heldout.records import Candidate, Outcome, Task, Verdict
from heldout.rollouts import Sweep
from heldout.stats import EQUAL_WITHIN, confirmed_flips
from heldout.store.agent_events import FlipsConfirmed, PredictionScored

__all__ = ["confirm", "hook_error_rate", "measured_sweep", "must_sweep", "score_predictions", "sweep_train"]

FAILED_ROUNDS = frozenset({"error", "invalid"})


def must_sweep(agents: Agents, number: int) -> bool:
    """Whether train is swept again: after a kept round, or when evidence is stale (spec §4, step 1)."""
    if number == 0 or agents.sweeps[-1].candidate.digest != agents.head.candidate.digest:
        return True
    last = [note.verdict for note in agents.notes[-2:]]
    return len(last) == 2 and Verdict.ACCEPT not in last and any(verdict in FAILED_ROUNDS for verdict in last)


def sweep_train(agents: Agents) -> Swept:
    """The whole train role under the head, with its trajectories: a new head at the seeds of the sweep before it, which
    predictions are scored by, the same head at new ones."""
    session, head = agents.session, agents.head.candidate
    last = agents.sweeps[-1] if agents.sweeps else None
    repeat = 0 if last is None else last.repeat + (last.candidate.digest == head.digest)
    sweep = Sweep(head, session.tasks.train, "train", repeat, traced=True)
    outcomes = measured_sweep(session, sweep, agents.options.select)
    swept = Swept(head, repeat, {task.id: one for task, one in zip(session.tasks.train, outcomes, strict=True)})
    agents.sweeps.append(swept)
    return swept


def measured_sweep(session: Session, sweep: Sweep, options: SelectOptions) -> tuple[Outcome, ...]:
    """A sweep whose infrastructure failures were retried, at once and then with a doubling wait.

    What was missing when something was decided from it stays missing, so that a resumed run decides the same.
    """
    settled = session.recorder.settled
    outcomes = session.engine.evaluate(sweep, grade=session.tasks.grade)
    for attempt in range(options.retries):
        if all(one.score is not None or one.key in settled for one in outcomes):
            break
        if attempt:
            session.sleep(options.retry_wait_s * 2 ** (attempt - 1))
        session.engine.forget_missing(sweep, but=settled)
        outcomes = session.engine.evaluate(sweep, grade=session.tasks.grade)
    return outcomes


def score_predictions(agents: Agents) -> None:
    """What became of the last kept edit's predicted fixes, from the two newest train sweeps."""
    if len(agents.sweeps) < 2 or agents.head.round not in agents.winners:
        return
    before, after = agents.sweeps[-2:]
    if before.candidate.digest == after.candidate.digest:
        return  # swept again because the evidence was stale: these predictions have had their answer
    proposal = agents.winners[agents.head.round].proposal
    outcomes = {task: _prediction(before, after, task) for task in proposal.predicted_fixes}
    agents.session.recorder.record("prediction.scored", PredictionScored(round=agents.head.round, outcomes=outcomes))
    index = next(i for i, note in enumerate(agents.notes) if note.round == agents.head.round)
    agents.notes[index] = agents.notes[index].model_copy(update={"predictions": outcomes})


def _prediction(before: Swept, after: Swept, task: str) -> str:
    """`still_T` and `still_F`: it passed, or failed, in both sweeps."""
    if task not in before.outcomes or task not in after.outcomes:
        return "absent"
    was, now = before.passed(task), after.passed(task)
    if was is None or now is None:
        return "absent"
    return {(False, True): "flipped", (True, True): "still_T", (False, False): "still_F"}.get((was, now), "regressed")


def confirm(agents: Agents, which: Round, candidate: Candidate, *, base: Kept) -> tuple[FlipsConfirmed, Kept]:
    """The select sweep of a candidate against the head's recorded outcomes, each flip run once more (steps 8, 9)."""
    session, options = agents.session, agents.options.select
    tasks = session.tasks.select
    outcomes = measured_sweep(session, Sweep(candidate, tasks, "select"), options)
    after = score_column(outcomes)
    both = ~np.isnan(base.select) & ~np.isnan(after)
    enough = bool(both.mean() >= options.coverage)
    again = _second_runs(agents, which, candidate, base.select, after) if enough and options.confirm_flips else after
    flips = confirmed_flips(base.select, after, again)
    rate = hook_error_rate(outcomes)
    ids = [task.id for task in tasks]
    kept = Kept(which.number, candidate, flips.after, broken_hooks=rate > options.hook_errors)
    payload = FlipsConfirmed(
        round=which.number,
        base=base.candidate.digest,
        candidate=candidate.digest,
        n=int(both.sum()),
        coverage=float(both.mean()),
        fixed=_ids(ids, flips.fixed),
        broken=_ids(ids, flips.broken),
        flaky=_ids(ids, flips.flaky),
        infra=_ids(ids, flips.infra),
        score_before=_mean(base.select[both]),
        score_after=_mean(kept.select[both]),
        hook_error_rate=rate,
        hooks_broken=kept.broken_hooks,
        label=flips.label.value if enough else "void",
    )
    return session.recorder.record("flips", payload), kept


def _second_runs(
    agents: Agents, which: Round, candidate: Candidate, before: NDArray[np.float64], after: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Scores of each flipped task's second run, shape (n,), NaN elsewhere. No unit of the pool; the ledger counts."""
    session = agents.session
    flipped = np.flatnonzero(np.abs(after - before) > EQUAL_WITHIN)  # what is missing never flips
    again = np.full(after.shape, np.nan)
    chosen: Sequence[Task] = [session.tasks.select[i] for i in flipped]
    if chosen:
        sweep = Sweep(candidate, chosen, "confirm", which.draw)
        again[flipped] = score_column(session.engine.evaluate(sweep, grade=session.tasks.grade))
    return again


def hook_error_rate(outcomes: Sequence[Outcome]) -> float:
    """Failed hook calls among all; 0 where no hook was called."""
    calls = sum(one.measures.get("hook_calls", 0.0) for one in outcomes)
    return sum(one.measures.get("hook_errors", 0.0) for one in outcomes) / calls if calls else 0.0


def _mean(scores: NDArray[np.float64]) -> float | None:
    return float(scores.mean()) if scores.size else None


def _ids(ids: Sequence[str], chosen: NDArray[np.intp]) -> tuple[str, ...]:
    return tuple(ids[i] for i in chosen)
