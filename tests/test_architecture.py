"""The house rules that a machine can check: import order, sizes, `__all__`, broad excepts, field documentation."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heldout import config
from heldout.loops import LOOPS

SOURCE = Path(__file__).resolve().parents[1] / "src" / "heldout"
MODULES = sorted(SOURCE.rglob("*.py"))

ORDER = (
    *("errors", "records", "options", "config", "registry", "ledger"),
    *("stats", "store", "sandbox", "models", "tasks", "worlds", "benchmarks", "harness", "rollouts"),
    *("probes", "skills", "training"),
    *("improvers", "gates", "loops", "audit", "report", "workbench", "studies", "dashboard", "cli"),
)
"""A room imports only from those before it. `testing` may import anything, and nothing imports `testing`."""

BROAD_EXCEPTS = {
    "errors.py": 1,
    "harness/hook_host.py": 1,
    "rollouts/executors.py": 1,
    "worlds/repair/referee.py": 1,
}
"""`boundary`, the processes of a candidate's hooks and of graded code, whose callers are other processes, and the end
of a worker."""


def _name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imported_rooms(path: Path) -> Iterator[str]:
    for node in ast.walk(_tree(path)):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)}:{node.lineno} imports relatively"
            whole = node.module == "heldout"
            names = [f"heldout.{alias.name}" if whole else str(node.module) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "heldout" and len(parts) > 1:
                yield parts[1]


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_room_imports_only_from_the_rooms_above_it(path: Path) -> None:
    room = _room(path)
    if room in ("__init__", "__main__", "testing"):
        return
    allowed = {*ORDER[: ORDER.index(room) + 1], "__version__"}
    assert set(_imported_rooms(path)) <= allowed, f"{_name(path)} imports from below"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_files_and_functions_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= 80, f"{_name(path)}:{node.lineno} {node.name} has {length} lines"
            given = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            count = len([name for name in given if name not in ("self", "cls")])
            # A typer command's parameters are the options that a person reads in --help.
            limit = 12 if _room(path) == "cli" else 7
            assert count <= limit, f"{_name(path)}:{node.lineno} {node.name} has {count} parameters"


@pytest.mark.parametrize("path", [SOURCE / "loops" / f"{name}.py" for name in LOOPS], ids=_name)
def test_a_loop_is_wiring_of_at_most_200_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_every_module_says_what_it_offers(path: Path) -> None:
    tree = _tree(path)
    assert ast.get_docstring(tree), f"{_name(path)} has no docstring"
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    assert "__all__" in {t.id for t in targets if isinstance(t, ast.Name)}, f"{_name(path)} has no __all__"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_broad_excepts_stand_only_at_the_boundary(path: Path) -> None:
    found = 0
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ExceptHandler):
            caught = [n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)] if node.type else ["bare"]
            found += any(name in ("bare", "Exception", "BaseException") for name in caught)
    assert found <= BROAD_EXCEPTS.get(_name(path), 0), f"{_name(path)} has a broad except"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_nothing_is_left_unfinished(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for mark in ("TODO", "FIXME", "XXX", "NotImplementedError"):
        assert mark not in text, f"{_name(path)} holds {mark}"


def test_config_models_have_at_most_twelve_fields_and_every_field_has_words_or_an_obvious_name() -> None:
    for name in config.__all__:
        model = getattr(config, name)
        if isinstance(model, type) and hasattr(model, "model_fields"):
            assert len(model.model_fields) <= 12, name


def test_import_is_light() -> None:
    code = (
        "import time; t = time.perf_counter(); import heldout, heldout.workbench, heldout.loops, sys; "
        "heavy = [m for m in ('torch', 'openai', 'xllamacpp', 'scipy', 'transformers') if m in sys.modules]; "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
