"""Runs arms of the study in worlds, each once, seed by seed in processes of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heldout.studies.verse.arms import QUICK, Arm, Sizes, World, run_config
from heldout.studies.verse.runs import Result, run_seeds
from heldout.studies.verse.summaries import ArmRuns

__all__ = ["QUICK_PLAN", "Bench", "Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is simulated."""

    sizes: Sizes = field(default_factory=Sizes)
    seeds: int = 20
    """Of every arm in every world, as in the specification."""
    claim_seeds: int = 100
    """Of the arms that claims C1 to C5 rest on: seeds are cheap, and verdicts should not hang on their number."""
    trial_seeds: int = 5
    """Of the trials by which equal cost is found."""
    errors: tuple[float, ...] = (0.0, 0.2, 0.4)
    rates: tuple[float, ...] = (0.0, 0.15, 0.3)
    """ε and ν of the grid."""
    workers: int = 2
    quick: bool = False


QUICK_PLAN = Plan(sizes=QUICK, seeds=3, claim_seeds=4, trial_seeds=2, errors=(0.0, 0.4), rates=(0.15,), quick=True)


@dataclass(slots=True)
class Bench:
    """Remembers what was run, so that parts of the study share runs."""

    plan: Plan
    _known: dict[tuple[Arm, World, int], Result] = field(default_factory=dict)

    def run(
        self, arms: Mapping[str, Arm], worlds: Sequence[World] = (World(),), *, seeds: int | None = None
    ) -> dict[World, dict[str, ArmRuns]]:
        """Every arm in every world, on seeds 0, 1, …"""
        numbers = range(self.plan.seeds if seeds is None else seeds)
        wanted = [(arm, world, seed) for seed in numbers for world in worlds for arm in arms.values()]
        self._make([key for key in dict.fromkeys(wanted) if key not in self._known])
        return {
            world: {
                name: ArmRuns(name, arm, tuple(self._known[arm, world, seed] for seed in numbers))
                for name, arm in arms.items()
            }
            for world in worlds
        }

    def _make(self, keys: Iterable[tuple[Arm, World, int]]) -> None:
        """A job for each seed and ν: its runs share one world of tasks, which is expensive to draw."""
        jobs: dict[tuple[int, float], list[tuple[Arm, World, int]]] = {}
        for arm, world, seed in keys:
            jobs.setdefault((seed, world.nondeterminism), []).append((arm, world, seed))
        configs = [
            [run_config(arm, world, self.plan.sizes, seed=seed) for arm, world, seed in job] for job in jobs.values()
        ]
        found = run_seeds(configs, workers=min(self.plan.workers, max(len(configs), 1)))
        for job, results in zip(jobs.values(), found, strict=True):
            self._known.update(zip(job, results, strict=True))
