"""What a run's journal says of its cost and of its edits, with the truth of each edit beside it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from heldout.loops.session import Session
from heldout.records import Candidate, Record, Verdict
from heldout.skills.judge import RuleJudge
from heldout.stats import EQUAL_WITHIN, null_accept_rate
from heldout.store import RunFolder, read_events
from heldout.store.events import Decided, TrackMoved
from heldout.store.skill_events import SelectTable
from heldout.studies.gso.measuring import Yard

__all__ = ["Cost", "EditSeen", "Edits", "begun_of", "cost_of", "edits_of", "edits_seen"]

_ASKED = ("fault.attributed", "skill.edit", "judge")
"""Questions to an attributor, an editor or a judge: one model call each, where the improver is a model."""


class Cost(Record):
    """Of a run up to its final selection, without any audit."""

    evaluations: int = 0
    """One candidate on one task, once."""
    episode_calls: int = 0
    """Model calls of episodes: the writer's, the solver's, those of recoveries."""
    questions: int = 0
    """To attributor, editor and judge. The simulated ones call no model; each counts as one call."""
    tokens: int = 0
    """Of episodes, estimated; of questions none are counted."""
    skill_calls: int = 0
    """Of the episode calls, the writer's."""
    recoveries: int = 0

    @property
    def calls(self) -> int:
        """What arms are compared at."""
        return self.episode_calls + self.questions


class Edits(Record):
    """Moves of the head after a draft, and what they truly did."""

    proposed: int = 0
    """Rounds with an edit that could be run."""
    accepted: int = 0
    harmful: int = 0
    """Of them, those after which the exact mean over the tasks that train tasks are drawn from is lower."""
    harmful_audit: int = 0
    """The same, of the mean over the audit tasks."""


class EditSeen(Record):
    """One edit that was run on select against its parent."""

    accepted: bool
    null: bool
    """It truly changes the chance of no select task."""
    expected: float
    """Chance that the gate accepts an edit without effect here, from the parent's exact chances, task by task."""
    by_table: float
    """The same by the formula of the specification's table, from their mean disagreement p alone."""
    disagreement: float
    """That p."""
    judged: float
    """Change of the rule judge's total."""
    measured: float
    """Change of the measured select mean."""
    true: float
    """Change of the exact mean over the tasks that train tasks are drawn from."""


def cost_of(folder: RunFolder) -> Cost:
    """Every outcome and question up to the final selection."""
    totals = dict.fromkeys(Cost.model_fields, 0)
    for event in read_events(folder.events):
        if event.kind == "selected":
            break
        totals["questions"] += event.kind in _ASKED
        if event.kind == "outcome":
            spend, measures = event.data.get("spend", {}), event.data.get("measures", {})
            totals["evaluations"] += spend.get("evaluations", 0)
            totals["episode_calls"] += spend.get("calls", 0)
            totals["tokens"] += spend.get("tokens_in", 0) + spend.get("tokens_out", 0)
            totals["skill_calls"] += int(measures.get("skill_calls", 0.0))
            totals["recoveries"] += int(measures.get("recoveries", 0.0))
    return Cost(**totals)


def begun_of(session: Session, start: Candidate) -> Candidate:
    """What the first edit is made to: the draft of a loop that made one, else the start."""
    moves = session.recorder.every("track.moved", TrackMoved)
    drafted = next((one.target for one in moves if one.generation == 0), None)
    return start if drafted is None else session.store.load(drafted)


def edits_of(session: Session, yard: Yard) -> Edits:
    """The head's moves from round 1 on: a draft is no edit."""
    moves = [one for one in session.recorder.every("track.moved", TrackMoved) if one.generation > 0]
    harmful = dict.fromkeys(("pool", "audit"), 0)
    for move in moves:
        old, new = (session.store.load(digest) for digest in (move.origin, move.target))
        for name, jobs in (("pool", yard.roles.pool), ("audit", yard.roles.jobs["audit"])):
            harmful[name] += yard.rate(new, jobs) < yard.rate(old, jobs) - EQUAL_WITHIN
    decided = session.recorder.every("decision", Decided)
    return Edits(
        proposed=sum(bool(one.candidates) for one in decided if one.generation > 0),
        accepted=len(moves),
        harmful=harmful["pool"],
        harmful_audit=harmful["audit"],
    )


def edits_seen(session: Session, yard: Yard, *, weight: float, min_u: float) -> tuple[EditSeen, ...]:
    """Every edit that a rule on repairs and breaks decided on, in order."""
    return tuple(_seen(session, yard, weight=weight, min_u=min_u))


def _seen(session: Session, yard: Yard, *, weight: float, min_u: float) -> Iterator[EditSeen]:
    verdicts = {one.generation: one.decision.verdict for one in session.recorder.every("decision", Decided)}
    judge, jobs, pool = RuleJudge(), yard.roles.jobs["select"], yard.roles.pool
    totals: dict[str, float] = {}
    for table in session.recorder.every("skill.table", SelectTable):
        sides: list[Candidate] = [session.store.load(digest) for digest in (table.parent, table.candidate)]
        before, after = (yard.rates(side, jobs) for side in sides)
        noise = 2.0 * before * (1.0 - before)
        for side in sides:
            if side.digest not in totals:
                totals[side.digest] = judge.judge(side).total or 0.0
        yield EditSeen(
            accepted=verdicts[table.round] is Verdict.ACCEPT,
            null=bool(np.abs(after - before).max() < EQUAL_WITHIN),
            expected=null_accept_rate(len(jobs), noise, weight=weight, min_u=min_u),
            by_table=null_accept_rate(len(jobs), float(noise.mean()), weight=weight, min_u=min_u),
            disagreement=float(noise.mean()),
            judged=totals[sides[1].digest] - totals[sides[0].digest],
            measured=(table.repairs - table.regressions) / table.n,
            true=yard.rate(sides[1], pool) - yard.rate(sides[0], pool),
        )
