"""Runs pytest inside a sandbox and says which tests passed; its text is carried there, and it imports nothing of ours.

`python -I pytest_verdict.py` reads one JSON line: nonce, library (folders with pytest, where the sandbox has none),
paths (where the tested code lies), arguments (of pytest). It writes the nonce and `ready` before any code under test
is imported, and at the end the nonce and a JSON object. The code under test runs in the same process and may end it,
print, shadow modules or replace parts of pytest: then the last line is missing, is not believed, or says `tampered`.
"""

import json
import os
import sys
import tempfile
import types

__all__ = ["main"]

_SHOWN = 600
"""Characters kept of a failure's message."""
_PARTS = (types.FunctionType, type, classmethod, staticmethod, property)


class Verdict:
    """A pytest plug-in: the outcome of every test by node id, and the message of every failure."""

    def __init__(self) -> None:
        self.outcomes = {}  # type: dict[str, str]
        self.messages = {}  # type: dict[str, str]
        self.before = {}  # type: dict[tuple[str, str], tuple[int, int]]
        self.collected = []  # type: list[str]
        self.plugins = set()  # type: set[str]
        self.tampered = []  # type: list[str]

    def pytest_collection(self, session: "object") -> None:
        """Plug-ins are configured and may have changed pytest; nothing under test is imported yet."""
        self.before = parts_of_pytest()
        self.plugins = plugins_of(session)

    def pytest_sessionfinish(self, session: "object") -> None:
        after = parts_of_pytest()
        self.tampered = [".".join(part) for part, known in self.before.items() if after.get(part) != known]
        self.tampered += sorted(plugins_of(session) - self.plugins)

    def pytest_collection_finish(self, session: "object") -> None:
        self.collected = [str(item.nodeid) for item in session.items]  # type: ignore[attr-defined]

    def pytest_runtest_logreport(self, report: "object") -> None:
        """Passed is passed in setup, call and teardown. Skips and expected failures are those that the tests' own marks
        ask for: the code under test could raise either from within a test."""
        name, outcome = str(report.nodeid), str(report.outcome)  # type: ignore[attr-defined]
        when = str(report.when)  # type: ignore[attr-defined]
        if outcome == "skipped":
            marked = hasattr(report, "wasxfail") and "xfail" in report.keywords  # type: ignore[attr-defined]
            outcome = "passed" if marked else "skipped" if when == "setup" else "failed"
        if outcome == "failed" or self.outcomes.get(name) == "failed":
            self._fail(name, report)
        elif outcome == "skipped" or when == "call":
            self.outcomes[name] = outcome

    def pytest_collectreport(self, report: "object") -> None:
        """A module that is skipped as a whole has failed: what it imports could have asked for that."""
        if report.outcome != "passed":  # type: ignore[attr-defined]
            self._fail(str(report.nodeid), report)  # type: ignore[attr-defined]

    def _fail(self, name: str, report: "object") -> None:
        self.outcomes[name] = "failed"
        crash = getattr(getattr(report, "longrepr", None), "reprcrash", None)
        message = getattr(crash, "message", None) or str(getattr(report, "longrepr", ""))[-_SHOWN:]
        self.messages.setdefault(name, str(message)[:_SHOWN])


def plugins_of(session: "object") -> "set[str]":
    """What is plugged into pytest, but for conftest files, which come as tests are found."""
    named = session.config.pluginmanager.list_name_plugin()  # type: ignore[attr-defined]
    kept = (name for name, plugin in named if not str(getattr(plugin, "__file__", "")).endswith("conftest.py"))
    return {"plug-in " + str(name) for name in kept}


def parts_of_pytest() -> "dict[tuple[str, str], tuple[int, int]]":
    """Identities of the functions and classes of what decides a test's outcome, and of the functions' code."""
    found = {}
    for module_name, module in sorted(sys.modules.items()):
        if module_name.split(".")[0] not in ("pytest", "_pytest", "pluggy") and module_name != "unittest.case":
            continue
        for name, value in list(vars(module).items()):
            if isinstance(value, _PARTS):
                found[module_name, name] = identity(value)
            if isinstance(value, type) and value.__module__ == module_name:
                for inner, part in list(vars(value).items()):
                    if isinstance(part, _PARTS):
                        found[module_name, name + "." + inner] = identity(part)
    return found


def identity(part: "object") -> "tuple[int, int]":
    code = getattr(getattr(part, "__func__", part), "__code__", None)
    return id(part), id(code)


def main() -> None:
    request = json.loads(sys.stdin.readline())
    nonce, stdout = request.pop("nonce"), os.dup(1)
    sys.path[:0] = request["library"]
    if request["library"]:  # what else this Python has installed is no part of the tests
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    verdict = Verdict()
    installed = [at for at, path in enumerate(sys.path) if "site-packages" in path or "dist-packages" in path]
    place = max(installed[0] if installed else len(sys.path), len(request["library"]))
    sys.path[place:place] = request["paths"]  # before what is installed, after the standard library
    if request["paths"]:
        os.environ["PYTHONPATH"] = os.pathsep.join(request["paths"])
    with open(os.devnull, "w"), tempfile.TemporaryFile():  # what pytest needs of its surroundings
        os.write(stdout, (nonce + "ready\n").encode())
    try:
        code = int(pytest.main(request["arguments"], plugins=[verdict]))
    except SystemExit:  # the code under test left while it was imported
        code = -1
    said = {
        "exit": code,
        "collected": verdict.collected,
        "outcomes": verdict.outcomes,
        "messages": verdict.messages,
        "tampered": verdict.tampered,
    }
    sys.stdout.flush()
    os.write(stdout, ("\n" + nonce + json.dumps(said) + "\n").encode())
    os._exit(0)


if __name__ == "__main__":
    main()
