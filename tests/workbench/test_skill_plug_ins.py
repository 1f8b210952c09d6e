"""A user's own task source and improver for loops over skills, as docs/skills.md has them; and misuse, in words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gso_parts import only
from run_events import of_kind
from scripted_solver import SECRET

from heldout.loops import SKILL_LOOPS
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.skills import changed_modules
from heldout.store import RunFolder
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer, SeenRequest

Command = Callable[..., tuple[int, str, str]]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "skills.md").read_text(encoding="utf-8")
FAULT = Bubblewrap().fault()
sandboxed = pytest.mark.skipif(FAULT is not None, reason=str(FAULT))

RULE = "Say which file the result goes into"
"""The beginning of what the page's improver adds."""


def example(folder: Path) -> None:
    """The file of the page."""
    (source,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (folder / "my_sums.py").write_text(source)


def worker(request: SeenRequest) -> ScriptedReply:
    """Writes skills and follows them: without the improver's rule it puts every result into total.txt."""
    messages = request.body["messages"]
    if len(messages) == 1:
        return ScriptedReply(text="yes")
    system, text = str(messages[0]["content"]), str(messages[1]["content"])
    if system.startswith("# Write one skill"):
        rule = RULE if RULE in system else "Add up."
        return ScriptedReply(text=f"---\nname: sums\ndescription: Adds up.\n---\n\n{rule}\n")
    named = re.search(r"into (\w+\.txt)", text)
    assert named is not None
    path = named[1] if RULE in system else "total.txt"
    turn = (len(messages) - 2) // 2
    moves = [f"awk 'NR > 1 {{ s += $1 }} END {{ print s }}' numbers.csv > {path}", "echo HELDOUT_SUBMIT"]
    return ScriptedReply(text=f"```bash\n{moves[turn]}\n```")


@sandboxed
class TestThePagesOwnClasses:
    def test_its_source_passes_its_check(self, heldout: Command, tmp_path: Path) -> None:
        example(tmp_path)
        code, out, err = heldout(
            "tasks", "check", "my_sums:Sums", "train=40", "select=20", "audit=40", "--all", "--json"
        )
        assert (code, err) == (0, "")
        assert (json.loads(out)["failures"], json.loads(out)["gold_right"]) == ([], 120)

    @pytest.mark.slow
    def test_its_run_learns_the_rule_and_keeps_it_on_audit(
        self, heldout: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        example(tmp_path)
        (command,) = re.findall(r"^heldout (run gso preset=paper tasks\.source=my_sums.*)$", PAGE, re.MULTILINE)
        sizes = ("tasks.train=8", "tasks.select=6", "tasks.audit=8", "search.generations=1", "noise.tasks=0")
        with ScriptedServer(worker) as server:
            words = [word.replace("https://HOST/v1", server.url).replace("MODEL", "mine") for word in command.split()]
            code, out, err = heldout(*words, *sizes, "--out", "r", "--json")
        assert (code, err) == (0, "")
        found, folder = json.loads(out), RunFolder(tmp_path / "r")
        start, final = (folder.load(found[name]["digest"]).files for name in ("start", "final"))
        assert changed_modules(start, final) == ("m3_skill.md",)
        assert RULE in final["m3_skill.md"]
        assert found["audit"]["gain"] == 1.0
        arms = {arm["arm"]: arm for arm in only(folder, "retention")["arms"]}
        assert (arms["final"]["train_gain"], arms["final"]["audit_gain"]) == (1.0, 1.0)


BROKEN = """
from heldout.records import Spend

class Improver:
    skills, uses_model, bound = True, False, Spend()
    def __init__(self, config, model): pass
    def attribute(self, view): {attribute}
    def edit(self, view): {edit}
    def draft(self, view): {draft}
"""


@pytest.mark.parametrize(
    ("parts", "kind", "told"),
    [
        ({"attribute": "raise KeyError('mine')"}, "fault.attributed", "the improver raised: KeyError: 'mine'"),
        ({"attribute": "return 'm3_skill.md'"}, "fault.attributed", "the improver returned str, not an Attribution"),
        (
            {"attribute": "from heldout.improvers.skill_roles import Attribution as A; return A(stage='typing')"},
            "fault.attributed",
            "the attributor named the stage 'typing'; there is contract parsing, ",
        ),
        ({"edit": "return None"}, "skill.edit", "the improver returned NoneType, not an EditProposal"),
        ({"edit": "raise ValueError('no idea')"}, "skill.edit", "the improver raised: ValueError: no idea"),
    ],
)
def test_an_improver_that_breaks_ends_its_round_and_is_named(
    heldout: Command, tmp_path: Path, parts: dict[str, str], kind: str, told: str
) -> None:
    blames = "from heldout.improvers.skill_roles import Attribution as A; return A(stage='execution')"
    said = {"attribute": blames, "edit": "return None", "draft": "return None", **parts}
    name = f"broken_{kind.partition('.')[0]}_{len(told)}"
    (tmp_path / f"{name}.py").write_text(BROKEN.format(**said))
    shadow = ("solver.harness=heldout.studies.gso.shadow:ShadowHarness", "executor.kind=inline")
    more = ("tasks.grader=heldout.studies.gso.shadow:shadow_grade", "search.generations=1", "audit.auto=false")
    code, _, err = heldout("run", "gso", "preset=small", *shadow, *more, f"improver.kind={name}:Improver", "--out", "r")
    assert (code, "Traceback" in err) == (0, False)
    (*_, last) = of_kind(RunFolder(tmp_path / "r"), kind)
    assert told in str(last.get("error") or last.get("fault"))
    assert of_kind(RunFolder(tmp_path / "r"), "decision")[0]["decision"]["verdict"] == "undecided"


def named(value: object) -> str:
    """A test's name: the words of its command."""
    return " ".join(value) if isinstance(value, tuple) else ""


MISUSE: list[tuple[tuple[str, ...], str]] = [
    (
        ("gso", "improver.kind=catalog"),
        "changes the folders of agents, and the loop 'gso' needs one that changes skills and guides for writing them: "
        "use skill_catalog, skill_llm, or your own package.module:Class with skills = True",
    ),
    (("gso", "improver.kind=rewrite"), "changes whole prompts, and the loop 'gso' needs one that changes skills"),
    (("gepa", "improver.kind=llm"), "and the loop 'gepa' needs one that changes skills"),
    (
        ("verse", "improver.kind=skill_catalog"),
        "changes skills and guides for writing them, and the loop 'verse' needs",
    ),
    (("winners_curse", "improver.kind=skill_llm"), "and the loop 'winners_curse' needs one that changes whole prompts"),
    (
        ("gso", "tasks.source=repair"),
        "'simulated_tables' is a simulation that plays the tasks of 'tables' and no others",
    ),
    (
        ("gso", "solver.model.name=simulated_coder"),
        "plays the tasks of 'repair' and no others, and tasks.source = ",
    ),
    (("gso", "solver.model.name=simulated"), "answers questions and runs no command"),
    (("gso", "options.modules=some"), "options of the loop 'gso': modules: Input should be 'attributed' or 'any'"),
    (("gso", 'options.final=["last"]'), "the start always competes: final must hold 'start'"),
    (
        ("gso", "options.attribution.map={typing='m1_task.md'}"),
        "maps 'typing' to 'm1_task.md'; stages: contract",
    ),
    (
        ("one_shot_skill", "options.modules=any"),
        "options of the loop 'one_shot_skill': modules: Extra inputs are",
    ),
    (("gso", "tasks.train=500000"), "the tasks of 'tables' are too few for train"),
    (("gso", "solver.start=nowhere"), "no folder 'nowhere'"),
]


@sandboxed
@pytest.mark.parametrize(
    ("words", "told"), MISUSE, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_misuse_is_told_in_words_before_anything_is_written(
    heldout: Command, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    code, _, err = heldout("run", words[0], "preset=small", *words[1:], "--out", "r")
    assert (code, "Traceback" in err) == (2, False)
    assert told in err
    assert not (tmp_path / "r").exists()


@sandboxed
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("gso", "solver.options.start=none"), "improves a guide of six modules, and the start is no skill"),
        (
            ("persistent_skill", "solver.options.start=guide"),
            "improves one skill for all tasks, and the start is a guide",
        ),
        (("gso", "solver.harness=tool_loop"), "and the start is none ('system_prompt.md' is no module of a guide"),
        (("gso", "gate.kind=repeats"), "gate.kind = 'repeats' asks for repeats, which the loop 'gso' does not measure"),
    ],
    ids=named,
)
def test_a_start_or_a_gate_that_does_not_fit_is_told_before_anything_is_paid(
    heldout: Command, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    code, _, err = heldout("run", words[0], "preset=small", *words[1:], "--out", "r")
    assert (code, "Traceback" in err) == (2, False)
    assert told in err
    assert of_kind(RunFolder(tmp_path / "r"), "outcome") == []


@pytest.mark.parametrize("size", ["small", "default", "paper"])
@pytest.mark.parametrize("loop", sorted(SKILL_LOOPS))
def test_every_preset_has_a_plan(heldout: Command, loop: str, size: str) -> None:
    code, out, err = heldout("run", loop, f"preset={size}", "--dry-run", "--json")
    assert code == 0
    answer: dict[str, Any] = json.loads(out)
    tasks, parts = answer["config"]["tasks"], answer["plan"]
    assert parts["retention"] == 3 * tasks["train"] + tasks["audit"]
    assert parts["total"] > parts["start"] + parts["audit"] + parts["retention"] + parts["final"]
    absent = "the source 'spreadsheetbench' reads the folder with dataset.json: set tasks.path to it"
    assert (absent in err) == (size == "paper")
