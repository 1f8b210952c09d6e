"""The packages of the world: a bug template, a vocabulary and numbers, all drawn from the task."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from heldout.worlds.repair.draft import Domain, Draft, Draw, Mechanism, domains, phrases
from heldout.worlds.repair.families import FAMILIES, OOD_FAMILIES
from heldout.worlds.repair.fillers import fillers
from heldout.worlds.repair.package import Package
from heldout.worlds.repair.rendering import (
    FORMATTER,
    cached_original,
    check_program,
    hidden_tests,
    readme,
)

__all__ = ["Planted", "domain_of", "generate", "plant", "task_id"]

_ARTICLE = re.compile(r"\b(?P<a>[Aa])n?(?= (?!one\b|uni|use)(?P<word>\w+))")

_LOUD = 1 / 3
"""Share of packages whose failing `check.py` prints more than 6 KB."""


def task_id(family: str, number: int) -> str:
    """The id of a task, for example `repair-rounding-0017`."""
    return f"repair-{family}-{number:04d}"


def domain_of(*, seed: int, family: str, number: int) -> str:
    """What a task's package is about; says nothing about its bug."""
    return _combination(seed, family, number)[1].name


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug with its surroundings, before it is written out as files."""

    draft: Draft
    draw: Draw
    """Its random numbers go on where the draft left them."""
    lap: int
    """How often the combination of template and vocabulary came before."""


def plant(*, seed: int, family: str, number: int) -> Planted:
    """The bug of a task."""
    mechanism, domain, lap = _combination(seed, family, number)
    rng = random.Random(f"repair {seed} {family} {number}")
    draw = Draw(rng, domain, rng.choice(domain.packages))
    return Planted(mechanism(draw), draw, lap)


@lru_cache(maxsize=1024)
def generate(*, seed: int, family: str, number: int, nondeterminism: float) -> Package:
    """The package of a task. `nondeterminism` is the chance that it is flaky, and changes nothing else."""
    planted = plant(seed=seed, family=family, number=number)
    draft, draw = planted.draft, planted.draw
    flaky, loud = draw.rng.random() < nondeterminism, draw.rng.random() < _LOUD
    stem, other = draft.stems
    target, lookalike = f"{draw.package}/{stem}.py", f"{draw.package}/{other}.py"
    modules = {stem: draft.target.replace("$spot", draft.broken), other: draft.lookalike, **(draft.support or {})}
    modules |= fillers(draw, count=min(4 - len(modules), draw.number(0, 2)), taken=modules)
    files = {f"{draw.package}/{name}.py": text for name, text in sorted(modules.items())}
    files[f"{draw.package}/__init__.py"] = f'"""{draw.domain.items.capitalize()} by {draw.domain.group}."""\n'
    files["README.md"] = readme(draw.domain, package=draw.package, modules=list(modules))
    files["check.py"] = check_program(draft, package=draw.package, loud=(draw.domain, number) if loud else None)
    files["tools/format.py"] = FORMATTER
    if flaky:
        files[".format_cache/entries.json"] = cached_original(target, files[target])
    return Package(
        id=task_id(family, number),
        family=family,
        issue=_issue(planted),
        files=files,
        hidden={"tests/test_hidden.py": hidden_tests(draft, package=draw.package)},
        target=target,
        lookalike=lookalike,
        search=draft.search,
        broken=draft.broken,
        fixed=draft.fixed,
        partial=draft.partial,
        lookalike_line=draft.lookalike_line,
        lookalike_change=draft.lookalike_change,
        flaky=flaky,
        loud=loud,
        failure=_failure(draft, partial=False),
        partial_failure=_failure(draft, partial=True),
    )


@lru_cache(maxsize=64)
def _combinations(seed: int, family: str) -> tuple[tuple[Mechanism, Domain], ...]:
    """Every template with every vocabulary, in an order of the seed's."""
    found = list(product({**FAMILIES, **OOD_FAMILIES}[family], domains()))
    random.Random(f"repair {seed} {family}").shuffle(found)
    return tuple(found)


def _combination(seed: int, family: str, number: int) -> tuple[Mechanism, Domain, int]:
    """Template and vocabulary of a task. All combinations come once before any comes again, which is the next lap."""
    combinations = _combinations(seed, family)
    lap, place = divmod(number, len(combinations))
    return (*combinations[place], lap)


def _failure(draft: Draft, *, partial: bool) -> str:
    for case in draft.visible:
        kind = case.partial if partial else case.broken
        if kind:
            return f"AssertionError: {case.label}" if kind == "AssertionError" else kind
    raise ValueError(f"no visible check of {draft.stems[0]!r} fails")


def _issue(planted: Planted) -> str:
    """Opening, symptom, example, remark and closing; another lap of a combination has another symptom and remark."""
    draft, draw, lap, said = planted.draft, planted.draw, planted.lap, phrases()
    slots = {
        "person": draw.rng.choice(draw.domain.people),
        "tool": draw.domain.tool,
        "input": draft.example.given,
        "expected": draft.example.expected,
        "got": draft.example.got,
    }
    place = sum(map(ord, draw.domain.name)) + lap
    parts = [
        draw.rng.choice(said["openings"]).format(**slots),
        draft.symptoms[place % len(draft.symptoms)],
        said["examples"][draw.rng.randrange(len(said["examples"]))].format(**slots),
        draft.remarks[(place + lap) % len(draft.remarks)],
        draw.rng.choice(said["closings"]),
    ]
    return _ARTICLE.sub(_article, "\n".join((" ".join(parts[:2]), parts[2], " ".join(parts[3:]))))


def _article(found: re.Match[str]) -> str:
    """The article that the word after it asks for."""
    return found["a"] + ("n" if found["word"][0].casefold() in "aeiou" else "")
