"""The final selection: the last head against the start on one fresh, paired sweep; the start wins ties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heldout.loops.agents.selecting import FRESH_REPEAT, lead
from heldout.loops.session import Scored, Session, mean_score, unscored
from heldout.loops.skills.options import SweepOptions
from heldout.loops.skills.state import SkillSearch
from heldout.loops.skills.tabling import Scores, on_select
from heldout.records import Candidate
from heldout.stats import EQUAL_WITHIN
from heldout.store.agent_events import Finalist, FinalSelected

__all__ = ["best_so_far", "select_final"]


def select_final(search: SkillSearch) -> tuple[Scored, Scored]:
    """The start and the final with the scores that they were compared by, recorded as `selected`."""
    start, head = search.start, search.head
    if head.candidate.digest == start.digest or "last" not in search.options.final:
        scored = Scored(start, search.first)
        _record(search, ((0, scored, None),), scored, rule="the only finalist")
        return scored, scored
    first = _fresh(search, start)
    last = _fresh(search, head.candidate)
    best = last if _leads(first.scores[:, 0], last.scores[:, 0], coverage=search.options.sweep.coverage) else first
    entries = ((0, Scored(start, search.first), first), (search.head_round, head, last))
    _record(
        search, entries, best, rule="highest fresh score on the tasks that both were measured on; the start wins ties"
    )
    return first, best


def best_so_far(session: Session, start: Candidate, *, track: str) -> tuple[Scored, Scored]:
    """Without fresh sweeps (the budget is spent): the start, and the head if it beats the start on select, on enough
    of it."""
    first = session.start or unscored(start)
    head = session.heads.get(track, first)
    same = head.scores.shape == first.scores.shape
    coverage = SweepOptions.model_validate(session.config.options.get("sweep", {})).coverage
    leads = same and _leads(first.scores[:, 0], head.scores[:, 0], coverage=coverage)
    return first, head if leads else first


def _fresh(search: SkillSearch, candidate: Candidate) -> Scored:
    return Scored(candidate, on_select(search, candidate, repeat=FRESH_REPEAT, purpose="final")[:, None])


def _leads(start: Scores, last: Scores, *, coverage: float) -> bool:
    """Above the start on the pairs that there are, and if every score that only it lacks were a failure."""
    pairs = ~np.isnan(start) & ~np.isnan(last)
    lacks = np.isnan(last) & ~np.isnan(start)
    worst = np.where(lacks, 0.0, last)
    return bool(pairs.mean() >= coverage) and min(lead(start, last), lead(start, worst)) > EQUAL_WITHIN


def _record(
    search: SkillSearch, entries: Sequence[tuple[int, Scored, Scored | None]], best: Scored, *, rule: str
) -> None:
    """Each entry: the round after which it was kept, its recorded scores, its fresh ones."""
    finalists = tuple(
        Finalist(
            round=number,
            digest=journaled.candidate.digest,
            journaled=mean_score(journaled.scores),
            fresh=None if fresh is None else mean_score(fresh.scores),
            score=mean_score((journaled if fresh is None else fresh).scores),
        )
        for number, journaled, fresh in entries
    )
    selected = FinalSelected(finalists=finalists, final=best.candidate.digest, rule=rule)
    search.session.recorder.record("selected", selected)
