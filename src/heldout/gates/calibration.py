"""How often a gate accepts a candidate that is no better, and which tables it accepts: by running the gate itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.gates.base import Gate, GenerationTable
from heldout.gates.rule import Rule
from heldout.records import Comparison, Verdict

__all__ = ["FalseAcceptRate", "false_accept_rate", "smallest_tables"]


class FalseAcceptRate(NamedTuple):
    """Share of null generations that a gate accepts."""

    rate: float
    standard_error: float
    """Monte-Carlo standard error."""


def false_accept_rate(
    gate: Gate,
    *,
    n: int,
    candidates: int,
    disagreement: float,
    simulations: int = 2000,
    seed: int = 0,
    families: Sequence[str] = (),
) -> FalseAcceptRate:
    """Run `gate.decide` on generations in which incumbent and candidates have equal true skill.

    The incumbent is right on each task with probability 1/2; each candidate differs from it on each task with
    probability `disagreement`, on its own, so that a win and a loss are equally likely. Noise is shared as in a real
    generation, through the one incumbent: the gains of two candidates correlate by `disagreement`. Candidates that
    resemble each other beyond that make the rate of the best-of-K rules lower. Each repeat is drawn on its own.
    A gate that answers CONFIRM gets its fresh tasks from the same model. Nothing is missing. `families` are those of
    the n tasks, for rules that look at them; without any, all tasks are of one.
    """
    if families and len(families) != n:
        raise ValueError(f"expected a family of each of {n} tasks, got {len(families)}")
    rng = np.random.default_rng(seed)
    sizes = np.ones(candidates, dtype=np.int64)
    accepted = 0
    for simulation in range(simulations):
        incumbent, scores = _null(rng, (candidates, n, gate.repeats), disagreement=disagreement)
        table = GenerationTable(incumbent, scores, sizes, seed=simulation, families=tuple(families))
        verdict = gate.decide(table).verdict
        if verdict is Verdict.CONFIRM:
            verdict = gate.decide(_confirmed(table, rng, gate=gate, disagreement=disagreement)).verdict
        accepted += verdict is Verdict.ACCEPT
    rate = accepted / simulations
    return FalseAcceptRate(rate, math.sqrt(rate * (1.0 - rate) / simulations))


def smallest_tables(gate: Gate, *, n: int = 64, rows: int = 3) -> str:
    """The fewest wins that commit one candidate over 0, 1, 2, … losses on `n` tasks: `5-0, 7-1, 9-2`.

    Where the order of tasks matters a table counts only if it commits in every order that is tried. Empty for
    rules that look at more than wins and losses (see `Rule.counts_decide`), and for gates not built on `Rule`.
    """
    if not isinstance(gate, Rule) or not gate.counts_decide:
        return ""
    tables: list[str] = []
    for losses in range(rows):
        wins = next((wins for wins in range(n - losses + 1) if _commits(gate, wins, losses=losses, n=n)), None)
        if wins is None:
            break
        tables.append(f"{wins}-{losses}")
    return ", ".join(tables)


def _null(
    rng: np.random.Generator, shape: tuple[int, int, int], *, disagreement: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    incumbent = rng.random(shape[1:]) < 0.5
    differs = rng.random(shape) < disagreement
    return incumbent.astype(np.float64), (incumbent ^ differs).astype(np.float64)


def _confirmed(table: GenerationTable, rng: np.random.Generator, *, gate: Gate, disagreement: float) -> GenerationTable:
    incumbent, scores = _null(rng, (1, gate.fresh_tasks, gate.repeats), disagreement=disagreement)
    fresh = Comparison(tuple(str(task) for task in range(gate.fresh_tasks)), incumbent, scores[0])
    return replace(table, fresh=fresh)


def _commits(gate: Gate, wins: int, *, losses: int, n: int, orders: int = 64) -> bool:
    incumbent = np.ones((n, gate.repeats))
    incumbent[:wins] = 0.0
    candidate = np.ones((1, n, gate.repeats))
    candidate[:, wins : wins + losses] = 0.0
    size = np.ones(1, dtype=np.int64)
    return all(
        gate.decide(GenerationTable(incumbent, candidate, size, seed=order)).verdict is Verdict.ACCEPT
        for order in range(orders)
    )
