"""Step 6 of a round: the child against its parent, the floor elsewhere, and what follows from the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from heldout.errors import BudgetExhausted
from heldout.gates import GenerationTable
from heldout.gates.two_noises import TwoNoises
from heldout.loops.proposing import step_seed
from heldout.loops.recorder import Recorder
from heldout.loops.session import Scored, score_column
from heldout.loops.weights.evaluating import score
from heldout.loops.weights.fitting import fit
from heldout.loops.weights.state import TRACK, Prepared, WeightsSearch, weights_of
from heldout.records import Candidate, Decision, Task, Verdict, digest_of
from heldout.rollouts import Sweep
from heldout.stats import flip_rate, paired_difference
from heldout.store.events import AuditOpened, CandidateAdded, Decided, TrackMoved
from heldout.store.training_events import AbilitiesMeasured, TrainingEnded, TrainingNoise

__all__ = ["abilities", "add_child", "decide", "keeps_abilities", "measure_training_noise", "table_of", "worst_case"]


def add_child(search: WeightsSearch, trained: TrainingEnded, *, note: str, index: int = 0) -> Candidate:
    """The head's folder with the trained weights, in the lineage. `StoreError` where no allowed base is an ancestor."""
    session, head = search.session, search.head.candidate
    child = Candidate(files=head.files, weights=trained.weights, parent=head.digest)
    search.check_ancestry(weights_of(child))
    added = CandidateAdded(
        digest=child.digest, parent=head.digest, track=TRACK, generation=trained.round, index=index, note=note
    )
    session.add_candidate(child, added)
    return child


def measure_training_noise(search: WeightsSearch, prepared: Prepared, first: Scored, number: int, *, note: str) -> None:
    """The recipe of the first full training once more with another seed: the noise of training, on the same tasks.

    Where the budget has no room for it, only a gate that reads this noise stops; any other decides without it.
    """
    recorder = search.session.recorder
    passed_over = _decided(recorder, number) and recorder.find("training.noise", str(number), TrainingNoise) is None
    if not search.options.training_noise or search.noise_known or passed_over:
        return
    try:
        second = _trained_again(search, prepared, number, note=note)
    except BudgetExhausted:
        if search.session.gate.name == TwoNoises.name:
            raise
        return
    if second is None:
        return
    search.pool.append((number, second))
    difference = paired_difference(first.scores, second.scores)
    if difference.mean is None:
        return
    noise = TrainingNoise(
        round=number,
        first=first.candidate.digest,
        second=second.candidate.digest,
        n=difference.n,
        difference=difference.mean,
        flips=flip_rate(first.scores[:, 0], second.scores[:, 0]),
        standard_error=abs(difference.mean) / sqrt(2.0),
    )
    search.noise_known = True
    search.training_se = recorder.record("training.noise", noise).standard_error


def _trained_again(search: WeightsSearch, prepared: Prepared, number: int, *, note: str) -> Scored | None:
    """The second child on the deciding tasks; None where its training ended without weights."""
    again = fit(search, prepared, number, repeat=1)
    if again.weights is None:
        search.noise_known = not again.missing and search.session.gate.name != TwoNoises.name
        return None
    return score(search, add_child(search, again, note=f"{note}, another seed", index=1))


def _decided(recorder: Recorder, number: int) -> bool:
    return recorder.find("decision", str(number), Decided) is not None


def decide(search: WeightsSearch, child: Scored, number: int) -> Decision:
    """The gate's verdict on record, after the floor; an acceptance moves the head, everything else leaves it."""
    session, parent = search.session, search.head
    table = table_of(search, parent, child, number)
    decision = _with_floor(search, child.candidate, _with_noise(search, session.decide(table)))
    decided = Decided(
        generation=number,
        incumbent=parent.candidate.digest,
        candidates=(child.candidate.digest,),
        incumbent_score=parent.mean,
        scores=(child.mean,),
        winner=None if decision.winner is None else child.candidate.digest,
        decision=decision,
    )
    session.recorder.record("decision", decided)
    if decision.verdict is Verdict.ACCEPT:
        _move(search, child, number=number, why=decision.reason)
    return decision


def table_of(search: WeightsSearch, parent: Scored, child: Scored, number: int) -> GenerationTable:
    """What a gate is shown of two models on the deciding tasks."""
    return GenerationTable(
        incumbent=parent.scores,
        candidates=child.scores[None],
        edit_sizes=np.zeros(1, dtype=np.int64),
        seed=step_seed(search.session.config.seed, number, -1),
        tasks=tuple(task.id for task in _deciding_tasks(search)),
        families=tuple(task.family for task in _deciding_tasks(search)),
        training_se=search.training_se,
    )


def _deciding_tasks(search: WeightsSearch) -> Sequence[Task]:
    tasks = search.session.tasks
    return tasks.select if search.options.decide_on == "select" else tasks.train


def _move(search: WeightsSearch, head: Scored, *, number: int, why: str) -> None:
    session, origin = search.session, search.head.candidate.digest
    moved = TrackMoved(track=TRACK, origin=origin, target=head.candidate.digest, generation=number, why=why)
    session.move(head, moved)
    search.head, search.head_round = head, number


def _with_noise(search: WeightsSearch, decision: Decision) -> Decision:
    """The gate that reads the noise of training accepts nothing while the second training has died every time."""
    needed = search.session.gate.name == TwoNoises.name and search.options.training_noise and not search.noise_known
    if not needed or decision.verdict is not Verdict.ACCEPT:
        return decision
    why = "the recipe could not be trained twice, so the noise of training is not known"
    return decision.model_copy(update={"verdict": Verdict.UNDECIDED, "reason": f"{decision.reason}; but {why}"})


def _with_floor(search: WeightsSearch, child: Candidate, decision: Decision) -> Decision:
    """An acceptance is vetoed where the child loses more elsewhere than the floor allows."""
    floor = search.options.retain.floor
    if floor is None or decision.verdict is not Verdict.ACCEPT:
        return decision
    measured = abilities(search, child)
    if measured.gain is None or measured.worst is None:
        why = f"nothing was measured on {search.options.retain.role}"
        return decision.model_copy(update={"verdict": Verdict.UNDECIDED, "reason": f"{decision.reason}; {why}"})
    if 100.0 * measured.worst >= floor:
        return decision
    if 100.0 * measured.gain >= floor:
        why = f"the floor on {search.options.retain.role} holds only if the {measured.missing} scores that it lacks do"
        return decision.model_copy(update={"verdict": Verdict.UNDECIDED, "reason": f"{decision.reason}; {why}"})
    search.vetoed.add(child.digest)
    why = f"loses {-100 * measured.gain:.1f} points on {search.options.retain.role}, below the floor of {floor:g}"
    return decision.model_copy(update={"verdict": Verdict.REJECT, "reason": f"{decision.reason}; but {why}"})


def keeps_abilities(search: WeightsSearch, candidate: Candidate, *, spent: bool = False) -> bool:
    """Whether a model that no gate accepted may be final all the same: the floor holds for it too. Where the budget is
    `spent` nothing is measured for that."""
    floor = search.options.retain.floor
    if floor is None:
        return True
    if spent and search.session.recorder.find("abilities", candidate.digest, AbilitiesMeasured) is None:
        return False
    worst = abilities(search, candidate).worst
    return worst is not None and 100.0 * worst >= floor


def abilities(search: WeightsSearch, candidate: Candidate) -> AbilitiesMeasured:
    """A candidate on the retain role, against the start; the role is opened for that, on record."""
    session, role = search.session, search.options.retain.role
    known = session.recorder.find("abilities", candidate.digest, AbilitiesMeasured)
    if known is not None:
        return known
    start = search.start.candidate
    if not any(data.get("role") == role for data in session.recorder.trail.get("audit.opened", [])):
        sealed = session.tasks.sealed[role]
        opening = AuditOpened(
            role=role,
            by="options.retain.floor, which decides with it",
            start=start.digest,
            final=candidate.digest,
            tasks_digest=digest_of(dict(zip(sealed.ids, sealed.text_digests, strict=True))),
        )
        session.recorder.add("audit.opened", opening)
    opened = session.tasks.open_role(role)
    before, after = (
        score_column(session.engine.evaluate(Sweep(one, opened.tasks, role), grade=opened.grade))
        for one in (start, candidate)
    )
    measured = ~np.isnan(after)
    return session.recorder.record(
        "abilities",
        AbilitiesMeasured(
            candidate=candidate.digest,
            n=int(measured.sum()),
            missing=int((~measured).sum()),
            mean=float(after[measured].mean()) if measured.any() else None,
            families=_families([task.family for task in opened.tasks], after),
            gain=paired_difference(before[:, None], after[:, None]).mean,
            worst=paired_difference(before[:, None], worst_case(before, after)[:, None]).mean,
        ),
    )


def worst_case(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The second scores, with a failure wherever they alone are missing."""
    filled: NDArray[np.float64] = np.where(np.isnan(second) & ~np.isnan(first), 0.0, second)
    return filled


def _families(names: Sequence[str], scores: NDArray[np.float64]) -> Mapping[str, float]:
    means = {}
    for name in sorted(set(names)):
        of_family = scores[[one == name for one in names]]
        if not np.isnan(of_family).all():
            means[name] = float(np.nanmean(of_family))
    return means
