"""What hooks exist: their arguments, what holds where one fails, and what they may return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heldout.errors import HarnessError

__all__ = [
    "GROWTH_BYTES",
    "GROWTH_MESSAGES",
    "IMPROVER_HOOKS",
    "NOTE_BYTES",
    "SOLVER_HOOKS",
    "ExtraTool",
    "Hook",
    "HookSurface",
]

GROWTH_BYTES = 16384
"""A hook may return this much more text than it was given."""

NOTE_BYTES = 4096
"""Longest note of `on_turn_end`."""

GROWTH_MESSAGES = 8
"""`before_llm` may return this many more messages than it was given."""

ANSWER_BYTES = 65536
"""Longest text with which `before_tool` blocks or answers; the model is shown as much as of any output."""

_ROLES = ("system", "user", "assistant", "tool")

Check = Callable[[Sequence[Any], Any], Any]
"""(arguments, what the hook returned) -> what is used; `HarnessError` where it cannot be."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One kind of hook. It is called with JSON values, and its result is checked before anything uses it."""

    parameters: tuple[str, ...]
    keeps: int | None
    """Index of the argument that stays where the hook is absent or fails; None: nothing is added."""
    check: Check
    inert: tuple[Any, ...]
    """Arguments of a dry call."""

    def identity(self, args: Sequence[Any]) -> Any:
        """What holds without the hook."""
        return None if self.keeps is None else args[self.keeps]


@dataclass(frozen=True, slots=True)
class ExtraTool:
    """A command that a candidate adds to the shell; `run_tool` says which shell command it stands for."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class HookSurface:
    """A hooks file that passed the audit: which hooks it defines, of which there might be."""

    source: str
    path: str
    kinds: Mapping[str, Hook]
    defined: frozenset[str]
    tools: tuple[ExtraTool, ...] = ()


def _text(value: Any, what: str, *, limit_bytes: int, empty: bool = False) -> str:
    if not isinstance(value, str):
        raise HarnessError(f"{what} is a {type(value).__name__}, not a text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as cause:
        raise HarnessError(f"{what} is no valid text: {cause.reason}") from cause
    if size > limit_bytes:
        raise HarnessError(f"{what} has {size} bytes; at most {limit_bytes} are taken here")
    if "\0" in value:
        raise HarnessError(f"{what} holds a NUL character")
    if not (empty or value.strip()):
        raise HarnessError(f"{what} is empty")
    return value


def _longer(text: str) -> int:
    return len(text.encode()) + GROWTH_BYTES


def _system_prompt(args: Sequence[Any], value: Any) -> str:
    return _text(value, "the system prompt", limit_bytes=_longer(args[0]))


def _after_llm(args: Sequence[Any], value: Any) -> str:
    return _text(value, "the reply", limit_bytes=_longer(args[0]), empty=True)


def _after_tool(args: Sequence[Any], value: Any) -> str:
    return _text(value, "the output", limit_bytes=_longer(args[1]), empty=True)


def _on_turn_end(_args: Sequence[Any], value: Any) -> str | None:
    return None if value is None else _text(value, "the note", limit_bytes=NOTE_BYTES)


def _run_tool(args: Sequence[Any], value: Any) -> str:
    return _text(value, "the command", limit_bytes=_longer(args[1]))


def _before_tool(args: Sequence[Any], value: Any) -> str | dict[str, str]:
    if not isinstance(value, dict):
        return _text(value, "the command", limit_bytes=_longer(args[0]))
    if len(value) != 1 or not set(value) <= {"block", "answer"}:
        raise HarnessError(f"expected a command, or a mapping with 'block' or 'answer' alone; it has {sorted(value)}")
    ((kind, text),) = value.items()
    return {kind: _text(text, f"the text of {kind!r}", limit_bytes=ANSWER_BYTES, empty=kind == "answer")}


def _before_llm(args: Sequence[Any], value: Any) -> list[dict[str, Any]]:
    given = args[0]
    if not isinstance(value, list) or not value:
        raise HarnessError(f"the messages are no list with at least one message, but a {type(value).__name__}")
    if len(value) > len(given) + GROWTH_MESSAGES:
        raise HarnessError(f"{len(value)} messages came back for {len(given)}; at most {GROWTH_MESSAGES} may be added")
    keys = frozenset().union(*given)
    limit = sum(len(message["content"].encode()) for message in given) + GROWTH_BYTES
    for number, message in enumerate(value):
        limit -= _message(message, f"message {number}", keys=keys, limit_bytes=limit)
    if value[-1]["role"] != given[-1]["role"]:
        raise HarnessError(f"the last message is of the {value[-1]['role']}, not of the {given[-1]['role']}")
    return value


def _message(message: Any, what: str, *, keys: frozenset[str], limit_bytes: int) -> int:
    """Bytes of a message that is one."""
    if not isinstance(message, dict) or not {"role", "content"} <= set(message) <= keys:
        raise HarnessError(f"{what} is no mapping with the keys {sorted(keys)}")
    if message["role"] not in _ROLES:
        raise HarnessError(f"{what} has the role {message['role']!r}")
    return len(_text(message["content"], what, limit_bytes=max(0, limit_bytes), empty=True).encode())


_MESSAGES = (
    {"role": "system", "content": "You are a careful engineer."},
    {"role": "user", "content": "This is no real task."},
    {"role": "assistant", "content": "I look around.\n\n```bash\nls\n```"},
    {"role": "user", "content": "exit code 0\nREADME.md"},
)

SOLVER_HOOKS: Mapping[str, Hook] = {
    "system_prompt": Hook(("text", "task"), 0, _system_prompt, (_MESSAGES[0]["content"], {"input": "No real task."})),
    "before_llm": Hook(("messages",), 0, _before_llm, (list(_MESSAGES),)),
    "after_llm": Hook(("text",), 0, _after_llm, (_MESSAGES[2]["content"],)),
    "before_tool": Hook(("command",), 0, _before_tool, ("ls",)),
    "after_tool": Hook(("command", "output", "exit_code"), 1, _after_tool, ("ls", "README.md", 0)),
    "on_turn_end": Hook(("turn", "messages"), None, _on_turn_end, (1, list(_MESSAGES))),
    "run_tool": Hook(("name", "argument"), None, _run_tool, ("", "")),
}
"""The hooks of an executor's harness. `run_tool` is the one that is not called in every turn."""

IMPROVER_HOOKS: Mapping[str, Hook] = {
    name: hook for name, hook in SOLVER_HOOKS.items() if name not in ("on_turn_end", "run_tool")
}
"""The hooks of an improver's own harness; its commands are tool calls as text."""
