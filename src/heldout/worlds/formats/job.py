"""One task of the world in the form of a record: what is asked, how it is worded, and an ideal answer."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Literal

from heldout.records import Record
from heldout.worlds.formats.wording import WORDING

__all__ = ["Constraint", "Fault", "Job", "Skill", "Wrapper"]

Wrapper = Literal["plain", "json", "tags"]

Skill = Literal["list", "copy", "reverse", "sort"]
"""`list` is the world itself; the others are plain skills that training may spoil (the role `retain`)."""


class Constraint(StrEnum):
    """What a task may ask for beside the words themselves, in the order in which a text asks for it."""

    COUNT = "count"
    WORD = "word"
    CASE = "case"
    CARRY = "carry"
    WRAPPER = "wrapper"


class Fault(StrEnum):
    """What can be wrong with an answer, the one that hides the others first."""

    STOP = "stop"
    """It did not end by itself."""
    WRAPPER = "wrapper"
    """Not the JSON or the tags that were asked for, or unreadable."""
    LIST = "list"
    """A word that is not in the list, or one twice, or (where no number is asked for) one too few."""
    COUNT = "count"
    """Another number of words than asked for."""
    CASE = "case"
    WORD = "word"
    """The word to leave out is there, or the one to include is not."""
    CARRY = "carry"
    """The sum is wrong or missing."""


class Job(Record):
    """What one task asks for."""

    words: tuple[str, ...]
    """The list to choose from, in lower case, all different."""
    skill: Skill = "list"
    count: int | None = None
    """Exactly so many words; None asks for all of them."""
    exclude: str | None = None
    """A word of the list to leave out."""
    include: str | None = None
    """A word of the list that must be there. Never together with `exclude`."""
    upper: bool = False
    """Upper case; else the words as they stand."""
    addends: tuple[int, int] | None = None
    """Two numbers below 100 whose sum comes after the words."""
    wrapper: Wrapper = "plain"
    wording: int = 0
    """Which of the ways to say it."""

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """Those that are asked for."""
        asked = {
            Constraint.COUNT: self.count is not None,
            Constraint.WORD: self.exclude is not None or self.include is not None,
            Constraint.CASE: self.upper,
            Constraint.CARRY: self.addends is not None,
            Constraint.WRAPPER: self.wrapper != "plain",
        }
        return tuple(constraint for constraint, is_asked in asked.items() if is_asked)

    @property
    def text(self) -> str:
        """The task as a solver reads it."""
        said = WORDING[self.wording % len(WORDING)]
        listed = ", ".join(self.words)
        if self.skill != "list":
            return said[self.skill].format(words=listed)
        parts = [said["list"].format(words=listed)]
        if self.count is not None:
            parts.append(said["count"].format(count=self.count))
        if self.exclude is not None:
            parts.append(said["exclude"].format(word=self.exclude))
        if self.include is not None:
            parts.append(said["include"].format(word=self.include))
        if self.upper:
            parts.append(said["upper"])
        if self.addends is not None:
            parts.append(said["carry"].format(a=self.addends[0], b=self.addends[1]))
        if self.wrapper != "plain":
            parts.append(said[self.wrapper])
        return " ".join(parts)

    @property
    def ideal(self) -> str:
        """A right answer: the words in the order of the list, the included one first."""
        return self.wrapped(self.chosen(), None if self.addends is None else sum(self.addends))

    def chosen(self) -> tuple[str, ...]:
        """The words of the ideal answer, in the case that is asked for."""
        words = self.words
        if self.skill == "reverse":
            words = words[::-1]
        elif self.skill == "sort":
            words = tuple(sorted(words))
        if self.include is not None:
            words = (self.include, *(word for word in words if word != self.include))
        if self.exclude is not None:
            words = tuple(word for word in words if word != self.exclude)
        words = words if self.count is None else words[: self.count]
        return tuple(word.upper() for word in words) if self.upper else words

    def wrapped(self, words: tuple[str, ...], total: int | None) -> str:
        """Words and sum in the wrapper of this task."""
        if self.wrapper == "json":
            return json.dumps({"words": list(words)} | ({} if total is None else {"sum": total}))
        listed = ", ".join(words)
        if self.wrapper == "tags":
            return f"<words>{listed}</words>" + ("" if total is None else f" <sum>{total}</sum>")
        return listed if total is None else f"{listed}; {total}"
