"""The loop over weights: nothing is decided on what was not measured, on the audit, or on files that changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import weights_world as world
from weights_world import DOCTORED, OUT, attempts, finished, of_kind, play, rounds

from heldout.errors import SetupError, StoreError, TaskError, TrainingError
from heldout.models.base import DAMAGED_WEIGHTS, Reply
from heldout.records import Candidate, Task
from heldout.store import RunFolder
from heldout.tasks import load_tasks
from heldout.training import Fitted, TrainConfig, TrainingJob
from heldout.training.data import EXAMPLES_FILE, read_examples
from heldout.training.preflight import stage_b
from heldout.workbench import Opening, run

CLOSE: Mapping[str, Any] = {
    "solver": {
        "model": {
            "options": {
                "skills": {"stop": 0.97, "wrapper": 0.9, "count": 0.9, "carry": 0.6},
                "learning": {"speed": 6.0, "noise": 0.0},
            }
        }
    },
    "options": {"preflight": {"enabled": False}},
}
"""A start that is good, and a training that is not much better."""

FLOOR: Mapping[str, Any] = {"options": {"retain": {"floor": -2.0}}}


def scores(folder: RunFolder, purpose: str) -> list[Mapping[str, float]]:
    """Of every candidate in the lineage, by task."""
    outcomes = [data for data in of_kind(folder, "outcome") if data["purpose"] == purpose]
    return [
        {one["task"]: one["score"] for one in outcomes if one["candidate"] == candidate["digest"]}
        for candidate in of_kind(folder, "candidate")
    ]


def only_children(tasks: set[str], digests: list[str]) -> Any:
    """An outage of these tasks under every candidate but the first that is asked."""

    def out(candidate: Candidate, task: Task) -> str:
        digests.append(candidate.digest)
        return "the server is away" if candidate.digest != digests[0] and task.id in tasks else ""

    return out


class TestGoingMissing:
    def test_a_child_whose_gain_rests_on_missing_scores_is_not_final(self, tmp_path: Path) -> None:
        before, after = scores(play(tmp_path, "mixture", over=(CLOSE, OUT)), "select")
        lead = sum(after.values()) - sum(before.values())
        right = [task for task in before if before[task] == 1.0 == after[task]][:6]
        assert 0.0 < lead < len(right) < 0.2 * len(before), "this start and training show nothing"

        config = world.start(tmp_path, "mixture", over=(CLOSE, OUT))
        world.OUTAGES.append(only_children(set(right), []))
        folder = world.finish(config, tmp_path / "out")
        assert [one["status"] for one in attempts(folder)] == ["undecided"]
        assert finished(folder)["final"] == finished(folder)["start"]

    def test_a_floor_that_holds_only_for_what_was_measured_does_not_hold(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end", over=(OUT, FLOOR))
        retain = [task.id for task in load_tasks(config.tasks).open_role("retain").tasks]
        world.OUTAGES.append(only_children(set(retain[:11]), []))
        folder = world.finish(config, tmp_path / "run")
        (measured,) = of_kind(folder, "abilities")
        assert (measured["n"], measured["gain"] >= -0.02, measured["worst"] < -0.02) == (1, True, True)
        assert [one["status"] for one in attempts(folder)] == ["undecided"]
        assert finished(folder)["final"] == finished(folder)["start"]

    def test_a_diagnosis_of_nothing_measured_is_no_sign_that_nothing_fails(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end", over=(OUT, rounds(2)))
        train = {task.id for task in load_tasks(config.tasks).train}
        world.OUTAGES.append(lambda _candidate, task: "the server is away" if task.id in train else "")
        folder = world.finish(config, tmp_path / "run")
        assert [one["status"] for one in attempts(folder)] == ["not_measured", "not_measured"]
        assert "not one diagnosis task could be measured" in attempts(folder)[0]["reason"]

    @pytest.mark.parametrize(("error", "status"), [(DAMAGED_WEIGHTS, "training_failed"), ("away", "not_measured")])
    def test_weights_that_cannot_answer_are_the_recipes_own_fault(
        self, tmp_path: Path, error: str, status: str
    ) -> None:
        config = world.start(tmp_path, "mixture", over=(OUT, {"options": {"preflight": {"enabled": False}}}))
        select = {task.id for task in load_tasks(config.tasks).select}
        out = only_children(select, [])
        world.OUTAGES.append(lambda candidate, task: error if out(candidate, task) else "")
        folder = world.finish(config, tmp_path / "run")
        assert [one["status"] for one in attempts(folder)] == [status]
        assert finished(folder)["final"] == finished(folder)["start"]


class TestClosedRoles:
    @pytest.mark.parametrize("role", ["audit", "gold"])
    def test_a_floor_decides_neither_with_the_audit_nor_with_the_oracle(self, tmp_path: Path, role: str) -> None:
        gold = {"tasks": {"reports": {"retain": 12, "gold": 8}}, "audit": {"oracle": "gold"}}
        over = (gold, {"options": {"retain": {"role": role, "floor": -2.0}}})
        with pytest.raises(SetupError, match="never with the audit or the oracle"):
            play(tmp_path, "end", over=over)
        assert of_kind(RunFolder(tmp_path / "run"), "audit.opened") == []

    def test_a_role_that_a_floor_opened_is_known_to_later_runs_by_its_tasks(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "end", over=(FLOOR,))
        opened = [data for data in of_kind(folder, "audit.opened") if data.get("role") == "retain"]
        beside = play(tmp_path, "end", name="beside")
        (by_the_end,) = (data for data in of_kind(beside, "audit.opened") if data.get("role") == "retain")
        assert opened[0]["tasks_digest"] == by_the_end["tasks_digest"]
        assert by_the_end["elsewhere"] == 1


def test_a_score_that_a_builder_gives_is_not_said_to_be_the_graders(tmp_path: Path) -> None:
    folder = play(tmp_path, "end")
    (built,) = of_kind(folder, "dataset")
    examples = read_examples(folder.load(built["blob"]).files[EXAMPLES_FILE])
    assert {(one.provenance.builder, one.provenance.verifier) for one in examples} == {("formats:end", "formats:end")}


class TestTheLadder:
    def test_a_diagnosis_set_smaller_than_the_answers_of_a_short_run_is_asked_whole(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "end", over=({"tasks": {"train": 6}},))
        assert attempts(folder)[0]["status"] in ("accepted", "rejected")
        (loads,) = (one for data in of_kind(folder, "preflight") for one in data["checks"] if one["name"] == "loads")
        assert (loads["found"], loads["passed"]) == ("6 answers", True)

    def test_a_full_disk_is_no_failed_check(self, tmp_path: Path) -> None:
        def full(_folder: Path, _count: int) -> Sequence[Reply]:
            raise StoreError("no space left on the disk")

        ran = Fitted(
            folder=str(tmp_path),
            losses=(2.0, 1.0),
            steps=2,
            examples=2,
            tokens=9,
            trained_tokens=4,
            seconds_per_step=0.1,
        )
        with pytest.raises(StoreError, match="no space"):
            stage_b(ran, full, TrainConfig())

    def test_a_broken_grader_is_no_failed_check(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end", over=(OUT,))
        seen: list[str] = []

        def broken(candidate: Candidate, _: Task) -> str:
            seen.append(candidate.digest)
            if candidate.digest != seen[0]:
                raise TaskError("the grader is broken")
            return ""

        world.OUTAGES.append(broken)
        with pytest.raises(TaskError, match="the grader is broken"):
            world.finish(config, tmp_path / "run")
        folder = RunFolder(tmp_path / "run")
        assert [data["stage"] for data in of_kind(folder, "preflight")] == ["a"]
        (lost,) = (data for data in of_kind(folder, "prepared") if data["purpose"] == "preflight")
        assert lost["spend"]["cpu_s"] == pytest.approx(15 * 0.06), "the short run was paid for all the same"
        world.OUTAGES.clear()
        world.finish_again(folder)
        assert attempts(folder)[0]["status"] == "accepted"


GRADER = """from heldout.worlds.formats.grading import grade as right


def grade(answer, reference):
    return right(answer, reference)
"""


class TestBetweenRounds:
    @pytest.fixture
    def own_grader(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        file = tmp_path / "grader_between_rounds.py"
        file.write_text(GRADER)
        monkeypatch.syspath_prepend(str(tmp_path))
        yield file
        sys.modules.pop("grader_between_rounds", None)

    def test_a_grader_that_changed_while_a_run_was_stopped_voids_it(self, tmp_path: Path, own_grader: Path) -> None:
        stopped = {"budget": {"evaluations": 215}, "audit": {"auto": False}}
        own = {"tasks": {"grader": "grader_between_rounds:grade"}}
        config = world.start(tmp_path, "end", "mixture", over=(rounds(3), own, stopped))
        folder = world.finish(config, tmp_path / "run")
        moments = [(data["round"], data["moment"]) for data in of_kind(folder, "trusted.hash")]
        assert finished(folder)["status"] == "stopped"
        assert moments == [(1, "before"), (1, "after"), (2, "before")]
        drop_last_round(folder)
        own_grader.write_text(GRADER + "\n# easier\n")
        larger = config.model_copy(update={"budget": config.budget.model_copy(update={"evaluations": 10_000})})
        with pytest.raises(SetupError, match="the trusted parts grader changed between rounds 1 and 2"):
            run(larger, Opening(folder.path, command="again", resume=True))


def drop_last_round(folder: RunFolder) -> None:
    """Cut the journal behind the newest whole round."""
    lines = folder.events.read_bytes().splitlines(keepends=True)
    last = max(place for place, line in enumerate(lines) if b'"moment":"after"' in line)
    folder.events.write_bytes(b"".join(lines[: last + 1]))


class TestNoise:
    NOISY: Mapping[str, Any] = {"options": {"training_noise": True}}

    def test_a_budget_without_room_for_the_second_training_still_decides_about_the_first(self, tmp_path: Path) -> None:
        """A short run takes 0.9 simulated seconds, a full training 3.6."""
        tight = {"budget": {"cpu_s": 7.0}, "audit": {"auto": False}}
        config = world.start(tmp_path, "end", over=(self.NOISY, tight))
        folder = world.finish(config, tmp_path / "run")
        assert len(of_kind(folder, "training")) == 1
        assert [one["status"] for one in attempts(folder)] == ["accepted"]
        assert finished(folder)["final"] == attempts(folder)[0]["candidate"]
        larger = config.model_copy(update={"budget": config.budget.model_copy(update={"cpu_s": 100.0})})
        run(larger, Opening(folder.path, command="again", resume=True))
        assert of_kind(folder, "training.noise") == [], "the decision was made without it"

    def test_the_gate_of_two_noises_does_not_decide_without_the_second(self, tmp_path: Path) -> None:
        tight = {"budget": {"cpu_s": 7.0}, "audit": {"auto": False}, "gate": {"kind": "noise"}}
        folder = play(tmp_path, "end", over=(self.NOISY, tight))
        assert of_kind(folder, "decision") == []
        assert "leaves no room for training" in finished(folder)["stop_reason"]

    def test_an_accident_of_the_second_training_leaves_the_noise_to_the_next_recipe(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end", "mixture", over=(self.NOISY, DOCTORED, rounds(2)))
        full: list[int] = []

        def second(job: TrainingJob, fitted: Fitted | None) -> None:
            if fitted is None and job.steps is None:
                full.append(job.seed)
                if len(full) == 2:
                    raise TrainingError("a process was lost", missing=True)

        world.DOINGS.append(second)
        folder = world.finish(config, tmp_path / "run")
        assert [data["round"] for data in of_kind(folder, "training.noise")] == [2]
