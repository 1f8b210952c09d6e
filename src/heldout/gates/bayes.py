"""The myopic Bayes rule (P2), with a prior from a pilot or from the run itself."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from heldout.errors import SetupError
from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, PairedGains, Winner, conclude, points
from heldout.gates.rule import Rule
from heldout.records import Decision, Verdict
from heldout.stats import (
    EQUAL_WITHIN,
    VarianceComponents,
    mean_measured,
    pool_components,
    shared_noise_posterior,
    variance_components,
)

__all__ = ["BayesOnline", "BayesPilot"]


@dataclass(frozen=True, slots=True)
class _Bayes(Rule):
    """Accepts iff the largest posterior mean of a true gain is above 0, and its d too (`config.require_gain`).

    The posterior mean rises with d (λ >= 0), so the winner is the best d; this also settles the tie of λ = 0.
    """

    def decide(self, table: GenerationTable) -> Decision:
        gains = PairedGains.of(table)
        measured = variance_components(mean_measured(table.incumbent), mean_measured(table.candidates))
        if measured is None:
            # Nobody has two tasks, so `conclude` answers UNDECIDED whatever the prior.
            measured = VarianceComponents(mu=0.0, s=0.0, sigma=0.0, sigma0=0.0, k=1, n=len(table.incumbent))
        known = self.prior(measured, table)
        posterior = shared_noise_posterior(gains.means, known)
        winner = gains.winner(gains.means, table.edit_sizes)
        return conclude(self.name, winner, lambda chosen: self._judge(chosen, float(posterior[chosen.index]), known))

    @abstractmethod
    def prior(self, measured: VarianceComponents, table: GenerationTable) -> VarianceComponents:
        """What is taken as known, given this generation's own estimates."""

    def _judge(self, winner: Winner, posterior: float, known: VarianceComponents) -> Judgement:
        gains = winner.gain > EQUAL_WITHIN or not self.config.require_gain
        accepts = posterior > EQUAL_WITHIN and gains
        because = f"posterior mean {points(posterior)} under a prior of {points(known.mu)} ± {100 * known.s:.1f}"
        if posterior > EQUAL_WITHIN and not gains:
            because += f", but the measured gain {points(winner.gain)} is not above 0"
        return Judgement(
            Verdict.ACCEPT if accepts else Verdict.REJECT,
            because,
            evidence={
                "posterior_mean": posterior,
                "mu": known.mu,
                "s": known.s,
                "sigma": known.sigma,
                "sigma0": known.sigma0,
                "lam": known.lam,
            },
        )


@dataclass(frozen=True, slots=True)
class BayesPilot(_Bayes):
    """Prior mean and spread of true gains from a pilot (`config.prior`); σ and σ0 from the table's own items."""

    name: ClassVar[str] = "bayes_pilot"

    def __post_init__(self) -> None:
        Rule.__post_init__(self)
        if self.config.prior is None or self.config.prior[1] < 0.0:
            raise SetupError(
                f"the gate bayes_pilot needs a prior (mean, standard deviation >= 0) of true gains, got "
                f"{self.config.prior!r}: measure one in a pilot (gate.pilot_tasks, gate.pilot_candidates), "
                f"set gate.prior=[0.0,0.05], or take gate.kind=bayes_online"
            )

    def prior(self, measured: VarianceComponents, table: GenerationTable) -> VarianceComponents:  # noqa: ARG002
        mu, s = self.config.prior or (0.0, 0.0)
        return replace(measured, mu=mu, s=s)


@dataclass(frozen=True, slots=True)
class BayesOnline(_Bayes):
    """Prior and noise pooled over `table.past` and this generation, which is its own evidence (empirical Bayes).

    In the first generation μ is the mean of its own K gains and s² has K − 1 degrees of freedom. When the
    candidates spread no more than their noise, s = 0, and the best is worth what the average is. A first
    generation of one candidate has nothing to shrink towards: the rule is then greedy.
    """

    name: ClassVar[str] = "bayes_online"

    def prior(self, measured: VarianceComponents, table: GenerationTable) -> VarianceComponents:
        return pool_components((*table.past, measured))
