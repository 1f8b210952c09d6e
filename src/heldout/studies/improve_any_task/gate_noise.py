"""Part (c): false accepts of trainings without effect, and training noise beside evaluation noise (spec §6.2)."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.studies.improve_any_task.arms import TWICE, Arm
from heldout.studies.improve_any_task.bench import Bench
from heldout.studies.improve_any_task.null_gates import NullRates
from heldout.studies.improve_any_task.plans import STARTS, Start
from heldout.studies.improve_any_task.summaries import share
from heldout.studies.improve_any_task.training_noise import noise_table
from heldout.studies.results import Part
from heldout.studies.tables import Table

__all__ = ["gate_noise"]

_N = 200
"""Select tasks of a table, as in the specification."""


def gate_noise(bench: Bench) -> Part:
    """Gate tables without an effect, and one recipe trained twice in whole runs."""
    plan = bench.plan
    starts: tuple[Start, ...] = STARTS
    twice = {TWICE: Arm(twice=True, rounds=1)}
    found = bench.run(dict.fromkeys(starts, twice))
    n = 60 if plan.quick else _N
    return Part(
        id="c",
        title="Gates under no effect, and the two noises",
        simulated=True,
        quick=plan.quick,
        intro=(
            f"{plan.tables} tables of {n} fresh select tasks each: simulated weights (`instruct`) against a training "
            "that teaches and unteaches nothing. Without training noise only the luck of new weights is left, which "
            "the world redraws for 15 % of the pairs of a task and a fault; with it each skill moves by σ on its "
            "logit, so that a child is truly better or worse by accident. The gate `noise` is given the standard error "
            "that the same recipe, trained twice, would have measured."
        ),
        tables=(
            _null_table(bench.null_rates(n)),
            noise_table(found, name="two_noises", simulated=True),
        ),
        seeds=plan.seeds,
        config_digests={start: given[TWICE].config_digest for start, given in found.items()},
    )


def _null_table(rates: Sequence[NullRates]) -> Table:
    rows = []
    for one in rates:
        found = share(one.accepted, one.tables)
        sds = (100.0 * one.measured_sd, 100.0 * one.true_sd)
        rows.append((one.noise, one.gate, found.value, found.low, found.high, 100.0 * one.expected, *sds))
    return Table(
        name="null_gates",
        title="False accepts of a training without effect",
        note=(
            "A simulation. `accepted`: percent of the tables, with its Wilson interval. `by chance`: the chance that "
            "more tasks are fixed than broken among so many flips in random directions, which `net` should accept. "
            "Standard deviations over tables in points: of the measured gain, which holds both noises, and of the true "
            "one, which is training noise alone."
        ),
        columns=("σ", "gate", "accepted, %", "low", "high", "by chance, %", "sd measured", "sd true"),
        rows=tuple(rows),
    )
