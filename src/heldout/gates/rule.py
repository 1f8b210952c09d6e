"""Bases of the built-in gates; a plug-in may use them and need not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from heldout.config import GateConfig
from heldout.errors import SetupError
from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, PairedGains, Winner, conclude
from heldout.records import Decision

__all__ = ["BestGainRule", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule(ABC):
    """A gate that is built from its config: one measurement per evaluation and no fresh tasks unless it says so."""

    config: GateConfig

    name: ClassVar[str]
    counts_decide: ClassVar[bool] = False
    """Whether the winner's wins and losses alone decide, so that the rule has smallest committing tables."""
    takes_options: ClassVar[bool] = False
    """Whether the rule reads `config.options`; a rule that does not refuses them."""

    def __post_init__(self) -> None:
        if self.config.options and not self.takes_options:
            given = ", ".join(f"gate.options.{key}" for key in sorted(self.config.options))
            raise SetupError(
                f"the gate {self.name} takes no options, and the config sets {given}: remove that, or choose a gate "
                "that takes them, such as gate.kind=repairs_over_regressions"
            )

    @property
    def repeats(self) -> int:
        return 1

    @property
    def fresh_tasks(self) -> int:
        return 0

    @abstractmethod
    def decide(self, table: GenerationTable) -> Decision:
        """See `Gate.decide`."""


@dataclass(frozen=True, slots=True)
class BestGainRule(Rule):
    """A rule about the candidate with the largest mean paired difference d."""

    def decide(self, table: GenerationTable) -> Decision:
        gains = PairedGains.of(table)
        winner = gains.winner(gains.means, table.edit_sizes)
        return conclude(self.name, winner, lambda chosen: self.judge(chosen, table))

    @abstractmethod
    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:
        """The verdict on a winner whose coverage is good enough."""
