"""How often the audit's 95 % interval holds the truth, over simulated runs. A simulation."""

from __future__ import annotations

import numpy as np

from heldout.stats import paired_difference
from heldout.studies.tables import Estimate, Table, share_estimate
from heldout.studies.winners_curse.arms import Arm
from heldout.studies.winners_curse.simulated_items import answers
from heldout.studies.winners_curse.summaries import ArmRuns, run_arm

__all__ = ["COVERAGE_RUNS", "coverage_table"]

COVERAGE_RUNS = 1_000
_LOW, _HIGH = 93.0, 97.0


def coverage_table(runs: int = COVERAGE_RUNS) -> Table:
    """A/A at two audit sizes, and start against final of greedy runs at n = 16."""
    rows = [_a_a(n, runs) for n in (64, 200)]
    rows.append(_start_against_final(run_arm(Arm("greedy", 16), runs)))
    return Table(
        name="audit_coverage",
        title="Coverage of the audit's 95 % interval",
        note=(
            f"A simulation of {runs:,} runs a row; `ok` between {_LOW:g} and {_HIGH:g} %. A/A: the start against a "
            "copy "
            "whose luck is drawn anew, so that the true gain is 0. The interval is the paired t interval that every "
            "audit of Heldout reports."
        ),
        columns=("audited", "audit items", "covers, %", "ok"),
        rows=tuple(rows),
    )


def _a_a(n: int, runs: int) -> tuple[str, int, Estimate | None, bool]:
    skill, covered = Arm("greedy", n).world.start, 0
    for seed in range(runs):
        rng = np.random.default_rng([n, seed])
        difficulty = rng.standard_normal(n)
        first, second = (answers(skill, difficulty, rng.random(n)) for _ in range(2))
        low, high = paired_difference(first, second).interval or (-1.0, 1.0)
        covered += low <= 0.0 <= high
    return _row("start against itself (A/A)", n, covered, runs)


def _start_against_final(greedy: ArmRuns) -> tuple[str, int, Estimate | None, bool]:
    covered = sum(run.audit_interval[0] <= run.gain <= run.audit_interval[1] for run in greedy.runs)
    return _row("start against final, greedy at n = 16", 64, covered, len(greedy.runs))


def _row(what: str, n: int, covered: int, runs: int) -> tuple[str, int, Estimate | None, bool]:
    return what, n, share_estimate(covered, runs), _LOW <= 100.0 * covered / runs <= _HIGH
