"""Step 2 of a round: failures by mechanical signature, recoverable points, and one focal problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from heldout.improvers.training_roles import Diagnosis, DiagnosisView, Failed
from heldout.loops.paying import Answered, paid_call
from heldout.loops.proposing import step_seed
from heldout.loops.weights.evaluating import diagnosis_sweep
from heldout.loops.weights.state import Attributed, WeightsSearch
from heldout.records import Outcome, Spend, TrainTask
from heldout.store.training_events import Cluster, Diagnosed

__all__ = ["CITED", "attribute", "cluster"]

CITED = 5
"""Failures that a focal problem must rest on, where there are as many."""

_SHOWN = 20
"""Ids that a cluster lists."""

_UNKNOWN_FIX_RATE = 0.5
_STOP = "stop"


def attribute(search: WeightsSearch, number: int) -> Attributed:
    """Evaluate the head on the diagnosis tasks, cluster what fails, and ask the diagnostician."""
    session, head = search.session, search.head.candidate
    rows = diagnosis_sweep(search, head)
    failed = [row for row in rows if row[1].score is not None and row[1].score < 1.0]
    solutions = session.tasks.train_solutions() if failed else {}
    failures = tuple(_failed(search, *row, solutions) for row in failed)
    measured = [outcome for _, outcome, _ in rows if outcome.score is not None]
    clusters = cluster(failures, n=len(measured))
    recorded = session.recorder.find("diagnosis", str(number), Diagnosed)
    if recorded is not None:
        return Attributed(recorded, failures)
    seed = step_seed(session.config.seed, number, 0)
    view = DiagnosisView(
        round=number,
        seed=seed,
        description=session.tasks.description,
        n=len(measured),
        score=_mean([outcome.score for outcome in measured]),
        clusters=clusters,
        failures=failures,
        history=tuple(search.history),
    )
    answered = _ask(search, view) if failures else _nothing_fails(view)
    diagnosed = _diagnosed(search, view, answered, missing=len(rows) - len(measured), outcomes=measured)
    session.recorder.record("diagnosis", diagnosed)
    return Attributed(diagnosed, failures)


def cluster(failures: Sequence[Failed], *, n: int) -> tuple[Cluster, ...]:
    """Failures by the first of their faults, largest first, then by code; `also` counts those behind another one."""
    first = Counter(failed.faults[0] for failed in failures)
    behind = Counter(code for failed in failures for code in dict.fromkeys(failed.faults[1:]))
    return tuple(
        Cluster(
            code=code,
            count=count,
            share=count / n,
            also=behind[code],
            examples=tuple(failed.task.id for failed in failures if failed.faults[0] == code)[:_SHOWN],
        )
        for code, count in sorted(first.items(), key=lambda one: (-one[1], one[0]))
    )


def _failed(search: WeightsSearch, task: TrainTask, outcome: Outcome, key: str, solutions: Mapping[str, str]) -> Failed:
    """The whole answer is in the trace; an episode that crashed left none."""
    session = search.session
    kept = session.traces.load(key)
    answer = None if kept is None else kept.answer
    faults = ("crashed",) if kept is None else session.tasks.faults(task.id, answer)
    if outcome.measures.get("stopped", 1.0) < 1.0 and _STOP not in faults:
        faults = (_STOP, *faults)
    feedback = "" if answer is None else session.tasks.explain(task.id, answer)
    said = feedback or outcome.error or ""
    return Failed(task, answer, faults or ("wrong",), said, outcome.measures, solutions.get(task.id, ""))


def _nothing_fails(view: DiagnosisView) -> Answered[Diagnosis]:
    """Where nothing was measured, nothing is known."""
    if view.n == 0:
        return Answered(None, Spend(), error="not one diagnosis task could be measured")
    return Answered(Diagnosis(why="nothing fails"), Spend())


def _ask(search: WeightsSearch, view: DiagnosisView) -> Answered[Diagnosis]:
    return paid_call(
        search.session,
        lambda: search.improver.diagnose(view),
        Diagnosis,
        bound=search.improver.bound,
        purpose="diagnose",
    )


def _diagnosed(
    search: WeightsSearch,
    view: DiagnosisView,
    answered: Answered[Diagnosis],
    *,
    missing: int,
    outcomes: Sequence[Outcome],
) -> Diagnosed:
    """What the diagnostician said, made whole: unknown clusters are not focal, and the failures cited are real."""
    said = answered.value or Diagnosis()
    clusters = tuple(_weighed(one, said) for one in view.clusters)
    by_points = sorted(clusters, key=lambda one: (-one.recoverable, one.code))
    codes = [one.code for one in by_points]
    focal = said.focal if said.focal in codes else codes[0] if codes else None
    of_focal = [failed.task.id for failed in view.failures if failed.faults[0] == focal]
    cited = tuple(task for task in said.cited if task in {failed.task.id for failed in view.failures})
    if len(cited) < min(CITED, len(of_focal)):
        cited = tuple(dict.fromkeys([*cited, *of_focal[:CITED]]))
    return Diagnosed(
        round=view.round,
        head=search.head.candidate.digest,
        n=view.n,
        missing=missing,
        score=view.score,
        stopped=_mean([outcome.measures.get("stopped") for outcome in outcomes]),
        answer_tokens=_mean([outcome.measures.get("tokens_out") for outcome in outcomes]),
        clusters=tuple(by_points),
        focal=None if answered.error is not None else focal,
        cited=cited,
        why=said.why,
        error=answered.error,
        unanswered=answered.unanswered,
        spend=answered.spend,
    )


def _weighed(one: Cluster, said: Diagnosis) -> Cluster:
    rate = min(1.0, max(0.0, said.fix_rates.get(one.code, _UNKNOWN_FIX_RATE)))
    return one.model_copy(update={"fix_rate": rate, "recoverable": one.share * rate * 100.0})


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
