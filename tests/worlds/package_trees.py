"""Runs generated packages without a sandbox, many in one process. They are ours; nothing of an agent goes here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

__all__ = ["run_trees"]

_RUNNER = r"""
import contextlib, importlib, io, json, os, pathlib, re, runpy, sys, tempfile

def tests(path):
    found = {}
    try:
        names = runpy.run_path(path)
    except Exception as fault:
        return {"import": type(fault).__name__}
    for name, test in names.items():
        if name.startswith("test_"):
            found[name] = ""
            try:
                test()
            except Exception as fault:
                found[name] = type(fault).__name__
    return found

def check():
    out = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out):
        try:
            runpy.run_path("check.py", run_name="__main__")
        except SystemExit as end:
            code = end.code
    return {"output": out.getvalue().replace(os.getcwd(), "/work"), "code": code}

def forget():
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(os.getcwd()):
            del sys.modules[name]
    importlib.invalidate_caches()

sys.dont_write_bytecode = True
for line in sys.stdin:
    tree = json.loads(line)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        os.chdir(folder)
        sys.path.insert(0, folder)
        result = {"check": check()}
        forget()
        result["tests"] = tests("tests/test_hidden.py")
        forget()
        sys.path.remove(folder)
        os.chdir("/")
    print(json.dumps(result))
"""


def run_trees(trees: Sequence[Mapping[str, str]]) -> list[dict[str, dict[str, str]]]:
    """Of each tree: what `check.py` printed and returned, and the error class of each hidden test ("" for none)."""
    done = subprocess.run(
        [sys.executable, "-c", _RUNNER],
        input="".join(json.dumps(tree) + "\n" for tree in trees),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
