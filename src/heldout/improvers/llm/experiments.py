"""The improver's experiments as tools: probes of the laboratory, and analyses in a sandbox of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from pydantic import Field

from heldout.errors import SandboxError
from heldout.harness.protocol import COMMAND_BYTES
from heldout.improvers.llm.evidence import evidence_line
from heldout.improvers.llm.submissions import EditArgument, edits_of
from heldout.improvers.llm.tools import Answer, Tool
from heldout.probes.base import Laboratory
from heldout.records import Edit, Evidence, ProbeKind, Record
from heldout.sandbox import Completed, Sandbox, Sandboxes, Scene

__all__ = ["Analysis", "DraftCheck", "Probes"]

DraftCheck = Callable[[Sequence[Edit], int | None], Sequence[str]]
"""Why a draft (edits, base round) cannot be run; empty where it can, or where only the laboratory knows."""


class _Trace(Record):
    task: str = Field(max_length=1000, description="a train task with a trace")


class _Step(_Trace):
    step: int = Field(ge=0, description="number of the command in the trace")


class _Substitute(_Step):
    command: str = Field(min_length=1, max_length=COMMAND_BYTES, description="what to run in its place")


class _FixProbe(Record):
    edits: tuple[EditArgument, ...] = Field(min_length=1, description="the draft: whole files of the harness")
    tasks: tuple[str, ...] = Field(min_length=1, max_length=3, description="train tasks that fail now")
    base_round: int | None = Field(default=None, description="try the draft on this kept round, not the head")


class _RunEpisode(_Trace):
    edits: tuple[EditArgument, ...] = Field(default=(), description="a draft; [] runs the harness as it is")
    base_round: int | None = Field(default=None, description="run this kept round, not the head")


class _Analysis(Record):
    code: str = Field(min_length=1, description="Python; prints what you want to know")


class Probes:
    """The tools for the kinds of probe that a laboratory offers, and the evidence that they gave."""

    def __init__(self, laboratory: Laboratory, *, check: DraftCheck) -> None:
        self.evidence: list[Evidence] = []
        self._laboratory = laboratory
        self._check = check

    def tools(self) -> list[Tool]:
        """One tool for each kind; none in arms without verification."""
        tools = {
            ProbeKind.REPLAY: Tool("replay", _REPLAY, _Trace, self._replay),
            ProbeKind.ABLATE: Tool("ablate", _ABLATE, _Step, self._ablate),
            ProbeKind.SUBSTITUTE: Tool("substitute", _SUBSTITUTE, _Substitute, self._substitute),
            ProbeKind.FIX_PROBE: Tool("fix_probe", _FIX_PROBE, _FixProbe, self._fix_probe),
            ProbeKind.RUN_EPISODE: Tool("run_episode", _RUN_EPISODE, _RunEpisode, self._run_episode),
        }
        return [tool for kind, tool in tools.items() if kind in self._laboratory.available]

    def _replay(self, given: _Trace) -> Answer:
        return self._ask(ProbeKind.REPLAY, [given.task])

    def _ablate(self, given: _Step) -> Answer:
        return self._ask(ProbeKind.ABLATE, [given.task], step=given.step)

    def _substitute(self, given: _Substitute) -> Answer:
        return self._ask(ProbeKind.SUBSTITUTE, [given.task], step=given.step, command=given.command)

    def _fix_probe(self, given: _FixProbe) -> Answer:
        return self._draft(ProbeKind.FIX_PROBE, given.tasks, given.edits, base_round=given.base_round)

    def _run_episode(self, given: _RunEpisode) -> Answer:
        return self._draft(ProbeKind.RUN_EPISODE, [given.task], given.edits, base_round=given.base_round)

    def _draft(
        self, kind: ProbeKind, tasks: Sequence[str], given: Sequence[EditArgument], *, base_round: int | None
    ) -> Answer:
        edits = edits_of(given)
        faults = self._check(edits, base_round) if edits else ()
        if faults:
            return Answer("Not run, and nothing spent:\n" + "\n".join(f"- {fault}" for fault in faults), fault=True)
        return self._ask(kind, tasks, edits=edits, base_round=base_round)

    def _ask(self, kind: ProbeKind, tasks: Sequence[str], **further: Any) -> Answer:
        evidence = self._laboratory.probe(kind, tasks, **further)
        self.evidence.append(evidence)
        left = f"{self._laboratory.units_left()} units are left in the round's pool."
        return Answer(f"{evidence_line(evidence)}. {left}", fault=bool(evidence.refused))


class Analysis:
    """Python over the readable files, in a sandbox that is opened at the first call and lasts for the episode."""

    def __init__(self, sandboxes: Sandboxes, tree: Mapping[str, str], *, until: ExitStack, result_chars: int) -> None:
        self._sandboxes = sandboxes
        self._tree = dict(tree)
        self._until = until
        self._result_chars = result_chars
        self._sandbox: Sandbox | None = None

    def tool(self) -> Tool:
        """`run_analysis`."""
        return Tool("run_analysis", _ANALYSIS, _Analysis, self._run)

    def _run(self, given: _Analysis) -> Answer:
        try:
            if self._sandbox is None:
                self._sandbox = self._until.enter_context(self._sandboxes.open(Scene(files=self._tree)))
            done = self._sandbox.run(["python3", "-"], stdin=given.code)
        except SandboxError as fault:
            return Answer(f"The sandbox failed, which says nothing about your code: {fault}", fault=True)
        return Answer(_shown(done, self._result_chars), fault=done.exit_code != 0)


def _shown(done: Completed, limit: int) -> str:
    """Exit code and output; of a long output the beginning and the end."""
    output = done.output
    if len(output) > limit:
        half = limit // 2
        output = f"{output[:half]}\n[{len(output) - 2 * half} characters left out]\n{output[-half:]}"
    killed = f", ended by its limit on {done.killed}" if done.killed else ""
    return f"[exit code {done.exit_code}{killed}]\n{output}".rstrip()


_REPLAY = (
    "Run a trace's commands again in a fresh environment, without the model. If the outcome does not come back, every "
    "diagnosis that blames one of its commands is refuted; if it does, nothing is proved yet. 1 unit."
)
_ABLATE = (
    "Run a trace again without one command. A failure that then passes supports that this command is the cause; a pass "
    "that then fails supports that it is needed. No change says nothing. 1 unit."
)
_SUBSTITUTE = "Run a failing trace again with one command replaced. A pass supports exactly that replacement. 1 unit."
_FIX_PROBE = (
    "Run the agent under a draft of your edits on up to three tasks that fail now; each pass is run a second time. One "
    "confirmed pass supports the draft, none refutes it. Counts for exactly these edits. 1 unit for each task."
)
_RUN_EPISODE = "Run the agent once on a train task, with or without a draft. No verdict. 1 unit."
_ANALYSIS = (
    "Run Python in a sandbox without a network, in a folder that holds the files of list_files. Files that it writes "
    "stay for the next call; nothing in it reaches the harness."
)
