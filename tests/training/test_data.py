"""What may be trained on: contamination, provenance, caps, and data sets on disk."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from heldout.config import TasksConfig
from heldout.errors import SetupError, StoreError
from heldout.records import OutcomeStatus, TrainTask, Trajectory
from heldout.tasks import load_tasks
from heldout.tasks.examples import BuildRequest, Pair
from heldout.tasks.graders import CUT
from heldout.tasks.overlap import overlap_index, overlap_of
from heldout.training import Example, Provenance, examples_digest
from heldout.training.builders import load_builder
from heldout.training.data import (
    AdmissionPolicy,
    Rollout,
    admit,
    check_batch,
    check_rollouts,
    examples_of_pairs,
    examples_of_rollouts,
    read_examples,
    write_examples,
)
from heldout.training.data_files import export_verl, load_examples, save_examples

WORDS = [hashlib.sha256(str(number).encode()).hexdigest()[:7] for number in range(60)]


def words(first: int, count: int) -> str:
    return " ".join(WORDS[first : first + count])


SEALED = words(0, 20)
INDEX = overlap_of([("audit-1", SEALED), ("select-1", words(20, 9))])


def example(number: int = 0, **changes: object) -> Example:
    """A clean example, with changes to its turns or its provenance."""
    turns = {key: changes.pop(key) for key in ("prompt", "turns", "completion", "system") if key in changes}
    origin = {"task": f"made/{number}", "role": "built"} | changes
    prompt = f"question {words(30 + number % 20, 5)} {number}"
    return Example.model_validate({"prompt": prompt, "completion": f"answer {number}", "provenance": origin} | turns)


def said(action: str, observation: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": action}, {"role": "tool", "content": observation}]


def clean(count: int) -> list[Example]:
    return [example(number) for number in range(count)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": "audit-1"}, "id"),
        ({"task": "select-1"}, "id"),
        ({"prompt": SEALED}, "text"),
        ({"completion": SEALED.upper().replace(" ", ", ")}, "text"),
        ({"system": SEALED.replace(WORDS[3], f"{WORDS[3][:3]}\u200b{WORDS[3][3:]}")}, "text"),
        ({"turns": said("look", SEALED)}, "text"),
        ({"turns": said(SEALED, "seen")}, "text"),
        ({"prompt": f"{SEALED} indeed"}, "near"),
        ({"completion": f"so {SEALED}"}, "near"),
        ({"prompt": f"As I was told once: {words(4, 13)}. What is that, and who would have said it?"}, "13-gram"),
        ({"completion": f"As I was told once: {words(4, 13)}. That is what was said on that day."}, "13-gram"),
        ({"prompt": f"Answer what follows, in one line and no more: {words(20, 9)}"}, "13-gram"),
        ({"turns": said(f"I read {words(2, 7)}", f"{words(9, 7)} and so on it goes")}, "13-gram"),
        (
            {"prompt": f"Go on with the text: {words(2, 7)}", "completion": f"{words(9, 7)} and so on it goes"},
            "13-gram",
        ),
    ],
)
def test_invariant_1_no_example_shares_id_text_or_13_gram_with_a_sealed_task(
    changes: dict[str, object], reason: str
) -> None:
    admission = admit([*clean(40), example(99, **changes)], INDEX)
    assert admission.removed == {reason: 1}
    assert admission.kept == tuple(clean(40))
    assert admission.hits == pytest.approx(1 / 41)
    assert not admission.voided


def test_more_than_five_percent_of_hits_void_the_data_set() -> None:
    hit = example(99, prompt=SEALED)
    assert not admit([*clean(19), hit], INDEX).voided, "one of twenty is five percent"
    admission = admit([*clean(18), hit], INDEX)
    assert admission.kept == ()
    assert admission.removed == {"text": 1}
    assert "1 of 19 examples (5.3%) meet a task of select or of a sealed role (text 1); at most 5%" in admission.voided
    assert admit([*clean(18), hit], INDEX, AdmissionPolicy(max_hits=0.1)).kept == tuple(clean(18))


def test_invariant_1_a_builder_that_leaks_the_tasks_is_voided_and_an_honest_one_is_not() -> None:
    config = TasksConfig(
        source="formats", train=40, select=40, audit=160, reports={"retain": 20}, options={"items": 400}
    )
    tasks = load_tasks(config)
    index = overlap_index(config, tasks.plan)
    train = {task.id for task in tasks.train}

    def built(name: str, **params: object) -> tuple[Example, ...]:
        request = BuildRequest(
            count=200,
            seed=5,
            failures=tasks.train,
            solutions=tasks.train_solutions(),
            params=params,
            source_options={"items": 400},
        )
        return examples_of_pairs(load_builder(name)(request), builder=name, train=train)

    leaked = admit(built("formats:leak"), index)
    assert "meet a task of select" in leaked.voided
    assert leaked.hits > 0.3
    honest = admit(built("formats:mixture"), index)
    assert not honest.voided
    assert honest.hits < 0.02
    references = admit(built("train:references"), index)
    assert not references.voided
    assert {one.provenance.role for one in references.kept} == {"train"}
    graded = {tasks.grade(one.provenance.task, one.completion) for one in references.kept}
    assert graded == {1.0}, "the answers, not the records that the grader reads"


@pytest.mark.parametrize("role", ["select", "audit", "retain", "test", "unknown", ""])
def test_a_role_that_is_not_for_training_voids_the_data_set(role: str) -> None:
    admission = admit([*clean(99), example(99, task="t7", role=role)], INDEX)
    assert admission.kept == ()
    assert f"the task 't7' of the role {role!r}; only train and built" in admission.voided


def test_an_example_without_a_task_voids_the_data_set() -> None:
    assert "a provenance without a task" in admit([*clean(3), example(4, task="")], INDEX).voided


def harnessed(number: int, **harness: str) -> Example:
    return example(number, task=f"t{number}", role="train", model="m", harness=harness)


def test_a_data_set_that_mixes_harnesses_is_voided() -> None:
    same = [harnessed(number, prompt="p1", tools="x1") for number in range(3)]
    assert admit([*same, *clean(2)], INDEX).voided == "", "what a rule wrote was made in no harness"
    mixed = [*same, harnessed(9, prompt="p1", tools="x2")]
    assert "differ in 'tools' (3 of 'x1', 1 of 'x2')" in admit(mixed, INDEX).voided
    assert "differ in 'tools' (3 of 'x1', 1 of 'none')" in admit([*same, harnessed(9, prompt="p1")], INDEX).voided


def test_the_components_that_must_agree_are_a_switch() -> None:
    mixed = [harnessed(1, prompt="p1", tools="x1"), harnessed(2, prompt="p2", tools="x1")]
    assert "differ in 'prompt'" in admit(mixed, INDEX).voided
    assert admit(mixed, INDEX, AdmissionPolicy(match=("tools",))).kept == tuple(mixed)
    assert "differ in 'prompt'" in admit(mixed, INDEX, AdmissionPolicy(match=("tools", "prompt"))).voided
    assert admit(mixed, INDEX, AdmissionPolicy(mixed_harness=True)).kept == tuple(mixed)


@pytest.mark.parametrize("harness", [None, {"prompt": "p1", "tools": "x1"}])
def test_a_component_that_no_harness_has_matches_nothing(harness: dict[str, str] | None) -> None:
    mixed = [harnessed(1, prompt="p1", tools="x1"), harnessed(2, prompt="p1", tools="x2")]
    for match in (("tool",), ("prompt", "tool")):
        policy = AdmissionPolicy(match=match, harness=harness)
        assert (
            admit(mixed, INDEX, policy).voided == "match names 'tool'; the components of the harness are prompt, tools"
        )
    assert admit(clean(2), INDEX, AdmissionPolicy(match=("tool",))).voided == ""


def test_a_harness_that_was_not_recorded_differs_from_one_that_was() -> None:
    known, unknown = harnessed(1, tools="x1"), harnessed(2)
    assert "differ in 'tools' (1 of 'x1', 1 of 'none')" in admit([known, unknown], INDEX).voided
    assert admit([known, *clean(2)], INDEX).voided == ""
    assert admit([unknown, harnessed(3), *clean(2)], INDEX).voided == ""
    assert admit([known, unknown], INDEX, AdmissionPolicy(mixed_harness=True)).voided == ""


def test_what_several_models_wrote_is_mixed_only_where_the_policy_lets_it() -> None:
    one, other = (example(number, model=model, harness={"tools": "x1"}) for number, model in enumerate("mn"))
    assert "written by several models (1 of 'm', 1 of 'n')" in admit([one, other], INDEX).voided
    assert "several models" in admit([one, other], INDEX, AdmissionPolicy(mixed_harness=True)).voided
    assert admit([one, other], INDEX, AdmissionPolicy(mixed_models=True)).kept == (one, other)
    asked = AdmissionPolicy(mixed_models=True, model="n")
    assert "not all written by 'n' (1 of 'm', 1 of 'n')" in admit([one, other], INDEX, asked).voided
    assert admit([other, *clean(3)[2:]], INDEX, AdmissionPolicy(model="n")).voided == ""
    assert admit([one, *clean(3)[2:]], INDEX).voided == ""


def test_a_batch_of_another_harness_than_the_one_asked_for_is_refused() -> None:
    old = [harnessed(number, prompt="p1", tools="x1") for number in range(3)]
    now = AdmissionPolicy(harness={"prompt": "p1", "tools": "x2"})
    assert "whose 'tools' is not 'x2' (3 of 'x1')" in admit(old, INDEX, now).voided
    with pytest.raises(SetupError, match="whose 'tools' is not 'x2'"):
        check_batch(old, INDEX, now.model_copy(update={"mixed_harness": True}))
    more = AdmissionPolicy(harness={"prompt": "p1"})
    assert "whose 'tools' is not 'none' (3 of 'x1')" in admit(old, INDEX, more).voided
    less = AdmissionPolicy(harness={"prompt": "p1", "skills": "s1", "tools": "x1"})
    assert "whose 'skills' is not 's1' (3 of 'none')" in admit(old, INDEX, less).voided
    assert "whose 'prompt' is not 'p1' (1 of 'none')" in admit([harnessed(1)], INDEX, now).voided


def test_a_batch_of_the_harness_that_is_asked_for_is_admitted() -> None:
    made = [*(harnessed(number, prompt="p1", tools="x1") for number in range(3)), *clean(6)[4:]]
    same = {"prompt": "p1", "tools": "x1"}
    assert admit(made, INDEX, AdmissionPolicy(harness=same)).kept == tuple(made)
    tools = AdmissionPolicy(harness={"prompt": "p2", "tools": "x1"}, match=("tools",))
    assert admit(made, INDEX, tools).kept == tuple(made)
    assert admit(clean(3), INDEX, AdmissionPolicy(harness=same)).voided == ""


def test_a_harness_of_examples_that_are_not_trained_on_mixes_nothing() -> None:
    failed = harnessed(9, tools="x2").model_copy(
        update={"provenance": harnessed(9, tools="x2").provenance.model_copy(update={"status": OutcomeStatus.FAILED})}
    )
    admission = admit([harnessed(1, tools="x1"), failed], INDEX)
    assert admission.voided == ""
    assert admission.removed == {"failed": 1}


def test_failed_completions_are_removed_unless_they_are_allowed() -> None:
    failed = example(5, status="failed", score=0.0)
    unknown = example(6, status="not_measured")
    assert admit([failed, unknown], INDEX).kept == (unknown,)
    assert admit([failed, unknown], INDEX).removed == {"failed": 1}
    assert admit([failed, unknown], INDEX, AdmissionPolicy(failed=True)).kept == (failed, unknown)


def test_duplicates_are_removed_and_counted() -> None:
    twice = [example(1), example(2), example(1, task="made/other")]
    assert admit(twice, INDEX).kept == (twice[0], twice[1])
    assert admit(twice, INDEX).removed == {"duplicate": 1}
    assert admit(twice, INDEX, AdmissionPolicy(duplicates=True)).kept == tuple(twice)


def test_a_cap_keeps_the_first_examples_of_each_task() -> None:
    many = [example(number, task=f"t{number % 2}", role="train") for number in range(6)]
    admission = admit(many, INDEX, AdmissionPolicy(max_per_task=2))
    assert admission.kept == tuple(many[:4])
    assert admission.removed == {"per task": 2}


def test_an_episode_counts_once_and_is_repeated_only_as_a_whole() -> None:
    def turn(episode: str, number: int) -> Example:
        return example(number, task="t1", role="train", model="m", episode=episode)

    first, second = [turn("a", number) for number in (1, 2)], [turn("b", number) for number in (1, 3)]
    again, single = [turn("c", number) for number in (1, 2)], example(1, task="t1", role="train", model="m")
    admission = admit([first[0], second[0], first[1], *again, second[1], single], INDEX)
    assert admission.kept == (first[0], second[0], first[1], second[1], single)
    assert admission.removed == {"duplicate": 2}
    admission = admit([*first, *second, single], INDEX, AdmissionPolicy(max_per_task=2))
    assert admission.kept == (*first, *second)
    assert admission.removed == {"per task": 1}
    admission = admit([*first, *first, *second], INDEX)
    assert (admission.kept, admission.removed) == ((*first, *second), {"duplicate": 2})


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"completion": "a" + CUT}, "cut"), ({"status": "failed"}, "failed"), ({"prompt": SEALED}, "text")],
)
def test_of_an_episode_that_lost_a_turn_nothing_is_learnt(change: dict[str, object], reason: str) -> None:
    ours = {"task": "t1", "role": "train", "model": "m"}
    turns = [example(number, episode="a", **ours) for number in range(3)]
    turns[1] = example(1, episode="a", **ours, **change)
    other = example(9, episode="b", **ours)
    admission = admit([*turns, other, *clean(40)[10:]], INDEX)
    assert admission.removed == {reason: 1, "episode": 2}
    assert admission.kept == (other, *clean(40)[10:])


def test_an_answer_that_was_cut_off_is_never_learnt() -> None:
    assert admit([example(1, completion="a, b" + CUT), example(2)], INDEX).removed == {"cut": 1}


def test_an_empty_data_set_is_admitted_as_empty_and_left_to_the_preflight() -> None:
    admission = admit([], INDEX)
    assert (admission.kept, admission.removed, admission.hits, admission.voided) == ((), {}, 0.0, "")
    assert admission.digest == examples_digest([])


def test_a_batch_is_refused_for_one_example() -> None:
    check_batch(clean(40), INDEX)
    with pytest.raises(SetupError, match=r"1 of 41 examples may not be trained on \(text 1\)"):
        check_batch([*clean(40), example(99, prompt=SEALED)], INDEX)
    with pytest.raises(SetupError, match="differ in 'tools'"):
        check_batch([harnessed(1, tools="x1"), harnessed(2, tools="x2")], INDEX)
    with pytest.raises(SetupError, match="of the role 'select'"):
        check_batch([example(1, role="select")], INDEX)


def test_rollouts_that_fail_or_repeat_are_learned_from_and_sealed_ones_are_not() -> None:
    ours = {"role": "train", "model": "m"}
    origins = [example(number, status="failed", score=0.0, **ours).provenance for number in (1, 1, 2)]
    texts = ["question 1", "answer 1", "answer 1"]
    check_rollouts(origins, texts, INDEX)
    with pytest.raises(SetupError, match=r"the rollouts are refused: they meet .*sealed role \(text 1\)"):
        check_rollouts(origins, [*texts, SEALED], INDEX)
    with pytest.raises(SetupError, match=r"sealed role \(id 1\)"):
        check_rollouts([*origins, example(3, task="audit-1").provenance], texts, INDEX)
    with pytest.raises(SetupError, match=r"the rollouts are refused: .*of the role 'ood'"):
        check_rollouts([*origins, example(3, role="ood", model="m").provenance], texts, INDEX)
    with pytest.raises(SetupError, match="a rollout has a provenance without a model"):
        check_rollouts([*origins, example(3, role="train").provenance], texts, INDEX)
    with pytest.raises(SetupError, match=r"not all written by 'w2' \(3 of 'm'\)"):
        check_rollouts(origins, texts, INDEX, AdmissionPolicy(model="w2"))
    check_rollouts(origins, texts, INDEX, AdmissionPolicy(model="m"))
    tools = [harnessed(1, tools="x1").provenance, harnessed(2, tools="x2").provenance]
    with pytest.raises(SetupError, match=r"the rollouts are refused: .*differ in 'tools'"):
        check_rollouts(tools, texts, INDEX)
    check_rollouts(tools, texts, INDEX, AdmissionPolicy(mixed_harness=True))


def test_pairs_get_the_provenance_that_trusted_code_knows() -> None:
    pairs = [
        Pair(prompt="p", completion="c", score=1.0),
        Pair(prompt="p", completion="c", task="t1", score=0.0),
        Pair(prompt="p", completion="c", task="s1"),
    ]
    made = examples_of_pairs(pairs, builder="formats:end", train={"t1"}, system="Be brief.", verifier="formats")
    assert [(one.provenance.task, one.provenance.role) for one in made] == [
        ("formats:end/0", "built"),
        ("t1", "train"),
        ("s1", "unknown"),
    ]
    assert [one.provenance.status.value for one in made] == ["passed", "failed", "not_measured"]
    assert [one.provenance.verifier for one in made] == ["formats", "formats", ""]
    assert {one.system for one in made} == {"Be brief."}


def test_rollouts_keep_weights_and_harness_by_component() -> None:
    def rollout(answer: str | None, **more: object) -> Rollout:
        trajectory = Trajectory.model_validate({"answer": answer, "model": "pocket"} | more)
        return Rollout(TrainTask(id="t1", input="question"), trajectory, 1.0, weights="w" * 64)

    made = examples_of_rollouts(
        [rollout("yes", harness="h1"), rollout(None), rollout("no", harness="h1", components={"tools": "x1"})],
        verifier="exact",
    )
    assert [one.completion for one in made] == ["yes", "no"]
    steps = [{"role": "assistant", "content": "ls"}, {"role": "assistant", "content": "yes"}]
    with pytest.raises(SetupError, match="the episode on 't1' has 2 steps"):
        examples_of_rollouts([rollout("yes", steps=steps[1:]), rollout("yes", steps=steps)], verifier="exact")
    assert [dict(one.provenance.harness) for one in made] == [{"harness": "h1"}, {"tools": "x1"}]
    assert made[0].provenance == Provenance(
        task="t1",
        role="train",
        model="w" * 64,
        harness={"harness": "h1"},
        verifier="exact",
        status=OutcomeStatus.PASSED,
        score=1.0,
    )


def test_a_data_set_comes_back_from_its_lines() -> None:
    made = [example(1, completion="two\nlines\u2028and ü"), example(2, harness={"tools": "x"}, score=0.25)]
    text = write_examples(made)
    assert text.count("\n") == 2
    assert read_examples(text) == tuple(made)
    assert write_examples(read_examples(text)) == text


def test_an_episode_comes_back_from_its_line_and_its_turns_are_part_of_its_identity() -> None:
    short, long = example(1), example(1, turns=said("look", "a door"))
    assert read_examples(write_examples([long])) == (long,)
    assert [turn["role"] for turn in long.conversation] == ["user", "assistant", "tool", "assistant"]
    others = [example(1, turns=said("look", "a wall")), example(1, turns=[{"role": "user", "content": "a door"}])]
    assert len({one.digest for one in (short, long, *others)}) == 4
    with pytest.raises(ValidationError, match="the turn before the completion is an assistant's too"):
        example(1, turns=said("look", "a door")[:1])


def test_a_line_that_is_no_example_is_named() -> None:
    text = write_examples(clean(2))
    with pytest.raises(SetupError, match=r"'data\.jsonl', line 3: provenance: Field required"):
        read_examples(text + '{"prompt": "p", "completion": "c"}\n', where="data.jsonl")
    with pytest.raises(SetupError, match="line 3: the line: Invalid JSON"):
        read_examples(text + "{\n")


def test_a_data_set_on_disk_is_checked_against_its_digest(tmp_path: Path) -> None:
    file = tmp_path / "examples.jsonl"
    digest = save_examples(clean(3), file)
    assert digest == examples_digest(clean(3))
    assert load_examples(file, digest=digest) == tuple(clean(3))
    file.write_text(write_examples(clean(2)), encoding="utf-8")
    with pytest.raises(StoreError, match="was changed: its digest is now"):
        load_examples(file, digest=digest)
    with pytest.raises(SetupError, match="cannot read the data set"):
        load_examples(tmp_path / "absent.jsonl")


def test_the_export_for_verl_carries_messages_and_provenance(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    made = [example(1, system="Be brief."), harnessed(2, tools="x1")]
    with pytest.raises(SetupError, match="1 of 3 examples are turns of longer episodes, of which verl would learn"):
        export_verl([*made, example(3, turns=said("look", "a door"))], tmp_path / "none.parquet")
    file = export_verl(made, tmp_path / "train.parquet", source="formats")
    rows = parquet.read_table(str(file)).to_pylist()
    assert rows[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": made[0].prompt},
        {"role": "assistant", "content": "answer 1"},
    ]
    assert [turn["role"] for turn in rows[1]["messages"]] == ["user", "assistant"]
    assert [(one["data_source"], one["task"], one["role"], one["model"]) for one in rows] == [
        ("formats", "made/1", "built", ""),
        ("formats", "t2", "train", "m"),
    ]
    assert json.loads(rows[1]["harness"]) == {"tools": "x1"}
    assert [one["extra_info"]["digest"] for one in rows] == [one.digest for one in made]


def test_the_export_without_pyarrow_writes_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    file = export_verl(clean(2), tmp_path / "train.parquet")
    assert file.name == "train.jsonl"
    assert [json.loads(line)["task"] for line in file.read_text().splitlines()] == ["made/0", "made/1"]
    with pytest.raises(SetupError, match="no examples to export"):
        export_verl([], tmp_path / "none.parquet")
