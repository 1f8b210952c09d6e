"""Runs arms of the study from their starts, each once, seed by seed in processes of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heldout.errors import SetupError
from heldout.studies.improve_any_task.arms import Arm, arms_of, run_config
from heldout.studies.improve_any_task.kept_runs import KeptRun, KeptRuns
from heldout.studies.improve_any_task.null_gates import NullRates, null_rates
from heldout.studies.improve_any_task.plans import Plan, Start
from heldout.studies.improve_any_task.runs import Result, Wanted, run_jobs
from heldout.studies.improve_any_task.summaries import ArmRuns

__all__ = ["Bench"]

_Key = tuple[Arm, Start, int]


@dataclass(slots=True)
class Bench:
    """Remembers what was run, so that arms of one search share it."""

    plan: Plan
    again: bool = False
    """Whether it has kept runs alone, and runs nothing."""
    rates: tuple[NullRates, ...] = ()
    """Of gates under no effect, once they are known."""
    _known: dict[_Key, Result] = field(default_factory=dict)

    @classmethod
    def of(cls, kept: KeptRuns) -> Bench:
        """One that knows what is kept."""
        bench = cls(kept.plan, again=True, rates=kept.rates)
        for one in kept.runs:
            arm = _arms_by_name(one.result.start).get(one.arm)
            if arm is None:
                raise SetupError(
                    f"the kept runs have an arm {one.arm!r} from {one.result.start}, which there is no more"
                )
            bench._known[arm, one.result.start, one.result.seed] = one.result
        return bench

    def kept(self, *names: str) -> KeptRuns:
        """The runs of the arms of these names, or of all, as they were made."""
        named = [
            KeptRun(arm=name, result=result)
            for (arm, start, _seed), result in self._known.items()
            for name, own in _arms_by_name(start).items()
            if own == arm and (not names or name in names)
        ]
        return KeptRuns(self.plan, tuple(named), self.rates)

    def run(self, arms: Mapping[Start, Mapping[str, Arm]]) -> dict[Start, dict[str, ArmRuns]]:
        """Every arm from its starts on the plan's seeds; arms of another arm's models come with that arm."""
        numbers = range(self.plan.first_seed, self.plan.first_seed + self.plan.seeds)
        jobs: dict[tuple[int, Start | None], list[_Key]] = {}
        for seed in numbers:
            for start, given in arms.items():
                missing = [(arm, start, seed) for arm in given.values() if not arm.of]
                missing = [key for key in missing if key not in self._known]
                jobs.setdefault((seed, None if self.plan.sizes.simulated else start), []).extend(missing)
        self._make([job for job in jobs.values() if job])
        return {
            start: {name: self._runs(name, given, start, numbers) for name in given} for start, given in arms.items()
        }

    def null_rates(self, n: int) -> tuple[NullRates, ...]:
        """Of every gate, on tables of `n` select tasks."""
        if not self.rates:
            self.rates = null_rates(self.plan.tables, n=n, workers=self.plan.workers)
        return self.rates

    def _make(self, jobs: Sequence[Sequence[_Key]]) -> None:
        """A job's runs share a world, and what they have in common is measured once. It holds a seed's simulated runs
        from every start, since they take seconds, or the real ones from one."""
        if self.again and jobs:
            missing = sorted({f"{start}, seed {seed}" for job in jobs for _arm, start, seed in job})
            raise SetupError(
                f"the kept runs lack some that the tables need ({'; '.join(missing[:3])}): run the study again"
            )
        asked = [[self._wanted(*key) for key in job] for job in jobs]
        found = run_jobs(asked, workers=max(1, min(self.plan.workers, len(asked))))
        for job, results in zip(jobs, found, strict=True):
            self._known.update(zip(job, results, strict=True))

    def _wanted(self, arm: Arm, start: Start, seed: int) -> Wanted:
        return Wanted(start, run_config(arm, start, self.plan.sizes, seed=seed))

    def _runs(self, name: str, given: Mapping[str, Arm], start: Start, numbers: Sequence[int]) -> ArmRuns:
        arm = given[name]
        if not arm.of:
            return ArmRuns(name, arm, tuple(self._known[arm, start, seed] for seed in numbers))
        searched = [self._known[given[arm.of], start, seed] for seed in numbers]
        chosen = tuple(one.model_copy(update={"final": one.without_start}) for one in searched)
        return ArmRuns(name, arm, chosen)


def _arms_by_name(start: Start) -> Mapping[str, Arm]:
    """Those that are run themselves."""
    return {name: arm for name, arm in arms_of(start).items() if not arm.of}
