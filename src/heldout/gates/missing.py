"""A verdict must not hang on what was not measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heldout.gates.base import Gate, GenerationTable
from heldout.records import Comparison, Decision, Verdict

__all__ = ["decide", "weigh_missing"]


def decide(gate: Gate, table: GenerationTable) -> Decision:
    """The gate's decision, unless it rests on missing scores; see `weigh_missing`."""
    return weigh_missing(gate, table, gate.decide(table))


def weigh_missing(gate: Gate, table: GenerationTable, decision: Decision) -> Decision:
    """`decision`, or UNDECIDED where an acceptance rests on missing scores.

    A candidate whose failures go missing (its prompts overflow a context, say) would win by them. So an acceptance
    must survive counting every score that only the candidate lacks as a failure; a rejection needs no such test.
    """
    if decision.verdict is not Verdict.ACCEPT or decision.winner is None:
        return decision
    worst = _worst_case(table)
    if worst is None or gate.decide(worst).verdict is Verdict.ACCEPT:
        return decision
    reason = f"{decision.reason}; but not if the scores that only the candidates lack were failures"
    return decision.model_copy(update={"verdict": Verdict.UNDECIDED, "reason": reason})


def _worst_case(table: GenerationTable) -> GenerationTable | None:
    """The table with failures where only candidates are missing; None where nothing is."""
    candidates = _filled(table.candidates, table.incumbent[None])
    fresh = table.fresh
    if fresh is not None:
        fresh = Comparison(fresh.tasks, fresh.a, _filled(fresh.b, fresh.a))
    unchanged = np.array_equal(candidates, table.candidates, equal_nan=True) and (
        fresh is None or table.fresh is None or np.array_equal(fresh.b, table.fresh.b, equal_nan=True)
    )
    return None if unchanged else replace(table, candidates=candidates, fresh=fresh)


def _filled(scores: NDArray[np.float64], against: NDArray[np.float64]) -> NDArray[np.float64]:
    filled: NDArray[np.float64] = np.where(np.isnan(scores) & ~np.isnan(against), 0.0, scores)
    return filled
