"""The improver without a model: every move, its limits, and that the same view gives the same proposal."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from improver_views import LABELS, TRAIN, make_view, shown

from heldout.config import ImproverConfig
from heldout.errors import HarnessError, SetupError
from heldout.harness import Demonstration, Prompt, read_prompt
from heldout.improvers import Attempt, Failure, View, make_improver
from heldout.improvers.phrases import PHRASES, bank
from heldout.records import Candidate, Proposal


def propose(view: View, **options: Any) -> Proposal | None:
    return make_improver(ImproverConfig(options=options)).propose(view)


def changed(view: View, **options: Any) -> Prompt:
    proposal = propose(view, **options)
    assert proposal is not None
    assert proposal.files is not None
    assert proposal.error is None
    return read_prompt(proposal.files)


SIX = shown(0, 1, 2, 3, 4, 5)


@given(st.integers(0, 2**31), st.lists(st.integers(0, 29), unique=True, max_size=12))
def test_a_proposal_is_new_deterministic_within_limits_and_made_of_train_tasks(seed: int, numbers: list[int]) -> None:
    view = make_view(*shown(*numbers), seed=seed)
    proposal = propose(view)
    assert proposal is not None
    assert proposal.files is not None
    assert proposal == propose(view)
    assert "\n" not in proposal.note
    assert proposal.note
    assert Candidate(files=proposal.files).digest != view.incumbent.digest
    prompt = read_prompt(proposal.files)
    assert len(prompt.demonstrations) <= 12
    inputs = [example.input for example in prompt.demonstrations]
    assert len(set(inputs)) == len(inputs)
    gold = {task.input: task.reference for task in TRAIN}
    assert all(gold[example.input] == example.output for example in prompt.demonstrations)
    assert prompt.instruction.startswith("Classify.")


def test_seeds_give_different_proposals() -> None:
    assert len({propose(make_view(*SIX, seed=seed)).model_dump_json() for seed in range(30)}) > 20  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(10))
def test_the_first_examples_show_every_label_once(seed: int) -> None:
    prompt = changed(make_view(seed=seed), moves=("add",))
    assert Counter(example.output for example in prompt.demonstrations) == dict.fromkeys(LABELS, 1)


@pytest.mark.parametrize("seed", range(10))
def test_later_additions_go_to_labels_that_lack_examples_or_fail(seed: int) -> None:
    lacking = changed(make_view(*shown(0, 3, 1, 4), seed=seed), moves=("add",))
    assert "time" in [example.output for example in lacking.demonstrations]
    failures = [Failure(TRAIN[6], "time"), Failure(TRAIN[9], "time"), Failure(TRAIN[12], None)]
    failing = changed(make_view(*SIX, failures=failures, seed=seed), moves=("add",))
    assert Counter(example.output for example in failing.demonstrations)["animal"] == 3


@pytest.mark.parametrize("seed", range(10))
def test_swap_keeps_labels_and_drop_takes_from_the_fullest_label(seed: int) -> None:
    swapped = changed(make_view(*SIX, seed=seed), moves=("swap",)).demonstrations
    assert [example.output for example in swapped] == [example.output for example in SIX]
    assert 1 <= sum(a != b for a, b in zip(swapped, SIX, strict=True)) <= 3
    dropped = changed(make_view(*shown(0, 3, 1, 2), seed=seed), moves=("drop",)).demonstrations
    assert Counter(example.output for example in dropped) == dict.fromkeys(LABELS, 1)


def test_reorder_keeps_the_examples() -> None:
    reordered = changed(make_view(*SIX), moves=("reorder",)).demonstrations
    assert list(reordered) != SIX
    assert sorted(example.input for example in reordered) == sorted(example.input for example in SIX)


def test_phrases_join_and_leave_the_instruction() -> None:
    joined = changed(make_view(), moves=("phrase",), phrases=("One of: {labels}.",))
    assert joined.instruction == "Classify.\nOne of: animal, place, time."
    left = changed(make_view(instruction=joined.instruction), moves=("phrase",), phrases=("One of: {labels}.",))
    assert left.instruction == "Classify."
    assert bank(PHRASES, ()) == list(PHRASES[1:])


def test_open_answers_get_examples_too() -> None:
    prompt = changed(make_view(labels=()), moves=("add",))
    assert len(prompt.demonstrations) == 3


def test_earlier_candidates_are_not_proposed_again_and_none_is_left_in_the_end() -> None:
    view = make_view(*SIX[:2])
    digests = {Candidate(files=Prompt("Classify.", shown(*one)).files()).digest for one in ([0, 1], [1, 0])}
    history = [Attempt(digest, "", None, "reject") for digest in digests]
    assert propose(view, moves=("reorder",)) is not None
    assert propose(make_view(*SIX[:2], history=history), moves=("reorder",)) is None
    assert propose(make_view(), moves=("swap", "drop", "reorder")) is None
    assert propose(make_view(), max_demonstrations=0, moves=("add",)) is None


def test_other_files_of_the_folder_stay() -> None:
    view = make_view()
    files = {**view.incumbent.files, "notes.md": "mine"}
    noted = View(**{**{name: getattr(view, name) for name in View.__slots__}, "incumbent": Candidate(files=files)})
    proposal = propose(noted)
    assert proposal is not None
    assert (proposal.files or {})["notes.md"] == "mine"


def test_bad_options_and_folders_are_named() -> None:
    with pytest.raises(SetupError, match=r"'demonstrations': shuffle: .*are max_demonstrations, moves, phrases"):
        propose(make_view(), shuffle=True)
    with pytest.raises(SetupError, match="moves"):
        propose(make_view(), moves=("jump",))
    with pytest.raises(SetupError, match="no improver 'demos'"):
        make_improver(ImproverConfig(kind="demos"))
    with pytest.raises(HarnessError, match=r"instruction\.md"):
        propose(make_view(instruction=" "))


def test_a_demonstration_is_written_as_one_line() -> None:
    prompt = Prompt("Go.", (Demonstration(input="two\nlines", output="é"),))
    assert prompt.files()["demonstrations.jsonl"] == '{"input": "two\\nlines", "output": "é"}\n'
