"""The guide of six modules: the start guide, the checks, kinds of candidates, and what an edit has changed."""

from __future__ import annotations

import re

import pytest
from skill_parts import GUIDE, NONE, lasting

from heldout.errors import HarnessError
from heldout.records import Candidate
from heldout.skills import MODULES, changed_modules, check_guide, guide_text, kind_of, start_guide
from heldout.skills.guide import MODULE_BYTES, SECTIONS
from heldout.worlds.tables.catalogue import CATALOGUE
from heldout.worlds.tables.parts import RULES

PLAIN = "".join(f"## {section}\n\nText.\n\n" for section in SECTIONS)


def policy_items(text: str) -> list[str]:
    policy = text.split("## Policy\n", 1)[1].split("\n## ", 1)[0]
    assert all(line.startswith("- ") or not line.strip() for line in policy.splitlines())
    return [line.removeprefix("- ") for line in policy.splitlines() if line.strip()]


@pytest.mark.parametrize("module", MODULES)
def test_the_policy_of_the_start_guide_is_exactly_the_start_rules_of_its_module(module: str) -> None:
    wanted = [rule.text for rule in RULES if rule.module == module and rule.start]
    assert policy_items(start_guide()[module]) == wanted


def test_the_start_guide_holds_no_other_sentence_of_the_catalogue() -> None:
    text = " ".join("\n".join(start_guide().values()).split()).casefold()
    held = {rule.text for rule in RULES if rule.start}
    others = [edit.text.partition("{name}")[0] for edit in CATALOGUE if edit.text not in held]
    assert len(others) == 40 - 11
    assert [one for one in others if one.casefold().strip() in text] == []


def test_the_start_guide_passes_and_names_nothing_concrete() -> None:
    check_guide(start_guide())
    assert list(start_guide()) == list(MODULES)
    for name, text in start_guide().items():
        assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == list(SECTIONS), name
        assert not re.search(r"\w\.(xlsx|csv|py|txt|json)\b|\"|`|\d", text), name


def test_the_text_has_every_module_under_its_title_in_order() -> None:
    text = guide_text({name: f"Body of {name}.\n" for name in reversed(MODULES)})
    assert text.startswith(
        "# Module 1: Task classification\n\nBody of m1_task.md.\n\n# Module 2: Sources and tools\n\n"
    )
    assert re.findall(r"^# Module (\d)", text, re.MULTILINE) == list("123456")


@pytest.mark.parametrize("module", MODULES)
def test_a_guide_with_a_missing_module_is_refused_by_name(module: str) -> None:
    files = {name: text for name, text in start_guide().items() if name != module}
    with pytest.raises(HarnessError, match=rf"the guide has no module {module} \({MODULES[module]}\); it needs m1"):
        check_guide(files)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"m7_more.md": PLAIN}, "'m7_more.md' is no module of a guide; there is m1_task.md"),
        ({"m2_sources.md": PLAIN.replace("## State", "## Stage")}, "m2_sources.md has no section '## State'"),
        ({"m2_sources.md": PLAIN.replace("## State", "State")}, "m2_sources.md has no section '## State'"),
        ({"m3_skill.md": ""}, "m3_skill.md has no section '## Inputs'"),
        ({"m4_validation.md": PLAIN + "x" * MODULE_BYTES}, f"m4_validation.md has .* at most {MODULE_BYTES}"),
        ({"m5_attribution.md": PLAIN + "\0"}, r"m5_attribution.md holds the control character U\+0000"),
        ({"m5_attribution.md": PLAIN + "\x1b[2J"}, r"m5_attribution.md holds the control character U\+001B"),
        ({"m6_repair.md": PLAIN + "\u202e"}, r"m6_repair.md holds the control character U\+202E"),
        ({"m6_repair.md": PLAIN + "\ud800"}, "m6_repair.md is no valid text"),
    ],
)
def test_faults_are_named(change: dict[str, str], fault: str) -> None:
    with pytest.raises(HarnessError, match=fault):
        check_guide({**start_guide(), **change})


def test_a_module_may_be_written_anew() -> None:
    check_guide({**start_guide(), "m1_task.md": PLAIN.replace("\n", "\r\n")})


def test_kinds_of_candidates() -> None:
    assert (kind_of(GUIDE), kind_of(lasting()), kind_of(NONE)) == ("guide", "skill", "none")
    assert kind_of(Candidate(files={"other.md": ""})) == "guide"
    with pytest.raises(HarnessError, match=r"NO_SKILL\.md stands alone in its folder; beside it is 'SKILL\.md'"):
        kind_of(Candidate(files={**NONE.files, **lasting().files}))
    with pytest.raises(HarnessError, match=r"is a skill \(SKILL\.md\) and a guide \(m1_task\.md\) at once"):
        kind_of(Candidate(files={**GUIDE.files, **lasting().files}))


def test_changed_modules_are_told_in_the_order_of_the_modules() -> None:
    old = dict(start_guide())
    new = {**old, "m6_repair.md": "x", "m1_task.md": "y", "zz.md": ""}
    del new["m3_skill.md"]
    assert changed_modules(old, new) == ("m1_task.md", "m3_skill.md", "m6_repair.md", "zz.md")
    assert changed_modules(old, dict(old)) == ()
