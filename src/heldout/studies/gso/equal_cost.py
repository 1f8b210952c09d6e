"""Part (b): the same arms when all spend what gso spends, by more rounds or fewer (spec §6, point 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heldout.studies.gso.arms import ARMS, NO_SKILL, RIVALS, Arm, World, available
from heldout.studies.gso.bench import Bench
from heldout.studies.gso.claims import Lead, ahead_of_all, ahead_of_rules, claim_of
from heldout.studies.gso.main_table import baselines
from heldout.studies.gso.summaries import ArmRuns, Baselines, audit, exact_audit, gains_of, known, over
from heldout.studies.results import Claim, Part
from heldout.studies.tables import Cell, Table

__all__ = ["MATCHED", "Matching", "equal_cost", "matched_arms"]

MATCHED = 0.05
"""Relative: an arm whose mean cost is further off is called unmatched."""

_TRIALS = 5
_MOST_ROUNDS = 200
_FIXED = ("one-shot", "one-shot + recovery")
"""Arms that search without rounds: their cost cannot be raised."""

Arms = Mapping[str, ArmRuns]


def equal_cost(bench: Bench) -> Part:
    """Tables and the claim C2 at gso's cost."""
    arms = {name: arm for name, arm in available(ARMS).items() if arm.loop or name in (NO_SKILL, *_BARE)}
    before = bench.run(arms)[World()]
    target = before["gso"].calls
    after = bench.run(matched_arms(bench, before, target))[World()]
    return Part(
        id="b",
        title="The same arms at equal total cost",
        simulated=True,
        quick=bench.plan.quick,
        intro=(
            f"gso spends {target:,.0f} model calls a run: every call of an episode, skill calls and recoveries among "
            "them, and one for each question to attributor, editor or judge. Arms that spend more or less get fewer or "
            f"more rounds until they spend the same; how many is found from costs alone, never from scores, on "
            f"{bench.plan.trial_seeds} of the seeds. An arm whose mean over all seeds is more than {100 * MATCHED:.0f} "
            "% off is `unmatched`: one-shot skills have no rounds, and without a search there is nothing to spend. "
            "More rounds buy less than they cost where an editor has nothing left to try."
        ),
        tables=(_table(bench, before, after, target),),
        claims=(_claim(after), ahead_of_rules(after, _rivals(after), part="b")),
        seeds=bench.plan.seeds,
        config_digests={name: runs.config_digest for name, runs in after.items()},
    )


_BARE = ("no skill, no recovery", "start guide")


def matched_arms(bench: Bench, before: Arms, target: float) -> dict[str, Arm]:
    """Each arm with as many rounds as bring its mean cost closest to the target, as far as the trial seeds tell."""
    rounds, seeds = bench.plan.sizes.rounds, bench.plan.trial_seeds
    off = {
        name: runs.arm
        for name, runs in before.items()
        if runs.arm.loop and name not in _FIXED and abs(runs.calls - target) > MATCHED * target
    }
    own = bench.run(off, seeds=seeds)[World()] if off else {}
    searches = {
        name: Matching(
            goal=target * own[name].calls / before[name].calls, rounds=rounds, tried={rounds: own[name].calls}
        )
        for name in off
    }
    while wanted := {name: number for name, one in searches.items() if (number := one.next()) is not None}:
        trial = {name: off[name].lengthened(number - rounds) for name, number in wanted.items()}
        for name, runs in bench.run(trial, seeds=seeds)[World()].items():
            searches[name].tried[wanted[name]] = runs.calls
    return {
        name: off[name].lengthened(searches[name].best - rounds) if name in searches else runs.arm
        for name, runs in before.items()
    }


@dataclass(slots=True)
class Matching:
    """How many rounds an arm needs for a cost, by the secant from trial to trial."""

    goal: float
    rounds: int
    """What it had."""
    tried: dict[int, float] = field(default_factory=dict)
    """Rounds to mean cost."""

    @property
    def best(self) -> int:
        """The number of rounds that came closest."""
        return min(self.tried, key=lambda number: (abs(self.tried[number] - self.goal), number))

    def next(self) -> int | None:
        """The number to try, or None where the search is over."""
        if len(self.tried) > _TRIALS or abs(self.tried[self.best] - self.goal) <= MATCHED / 5 * self.goal:
            return None
        number = self._guess()
        return None if number in self.tried else number

    def _guess(self) -> int:
        """From the two trials that came closest; from the only one, as if cost grew with the rounds."""
        near, *others = sorted(self.tried, key=lambda number: abs(self.tried[number] - self.goal))
        each = self.tried[near] / near
        if others and self.tried[others[0]] != self.tried[near]:
            each = (self.tried[others[0]] - self.tried[near]) / (others[0] - near)
        step = round((self.goal - self.tried[near]) / each) if each > 0.0 else 0
        return min(max(1, near + (step or (1 if self.goal > self.tried[near] else -1))), _MOST_ROUNDS)


def _rivals(arms: Arms) -> list[str]:
    return [name for name in RIVALS if name in arms]


def _claim(arms: Arms) -> Claim:
    others = _rivals(arms)
    lead, exact = (ahead_of_all(arms, "gso", others, measure) for measure in (audit, exact_audit))
    nothing = float("nan")
    number = known(arms["gso"].values(audit) * nothing) if not lead.differences else lead.differences[lead.smallest]
    sentence = _sentence(lead, exact) if lead.differences else ""
    seeds = len(arms["gso"].results)
    rests_on = f"smallest difference of measured audit scores to every rival, points, paired over {seeds} seeds, Holm"
    return claim_of("C2", "b", lead.verdict, rests_on, number, sentence)


def _sentence(lead: Lead, exact: Lead) -> str:
    closest = lead.differences[lead.smallest]
    return (
        f"At equal total cost, against every rival: significantly ahead of {lead.beaten} of {len(lead.differences)} "
        f"(Holm); the closest is {lead.smallest}, {over(closest)} points. By the exact rates: {exact.verdict.value}."
    )


def _table(bench: Bench, before: Arms, after: Arms, target: float) -> Table:
    none: Baselines = baselines(before)
    rows: list[tuple[Cell, ...]] = []
    for name, runs in after.items():
        off, found = abs(runs.calls - target) / target, gains_of(runs, none)
        full, arm = runs.known(audit), runs.arm
        paced = bool(arm.loop) and name not in _FIXED
        rows.append(
            (
                *(name, bench.plan.sizes.rounds + arm.more_rounds if paced else None, before[name].calls, runs.calls),
                "yes" if off <= MATCHED else "unmatched",
                *(full.value, full.low, full.high, before[name].known(audit).estimate),
                *(runs.known(exact_audit).estimate, known(found.train).estimate, known(found.audit).estimate),
                known(found.retention, unit=2.0).estimate,
            )
        )
    return Table(
        name="equal_cost",
        title=f"At an equal total of {target:,.0f} model calls",
        note=(
            "A simulation. Scores in percent, gains over no skill in points; `low` and `high` are the 95 % t interval "
            "of the audit score over seeds, ± is one standard error. Calls are those of a run up to its final "
            "selection, without audits."
        ),
        columns=(
            *("arm", "rounds", "calls before", "calls", "matched", "audit", "low", "high", "audit before"),
            *("exact audit", "train gain", "audit gain", "Retention"),
        ),
        rows=tuple(rows),
    )
