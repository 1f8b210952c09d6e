"""The whole loop in numpy with the real gates: section 7 (b) of systems/winners_curse.md. A simulation.

Item j has difficulty z_j ~ N(0, 1) and luck u_j ~ U(0, 1), and is right under skill q when u_j < logistic(θ_q + 4 z_j),
where θ_q makes the mean over items q. A rewrite redraws each item's luck with probability `redraw` and otherwise
inherits its incumbent's (monotone coupling). Its true gain has one distribution until the first commit, and another
afterwards. Every arm with the same seed and n meets the same items and the same rewrites.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from heldout.gates import Gate, GenerationTable
from heldout.records import Comparison, Verdict
from heldout.stats import paired_difference
from heldout.studies.winners_curse.arms import Arm
from heldout.studies.winners_curse.simulated_items import Floats, answers

__all__ = ["AUDIT_TASKS", "Commit", "SimulatedRun", "simulate"]

AUDIT_TASKS = 64
"""The paper's audit."""

_SEARCH, _LUCK, _FRESH, _AUDIT = range(4)
"""Streams of random numbers that do not disturb one another."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One accepted rewrite."""

    generation: int
    first: bool
    measured: float
    """Its gain on the select set."""
    real: float
    """Its gain in true skill."""
    skill: float
    """The incumbent's true skill."""


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What one run believed, and what was true; fractions of one."""

    select_start: float
    select_final: float
    skill_start: float
    skill_final: float
    commits: tuple[Commit, ...]
    later_rewrites: int
    """Rewrites that were proposed after the first commit."""
    later_helpful: int
    """Those of them with a higher true skill than their incumbent."""
    evaluations: int
    """On select and fresh items; the audit's are the same for every arm."""
    audit_gain: float
    audit_interval: tuple[float, float]
    audit_disagreement: float
    """Share of audit items on which start and final differ."""

    @property
    def inflation(self) -> float:
        return self.select_final - self.skill_final

    @property
    def reported(self) -> float:
        return self.select_final - self.select_start

    @property
    def gain(self) -> float:
        """The true one."""
        return self.skill_final - self.skill_start


@dataclass(frozen=True, slots=True, eq=False)
class _Draws:
    """All chance of the search, drawn before it begins."""

    difficulty: Floats
    luck: Floats
    effects: Floats
    """Shape (G, K), standard normal."""
    new_luck: Floats
    """Shape (G, K, n)."""
    redraws: Floats
    """Shape (G, K, n), uniform."""

    @classmethod
    def of(cls, arm: Arm, seed: int) -> Self:
        items, luck = (np.random.default_rng([stream, seed, arm.n]) for stream in (_SEARCH, _LUCK))
        shape = (arm.generations, arm.candidates, arm.n)
        return cls(
            difficulty=items.standard_normal(arm.n),
            luck=items.random(arm.n),
            effects=items.standard_normal(shape[:2]),
            new_luck=luck.random(shape),
            redraws=np.zeros(shape) if arm.world.redraw == 1.0 else luck.random(shape),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Head:
    """The incumbent, on the select set and on the audit's items."""

    skill: float
    luck: Floats
    right: Floats
    audit_luck: Floats


def simulate(arm: Arm, seed: int) -> SimulatedRun:
    """One run of an arm; deterministic given the seed."""
    search = _Search.begin(arm, seed)
    start = search.head
    for generation in range(arm.generations):
        if arm.budget is not None and search.spent + search.most > arm.budget:
            break
        search.generation(generation)
    head = search.head
    before, after = (answers(one.skill, search.audit_difficulty, one.audit_luck) for one in (start, head))
    audited = paired_difference(before, after)
    return SimulatedRun(
        select_start=float(start.right.mean()),
        select_final=float(head.right.mean()),
        skill_start=start.skill,
        skill_final=head.skill,
        commits=tuple(search.commits),
        later_rewrites=search.later_rewrites,
        later_helpful=search.later_helpful,
        evaluations=search.spent,
        audit_gain=audited.mean or 0.0,
        audit_interval=audited.interval or (-1.0, 1.0),
        audit_disagreement=float((before != after).mean()),
    )


@dataclass(slots=True)
class _Search:
    """The loop's state."""

    arm: Arm
    seed: int
    draws: _Draws
    audit: np.random.Generator
    audit_difficulty: Floats
    head: _Head
    spent: int
    commits: list[Commit] = field(default_factory=list)
    later_rewrites: int = 0
    later_helpful: int = 0

    @classmethod
    def begin(cls, arm: Arm, seed: int) -> Self:
        draws, audit = _Draws.of(arm, seed), np.random.default_rng([_AUDIT, seed, arm.n])
        audit_difficulty, skill = audit.standard_normal(AUDIT_TASKS), arm.world.start
        right = answers(skill, draws.difficulty, draws.luck)
        head = _Head(skill, draws.luck, right, audit.random(AUDIT_TASKS))
        return cls(arm, seed, draws, audit, audit_difficulty, head, spent=arm.n)

    @property
    def gate(self) -> Gate:
        return self.arm.gate(committed=bool(self.commits))

    @property
    def most(self) -> int:
        """What a generation may cost, its confirmation included."""
        return self.arm.candidates * self.arm.n + 2 * self.gate.fresh_tasks

    def generation(self, generation: int) -> None:
        """K rewrites of the head, the same n items, one decision."""
        arm, draws, head = self.arm, self.draws, self.head
        mean, sd = arm.world.later if self.commits else arm.world.first
        skills = np.clip(head.skill + mean + sd * draws.effects[generation], 0.01, 0.99)
        luck = np.where(draws.redraws[generation] < arm.world.redraw, draws.new_luck[generation], head.luck)
        right = answers(skills, draws.difficulty, luck)
        if self.commits:
            self.later_rewrites += len(skills)
            self.later_helpful += int((skills > head.skill).sum())
        fresh = _Fresh(arm, self.seed, generation, head.skill, skills)
        winner = _winner(self.gate, head.right, right, fresh=fresh)
        self.spent += arm.candidates * arm.n + fresh.spent
        if winner is not None:
            self._commit(generation, float(skills[winner]), luck[winner], right[winner])

    def _commit(self, generation: int, skill: float, luck: Floats, right: Floats) -> None:
        head = self.head
        gain = float(right.mean() - head.right.mean())
        self.commits.append(Commit(generation, not self.commits, gain, skill - head.skill, head.skill))
        redrawn = self.audit.random(AUDIT_TASKS) < self.arm.world.redraw
        audit_luck = np.where(redrawn, self.audit.random(AUDIT_TASKS), head.audit_luck)
        self.head = _Head(skill, luck, right, audit_luck)


@dataclass(slots=True)
class _Fresh:
    """New items for a winner and its incumbent, drawn when a gate asks for them."""

    arm: Arm
    seed: int
    generation: int
    incumbent: float
    skills: Floats
    spent: int = 0

    def compare(self, winner: int, count: int) -> Comparison:
        rng = np.random.default_rng([_FRESH, self.seed, self.arm.n, self.generation])
        difficulty, luck = rng.standard_normal(count), rng.random(count)
        new_luck = np.where(rng.random(count) < self.arm.world.redraw, rng.random(count), luck)
        self.spent += 2 * count
        return Comparison(
            tasks=tuple(str(item) for item in range(count)),
            a=answers(self.incumbent, difficulty, luck)[:, None],
            b=answers(float(self.skills[winner]), difficulty, new_luck)[:, None],
        )


def _winner(gate: Gate, incumbent: Floats, candidates: Floats, *, fresh: _Fresh) -> int | None:
    """The candidate that the gate accepts, or None."""
    table = GenerationTable(
        incumbent=incumbent[:, None],
        candidates=candidates[:, :, None],
        edit_sizes=np.ones(len(candidates), dtype=np.int64),
        seed=fresh.seed * 1_000 + fresh.generation,
    )
    decision = gate.decide(table)
    if decision.verdict is Verdict.CONFIRM and decision.winner is not None:
        decision = gate.decide(replace(table, fresh=fresh.compare(decision.winner, gate.fresh_tasks)))
    return decision.winner if decision.verdict is Verdict.ACCEPT else None
