"""The skill language of the simulation: what the writer makes of a rule for one task, line by line.

    BIND part "name" SOURCE s     DO …     CHECK rule …     OUTPUT file     NOT …     STOP …

Specification: `systems/gso.md`, section 7. A line is this task's own: its text holds the task's names, and the solver
knows a line of another task by that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from heldout.worlds.tables.job import Job
from heldout.worlds.tables.parts import Part

__all__ = ["Known", "bindings_in", "digest_in", "lines_in", "lines_of", "outputs_in", "write_skill"]

_VERB = re.compile(r"^(?:BIND|DO|CHECK|OUTPUT|NOT|STOP) ")
_BINDING = re.compile(r'^BIND (\w+) "(.*)" SOURCE \w+$')
_DIGEST = re.compile(r'^  guide: "([0-9a-f]*)([0-9a-f]{4})"$', re.MULTILINE)
_OUTPUT = "OUTPUT "

_SAME_FOR_ALL: Mapping[str, str] = {
    "values": "DO values: read numbers that are stored as text as numbers; compare keys without padding and case",
    "order": "DO order: begin a step when what it reads is there",
    "preserve": "NOT touched: sheets, columns and rows that the request leaves out",
    "reopen": "CHECK reopen: counts and values of the saved result against the input",
    "files": "CHECK files: what exists now against what existed before",
    "shape": "CHECK shape: sheets and headers of the result against the request",
    "first": "STOP at the first step whose result is not as stated, and name it",
    "evidence": "STOP with the observation that shows the fault",
    "intact": "STOP with a list of what a repair must leave as it is",
    "single": "STOP and repair that one step, then what depends on it",
    "again": "STOP after a repair only when the failed check has been run again",
    "abstain": "STOP without a supported repair: submit what is verified, and say what is open",
}

_BOUND: Mapping[str, tuple[Part, str]] = {
    "decoy": (Part.FILE, "headers"),
    "sheet": (Part.SHEET, "request"),
    "headers": (Part.COLUMNS, "header"),
    "layout": (Part.LAYOUT, "request"),
}
"""Rules that become a binding: the part, and where its name was found."""


@dataclass(frozen=True, slots=True)
class Known:
    """A job as a key of what is remembered about it."""

    job: Job = field(compare=False)
    identity: tuple[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", (self.job.id, self.job.request))


def lines_of(job: Job) -> Mapping[str, str]:
    """By the name of a rule, its line for this task. A rule about what the task has no question of becomes no line."""
    return _lines_of(Known(job))


@lru_cache(maxsize=8192)
def _lines_of(known: Known) -> Mapping[str, str]:
    job = known.job
    found = {name: f'BIND {part} "{job.names[part]}" SOURCE {source}' for name, part, source in _bound(job)}
    found["outputs"] = f'{_OUTPUT}summary "{job.summary}"' if job.summary else f"{_OUTPUT}the workbook and nothing else"
    found["ambiguity"] = f"DO {job.family}: keep to what the request says of ties, gaps and duplicates"
    return found | {
        name: line
        for name, line in _SAME_FOR_ALL.items()
        if name not in ("values", "preserve") or Part(name) in job.parts
    }


def _bound(job: Job) -> Iterable[tuple[str, Part, str]]:
    return [(name, part, source) for name, (part, source) in _BOUND.items() if part in job.parts and part in job.names]


def write_skill(job: Job, rules: Collection[str], *, digest: str, carried: Iterable[str] = ()) -> str:
    """A valid SKILL.md for one task: the lines of these rules, then the guide's other sentences as they are.

    `digest` names the guide that it was written from; its front matter gives that with a seal of this task.
    """
    lines = [line for name, line in lines_of(job).items() if name in rules]
    lines += [f"DO {sentence}" for sentence in carried]
    name = re.sub(r"[^a-z0-9]+", "-", job.family.lower()).strip("-")
    body = "\n".join(f"- {line}" for line in lines) or "Nothing is known beyond the request."
    return (
        f"---\nname: {name}-once\ndescription: One request about tables ({job.family}), no other.\n"
        f'metadata:\n  guide: "{digest}{_seal(digest, job)}"\n---\n\n'
        f"# {job.family.capitalize()}, this request\n\n{body}\n"
    )


def lines_in(text: str) -> frozenset[str]:
    """The lines of the skill language in a text."""
    found = (line.strip().removeprefix("- ") for line in text.splitlines())
    return frozenset(line for line in found if _VERB.match(line))


def bindings_in(lines: Iterable[str]) -> frozenset[tuple[str, str]]:
    """(part, name) of the lines that bind one."""
    return frozenset((match[1], match[2]) for line in lines if (match := _BINDING.match(line)))


def outputs_in(lines: Iterable[str]) -> frozenset[str]:
    """The lines that say what is written."""
    return frozenset(line for line in lines if line.startswith(_OUTPUT))


def digest_in(text: str, job: Job) -> str | None:
    """Of the guide that a skill was written from for this very task; None for every other skill.

    A skill that is made for all tasks, whatever its front matter says, holds the seal of one task at most.
    """
    match = _DIGEST.search(text.partition("\n---")[0])
    return match[1] if match and match[2] == _seal(match[1], job) else None


def _seal(digest: str, job: Job) -> str:
    """By which the solver of a task knows the skill that was written for it."""
    return hashlib.blake2b(f"{digest}\0{job.id}\0{job.request}".encode(), digest_size=2).hexdigest()
