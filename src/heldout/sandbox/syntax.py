"""Python text as a tree, for code that is read instead of run."""

from __future__ import annotations

import ast
import threading

__all__ = ["syntax_tree"]

_BUILDING = threading.RLock()
"""One for the process, since what it guards is: CPython 3.11 counts the depth of the trees that it builds in one place
of the interpreter. Two threads that build at once raise `SystemError: AST constructor recursion depth mismatch`
(github.com/python/cpython/issues/106905)."""


def syntax_tree(text: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """`ast.parse`, by one thread at a time; it raises what that raises. Nothing of the text is run."""
    with _BUILDING:
        return ast.parse(text, filename)
