"""The fast simulation and the real loop agree: the same world, the same rule, two programs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from heldout.config import load_config
from heldout.models.simulated_skill import SkillLine
from heldout.report.summary import summary
from heldout.store import Index
from heldout.studies import Estimate, mean_estimate
from heldout.studies.winners_curse import Arm, simulate
from heldout.workbench import Opening, run

SEEDS = 24
START = SkillLine(0.40, ("start",), 1.0).text()


def _real_run(seed: int, folder: Path) -> tuple[float, float]:
    """Inflation and reported gain of one run of the real loop, whose final candidate states its true skill."""
    config = load_config(
        [
            {
                "seed": seed,
                "tasks": {
                    "source": "questions",
                    "train": 32,
                    "select": 16,
                    "audit": 8,
                    "seed": seed,
                    "options": {"items": 400, "ood": 0},
                },
                "solver": {
                    "model": {"name": "simulated", "options": {"seed": seed}},
                    "instruction": f"Classify the question. {START}",
                },
                "improver": {"kind": "simulated"},
                "search": {"generations": 20, "candidates": 4},
                "gate": {"kind": "greedy"},
                "noise": {"tasks": 0, "simulations": 100},
                "audit": {"auto": False},
            }
        ]
    )
    done = run(config, Opening(folder, command="test"))
    with Index.open(done.path) as index:
        found = summary(index.connection)
    line = SkillLine.find(done.load(found.final.digest).files["instruction.md"])
    assert line is not None
    assert found.final.select.value is not None
    assert found.gains.believed is not None
    return found.final.select.value - line.skill, found.gains.believed


def _agree(real: Estimate | None, fast: Estimate | None) -> None:
    assert real is not None
    assert fast is not None
    error = math.hypot(real.standard_error, fast.standard_error)
    assert abs(real.value - fast.value) <= 3.0 * error, f"{real} against {fast}"


@pytest.mark.slow
def test_the_fast_simulation_and_the_real_loop_agree_on_inflation_and_on_the_reported_gain(tmp_path: Path) -> None:
    real = [_real_run(seed, tmp_path / str(seed)) for seed in range(SEEDS)]
    fast = [simulate(Arm("greedy", 16), seed) for seed in range(400)]
    _agree(mean_estimate([inflation for inflation, _ in real]), mean_estimate([one.inflation for one in fast]))
    _agree(mean_estimate([reported for _, reported in real]), mean_estimate([one.reported for one in fast]))
