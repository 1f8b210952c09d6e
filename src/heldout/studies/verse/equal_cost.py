"""Part (b): the same arms when all spend what the costliest spends, by more candidates or rounds (spec §6, point 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heldout.studies.results import Part
from heldout.studies.tables import Cell, Table
from heldout.studies.verse.arms import ARMS, Arm, World
from heldout.studies.verse.bench import Bench
from heldout.studies.verse.differences import cost_claims, difference_table
from heldout.studies.verse.summaries import ArmRuns, true_gain

__all__ = ["MATCHED", "Matching", "Tried", "equal_cost", "matched_arms"]

MATCHED = 0.05
"""Relative: an arm whose mean cost is further off is called unmatched."""

_TRIALS = 4
_MOST = 21
"""More candidates: with them a round has as many as the catalogue has edits."""


def equal_cost(bench: Bench) -> Part:
    """Tables and claims at the cost of the costliest arm."""
    before = bench.run(ARMS)[World()]
    target = max(runs.executions for runs in before.values())
    arms = matched_arms(bench, before, target)
    after = bench.run(arms)[World()]
    return Part(
        id="b",
        title="The same arms at equal total cost",
        simulated=True,
        quick=bench.plan.quick,
        intro=(
            f"Arms that spent less than {target:,.0f} executions (the mean of the costliest arm) get what is left as "
            "further candidates a round; an arm whose cost no longer grows with them, because its candidates repeat "
            "each other, gets further rounds. How many is found from costs alone, never from gains, on the first "
            f"{bench.plan.trial_seeds} seeds. An arm whose mean over all seeds is more than {100 * MATCHED:.0f} % off "
            "is `unmatched`."
        ),
        tables=(
            _cost_table(bench, before, after, target),
            difference_table(after, name="equal_cost_differences", title="Differences at equal total cost"),
        ),
        claims=cost_claims(after),
        seeds=bench.plan.seeds,
        config_digests={name: runs.config_digest for name, runs in after.items()},
    )


def matched_arms(bench: Bench, before: Mapping[str, ArmRuns], target: float) -> dict[str, Arm]:
    """Each arm, widened so that its mean cost comes closest to the target, as far as the trial seeds tell.

    An arm within reach of the target stays as it is. The trials of all arms run together.
    """
    short = {name: runs.arm for name, runs in before.items() if abs(runs.executions - target) > MATCHED * target}
    if not short:
        return {name: runs.arm for name, runs in before.items()}
    sizes, seeds = bench.plan.sizes, bench.plan.trial_seeds
    own = bench.run(short, seeds=seeds)[World()]
    searches = {
        name: Matching(
            goal=target * own[name].executions / before[name].executions,
            each={"candidates": float(sizes.rounds * sizes.screen), "rounds": own[name].executions / sizes.rounds},
            best=Tried(arm, 0, own[name].executions),
        )
        for name, arm in short.items()
    }
    while wanted := {name: arm for name, search in searches.items() if (arm := search.next()) is not None}:
        costs = bench.run(wanted, seeds=seeds)[World()]
        for name in wanted:
            searches[name].learn(costs[name].executions)
    return {name: searches[name].best.arm if name in searches else runs.arm for name, runs in before.items()}


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial and its mean cost."""

    arm: Arm
    more: int
    """Candidates, or rounds, beyond those that this search began with."""
    cost: float


@dataclass(slots=True)
class Matching:
    """How much more one arm needs: candidates first, by the secant from trial to trial; then, where they no longer cost
    anything, rounds."""

    goal: float
    each: Mapping[str, float]
    """What one more is expected to cost, until a trial has shown it."""
    best: Tried
    by: str = "candidates"
    tried: dict[int, Tried] = field(default_factory=dict)
    _asked: int = 0

    def next(self) -> Arm | None:
        """The arm to try, or None where the search is over."""
        self.tried = self.tried or {0: Tried(self.best.arm, 0, self.best.cost)}
        more = self._more()
        if more not in self.tried and len(self.tried) <= _TRIALS:
            self._asked = more
            return self.start.arm.widened(**{self.by: more})
        if self.by == "candidates" and self.best.cost < (1.0 - MATCHED) * self.goal:
            self.by, self.tried = "rounds", {}
            return self.next()
        return None

    def learn(self, cost: float) -> None:
        """What the arm that was asked for last costs."""
        arm = self.start.arm.widened(**{self.by: self._asked})
        self.tried[self._asked] = Tried(arm, self._asked, cost)
        self.best = min(self.tried.values(), key=lambda one: (abs(one.cost - self.goal), one.more))

    @property
    def start(self) -> Tried:
        """What this search began with."""
        return self.tried[0]

    def _more(self) -> int:
        last = max(self.tried.values(), key=lambda one: one.more)
        shown = (last.cost - self.start.cost) / last.more if last.more else self.each[self.by]
        return min(max(1, round((self.goal - self.start.cost) / max(shown, 1e-9))), _MOST)


def _cost_table(bench: Bench, before: Mapping[str, ArmRuns], after: Mapping[str, ArmRuns], target: float) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, runs in after.items():
        audited = runs.known(lambda one: one.audited)
        sizes, arm = bench.plan.sizes, runs.arm
        off = abs(runs.executions - target) / target
        rows.append(
            (
                *(name, sizes.candidates + arm.more_candidates, sizes.rounds + arm.more_rounds),
                *(before[name].executions, runs.executions, "yes" if off <= MATCHED else "unmatched"),
                *(audited.value, audited.low, audited.high, runs.known(true_gain).estimate),
                *(before[name].known(true_gain).estimate, runs.known(lambda one: one.believed).estimate),
                runs.known(lambda one: one.ood_true).estimate,
            )
        )
    return Table(
        name="equal_cost",
        title=f"At an equal total of {target:,.0f} executions",
        note=(
            "A simulation. Gains in points; `low` and `high` are the 95 % t interval of the audited gain over seeds, ± "
            "is one standard error. Executions are evaluations and replays of a run up to its final selection, without "
            "audits."
        ),
        columns=(
            *("arm", "candidates a round", "rounds", "executions before", "executions", "matched"),
            *("audited gain", "low", "high", "true gain", "true gain before", "believed gain", "ood gain"),
        ),
        rows=tuple(rows),
    )
