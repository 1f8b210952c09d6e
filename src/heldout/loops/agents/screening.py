"""A round's proposals on one shared subset of train, and which of them goes on (spec §4, step 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heldout.loops.agents.state import Agents, Round, Swept
from heldout.records import Evidence, EvidenceVerdict
from heldout.rollouts import Sweep
from heldout.store.agent_events import Screened, Submitted

__all__ = ["screen", "screen_rows", "screen_tasks"]

RERUN_REPEAT = 2_000_000
"""Repeat, and so the seeds, of the first screen whose base is measured anew: one that no sweep used. At the seeds of
the recorded outcomes, by which the failing tasks were chosen, they would only be found again."""


@dataclass(frozen=True, slots=True)
class _Tally:
    """One candidate on the screen."""

    fixed: int = 0
    broken: int = 0
    missing: int = 0


def screen(agents: Agents, which: Round, submissions: Sequence[Submitted], evidence: Sequence[Evidence]) -> Screened:
    """Measure every valid candidate on the same tasks; the best by net, then confirmed probe flips, then order.

    A byte-identical copy of a dead edit is disqualified while another candidate is left.
    """
    session = agents.session
    tasks, canaries = screen_tasks(agents, which.draw, submissions)
    repeat = _repeat(agents, which.draw)
    base = _base(agents, tasks, repeat=repeat)
    tallies = [_tally(agents, one, base, repeat=repeat) for one in submissions]
    confirmed = [_confirmed(one, evidence, base=agents.tried_on(one.proposal).digest) for one in submissions]
    disqualified = [one.fault or ("repeats a dead edit" if one.edits in agents.dead else "") for one in submissions]
    screened = Screened(
        round=which.number,
        tasks=tasks,
        canaries=canaries,
        candidates=tuple(one.digest for one in submissions),
        fixed=tuple(one.fixed for one in tallies),
        broken=tuple(one.broken for one in tallies),
        missing=tuple(one.missing for one in tallies),
        confirmed=tuple(confirmed),
        disqualified=tuple(disqualified),
        winner=_winner(submissions, tallies, confirmed, disqualified),
    )
    return session.recorder.record("screen", screened)


def screen_tasks(
    agents: Agents, draw: int, submissions: Sequence[Submitted]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tasks of a round's screen and those of them that are canaries.

    The predicted fixes that fail now come first, taken in turn from each proposal, so that no proposal fills the
    screen alone; other failing tasks follow, then canaries in a seeded rotation.
    """
    options, swept = agents.options.screen, agents.sweeps[-1]
    canaries = _canaries(agents, draw, swept)
    room = max(0, options.tasks - len(canaries))
    failing = swept.failing
    wanted = [[task for task in one.proposal.predicted_fixes if task in failing] for one in submissions]
    longest = max(map(len, wanted), default=0)
    in_turn = [tasks[i] for i in range(longest) for tasks in wanted if i < len(tasks)]
    order = np.random.default_rng([agents.session.config.seed, draw, 4]).permutation(len(failing))
    chosen = list(dict.fromkeys([*in_turn, *(failing[i] for i in order)]))[:room]
    return (*chosen, *canaries), canaries


def screen_rows(agents: Agents, number: int, winner: Submitted) -> list[tuple[str, float, float]]:
    """Each task of a round's screen with its score under the head and under the winner; NaN where not measured.

    A winner that was repaired after the screen is measured on it now.
    """
    screened = agents.session.recorder.find("screen", str(number), Screened)
    if screened is None or winner.digest is None:
        return []
    repeat = _repeat(agents, number)
    was = _base(agents, screened.tasks, repeat=repeat)
    now = _passes(agents, winner.digest, screened.tasks, repeat=repeat)
    return [(task, _score(was[task]), _score(now[task])) for task in screened.tasks]


def _score(passed: bool | None) -> float:
    return float("nan") if passed is None else float(passed)


def _canaries(agents: Agents, draw: int, swept: Swept) -> tuple[str, ...]:
    passing, count = swept.passing, agents.options.screen.canaries
    if not passing or not count:
        return ()
    order = np.random.default_rng([agents.session.config.seed, 5]).permutation(len(passing))
    begin = (draw - 1) * count
    return tuple(dict.fromkeys(passing[order[(begin + i) % len(passing)]] for i in range(count)))


def _repeat(agents: Agents, draw: int) -> int:
    """The seeds that base and candidates share: those of the recorded outcomes, or new ones."""
    return RERUN_REPEAT + draw if agents.options.screen.rerun_base else agents.sweeps[-1].repeat


def _base(agents: Agents, tasks: Sequence[str], *, repeat: int) -> dict[str, bool | None]:
    """Whether each screen task passes under the head: as recorded, or measured anew."""
    swept = agents.sweeps[-1]
    if not agents.options.screen.rerun_base:
        return {task: swept.passed(task) for task in tasks}
    return _passes(agents, agents.head.candidate.digest, tasks, repeat=repeat)


def _tally(agents: Agents, one: Submitted, base: dict[str, bool | None], *, repeat: int) -> _Tally:
    if one.digest is None or one.fault:
        return _Tally()
    now = _passes(agents, one.digest, tuple(base), repeat=repeat)
    pairs = [(was, now[task]) for task, was in base.items()]
    return _Tally(
        fixed=sum(pair == (False, True) for pair in pairs),
        broken=sum(pair == (True, False) for pair in pairs),
        missing=sum(None in pair for pair in pairs),
    )


def _passes(agents: Agents, digest: str, tasks: Sequence[str], *, repeat: int) -> dict[str, bool | None]:
    session = agents.session
    by_id = {task.id: task for task in session.tasks.train}
    sweep = Sweep(session.store.load(digest), [by_id[task] for task in tasks], "screen", repeat)
    outcomes = session.engine.evaluate(sweep, grade=session.tasks.grade)
    return {one.task: None if one.score is None else one.score >= 0.5 for one in outcomes}


def _confirmed(one: Submitted, evidence: Sequence[Evidence], *, base: str) -> int:
    """Tasks with a confirmed flip under exactly these edits of this base."""
    bound = [found for found in evidence if one.edits and (found.edits, found.base) == (one.edits, base)]
    return len({task for found in bound if found.verdict is EvidenceVerdict.SUPPORTS for task in found.flips})


def _winner(
    submissions: Sequence[Submitted], tallies: Sequence[_Tally], confirmed: Sequence[int], disqualified: Sequence[str]
) -> int | None:
    """None where nothing can be screened. Dead edits compete only among themselves; step 6 then asks for another."""
    usable = [i for i, one in enumerate(submissions) if one.digest is not None and not one.fault]
    alive = [i for i in usable if not disqualified[i]]
    pool = alive or usable
    ranked = sorted(pool, key=lambda i: (-(tallies[i].fixed - tallies[i].broken), -confirmed[i], i))
    return ranked[0] if ranked else None
