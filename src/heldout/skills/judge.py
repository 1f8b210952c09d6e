"""The rule-based judge of finished texts: it needs no model, and sees only what can be counted in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from heldout.models import Model
from heldout.records import Candidate, Spend
from heldout.skills.guide import SECTIONS
from heldout.skills.modules import MODULES, SKILL_FILE
from heldout.skills.rubric import HIGHEST, LOWEST, Finding, Judge, judged_text, nothing_judged, verdict_of
from heldout.skills.text_marks import CAPPING, Mark, marks, sentences
from heldout.store.skill_events import Judged

__all__ = ["RuleJudge", "make_judge"]

_LONG_WORDS = 1500
_SHORT_WORDS = 60
_LONG_SENTENCE = 30
"""Mean words of a sentence above which a text is hard to follow."""

_ENOUGH: Mapping[str, Mapping[str, tuple[float, int]]] = {
    "generalizability": {"tied": (0.6, 24), "open": (0.4, 10)},
    "applicability": {"source": (0.4, 28), "open": (0.3, 10), "tied": (0.3, 28)},
    "executability": {"check": (0.4, 16), "step": (0.3, 20), "output": (0.3, 14)},
    "robustness": {"fault": (0.25, 14), "bounded": (0.25, 5), "abstain": (0.25, 5), "preserve": (0.25, 7)},
}
"""Criterion to its merits: the share of the scale, and the sentences of a guide at which a merit counts in full."""

_SKILL_SHARE = 0.25
"""A skill says how one kind of task is done, where a guide says how skills are written: so much less is enough."""

_COSTS: Mapping[str, Mapping[str, float]] = {
    "generalizability": {"literal": 1.0, "id": 1.0, "layout": 0.75, "grader": 2.0, "absolute": 0.75, "number": 0.2},
    "applicability": {"absolute": 0.5, "literal": 0.5},
    "executability": {"unchecked": 1.0},
    "robustness": {"reckless": 1.0, "unchecked": 0.5},
}
"""Criterion to what one sentence with a fault takes off."""

_MOST_COUNTED = 4
"""Sentences of one fault that are counted; beyond that a text is as bad as it gets."""

_NAMES: Mapping[str, str] = {
    "literal": "a fixed name",
    "id": "an id",
    "layout": "a fixed layout",
    "grader": "the grader",
    "absolute": "a rule without a condition",
    "number": "a bare number",
    "unchecked": "a result that is left unchecked",
    "reckless": "repair without a bound",
    "source": "sources and evidence",
    "open": "what stays open",
    "tied": "conditions and the request",
    "output": "outputs",
    "step": "steps",
    "check": "checks",
    "fault": "faults",
    "bounded": "the bound of a repair",
    "abstain": "when to stop",
    "preserve": "what must stay",
}


def make_judge(model: Model | None = None) -> Judge:
    """The rules, or a model with the same rubric."""
    if model is None:
        return RuleJudge()
    from heldout.skills.judge_llm import LlmJudge

    return LlmJudge(model)


@dataclass(frozen=True, slots=True)
class RuleJudge:
    """Scores a text by its marks (`text_marks`): merits raise a criterion up to a number of sentences, faults lower it.

    The numbers are our own choice. It reads no meaning: a wrong rule in good words passes, which is what the study of
    content judges needs it for. Same text, same verdict.
    """

    name: ClassVar[str] = "rules"

    def bound(self, candidate: Candidate) -> Spend:  # noqa: ARG002 - it asks nobody
        return Spend()

    def judge(self, candidate: Candidate) -> Judged:
        """The verdict on a guide or a skill."""
        text = judged_text(candidate)
        found = sentences(text)
        if not found:
            return nothing_judged(candidate, self.name, "there is no text to judge: the candidate has no skill")
        seen = marks(found)
        shape = _Shape(_form(candidate), _SKILL_SHARE if SKILL_FILE in candidate.files else 1.0)
        findings = {name: _finding(name, seen, shape) for name in _ENOUGH}
        findings["clarity"] = _clarity(text, found)
        return verdict_of(candidate, self.name, findings, capped=_capped(seen))


@dataclass(frozen=True, slots=True)
class _Shape:
    """What kind of text it is."""

    form: float
    """How much of the form of its kind it has, 0 to 1."""
    size: float
    """How much of a merit is enough, against a guide."""

    def enough(self, criterion: str) -> dict[str, float]:
        return {kind: max(1.0, self.size * count) for kind, (_, count) in _ENOUGH[criterion].items()}


def _finding(criterion: str, seen: Mapping[str, tuple[Mark, ...]], shape: _Shape) -> Finding:
    enough = shape.enough(criterion)
    share = sum(part * min(1.0, len(seen[kind]) / enough[kind]) for kind, (part, _) in _ENOUGH[criterion].items())
    if criterion == "applicability":
        share = 0.8 * share + 0.2 * shape.form
    faults = {kind: cost for kind, cost in _COSTS[criterion].items() if seen[kind]}
    lost = sum(cost * min(_MOST_COUNTED, len(seen[kind])) for kind, cost in faults.items())
    score = max(LOWEST, round(LOWEST + (HIGHEST - LOWEST) * share - lost, 2))
    if faults:
        worst = max(faults, key=lambda kind: faults[kind] * len(seen[kind]))
        count = len(seen[worst])
        shown = f"{count} sentences make" if count > 1 else "One sentence makes"
        return Finding(score, seen[worst][0].sentence, f"{shown} a rule of {_NAMES[worst]}: {seen[worst][0].hit}.")
    return _praise(seen, score, enough)


def _praise(seen: Mapping[str, tuple[Mark, ...]], score: float, enough: Mapping[str, float]) -> Finding:
    """A finding without a fault: its weakest merit is named, and its strongest quoted."""
    by_share = sorted(enough, key=lambda kind: min(1.0, len(seen[kind]) / enough[kind]))
    weakest, strongest = by_share[0], by_share[-1]
    excerpt = seen[strongest][0].sentence if seen[strongest] else ""
    if len(seen[weakest]) >= enough[weakest]:
        return Finding(score, excerpt, f"It says enough of {' and '.join(_NAMES[kind] for kind in enough)}.")
    count = len(seen[weakest])
    said = (
        f"Only {count} of its sentences speak" if count > 1 else "Only one sentence speaks" if count else "None speaks"
    )
    return Finding(score, excerpt, f"{said} of {_NAMES[weakest]}.")


def _capped(seen: Mapping[str, tuple[Mark, ...]]) -> str:
    """Why generalizability is capped: the first fault of each capping kind."""
    return "; ".join(f"{_NAMES[kind]} as a rule: {seen[kind][0].hit}" for kind in CAPPING if seen[kind])


def _form(candidate: Candidate) -> float:
    """How much of the form of its kind a text has: the four sections of each module, or a skill's description."""
    skill = candidate.files.get(SKILL_FILE)
    if skill is not None:
        described = any(line.startswith("description:") and len(line) > 40 for line in skill.splitlines())
        return 0.5 * described + 0.5 * (skill.count("\n## ") + skill.count("\n# ") >= 2)
    texts = [candidate.files.get(name, "") for name in MODULES]
    return sum(f"## {section}" in text for text in texts for section in SECTIONS) / (len(texts) * len(SECTIONS))


def _clarity(text: str, found: Sequence[str]) -> Finding:
    """Length, headings, lists, the length of sentences, and what is said twice."""
    words = sum(len(sentence.split()) for sentence in found)
    longest = max(found, key=len)
    plain = [" ".join(sentence.casefold().split()) for sentence in found]
    twice = next((sentence for at, sentence in enumerate(found) if plain[at] in plain[:at]), "")
    complaints = [
        (min(2.0, (words - _LONG_WORDS) / 1000), longest, f"It has {words} words, more than {_LONG_WORDS}."),
        (2.0 if words < _SHORT_WORDS else 0.0, found[0], f"It has {words} words, fewer than {_SHORT_WORDS}."),
        (1.0 if words > _LONG_SENTENCE * len(found) else 0.0, longest, "Its sentences are long."),
        (0.5 if twice else 0.0, twice, "It says a sentence twice."),
        (0.5 if "\n#" not in f"\n{text}" else 0.0, found[0], "It has no headings."),
        (0.5 if "\n- " not in text and "\n1. " not in text else 0.0, longest, "It has no list."),
    ]
    real = [one for one in complaints if one[0] > 0.0]
    if not real:
        return Finding(HIGHEST, found[0], f"It has {words} words under headings, and no sentence stands twice.")
    _, excerpt, reason = max(real, key=lambda one: one[0])
    return Finding(max(LOWEST, round(HIGHEST - sum(lost for lost, _, _ in real), 2)), excerpt, reason)
