"""The program that a reply to a HumanEval prompt means: a chat reply with a fenced block, or a bare continuation."""

from __future__ import annotations

import re

__all__ = ["program_of"]

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_FUTURE = re.compile(r"^from __future__ import [^\n]*$", re.MULTILINE)
_DEFINITION = re.compile(
    r"(?:async[ ]+)?def[ ]+\w+[ ]*\(|class[ ]+\w+[ ]*[(:]|@\w"
    r"|from[ ]+[\w.]+[ ]+import\b|import[ ]+[\w.]+[ ]*(?:,|as\b|;|$)"
)
_TOP = re.compile(rf"{_DEFINITION.pattern}|[A-Za-z_]\w*[ ]*(?::[^=\n]*)?=(?!=)")
"""How a line begins that is part of a module and not talk about it."""
_INDENT = 4


def program_of(prompt: str, answer: str, *, entry_point: str) -> str:
    """The text of a module; empty where the reply holds no code.

    Of fenced blocks the first that defines the function counts, else the first. A program that defines the function
    comes after what the prompt has before it (imports, further functions); what does not define it continues the
    prompt, up to the first line that is neither indented nor part of a definition.
    """
    blocks = _blocks(answer)
    defines = re.compile(rf"^(?:async[ \t]+)?def[ \t]+{re.escape(entry_point)}\b", re.MULTILINE)
    whole = next((block for block in blocks if defines.search(block)), None)
    if whole is None and not blocks and defines.search(answer):
        whole = _without_talk(answer)
    if whole is not None:
        return _after_future(prompt[: _begin(prompt, defines)], whole)
    body = blocks[0] if blocks else answer
    return prompt.rstrip("\n") + "\n" + _body(body) if body.strip() else ""


def _blocks(answer: str) -> list[str]:
    """What stands between fences; the last one may be open."""
    fences = list(_FENCE.finditer(answer))
    ends = [fence.start() for fence in fences[1::2]] + [len(answer)]
    return [answer[begin.end() + 1 : end] for begin, end in zip(fences[::2], ends, strict=False)]


def _begin(prompt: str, defines: re.Pattern[str]) -> int:
    found = list(defines.finditer(prompt))
    return found[-1].start() if found else 0


def _without_talk(answer: str) -> str:
    """From the first line that begins a program to the last that belongs to one."""
    lines = answer.split("\n")
    first = next((at for at, line in enumerate(lines) if _TOP.match(line)), 0)
    kept: list[str] = []
    for line in lines[first:]:
        if line.strip() and not line[0].isspace() and not _TOP.match(line) and line[0] not in "#)]}":
            break
        kept.append(line)
    return "\n".join(kept)


def _after_future(preamble: str, whole: str) -> str:
    """Imports from `__future__` stand first in a module."""
    future = "".join(line + "\n" for line in _FUTURE.findall(whole))
    return future + preamble + _FUTURE.sub("", whole)


def _body(text: str) -> str:
    """The body of a function, up to the first line that is neither indented nor of a module.

    Replies are stripped: then the first line has lost its indentation, or, in a block, all lines have.
    """
    lines = [_untabbed(line) for line in text.split("\n") if line.strip()]
    first, following = lines[0], lines[1] if len(lines) > 1 else ""
    if _indent(first) == 0:
        least = _INDENT + first.rstrip().endswith(":")
        if following and _indent(following) < least and not _DEFINITION.match(following):
            return "".join(f"{'':{_INDENT}}{line}\n" for line in lines)
        lines[0] = f"{'':{_INDENT}}{first}"
    end = next((at for at, line in enumerate(lines) if _indent(line) == 0 and not _TOP.match(line)), len(lines))
    return "\n".join(lines[:end]) + "\n"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _untabbed(line: str) -> str:
    bare = line.lstrip()
    return line[: len(line) - len(bare)].expandtabs(_INDENT) + bare
