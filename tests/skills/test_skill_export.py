"""A run's result as an Agent Skills folder: a guide, a skill, and what is neither."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from skill_parts import GUIDE, NONE, lasting, skill

from heldout.errors import SetupError
from heldout.records import Candidate
from heldout.skills import MODULES, read_skill_folder, start_guide
from heldout.skills.export import GUIDE_NAME, free_folder, write_skill_as


def test_a_guide_is_a_valid_skill_with_its_modules_as_references(tmp_path: Path) -> None:
    found = read_skill_folder(write_skill_as(GUIDE, tmp_path / "table-work"))
    assert found.head.name == "table-work"
    assert set(found.further) == {f"references/{name}" for name in MODULES}
    for name, title in MODULES.items():
        assert found.further[f"references/{name}"] == f"# {title}\n\n{start_guide()[name].strip()}\n"
    linked = re.findall(r"\]\((references/[^)]+)\)", found.body)
    assert linked == [f"references/{name}" for name in MODULES]


def test_a_skill_is_exported_as_itself_under_the_folders_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    candidate = Candidate(files={"SKILL.md": skill("mine"), "references/a.md": "A.\n"})
    path = write_skill_as(candidate, None)
    assert path == Path("mine")
    assert read_skill_folder(path).files == candidate.files
    other = read_skill_folder(write_skill_as(candidate, tmp_path / "other"))
    assert other.files == {**candidate.files, "SKILL.md": skill("other")}


def test_a_guide_without_a_folder_has_a_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_skill_as(GUIDE, None) == Path(GUIDE_NAME)
    with pytest.raises(SetupError, match=f"'{GUIDE_NAME}' exists; name a folder that does not with --out"):
        write_skill_as(GUIDE, None)


@pytest.mark.parametrize(
    ("candidate", "fault"),
    [
        (NONE, r"no skill to export: the final candidate is NO_SKILL\.md"),
        (
            Candidate(files={"system_prompt.md": "x"}),
            r"cannot be exported as a skill: 'system_prompt\.md' is no module",
        ),
        (Candidate(files={"SKILL.md": "x"}), "cannot be exported as a skill: SKILL.md does not begin"),
    ],
)
def test_what_is_neither_is_refused(candidate: Candidate, fault: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=fault):
        write_skill_as(candidate, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_no_skill_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"'My_Skill' cannot be the name of a skill.*for example --out my-skill"):
        write_skill_as(lasting(), tmp_path / "My_Skill")


def test_a_free_folder_is_found_beside_taken_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert free_folder("a") == Path("a")
    for name in ("a", "a-2", "x" * 64):
        Path(name).mkdir()
    assert free_folder("a") == Path("a-3")
    assert len(free_folder("x" * 64).name) <= 64
