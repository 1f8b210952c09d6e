"""Views, and models behind a real scripted server, for the tests of the `llm` improver."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from heldout.config import ImproverConfig, ModelConfig
from heldout.harness.steps import Step
from heldout.improvers.agent import MetaView, ProbeNoise, RoundNote, RoundView
from heldout.improvers.llm import LlmImprover
from heldout.improvers.llm.prompts import seed_method
from heldout.improvers.method import method_candidate
from heldout.models import Model, make_model
from heldout.probes.base import Attribution, SignatureEntry, Trace
from heldout.records import Candidate, TrainTask
from heldout.testing.scripted_server import Script, ScriptedReply, ScriptedServer

HEAD = Candidate(files={"system_prompt.md": "You mend code.\n", "workflow.md": "Look, then edit.\n"})
START = Candidate(files={"system_prompt.md": "You mend code.\n"})
NOISE = ProbeNoise(
    disagreement=0.16,
    false_flip=0.138,
    false_confirmed=0.075,
    false_support=0.21,
    screen_net=1.05,
    screen_best=2.1,
)
EDIT = {"path": "workflow.md", "content": "Look, edit, then run the checks.\n"}
"""An edit that fits."""


def trace(task: str, *, passed: bool | None, commands: Sequence[str] = ("cat a.py", "sed -i s/a/b/ a.py")) -> Trace:
    """A trace with these commands and one turn that ran nothing."""
    ran = [
        Step(kind="command", text=f"I run {command}.", command=command, output=f"output of {command}", exit_code=0)
        for command in commands
    ]
    lost = Step(kind="format_error", text="no block here", output="Give one block.")
    feedback = "" if passed else "AssertionError: 3 != 4"
    return Trace(
        task=TrainTask(id=task, input=f"Issue of {task}: totals are off."),
        passed=passed,
        steps=(*ran[:1], lost, *ran[1:], Step(kind="submit", text="done")),
        feedback=feedback,
        measures={"turns": 4.0},
    )


def make_view(**changes: Any) -> RoundView:
    """Round 2: `fails-1` and `fails-2` fail, `passes` passes, `lost` was not measured."""
    traces = [
        trace("fails-1", passed=False),
        trace("fails-2", passed=False),
        trace("passes", passed=True),
        trace("lost", passed=None),
    ]
    given: dict[str, Any] = {
        "round": 2,
        "episode": 0,
        "seed": 77,
        "head": HEAD,
        "bases": {0: START, 1: HEAD},
        "method": method_candidate(seed_method()),
        "guidance": "Look for what was left out.",
        "description": "Mend small packages.",
        "report": "Two of three fail.",
        "traces": {one.task.id: one for one in traces},
        "attributions": (
            Attribution(
                task="fails-1",
                signature="AssertionError: N != N",
                passed=False,
                keep=(1,),
                commands=("sed -i s/a/b/ a.py",),
                cause="omission",
                replays=2,
            ),
        ),
        "ledger": (
            SignatureEntry(
                signature="AssertionError: N != N", first_round=0, example="fails-1", hits={0: ("fails-1",)}
            ),
        ),
        "history": (RoundNote(round=1, verdict="accept", label="EFFECTIVE", edited=("workflow.md",), fixed=("s9",)),),
        "noise": NOISE,
    }
    return RoundView(**{**given, **changes})


def make_meta_view(**changes: Any) -> MetaView:
    """What the improver is told after that round."""
    given: dict[str, Any] = {
        "round": 2,
        "seed": 78,
        "method": method_candidate(seed_method()),
        "card": "accept EFFECTIVE: 8 → 10 of 20",
        "note": RoundNote(round=2, verdict="accept", label="EFFECTIVE"),
        "proposals": (),
        "evidence": (),
        "traces": {"fails-1": trace("fails-1", passed=False)},
        "ledger": (),
        "noise": NOISE,
    }
    return MetaView(**{**given, **changes})


def call(tool: str, **arguments: Any) -> tuple[str, str]:
    """A tool call for a scripted reply."""
    return tool, json.dumps(arguments)


def calling(*calls: tuple[str, str], text: str | None = None, **further: Any) -> ScriptedReply:
    """A reply that makes these calls."""
    return ScriptedReply(text=text, tool_calls=calls, **further)


def submitting(**changes: Any) -> ScriptedReply:
    """A reply with a proposal that fits."""
    return calling(call("submit_proposal", **{"edits": [EDIT], "note": "Run the checks.", **changes}))


@dataclass
class Served:
    """An improver, and the server that its model talks to."""

    improver: LlmImprover
    server: ScriptedServer
    slept: list[float] = field(default_factory=list)

    def bodies(self) -> list[Mapping[str, Any]]:
        """What was sent, in order."""
        return [seen.body for seen in self.server.requests]

    def sent(self, number: int = -1) -> str:
        """Everything in one request, as text with its line breaks and quotes as they are."""
        return "\n".join(_texts(self.bodies()[number]))


@contextmanager
def serving(
    script: Script, *, kind: str = "openai", options: Mapping[str, Any] | None = None, retries: int = 2, **further: Any
) -> Iterator[Served]:
    """The improver over a model of this kind (`openai` or `anthropic`), which never really sleeps."""
    slept: list[float] = []
    with ScriptedServer(script) as server:
        config = ModelConfig(name=f"{kind}:tiny", url=server.url, timeout_s=5.0, retries=retries)
        model: Model = make_model(config, sleep=slept.append)
        settings = {"sandbox": None, **(options or {})}
        improver = LlmImprover(ImproverConfig(kind="llm", model=config, options=settings), model, **further)
        yield Served(improver, server, slept)
        model.close()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(item)
