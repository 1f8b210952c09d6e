"""Hooks of a candidate, run where they can do no harm; one that fails changes nothing and is counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from importlib import resources
from types import TracebackType
from typing import Any, Self

from heldout.errors import HarnessError, SandboxError
from heldout.harness.hook_audit import HOOKS_BYTES, HOOKS_FILE, audit_hooks
from heldout.harness.hook_surface import IMPROVER_HOOKS, SOLVER_HOOKS, ExtraTool, Hook, HookSurface
from heldout.records import Candidate
from heldout.sandbox import Conversation, Limits, Sandbox, Sandboxes, Scene

__all__ = [
    "HOOKS_BYTES",
    "HOOKS_FILE",
    "IMPROVER_HOOKS",
    "NO_HOOKS",
    "SOLVER_HOOKS",
    "ExtraTool",
    "Hook",
    "HookHost",
    "HookSurface",
    "audit_hooks",
    "dry_run",
    "hooks_of",
]

NO_HOOKS = HookSurface(source="", path=HOOKS_FILE, kinds=SOLVER_HOOKS, defined=frozenset())
"""The surface of a candidate without a hooks file."""

KEPT_FAULTS = 8
"""Fault messages that a host keeps; all faults are counted."""
_FAULT_CHARACTERS = 500
"""Of one message, which may hold whatever a hook said."""

_HOST_FILE = "hook_host.py"
_ARGV = ("python3", "-s", "-S", _HOST_FILE)
_START_TIMEOUT_S = 30.0
"""For the interpreter alone; none of a candidate's code has run by then."""
_QUESTION_CHARACTERS = 3_000_000
"""Sandboxes carry lines of 4 MB."""
_MOST_DEATHS = 3
"""Of the hooks' process in one episode; an endless loop then costs three time-outs, not one in every turn."""
_LIMITS = Limits(wall_s=86400.0, cpu_s=600.0, memory_mb=512, processes=8, file_mb=1, disk_mb=8)


class HookHost:
    """The hooks of one episode, in a process and a sandbox of their own that end with the `with` block.

    `call` never raises for what a hook does: where a hook raises, is too slow, dies or returns what it may not, its
    identity holds, and `errors` grows by exactly one. A hook that is not defined costs nothing: the sandbox starts
    with the first call of one that is. `SandboxError` where that start fails, which is no fault of the hooks.
    """

    def __init__(self, surface: HookSurface, sandboxes: Sandboxes, *, timeout_s: float = 2.0) -> None:
        self.surface = surface
        self.calls = 0
        """Calls of hooks that are defined."""
        self.errors = 0
        """Those that failed."""
        self.faults: list[str] = []
        """What the first failures were, in order."""
        self._sandboxes = sandboxes
        self._timeout_s = timeout_s
        self._stack = ExitStack()
        self._sandbox: Sandbox | None = None
        self._conversation: Conversation | None = None
        self._deaths = 0
        self._unusable = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._conversation = self._sandbox = None
        self._stack.close()

    def defines(self, name: str) -> bool:
        """Whether calling this hook can do anything."""
        return name in self.surface.defined

    def call(self, name: str, *args: Any) -> Any:
        """The checked result of a hook for JSON arguments, or its identity; see `Hook`."""
        hook = self.surface.kinds[name]
        if not self.defines(name):
            return hook.identity(args)
        self.calls += 1
        try:
            return hook.check(args, self._ask(name, args))
        except HarnessError as fault:
            self.errors += 1
            if len(self.faults) < KEPT_FAULTS:
                self.faults.append(_told(name, fault))
            return hook.identity(args)

    def _ask(self, name: str, args: tuple[Any, ...]) -> Any:
        """`HarnessError` for whatever the hook did wrong."""
        question = json.dumps({"call": name, "args": args})
        if len(question) > _QUESTION_CHARACTERS:
            raise HarnessError(f"not called: its arguments have {len(question)} characters")
        return self._exchange(self._started(), question)

    def _started(self) -> Conversation:
        """The conversation with the process, in which the hooks are loaded."""
        if self._unusable:
            raise HarnessError(self._unusable)
        if self._conversation is None:
            self._conversation = self._start()
            load = json.dumps({"load": self.surface.source, "path": self.surface.path})
            try:
                self._exchange(self._conversation, load)
            except HarnessError as fault:
                self._unusable = f"not loaded: {fault}"
                raise HarnessError(self._unusable) from fault
        return self._conversation

    def _start(self) -> Conversation:
        try:
            if self._sandbox is None:
                self._sandbox = self._stack.enter_context(self._sandboxes.open(_scene()))
            conversation = self._sandbox.talk(_ARGV)
            self._stack.callback(conversation.close)
            conversation.ask("{}", timeout_s=_START_TIMEOUT_S)
        except SandboxError as cause:
            if self._deaths:  # by now the sandbox is what the hooks have made of it
                self._unusable = f"could not be started again: {cause}"
                raise HarnessError(self._unusable) from cause
            raise SandboxError(f"the process for hooks did not start: {cause}") from cause
        return conversation

    def _exchange(self, conversation: Conversation, question: str) -> Any:
        try:
            line = conversation.ask(question, timeout_s=self._timeout_s)
        except SandboxError as cause:
            conversation.close()
            self._conversation = None
            self._deaths += 1
            if self._deaths >= _MOST_DEATHS:
                self._unusable = f"not called: the hooks' process was lost {self._deaths} times"
            raise HarnessError(f"gave no answer within {self._timeout_s:g} s, or its process died") from cause
        return _value(line)


def hooks_of(candidate: Candidate) -> HookSurface:
    """The audited hooks of a harness folder; `HarnessError` with the faults of a hooks file that does not pass."""
    source = candidate.files.get(HOOKS_FILE)
    return NO_HOOKS if source is None else audit_hooks(source)


def dry_run(surface: HookSurface, sandboxes: Sandboxes) -> list[str]:
    """Load the hooks and call each once on inert input; what went wrong, in the order of the calls."""
    with HookHost(surface, sandboxes) as host:
        for name, hook in surface.kinds.items():
            for args in [(tool.name, "") for tool in surface.tools] if name == "run_tool" else [hook.inert]:
                host.call(name, *args)
        return host.faults


def _told(name: str, fault: HarnessError) -> str:
    """A fault in words that a trace can hold: half a character, as broken JSON escapes make it, cannot be written."""
    return f"{name}: {fault}"[:_FAULT_CHARACTERS].encode(errors="replace").decode()


def _value(line: str) -> Any:
    """The value of an answer. Hook code that found a way to write here gains nothing: every value is checked."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as cause:
        raise HarnessError("its answer is no JSON") from cause
    if not isinstance(answer, Mapping) or not {"value", "error"} & set(answer):
        raise HarnessError("its answer holds neither a value nor an error")
    if "error" in answer:
        raise HarnessError(str(answer["error"]))
    return answer["value"]


def _scene() -> Scene:
    host = resources.files("heldout.harness").joinpath(_HOST_FILE).read_text(encoding="utf-8")
    return Scene(files={_HOST_FILE: host}, env={"PYTHONHASHSEED": "0"}, limits=_LIMITS)
