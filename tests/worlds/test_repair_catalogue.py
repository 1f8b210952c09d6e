"""The catalogue of harness edits, and what is true of it."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import random
from collections import Counter

import pytest

from heldout.errors import HarnessError
from heldout.harness.hooks import HookHost, audit_hooks
from heldout.harness.workspace import check_workspace, read_workspace
from heldout.records import Candidate, Edit, apply_edits
from heldout.sandbox import make_sandboxes
from heldout.worlds.repair import RepairSource, catalogue, hook_parts
from heldout.worlds.repair.catalogue import (
    CATALOGUE,
    EDIT_CLASSES,
    HOOKS_FILE,
    LOOP_FILE,
    CatalogueEdit,
    hook_parts_in,
    settings_in,
)
from heldout.worlds.repair.truth import CAUSES, CLASS_OF, EFFECTS, diagnose, true_class
from heldout.worlds.repair.weaknesses import INFLUENCES, Weakness

START = Candidate(files={"system_prompt.md": RepairSource().instruction})
BY_NAME = {edit.name: edit for edit in CATALOGUE}


SIGNS = [
    ("grep: unrecognized option <str>", "shell"),
    ("Usage: grep [OPTION]... PATTERNS [FILE]...", "shell"),
    ("tail: cannot open <str> for reading: No such file or directory", "tests"),
    ("rm: cannot remove <str>: No such file or directory", "keep_mend"),
    ("cat: <path>: No such file or directory", "traceback"),
    ("AssertionError: the fragment is not there", "locate"),
    ("AssertionError: first page: expected <n>, got <n>", "keep_mend"),
    ("<n> of <n> hidden tests failed", "keep_mend"),
]


def _after(*edits: CatalogueEdit, start: Candidate = START) -> Candidate:
    for edit in edits:
        start = apply_edits(start, edit.apply(start.files))
    return start


def test_there_are_24_edits_eight_of_each_effect_and_every_class_has_every_effect() -> None:
    assert len(CATALOGUE) == len(BY_NAME) == 24
    assert set(EFFECTS) == set(BY_NAME)
    assert Counter(EFFECTS.values()) == {"useful": 8, "null": 8, "harmful": 8}
    found = {(edit.edit_class, EFFECTS[edit.name]) for edit in CATALOGUE}
    assert found == set(itertools.product(EDIT_CLASSES, ("useful", "null", "harmful")))


def test_the_catalogue_knows_nothing_of_what_works() -> None:
    source = inspect.getsource(catalogue)
    imported = {
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    assert not {name for name in imported if name and name.rpartition(".")[2] in ("truth", "weaknesses", "plan")}
    told = {word for edit in CATALOGUE for word in edit.text.casefold().split()}
    assert not told & {"useful", "useless", "harmful", "null"}


@pytest.mark.parametrize("edit", CATALOGUE, ids=lambda edit: edit.name)
def test_an_edit_gives_a_workspace_that_the_tool_loop_accepts_and_is_made_once(edit: CatalogueEdit) -> None:
    assert not edit.in_place(START.files)
    edited = _after(edit)
    check_workspace(edited)
    assert edited.digest != START.digest
    assert edit.in_place(edited.files)
    assert edit.apply(edited.files) == ()
    others = [other.name for other in CATALOGUE if other is not edit and other.in_place(edited.files)]
    assert others == []


def test_edits_of_the_same_file_compose_in_any_order() -> None:
    wide, narrow = BY_NAME["wide_observations"], BY_NAME["narrow_observations"]
    compatible = [edit for edit in CATALOGUE if edit is not narrow]
    rng = random.Random(5)
    for _ in range(12):
        shuffled = rng.sample(compatible, len(compatible))
        everything = _after(*shuffled)
        check_workspace(everything)
        assert all(edit.in_place(everything.files) for edit in compatible)
        assert everything.files[HOOKS_FILE] == _after(*compatible).files[HOOKS_FILE]
        assert settings_in(everything.files[LOOP_FILE]) == {"max_turns": 5, "obs_cap": 12288}
    assert settings_in(_after(wide, narrow).files[LOOP_FILE]) == {"obs_cap": 1024}
    assert not wide.in_place(_after(wide, narrow).files)


def test_an_edit_keeps_what_a_file_held_before() -> None:
    start = Candidate(
        files={**START.files, "workflow.md": "# My workflow\nThink.\n", LOOP_FILE: "keep_full_turns = 8\n"}
    )
    edited = _after(BY_NAME["run_checks_after_edit"], BY_NAME["short_episodes"], start=start)
    assert edited.files["workflow.md"].startswith("# My workflow\nThink.\n\n## After a change\n")
    assert settings_in(edited.files[LOOP_FILE]) == {"keep_full_turns": 8, "max_turns": 5}


def test_hooks_of_another_hand_are_left_alone() -> None:
    own = 'def after_tool(command, output, exit_code):\n    return output + "!"\n'
    files = {**START.files, HOOKS_FILE: own}
    assert BY_NAME["mend_flags"].apply(files) == ()
    assert not BY_NAME["mend_flags"].in_place(files)
    assert hook_parts_in(own) == ()


def test_a_loop_file_that_is_no_toml_is_written_anew() -> None:
    with pytest.raises(HarnessError):
        check_workspace(Candidate(files={**START.files, LOOP_FILE: "= broken"}))
    assert BY_NAME["wide_observations"].apply({LOOP_FILE: "= broken"}) == (
        Edit(path=LOOP_FILE, content="obs_cap = 12288\n"),
    )


def test_every_text_edit_is_recognised_in_the_system_message_and_the_start_holds_none() -> None:
    start = read_workspace(START).text
    for edit in CATALOGUE:
        if edit.sentence:
            assert edit.sentence not in start
            assert edit.sentence in read_workspace(_after(edit)).text
            assert [other.name for other in CATALOGUE if other.sentence and other.sentence in edit.content] == [
                edit.name
            ]


def test_hook_edits_are_functions_of_this_project_that_pass_the_audit_and_do_the_same_in_the_hook_process() -> None:
    parts = [edit.part for edit in CATALOGUE if edit.part]
    assert sorted(parts) == sorted(hook_parts.__all__)
    edited = _after(*(edit for edit in CATALOGUE if edit.part))
    surface = audit_hooks(edited.files[HOOKS_FILE])
    assert surface.defined == {"before_tool", "after_tool"}
    sandboxes = make_sandboxes("bubblewrap")
    if sandboxes.fault() is not None:
        pytest.skip(str(sandboxes.fault()))
    long = "\x1b[31mTraceback\x1b[0m\n" + "line\n" * 400 + "ValueError: no\n" + "tail\n" * 3
    expected = hook_parts.first_lines_only(hook_parts.surface_errors(hook_parts.strip_colour(long), 1), 1)
    with HookHost(surface, sandboxes) as host:
        assert host.call("before_tool", "grep --only-source -n x a.py") == "grep -n x a.py"
        assert host.call("after_tool", "python check.py", long, 1) == expected
        assert (host.calls, host.errors) == (2, 0)


def test_what_the_hook_functions_do_by_hand() -> None:
    assert hook_parts.mend_flags("grep --nonsense=1 --include=*.py -n 'a b' .") == "grep --include=*.py -n 'a b' ."
    assert hook_parts.mend_flags("sed --nonsense x") == "sed --nonsense x"
    assert hook_parts.strip_colour("\x1b[1ma\x1b[0m") == "a"
    assert hook_parts.surface_errors("a\nValueError: b\n", 1) == "a\nValueError: b\n"
    many = "x\n" * 600 + "KeyError: k\n" + "y\n" * 10
    assert hook_parts.surface_errors(many, 1).splitlines()[:3] == ["Lines that name an error:", "KeyError: k", ""]
    assert hook_parts.surface_errors(many, 0) == many
    assert hook_parts.first_lines_only("a\nb\nc\nd\ne\n", 1) == "a\nb\nc\n(2 further lines are not shown)"
    assert hook_parts.first_lines_only("a\nb\nc\nd\ne\n", 0) == "a\nb\nc\nd\ne\n"


def test_an_edit_without_any_effect_has_no_influence_and_every_text_edit_with_one_has() -> None:
    for edit in CATALOGUE:
        if edit.sentence:
            assert (edit.name in INFLUENCES) == (EFFECTS[edit.name] != "null")
    assert {CLASS_OF[weakness] for weakness in Weakness} == set(EDIT_CLASSES)


@pytest.mark.parametrize(
    ("signature", "edit_class"),
    SIGNS,
)
def test_the_true_class_of_a_signature(signature: str, edit_class: str) -> None:
    assert true_class(signature) == edit_class
    assert diagnose(signature, error=0.0, seed=7) == edit_class


def test_a_diagnosis_is_systematic_within_a_run_and_differs_between_runs() -> None:
    sign = "cat: <path>: No such file or directory"
    assert len({diagnose(sign, error=0.4, seed=3) for _ in range(5)}) == 1
    assert len({diagnose(sign, error=0.4, seed=seed) for seed in range(60)}) > 2


@pytest.mark.parametrize(("sign", "edit_class"), [SIGNS[0], *SIGNS[2:6]])
def test_a_diagnosis_is_wrong_as_often_as_it_says(sign: str, edit_class: str) -> None:
    runs = 2000
    for error in (0.2, 0.4):
        wrong = sum(diagnose(sign, error=error, seed=seed) != edit_class for seed in range(runs)) / runs
        assert abs(wrong - error) < 4 * math.sqrt(error * (1 - error) / runs)
    assert all(diagnose(sign, error=1.0, seed=seed) != edit_class for seed in range(50))


def test_the_cause_by_attribution_restricts_a_diagnosis_and_keeps_its_proportions() -> None:
    """keep_mend against locate: 0.6 to 0.4 · 0.2, so the true class has 0.6 / 0.68 of a commission."""
    sign, runs = "rm: cannot remove <str>: No such file or directory", 4000
    found = Counter(diagnose(sign, error=0.4, seed=seed, allowed=CAUSES["commission"]) for seed in range(runs))
    assert set(found) == {"keep_mend", "locate"}
    expected = 0.6 / 0.68
    assert abs(found["keep_mend"] / runs - expected) < 4 * math.sqrt(expected * (1 - expected) / runs)
    assert "keep_mend" not in {diagnose(sign, error=0.4, seed=seed, allowed=CAUSES["omission"]) for seed in range(200)}
    assert CAUSES["unknown"] == set(EDIT_CLASSES)


def test_a_diagnosis_without_error_falls_back_to_any_allowed_class_where_the_true_one_is_excluded() -> None:
    sign = "grep: unrecognized option <str>"
    assert diagnose(sign, error=0.0, seed=1, allowed={"tests", "locate"}) in {"tests", "locate"}
    with pytest.raises(ValueError, match="no class is allowed"):
        diagnose(sign, error=0.0, seed=1, allowed=())
