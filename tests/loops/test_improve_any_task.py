"""The loop over weights: how a round ends, what moves the head, and what is final (invariants 3, 4, 6, 8, 10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import weights_world as world
from weights_world import DOCTORED, OUT, attempts, finished, of_kind, play, rounds, start_weights

from heldout.config import ModelConfig
from heldout.errors import SetupError, TrainingError
from heldout.records import Candidate, Task
from heldout.store import RunFolder
from heldout.store.weights import weights_digest
from heldout.training import Fitted, TrainingJob
from heldout.worlds.formats.skills import read_checkpoint, write_checkpoint

GOOD = {"solver": {"model": {"options": {"skills": {"stop": 0.99, "wrapper": 0.95, "count": 0.9, "carry": 0.6}}}}}
"""A start that a narrow training only spoils."""

STEEP = {"options": {"preflight": {"loss_ratio": 10.0, "stop_rate": 0.0}}}
"""A ladder that lets spoilt models through."""

NO_LADDER = {"options": {"preflight": {"enabled": False}}}


def only_attempt(folder: RunFolder) -> Mapping[str, Any]:
    (attempt,) = attempts(folder)
    return attempt


def spoil(_: TrainingJob, fitted: Fitted | None) -> Fitted | None:
    """The training gives a model that can do hardly anything, whatever it learned."""
    if fitted is None:
        return None
    folder = Path(fitted.folder)
    checkpoint = read_checkpoint(folder)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    bad = dict.fromkeys(type(checkpoint.skills).model_fields, 0.01)
    write_checkpoint(folder, checkpoint.model_copy(update={"skills": checkpoint.skills.model_validate(bad)}))
    return None


def dies(error: BaseException) -> world.Doing:
    """Every full training dies of this; short ones do not."""

    def doing(job: TrainingJob, fitted: Fitted | None) -> None:
        if fitted is None and job.steps is None:
            raise error

    return doing


def out_for_children(parents: set[str], share: int) -> Callable[[Candidate, Task], str]:
    """The evaluator fails under every candidate but the first, on one task in `share`."""

    def out(candidate: Candidate, task: Task) -> str:
        parents.add(candidate.digest) if not parents else None
        return "cannot allocate memory" if candidate.digest not in parents and hash_of(task) % share == 0 else ""

    return out


def hash_of(task: Task) -> int:
    return sum(task.id.encode())


class TestHowAnAttemptEnds:
    """Invariant 4: whatever ends an attempt but an acceptance leaves the head; it stays on record with its cost."""

    @pytest.mark.parametrize(
        ("ids", "over", "status", "reason"),
        [
            (["leak_select"], (), "contaminated", "meet a task of select or of a sealed role"),
            (["nothing"], (), "no_data", "no example is left"),
            (["leaves"], (), "no_data", "the data builder 'weights_world:leaves' raised: SystemExit: 96"),
            (["huge_rate"], (), "preflight_failed", "the loss is not finite at step 2"),
            (["huge_rate"], (NO_LADDER,), "training_failed", "the loss is not finite at step 2"),
            (
                ["other_template"],
                ({"options": {"preflight": {"repairs": 0}}},),
                "preflight_failed",
                "template: not 8 of 8",
            ),
        ],
        ids=["contaminated", "no_data", "builder_leaves", "preflight_b", "training_failed", "preflight_a"],
    )
    def test_invariant_4_an_attempt_that_dies_leaves_the_head_and_stays_on_record(
        self, tmp_path: Path, ids: list[str], over: tuple[Mapping[str, Any], ...], status: str, reason: str
    ) -> None:
        folder = play(tmp_path, *ids, over=over)
        attempt = only_attempt(folder)
        assert attempt["status"] == status
        assert reason in attempt["reason"]
        assert attempt["strategy"] == ids[0]
        assert attempt["spend"]["cpu_s"] > 0.0
        untouched(folder)

    @pytest.mark.parametrize("gate", ["net", "greedy", "noise", "mcnemar"])
    def test_invariants_4_and_6_a_worse_child_is_rejected_by_every_gate(self, tmp_path: Path, gate: str) -> None:
        """Scores are to be maximised; no setting and no reply of an improver turns that round."""
        noisy = {"options": {"training_noise": gate == "noise"}}
        config = world.start(tmp_path, "mixture", over=(GOOD, STEEP, DOCTORED, {"gate": {"kind": gate}}, noisy))
        world.DOINGS.append(spoil)
        folder = world.finish(config, tmp_path / "run")
        attempt = only_attempt(folder)
        assert attempt["status"] == "rejected"
        assert attempt["select_gain"] < -0.3
        untouched(folder)

    def test_invariant_4_a_trainer_that_raises_is_a_training_that_failed(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end", over=(DOCTORED,))
        world.DOINGS.append(dies(ValueError("the optimiser broke")))
        folder = world.finish(config, tmp_path / "run")
        assert only_attempt(folder)["status"] == "training_failed"
        assert "the trainer raised: ValueError: the optimiser broke" in only_attempt(folder)["reason"]
        untouched(folder)

    @pytest.mark.parametrize("full", [False, True], ids=["short_run", "full_run"])
    @pytest.mark.parametrize(
        "accident",
        [
            MemoryError(),
            RuntimeError("[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory"),
            TrainingError("a process was lost", missing=True),
            TimeoutError("no step for an hour"),
        ],
        ids=["memory", "torch_memory", "lost_process", "timeout"],
    )
    def test_invariant_12_an_accident_is_not_measured_and_the_same_recipe_may_be_tried_again(
        self, tmp_path: Path, accident: Exception, full: bool
    ) -> None:
        config = world.start(tmp_path, "same_data", over=(DOCTORED, rounds(2)))
        left = [accident]

        def once(job: TrainingJob, fitted: Fitted | None) -> None:
            if left and fitted is None and (job.steps is None) == full:
                raise left.pop()

        world.DOINGS.append(once)
        folder = world.finish(config, tmp_path / "run")
        first, second = attempts(folder)
        assert first["status"] == "not_measured"
        assert (second["status"], second["strategy"]) == ("accepted", "same_data")
        (one, again) = (data for data in of_kind(folder, "dataset"))
        assert one["digest"] == again["digest"], "the very same data was trained on"
        assert len(of_kind(folder, "decision")) == 1

    def test_invariant_12_a_child_that_could_not_be_evaluated_is_not_measured(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end", over=(OUT, NO_LADDER, rounds(2)))
        world.OUTAGES.append(out_for_children(set(), 1))
        folder = world.finish(config, tmp_path / "run")
        assert [one["status"] for one in attempts(folder)] == ["not_measured", "not_measured"]
        untouched(folder)

    def test_invariant_12_a_child_that_lacks_some_scores_is_not_accepted_for_the_rest(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end", over=(GOOD, OUT, NO_LADDER, DOCTORED))
        world.OUTAGES.append(out_for_children(set(), 2))
        folder = world.finish(config, tmp_path / "run")
        assert only_attempt(folder)["status"] == "undecided"
        assert "of 32 tasks; a verdict needs 80% of the tasks" in only_attempt(folder)["reason"]
        untouched(folder)

    def test_invariant_12_memory_that_ends_the_evaluation_of_a_short_run_is_no_failed_check(
        self, tmp_path: Path
    ) -> None:
        config = world.start(tmp_path, "end", over=(OUT,))
        world.OUTAGES.append(out_for_children(set(), 1))
        folder = world.finish(config, tmp_path / "run")
        assert only_attempt(folder)["status"] == "not_measured"
        assert [data["stage"] for data in of_kind(folder, "preflight")] == ["a"]
        (lost,) = (data for data in of_kind(folder, "prepared") if data["purpose"] == "preflight")
        assert lost["spend"]["cpu_s"] == pytest.approx(15 * 0.06), "the short run was paid for all the same"
        untouched(folder)

    def test_invariant_4_the_same_data_and_config_are_not_trained_on_twice(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "same_data", over=(rounds(2),))
        assert [one["status"] for one in attempts(folder)] == ["accepted", "repeated"]
        assert len(of_kind(folder, "training")) == 1
        assert world.head(folder) == attempts(folder)[0]["candidate"]

    def test_a_search_ends_where_nothing_is_left_to_try(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "leak_select", over=(rounds(5),))
        assert [one["status"] for one in attempts(folder)] == ["contaminated", "no_strategy"]
        assert "nothing is left to try" in finished(folder)["stop_reason"]

    def test_an_accepted_child_is_the_next_parent(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "mixture", "end", over=(rounds(2),))
        first, second = of_kind(folder, "training")
        assert attempts(folder)[0]["status"] == "accepted"
        assert second["parent"] == first["weights"] != first["parent"] == start_weights(folder)
        assert of_kind(folder, "diagnosis")[1]["head"] == attempts(folder)[0]["candidate"]


def untouched(folder: RunFolder) -> None:
    """The head is the start, its weights are what they were, and the run says that nothing improved."""
    assert of_kind(folder, "track.moved") == []
    done = finished(folder)
    assert (done["status"], done["final"]) == ("unchanged", done["start"])
    weights = start_weights(folder)
    assert weights_digest(folder.weights / weights) == weights
    assert not any(folder.work.glob("*")), "work in progress was left behind"


class TestOrder:
    @pytest.mark.parametrize("ids", [["end"], ["other_template"], ["huge_rate"], ["leak_select"]])
    def test_invariant_3_no_full_training_before_both_stages_passed_for_its_digests(
        self, tmp_path: Path, ids: list[str]
    ) -> None:
        folder = play(tmp_path, *ids, "mixture", over=(rounds(2),))
        passed: set[tuple[Any, ...]] = set()
        trainings = 0
        for event in world.events(folder):
            data = event.data
            if event.kind == "preflight":
                stage = (data["stage"], data["data"], data["config"])
                passed = passed | {stage} if data["passed"] else passed - {stage}
                assert data["stage"] == "a" or ("a", *stage[1:]) in passed, "b before a"
            if event.kind == "training":
                trainings += 1
                assert {(stage, data["data"], data["config"]) for stage in "ab"} <= passed
        assert trainings >= 1

    def test_the_ladder_can_be_left_out_and_then_nothing_of_it_is_on_record(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "end", over=(NO_LADDER,))
        assert of_kind(folder, "preflight") == []
        assert only_attempt(folder)["status"] == "accepted"


class TestFinal:
    def test_invariant_8_the_start_competes_and_wins_where_all_is_worse(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "mixture", over=(GOOD, STEEP, DOCTORED))
        world.DOINGS.append(spoil)
        folder = world.finish(config, tmp_path / "run")
        (selected,) = of_kind(folder, "selected")
        assert [one["round"] for one in selected["finalists"]] == [0]
        assert selected["rule"].endswith("must pass the gate too; the start wins ties, then the head")
        assert selected["final"] == finished(folder)["start"]
        untouched(folder)

    def test_the_paper_leaves_the_start_out_and_may_end_below_it(self, tmp_path: Path) -> None:
        over = (GOOD, STEEP, DOCTORED, {"options": {"keep_start": False}})
        config = world.start(tmp_path, "mixture", over=over)
        world.DOINGS.append(spoil)
        folder = world.finish(config, tmp_path / "run")
        done = finished(folder)
        assert only_attempt(folder)["status"] == "rejected"
        assert done["final"] == only_attempt(folder)["candidate"] != done["start"]
        assert done["select_gain"] < -0.3
        assert of_kind(folder, "selected")[0]["rule"].endswith("; the start is left out")
        (audit,) = (data for data in of_kind(folder, "audit") if data["role"] == "audit")
        assert audit["gain"] < -0.3, "what the paper's rule ships is audited like anything else"

    def test_without_the_start_a_run_without_any_child_still_ends_with_it(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "leak_select", over=({"options": {"keep_start": False}},))
        untouched(folder)

    def test_a_rejected_child_is_final_only_where_it_is_better_by_fresh_measurements_or_by_the_gate(
        self, tmp_path: Path
    ) -> None:
        """Spec, section 6, 9: the pool holds every evaluated model. The scores that a gate has seen are not enough."""
        never = {"gate": {"kind": "weights_world:Never"}}
        again = {"solver": {"model": {"temperature": 0.05}}}
        seen, fresh = (
            play(tmp_path, "end", over=(never, *more), name=name) for name, more in (("seen", ()), ("fresh", (again,)))
        )
        assert [only_attempt(folder)["status"] for folder in (seen, fresh)] == ["rejected", "rejected"]
        assert finished(seen)["status"] == "unchanged"
        assert (finished(fresh)["status"], finished(fresh)["final"]) == ("improved", only_attempt(fresh)["candidate"])
        (selected,) = of_kind(fresh, "selected")
        assert [one["round"] for one in selected["finalists"]] == [0, 1]


class TestRetainFloor:
    FLOOR: Mapping[str, Any] = {"options": {"retain": {"floor": -2.0}}}

    @staticmethod
    def forget(_: TrainingJob, fitted: Fitted | None) -> Fitted | None:
        """The training costs every plain skill, and nothing else."""
        if fitted is None:
            return None
        folder = Path(fitted.folder)
        checkpoint = read_checkpoint(folder)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        skills = checkpoint.skills.model_copy(update={"copies": 0.05, "reverse": 0.05, "sort": 0.05})
        write_checkpoint(folder, checkpoint.model_copy(update={"skills": skills}))
        return None

    def test_the_floor_vetoes_a_child_and_keeps_its_twin_from_being_final(self, tmp_path: Path) -> None:
        """The same recipe with another seed is in the pool too, though no gate ever accepted it."""
        noisy = {"solver": {"model": {"options": {"learning": {"speed": 40.0, "noise": 1.0}}}}}
        over = (DOCTORED, self.FLOOR, noisy, {"options": {"training_noise": True}})
        config = world.start(tmp_path, "end", over=over)
        world.DOINGS.append(self.forget)
        folder = world.finish(config, tmp_path / "run")
        attempt = only_attempt(folder)
        assert attempt["status"] == "rejected"
        assert attempt["select_gain"] > 0.2
        assert "points on retain, below the floor of -2" in attempt["reason"]
        child, twin = of_kind(folder, "abilities")
        assert child["candidate"] == attempt["candidate"] != twin["candidate"]
        assert max(child["gain"], twin["gain"]) < -0.5
        untouched(folder)

    def test_the_role_is_opened_on_record_and_its_cost_is_the_attempts(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "end", over=(self.FLOOR,))
        opened = [data for data in of_kind(folder, "audit.opened") if data.get("role") == "retain"]
        assert opened[0]["by"] == "options.retain.floor, which decides with it"
        assert only_attempt(folder)["status"] == "accepted"
        kinds = [event.kind for event in world.events(folder)]
        assert kinds.index("audit.opened") < kinds.index("decision")
        without = play(tmp_path, "end", name="without")
        more = only_attempt(folder)["spend"]["evaluations"] - only_attempt(without)["spend"]["evaluations"]
        assert more == 12

    def test_a_floor_about_a_role_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match=r"tasks\.reports\.retain"):
            play(tmp_path, "end", over=(self.FLOOR, {"tasks": {"reports": {"retain": 0}}}))


class TestNoise:
    def test_the_gate_noise_accepts_nothing_while_the_second_training_dies(self, tmp_path: Path) -> None:
        over = (DOCTORED, {"gate": {"kind": "noise"}, "options": {"training_noise": True}}, rounds(2))
        config = world.start(tmp_path, "end", "mixture", over=over)
        full: list[int] = []

        def second_dies(job: TrainingJob, fitted: Fitted | None) -> Fitted | None:
            if job.steps is None and fitted is not None:
                full.append(1)
                if len(full) == 2:
                    raise TrainingError("the loss is not finite")
            return None

        world.DOINGS.append(second_dies)
        first, second = attempts(world.finish(config, tmp_path / "run"))
        assert first["status"] == "undecided"
        assert "could not be trained twice" in first["reason"]
        assert second["status"] == "accepted", "its own recipe was trained twice"
        assert len(full) == 4

    def test_the_first_recipe_is_trained_twice_and_the_gate_noise_asks_for_more_than_both(self, tmp_path: Path) -> None:
        noisy = {"solver": {"model": {"options": {"learning": {"speed": 40.0, "noise": 8.0}}}}}
        over = (noisy, {"gate": {"kind": "noise"}, "options": {"training_noise": True}}, rounds(2))
        folder = play(tmp_path, "end", "mixture", over=over)
        (noise,) = of_kind(folder, "training.noise")
        first, second = (data for data in of_kind(folder, "training") if data["round"] == 1)
        assert (first.get("repeat", 0), second["repeat"]) == (0, 1)
        assert (first["data"], first["config"]) == (second["data"], second["config"])
        assert first["seed"] != second["seed"]
        assert first["weights"] != second["weights"]
        assert noise["standard_error"] == pytest.approx(abs(noise["difference"]) / 2**0.5)
        evidence = of_kind(folder, "decision")[0]["decision"]["evidence"]
        assert evidence["training_se"] == noise["standard_error"] > 0.0
        assert evidence["threshold"] > 2.0 * noise["standard_error"]

    def test_noise_of_training_is_in_the_journal_once_for_a_run(self, tmp_path: Path) -> None:
        over = ({"options": {"training_noise": True}}, rounds(3))
        folder = play(tmp_path, "leak_select", "end", "mixture", over=over)
        assert [data["round"] for data in of_kind(folder, "training.noise")] == [2]
        assert sum(data.get("repeat", 0) for data in of_kind(folder, "training")) == 1


class TestOptions:
    def test_a_gain_that_select_cannot_resolve_is_refused_with_the_size_that_could(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError) as caught:
            play(tmp_path, "end", over=({"options": {"target_gain": 4.0}},))
        # p / (g/2)² = 0.2 / 0.02² = 500; and 2·√(0.2/32) = 15.8 points are what 32 tasks resolve.
        assert "set tasks.select to 500 or more, or options.target_gain to 15.8" in str(caught.value)
        assert play(tmp_path, "end", over=({"options": {"target_gain": 16.0}},), name="enough")
        on_train = {"tasks": {"train": 20}, "options": {"target_gain": 16.0, "decide_on": "train"}}
        with pytest.raises(SetupError, match=r"20 train tasks cannot.*set tasks\.train to"):
            play(tmp_path, "end", over=(on_train,), name="train")

    def test_the_paper_decides_on_the_tasks_that_it_diagnoses(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "end", "mixture", over=({"options": {"decide_on": "train"}}, rounds(2)))
        children = {data["digest"] for data in of_kind(folder, "candidate") if data.get("parent")}
        sweeps = {data["purpose"] for data in of_kind(folder, "outcome") if data["candidate"] in children}
        assert "select" not in sweeps
        assert attempts(folder)[0]["status"] == "accepted"
        score = of_kind(folder, "diagnosis")[1]["score"]
        assert of_kind(folder, "decision")[0]["scores"] == [score], "the score that decided is the one diagnosed"
        by_round = [one["spend"]["evaluations"] for one in attempts(folder)]
        assert by_round == [32 + 32 + 8, 32 + 8], "the sweep that decided round 1 is no cost of round 2 again"

    @pytest.mark.parametrize(
        ("over", "told"),
        [
            ({"improver": {"kind": "rewrite", "options": {}}}, "training_catalog"),
            ({"gate": {"kind": "fresh"}}, "use net, greedy, noise or mcnemar"),
            ({"options": {"allowed_bases": ["0" * 64]}}, "are not among options.allowed_bases"),
            ({"options": {"min_strategies": 9}}, "options.min_strategies"),
            ({"options": {"backend": "nope"}}, "no trainer 'nope'"),
            ({"options": {"backend": "weights_world:Lacking"}}, "'trl_of_tomorrow' is not installed"),
            ({"search": {"candidates": 3}}, "search.candidates = 3 is nothing that"),
            ({"search": {"iterate": False}}, "set search.iterate=true"),
            ({"search": {"rerun_incumbent": True}}, "set search.rerun_incumbent=false"),
            ({"gate": {"kind": "noise"}}, "set options.training_noise=true"),
            ({"improver": {"kind": "weights_world:Bare", "options": {}}}, "lacks uses_model, bound, research"),
        ],
        ids=[
            "improver",
            "gate",
            "base",
            "library",
            "backend",
            "extra",
            "candidates",
            "iterate",
            "rerun",
            "noise",
            "bare improver",
        ],
    )
    def test_what_does_not_fit_together_is_told(self, tmp_path: Path, over: Mapping[str, Any], told: str) -> None:
        with pytest.raises(SetupError, match=told):
            play(tmp_path, "end", over=(over,))

    def test_a_model_without_weights_of_its_own_is_refused(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end")
        solver = config.solver.model_copy(update={"model": ModelConfig(name="simulated")})
        with pytest.raises(SetupError, match="has none that can be trained: use pocket:base"):
            world.finish(config.model_copy(update={"solver": solver}), tmp_path / "run")


class TestAssets:
    def test_invariant_10_an_asset_names_a_completed_training_and_is_offered_from_then_on(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "leak_select", "mixture", "end", over=(world.SEEING, rounds(3)))
        folder = world.finish(config, tmp_path / "run")
        completed = {data["weights"] for data in of_kind(folder, "training") if data.get("weights")}
        added = of_kind(folder, "asset.added")
        assert {data["round"] for data in added} == {2, 3}
        assert {data["validated_on"] for data in added} <= completed
        offered = {
            (type(view).__name__, view.round): [(asset.strategy, asset.validated_on) for asset in view.assets]
            for view in world.VIEWS
            if not isinstance(view, world.DiagnosisView)
        }
        assert offered["ResearchView", 1] == offered["ResearchView", 2] == offered["BuildView", 2] == []
        of_mixture = next(data["validated_on"] for data in added if data["round"] == 2)
        assert offered["ResearchView", 3] == offered["BuildView", 3] == [("mixture", of_mixture)] * 2

    def test_invariant_10_an_asset_is_kept_although_its_model_was_rejected(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "mixture", over=(GOOD, STEEP, DOCTORED))
        world.DOINGS.append(spoil)
        folder = world.finish(config, tmp_path / "run")
        assert only_attempt(folder)["status"] == "rejected"
        assert [data["kind"] for data in of_kind(folder, "asset.added")] == ["data_builder", "config"]

    def test_invariant_10_a_training_that_died_leaves_none(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end", over=(DOCTORED,))
        world.DOINGS.append(dies(ValueError("no")))
        assert of_kind(world.finish(config, tmp_path / "run"), "asset.added") == []

    def test_assets_can_be_withheld(self, tmp_path: Path) -> None:
        over = (world.SEEING, rounds(2), {"options": {"assets": False}})
        world.finish(world.start(tmp_path, "mixture", "end", over=over), tmp_path / "run")
        assert all(view.assets == () for view in world.VIEWS if not isinstance(view, world.DiagnosisView))


def test_the_second_training_of_a_recipe_is_told_apart_in_what_its_attempt_cost(tmp_path: Path) -> None:
    """A simulated training takes 3.6 processor seconds, which no later attempt will take twice."""
    folder = play(tmp_path, "mixture", "end", over=(rounds(2), {"options": {"training_noise": True}}))
    first, second = attempts(folder)
    assert first["noise_spend"]["cpu_s"] == pytest.approx(3.6, abs=0.3)
    assert first["spend"]["cpu_s"] > 3.6 + first["noise_spend"]["cpu_s"]
    assert second.get("noise_spend", {}).get("cpu_s", 0.0) == 0.0


def test_a_builder_may_yield_its_examples(tmp_path: Path) -> None:
    folder = play(tmp_path, "yields")
    assert of_kind(folder, "dataset")[0]["built"] == 96
    assert attempts(folder)[0]["status"] == "accepted"
