"""The tool loop's text protocol: one fenced command a turn, and a marker line that ends the work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heldout.harness.hook_surface import ExtraTool
from heldout.sandbox import Completed

__all__ = ["COMMAND_BYTES", "SUBMIT_MARKER", "Reading", "is_submission", "read_command", "rules"]

SUBMIT_MARKER = "HELDOUT_SUBMIT"

COMMAND_BYTES = 100_000
"""Longest command; Linux takes no more than 128 KiB in one argument."""

_BLOCK = re.compile(
    r"^ {0,3}(?P<fence>`{3,})(?:bash|sh|shell)[ \t]*\r?\n(?P<body>.*?)^ {0,3}(?P=fence)`*[ \t]*\r?$",
    re.MULTILINE | re.DOTALL,
)
_OPENING = re.compile(r"^ {0,3}`{3,}(?:bash|sh|shell)[ \t]*\r?$", re.MULTILINE)

_RULES = """# How you work
You work through a shell. In every turn, say in a sentence what you do next, then give exactly one command block:

```bash
the command
```

- The block may hold several lines. It runs in a new bash in the work folder: files stay, `cd` and variables do not.
- You are then shown its exit code and its output; of long output the beginning and the end.
- A command may take {command_timeout_s:g} seconds. There is no network. You have at most {max_turns} turns.
- When the work is done, give `echo HELDOUT_SUBMIT` as the command. What the work folder then holds is your answer."""


def rules(*, max_turns: int, command_timeout_s: float, tools: Sequence[ExtraTool] = ()) -> str:
    """What every system message ends with: the protocol, and the commands that the candidate adds to the shell."""
    text = _RULES.format(max_turns=max_turns, command_timeout_s=command_timeout_s)
    if tools:
        shown = "\n".join(f"- `{tool.name} ARGUMENT`: {tool.description}" for tool in tools)
        text += f"\n\nThe block may also be one of these commands, alone:\n{shown}"
    return text


@dataclass(frozen=True, slots=True)
class Reading:
    """The command of a reply, or what is wrong with the reply, in words for the model."""

    command: str | None
    fault: str = ""


def read_command(text: str, *, cut: bool = False) -> Reading:
    """The one command block of a reply; `cut` says that the reply ended at its longest length.

    What stands before a closing `</think>` is the model's reasoning and is not read. A longer fence may hold
    shorter ones.
    """
    said = text.rpartition("</think>")[2]
    blocks = [found["body"] for found in _BLOCK.finditer(said)]
    if len(blocks) == 1 and blocks[0].strip():
        return _checked(blocks[0].rstrip())
    if len(blocks) > 1:
        return _refused(f"Your reply holds {len(blocks)} command blocks; none was run.")
    if blocks:
        return _refused("The command block of your reply is empty.")
    if cut:
        return _refused("Your reply was cut off at its longest length before its command block was complete.")
    if _OPENING.search(said):
        return _refused("The command block of your reply has no closing fence; it was not run.")
    return _refused("Your reply holds no command block." if said.strip() else "Your reply is empty.")


def is_submission(done: Completed) -> bool:
    """Whether a command that succeeded printed the marker as its first or last line."""
    lines = [line.strip() for line in done.output.strip().splitlines()]
    return done.exit_code == 0 and bool(lines) and SUBMIT_MARKER in (lines[0], lines[-1])


def _checked(command: str) -> Reading:
    if "\0" in command:
        return _refused("Your command holds a NUL character; it was not run.")
    if len(command.encode()) > COMMAND_BYTES:
        return _refused(f"Your command is longer than {COMMAND_BYTES} bytes; write long files in several parts.")
    return Reading(command)


def _refused(fault: str) -> Reading:
    return Reading(None, f"{fault} Give exactly one command, in one block that begins with ```bash and ends with ```.")
