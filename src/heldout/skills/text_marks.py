"""What can be seen in the texts of a guide or a skill without understanding them: fixed names, rules, checks, and what
no text should hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["CAPPING", "FAULTS", "MERITS", "Mark", "control_character", "marks", "sentences"]

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "literal": r"""“[^”\n]{1,60}”|"[^"\n]{1,60}"|(?<!\w)'[^'\n]{2,60}'(?!\w)"""
        r"|`[^`\n]*(?:[/\\]|\.\w{2,5}(?!\w))[^`\n]*`"
        r"|(?<![\w*.])[\w-]+\.(?:xlsx?|xlsm|csv|tsv|json|txt|pdf|docx|parquet|sqlite|db)\b"
        r"|(?<![\w/])(?:~|[A-Za-z]:|/[\w.-]+)(?:[/\\][\w.-]*\w)+",
        "id": r"\b[A-Za-z]+[-_]\d{2,}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{10,}\b"
        r"|\b\d{5,}\b",
        "layout": r"(?i:\b(?:first|second|third|last|leftmost|rightmost|\d+(?:st|nd|rd|th)) "
        r"(?:sheet|worksheet|tab|column|row|line|file)\b)|\b(?i:sheet|column|row|line) (?:\d+|[A-Z])\b"
        r"|\b(?i:cells?|range) [A-Z]{1,3}\d+|\b[A-Z]{1,3}\d+:[A-Z]{1,3}\d+\b",
        "grader": r"(?i:\b(?:graders?|grading|hidden (?:tests?|checks?|cases?)|gold (?:files?|answers?|outputs?)"
        r"|leaderboard|reference (?:answers?|solutions?)|scoring script|test suite expects|benchmark)\b)",
        "absolute": r"(?i:\b(?:always|every time|in every case|in all cases|for every task|no matter|regardless)\b"
        r"|\bnever\b(?! (?:a|an|the|be|assume|guess|invent|encode|hard-?code|copy|overwrite|rely|claim|report|skip"
        r"|state|treat)))",
        "number": r"(?<![\w.:-])\d{2,4}(?![\w.:-])",
        "unchecked": r"(?i:\b(?:needs? no (?:check|validation|test)|no need to (?:check|verify|test)"
        r"|without (?:a check|checking|verifying)|skip (?:the |every |all )?(?:checks?|validation))\b)",
        "reckless": r"(?i:\b(?:(?:change|try|edit|do) (?:whatever|anything)|keep (?:trying|changing)"
        r"|until (?:it|the output|something) (?:works|passes|looks|changes)|as often as)\b)",
    }
)
"""Name of a fault to what shows it."""

CAPPING = ("literal", "id", "layout", "grader")
"""Faults that cap generalizability where they stand in a rule."""

MERITS: Mapping[str, str] = MappingProxyType(
    {
        "source": r"\b(?:source|evidence|support\w*|was read|were read|observ\w+|inspect\w*|look at|header"
        r"|documentation)\b",
        "open": r"\b(?:unknowns?|uncertain\w*|ambigu\w+|unclear|stays? open|left open|leaves open|open bindings|ties"
        r"|gaps|could be meant|conflicts?)\b",
        "tied": r"\b(?:the request|the task|asked for|if|where|when|unless|each|depends?)\b",
        "output": r"\b(?:outputs?|result goes|contract|deliver\w*|artifacts?|wanted layout)\b",
        "step": r"\b(?:steps?|procedure|order in which|plan|before|then|after)\b",
        "check": r"\b(?:reopen|compare|verif\w+|check\w*|validat\w+|assert|run again|counts)\b",
        "fault": r"\b(?:fault\w*|first step whose|differs? from|mechanism|first wrong)\b",
        "bounded": r"\b(?:one repair|single repair|at most one|one faulty|bounded|once|only the steps)\b",
        "abstain": r"\b(?:abstain\w*|abstention|without a result|what is (?:verified|open)|stops?|give up)\b",
        "preserve": r"\b(?:unchanged|touch nothing|must stay|preserve\w*|as they are|leave .{0,20}alone|not done)\b",
    }
)
"""Name of a merit to what shows it."""

_NEGATION = r"\b(?:never|not|no|nor|none|without|avoid|cannot|instead of|rather than)\b|n't\b"
_NO_RULE = re.compile(rf"{_NEGATION}|\b(?:for example|e\.g\.|such as)", re.IGNORECASE)
_NO_PLACE = re.compile(r"\b(?:have|has) no place\b", re.IGNORECASE)
_CONDITION = re.compile(r"\b(?:if|when|where|unless|only|asked|the request|as needed)\b", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_MARKER = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`\"“])")


_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What moves a terminal's cursor, or the order in which letters are shown: whoever reads such a text is shown another
one than an agent is."""


def control_character(text: str) -> str:
    """The first control character of a text, as `U+001B`; empty where it holds none but tabs and line ends."""
    found = _CONTROL.search(text)
    return "" if found is None else f"U+{ord(found[0]):04X}"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something seen in a sentence."""

    kind: str
    sentence: str
    hit: str


def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a Markdown text, without front matter, headings, fences and list markers."""
    found: list[str] = []
    for line in _FRONT_MATTER.sub("", text).splitlines():
        plain = _MARKER.sub("", line).strip()
        if plain and not plain.startswith(("#", "```", "---")):
            found += (part.strip() for part in _SENTENCE.split(plain))
    return tuple(found)


def marks(given: Sequence[str]) -> dict[str, tuple[Mark, ...]]:
    """Every fault and merit, in the order of the sentences; one of a kind in a sentence.

    A name, a layout or a grader that a sentence forbids, or gives as an example, is no rule. An absolute rule with a
    condition is none either. A sentence with a fault, a bare number aside, has no merits.
    """
    found: dict[str, list[Mark]] = {kind: [] for kind in (*FAULTS, *MERITS)}
    for sentence in given:
        faults = [mark for kind, pattern in FAULTS.items() if (mark := _fault(kind, pattern, sentence))]
        spoilt = any(mark.kind != "number" for mark in faults)
        merits = [mark for kind, pattern in MERITS.items() if not spoilt and (mark := _merit(kind, pattern, sentence))]
        for mark in (*faults, *merits):
            found[mark.kind].append(mark)
    return {kind: tuple(those) for kind, those in found.items()}


def _merit(kind: str, pattern: str, sentence: str) -> Mark | None:
    hit = re.search(pattern, sentence, re.IGNORECASE)
    return None if hit is None else Mark(kind, sentence, hit[0])


def _fault(kind: str, pattern: str, sentence: str) -> Mark | None:
    for hit in re.finditer(pattern, sentence):
        if kind == "absolute" and _CONDITION.search(sentence):
            continue
        if kind in (*CAPPING, "number") and (_NO_RULE.search(sentence[: hit.start()]) or _NO_PLACE.search(sentence)):
            continue
        return Mark(kind, sentence, hit[0])
    return None
