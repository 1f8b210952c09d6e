"""The line in which the catalogue improver writes down what it did, so that it can read it again after the round.

An `Evidence` names a draft by its digest only; this line says which entries of the catalogue that was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["LabNote", "read_note"]

_SUBMITTED = re.compile(r"; submitted ([\w+-]+)")
_TRIED = re.compile(r"(-?\d+/-?\d+/\d+)=([\w+-]+)")
_ASIDE = re.compile(r"; set aside ([\w -]+)")


@dataclass(frozen=True, slots=True)
class LabNote:
    """What one episode submitted, tried and set aside, by names of entries."""

    why: str = ""
    """For a person."""
    submitted: tuple[str, ...] = ()
    tried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Evidence id to the entries of the draft that it tested."""
    aside: tuple[str, ...] = ()
    """Entries that a repair has given up."""

    def text(self) -> str:
        """One line."""
        parts = [f"simulation of an improver: {_plain(self.why)}"]
        if self.submitted:
            parts.append(f"submitted {'+'.join(self.submitted)}")
        if self.tried:
            parts.append("tried " + " ".join(f"{found}={'+'.join(names)}" for found, names in self.tried.items()))
        if self.aside:
            parts.append(f"set aside {' '.join(self.aside)}")
        return "; ".join(parts)


def read_note(text: str) -> LabNote:
    """The note that a line holds; empty where it is not one of ours."""
    submitted = _SUBMITTED.search(text)
    aside = _ASIDE.search(text)
    return LabNote(
        submitted=tuple(submitted[1].split("+")) if submitted else (),
        tried={found: tuple(names.split("+")) for found, names in _TRIED.findall(text)},
        aside=tuple(aside[1].split()) if aside else (),
    )


def _plain(text: str) -> str:
    """A sentence that cannot be taken for one of the other parts."""
    return re.sub(r"[;=\s]+", " ", text).strip()
