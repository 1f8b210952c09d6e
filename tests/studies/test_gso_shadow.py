"""The shadow world against the real one: the same worker in the real harness, sandbox and grader."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from heldout.config import ModelConfig
from heldout.errors import HarnessError, SetupError, TaskError
from heldout.harness.base import Episode, Preparation
from heldout.harness.steps import steps_of
from heldout.improvers.skill_texts import with_policy
from heldout.models.simulated import answer_key
from heldout.records import Candidate, Task
from heldout.sandbox import make_sandboxes
from heldout.skills.guide import NO_SKILL, start_guide
from heldout.skills.harness import SkilledHarness
from heldout.studies.gso.measuring import as_one_skill
from heldout.studies.gso.shadow import ShadowGrader, ShadowHarness, job_of_task
from heldout.tasks.base import Item
from heldout.testing import FunctionModel
from heldout.worlds.tables.catalogue import CATALOGUE
from heldout.worlds.tables.grading import TablesGrader
from heldout.worlds.tables.source import TablesSource
from heldout.worlds.tables.truth import wrong_parts
from heldout.worlds.tables.worker import TableWorker

SOURCE = TablesSource(seed=2)
ITEMS = SOURCE.items()
OPTIONS = {"max_turns": 8}
SHADOW = ShadowHarness(environment=SOURCE.environment, options=OPTIONS)
GRADE = ShadowGrader()
GUIDE = Candidate(files=start_guide())
NONE = Candidate(files=NO_SKILL)


def _worker(slip: float = 0.02) -> TableWorker:
    config = ModelConfig(name="simulated_tables", options={"slip": slip})
    return TableWorker(config, answer_key=answer_key(ITEMS))


@dataclass(frozen=True)
class Case:
    """One episode of the cross-check."""

    item: Item
    candidate: Candidate
    seed: int
    slip: float = 0.02
    recovery: bool = True

    @property
    def task(self) -> Task:
        return Task(id=self.item.id, input=self.item.input)

    @property
    def episode(self) -> Episode:
        return Episode(_worker(self.slip), self.seed, Preparation())


def _guide(*names: str) -> Candidate:
    files = dict(GUIDE.files)
    for edit in CATALOGUE:
        if edit.name in names:
            text = edit.text.format(name="Elsewhere") if edit.kind == "literal" else edit.text
            files[edit.module] = with_policy(files[edit.module], text, file=edit.module)
    return Candidate(files=files)


def _compare(cases: Sequence[Case]) -> list[float]:
    """Every episode and its score in both worlds; the scores."""
    fault = make_sandboxes("bubblewrap").fault()
    if fault is not None:
        pytest.skip(fault)
    grade, scores = TablesGrader(), []
    for case in cases:
        told = f"{case.item.id}, seed {case.seed}"
        options = {**OPTIONS, "recovery": case.recovery}
        real = SkilledHarness(environment=SOURCE.environment, options=options)
        shadow = ShadowHarness(environment=SOURCE.environment, options=options)
        one, two = (each.run(case.candidate, case.task, case.episode) for each in (real, shadow))
        scores.append(grade(one.answer, case.item.reference))
        assert GRADE(two.answer, case.item.reference) == scores[-1], told
        assert (two.measures, two.components, two.seed) == (one.measures, one.components, one.seed), told
        assert two.artifacts == one.artifacts, told
        assert two.spend.calls == one.spend.calls, told
        assert two.spend.tokens_in == pytest.approx(one.spend.tokens_in, rel=0.1), told
        assert two.spend.tokens_out == pytest.approx(one.spend.tokens_out, rel=0.3), told
        seen, said = steps_of(one), steps_of(two)
        assert [(step.kind, step.command) for step in said] == [(step.kind, step.command) for step in seen], told
        for which in ("first", "last"):
            assert wrong_parts(said, which=which) == wrong_parts(seen, which=which), told
    return scores


def test_a_few_episodes_are_the_same_in_the_real_world() -> None:
    cases = [
        Case(ITEMS[8], GUIDE, 2),
        Case(ITEMS[14], GUIDE, 3, recovery=False),
        Case(ITEMS[20], NONE, 5),
        Case(ITEMS[3], as_one_skill(_guide("values", "decoy")), 1),
    ]
    assert len(_compare(cases)) == 4


@pytest.mark.slow
def test_many_episodes_are_the_same_in_the_real_world() -> None:
    rng = random.Random(11)
    names = [edit.name for edit in CATALOGUE]
    cases = []
    for item in rng.sample(list(ITEMS), 14):
        guide = _guide(*rng.sample(names, rng.choice((0, 1, 3, 8))))
        candidate = rng.choice((guide, guide, as_one_skill(guide), NONE))
        cases.append(Case(item, candidate, rng.randrange(1000), rng.choice((0.0, 0.1)), rng.random() < 0.7))
    assert 0.1 < sum(_compare(cases)) / len(cases) < 0.9


def test_a_recovery_that_is_not_allowed_leaves_the_fault_declared_and_the_task_failed() -> None:
    bare = ShadowHarness(environment=SOURCE.environment, options={**OPTIONS, "recovery": False})
    cases = [Case(item, GUIDE, 4) for item in ITEMS[:60]]
    pairs = [
        (SHADOW.run(case.candidate, case.task, case.episode), bare.run(case.candidate, case.task, case.episode))
        for case in cases
    ]
    used = [(one, two) for one, two in pairs if one.measures["recoveries"]]
    assert used
    for one, two in used:
        assert two.measures["recoveries"] == 0.0
        assert two.measures["faults_declared"] == 1.0
        assert two.spend.calls == one.spend.calls - 2
        assert GRADE(two.answer, "") == 0.0
    assert any(GRADE(one.answer, "") == 1.0 for one, _ in used), "a recovery mends some"
    assert all(one.answer == two.answer for one, two in pairs if not one.measures["recoveries"])


def test_the_grader_passes_an_answer_without_a_wrong_part_and_nothing_else() -> None:
    assert GRADE("[]", "") == 1.0
    assert [GRADE(answer, "") for answer in ('["steps"]', "null", "{}", "", None, "no answer", "[1]")] == [0.0] * 7
    assert GRADE.explain("[]", "") == ""
    assert "steps" not in GRADE.explain('["steps"]', ""), "an improver finds out itself what is wrong"


def test_a_folder_that_the_harness_refuses_is_refused_in_the_shadow_too() -> None:
    task = Task(id=ITEMS[0].id, input=ITEMS[0].input)
    broken = [
        Candidate(files={**GUIDE.files, "m1_task.md": "no sections\n"}),
        Candidate(files={"SKILL.md": "no front matter\n"}),
    ]
    real = SkilledHarness(environment=SOURCE.environment, options=OPTIONS)
    for candidate in broken:
        for harness in (SHADOW, real):
            with pytest.raises(HarnessError):
                harness.bound(candidate, task, _worker())


def test_the_bound_is_never_passed() -> None:
    for case in [Case(item, candidate, 6) for item in ITEMS[:20] for candidate in (GUIDE, NONE)]:
        spent = SHADOW.run(case.candidate, case.task, case.episode).spend
        bound = SHADOW.bound(case.candidate, case.task, _worker())
        assert spent.calls <= bound.calls
        assert spent.tokens_in <= bound.tokens_in
        assert spent.tokens_out <= bound.tokens_out


def test_the_shadow_simulates_its_own_worker_and_world_alone() -> None:
    case = Case(ITEMS[0], GUIDE, 1)
    with pytest.raises(HarnessError, match="simulated_tables"):
        SHADOW.run(case.candidate, case.task, Episode(FunctionModel(lambda _: "hello"), 1, Preparation()))
    with pytest.raises(SetupError, match="tables"):
        ShadowHarness(environment=None)
    with pytest.raises(SetupError, match="max_turns"):
        ShadowHarness(environment=SOURCE.environment, options={"max_turns": 3})
    with pytest.raises(TaskError, match="another text"):
        job_of_task(SOURCE.environment, Task(id=ITEMS[0].id, input="something else"))
