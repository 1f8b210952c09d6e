"""Hashes of what an attempt must not change: grader, template, division, harness and limits, evaluator, gates, checks.

Every digest is over what lies on disk at that moment, so that a training job, a data builder or a script that wrote to
one of these files is found by the comparison after the attempt.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import json
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import heldout
from heldout import registry
from heldout.errors import StoreError
from heldout.records import digest_of
from heldout.sandbox.syntax import syntax_tree
from heldout.store.training_events import TrustedHash
from heldout.tasks.sources import SOURCES
from heldout.tasks.taskset import TaskSet
from heldout.training.plain_tokenizer import tokenizer_folder

__all__ = ["PARTS", "TrustedParts", "changed_parts", "trusted_digests", "trusted_hash"]

PARTS: Mapping[str, tuple[str, ...]] = {
    "grader": ("tasks/graders.py", "worlds", "benchmarks"),
    "division": ("tasks",),
    "evaluator": (
        "errors.py",
        "records.py",
        "registry.py",
        "ledger.py",
        "store",
        "sandbox",
        "models",
        "harness",
        "rollouts",
    ),
    "gate": ("stats", "gates", "audit"),
    "checks": ("training",),
}
"""Files of Heldout itself behind each trusted part."""

_SOURCE = (".py", ".toml")
_TEMPLATE_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
_PASSING = ("truncation", "padding", "transformers_version", "name_or_path")


@dataclass(frozen=True, slots=True)
class TrustedParts:
    """What is hashed before and after an attempt."""

    tasks: TaskSet
    plug_ins: tuple[object, ...] = ()
    """Harness, gate, model: objects whose own source counts, where it is not Heldout's."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the evaluation, as JSON: most tokens, temperature, repeats, fingerprint of the harness."""
    package: Path = Path(heldout.__file__).parent
    """Folder of Heldout's source."""


def trusted_hash(
    parts: TrustedParts,
    weights: Path,
    *,
    round: int,
    moment: Literal["before", "after"],
    before: TrustedHash | None = None,
) -> TrustedHash:
    """The event: digests of all parts, and the names of those that differ from the event `before` the attempt.

    `weights` is the folder whose template evaluation reads: before an attempt the parent's, after it the child's (the
    parent's, where there is no child).
    """
    digests = trusted_digests(parts, weights)
    changed = () if before is None else changed_parts(before.digests, digests)
    return TrustedHash(round=round, moment=moment, digests=digests, changed=changed)


def trusted_digests(parts: TrustedParts, weights: Path) -> Mapping[str, str]:
    """Digest of each trusted part by name, from what lies on disk now; `StoreError` where a part cannot be read."""
    tasks, package = parts.tasks, parts.package
    source = registry.load(tasks.config.source, among=SOURCES, what="task source")
    own = {name: _digest_of_files(package, _below(package, files)) for name, files in PARTS.items()}
    division = [own["division"], tasks.plan_digest, _plug_in(source, package), _data_digest(tasks.config.path)]
    return {
        "grader": digest_of([own["grader"], _plug_in(tasks.grader.function, package)]),
        "template": _template_digest(tokenizer_folder(weights)),
        "division": digest_of(division),
        "limits": digest_of(dict(parts.limits)),
        "evaluator": digest_of([own["evaluator"], *(_plug_in(one, package) for one in parts.plug_ins)]),
        "gate": own["gate"],
        "checks": own["checks"],
    }


def changed_parts(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the parts that differ, or that only one side has."""
    return tuple(sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)))


def _below(package: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        path = package / name
        found = [path] if path.is_file() else path.rglob("*")
        yield from (file for file in found if file.is_file() and file.suffix in _SOURCE)


def _digest_of_files(root: Path, files: Iterable[Path]) -> str:
    """Of names (relative to `root`) and contents."""
    return digest_of({file.relative_to(root).as_posix(): _digest(file) for file in files})


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as cause:
        raise StoreError(f"the trusted file {str(file)!r} cannot be read: {cause.strerror}") from cause


def _template_digest(weights: Path) -> str:
    """Of the tokenizer, the chat template and where generation stops."""
    found = {name: _template_part(weights / name) for name in _TEMPLATE_FILES if (weights / name).is_file()}
    return digest_of(found)


def _template_part(file: Path) -> Any:
    """What a file says, but for how it is laid out and for the padding of the batch that it last saw."""
    try:
        text = file.read_bytes().decode(errors="replace")
    except OSError as cause:
        raise StoreError(f"the trusted file {str(file)!r} cannot be read: {cause.strerror}") from cause
    try:
        said = json.loads(text) if file.suffix == ".json" else text
    except ValueError:
        return text
    return {key: value for key, value in said.items() if key not in _PASSING} if isinstance(said, dict) else said


def _data_digest(path: str | None) -> str:
    """Of the file or folder that the task source reads."""
    if path is None:
        return ""
    root = Path(path)
    if root.is_file():
        return _digest(root)
    files = (file for file in sorted(root.rglob("*")) if file.is_file() and ".git" not in file.parts)
    return _digest_of_files(root, files)


def _plug_in(part: object, package: Path) -> str:
    """Digest of the source of a part of the user's own, with what it imports from beside it; empty for Heldout's."""
    while isinstance(part, functools.partial):
        part = part.func
    owner = part if inspect.isroutine(part) or inspect.isclass(part) else type(part)
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__.partition(".")[0] == heldout.__name__:
        return ""
    path, name = Path(file).resolve(), module.__name__
    if path.is_relative_to(package.resolve()) or name == "__main__":
        return _digest(path)
    top = path.parents[name.count(".") + (path.name == "__init__.py")]
    return _digest_of_files(top, _with_imports(name, top) or [path])


def _with_imports(name: str, top: Path) -> list[Path]:
    """The source file of a module below `top`, and those of the modules that it imports from there.

    Of an installed package only its own modules count.
    """
    installed = top in {Path(path).resolve() for path in sysconfig.get_paths().values()}
    own = name.partition(".")[0]
    files: dict[Path, None] = {}
    seen, waiting = set[str](), [name]
    while waiting:
        one = waiting.pop()
        path = _module_file(one, top)
        if one in seen or path is None or (installed and one.partition(".")[0] != own):
            continue
        seen.add(one)
        files[path] = None
        waiting.extend(_imported(path, one))
    return list(files)


def _module_file(name: str, top: Path) -> Path | None:
    stem = top.joinpath(*name.split("."))
    candidates = (stem.with_suffix(".py"), stem / "__init__.py")
    return next((path for path in candidates if name and path.is_file()), None)


def _imported(path: Path, name: str) -> Iterator[str]:
    """Names of modules that a source file may import, its own packages too; nothing of one that does not parse."""
    parts = name.split(".")
    yield from (".".join(parts[:depth]) for depth in range(1, len(parts)))
    try:
        tree = syntax_tree(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # its digest tells that it changed
    base = parts if path.name == "__init__.py" else parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = base[: len(base) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}".strip(".") for alias in node.names)
            yield module
