"""The seam to acceptance rules: one generation's paired scores in, a decision with its evidence out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heldout.records import Comparison, Decision
from heldout.stats import VarianceComponents

__all__ = ["Gate", "GenerationTable"]


@dataclass(frozen=True, slots=True, eq=False)
class GenerationTable:
    """Scores of an incumbent and its K candidates on the same n select tasks.

    NaN is *not measured*: it is neither right nor wrong.
    """

    incumbent: NDArray[np.float64]
    """Shape (n, repeats)."""
    candidates: NDArray[np.float64]
    """Shape (K, n, repeats)."""
    edit_sizes: NDArray[np.int64]
    """Shape (K,): bytes changed against the incumbent; ties go to the smaller edit."""
    seed: int = 0
    """Seeds what a rule draws (halves, item order); a rule is a pure function of the table."""
    past: tuple[VarianceComponents, ...] = ()
    """Estimates of earlier generations, for rules with an online prior."""
    fresh: Comparison | None = None
    """The winner's confirmation on new tasks, once a gate has answered CONFIRM."""
    tasks: tuple[str, ...] = ()
    """The n task ids, or none: what `predicted` and `at_risk` refer to."""
    predicted: tuple[tuple[str, ...], ...] = ()
    """Of each candidate, or none: the tasks that its edit was said to fix. Ids that are not in `tasks` are ignored."""
    at_risk: tuple[tuple[str, ...], ...] = ()
    """Of each candidate, or none: the tasks that its edit was said to risk. Ids that are not in `tasks` are ignored."""
    best: NDArray[np.float64] | None = None
    """Shape (n, repeats): scores of the best state so far on the same tasks; None where that is the incumbent."""
    families: tuple[str, ...] = ()
    """The family of each of the n tasks, or none: then all are of one family."""
    critical: tuple[str, ...] = ()
    """Safety-critical tasks, by id, whose regressions weigh more. Ids that are not in `tasks` are ignored."""
    edited: tuple[str, ...] = ()
    """Files in which the one candidate differs from the incumbent."""
    attributed: str | None = None
    """The file (of a guide's module) that the failure was attributed to."""
    module_rule: bool = False
    """Whether the edit may differ in the attributed file alone; rules that know of no modules ignore it."""
    training_se: float = 0.0
    """Standard error of a gain from training noise alone (one recipe, two seeds); 0 where nothing is trained."""


class Gate(Protocol):
    """An acceptance rule. A plug-in is a class that takes the `GateConfig` as its only argument."""

    @property
    def name(self) -> str:
        """Short name, as in `gate.kind`."""

    @property
    def repeats(self) -> int:
        """Repeats of each evaluation that the rule asks for."""

    @property
    def fresh_tasks(self) -> int:
        """New tasks that the rule asks for after CONFIRM; 0 for rules that never answer CONFIRM."""

    def decide(self, table: GenerationTable) -> Decision:
        """Pure: the same table gives the same decision. Missing scores never become zeros."""
