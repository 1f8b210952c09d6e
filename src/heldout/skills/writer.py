"""The writer: one model call that makes a skill for one task, from a guide and what the task shows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from heldout.errors import HarnessError
from heldout.models.base import Message, Model, Request
from heldout.records import Spend
from heldout.skills.folder import Skill, read_skill
from heldout.skills.front_matter import DESCRIPTION_CHARACTERS, NAME_CHARACTERS
from heldout.skills.guide import guide_text
from heldout.skills.modules import SKILL_FILE

__all__ = ["WRITER_RULES", "WriterTask", "Written", "read_reply", "write_skill", "writer_messages"]

WRITER_RULES = f"""You are given a guide and one request. Work through the guide's modules in their order, and write \
exactly one skill for this request. Another model reads your skill with the request, works in a shell in the same work \
folder, and sees nothing else of what you know.

- Build on the request and on what the task shows, and on nothing else. What neither says is unknown: write it as a \
check to be made while the work runs.
- Bind a name only where the task shows it, and say where it was seen.
- The skill holds the procedure, the bindings, the outputs that the request asks for, checks that can fail, what is \
not to be done, and when to stop.
- It is a Markdown file that begins with front matter: a line `---`, a line `name:` (1 to {NAME_CHARACTERS} lower-case \
letters, digits and single hyphens), a line `description:` (at most {DESCRIPTION_CHARACTERS} characters, in quotes), \
and a line `---`. The instructions follow it.

Reply with the skill alone, in one block that begins with ```markdown and ends with ```."""

_OPENING = re.compile(r"^(?P<fence>`{3,}|~{3,})[ \t]*(?:markdown|md|yaml)?[ \t]*\r?\n(?=\s*---)", re.MULTILINE)
_FRONT = re.compile(r"^---[ \t]*\r?\n(?=[ \t]*[\w-]+[ \t]*:)", re.MULTILINE)
_BARE_DESCRIPTION = re.compile(r"^description:[ \t]+(?P<value>[^\s\"'|>\[{&*!].*?)[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class WriterTask:
    """All that a writer may know of a task."""

    request: str
    """`Task.input`."""
    shown: str
    """`heldout.skills.visible` of its scene."""


@dataclass(frozen=True, slots=True)
class Written:
    """What came of one call."""

    skill: Skill | None
    """None where the reply is no skill."""
    fault: str
    """Why."""
    reply: str
    spend: Spend


def writer_messages(guide: Mapping[str, str], task: WriterTask) -> tuple[Message, Message]:
    """The whole request: nothing but the guide, the request and what the task shows enters it."""
    system = f"# Write one skill\n\n{WRITER_RULES}\n\n{guide_text(guide)}"
    user = f"# Request\n\n{task.request}\n\n# What the task shows\n\n{task.shown}"
    return Message(role="system", content=system), Message(role="user", content=user)


def write_skill(guide: Mapping[str, str], task: WriterTask, *, model: Model, max_tokens: int, seed: int) -> Written:
    """Ask once. `ModelError` where the model does not answer; a reply that is no skill is data."""
    request = Request(messages=writer_messages(guide, task), max_tokens=max_tokens, seed=seed)
    reply = model.complete(request)
    spend = Spend(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
    text = reply.text.encode(errors="replace").decode()
    try:
        return Written(read_reply(text, cut=reply.finish_reason == "length"), "", text, spend)
    except HarnessError as fault:
        return Written(None, f"the writer's reply is no skill: {fault}", text, spend)


def read_reply(text: str, *, cut: bool = False) -> Skill:
    """The skill in a reply, bare or in one fence; `HarnessError` says what is wrong with it.

    What stands before a closing `</think>` is reasoning and is not read. `cut` says that the reply ended at its
    longest length.
    """
    if cut:
        raise HarnessError("it was cut off at its longest length; raise solver.options.writer_tokens")
    found = _fenced(text.rpartition("</think>")[2]).strip()
    if not found:
        raise HarnessError("it is empty")
    begins = _FRONT.search(found)
    if begins is None:
        raise HarnessError("it holds no front matter: a line ---, name, description, and a line ---")
    skill = f"{found[begins.start() :]}\n"
    try:
        return read_skill({SKILL_FILE: skill})
    except HarnessError:
        mended = _with_quoted_description(skill)
        if mended == skill:
            raise
        return read_skill({SKILL_FILE: mended})


def _fenced(text: str) -> str:
    """The content of the block that begins with front matter, to the last line that closes it; else the whole text."""
    opening = _OPENING.search(text)
    if opening is None:
        return text
    inside = text[opening.end() :]
    closing = list(re.finditer(rf"^{re.escape(opening['fence'])}[ \t]*\r?$", inside, re.MULTILINE))
    if not closing:
        raise HarnessError("its block has no closing fence")
    return inside[: closing[-1].start()]


def _with_quoted_description(skill: str) -> str:
    """A description on one line is often written without quotes and with a colon in it, which is no YAML."""
    return _BARE_DESCRIPTION.sub(lambda m: f"description: {json.dumps(m['value'], ensure_ascii=False)}", skill, count=1)
