"""The hooks of the improver's own method around its episodes; where one fails, everything is as without it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from heldout.errors import HarnessError, SandboxError
from heldout.harness.hooks import IMPROVER_HOOKS, HookHost, HookSurface, audit_hooks, dry_run
from heldout.improvers.llm.tools import Answer
from heldout.improvers.method import HOOKS_BYTES, HOOKS_FILE
from heldout.models import Message, ToolCall
from heldout.records import Candidate
from heldout.sandbox import Sandboxes

__all__ = ["MethodHooks", "method_hook_faults"]


class MethodHooks:
    """One episode's hooks, in a sandbox that lasts until `until` is closed. Not mounted (`method` is None, or there
    is no sandbox, or the file does not pass its audit), every method here gives back what it was given.

    A tool call is one text for a hook: the tool's name, a space, and its arguments as JSON.
    """

    def __init__(self, method: Candidate | None, sandboxes: Sandboxes | None, *, until: ExitStack) -> None:
        self.faults: list[str] = []
        self._outside = 0
        self._host: HookHost | None = None
        source = "" if method is None else method.files.get(HOOKS_FILE, "")
        if not source.strip():
            return
        if sandboxes is None:
            self._unmount("there is no sandbox for them")
            return
        try:
            surface = _surface(source)
        except HarnessError as fault:
            self._unmount(str(fault))
            return
        self._host = until.enter_context(HookHost(surface, sandboxes))

    def measures(self) -> dict[str, float]:
        """`hook_calls` and `hook_errors`."""
        calls, errors = (0, 0) if self._host is None else (self._host.calls, self._host.errors)
        return {"hook_calls": calls, "hook_errors": errors + self._outside}

    def system_prompt(self, text: str, *, task: str) -> str:
        """The system message, once an episode."""
        return str(self._call("system_prompt", text, {"input": task}))

    def messages(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """What is sent this turn. A hook may change texts; turns stay in their number and order, for the calls in
        them and their results belong together."""
        if self._host is None or not self._host.defines("before_llm"):
            return tuple(messages)
        given = [{"role": message.role, "content": message.content} for message in messages]
        found = self._call("before_llm", given)
        if [turn["role"] for turn in found] != [turn["role"] for turn in given]:
            self._count("before_llm: turns were added, taken out or moved")
            return tuple(messages)
        return tuple(_with_text(message, turn["content"]) for message, turn in zip(messages, found, strict=True))

    def reply(self, text: str) -> str:
        """The text of a reply."""
        return str(self._call("after_llm", text))

    def before(self, call: ToolCall) -> ToolCall | Answer:
        """The call that is made, or the answer in its place."""
        command = f"{call.name} {call.arguments}"
        found = self._call("before_tool", command)
        if isinstance(found, dict):
            return Answer(str(next(iter(found.values()))), fault="block" in found)
        name, _, arguments = str(found).partition(" ")
        return call if found == command else call.model_copy(update={"name": name, "arguments": arguments})

    def after(self, call: ToolCall, answer: Answer) -> str:
        """The text that answers a call."""
        return str(self._call("after_tool", f"{call.name} {call.arguments}", answer.text, int(answer.fault)))

    def _call(self, name: str, *args: Any) -> Any:
        hook = IMPROVER_HOOKS[name]
        if self._host is None:
            return hook.identity(args)
        try:
            return self._host.call(name, *args)
        except SandboxError as fault:
            self._unmount(str(fault))
            return hook.identity(args)

    def _unmount(self, fault: str) -> None:
        self._outside += 0 if self._host is None else self._host.errors
        self._host = None
        self._count(fault)

    def _count(self, fault: str) -> None:
        self._outside += 1
        self.faults.append(fault)


def method_hook_faults(source: str, sandboxes: Sandboxes | None) -> tuple[str, ...]:
    """What speaks against `teacher_code/hooks.py`: the audit, then a dry call of each hook where there is a sandbox."""
    try:
        surface = _surface(source)
        return () if sandboxes is None else tuple(dry_run(surface, sandboxes))
    except HarnessError as fault:
        return (str(fault),)
    except SandboxError:  # says nothing of the hooks
        return ()


def _surface(source: str) -> HookSurface:
    return audit_hooks(source, limit_bytes=HOOKS_BYTES, path=HOOKS_FILE, kinds=IMPROVER_HOOKS)


def _with_text(message: Message, text: str) -> Message:
    """Blocks hold the old text, so they go where it changes."""
    return message if message.content == text else message.model_copy(update={"content": text, "blocks": ()})
