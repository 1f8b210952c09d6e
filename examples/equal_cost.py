"""Two acceptance rules at equal total cost: `python examples/equal_cost.py [SEEDS] [FOLDER]`. A simulation.

Each pair of runs has the same tasks, seed and start, and the same limit on evaluations, in which everything counts:
start, noise check, search and audit. A rule that commits less may spend the rest on more candidates.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from heldout.stats import mean_interval
from heldout.workbench import improve

RULES = ("greedy", "mcnemar")
EVALUATIONS = 1500


def settings(rule: str, seed: int) -> dict[str, object]:
    return {
        "seed": seed,
        "tasks": {"source": "questions", "train": 48, "select": 16, "audit": 200, "seed": seed},
        "solver": {"answer": "choose"},
        "search": {"generations": 40, "candidates": 4},
        "gate": {"kind": rule},
        "noise": {"tasks": 0, "simulations": 100},
        "budget": {"evaluations": EVALUATIONS},
    }


def main(seeds: int, folder: Path) -> None:
    print(f"SIMULATION, {seeds} seeds, at most {EVALUATIONS} evaluations a run")
    print("rule        paid a run   believed    audited   (points, means over seeds)")
    audited: dict[str, list[float]] = {}
    for rule in RULES:
        found = [improve(settings(rule, seed), out=folder / f"{rule}-{seed}") for seed in range(seeds)]
        audited[rule] = [one.gains.audited or 0.0 for one in found]  # 0: a run that kept its start gained nothing
        paid = np.mean([one.total.evaluations for one in found])
        believed = np.mean([one.gains.believed or 0.0 for one in found])
        print(f"{rule:<11} {paid:>10.0f} {100 * believed:>+10.1f} {100 * np.mean(audited[rule]):>+10.1f}")
    first, second = RULES
    difference = mean_interval(np.array(audited[second]) - np.array(audited[first]))
    if difference.mean is None or difference.interval is None:
        print("one seed has no interval; ask for more")
        return
    low, high = difference.interval
    print(f"{second} minus {first}: {100 * difference.mean:+.1f} points, 95 % {100 * low:+.1f} to {100 * high:+.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, Path(sys.argv[2] if len(sys.argv) > 2 else "runs/equal_cost"))
