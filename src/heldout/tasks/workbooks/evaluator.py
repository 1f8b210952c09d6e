"""Runs inside a sandbox, without Heldout: computes the formulas of one book with the library `formulas`.

Arguments: the folders where packages lie. One JSON line in: `cells` and `formulas` (key to value, to text). Two lines
out: `ready` once the library is there, before anything of the book is read; then a JSON object: key to value, or to
{"error": code, "why": text}.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["main"]

_NUMBERS = (
    *("SUM", "AVERAGE", "MIN", "MAX", "COUNT", "PRODUCT", "MEDIAN", "MODE", "LARGE", "SMALL", "SUMPRODUCT"),
    *("STDEV", "STDEV.S", "STDEV.P", "STDEVP", "VAR", "VAR.S", "VAR.P", "VARP"),
)
"""Functions that pass over text in the cells that they read, also where it looks like a number."""
_NUMBERS_AT = {"SUMIF": 2, "AVERAGEIF": 2, "SUMIFS": 0, "AVERAGEIFS": 0, "MAXIFS": 0, "MINIFS": 0}
"""The same, for the argument of this number alone."""


def main() -> None:
    """Answer the one request."""
    sys.path.extend(sys.argv[1:])
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    import formulas

    functions = formulas.get_functions()
    known = frozenset(functions)  # to ask it for a name adds the name
    _pass_over_text(functions)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    request = json.loads(sys.stdin.readline())
    sys.stdout.write(json.dumps(_computed(request["cells"], request["formulas"], known)) + "\n")


def _computed(cells: dict[str, Any], formulas: dict[str, str], known: frozenset[str]) -> dict[str, Any]:
    from formulas import ExcelModel

    told: dict[str, Any] = {}
    model = dict(cells)
    for key, text in formulas.items():
        told[key] = _unreadable(text, known)
        # What cannot be computed is an error for all that reads it.
        model[key] = text if told[key] is None else "=#N/A"
    solution = ExcelModel().from_dict(model).calculate()
    for key in formulas:
        if told[key] is None:
            told[key] = _told(solution[key]) if key in solution else _missing("it reads its own value")
    return told


def _unreadable(text: str, known: frozenset[str]) -> dict[str, str] | None:
    from formulas import Parser
    from formulas.errors import BaseError

    try:
        tokens, builder = Parser().ast(text)
        builder.compile()
    except (BaseError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as cause:
        return _missing(f"it is no formula that can be read ({type(cause).__name__})")
    names = (token.name.upper() for token in tokens if type(token).__name__ == "Function")
    absent = [name for name in names if name not in known]
    return {"error": "#NAME?", "why": f"there is no function {absent[0]} here"} if absent else None


def _missing(why: str) -> dict[str, str]:
    return {"error": "#N/A", "why": why}


def _told(found: Any) -> Any:
    """A value as JSON holds it; a list of rows for more than one cell."""
    rows = [[_plain(value) for value in row] for row in found.value.tolist()]
    return rows[0][0] if len(rows) == 1 and len(rows[0]) == 1 else {"rows": rows}


def _plain(value: Any) -> Any:
    if isinstance(value, bool | str) and not type(value).__name__.endswith(("Error", "Token")):
        return str(value) if isinstance(value, str) else value
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"error": "#NUM!", "why": ""}
    code = str(value)
    return {"error": code, "why": ""} if code.startswith("#") else None


def _pass_over_text(functions: Any) -> None:
    """As spreadsheet programs do; the library counts text that looks like a number."""
    for name in _NUMBERS:
        if callable(functions.get(name)):
            functions[name] = _numbers_only(functions[name], None)
    for name, place in _NUMBERS_AT.items():
        if callable(functions.get(name)):
            functions[name] = _numbers_only(functions[name], place)


def _numbers_only(function: Callable[..., Any], place: int | None) -> Callable[..., Any]:
    def called(*arguments: Any, **named: Any) -> Any:
        return function(
            *(_without_text(one) if place in (None, at) else one for at, one in enumerate(arguments)), **named
        )

    return called


def _without_text(argument: Any) -> Any:
    """What cells hold, without text; anything else as it is."""
    if type(argument).__name__ != "Ranges":
        return argument
    from schedula import EMPTY

    values = argument.value.copy()
    for place, value in enumerate(values.flat):
        if type(value) is str:
            values.flat[place] = EMPTY
    return values


if __name__ == "__main__":
    main()
