"""The functions that catalogue edits put into a workspace's `hooks.py`: their source is copied from here.

They run in the hook process of the tool loop, and in the symbolic world, which calls them directly: that both do the
same is one function, not two. So they stand alone: builtins only, no imports, no module state.
"""

from __future__ import annotations

__all__ = ["first_lines_only", "mend_flags", "strip_colour", "surface_errors"]


def mend_flags(command: str) -> str:
    """A grep without the long options that grep does not have."""
    known = ("--include", "--exclude", "--fixed-strings", "--line-number", "--recursive")
    if not command.startswith("grep "):
        return command
    words = command.split(" ")
    return " ".join([word for word in words if not word.startswith("--") or word.split("=")[0] in known])


def strip_colour(output: str) -> str:
    """An output without terminal colours."""
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m"):
        output = output.replace(code, "")
    return output


def surface_errors(output: str, exit_code: int) -> str:
    """A failed command's long output, with the lines that name an error before it."""
    if exit_code == 0 or len(output) < 1000:
        return output
    named = [line for line in output.splitlines() if "Error" in line]
    return "\n".join(["Lines that name an error:", *named[-6:], "", output])


def first_lines_only(output: str, exit_code: int) -> str:
    """The first lines of a failed command's output."""
    lines = output.splitlines()
    if exit_code == 0 or len(lines) <= 3:
        return output
    return "\n".join([*lines[:3], f"({len(lines) - 3} further lines are not shown)"])
