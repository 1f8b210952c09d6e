"""Runs in a sandbox of its own: the tests of one HumanEval problem, on a function that lives in another sandbox.

One JSON line in: `entry_point`, `right` (the program that the tests may lean on) and `test`. It asks whoever started it
for every call of the function, a JSON line each way, and gets plain data back, so nothing that was submitted runs
beside the tests. The last line is the verdict: an `outcome` and `why`.
"""

from __future__ import annotations

import json
import os
import sys
from types import TracebackType
from typing import Any, TextIO

from heldout.worlds.repair.referee import Stranger, StrangerError, decode

__all__ = ["main"]

_SHOWN = 200
_MODULE = "solution"


class _Verdict:
    """Says at the end how it went, whatever ended it."""

    def __init__(self, said: TextIO) -> None:
        self._said = said
        self._last = ""
        self.loaded = False
        self.calls = 0

    def ask(self, request: dict[str, Any]) -> Any:
        """What the other sandbox answers; `StrangerError` for a fault there."""
        name = request.pop("as")
        self.say({"ask": request})
        self.calls += 1
        reply = json.loads(sys.stdin.readline())
        if "value" not in reply:
            kind, message = (str(part)[:_SHOWN] for part in reply["fault"][:2])
            raise StrangerError(f"{name} ended with {kind}: {message}")
        value = decode(reply["value"], lambda number: Stranger(self.ask, number, name))
        self._last = f"{name} returned {repr(value)[:_SHOWN]}"
        return value

    def say(self, what: dict[str, Any]) -> None:
        self._said.write(json.dumps(what) + "\n")
        self._said.flush()

    def __enter__(self) -> _Verdict:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> bool:
        del trace
        if kind is None:
            outcome, why = ("passed", "") if self.calls > 1 else ("untested", "the tests called nothing")
        elif issubclass(kind, StrangerError):
            outcome, why = "raised" if self.loaded else "load", str(fault)
        else:
            outcome, why = "value", f"a test refuses it: {self._last}"
        self.say({"outcome": outcome, "why": why})
        return True


def main() -> None:
    """Run the tests of the one problem that is told."""
    said = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)  # what the tests print is no part of the verdict
    task = json.loads(sys.stdin.readline())
    name = task["entry_point"]
    space: dict[str, Any] = {"__name__": "tests"}
    exec(compile(f"{task['right']}\n{task['test']}", "tests", "exec"), space)
    with _Verdict(said) as verdict:
        function = verdict.ask({"do": "name", "module": _MODULE, "name": name, "as": name})
        verdict.loaded = True
        space["check"](function)


if __name__ == "__main__":
    main()
