"""Agent Skills folders: every rule of the format, in words; reading, writing, comparing."""

from __future__ import annotations

from pathlib import Path

import pytest
from skill_parts import skill

from heldout.errors import HarnessError, SetupError
from heldout.skills import diff_skills, read_skill, read_skill_folder, skill_faults, write_skill_folder
from heldout.skills.folder import FURTHER_BYTES, FURTHER_FILES, SKILL_BYTES
from heldout.skills.front_matter import renamed, skill_text

FULL = """---
name: pdf-forms
description: >-
  Fills forms: use it when a form is given.
license: Apache-2.0
compatibility: Needs python3
metadata:
  author: someone
  version: 1.0
  digest: 0012
allowed-tools: Bash(git:*) Read
---
# How

Do it.
"""


def front(*lines: str) -> dict[str, str]:
    return {"SKILL.md": "\n".join(["---", *lines, "---", "Do it.", ""])}


def test_everything_of_a_front_matter_is_read_as_the_text_that_stands_there() -> None:
    found = read_skill({"SKILL.md": FULL, "references/a.md": "A.", "scripts/run.py": "print(1)"}, folder="pdf-forms")
    head = found.head
    assert (head.name, head.description) == ("pdf-forms", "Fills forms: use it when a form is given.")
    assert (head.license, head.compatibility, head.allowed_tools) == ("Apache-2.0", "Needs python3", "Bash(git:*) Read")
    assert head.metadata == {"author": "someone", "version": "1.0", "digest": "0012"}
    assert found.body == "# How\n\nDo it.\n"
    assert found.further == {"references/a.md": "A.", "scripts/run.py": "print(1)"}
    assert found.files["SKILL.md"] == FULL


@pytest.mark.parametrize("name", ["a", "a1", "pdf-forms", "3d", "x" * 64])
def test_names_that_are_allowed(name: str) -> None:
    assert skill_faults({"SKILL.md": skill(name)}, folder=name) == ()


@pytest.mark.parametrize("name", ["", "PDF", "pdf_forms", "-pdf", "pdf-", "a--b", "x" * 65, "a b", "über", "a/b"])
def test_names_that_are_not(name: str) -> None:
    (fault,) = skill_faults(front(f'name: "{name}"', "description: d"))
    assert fault.startswith(f"name: {name[:80]!r} must have 1 to 64 characters (it has {len(name)})")
    assert "lower-case letters, digits, and single hyphens" in fault


def test_a_skill_has_the_name_of_its_folder() -> None:
    (fault,) = skill_faults({"SKILL.md": skill("one")}, folder="two")
    assert fault == "name: 'one' must be the name of its folder, which is 'two'"


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (("name: a",), "description is missing"),
        (("name: a", "description:"), "description: it is blank"),
        (("name: a", 'description: "  "'), "description: it is blank"),
        (("name: a", f"description: {'x' * 1025}"), "description: it has 1025 characters; at most 1024"),
        (("description: d",), "name is missing"),
        (("name: [a]", "description: d"), "'name' holds a sequence, not a text"),
        (("name: {b: c}", "description: d"), "name: must be a text"),
        (("name: a", "description: d", "colour: red"), "unknown key 'colour'; allowed are name, description, license"),
        (
            ("name: a", "description: d", f"compatibility: {'x' * 501}"),
            "compatibility: it has 501 characters; 1 to 500",
        ),
        (("name: a", "description: d", "metadata: x"), "metadata: must be a map of texts"),
        (("name: a", "description: d", "metadata: {a: [1]}"), "'a' holds a sequence, not a text"),
        (("name: a", "name: b", "description: d"), "the key 'name' twice"),
        (("name: a", "description: this: that"), "the front matter is no YAML: mapping values are not allowed here"),
        (("just words",), "the front matter is no mapping"),
        ((), "the front matter is no mapping"),
        (("? [a]\n: b",), "has a key that is a sequence"),
    ],
)
def test_faults_of_the_front_matter_are_told_with_rule_and_value(lines: tuple[str, ...], fault: str) -> None:
    assert fault in "; ".join(skill_faults(front(*lines)))


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(HarnessError) as raised:
        read_skill(front('name: "A"', "colour: red"))
    assert str(raised.value).count(";") >= 2
    for part in ("unknown key 'colour'", "description is missing", "name: 'A' must have"):
        assert part in str(raised.value)


def test_yaml_constructs_nothing_and_unfolds_nothing() -> None:
    with pytest.raises(HarnessError, match="name: must be a text"):
        read_skill(front("name: !!python/object/apply:os.system {a: b}", "description: d"))
    bomb = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    bomb += [f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    faults = skill_faults(front(*bomb, "name: a", "description: d"))
    assert max(map(len, faults)) < 400
    assert "no YAML" in skill_faults(front("name: " + "[" * 5000))[0]


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({}, "there is no SKILL.md; there is nothing"),
        ({"skill.md": "x"}, "there is no SKILL.md; there is skill.md"),
        ({"SKILL.md": "Do it."}, "SKILL.md does not begin with ---"),
        ({"SKILL.md": "---\nname: a\n"}, "SKILL.md has no closing line ---"),
        ({"SKILL.md": "---\nname: a\ndescription: d\n---\n \n"}, "has no instructions after its front matter"),
        ({"SKILL.md": skill(body="a\0b")}, "SKILL.md holds the control character U+0000"),
        ({"SKILL.md": skill(), "a.md": "\x9b31m"}, "a.md holds the control character U+009B"),
        ({"SKILL.md": skill(body="x" * SKILL_BYTES)}, f"at most {SKILL_BYTES} are allowed"),
        ({"SKILL.md": skill(), "assets/a.txt": "x" * (FURTHER_BYTES + 1)}, f"at most {FURTHER_BYTES} are allowed"),
        ({"SKILL.md": skill(), **{f"r{i}.md": "x" for i in range(FURTHER_FILES + 1)}}, "25 files lie beside SKILL.md"),
        ({"SKILL.md": skill(), "../x": "x"}, "is not a safe path"),
        ({"SKILL.md": skill(body="\ud800")}, "no UTF-8"),
    ],
)
def test_faults_of_the_files(files: dict[str, str], fault: str) -> None:
    assert fault in skill_faults(files)[0]


def test_line_ends_and_a_byte_order_mark_of_other_systems_are_read() -> None:
    assert read_skill({"SKILL.md": "\ufeff" + skill().replace("\n", "\r\n")}).head.name == "double-amounts"


def test_a_folder_is_written_and_read_back_whole(tmp_path: Path) -> None:
    files = {"SKILL.md": skill("mine"), "references/deep/a.md": "A.\n"}
    folder = write_skill_folder(files, tmp_path / "mine")
    assert read_skill_folder(folder).files == files


def test_what_is_no_skill_is_neither_written_nor_read(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"not written to .*: name: 'mine' must be the name of its folder.*'yours'"):
        write_skill_folder({"SKILL.md": skill("mine")}, tmp_path / "yours")
    assert not (tmp_path / "yours").exists()
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "SKILL.md").write_text("---\nname: bare\n---\nDo it.\n")
    with pytest.raises(SetupError, match=r"bare' is no skill: description is missing"):
        read_skill_folder(tmp_path / "bare")
    with pytest.raises(SetupError, match="no folder"):
        read_skill_folder(tmp_path / "absent")


def test_differences_are_told_file_by_file() -> None:
    found = diff_skills(
        {"SKILL.md": "a\nb\n", "same": "s", "gone": "g\n"}, {"SKILL.md": "a\nc\n", "same": "s", "new": "n\n"}
    )
    assert list(found) == ["SKILL.md", "gone", "new"]
    assert found["SKILL.md"] == "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    assert "-g\n" in found["gone"]
    assert "+n\n" in found["new"]


@pytest.mark.parametrize("text", ["plain", 'with: colon # and "quotes"', "- dash\nand a second line", "ünï © \t tab"])
def test_a_written_text_is_read_as_the_same_text(text: str) -> None:
    found = read_skill({"SKILL.md": skill_text("a", text, "Body.", metadata={"key: 1": text})})
    assert found.head.description == text
    assert found.head.metadata == {"key: 1": text}


def test_a_skill_may_be_renamed_and_stays_the_same_else() -> None:
    old = read_skill({"SKILL.md": FULL})
    new = read_skill({"SKILL.md": renamed(FULL, "other")}, folder="other")
    assert (new.body, new.head.metadata, new.head.description) == (old.body, old.head.metadata, old.head.description)
