"""Harnesses by name: keywords, options, where a run begins, and the flags that plug-ins may lack."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from agent_parts import LOCAL, TASK, OneFile, folder, loop, says

from heldout.config import ModelConfig, SolverConfig
from heldout.errors import SetupError
from heldout.harness import (
    Episode,
    Preparation,
    PromptHarness,
    ToolLoopHarness,
    dry_run_hooks,
    make_harness,
    shortened,
    start_files,
)
from heldout.models import Request
from heldout.testing import FunctionModel, PlainHarness

AGENT = SolverConfig(
    harness="tool_loop", model=ModelConfig(max_tokens=1000), options={"sandbox": LOCAL, "max_turns": 7}
)

OLD_PLUG_IN = """
class Harness:
    fingerprint = "old"
    def __init__(self, *, answer, labels, max_tokens):
        self.made_with = (answer, labels, max_tokens)
class Replaying(Harness):
    start_file = "prompt.txt"
    def __init__(self, *, answer, labels, max_tokens, options, environment):
        self.made_with = (options, environment)
"""


@pytest.fixture
def plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old_harness.py").write_text(OLD_PLUG_IN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("old_harness", None)


def test_the_tool_loop_is_made_from_the_solver_config() -> None:
    harness = make_harness(AGENT, labels=(), environment=OneFile())
    assert isinstance(harness, ToolLoopHarness)
    assert (harness.max_tokens, harness.options.max_turns, harness.replayable) == (1000, 7, True)


def test_the_fingerprint_holds_all_that_an_episode_depends_on() -> None:
    def made(environment: str = "one-file", max_tokens: int = 1000, **options: object) -> str:
        config = AGENT.model_copy(
            update={"model": ModelConfig(max_tokens=max_tokens), "options": {**AGENT.options, **options}}
        )
        return make_harness(config, labels=(), environment=OneFile(environment)).fingerprint

    variants = [
        *(made(), made("other"), made(max_tokens=999), made(obs_cap=2048), made(wall_s=10), made(max_turns=8)),
        *(made(hook_timeout_s=1.0), made(sandbox="agent_parts:ClosedSandboxes")),
    ]
    assert len(set(variants)) == len(variants)
    assert made() == variants[0]


def test_what_cannot_work_is_refused_with_the_way_out() -> None:
    with pytest.raises(SetupError, match=r"this task source has none; use a source such as tasks\.source = 'repair'"):
        make_harness(AGENT, labels=())
    with pytest.raises(SetupError, match="max_tokens = 64 is too short for an agent's turn"):
        make_harness(SolverConfig(harness="tool_loop"), labels=(), environment=OneFile())
    with pytest.raises(SetupError, match="'choose' is not for agents"):
        ToolLoopHarness(answer="choose", environment=OneFile())
    with pytest.raises(SetupError, match="no sandbox 'chroot'; there is bubblewrap, docker"):
        loop(sandbox="chroot")
    with pytest.raises(SetupError, match=r"cannot use the sandbox 'agent_parts:AbsentSandboxes': there is no engine"):
        loop(sandbox="agent_parts:AbsentSandboxes")
    with pytest.raises(SetupError, match=r"options of the harness 'tool_loop': turns: .* allowed are sandbox"):
        loop(turns=3)
    with pytest.raises(SetupError, match=r"need an agent: solver\.harness = 'tool_loop'"):
        make_harness(SolverConfig(), labels=(), environment=OneFile())
    with pytest.raises(SetupError, match=r"'prompt' has no options; solver\.options holds max_turns"):
        make_harness(SolverConfig(options={"max_turns": 3}), labels=())


@pytest.mark.usefixtures("plug_ins")
def test_a_run_begins_with_the_instruction_where_its_harness_reads_it() -> None:
    assert start_files(AGENT, " Mend it. ") == {"system_prompt.md": "Mend it.\n"}
    assert start_files(SolverConfig(), "Sort.") == {"instruction.md": "Sort.\n", "demonstrations.jsonl": ""}
    old, replaying = (SolverConfig(harness=f"old_harness:{name}") for name in ("Harness", "Replaying"))
    assert start_files(old, "Sort.") == {"instruction.md": "Sort.\n", "demonstrations.jsonl": ""}
    assert start_files(replaying, "Sort.") == {"prompt.txt": "Sort.\n"}


def test_only_an_agents_harness_is_replayable() -> None:
    assert ToolLoopHarness.replayable
    assert not PromptHarness.replayable
    assert not PlainHarness().replayable


@pytest.mark.usefixtures("plug_ins")
def test_only_what_is_there_is_handed_to_a_plug_in() -> None:
    made = make_harness(SolverConfig(harness="old_harness:Harness"), labels=("a",))
    assert made.made_with == ("generate", ("a",), 64)  # type: ignore[attr-defined]
    config = SolverConfig(harness="old_harness:Replaying", options={"x": 1})
    made = make_harness(config, labels=(), environment=OneFile())
    assert made.made_with == ({"x": 1}, OneFile())  # type: ignore[attr-defined]


def test_smoke_is_short_and_dry_where_a_harness_takes_turns_and_has_hooks() -> None:
    harness = loop()
    short = shortened(harness, 8)
    assert isinstance(short, ToolLoopHarness)
    assert short.options.max_turns == 8
    assert dry_run_hooks(folder("def after_llm(text):\n    return 3\n"), harness) == [
        "after_llm: the reply is a int, not a text"
    ]
    plain = PlainHarness()
    assert shortened(plain, 8) is plain
    assert dry_run_hooks(folder(), plain) == []


def test_any_model_that_can_chat_can_be_the_agent() -> None:
    def answer(request: Request) -> str:
        return says("echo HELDOUT_SUBMIT" if len(request.messages) > 3 else "cat a.txt")

    done = loop().run(folder(), TASK, Episode(FunctionModel(answer), 0, Preparation()))
    assert done.measures["submitted"] == 1.0
