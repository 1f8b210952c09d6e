"""The program that runs in the two sandboxes of a grading. It needs the standard library and, on one side, pytest.

The code of an agent lives in one sandbox (`serve`), the hidden tests and pytest in another (`judge`), and whoever
started both carries lines between them. The tests import the package as they always would; what they get are
stand-ins that pass every call on. Only plain data comes back, built anew on the side of the tests, so nothing that an
agent wrote ever runs beside the tests, sees what they expect, or takes part in a comparison.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TextIO

__all__ = ["Stranger", "StrangerError", "decode", "encode", "judge", "serve"]

_CONTAINERS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MESSAGE = 500


def encode(value: Any, keep: Callable[[Any], int]) -> Any:
    """JSON of plain data of exactly the built-in types; of anything else the number that `keep` gives it."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return {"float": value.hex()}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is dict:
        return {"dict": [[encode(key, keep), encode(each, keep)] for key, each in value.items()]}
    if kind.__name__ in _CONTAINERS and kind is _CONTAINERS[kind.__name__]:
        return {kind.__name__: [encode(each, keep) for each in value]}
    return {"object": keep(value)}


def decode(data: Any, find: Callable[[int], Any]) -> Any:
    """The value that `encode` wrote; `find` gives what a number stands for."""
    if not isinstance(data, dict):
        return data
    ((kind, content),) = data.items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "dict":
        return {decode(key, find): decode(each, find) for key, each in content}
    if kind == "object":
        return find(int(content))
    return _CONTAINERS[kind](decode(each, find) for each in content)


def _wires() -> tuple[TextIO, TextIO]:
    """Standard input and output for the protocol alone. What else is printed goes to standard error."""
    heard = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
    said = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    nothing, end = os.pipe()
    os.close(end)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return heard, said


def serve() -> None:
    """Answer requests for names, attributes and calls of the package in the working folder."""
    heard, said = _wires()
    folder = os.getcwd()
    sys.path.append(folder)  # last, so that no file of an agent takes the place of the standard library
    objects: list[Any] = []

    def keep(value: Any) -> int:
        objects.append(value)
        return len(objects) - 1

    def answer(request: dict[str, Any]) -> Any:
        if request["do"] == "begin":
            return None
        if request["do"] == "name":
            return getattr(importlib.import_module(request["module"]), request["name"])
        target = objects[request["target"]]
        if request["do"] == "attribute":
            return getattr(target, request["name"])
        arguments, keywords = decode(request["arguments"], objects.__getitem__)
        return target(*arguments, **keywords)

    for line in heard:
        try:
            reply = {"value": encode(answer(json.loads(line)), keep)}
        except BaseException as fault:  # noqa: BLE001 - an agent may raise SystemExit; who asked is told
            reply = {"fault": [type(fault).__name__, _said_by(fault), _place(fault, folder)]}
        said.write(json.dumps(reply) + "\n")
        said.flush()


def _said_by(fault: BaseException) -> str:
    """Its text, which is the agent's code too."""
    return traceback.format_exception_only(fault)[-1].strip().partition(": ")[2][:_MESSAGE]


def _place(fault: BaseException, folder: str) -> str:
    """The last line of the package that took part."""
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if frame.filename.startswith(folder)]
    return f"{os.path.relpath(frames[-1].filename, folder)}:{frames[-1].lineno}" if frames else ""


class StrangerError(Exception):
    """The code under test ended in a way that is no ordinary exception."""


class Stranger:
    """Something in the other sandbox: it can be called, has attributes, and is equal to nothing but itself."""

    def __init__(self, ask: Callable[[dict[str, Any]], Any], number: int, name: str) -> None:
        self._ask = ask
        self._number = number
        self._name = name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call it there."""
        sent = encode((arguments, keywords), lambda value: value._number)
        return self._ask({"do": "call", "target": self._number, "arguments": sent, "as": f"{self._name}()"})

    def __getattr__(self, name: str) -> Any:
        """Its attribute there."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self._ask({"do": "attribute", "target": self._number, "name": name, "as": f"{self._name}.{name}"})

    def __repr__(self) -> str:
        return f"<{self._name}>"


class _Package(MetaPathFinder, Loader):
    """Finds the package under test, and every module of it, in the other sandbox."""

    def __init__(self, package: str, ask: Callable[[dict[str, Any]], Any]) -> None:
        self._package = package
        self._ask = ask

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module that is a stand-in, for names of the package."""
        del path, target
        if fullname.split(".")[0] != self._package:
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module whose names are looked up when they are asked for."""
        module = ModuleType(spec.name)

        def look_up(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return self._ask({"do": "name", "module": spec.name, "name": name, "as": name})

        module.__dict__["__getattr__"] = look_up
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run on this side."""


class _Reports:
    """A pytest plug-in: which tests passed, and what the others said."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}
        self.place = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One phase of a test. A skip is no pass."""
        name = report.nodeid.rpartition("::")[2]
        if report.outcome != "passed":
            self._failure(name, report)
        elif report.when == "call":
            self.passed.append(name)

    def pytest_collectreport(self, report: Any) -> None:
        """A module that could not be collected fails under its own name."""
        if report.outcome != "passed":
            self._failure(report.nodeid, report)

    def _failure(self, name: str, report: Any) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash is not None else str(report.longrepr).strip().rpartition("\n")[2]
        self.failed[name] = message + (f" ({self.place})" if self.place else "")
        self.place = ""


def judge() -> None:
    """Run the hidden tests of the working folder with pytest and say how each went."""
    heard, said = _wires()
    sys.path += ["/judge", os.path.join(os.getcwd(), "single")]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    reports = _Reports()

    def ask(request: dict[str, Any]) -> Any:
        name = request.pop("as")
        said.write(json.dumps({"ask": request}) + "\n")
        said.flush()
        line = heard.readline()
        reports.place = ""
        try:
            reply = json.loads(line)
            if "value" in reply:
                return decode(reply["value"], lambda number: Stranger(ask, number, name))
            kind, message, place = (str(part)[:_MESSAGE] for part in reply["fault"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as fault:
            raise StrangerError(f"{name} answered with something that cannot be read") from fault
        reports.place = place
        raise _exception(kind, message)

    task = json.loads(heard.readline())
    sys.meta_path.insert(0, _Package(task["package"], ask))
    settings = ["-c", "pytest.ini", "--rootdir", os.getcwd(), "--noconftest", "--capture", "no"]
    absent = [word for name in task["without"] for word in ("-p", f"no:{name}")]
    code = int(pytest.main([*settings, *absent, *task["tests"]], plugins=[reports]))
    said.write(json.dumps({"code": code, "passed": reports.passed, "failed": reports.failed}) + "\n")
    said.flush()


def _exception(kind: str, message: str) -> Exception:
    """The built-in exception of that name, or a `StrangerError` of that name for what is no ordinary exception."""
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        with contextlib.suppress(TypeError):  # UnicodeEncodeError and its like take more than a message
            return found(message)
    named: type[Exception] = type(kind if kind.isidentifier() else "StrangerError", (StrangerError,), {})
    return named(message)


if __name__ == "__main__":
    roles: Sequence[str] = sys.argv[1:]
    serve() if list(roles) == ["serve"] else judge()
