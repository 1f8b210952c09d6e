"""Everything that is paid for is counted, limits hold with a training in flight, and a stopped run goes on
(invariant 7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import weights_world as world
from weights_world import DOCTORED, attempts, finished, of_kind, rounds

from heldout.loops import load_loop
from heldout.records import Spend
from heldout.store import RunFolder
from heldout.training import Fitted, TrainingJob, Watch
from heldout.training.simulated import SimulatedTrainer
from heldout.workbench import Opening, resume, run
from heldout.workbench.opening import open_run

QUICK = {"solver": {"model": {"options": {"learning": {"speed": 40.0, "noise": 0.0, "step_s": 1e-6}}}}}
"""Simulated steps that promise to take no time."""

SLEEPY = {"options": {"backend": "test_improve_any_task_budget:SleepyTrainer", "train": {"steps": 60}}}
UNAUDITED = {"audit": {"auto": False}}
"""A search that has seen the audit never goes on, so it is left to a later command."""

TOILS: list[Callable[[], object]] = []
"""What each step of a full training does beside; set by a test."""

LASTING = ("candidate", "diagnosis", "strategies", "dataset", "preflight", "training", "decision", "track.moved")


class SleepyTrainer(SimulatedTrainer):
    """It works longer than anything let expect."""

    foretells = False

    def fit(self, job: TrainingJob, watch: Watch) -> Fitted:
        def step(number: int, loss: float) -> None:
            for toil in TOILS if job.steps is None else ():
                toil()
            watch.step(number, loss)

        return super().fit(job, Watch(step=step, stop=watch.stop))


def work_hard() -> None:
    """A tenth of a second of processor time."""
    until = time.process_time() + 0.1
    while time.process_time() < until:
        sum(range(2000))


def spent_by_kind(folder: RunFolder) -> Spend:
    """The sum over every event that says what something cost; an attempt only sums up others."""
    spends = [event.data.get("spend", {}) for event in world.events(folder) if event.kind != "attempt"]
    return sum((Spend.model_validate(one) for one in spends), start=Spend())


def test_invariant_7_the_events_say_what_the_ledger_says(tmp_path: Path) -> None:
    noisy = {"options": {"training_noise": True, "retain": {"floor": -50.0}}}
    config = world.start(tmp_path, "leak_select", "huge_rate", "mixture", "end", over=(DOCTORED, rounds(5), noisy))
    left = [MemoryError(), MemoryError()]

    def accidents(job: TrainingJob, fitted: Fitted | None) -> None:
        """The first short run of `mixture` and then its first full one find no memory."""
        if (
            fitted is None
            and left
            and job.config.optimiser.learning_rate < 1.0
            and (job.steps is None) == (len(left) == 1)
        ):
            raise left.pop()

    world.DOINGS.append(accidents)
    with open_run(config, Opening(tmp_path / "run", command="test")) as opened:
        load_loop(config.loop)(opened.session).run(opened.start)
        total, by_purpose = opened.session.ledger.total, dict(opened.session.ledger.spent)
    folder = RunFolder(tmp_path / "run")
    statuses = [one["status"] for one in attempts(folder)]
    assert statuses == ["contaminated", "preflight_failed", "not_measured", "not_measured", "accepted"]
    found = spent_by_kind(folder)
    for name, value in total:
        assert getattr(found, name) == pytest.approx(value, rel=1e-6, abs=1e-6), name
    assert {"build", "diagnose", "research", "preflight", "training", "train", "select", "retain"} <= set(by_purpose)
    assert by_purpose["build"].cpu_s > 0.01, "building data takes time, and that counts"
    rest = ("run.started", "attempt")
    assert {event.kind for event in world.events(folder) if event.data.get("spend")} <= {
        *("outcome", "prepared", "diagnosis", "strategies", "dataset", "preflight", "training"),
        *rest,
    }


@pytest.mark.parametrize("cpu_s", [1.2, 2.5, 4.0, 6.0, 9.0])
def test_invariant_7_simulated_seconds_never_pass_a_limit(tmp_path: Path, cpu_s: float) -> None:
    """A short run takes 0.9 of them and a full training 3.6, or less after a repair; what is set aside is exact."""
    over = (rounds(3), {"budget": {"cpu_s": cpu_s}}, UNAUDITED)
    folder = world.finish(world.start(tmp_path, "mixture", "end", over=over), tmp_path / "run")
    assert min(1.0, 0.3 * cpu_s) < spent_by_kind(folder).cpu_s <= cpu_s


OVER = (QUICK, SLEEPY, rounds(2), UNAUDITED)


def unlimited(tmp_path: Path) -> RunFolder:
    """The run that no limit stops."""
    return world.finish(world.start(tmp_path, "mixture", "end", over=OVER), tmp_path / "whole")


def stopped_and_resumed(
    tmp_path: Path, budget: Mapping[str, Any], toil: Callable[[], object] = bool
) -> tuple[RunFolder, str]:
    """A run that a limit stopped, and that went on without; and why it had stopped."""
    config = world.start(tmp_path, "mixture", "end", over=(*OVER, {"budget": budget}))
    TOILS[:] = [toil]
    try:
        folder = run(config, Opening(tmp_path / "stopped", command="test"))
    finally:
        TOILS.clear()
    assert finished(folder)["status"] == "stopped"
    reason = finished(folder)["stop_reason"]
    larger = config.model_copy(update={"budget": config.budget.model_copy(update=dict.fromkeys(budget, 100_000))})
    resume(Opening(folder.path, command="again", resume=True), config=larger)
    return folder, reason


def test_invariant_7_processor_seconds_stop_a_training_in_its_midst_and_it_goes_on(tmp_path: Path) -> None:
    folder, reason = stopped_and_resumed(tmp_path, {"cpu_s": 2.5}, work_hard)
    assert reason == "budget.cpu_s leaves no room for the rest of this training"
    lost = stopped_training(folder)
    assert lost["spend"]["cpu_s"] > 0.3
    assert spent_before_the_stop(folder).cpu_s <= 2.5 + 0.1  # the step that was under way
    assert_same_result(unlimited(tmp_path), folder)


def test_invariant_7_elapsed_seconds_stop_a_training_in_its_midst_and_it_goes_on(tmp_path: Path) -> None:
    whole = unlimited(tmp_path)
    limit = 2.0 + 3.0 * finished(whole)["elapsed_s"]
    folder, reason = stopped_and_resumed(tmp_path, {"wall_s": limit}, lambda: time.sleep(limit / 12.0))
    assert reason == "budget.wall_s leaves no room for the rest of this training"
    under_way = limit / 12.0
    assert of_kind(folder, "run.finished")[0]["elapsed_s"] <= limit + under_way + 1.0
    assert stopped_training(folder)["spend"]["wall_s"] > under_way
    assert_same_result(whole, folder)


def test_invariant_7_a_limit_on_evaluations_holds_and_the_run_goes_on(tmp_path: Path) -> None:
    folder, reason = stopped_and_resumed(tmp_path, {"evaluations": 160})
    assert reason.startswith("budget.evaluations = 160 leaves no room for ")
    assert 100 < spent_before_the_stop(folder).evaluations <= 160
    keys = [data["key"] for data in of_kind(folder, "outcome")]
    assert len(set(keys)) == len(keys), "an evaluation was paid twice"
    assert_same_result(unlimited(tmp_path), folder)


def stopped_training(folder: RunFolder) -> Mapping[str, Any]:
    """The event that says what the stopped part of a training had cost."""
    (lost,) = (data for data in of_kind(folder, "prepared") if data["purpose"] == "training")
    assert lost["key"] == "stopped/training/round-1-0-0/0"
    first = next(event for event in world.events(folder) if event.kind in ("training", "run.finished"))
    assert first.kind == "run.finished", "the training had ended before the run stopped"
    return lost


def spent_before_the_stop(folder: RunFolder) -> Spend:
    events = world.events(folder)
    until = next(number for number, event in enumerate(events) if event.kind == "run.finished")
    spends = [event.data.get("spend", {}) for event in events[:until] if event.kind != "attempt"]
    return sum((Spend.model_validate(one) for one in spends), start=Spend())


def assert_same_result(whole: RunFolder, folder: RunFolder) -> None:
    for kind in LASTING:
        assert lasting(folder, kind) == lasting(whole, kind), kind
    assert finished(folder)["final"] == finished(whole)["final"]
    assert finished(folder)["status"] == "improved"


CLOCKED = ("spend", "checks", "seconds_per_step", "peak_memory_mb", "projected_s", "cost_s", "score", "why", "lost")


def lasting(folder: RunFolder, kind: str) -> list[Any]:
    """Events without what depends on the clock: costs, and what a researcher expects from them."""
    return [_without_clock(data) for data in of_kind(folder, kind)]


def _without_clock(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_clock(item) for key, item in value.items() if key not in CLOCKED}
    return [_without_clock(item) for item in value] if isinstance(value, list | tuple) else value


def test_a_stopped_run_is_audited_and_what_it_found_is_kept(tmp_path: Path) -> None:
    """The head is final, and the audit had its share held."""
    config = world.start(tmp_path, "mixture", "end", over=(rounds(9), {"budget": {"evaluations": 300}}))
    folder = world.finish(config, tmp_path / "run")
    done = finished(folder)
    assert attempts(folder)[0]["status"] == "accepted"
    assert (done["status"], done["final"]) == ("stopped", world.head(folder))
    (audit,) = (data for data in of_kind(folder, "audit") if data["role"] == "audit")
    assert (audit["n_tasks"], audit["final"]) == (24, done["final"])
    assert sum(event.kind == "outcome" for event in world.events(folder)) <= 300


def test_a_stopped_run_that_decides_on_train_keeps_what_it_found(tmp_path: Path) -> None:
    """Start and head are compared on the tasks that decide, which are not those of select."""
    over = ({"options": {"decide_on": "train"}, "tasks": {"train": 36}, "budget": {"evaluations": 240}}, rounds(9))
    folder = world.finish(world.start(tmp_path, "mixture", "end", over=over), tmp_path / "run")
    done = finished(folder)
    assert attempts(folder)[0]["status"] == "accepted"
    assert (done["status"], done["final"]) == ("stopped", world.head(folder))


@pytest.mark.parametrize("keep_start", [True, False])
def test_a_stopped_run_chooses_its_final_by_the_rules_of_one_that_ended(tmp_path: Path, keep_start: bool) -> None:
    """One child, which the gate rejected: the start wins over it, and the paper's rule leaves the start out."""
    over = ({"gate": {"kind": "weights_world:Never"}, "budget": {"evaluations": 180}}, rounds(9))
    config = world.start(tmp_path, "end", "mixture", over=(*over, {"options": {"keep_start": keep_start}}))
    folder = world.finish(config, tmp_path / "run")
    done = finished(folder)
    assert [one["status"] for one in attempts(folder)] == ["rejected"]
    assert done["status"] == "stopped"
    assert of_kind(folder, "selected") == [], "it may go on with a larger budget"
    assert done["final"] == (done["start"] if keep_start else attempts(folder)[0]["candidate"])


def test_a_training_that_would_pass_the_limit_on_accelerators_fails_its_preflight(tmp_path: Path) -> None:
    """Sixty steps of 0.6 s would take 36 s on each of two accelerators."""

    def on_two(_job: TrainingJob, fitted: Fitted | None) -> Fitted | None:
        if fitted is None:
            return None
        spend = fitted.spend.model_copy(update={"wall_s": 9.0, "gpu_s": 18.0})
        return fitted.model_copy(update={"spend": spend, "seconds_per_step": 0.6})

    def found(limit: float) -> tuple[str, str]:
        over = (DOCTORED, {"budget": {"gpu_s": limit}, "options": {"preflight": {"repairs": 0}}}, UNAUDITED)
        config = world.start(tmp_path, "mixture", over=over)
        world.DOINGS.append(on_two)
        folder = world.finish(config, tmp_path / f"run-{limit:g}")
        return attempts(folder)[0]["status"], attempts(folder)[0]["reason"]

    status, reason = found(18.0 + 72.0)
    assert status == "preflight_failed"
    assert reason.startswith("time: 36")
    assert found(18.0 + 1.25 * 72.0 + 1.0)[0] == "accepted"


class GoesOnTrainer(SimulatedTrainer):
    """Its full trainings go on from a checkpoint of a killed process, which cost three seconds."""

    dies: ClassVar[bool] = False

    def spent(self, job: TrainingJob) -> Spend:
        return Spend(cpu_s=3.0) if job.steps is None else Spend()

    def fit(self, job: TrainingJob, watch: Watch) -> Fitted:
        if job.steps is None and self.dies:
            raise MemoryError
        fitted = super().fit(job, watch)
        if job.steps is not None:
            return fitted
        return fitted.model_copy(update={"resumed_from": 5, "spend": fitted.spend + self.spent(job)})


class DiesAgainTrainer(GoesOnTrainer):
    dies = True


@pytest.mark.parametrize(("trainer", "status"), [("GoesOn", "accepted"), ("DiesAgain", "not_measured")])
def test_invariant_7_what_a_killed_process_had_spent_on_a_training_counts_once(
    tmp_path: Path, trainer: str, status: str
) -> None:
    """Also where the training that went on dies too."""
    config = world.start(
        tmp_path, "mixture", over=({"options": {"backend": f"{__name__}:{trainer}Trainer"}}, UNAUDITED)
    )
    with open_run(config, Opening(tmp_path / "run", command="test")) as opened:
        load_loop(config.loop)(opened.session).run(opened.start)
        spent = opened.session.ledger.spent["training"].cpu_s
    folder = RunFolder(tmp_path / "run")
    assert attempts(folder)[0]["status"] == status
    assert stopped_before(folder)["spend"]["cpu_s"] == 3.0
    own = of_kind(folder, "training")[0]["spend"]["cpu_s"]
    assert spent == pytest.approx(3.0 + own)
    assert attempts(folder)[0]["spend"]["cpu_s"] >= 3.0 + own
    assert own == pytest.approx(0.0 if status == "not_measured" else 3.6, abs=0.05)


def stopped_before(folder: RunFolder) -> Mapping[str, Any]:
    """The event of the part that the killed process ran."""
    (told,) = (data for data in of_kind(folder, "prepared") if data["key"].startswith("stopped/training/"))
    return told


def test_a_budget_that_no_strategy_fits_stops_the_run_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    dear = {"improver": {"options": {"seconds": 1000.0}}}  # what the library says to take 0.1 s
    config = world.start(tmp_path, "mixture", "end", over=(rounds(2), dear, UNAUDITED))
    small = config.model_copy(update={"budget": config.budget.model_copy(update={"cpu_s": 30.0})})
    folder = run(small, Opening(tmp_path / "run", command="test"))
    done = finished(folder)
    assert (done["status"], done["final"]) == ("stopped", done["start"])
    assert "of 2 strategies 2 would take longer than there is time" in done["stop_reason"]
    assert of_kind(folder, "strategies") == [], "the choice is not on record, so that it is made again"
    resume(Opening(folder.path, command="again", resume=True), config=config)
    assert finished(folder)["status"] == "improved"
    assert [one["status"] for one in attempts(folder)] == ["accepted", "accepted"]
    total = spent_by_kind(folder)
    assert total.cpu_s == pytest.approx(sum(one["spend"]["cpu_s"] for one in attempts(folder)), rel=0.25)


def test_seconds_of_accelerators_limit_nothing_where_none_is_used(tmp_path: Path) -> None:
    folder = play_unaudited(tmp_path, {"budget": {"gpu_s": 1e-6}})
    assert attempts(folder)[0]["status"] == "accepted"


def play_unaudited(tmp_path: Path, *over: Mapping[str, Any]) -> RunFolder:
    return world.finish(world.start(tmp_path, "mixture", "end", over=(*over, UNAUDITED)), tmp_path / "run")
