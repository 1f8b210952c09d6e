"""The evolvable folder: how it is joined, what it may hold, and which component a change belongs to."""

from __future__ import annotations

import pytest
from agent_parts import HOOKS, folder

from heldout.errors import HarnessError
from heldout.harness.workspace import assemble, check_workspace, component_fingerprints, read_workspace
from heldout.records import Candidate

LOOP = "harness_code/loop.toml"


def test_texts_are_joined_in_the_fixed_order_under_headings_and_code_never_is() -> None:
    files = {
        "subagents/reader.md": "S1",
        "middleware/retry.md": "M1",
        "skills/b.md": "K2",
        "skills/a.md": "K1\n",
        "tool_notes/grep.md": "T1",
        "memory.md": "M0",
        "workflow.md": "\n  W0\n",
        "system_prompt.md": "P0",
        HOOKS: "def after_llm(text):\n    return text\n",
        LOOP: "max_turns = 9",
    }
    assert assemble(Candidate(files=files)) == (
        "# System prompt\n\nP0\n\n# Workflow\n\nW0\n\n# Memory\n\nM0\n\n# Tool notes: grep\n\nT1\n\n"
        "# Skill: a\n\nK1\n\n# Skill: b\n\nK2\n\n# Middleware: retry\n\nM1\n\n# Subagent: reader\n\nS1"
    )


def test_an_empty_file_adds_nothing_and_an_empty_folder_is_refused() -> None:
    assert assemble(folder(memory=" \n")) == assemble(folder())
    for files in ({}, {"system_prompt.md": " \n"}, {LOOP: "max_turns = 3"}):
        with pytest.raises(HarnessError, match=r"no text for the model; system_prompt\.md is where it begins"):
            check_workspace(Candidate(files=files))


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("system_prompt.md", 16384),
        ("workflow.md", 16384),
        ("memory.md", 32768),
        ("tool_notes/a.md", 8192),
        ("skills/a.md", 8192),
        ("middleware/a.md", 8192),
        ("subagents/a.md", 8192),
    ],
)
def test_each_text_has_its_limit_in_bytes(path: str, limit: int) -> None:
    base = dict(folder().files)
    check_workspace(Candidate(files=base | {path: "é" * (limit // 2)}))
    with pytest.raises(HarnessError, match=rf"{path} has {limit + 1} bytes; at most {limit} are allowed"):
        check_workspace(Candidate(files=base | {path: "é" * (limit // 2) + "x"}))


def test_code_has_its_limits_too() -> None:
    with pytest.raises(HarnessError, match=r"hooks\.py has 32769 bytes; at most 32768"):
        check_workspace(folder("#" * 32769))
    with pytest.raises(HarnessError, match=r"loop\.toml has 1025 bytes; at most 1024"):
        check_workspace(Candidate(files={**folder().files, LOOP: "#" * 1025}))


def test_at_most_24_skills_are_allowed() -> None:
    skills = {f"skills/s{number}.md": "x" for number in range(24)}
    check_workspace(Candidate(files={**folder().files, **skills}))
    with pytest.raises(HarnessError, match="skills/ holds 25 files; at most 24"):
        check_workspace(Candidate(files={**folder().files, **skills, "skills/more.md": "x"}))


@pytest.mark.parametrize(
    "path",
    [
        *("notes.md", "skills/a.txt", "skills/sub/a.md", "skills/.md", "skills/../system_prompt.md", "/etc/passwd.md"),
        *("../memory.md", "harness_code/more.py", "harness_code/hooks.py/x.md", "skills/a b.md", "Memory.md", ""),
        *("skills/" + "a" * 65 + ".md", "skills/a.md\n"),
    ],
)
def test_any_other_path_is_refused_with_the_paths_that_there_are(path: str) -> None:
    with pytest.raises(HarnessError, match=r"is no file of a harness folder; there is system_prompt\.md, workflow\.md"):
        check_workspace(Candidate(files={**folder().files, path: "x"}))


@pytest.mark.parametrize(("text", "words"), [("a\0b", "holds a NUL character"), ("\ud800", "is no valid text")])
def test_what_is_no_text_is_refused(text: str, words: str) -> None:
    with pytest.raises(HarnessError, match=f"memory.md {words}"):
        read_workspace(Candidate.model_construct(files={**folder().files, "memory.md": text}))


def test_faults_of_code_are_found_before_anything_runs() -> None:
    with pytest.raises(HarnessError, match=r"harness_code/hooks\.py, line 1: may not import 'os'"):
        check_workspace(folder("import os\n"))
    with pytest.raises(HarnessError, match="no whole number from 4 to 32"):
        check_workspace(Candidate(files={**folder().files, LOOP: "keep_full_turns = 3"}))


def test_a_folder_is_read_once_however_often_it_is_run() -> None:
    hooks = "def after_llm(text):\n    return text\n"
    assert read_workspace(folder(hooks)) is read_workspace(folder(hooks))
    assert read_workspace(folder(hooks)) is not read_workspace(folder())


@pytest.mark.parametrize(
    ("path", "component"),
    [
        ("system_prompt.md", "prompt"),
        ("workflow.md", "prompt"),
        ("memory.md", "prompt"),
        ("skills/new.md", "prompt"),
        ("subagents/new.md", "prompt"),
        ("tool_notes/new.md", "tools"),
        ("middleware/new.md", "handlers"),
        (HOOKS, "handlers"),
        (LOOP, "handlers"),
    ],
)
def test_a_change_moves_the_fingerprint_of_its_component_alone(path: str, component: str) -> None:
    before = component_fingerprints(folder())
    after = component_fingerprints(Candidate(files={**folder().files, path: "changed"}))
    assert set(before) == {"prompt", "tools", "handlers"}
    assert [name for name in before if before[name] != after[name]] == [component]
