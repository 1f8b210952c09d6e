"""The process that runs hooks: it answers one line of JSON with one line of JSON.

Its text is what runs, alone in a sandbox, so it imports the standard library and nothing of Heldout. Asked
`{"load": source, "path": name}` it executes a module once, and asked `{"call": function, "args": [...]}` it calls one
of its functions. It answers `{"value": ...}` or `{"error": "..."}`. What a hook can reach is the second fence behind
the static audit, which reads the two tables below: builtins by name, and modules as bare copies of the listed names,
since most modules of the standard library hold `sys` or `open` somewhere.
"""

from __future__ import annotations

import builtins
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any, TextIO

__all__ = ["BUILTINS", "MODULES", "main"]

BUILTINS: tuple[str, ...] = (
    *("ArithmeticError", "AssertionError", "AttributeError", "Exception", "IndexError", "KeyError", "LookupError"),
    *("NotImplemented", "OverflowError", "RecursionError", "RuntimeError", "StopIteration", "TypeError"),
    *("UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError", "ValueError", "ZeroDivisionError"),
    *("False", "None", "True", "__build_class__", "abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes"),
    *("callable", "chr", "classmethod", "complex", "dict", "divmod", "enumerate", "filter", "float", "frozenset"),
    *("hash", "hex", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object"),
    *("oct", "ord", "pow", "print", "property", "range", "repr", "reversed", "round", "set", "slice", "sorted"),
    *("staticmethod", "str", "sum", "super", "tuple", "zip"),
)
"""All builtins that exist for hooks. `print` writes into the void."""

MODULES: Mapping[str, tuple[str, ...]] = {
    "__future__": ("annotations",),
    "collections": ("ChainMap", "Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"),
    "collections.abc": ("Callable", "Iterable", "Iterator", "Mapping", "MutableMapping", "Sequence", "Set"),
    "dataclasses": ("asdict", "astuple", "dataclass", "field", "replace"),
    "difflib": ("SequenceMatcher", "context_diff", "get_close_matches", "ndiff", "unified_diff"),
    "functools": ("cache", "cmp_to_key", "lru_cache", "partial", "reduce"),
    "itertools": (
        *("accumulate", "chain", "combinations", "compress", "count", "cycle", "dropwhile", "groupby", "islice"),
        *("pairwise", "permutations", "product", "repeat", "starmap", "takewhile", "zip_longest"),
    ),
    "json": ("JSONDecodeError", "dumps", "loads"),
    "math": (
        "ceil",
        "comb",
        "exp",
        "floor",
        "fsum",
        "gcd",
        "inf",
        "isclose",
        "isfinite",
        "isnan",
        "log",
        "log2",
        "sqrt",
    ),
    "re": (
        *("A", "ASCII", "DOTALL", "I", "IGNORECASE", "M", "MULTILINE", "Match", "Pattern", "S", "VERBOSE", "X"),
        *("compile", "error", "escape", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"),
    ),
    "shlex": ("join", "quote", "split"),
    "string": (
        "ascii_letters",
        "ascii_lowercase",
        "ascii_uppercase",
        "digits",
        "hexdigits",
        "punctuation",
        "whitespace",
    ),
    "textwrap": ("dedent", "fill", "indent", "shorten", "wrap"),
    "typing": ("Any", "Callable", "Dict", "Iterable", "Iterator", "List", "Literal", "Optional", "Tuple", "Union"),
}
"""The modules that hooks may import, and all that there is in them. No clock and no randomness: the same episode
asks the same hook the same thing. Left out on purpose: what evaluates text (`typing.get_type_hints`,
`functools.singledispatch`), reads files (`shlex.shlex`) or follows attribute names (`string.Formatter`,
`functools.wraps`).
"""

_ANSWER_CHARACTERS = 2_000_000
_FAULT_CHARACTERS = 300


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    void = os.open(os.devnull, os.O_WRONLY)
    os.dup2(void, 1)
    os.dup2(void, 2)
    serve(sys.stdin, answers)


def serve(questions: TextIO, answers: TextIO) -> None:
    """One answer for each line, in order."""
    module = ModuleType("hooks")
    for line in questions:
        question = json.loads(line)
        print(answer(module, question), file=answers, flush=True)


def answer(module: ModuleType, question: Mapping[str, Any]) -> str:
    """The line that answers a question; hooks may raise whatever they like."""
    try:
        found = json.dumps({"value": _do(module, question)}, allow_nan=False)
    except Exception as fault:  # noqa: BLE001 - the hook's caller is another process, which is told
        return json.dumps({"error": _describe(fault)})
    if len(found) > _ANSWER_CHARACTERS:
        return json.dumps({"error": f"returned {len(found)} characters; at most {_ANSWER_CHARACTERS} are read"})
    return found


def _do(module: ModuleType, question: Mapping[str, Any]) -> Any:
    if "load" in question:
        return _load(module, question["load"], path=question["path"])
    if "call" in question:
        function: Callable[..., Any] = module.__dict__[question["call"]]
        return function(*question["args"])
    return "ready"


def _load(module: ModuleType, source: str, *, path: str) -> None:
    module.__dict__["__builtins__"] = {name: getattr(builtins, name) for name in BUILTINS} | {"__import__": _import}
    sys.modules[module.__name__] = module  # dataclasses look up the module of a class
    exec(compile(source, path, "exec"), module.__dict__)


def _import(name: str, _globals: Any = None, _locals: Any = None, _names: Any = (), level: int = 0) -> SimpleNamespace:
    """Stands in for `__import__`: a bare copy of what is listed."""
    if level or name not in MODULES:
        raise ImportError(f"hooks may not import {name!r}")
    module = importlib.import_module(name)
    return SimpleNamespace(**{listed: getattr(module, listed) for listed in MODULES[name]})


def _describe(fault: Exception) -> str:
    """Class and message, and the line of the hooks' own file where it was raised."""
    line, trace = 0, fault.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == "hooks":
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f"line {line}: " if line else ""
    return f"{where}{type(fault).__name__}: {fault}"[:_FAULT_CHARACTERS]


if __name__ == "__main__":
    main()
