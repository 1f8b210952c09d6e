"""Grades answers to IFEval's prompts by the rules that each prompt states; strict as published, or loose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heldout.benchmarks.ifeval_rules import Rule, read_rule
from heldout.records import Record
from heldout.tasks.graders import CUT

__all__ = ["IfevalGrader", "IfevalReference", "Instruction", "grade_ifeval"]


class Instruction(Record):
    """One instruction as published."""

    id: str
    arguments: Mapping[str, Any] = {}


class IfevalReference(Record):
    """What an answer is graded by. It holds no answer: there are many, and none is published."""

    instructions: tuple[Instruction, ...]
    loose: bool = False
    """Whether an answer may follow an instruction without its first line, its last one or its stars."""
    share: bool = False
    """Score: the share of the instructions that are followed, and not whether all are."""


@dataclass(frozen=True, slots=True)
class IfevalGrader:
    """1 where every instruction of the prompt is followed, else 0; with `share`, the share that is.

    Strict: the answer as it is. Loose (section 2.2 of the paper): any of eight versions of it, which are the answer,
    and the answer without its first line, its last line, or both, each with and without its stars. A blank version
    follows nothing. The mark of an answer that was cut is no part of it.
    """

    def __call__(self, answer: str | None, reference: str) -> float:
        """Score of an answer."""
        spec = IfevalReference.model_validate_json(reference)
        followed = [not said for said in _complaints(answer, spec).values()]
        return float(all(followed)) if not spec.share else sum(followed) / len(followed)

    def verdicts(self, answer: str | None, reference: str) -> tuple[bool, ...]:
        """Whether each instruction is followed, in the order of the prompt."""
        return tuple(not said for said in _complaints(answer, IfevalReference.model_validate_json(reference)).values())

    def faults(self, answer: str | None, reference: str) -> tuple[str, ...]:
        """Ids of the instructions that are not followed; before them `stop` where the answer was cut."""
        said = _complaints(answer, IfevalReference.model_validate_json(reference))
        broken = dict.fromkeys(name for (_, name), complaint in said.items() if complaint)
        if not _bare(answer).strip():
            return ("no answer",)
        return (*(("stop",) if _was_cut(answer) and broken else ()), *broken)

    def explain(self, answer: str | None, reference: str) -> str:
        """One line for each instruction that is not followed."""
        said = _complaints(answer, IfevalReference.model_validate_json(reference))
        return "\n".join(f"{name}: {complaint}" for (_, name), complaint in said.items() if complaint)


grade_ifeval = IfevalGrader()
"""The grader `ifeval`."""


def _complaints(answer: str | None, spec: IfevalReference) -> dict[tuple[int, str], str]:
    """Place and id of every instruction to what is not followed of it."""
    text = _bare(answer)
    versions = _versions(text) if spec.loose else (text,)
    return {
        (at, one.id): _complaint(read_rule(one.id, one.arguments), versions) for at, one in enumerate(spec.instructions)
    }


def _complaint(rule: Rule, versions: tuple[str, ...]) -> str:
    """What the first version that is not blank does not follow; empty where one of them follows the rule."""
    first = ""
    for version in versions:
        if version.strip():
            said = rule.complaint(version)
            if not said:
                return ""
            first = first or said
    return first or "the answer is blank"


def _versions(text: str) -> tuple[str, ...]:
    lines = text.split("\n")
    cut = (text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])))
    return (*cut, *(version.replace("*", "") for version in cut))


def _bare(answer: str | None) -> str:
    return (answer or "").removesuffix(CUT)


def _was_cut(answer: str | None) -> bool:
    return (answer or "").endswith(CUT)
