"""docs/config.md has every table of options that a built-in takes, with words for every key."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = (ROOT / "docs" / "config.md").read_text(encoding="utf-8").split("# Options of the built-ins", 1)[1]


def option_models() -> Iterator[tuple[str, ast.ClassDef]]:
    """Every `…Options` record in the source, by its file."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Options") and node.name != "NoOptions":
                yield f"{path.name}:{node.name}", node


def fields(node: ast.ClassDef) -> set[str]:
    """Names of the annotated fields of a class."""
    targets = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def all_fields(node: ast.ClassDef, by_class: Mapping[str, ast.ClassDef]) -> set[str]:
    """Those of the records that it inherits from included."""
    bases = [by_class[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in by_class]
    return fields(node).union(*(all_fields(base, by_class) for base in bases))


def rows(text: str) -> list[tuple[str, str]]:
    """Key and words of each row of the tables in this text."""
    return re.findall(r"^\| `(\w+)` \| .+ \| .+ \| (.*) \|$", text, re.MULTILINE)


def test_every_option_of_every_built_in_is_in_the_page() -> None:
    known = [{name for name, _ in rows(section)} for section in OPTIONS.split("\n## ")[1:]]
    models = dict(option_models())
    assert len(models) > 15
    by_class = {node.name: node for node in models.values()}
    inherited = {base.id for node in models.values() for base in node.bases if isinstance(base, ast.Name)}
    for name, node in models.items():
        if node.name in inherited and node.name not in ("ToolLoopOptions", "DraftedOptions"):
            continue  # only what is made of it is an option table of its own
        missing = f"{name} is not in docs/config.md: add it to OPTIONS in docs/generate.py"
        assert all_fields(node, by_class) in known, missing


def test_every_option_has_words() -> None:
    told = [row for section in OPTIONS.split("\n## ")[1:] for row in rows(section)]
    assert len(told) > 80
    assert [name for name, words in told if not words.endswith(".")] == []
