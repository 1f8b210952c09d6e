"""The simulated learner: faulty answers that the grader sees through, outcomes by skill, and serving weights."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import pytest

from heldout.config import ModelConfig
from heldout.errors import ModelError, SetupError
from heldout.models import Message, Request, make_model
from heldout.models.base import Model, Reply
from heldout.store.weights import WeightsOrigin, WeightsStore
from heldout.tasks.graders import CUT
from heldout.testing.model_contract import ModelContract
from heldout.worlds.formats import (
    Constraint,
    Fault,
    FormatsLearner,
    Job,
    Skills,
    can_fail,
    faults_in,
    faulty_answer,
    pass_rate,
    true_accuracy,
    world_accuracy,
)
from heldout.worlds.formats.generator import PLAIN_SKILLS, draw_skill, draw_task
from heldout.worlds.formats.skills import START_SKILLS, SimulatedCheckpoint, read_checkpoint, write_checkpoint

PERFECT = Skills(**dict.fromkeys(Skills.model_fields, 1.0))


def tasks(count: int, *, seed: int = 0) -> list[Job]:
    rng = random.Random(seed)
    return [draw_task(rng) for _ in range(count)]


def learner(**options: object) -> FormatsLearner:
    return FormatsLearner(ModelConfig(name="simulated_formats", options=options))


def asked(jobs: Sequence[Job], *, weights: str | None = None, **settings: object) -> list[Request]:
    turns = [(Message(role="user", content=job.text),) for job in jobs]
    return [Request.model_validate({"messages": turn, "weights": weights, **settings}) for turn in turns]


def answer(reply: Reply) -> str:
    return reply.text + (CUT if reply.finish_reason == "length" else "")


def outcomes(model: FormatsLearner, jobs: Sequence[Job], *, weights: str | None = None) -> list[tuple[Fault, ...]]:
    replies = model.complete_batch(asked(jobs, weights=weights))
    return [faults_in(answer(reply), job) for reply, job in zip(replies, jobs, strict=True)]


class TestContract(ModelContract):
    @pytest.fixture
    def make_model(self) -> Callable[[], Model]:
        return lambda: make_model(ModelConfig(name="simulated_formats:instruct"), answer_key={})


class TestFaultyAnswers:
    def test_the_grader_finds_exactly_the_faults_that_were_put_in(self) -> None:
        rng = random.Random(0)
        tried: Counter[Fault] = Counter()
        for job in tasks(400):
            possible = can_fail(job)
            for size in range(len(possible) + 1):
                for chosen in combinations(possible, size):
                    text = faulty_answer(job, chosen, lambda _what, among: rng.randrange(among))
                    assert faults_in(text, job) == chosen, (job.text, text)
                    assert "\n" not in text
                    tried.update(chosen)
        assert min(tried[fault] for fault in Fault if fault is not Fault.STOP) > 200

    def test_a_plain_skill_can_only_be_in_the_wrong_order(self) -> None:
        rng = random.Random(0)
        for skill in PLAIN_SKILLS:
            job = draw_skill(rng, skill)
            assert can_fail(job) == (Fault.LIST,)
            assert faulty_answer(job, (), lambda _what, _among: 0) == job.ideal
            assert faults_in(faulty_answer(job, can_fail(job), lambda _what, _among: 1), job) == (Fault.LIST,)


class TestTruth:
    def test_the_pass_rate_is_the_product_of_what_a_task_gives_cause_for(self) -> None:
        skills = Skills(
            stop=0.5, wrapper=0.9, list=0.8, count=0.7, case=0.6, word=0.4, carry=0.1, copies=0.3, reverse=0.2, sort=0.1
        )
        words = ("amber", "cedar", "lily", "maple")
        assert pass_rate(skills, Job(words=words)) == pytest.approx(0.5 * 0.8)
        assert pass_rate(skills, Job(words=words, count=2, addends=(1, 2))) == pytest.approx(0.5 * 0.8 * 0.7 * 0.1)
        assert pass_rate(skills, Job(words=words, upper=True, include="lily", wrapper="tags")) == pytest.approx(
            0.5 * 0.8 * 0.6 * 0.4 * 0.9
        )
        assert pass_rate(skills, Job(words=words, skill="copy")) == 0.3
        assert true_accuracy(skills, [Job(words=words), Job(words=words, skill="sort")]) == pytest.approx(0.25)

    def test_the_accuracy_on_the_world_by_hand(self) -> None:
        """One constraint of five is right one time in ten, all else always: it is in 1/5, 2/5, 3/5 of the sets."""
        skills = PERFECT.model_copy(update={"carry": 0.1})
        by_hand = 0.25 * (1 - 0.2 * 0.9) + 0.5 * (1 - 0.4 * 0.9) + 0.25 * (1 - 0.6 * 0.9)
        assert world_accuracy(skills) == pytest.approx(by_hand) == pytest.approx(0.64)
        assert world_accuracy(skills.model_copy(update={"stop": 0.5, "list": 0.5})) == pytest.approx(0.16)
        assert world_accuracy(skills, (Constraint.CARRY,)) == pytest.approx(0.1)
        assert world_accuracy(skills, (Constraint.CARRY, Constraint.CASE)) == pytest.approx(0.25 * 0.55 + 0.75 * 0.1)

    def test_the_accuracy_on_the_world_is_that_on_many_of_its_tasks(self) -> None:
        jobs = tasks(20_000, seed=5)
        for skills in START_SKILLS.values():
            assert true_accuracy(skills, jobs) == pytest.approx(world_accuracy(skills), rel=0.02)

    def test_no_tasks_have_no_accuracy(self) -> None:
        with pytest.raises(ValueError, match="no tasks"):
            true_accuracy(PERFECT, [])


class TestOutcomes:
    def test_each_fault_is_as_frequent_as_its_skill_says(self) -> None:
        model, jobs = learner(skills={"stop": 0.6}), tasks(4000)
        skills = model.skills(None)
        found = outcomes(model, jobs)
        for fault in Fault:
            could = [
                fault in one for one, job in zip(found, jobs, strict=True) if fault in (*can_fail(job), Fault.STOP)
            ]
            expected, n = 1.0 - skills.of(fault), len(could)
            assert n > 800
            error = (expected * (1.0 - expected) / n) ** 0.5
            assert abs(sum(could) / n - expected) < 4 * error, fault
        right = sum(not one for one in found) / len(found)
        assert right == pytest.approx(true_accuracy(skills, jobs), abs=4 * 0.5 / len(found) ** 0.5)

    def test_plain_skills_are_shown_by_a_model_that_never_stops(self) -> None:
        rng = random.Random(3)
        jobs = [draw_skill(rng, skill) for skill in PLAIN_SKILLS for _ in range(600)]
        model = learner(skills={"stop": 0.0, "reverse": 0.5})
        replies = model.complete_batch(asked(jobs))
        assert {reply.finish_reason for reply in replies} == {"length"}
        wrong = Counter(job.skill for job, one in zip(jobs, outcomes(model, jobs), strict=True) if one)
        assert wrong["copy"] < 45
        assert 230 < wrong["reverse"] < 370

    def test_better_weights_keep_what_was_right_except_for_the_share_that_is_redrawn(self, tmp_path: Path) -> None:
        jobs = tasks(3000)
        for redraw in (0.0, 0.4):
            model = learner(redraw=redraw, skills={"stop": 1.0})
            store = WeightsStore(tmp_path / f"weights-{redraw}")
            start = model.serve(store)
            better = model.skills(None).model_copy(update={"carry": 0.5, "wrapper": 0.8})
            write_checkpoint(tmp_path / "better", SimulatedCheckpoint(skills=better))
            child = store.add(tmp_path / "better", WeightsOrigin(parent=start))
            before, after = outcomes(model, jobs, weights=start), outcomes(model, jobs, weights=child)
            held = [(bool(new), job) for old, new, job in zip(before, after, jobs, strict=True) if not old]
            anew = 1.0 - (1.0 - redraw) ** 2
            expected = [
                1.0 - math.prod(1.0 - anew * (1.0 - better.of(one)) for one in can_fail(job)) for _, job in held
            ]
            error = math.fsum(chance * (1.0 - chance) for chance in expected) ** 0.5
            assert abs(sum(broke for broke, _ in held) - math.fsum(expected)) <= 4 * error
            fixed = sum(bool(old) and not new for old, new in zip(before, after, strict=True))
            assert fixed > 300

    def test_a_temperature_draws_anew_for_each_seed_and_zero_does_not(self) -> None:
        model, jobs = learner(), tasks(300)
        texts = [
            [reply.text for reply in model.complete_batch(asked(jobs, seed=seed, temperature=temperature))]
            for temperature, seed in ((0.0, 1), (0.0, 2), (1.0, 1), (1.0, 2), (1.0, 1))
        ]
        assert texts[0] == texts[1]
        assert texts[2] == texts[4] != texts[3]
        assert model.deterministic
        assert not FormatsLearner(ModelConfig(name="simulated_formats", temperature=0.7)).deterministic

    def test_a_batch_gives_the_replies_one_by_one(self) -> None:
        model, requests = learner(), asked(tasks(50))
        assert model.complete_batch(requests) == [model.complete(request) for request in requests]


class TestReplies:
    def test_an_answer_that_does_not_stop_fills_the_limit_and_is_told_as_cut(self) -> None:
        job = tasks(1)[0]
        reply = learner(skills={"stop": 0.0}).complete(asked([job], max_tokens=100)[0])
        assert reply.finish_reason == "length"
        assert reply.tokens_out == 100
        assert len(reply.text) == 400

    def test_an_ideal_answer_that_is_longer_than_the_limit_is_cut(self) -> None:
        perfect = learner(skills=dict.fromkeys((*map(str, Fault), *PLAIN_SKILLS), 1.0))
        job = Job(words=("amber", "cedar", "lily", "maple"))
        whole, cut = perfect.complete(asked([job])[0]), perfect.complete(asked([job], max_tokens=3)[0])
        assert (whole.text, whole.finish_reason) == (job.ideal, "stop")
        assert (cut.text, cut.finish_reason, cut.tokens_out) == (job.ideal[:12], "length", 3)

    def test_a_system_turn_changes_nothing_and_a_stranger_is_told_so(self) -> None:
        model, job = learner(), tasks(1)[0]
        system = Message(role="system", content="Be brief.")
        plain = asked([job])[0]
        assert model.complete(plain.model_copy(update={"messages": (system, *plain.messages)})).text == (
            model.complete(plain).text
        )
        stranger = Request(messages=(Message(role="user", content="What is a heron?"),))
        assert model.complete(stranger).text == "I do not know this task."


class TestServing:
    def test_the_start_checkpoint_is_a_folder_that_says_what_it_is(self, tmp_path: Path) -> None:
        store = WeightsStore(tmp_path / "weights")
        digest = learner().serve(store)
        assert learner().serve(store) == digest
        assert FormatsLearner(ModelConfig(name="simulated_formats:instruct")).serve(store) != digest
        assert store.origin(digest).source == "simulated_formats"
        assert sorted(file.name for file in store.check(digest).iterdir()) == ["config.json", "skills.json"]
        assert "simulation" in (store.path(digest) / "config.json").read_text()
        assert read_checkpoint(store.path(digest)).skills == START_SKILLS["base"]

    def test_weights_without_a_store_are_a_model_error(self) -> None:
        with pytest.raises(ModelError, match="before any store"):
            learner().complete(asked(tasks(1), weights="0" * 64)[0])

    def test_a_checkpoint_with_a_missing_skill_or_file_is_told(self, tmp_path: Path) -> None:
        write_checkpoint(tmp_path / "one", SimulatedCheckpoint(skills=PERFECT))
        (tmp_path / "one" / "skills.json").write_text('{"stop": 1.0}')
        with pytest.raises(SetupError, match="wrapper: Field required"):
            read_checkpoint(tmp_path / "one")
        (tmp_path / "one" / "skills.json").unlink()
        with pytest.raises(SetupError, match=r"lack the file 'skills.json'.*transformers"):
            read_checkpoint(tmp_path / "one")
        write_checkpoint(tmp_path / "two", SimulatedCheckpoint(skills=PERFECT))
        (tmp_path / "two" / "config.json").write_text("[]")
        with pytest.raises(SetupError, match="cannot be read"):
            read_checkpoint(tmp_path / "two")

    @pytest.mark.parametrize(
        ("config", "said"),
        [
            (ModelConfig(name="simulated_formats:huge"), "there is simulated_formats:base, simulated_formats:instruct"),
            (ModelConfig(name="simulated_formats", options={"skills": {"flight": 0.5}}), "flight"),
            (ModelConfig(name="simulated_formats", options={"skills": {"copy": 1.5}}), "copies"),
            (ModelConfig(name="simulated_formats", options={"colour": 1}), "allowed are redraw"),
        ],
    )
    def test_wrong_names_and_options_are_told(self, config: ModelConfig, said: str) -> None:
        with pytest.raises(SetupError, match=said):
            FormatsLearner(config)

    def test_another_setting_is_another_fingerprint(self) -> None:
        prints = {
            learner(**options).fingerprint for options in ({}, {"redraw": 0.5}, {"seed": 1}, {"skills": {"sort": 1}})
        }
        assert len(prints) == 4
        assert learner().fingerprint == learner().fingerprint
