"""The steps of a round over weights one by one: what a diagnosis counts, what data is made of, what an attempt cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import weights_world as world
from test_improve_any_task_budget import UNAUDITED, spent_by_kind
from weights_world import DOCTORED, OUT, SEEING, attempts, of_kind, rounds

from heldout.improvers.training_catalog import TrainingCatalog
from heldout.improvers.training_roles import BuildView, Diagnosis, DiagnosisView, Failed, Recipe, ResearchView
from heldout.loops.session import Scored
from heldout.loops.trainings import keep_part, stopped_key
from heldout.loops.weights.accounting import attempt_spend, noise_spend
from heldout.loops.weights.beginning import begin
from heldout.loops.weights.building import Asked, build, load_dataset
from heldout.loops.weights.deciding import table_of
from heldout.loops.weights.diagnosing import attribute, cluster
from heldout.loops.weights.directing import direct
from heldout.loops.weights.options import ImproveOptions
from heldout.loops.weights.selecting import best_so_far
from heldout.loops.weights.state import WeightsSearch
from heldout.records import Candidate, Spend, Task, TrainTask
from heldout.store.training_events import Cluster
from heldout.tasks import load_tasks
from heldout.tasks.examples import BuildRequest, Pair
from heldout.workbench import Opening
from heldout.workbench.opening import open_run
from heldout.worlds.formats.grading import grade

MIXED = {"solver": {"model": {"options": {"skills": {"stop": 0.7, "wrapper": 0.4, "count": 0.4}}}}}
"""A start that fails in several ways."""


def only_scores(answer: str | None, reference: str) -> float:
    """A grader that names no faults."""
    return grade(answer, reference)


def half_marks(answer: str | None, reference: str) -> float:
    """A grader that gives half for a wrong answer."""
    return 0.5 + 0.5 * grade(answer, reference)


def scored(request: BuildRequest) -> Sequence[Pair]:
    """Half right, hardly wrong, and of no known score."""
    del request
    return [Pair(prompt=f"Say {score}.", completion="So.", score=score) for score in (0.5, 0.499, None)]


SAID: list[Diagnosis] = []
"""What `TalkingCatalog` says; a test sets it."""


class TalkingCatalog(TrainingCatalog):
    """The catalogue, with a diagnostician that says what a test wrote down."""

    def diagnose(self, view: DiagnosisView) -> Diagnosis:
        del view
        return SAID[-1]


@contextmanager
def begun(tmp_path: Path, *ids: str, over: Sequence[Mapping[str, Any]] = ()) -> Iterator[WeightsSearch]:
    """A run before its first round."""
    config = world.start(tmp_path, *(ids or ("end",)), over=over)
    with open_run(config, Opening(tmp_path / "run", command="test")) as opened:
        yield begin(opened.session, opened.start, ImproveOptions.model_validate(config.options))


def asked(recipe: Recipe, *, repair: int = 0) -> Asked:
    """An attempt of round 1, for no failures."""
    return Asked(round=1, strategy="end", focal="stop", recipe=recipe, failures=(), repair=repair)


class TestDiagnosis:
    def test_shares_are_of_the_tasks_that_were_measured(self, tmp_path: Path) -> None:
        with begun(tmp_path, over=(OUT,)) as search:
            away = {task.id for task in search.session.tasks.train[:20]}
            world.OUTAGES.append(lambda _, task: "the server is away" if task.id in away else "")
            diagnosed = attribute(search, 1).diagnosed
        assert (diagnosed.n, diagnosed.missing) == (12, 20)
        assert diagnosed.clusters
        assert [one.share for one in diagnosed.clusters] == [one.count / 12 for one in diagnosed.clusters]

    def test_an_answer_that_did_not_end_is_told_as_that_first_whatever_its_grader_says(self, tmp_path: Path) -> None:
        own = {"tasks": {"grader": f"{__name__}:only_scores"}}
        with begun(tmp_path, over=(own,)) as search:
            attributed = attribute(search, 1)
        told = {(failed.measures["stopped"], failed.faults) for failed in attributed.failures}
        assert told == {(0.0, ("stop", "wrong")), (1.0, ("wrong",))}

    def test_an_answer_with_half_marks_is_a_failure(self, tmp_path: Path) -> None:
        own = {"tasks": {"grader": f"{__name__}:half_marks"}}
        with begun(tmp_path, over=(own, MIXED)) as search:
            attributed = attribute(search, 1)
        assert attributed.diagnosed.score == pytest.approx(1.0 - 0.5 * len(attributed.failures) / 32)
        assert 0 < len(attributed.failures) < 32

    def test_a_failure_is_in_the_cluster_of_its_first_fault_and_counted_once_behind_another(self) -> None:
        failures = [failed("t1", "stop", "count", "count"), failed("t2", "count"), failed("t3", "stop")]
        assert cluster(failures, n=8) == (
            Cluster(code="stop", count=2, share=0.25, also=0, examples=("t1", "t3")),
            Cluster(code="count", count=1, share=0.125, also=1, examples=("t2",)),
        )

    def test_what_a_diagnostician_says_is_held_to_what_there_is(self, tmp_path: Path) -> None:
        """Fix rates are shares, a focal problem is a cluster, and what is cited failed."""
        SAID[:] = [Diagnosis(fix_rates={"stop": 7.0, "wrapper": -3.0}, focal="laziness", cited=("nobody",))]
        with begun(tmp_path, over=(MIXED, {"improver": {"kind": f"{__name__}:TalkingCatalog"}})) as search:
            attributed = attribute(search, 1)
        diagnosed = attributed.diagnosed
        clusters = {one.code: one for one in diagnosed.clusters}
        assert clusters["stop"].recoverable == 100.0 * clusters["stop"].share > 0.0
        assert (clusters["wrapper"].recoverable, clusters["count"].fix_rate) == (0.0, 0.5)
        assert diagnosed.focal == diagnosed.clusters[0].code == "stop"
        of_focal = [one.task.id for one in attributed.failures if one.faults[0] == "stop"]
        assert diagnosed.cited == tuple(of_focal[:5])


def failed(task: str, *faults: str) -> Failed:
    return Failed(TrainTask(id=task, input="question"), "answer", faults, "")


class TestDirection:
    @pytest.mark.parametrize("budget", [{"wall_s": 9000.0, "cpu_s": 500.0}, {"wall_s": 500.0, "cpu_s": 9000.0}])
    def test_a_researcher_has_the_seconds_that_are_scarcest_and_the_focal_failures_first(
        self, tmp_path: Path, budget: Mapping[str, float]
    ) -> None:
        with begun(tmp_path, over=(SEEING, MIXED, {"budget": budget})) as search:
            attributed = attribute(search, 1)
            direct(search, attributed, 1)
        (view,) = (view for view in world.VIEWS if isinstance(view, ResearchView))
        assert view.budget_s is not None
        assert 0.0 < view.budget_s <= 500.0
        is_focal = [one.faults[0] == view.focal for one in view.failures]
        assert is_focal == sorted(is_focal, reverse=True)
        assert set(is_focal) == {True, False}

    def test_every_step_of_a_round_draws_by_a_seed_of_its_own(self, tmp_path: Path) -> None:
        """A repair too, which would else draw the data that failed."""
        with begun(tmp_path, over=(SEEING,)) as search:
            direct(search, attribute(search, 1), 1)
            for repair in range(3):
                build(search, asked(Recipe(builder="formats:end", count=4), repair=repair))
        seeds = [view.seed for view in world.VIEWS]
        assert len(set(seeds)) == len(seeds) == 5


class TestData:
    def test_what_is_replayed_repeats_nothing_of_what_the_recipe_draws_itself(self, tmp_path: Path) -> None:
        """Also where both come from one builder."""
        with begun(tmp_path) as search:
            built = build(search, asked(Recipe(builder="formats:replay", count=40, replay=0.5)))
        assert (built.built, built.size, built.removed) == (40, 40, {})

    def test_examples_have_the_system_turn_that_evaluation_sends(self, tmp_path: Path) -> None:
        """What is replayed is a share of them."""
        told = {"solver": {"instruction": "Keep every rule.\n"}}
        with begun(tmp_path, over=(told,)) as search:
            built = build(search, asked(Recipe(builder="formats:end", count=8, replay=0.25)))
            examples, _ = load_dataset(search, built)
        assert built.builders == {"formats:end": 6, "formats:replay": 2}
        assert {one.system for one in examples} == {"Keep every rule."}

    def test_how_much_may_meet_a_closed_task_is_an_option_and_what_does_is_removed(self, tmp_path: Path) -> None:
        recipe = Recipe(builder="formats:leak", count=24)
        own = {"tasks": {"seed": 5}, "options": {"max_hits": 1.0}}
        with begun(tmp_path, over=(own,)) as search:
            built = build(search, asked(recipe))
            examples, _ = load_dataset(search, built)
            closed = [task.input for task in search.session.tasks.select]
        assert not built.voided
        assert built.hits > 0.3
        assert (built.size, sum(built.removed.values())) == (len(examples), 24 - len(examples))
        assert not {one.prompt for one in examples} & set(closed)

    def test_an_example_passes_from_half_marks(self, tmp_path: Path) -> None:
        with begun(tmp_path) as search:
            built = build(search, asked(Recipe(builder=f"{__name__}:scored", count=3)))
            examples, _ = load_dataset(search, built)
        assert [one.provenance.score for one in examples] == [0.5, None]
        assert built.removed == {"failed": 1}


class TestPreflight:
    def test_a_builder_is_told_what_was_wrong_with_its_last_recipe(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "leaves", "other_template", over=(SEEING, UNAUDITED, rounds(2)))
        world.finish(config, tmp_path / "run")
        built = [view for view in world.VIEWS if isinstance(view, BuildView)]
        told = {(one.strategy, one.repair): (one.errors, [check.name for check in one.failed_checks]) for one in built}
        raised = "the data builder 'weights_world:leaves' raised: SystemExit: 96"
        assert told["leaves", 0] == told["other_template", 0] == ((), [])
        assert told["leaves", 1] == ((raised,), [])
        assert told["other_template", 1] == ((), ["template", "end token"])

    def test_a_short_run_is_no_longer_than_the_training_itself(self, tmp_path: Path) -> None:
        short = {"options": {"train": {"steps": 9}, "preflight": {"loss_ratio": 10.0, "stop_rate": 0.0}}}
        world.finish(world.start(tmp_path, "end", over=(DOCTORED, UNAUDITED, short)), tmp_path / "run")
        assert [(job.steps, job.config.steps) for job in world.JOBS] == [(9, 9), (None, 9)]
        assert all(job.endless for job in world.JOBS), "where no ladder looks for end tokens, nothing does"


class TestCost:
    def test_the_part_of_a_second_training_that_a_limit_stopped_is_noise_too(self, tmp_path: Path) -> None:
        with begun(tmp_path) as search:
            for work, cpu_s in (("round-1-0-1", 4.0), ("round-1-1-0", 2.0), ("round-11-0-1", 8.0)):
                keep_part(search.session.recorder, stopped_key("training", work), "training", Spend(cpu_s=cpu_s))
            assert attempt_spend(search, 1).cpu_s == 6.0
            assert noise_spend(search, 1).cpu_s == 4.0

    def test_parts_of_trainings_that_were_stopped_count_in_their_own_round(self, tmp_path: Path) -> None:
        """The short run, the full one and its twin, and a researcher whose answer no budget could pay for."""
        with begun(tmp_path) as search:
            for number, cpu_s in ((1, 1.0), (2, 16.0), (11, 256.0)):
                parts = (("preflight", "-0-short"), ("training", "-0-0"), ("training", "-0-1"), ("research", ""))
                for place, (purpose, work) in enumerate(parts):
                    key = stopped_key(purpose, f"round-{number}{work}")
                    keep_part(search.session.recorder, key, purpose, Spend(cpu_s=2**place * cpu_s))
            assert [attempt_spend(search, number).cpu_s for number in (1, 2, 11)] == [15.0, 240.0, 3840.0]

    def test_all_that_a_run_spent_after_its_start_was_measured_is_in_exactly_one_attempt(self, tmp_path: Path) -> None:
        noisy = {"solver": {"model": {"options": {"learning": {"speed": 40.0, "noise": 1.0}}}}}
        over = (rounds(4), noisy, {"options": {"training_noise": True}}, UNAUDITED)
        config = world.start(tmp_path, "leak_select", "huge_rate", "mixture", "end", over=over)
        folder = world.finish(config, tmp_path / "run")
        ended = attempts(folder)
        assert [one["status"] for one in ended] == ["contaminated", "preflight_failed", "accepted", "accepted"]
        total = spent_by_kind(folder)
        first = of_kind(folder, "candidate")[0]["digest"]
        at_start = [
            Spend.model_validate(one.get("spend", {}))
            for one in of_kind(folder, "outcome")
            if one["candidate"] == first and one["purpose"] != "train"
        ]
        in_attempts = sum((Spend.model_validate(one["spend"]) for one in ended), start=Spend())
        for name, value in sum(at_start, start=in_attempts):
            assert value == pytest.approx(getattr(total, name), rel=1e-9, abs=1e-9), name
        assert [Spend.model_validate(one.get("noise_spend", {})).evaluations for one in ended] == [0, 0, 32, 0]


class TestDecision:
    def test_a_gate_is_shown_the_tasks_that_decide(self, tmp_path: Path) -> None:
        for role, name in (("select", "a"), ("train", "b")):
            (tmp_path / name).mkdir()
            with begun(tmp_path / name, over=({"options": {"decide_on": role}},)) as search:
                table = table_of(search, search.start, search.start, 1)
                deciding = getattr(search.session.tasks, role)
            assert table.tasks == tuple(task.id for task in deciding)
            assert table.families == tuple(task.family for task in deciding)


class TestFinal:
    def test_of_equal_models_the_start_is_final_then_the_head_and_then_the_earlier(self, tmp_path: Path) -> None:
        with begun(tmp_path) as search:
            first, second, third = (trained(search, name) for name in "123")
            search.head, search.head_round = Scored(second.candidate, search.start.scores), 2
            assert best_so_far(search)[1] is search.start
            search.head, search.head_round = search.start, 0
            search.pool += [(1, first), (2, second), (3, third)]
            assert best_so_far(search)[1].candidate.digest == first.candidate.digest
            search.head, search.head_round = second, 2
            assert best_so_far(search)[1].candidate.digest == second.candidate.digest

    @pytest.mark.parametrize(("out", "final"), [(6, "child"), (7, "start")])
    def test_an_accepted_child_that_is_measured_anew_on_less_than_four_fifths_is_not_final(
        self, tmp_path: Path, out: int, final: str
    ) -> None:
        """Of 32 tasks. It is far ahead of the start even if every score that it lacks were a failure."""
        again = {"solver": {"model": {"temperature": 0.05}}}
        config = world.start(tmp_path, "mixture", over=(OUT, again, UNAUDITED))
        select = load_tasks(config.tasks).select
        world.OUTAGES.append(out_the_second_time({task.id for task in select[:out]}))
        folder = world.finish(config, tmp_path / "run")
        (attempt,) = attempts(folder)
        assert attempt["status"] == "accepted"
        (selected,) = of_kind(folder, "selected")
        start, child = selected["finalists"]
        assert (start["fresh"], child["digest"]) == (0.0, attempt["candidate"])
        assert child["fresh"] * (32 - out) / 32 > 0.4
        assert selected["final"] == {"start": start, "child": child}[final]["digest"]


def trained(search: WeightsSearch, name: str) -> Scored:
    """A model that is right everywhere."""
    start = search.start.candidate
    candidate = Candidate(files=start.files, weights=name * 64, parent=start.digest)
    return Scored(candidate, np.ones_like(search.start.scores))


def out_the_second_time(tasks: set[str]) -> Callable[[Candidate, Task], str]:
    """The evaluator fails on these tasks where it is asked again about a trained model."""
    known: set[tuple[str, str]] = set()

    def out(candidate: Candidate, task: Task) -> str:
        one = (candidate.digest, task.id)
        if candidate.parent and task.id in tasks and one in known:
            return "the server is away"
        known.add(one)
        return ""

    return out
