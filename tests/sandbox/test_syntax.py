"""Trees of Python text, built on several threads at once."""

from __future__ import annotations

import ast
import gc
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import heldout
from heldout.sandbox.syntax import syntax_tree

TEXT = "\n".join(f"def f{n}(a, b={n}):\n    return [x * {n} for x in a if x > (b + {n})]" for n in range(30))


class Loop:
    """Garbage that only the collector finds, and whose end runs Python: there another thread may go on."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(20):
            pass


@pytest.fixture
def _hasty() -> Iterator[None]:
    """Threads that change places, and a collector that looks, as often as they can."""
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


def faults(parse: Callable[[str], ast.Module], *, seconds: float, enough: int) -> list[str]:
    """What four threads that parse for some seconds meet; they stop where they have met `enough`."""
    found: list[str] = []
    until = time.monotonic() + seconds

    def work() -> None:
        while time.monotonic() < until and len(found) < enough:
            for _ in range(20):
                Loop()
            try:
                parse(TEXT)
            except SystemError as fault:
                found.append(str(fault))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.usefixtures("_hasty")
def test_threads_that_build_trees_at_once_do_not_meet() -> None:
    assert faults(syntax_tree, seconds=2.0, enough=1) == []


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the interpreter's fault is one of 3.11")
@pytest.mark.usefixtures("_hasty")
def test_the_stress_of_the_test_above_is_enough_to_find_the_fault() -> None:
    (fault,) = set(faults(ast.parse, seconds=30.0, enough=1)[:1])
    assert fault.startswith("AST constructor recursion depth mismatch")


def test_a_tree_is_that_of_the_library_and_so_are_its_errors() -> None:
    assert ast.dump(syntax_tree(TEXT)) == ast.dump(ast.parse(TEXT))
    assert ast.dump(syntax_tree(TEXT.encode())) == ast.dump(ast.parse(TEXT))
    with pytest.raises(SyntaxError) as caught:
        syntax_tree("x = 1\nif", "candidate.py")
    assert (caught.value.filename, caught.value.lineno) == ("candidate.py", 2)


def test_every_tree_of_the_package_is_built_here() -> None:
    source = Path(heldout.__file__).parent
    own = re.compile(r"\bast\.parse\(|PyCF_ONLY_AST")
    found = [
        file.relative_to(source).as_posix() for file in source.rglob("*.py") if own.search(file.read_text("utf-8"))
    ]
    assert found == ["sandbox/syntax.py"]
