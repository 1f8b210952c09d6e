"""Runs arms of the study in worlds, each once, seed by seed in processes of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heldout.studies.gso.arms import QUICK, Arm, Sizes, World, base_of, run_config
from heldout.studies.gso.runs import Result, Wanted, run_jobs
from heldout.studies.gso.summaries import ArmRuns

__all__ = ["QUICK_PLAN", "Bench", "Plan"]

_Key = tuple[Arm, World, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is simulated. Seeds were fixed before any was run."""

    sizes: Sizes = field(default_factory=Sizes)
    seeds: int = 20
    """Of every arm in every world, as in the specification."""
    first_seed: int = 0
    trial_seeds: int = 5
    """Of the trials by which equal cost is found."""
    slips: tuple[float, ...] = (0.0, 0.02, 0.10)
    """ε of part c."""
    tables: int = 2000
    """Gate tables of an edit without effect, for each ε."""
    workers: int = 2
    quick: bool = False


QUICK_PLAN = Plan(sizes=QUICK, seeds=3, trial_seeds=1, slips=(0.02, 0.10), tables=60, quick=True)


@dataclass(slots=True)
class Bench:
    """Remembers what was run, so that parts of the study share runs."""

    plan: Plan
    _known: dict[_Key, Result] = field(default_factory=dict)

    def run(
        self, arms: Mapping[str, Arm], worlds: Sequence[World] = (World(),), *, seeds: int | None = None
    ) -> dict[World, dict[str, ArmRuns]]:
        """Every arm in every world, on consecutive seeds; arms of another arm's final after that arm."""
        first = self.plan.first_seed
        numbers = range(first, first + (self.plan.seeds if seeds is None else seeds))
        wanted = [(arm, world, seed) for seed in numbers for world in worlds for arm in arms.values()]
        bases = [(base, world, seed) for arm, world, seed in wanted if (base := base_of(arm)) is not None]
        self._make([*bases, *(key for key in wanted if not key[0].of)])
        self._make([key for key in wanted if key[0].of])
        return {
            world: {
                name: ArmRuns(name, arm, tuple(self._known[arm, world, seed] for seed in numbers))
                for name, arm in arms.items()
            }
            for world in worlds
        }

    def _make(self, keys: Iterable[_Key]) -> None:
        """A job for each seed: its runs share one world of tasks, which is expensive to draw."""
        jobs: dict[int, list[_Key]] = {}
        for key in dict.fromkeys(keys):
            if key not in self._known:
                jobs.setdefault(key[2], []).append(key)
        asked = [[self._wanted(*key) for key in job] for job in jobs.values()]
        found = run_jobs(asked, workers=max(1, min(self.plan.workers, len(asked))))
        for job, results in zip(jobs.values(), found, strict=True):
            self._known.update(zip(job, results, strict=True))

    def _wanted(self, arm: Arm, world: World, seed: int) -> Wanted:
        base = base_of(arm)
        config = run_config(arm, world, self.plan.sizes, seed=seed)
        return Wanted(arm, config, None if base is None else self._known[base, world, seed])
