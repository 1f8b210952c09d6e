"""Part (a): every closed form of section 4 beside its simulation, and the figures that the specification states."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.config import GateConfig
from heldout.gates import GenerationTable, make_gate, smallest_tables
from heldout.records import Verdict
from heldout.stats import (
    VarianceComponents,
    audit_standard_error,
    bayes_threshold,
    committed_overstatement,
    expected_max_normal,
    selection_overstatement,
    shared_noise_posterior,
)
from heldout.studies.results import Part
from heldout.studies.tables import Estimate, Table

__all__ = ["closed_forms"]

DRAWS = 400_000
TOLERANCE = 0.1
"""Points; a difference passes below this or below 3 Monte-Carlo standard errors."""

MAXIMA = {2: 0.564, 3: 0.846, 4: 1.029, 5: 1.163, 6: 1.267, 8: 1.424, 10: 1.539, 16: 1.766}

COMMITTED = (
    ((0.0, 5.0, 10.0, 6.0), 11.1, 29),
    ((-3.0, 5.0, 10.0, 6.0), 12.1, 53),
    ((-5.0, 5.0, 10.0, 6.0), 12.9, 68),
    ((-5.0, 3.0, 12.0, 0.0), 14.6, None),
    ((-5.0, 3.0, 12.0, 6.0), 16.0, 92),
)
"""(μ, s, σ, σ0) in points, overstatement of committed gains, percent of harmful commits."""

SMALLEST = {"greedy": "1-0", "mcnemar": "5-0, 7-1, 9-2, 10-3, 12-4", "pace": "8-0, 10-1, 11-2"}

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Check:
    quantity: str
    setting: str
    expected: float
    simulated: Estimate
    stated: float | None = None
    """The specification's figure."""
    rounding: float = 0.0
    """Half a unit of the last digit of `expected`, where that is the specification's figure itself."""
    tolerance: float = TOLERANCE

    def row(self) -> tuple[str, str, float | None, float, Estimate, float, bool]:
        difference = self.simulated.value - self.expected
        near = max(self.tolerance, 3.0 * self.simulated.standard_error) + self.rounding
        return (
            self.quantity,
            self.setting,
            self.stated,
            self.expected,
            self.simulated,
            difference,
            abs(difference) <= near,
        )


def closed_forms(*, quick: bool = False, seed: int = 0) -> Part:
    """Tables `closed_forms` and `rule_tables`."""
    rng = np.random.default_rng(seed)
    checks = [*_maxima(rng), *_best_candidate(rng), *_committed(seed), *_posterior(rng), _threshold(rng), *_audit(rng)]
    return Part(
        id="a",
        title="Closed forms",
        simulated=True,
        quick=quick,
        intro="Each formula of the noise model beside a simulation written apart from it.",
        tables=(
            Table(
                name="closed_forms",
                title="Formula against simulation",
                note=(
                    f"{DRAWS:,} simulated generations a row (200,000 for committed gains). In points, but for c_K and "
                    "regression coefficients. `expected` is the closed form; committed gains have none, and there it "
                    "is the specification's own simulated figure, with its rounding allowed for. `ok`: within 0.1 "
                    "points (0.005 for c_K and coefficients) or 3 Monte-Carlo standard errors, whichever is larger."
                ),
                columns=("quantity", "setting", "stated", "expected", "simulated", "difference", "ok"),
                rows=tuple(check.row() for check in checks),
            ),
            _rule_tables(),
        ),
    )


def _estimate(values: Floats) -> Estimate:
    return Estimate(value=float(values.mean()), standard_error=float(values.std(ddof=1)) / math.sqrt(len(values)))


def _maxima(rng: np.random.Generator) -> Iterator[_Check]:
    for k, stated in MAXIMA.items():
        simulated = _estimate(rng.standard_normal((DRAWS, k)).max(axis=1))
        yield _Check("c_K", f"K = {k}", expected_max_normal(k), simulated, stated, tolerance=0.005)


@dataclass(frozen=True, slots=True, eq=False)
class _Generations:
    """Simulated true and measured gains of K candidates, in points."""

    true: Floats
    measured: Floats

    @classmethod
    def draw(cls, rng: np.random.Generator, known: VarianceComponents) -> _Generations:
        true = known.mu + known.s * rng.standard_normal((DRAWS, known.k))
        shared = known.sigma0 * rng.standard_normal((DRAWS, 1))
        return cls(true, true + shared + known.sigma * rng.standard_normal(true.shape))


def _known(mu: float, s: float, sigma: float, sigma0: float) -> VarianceComponents:
    return VarianceComponents(mu=mu, s=s, sigma=sigma, sigma0=sigma0, k=4, n=16)


def _setting(known: VarianceComponents) -> str:
    return f"μ = {known.mu:g}, s = {known.s:g}, σ = {known.sigma:g}, σ0 = {known.sigma0:g}, K = {known.k}"


def _best_candidate(rng: np.random.Generator) -> Iterator[_Check]:
    for numbers, stated in (
        ((0.0, 5.0, 10.0, 0.0), 9.21),
        ((0.0, 5.0, 10.0, 6.0), 9.21),
        ((-5.0, 5.0, 10.0, 6.0), 9.21),
        ((-5.0, 3.0, 12.0, 0.0), 12.0),
    ):
        known = _known(*numbers)
        drawn = _Generations.draw(rng, known)
        rows, best = np.arange(DRAWS), drawn.measured.argmax(axis=1)
        simulated = _estimate((drawn.measured - drawn.true)[rows, best])
        expected = selection_overstatement(known.k, known.s, known.sigma)
        yield _Check("P1, overstatement of the best", _setting(known), expected, simulated, stated)


def _committed(seed: int) -> Iterator[_Check]:
    for numbers, overstated, harmful in COMMITTED:
        known = _known(*numbers)
        found = committed_overstatement(known, seed=seed)
        if found.overstatement is None or found.standard_error is None or found.harmful_share is None:
            continue
        simulated = Estimate(value=found.overstatement, standard_error=found.standard_error)
        yield _Check("overstatement of committed gains", _setting(known), overstated, simulated, overstated, 0.05)
        if harmful is not None:
            share, commits = found.harmful_share, found.commit_rate * 200_000
            error = 100.0 * math.sqrt(share * (1.0 - share) / commits)
            simulated = Estimate(value=100.0 * share, standard_error=error)
            yield _Check("percent of harmful commits", _setting(known), harmful, simulated, harmful, 0.5)


def _posterior(rng: np.random.Generator) -> Iterator[_Check]:
    """Both coefficients of P2 are regression slopes: of τ_i on d_i − d̄, and of its mean on d̄."""
    known = _known(-3.0, 5.0, 10.0, 6.0)
    drawn = _Generations.draw(rng, known)
    means = drawn.measured.mean(axis=1)
    within, _ = _regression(drawn.measured[:, 0] - means, drawn.true[:, 0] - drawn.true.mean(axis=1))
    between, _ = _regression(means, drawn.true.mean(axis=1))
    yield _Check("P2, λ", _setting(known), known.lam, within, tolerance=0.005)
    # The slope of the closed form on d̄ is read off the posterior itself, which is linear.
    at = shared_noise_posterior(np.array([[0.0] * known.k, [1.0] * known.k]), known)
    yield _Check("P2, λ̄", _setting(known), float(at[1, 0] - at[0, 0]), between, tolerance=0.005)


def _threshold(rng: np.random.Generator) -> _Check:
    """Where the regression of τ on d crosses zero, for σ0 = 0."""
    known = _known(-3.0, 5.0, 10.0, 0.0)
    drawn = _Generations.draw(rng, known)
    slope, level = _regression(drawn.measured.ravel(), drawn.true.ravel())
    crossing = -level.value / slope.value
    error = math.hypot(level.standard_error, crossing * slope.standard_error) / slope.value
    simulated = Estimate(value=crossing, standard_error=error)
    return _Check("P2, threshold on d", _setting(known), bayes_threshold(known), simulated, 12.0)


def _regression(x: Floats, y: Floats) -> tuple[Estimate, Estimate]:
    """Slope, and intercept at x = 0, of ordinary least squares."""
    centred = x - x.mean()
    square = float(centred @ centred)
    slope = float(centred @ y) / square
    residual = float((y - y.mean() - slope * centred).std(ddof=2))
    level = float(y.mean()) - slope * float(x.mean())
    level_error = residual * math.sqrt(1.0 / len(x) + float(x.mean()) ** 2 / square)
    return (
        Estimate(value=slope, standard_error=residual / math.sqrt(square)),
        Estimate(value=level, standard_error=level_error),
    )


def _audit(rng: np.random.Generator) -> Iterator[_Check]:
    """The spread of the mean of n differences in {−1, 0, 1}, drawn as counts."""
    for disagreement, n, stated in (
        *((0.15, 64, 4.8), (0.20, 64, 5.6), (0.25, 64, 6.2)),
        *((0.15, 375, 2.0), (0.20, 500, 2.0), (0.25, 625, 2.0)),
    ):
        counts = rng.multinomial(n, [disagreement / 2, disagreement / 2, 1.0 - disagreement], size=DRAWS)
        gains = 100.0 * (counts[:, 0] - counts[:, 1]) / n
        spread = float(gains.std(ddof=1))
        simulated = Estimate(value=spread, standard_error=spread / math.sqrt(2.0 * DRAWS))
        expected = 100.0 * audit_standard_error(n, disagreement)
        yield _Check("audit's standard error", f"p_d = {disagreement:g}, n = {n}, δ = 0", expected, simulated, stated)


def _rule_tables() -> Table:
    rows = []
    for rule, stated in SMALLEST.items():
        gate = make_gate(GateConfig(kind=rule))
        found = smallest_tables(gate, rows=len(stated.split(",")))
        rows.append((rule, stated, found, found == stated))
    found = "1-0 on each half" if _needs_both_halves() else "something else"
    rows.append(("select_confirm", "1-0 on each half", found, found == "1-0 on each half"))
    return Table(
        name="rule_tables",
        title="Smallest tables that commit",
        note="Wins–losses at α = 0.05, found by running each gate; PACE in the worst of 64 item orders.",
        columns=("rule", "stated", "found", "ok"),
        rows=tuple(rows),
    )


def _needs_both_halves() -> bool:
    """On two items each half has one: a win on both commits, and a win on either alone does not."""
    gate = make_gate(GateConfig(kind="select_confirm"))
    accepted = {
        wins: gate.decide(
            GenerationTable(np.zeros((2, 1)), np.array([[[wins[0]], [wins[1]]]]), np.ones(1, dtype=np.int64))
        ).verdict
        is Verdict.ACCEPT
        for wins in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0))
    }
    return accepted == {(1.0, 1.0): True, (1.0, 0.0): False, (0.0, 1.0): False}
