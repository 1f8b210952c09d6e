"""The shadow world against the real one: the same coder in the real tool loop, sandbox and grader."""

from __future__ import annotations

import linecache
import math
import pickle
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from heldout.config import ModelConfig, SolverConfig
from heldout.errors import HarnessError, SetupError, TaskError
from heldout.harness import make_harness
from heldout.harness.base import Episode, Preparation, Replayed
from heldout.harness.loop_settings import ToolLoopOptions
from heldout.harness.steps import commands_of, steps_of
from heldout.harness.tool_loop import ToolLoopHarness
from heldout.models.simulated import answer_key
from heldout.probes.base import Trace
from heldout.probes.signatures import error_class, signature
from heldout.records import Candidate, Task, TrainTask, Trajectory, apply_edits
from heldout.sandbox import make_sandboxes
from heldout.studies.verse.calibration import Calibration, calibrate, disagreement
from heldout.studies.verse.shadow import ShadowGrader, ShadowHarness, features_of
from heldout.tasks.base import Item
from heldout.tasks.environment import read_changes
from heldout.testing import FunctionModel
from heldout.worlds.repair import Package, RepairGrader, RepairSource
from heldout.worlds.repair.catalogue import CATALOGUE
from heldout.worlds.repair.check_run import run_check
from heldout.worlds.repair.coder import SimulatedCoder, package_of
from heldout.worlds.repair.plan import Move, vocabulary
from heldout.worlds.repair.rendering import reverts
from heldout.worlds.repair.symbolic import carry_out, is_mended
from heldout.worlds.repair.truth import EFFECTS, pass_probability, pass_rate, true_class
from heldout.worlds.repair.weaknesses import traits_of

SOURCE = RepairSource(seed=2, count=160, ood=24, nondeterminism=0.4)
ITEMS = SOURCE.items()
CODER = SimulatedCoder(ModelConfig(name="simulated_coder"), answer_key=answer_key(ITEMS))
START = Candidate(files={"system_prompt.md": SOURCE.instruction})
SHADOW = ShadowHarness(environment=SOURCE.environment)
GRADE = ShadowGrader()
OPTIONS = ToolLoopOptions()


@dataclass(frozen=True)
class Case:
    """One episode of the cross-check."""

    item: Item
    candidate: Candidate
    seed: int

    @property
    def task(self) -> Task:
        return Task(id=self.item.id, input=self.item.input)

    @property
    def episode(self) -> Episode:
        return Episode(CODER, self.seed, Preparation())


def _with(*names: str) -> Candidate:
    found = START
    for edit in CATALOGUE:
        if edit.name in names:
            found = apply_edits(found, edit.apply(found.files))
    return found


def _real() -> ToolLoopHarness:
    fault = make_sandboxes("bubblewrap").fault()
    if fault is not None:
        pytest.skip(fault)
    return ToolLoopHarness(environment=SOURCE.environment)


def _trace(case: Case, trajectory: Trajectory, *, feedback: str) -> Trace:
    task = TrainTask(id=case.item.id, input=case.item.input)
    return Trace(task=task, passed=False, steps=steps_of(trajectory), feedback=feedback)


def _compare(cases: Sequence[Case]) -> list[float]:
    """Every episode, its replay, its score and its signature, in both worlds; the scores."""
    real, grade, scores = _real(), RepairGrader(), []
    for case in cases:
        told = f"{case.item.id}, seed {case.seed}"
        one, two = (
            real.run(case.candidate, case.task, case.episode),
            SHADOW.run(case.candidate, case.task, case.episode),
        )
        assert two.answer == one.answer, told
        assert steps_of(two) == steps_of(one), told
        assert (two.measures, two.components, two.seed) == (one.measures, one.components, one.seed), told
        spent = [(t.spend.calls, t.spend.tokens_in, t.spend.tokens_out) for t in (one, two)]
        assert spent[0] == spent[1], told
        kept = commands_of(one)[:: 1 if case.seed % 2 else 2]
        _same_replay(
            real.replay(case.task, kept, seed=case.seed + 1), SHADOW.replay(case.task, kept, seed=case.seed + 1)
        )
        scores.append(grade(one.answer, case.item.reference))
        assert GRADE(two.answer, case.item.reference) == scores[-1], told
        if scores[-1] == 0.0:
            said = [each.explain(one.answer, case.item.reference) for each in (grade, GRADE)]
            seen = [signature(_trace(case, one, feedback=feedback)) for feedback in said]
            assert error_class(seen[0]) == error_class(seen[1]), told
    return scores


def _same_replay(one: Replayed, two: Replayed) -> None:
    assert (one.answer, one.outputs, one.exit_codes) == (two.answer, two.outputs, two.exit_codes)


def test_a_few_episodes_are_the_same_in_the_real_world() -> None:
    hooked = _with("mend_flags", "surface_errors", "check_after_format")
    scores = _compare([Case(ITEMS[3], START, 1), Case(ITEMS[8], hooked, 2)])
    assert len(scores) == 2


@pytest.mark.slow
def test_many_episodes_are_the_same_in_the_real_world() -> None:
    rng = random.Random(11)
    names = [edit.name for edit in CATALOGUE]
    cases = [
        Case(item, _with(*rng.sample(names, rng.choice((0, 1, 3, 8)))), rng.randrange(1000))
        for item in rng.sample(ITEMS, 40)
    ]
    scores = _compare(cases)
    assert 0.2 < sum(scores) / len(scores) < 0.9


def test_the_checks_print_in_this_process_what_they_print_in_a_sandbox() -> None:
    _real()
    sandboxes = make_sandboxes("bubblewrap")
    for item, fragment in ((ITEMS[0], "broken"), (ITEMS[4], "partial"), (ITEMS[-1], "fixed")):
        package = package_of(item.reference)
        text = package.files[package.target].replace(package.broken, getattr(package, fragment))
        files = {**package.files, package.target: text}
        scene = SOURCE.environment.scene(Task(id=item.id, input=item.input), seed=0).model_copy(update={"files": files})
        with sandboxes.open(scene) as sandbox:
            done = sandbox.run(("python3", "check.py"))
        assert run_check(files) == (done.exit_code, done.output)


def test_the_checks_leave_no_module_and_no_file_name_behind() -> None:
    package = package_of(ITEMS[0].reference)
    before, lines = set(sys.modules), set(linecache.cache)
    code, output = run_check(package.files)
    assert code == 1
    assert 'File "/work/' in output
    assert package.target.split("/")[0] not in set(sys.modules) - before
    assert not [name for name in set(linecache.cache) - lines if "check.py" in name]


def test_the_same_episode_again_is_the_same_and_a_copy_of_the_harness_agrees() -> None:
    case = Case(ITEMS[5], START, 3)
    first = SHADOW.run(case.candidate, case.task, case.episode)
    copy: ShadowHarness = pickle.loads(pickle.dumps(SHADOW))
    assert copy.fingerprint == SHADOW.fingerprint
    assert copy.run(case.candidate, case.task, case.episode) == first
    assert ShadowHarness(environment=SOURCE.environment, options={"obs_cap": 2048}).fingerprint != SHADOW.fingerprint


def test_an_edit_of_hooks_alone_redraws_nothing_and_an_edit_of_text_does() -> None:
    def results(candidate: Candidate) -> list[str | None]:
        cases = [Case(item, candidate, seed) for item in ITEMS[:80] for seed in (1, 2)]
        return [SHADOW.run(case.candidate, case.task, case.episode).answer for case in cases]

    start = results(START)
    assert results(_with("strip_colour")) == start
    changed = sum(a != b for a, b in zip(start, results(_with("tests_matter")), strict=True))
    assert 5 < changed < 80


def test_a_replay_of_a_flaky_package_may_not_reproduce_what_the_run_showed() -> None:
    """Why a refutation by replay is real: the same commands, another RUN_SEED, another outcome."""
    flaky = [item for item in ITEMS if package_of(item.reference).flaky]
    steady = [item for item in ITEMS if not package_of(item.reference).flaky]
    seeds = {reverts(seed): seed for seed in range(20)}
    for item in flaky[:20]:
        words = vocabulary(package_of(item.reference)).command
        commands = [words[Move.MEND], words[Move.FORMAT]]
        task = Task(id=item.id, input=item.input)
        answers = [SHADOW.replay(task, commands, seed=seeds[undone]).answer for undone in (False, True)]
        assert [GRADE(answer, item.reference) for answer in answers] == [1.0, 0.0]
    for item in steady[:20]:
        task, words = Task(id=item.id, input=item.input), vocabulary(package_of(item.reference)).command
        replays = [SHADOW.replay(task, [words[Move.MEND], words[Move.FORMAT]], seed=seed) for seed in seeds.values()]
        assert replays[0] == replays[1]


def test_a_replay_of_some_commands_alone_fails_as_a_shell_would_let_it() -> None:
    item = ITEMS[2]
    words = vocabulary(package_of(item.reference)).command
    task = Task(id=item.id, input=item.input)
    found = SHADOW.replay(task, [words[Move.REVERT], words[Move.MEND_REST], "uname -a"], seed=1)
    assert found.exit_codes == (1, 1, 0)
    assert "cannot stat" in found.outputs[0]
    assert "the fragment is not there" in found.outputs[1]
    assert found.outputs[2] == "exit code 0\n(no output)"
    assert found.answer == "{}"


def test_pass_probability_is_the_mean_of_many_shadow_episodes() -> None:
    candidate, seeds = _with("run_checks_after_edit", "clean_tree", "mend_flags"), 250
    features = features_of(candidate, OPTIONS)
    expected, found, variance = 0.0, 0.0, 0.0
    for item in ITEMS[:24]:
        p = pass_probability(package_of(item.reference), features.reading, features.view)
        cases = [Case(item, candidate, seed) for seed in range(seeds)]
        answers = [SHADOW.run(case.candidate, case.task, case.episode).answer for case in cases]
        share = sum(GRADE(answer, item.reference) for answer in answers) / seeds
        assert abs(share - p) <= 4.5 * math.sqrt(max(p * (1 - p), 2e-3) / seeds), item.id
        expected, found, variance = expected + p, found + share, variance + p * (1 - p) / seeds
    assert abs(expected - found) <= 3 * math.sqrt(variance)


def test_the_pass_rate_is_the_mean_over_tasks() -> None:
    features = features_of(START, OPTIONS)
    packages = [package_of(item.reference) for item in ITEMS[:5]]
    each = [pass_probability(package, features.reading, features.view) for package in packages]
    assert pass_rate(packages, features.reading, features.view) == pytest.approx(sum(each) / 5)
    assert disagreement([0.0, 1.0, 0.5, 0.25]) == pytest.approx((0.5 + 0.375) / 4)


def _packages(*, seeds: Sequence[int], count: int) -> list[Package]:
    items = [item for seed in seeds for item in RepairSource(seed=seed, count=count, ood=0).items()]
    return [package_of(item.reference) for item in items]


def test_the_start_harness_passes_about_two_fifths_and_two_of_its_runs_disagree_on_about_a_sixth() -> None:
    features = features_of(START, OPTIONS)
    chances = [
        pass_probability(package, features.reading, features.view) for package in _packages(seeds=(0, 1), count=160)
    ]
    assert 0.35 <= sum(chances) / len(chances) <= 0.45
    assert 0.14 <= disagreement(chances) <= 0.18


@pytest.mark.slow
def test_every_edit_alone_has_the_effect_that_the_truth_says() -> None:
    found = calibrate(START, _packages(seeds=range(4), count=160), OPTIONS)
    assert isinstance(found, Calibration)
    assert {edit.name: edit.effect for edit in found.edits} == dict(EFFECTS)
    for edit in found.edits:
        low, high = {"useful": (4.0, 14.0), "null": (-1e-9, 1e-9), "harmful": (-12.0, -3.0)}[edit.effect]
        assert low <= edit.points <= high, edit
    assert 0.80 <= found.all_useful <= 0.90
    mixed = {edit.name for edit in found.edits if min(edit.up, edit.down) > 0.4}
    assert {"follow_the_call", "short_episodes"} <= mixed


def test_one_in_ten_tasks_is_out_of_reach_with_every_useful_edit() -> None:
    packages = _packages(seeds=(0, 1), count=160)
    best = features_of(_with(*(name for name, effect in EFFECTS.items() if effect == "useful")), OPTIONS)
    unsolvable = [package for package in packages if not traits_of(package).solvable]
    assert 0.06 <= len(unsolvable) / len(packages) <= 0.14
    assert all(pass_probability(package, best.reading, best.view) == 0.0 for package in unsolvable)


def test_signatures_tell_of_their_cause_and_not_for_sure() -> None:
    """Of the failures whose last command failed, the table's class is right in most, and not in all."""
    right = wrong = 0
    classes = set()
    for item in ITEMS[:160]:
        case = Case(item, START, 4)
        trajectory = SHADOW.run(START, case.task, case.episode)
        if GRADE(trajectory.answer, item.reference) == 1.0:
            continue
        said = [step.text.partition("\n")[0] for step in steps_of(trajectory)]
        causes = {
            Move.MEND_LOOKALIKE: "locate",
            Move.MEND_ASTRAY: "traceback",
            Move.LOCATE_WORST: "shell",
            Move.REVERT: "keep_mend",
            Move.FORMAT: "keep_mend",
        }
        cause = next((causes[move] for move in causes if move.value in said), "tests")
        feedback = GRADE.explain(trajectory.answer, item.reference)
        told = true_class(signature(_trace(case, trajectory, feedback=feedback)))
        classes.add(told)
        right, wrong = right + (told == cause), wrong + (told != cause)
    assert 0.55 < right / (right + wrong) < 0.95
    assert len(classes) == 5


def test_a_limit_of_turns_ends_an_episode_and_leaves_its_answer() -> None:
    short = SHADOW.short(3)
    case = Case(ITEMS[0], START, 1)
    trajectory = short.run(START, case.task, case.episode)
    assert len(trajectory.steps) == 3
    assert (trajectory.measures["turn_limit"], trajectory.measures["submitted"]) == (1.0, 0.0)
    assert trajectory.answer == "{}"
    assert short.fingerprint != SHADOW.fingerprint
    assert short.short(20).options.max_turns == 3


def test_a_bound_is_at_least_what_every_episode_spends() -> None:
    for name in ("wide_observations", "strip_colour", "short_episodes"):
        candidate = _with(name)
        for item in ITEMS[:40]:
            case = Case(item, candidate, 1)
            bound = SHADOW.bound(candidate, case.task, CODER)
            spend = SHADOW.run(candidate, case.task, case.episode).spend
            assert spend.calls <= bound.calls
            assert spend.tokens_in <= bound.tokens_in
            assert spend.tokens_out <= bound.tokens_out


def test_it_is_made_like_any_harness_and_refuses_what_it_does_not_simulate() -> None:
    config = SolverConfig(harness="heldout.studies.verse.shadow:ShadowHarness", options={"max_turns": 12})
    made = make_harness(config, labels=(), environment=SOURCE.environment)
    assert isinstance(made, ShadowHarness)
    assert made.options.max_turns == 12
    assert made.replayable
    with pytest.raises(SetupError, match="source 'repair'"):
        make_harness(config, labels=())
    case = Case(ITEMS[0], START, 1)
    with pytest.raises(HarnessError, match="simulates 'simulated_coder', not 'function'"):
        made.run(START, case.task, Episode(FunctionModel(str), 1, Preparation()))
    with pytest.raises(HarnessError, match="no file of a harness folder"):
        made.bound(Candidate(files={"odd.txt": "x"}), case.task, CODER)
    with pytest.raises(HarnessError, match="hooks"):
        made.dry_run(Candidate(files={**START.files, "harness_code/hooks.py": "import os\n"}))
    assert made.dry_run(START) == []


@pytest.mark.parametrize("task", ["q00001", "repair-nothing-0001", "repair-rounding-x"])
def test_a_task_of_another_world_is_refused(task: str) -> None:
    with pytest.raises(TaskError, match="not of the world 'repair'"):
        SHADOW.replay(Task(id=task, input="?"), [], seed=1)
    with pytest.raises(TaskError, match="another text"):
        SHADOW.replay(Task(id=ITEMS[0].id, input="?"), [], seed=1)


def test_the_shadow_grader_compares_code_and_not_text() -> None:
    item = ITEMS[1]
    package = package_of(item.reference)
    solution = SOURCE.solution(item)
    assert GRADE(solution, item.reference) == 1.0
    assert GRADE.explain(solution, item.reference) == ""
    for wrong in (None, "{}", "not json", f'{{"{package.target}": null}}', f'{{"{package.target}": "def ("}}'):
        assert GRADE(wrong, item.reference) == 0.0
    assert "simulation" in GRADE.explain("{}", item.reference)
    commented = package.solution[package.target] + "\n# a remark\n"
    assert is_mended(package, {package.target: commented})
    changes = read_changes(carry_out(package, [vocabulary(package).command[Move.MEND]], restores=False)[1])
    assert changes == package.solution
