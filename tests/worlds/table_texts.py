"""Guides, skills and hand-made jobs for the tests of the simulated worker."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heldout.skills.guide import start_guide
from heldout.worlds.tables.job import Job, Origin
from heldout.worlds.tables.parts import RULES, Part

__all__ = ["ALWAYS", "EVERY_RULE", "NONE", "START_RULES", "full_guide", "guide_with", "guide_without", "job", "skill"]

NONE: Mapping[str, str] = {"NO_SKILL.md": "No skill.\n"}
START_RULES = tuple(rule.name for rule in RULES if rule.start)
EVERY_RULE = tuple(rule.name for rule in RULES)
ALWAYS = "Always write a summary file beside the workbook."


def guide_with(*sentences: str, module: str = "m1_task.md") -> dict[str, str]:
    """The start guide with further sentences in the policy of one module."""
    added = "".join(f"- {sentence}\n" for sentence in sentences)
    files = dict(start_guide())
    return files | {module: files[module].replace("## Policy\n\n", f"## Policy\n\n{added}")}


def full_guide() -> dict[str, str]:
    """With every rule."""
    files = dict(start_guide())
    for rule in RULES:
        if not rule.start:
            files[rule.module] = files[rule.module].replace("## Policy\n\n", f"## Policy\n\n- {rule.text}\n")
    return files


def guide_without(names: Collection[str]) -> dict[str, str]:
    """The start guide without some of its rules."""
    texts = [rule.text for rule in RULES if rule.name in names]
    lines = {name: text.splitlines(keepends=True) for name, text in start_guide().items()}
    return {
        name: "".join(line for line in kept if line.strip().removeprefix("- ") not in texts)
        for name, kept in lines.items()
    }


def skill(rules: Collection[str], *sentences: str) -> dict[str, str]:
    """One skill for all tasks."""
    lines = [rule.text for rule in RULES if rule.name in rules]
    body = "".join(f"- {line}\n" for line in (*lines, *sentences))
    return {"SKILL.md": f"---\nname: tables\ndescription: How to work on tables.\n---\n\n{body}"}


def job(
    *parts: Part,
    number: int = 0,
    steps: int = 2,
    summary: str | None = None,
    names: Mapping[Part, str] | None = None,
    family: str = "filter",
) -> Job:
    """A job of which only the decisions matter; STEPS is added. As in the world, another job has another request."""
    told = ", ".join((*parts, *(names or {}).values(), str(summary), str(steps)))
    return Job(
        id=f"made-{number}",
        family=family,
        request=f"Request {number}: {family} with {told}.",
        files={},
        parts=(*parts, Part.STEPS),
        steps=steps,
        names=names or {},
        literals=(),
        summary=summary,
        decoy=Part.FILE in parts,
        origin=Origin(seed=0, family=family, number=number, vocabulary="A"),
    )
