"""Sentences put into a guide's module or into a skill, and the edits that make a folder one skill."""

from __future__ import annotations

import re
from collections.abc import Iterable

from heldout.errors import ImproverError
from heldout.records import Candidate, Edit
from heldout.skills.front_matter import DESCRIPTION_CHARACTERS, skill_text
from heldout.skills.modules import MODULES, NO_SKILL_FILE, SKILL_FILE

__all__ = ["empty_skill", "holds", "skill_edits", "with_policy", "with_sentences"]

_POLICY = re.compile(r"^##[ \t]+Policy[ \t]*$", re.MULTILINE)
_NEXT_SECTION = re.compile(r"^#{1,2}[ \t]+\S", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]*[-*][ \t]")


def holds(text: str, sentence: str) -> bool:
    """Whether a sentence stands in a text, white space and case aside."""
    return _plain(sentence) in _plain(text)


def with_policy(text: str, sentence: str, *, file: str) -> str:
    """A module with the sentence as the last item under `## Policy`."""
    heading = _POLICY.search(text)
    if heading is None:
        raise ImproverError(f"{file} has no section '## Policy' that a sentence could be added to")
    following = _NEXT_SECTION.search(text, heading.end())
    end = len(text) if following is None else following.start()
    rest = text[end:]
    return _with_item(text[:end], sentence) + (f"\n{rest}" if rest else "")


def with_sentences(skill: str, sentences: Iterable[str]) -> str:
    """A skill with the sentences as the last items of its body."""
    for sentence in sentences:
        skill = _with_item(skill, sentence)
    return skill


def empty_skill(description: str) -> str:
    """A valid `SKILL.md` that advises nothing yet."""
    words = " ".join(description.split()) or "How to solve these tasks."
    body = "# Learned skill\n\nWork through the request from its first word to its last."
    return skill_text("learned-skill", words[:DESCRIPTION_CHARACTERS], body)


def skill_edits(head: Candidate, text: str) -> tuple[Edit, ...]:
    """The edits after which a folder is this one skill: what made it a guide, or no skill, goes."""
    gone = [path for path in head.files if path == NO_SKILL_FILE or path in MODULES]
    return (Edit(path=SKILL_FILE, content=text), *(Edit(path=path, content=None) for path in sorted(gone)))


def _with_item(text: str, sentence: str) -> str:
    """The text, its blank end aside, with one more list item."""
    kept = text.rstrip()
    last = kept.rpartition("\n")[2]
    between = "\n" if _ITEM.match(last) else "\n\n"
    return f"{kept}{between}- {sentence}\n"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
