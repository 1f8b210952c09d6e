"""What the real gate makes of edits that truly change nothing: many tables of the start guide against itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heldout.config import GateConfig
from heldout.gates import Gate, GenerationTable, make_gate
from heldout.improvers.skill_texts import with_policy
from heldout.records import Candidate, Verdict
from heldout.rollouts import paired_seed
from heldout.skills.guide import start_guide
from heldout.stats import null_accept_rate
from heldout.studies.gso.arms import ARMS, World, run_config
from heldout.studies.gso.bench import Plan
from heldout.studies.gso.measuring import Yard
from heldout.worlds.tables.catalogue import CATALOGUE
from heldout.worlds.tables.symbolic import play

__all__ = ["GATES", "NullRates", "null_edits", "null_rates"]

GATES: Mapping[str, GateConfig] = {
    "u > 0": GateConfig(kind="repairs_over_regressions"),
    "R > B": GateConfig(kind="net"),
    "u ≥ 2": GateConfig(kind="repairs_over_regressions", options={"min_u": 2}),
}
"""The rows of the specification's table (§6)."""

_RULES: Mapping[str, tuple[float, float]] = {"u > 0": (2.0, 1.0), "R > B": (1.0, 1.0), "u ≥ 2": (2.0, 2.0)}
"""Weight and least u of each."""

_FIRST_REPEAT = 3_000_000
"""Repeats, and so seeds, that no run uses."""


@dataclass(frozen=True, slots=True)
class NullRates:
    """One rule at one ε."""

    rule: str
    tables: int
    accepted: int
    n: int
    """Select tasks of a table."""
    disagreement: float
    """Exact mean disagreement p of two runs of the start guide."""
    by_table: float
    """The formula of the specification's table at each world's own p, mean over the worlds."""
    by_task: float
    """The same from each task's own disagreement."""

    @property
    def rate(self) -> float:
        return self.accepted / self.tables


def null_edits() -> tuple[Candidate, ...]:
    """The start guide with each of the catalogue's sentences without effect."""
    start = start_guide()
    return tuple(
        Candidate(files={**start, edit.module: with_policy(start[edit.module], edit.text, file=edit.module)})
        for edit in CATALOGUE
        if edit.kind == "null"
    )


def null_rates(plan: Plan, worlds: Sequence[World]) -> dict[World, tuple[NullRates, ...]]:
    """Tables of the start guide against a sentence more, by every rule, at every error rate.

    The tables are shared out among the worlds of the plan's seeds, which are drawn once each.
    """
    found = {world: _Tally() for world in worlds}
    for place in range(plan.seeds):
        for world, tally in found.items():
            config = run_config(ARMS["gso"], world, plan.sizes, seed=plan.first_seed + place)
            tally.add(Yard(config, recovery=True), range(place, plan.tables, plan.seeds))
    return {world: tuple(_rates(name, tally, plan) for name in GATES) for world, tally in found.items()}


@dataclass(slots=True)
class _Tally:
    """What was counted at one error rate."""

    accepted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GATES, 0))
    noise: list[NDArray[np.float64]] = field(default_factory=list)
    """Of every world, each select task's exact disagreement under the start guide."""

    def add(self, yard: Yard, numbers: Iterable[int]) -> None:
        """The tables of one world."""
        start, edits = Candidate(files=start_guide()), null_edits()
        gates = {name: make_gate(config) for name, config in GATES.items()}
        rates = yard.rates(start, yard.roles.jobs["select"])
        self.noise.append(2.0 * rates * (1.0 - rates))
        for number in numbers:
            before, after = (_scores(yard, one, number) for one in (start, edits[number % len(edits)]))
            for name, gate in gates.items():
                self.accepted[name] += _accepts(gate, before, after)


def _rates(name: str, tally: _Tally, plan: Plan) -> NullRates:
    weight, min_u = _RULES[name]
    n, means = plan.sizes.select, [float(one.mean()) for one in tally.noise]
    return NullRates(
        rule=name,
        tables=plan.tables,
        accepted=tally.accepted[name],
        n=n,
        disagreement=float(np.mean(means)),
        by_table=float(np.mean([null_accept_rate(n, p, weight=weight, min_u=min_u) for p in means])),
        by_task=float(np.mean([null_accept_rate(n, one, weight=weight, min_u=min_u) for one in tally.noise])),
    )


def _scores(yard: Yard, candidate: Candidate, number: int) -> NDArray[np.float64]:
    """One run of every select task, at seeds that belong to this table."""
    roles = yard.roles
    return np.array(
        [
            play(
                candidate.files,
                job,
                seed=paired_seed(yard.config.seed, task.id, _FIRST_REPEAT + number),
                slip=yard.slip,
                recovery=yard.recovery,
            ).passed
            for task, job in zip(roles.tasks["select"], roles.jobs["select"], strict=True)
        ],
        dtype=np.float64,
    )


def _accepts(gate: Gate, before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    table = GenerationTable(
        incumbent=before[:, None], candidates=after[None, :, None], edit_sizes=np.ones(1, dtype=np.int64)
    )
    return gate.decide(table).verdict is Verdict.ACCEPT
