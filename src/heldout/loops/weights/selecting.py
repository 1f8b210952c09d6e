"""The final selection: the start, the head, and any other model that measured better, on the deciding tasks."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.gates.two_noises import TwoNoises
from heldout.loops.agents.selecting import FRESH_REPEAT
from heldout.loops.session import Scored, mean_score, score_column
from heldout.loops.weights.deciding import keeps_abilities, table_of, worst_case
from heldout.loops.weights.state import WeightsSearch, weights_of
from heldout.records import Verdict
from heldout.rollouts import Sweep
from heldout.stats import EQUAL_WITHIN, paired_difference
from heldout.store.agent_events import Finalist, FinalSelected

__all__ = ["best_so_far", "select_final"]

_COVERAGE = 0.8


def select_final(search: WeightsSearch) -> tuple[Scored, Scored]:
    """The start and the final, recorded as `selected`; the start wins ties, then the head, then the earlier.

    A rejected child can be final: the pool holds every model that was measured and not vetoed. Where the solver is not
    deterministic the finalists are measured once more, with new seeds, and compared by that.
    """
    fresh = not search.session.engine.model.deterministic
    finalists = _finalists(search, fresh=fresh)
    if len(finalists) == 1 or not fresh:
        compared = finalists
        rule = "highest recorded score (the solver is deterministic); any model but the head must pass the gate too"
    else:
        compared = [(number, _fresh(search, scored)) for number, scored in finalists]
        rule = "highest fresh score"
    rule += "; the start wins ties, then the head" if search.options.keep_start else "; the start is left out"
    best = _first_unbeaten(compared)
    _record(search, finalists, compared, best, rule=rule)
    if search.options.keep_weights == "finalists":
        _prune(search, [scored for _, scored in (*finalists, (0, search.start), (0, search.head))])
    first = next((scored for number, scored in compared if number == 0), search.start)
    return first, best


def best_so_far(search: WeightsSearch) -> tuple[Scored, Scored]:
    """The start and the final of a search that its budget ended: from the same models by the same rules, but by the
    scores that are there, with nothing measured anew and nothing on record, since the search may yet go on."""
    if search.session.gate.name == TwoNoises.name and not search.noise_known:
        return search.start, _first_unbeaten([(0, search.start), (search.head_round, search.head)])
    return search.start, _first_unbeaten(_finalists(search, fresh=False, spent=True))


def _first_unbeaten(compared: Sequence[tuple[int, Scored]]) -> Scored:
    best = compared[0][1]
    for _, scored in compared[1:]:
        if _leads(best, scored):
            best = scored
    return best


def _finalists(search: WeightsSearch, *, fresh: bool, spent: bool = False) -> list[tuple[int, Scored]]:
    """The start, the head, and the best of the others, if it measured better than both. The paper leaves the start
    out wherever there is anything else.

    `fresh`: the finalists will be measured anew. `spent`: nothing can be, so that a floor holds for those alone that
    were measured on its role.
    """
    pool = [one for one in search.pool if one[1].candidate.digest not in search.vetoed]
    start = (0, search.start)
    head = (search.head_round, search.head)
    others = [one for one in pool if one[1].candidate.digest not in (_digest(start), _digest(head))]
    ranked = sorted(others, key=lambda one: (-1.0 if one[1].mean is None else one[1].mean, -one[0]), reverse=True)
    listed = [start] if search.options.keep_start else []
    if _digest(head) != _digest(start):
        listed.append(head)
    leading = (one for one in ranked if not listed or _may_lead(search, listed[-1][1], one, fresh=fresh))
    # The floor's role is measured for those alone that would be listed.
    best = next((one for one in leading if keeps_abilities(search, one[1].candidate, spent=spent)), None)
    if best is not None:
        listed.append(best)
    return listed or [start]


def _may_lead(search: WeightsSearch, first: Scored, other: tuple[int, Scored], *, fresh: bool) -> bool:
    """Whether a model that is not the head may be final. Where the finalists are not measured anew, there is nothing
    but the scores that the gate has seen, so it is asked: what is no gain to it is none here."""
    number, scored = other
    if fresh or not _leads(first, scored):
        return _leads(first, scored)
    return search.session.decide(table_of(search, first, scored, number)).verdict is Verdict.ACCEPT


def _leads(first: Scored, second: Scored) -> bool:
    """Above on the tasks that both were measured on, which must be most of them; and still above if every score that
    the second alone lacks were a failure, so that nothing is won by going missing."""
    difference = paired_difference(first.scores, second.scores)
    if difference.n < _COVERAGE * len(first.scores):
        return False
    worst = paired_difference(first.scores, worst_case(first.scores, second.scores))
    return all(one.mean is not None and one.mean > EQUAL_WITHIN for one in (difference, worst))


def _fresh(search: WeightsSearch, scored: Scored) -> Scored:
    session = search.session
    tasks = session.tasks.select if search.options.decide_on == "select" else session.tasks.train
    sweep = Sweep(scored.candidate, tasks, "final", FRESH_REPEAT)
    return Scored(scored.candidate, score_column(session.engine.evaluate(sweep, grade=session.tasks.grade))[:, None])


def _digest(one: tuple[int, Scored]) -> str:
    return one[1].candidate.digest


def _prune(search: WeightsSearch, kept: Sequence[Scored]) -> None:
    """Adapters need the weights that they stand on, which may be those of a model that lost."""
    store = search.ground.store
    needed = {digest for scored in kept for digest in store.ancestry(weights_of(scored.candidate))}
    for digest in sorted({weights_of(scored.candidate) for _, scored in search.pool} - needed):
        store.prune(digest)


def _record(
    search: WeightsSearch,
    finalists: list[tuple[int, Scored]],
    compared: list[tuple[int, Scored]],
    best: Scored,
    *,
    rule: str,
) -> None:
    entries = tuple(
        Finalist(
            round=number,
            digest=journaled.candidate.digest,
            journaled=mean_score(journaled.scores),
            fresh=None if fresh is journaled else mean_score(fresh.scores),
            score=mean_score(fresh.scores),
        )
        for (number, journaled), (_, fresh) in zip(finalists, compared, strict=True)
    )
    search.session.recorder.record("selected", FinalSelected(finalists=entries, final=best.candidate.digest, rule=rule))
