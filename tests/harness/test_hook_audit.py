"""The static audit: what hook code may do, what it may not, and how the faults are told."""

from __future__ import annotations

import builtins
import importlib

import pytest

from heldout.errors import HarnessError
from heldout.harness.hook_host import BUILTINS, MODULES
from heldout.harness.hooks import IMPROVER_HOOKS, audit_hooks

GOOD = '''"""Hooks of a harness that knows what it wants."""

from __future__ import annotations

import json
import re as regex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SEEN: list[str] = []
_PATTERN = regex.compile(r"Traceback")
EXTRA_TOOLS = [{"name": "peek", "description": "Shows  a\\nfile."}]


@dataclass
class Count:
    n: int = 0
    names: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return self.n


def before_tool(command: str) -> str | dict[str, str]:
    global SEEN
    input = command.strip()  # a name of its own
    if "sudo" in input:
        return {"block": f"no {input!r}"}
    return input


def after_tool(command, output, exit_code, /):
    try:
        return output if _PATTERN.search(output) else json.dumps([output])[2:-2]
    except (ValueError, KeyError) as fault:
        return str(fault)


def on_turn_end(turn: int, messages: list[Mapping[str, Any]], *more) -> None:
    match messages:
        case [{"role": role}, *_]:
            SEEN.append(role)


def run_tool(name, argument="", mode=None):
    return f"cat {argument}"
'''


def test_ordinary_hook_code_passes_and_its_surface_is_read_without_running_it() -> None:
    surface = audit_hooks(GOOD)
    assert surface.defined == {"before_tool", "after_tool", "on_turn_end", "run_tool"}
    assert [(tool.name, tool.description) for tool in surface.tools] == [("peek", "Shows a file.")]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os", "may not import 'os'"),
        ("import json, subprocess", "may not import 'subprocess'"),
        ("import collections.abc", "may not import 'collections.abc'"),
        ("from os import path", "may not import from 'os'"),
        ("from . import hooks", "may not import from '.'"),
        ("from json import codecs", "may not import 'codecs' from 'json'"),
        ("from json import *", "may not import '*' from 'json'"),
        ("from string import Formatter", "may not import 'Formatter' from 'string'"),
        ("from shlex import shlex", "may not import 'shlex' from 'shlex'"),
        ("from typing import get_type_hints", "may not import 'get_type_hints'"),
        ("from functools import singledispatch", "may not import 'singledispatch'"),
        ("import time", "may not import 'time'"),
        ("import random", "may not import 'random'"),
        ("x = open('a')", "may not use 'open'"),
        ("x = eval('1')", "may not use 'eval'"),
        ("exec('x = 1')", "may not use 'exec'"),
        ("compile('', '', 'exec')", "may not use 'compile'"),
        ("__import__('os')", "may not use '__import__'"),
        ("x = __builtins__", "may not use '__builtins__'"),
        ("getattr(1, 'real')", "may not use 'getattr'"),
        ("def open(): pass", "may not use 'open'"),
        ("getattr = None", "may not use 'getattr'"),
        ("x = globals()", "may not use 'globals'"),
        ("x = vars()", "may not use 'vars'"),
        ("x = type(1)", "may not use 'type'"),
        ("x = input()", "may not use 'input'"),
        ("raise SystemExit", "may not use 'SystemExit'"),
        ("x = ().__class__", "may not use the attribute '__class__'"),
        ("x = f'{().__class__}'", "may not use the attribute '__class__'"),
        ("match 1:\n    case int(__class__=c): pass", "may not use the attribute '__class__'"),
        ("match 1:\n    case __dunder__: pass", "may not use '__dunder__'"),
        ("x = '{0.__class__}'.format(1)", "may not use the attribute 'format'; write an f-string"),
        ("x = (1 for _ in []).gi_frame", "may not use the attribute 'gi_frame'"),
        ("class A:\n    __match_args__ = ('__class__',)", "may not use '__match_args__'"),
        ("class A:\n    def __getattr__(self, name): pass", "may not use '__getattr__'"),
        ("class A:\n    def __del__(self): pass", "may not use '__del__'"),
        ("def f(__x__): pass", "may not use '__x__'"),
        ("f(__x__=1)", "may not use '__x__'"),
        ("import re as __loader__", "may not use '__loader__'"),
        ("async def f(): pass", "plain functions, not async"),
        ("EXTRA_TOOLS = 3\ndef run_tool(name, argument): return ''", "plain list of 1 to 4 mappings"),
        ("EXTRA_TOOLS = list()\ndef run_tool(name, argument): return ''", "plain list of 1 to 4 mappings"),
        ("EXTRA_TOOLS = []\ndef run_tool(name, argument): return ''", "plain list of 1 to 4 mappings"),
        ("EXTRA_TOOLS = [{'name': 'a', 'description': 'b'}]", "needs the function run_tool(name, argument)"),
        ("def run_tool(name, argument): return ''", "run_tool needs EXTRA_TOOLS"),
        ("def before_tool(): return ''", "before_tool is called with (command)"),
        ("def before_tool(a, b): return ''", "before_tool is called with (command)"),
        ("def after_tool(command, output, exit_code, *, more): return ''", "called with (command, output, exit_code)"),
        ("before_tool = str.strip", "before_tool must be defined with def"),
        ("x = 1", "defines no hook; there is system_prompt, before_llm"),
        ("def befor_tool(command): return command", "defines no hook"),
    ],
)
def test_what_hook_code_may_not_do_is_refused_with_its_line(code: str, words: str) -> None:
    last = code.count("\n") + 1
    with pytest.raises(HarnessError) as caught:
        audit_hooks(code)
    assert words in str(caught.value)
    assert any(f"line {line}: " in str(caught.value) for line in range(1, last + 1))


def test_every_fault_is_told_up_to_five() -> None:
    with pytest.raises(HarnessError, match=r"line 1: may not import 'os'.*; line 3: may not use 'eval'") as caught:
        audit_hooks("import os\n\nx = eval('1')\n" + "y = open('a')\n" * 9)
    assert str(caught.value).endswith("; and 7 more")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def f(:\n  pass", "line 1: "),
        ("x = 'a\0b'", "source code string cannot contain null bytes"),
        ("x = '\ud800'", "cannot be parsed: 'utf-8' codec can't encode"),
        ("x = " + "(" * 300 + ")" * 300, "too many nested parentheses"),
        ("x = " + "-" * 20000 + "1", ""),
    ],
)
def test_what_python_cannot_read_is_refused(code: str, words: str) -> None:
    with pytest.raises(HarnessError) as caught:
        audit_hooks(code)
    assert str(caught.value).startswith("harness_code/hooks.py")
    assert words in str(caught.value)


def tools(*entries: tuple[object, object]) -> str:
    listed = [{"name": name, "description": description} for name, description in entries]
    return f"EXTRA_TOOLS = {listed!r}\ndef run_tool(name, argument): return 'ls'\n"


@pytest.mark.parametrize("name", ["echo", "cd", "Peek", "a-b", "a b", "", "9a", "a" * 33, 3, "if"])
def test_a_tool_needs_a_name_that_the_shell_does_not_own(name: object) -> None:
    with pytest.raises(HarnessError, match="cannot be the name of an extra tool"):
        audit_hooks(tools((name, "x")))


def test_at_most_four_extra_tools_with_different_names_and_a_description_each() -> None:
    four = [(f"t{number}", "x") for number in range(4)]
    assert len(audit_hooks(tools(*four)).tools) == 4
    with pytest.raises(HarnessError, match="plain list of 1 to 4"):
        audit_hooks(tools(*four, ("t4", "x")))
    with pytest.raises(HarnessError, match="same name"):
        audit_hooks(tools(("a", "x"), ("a", "y")))
    for description in ("", " ", "x" * 501, 3):
        with pytest.raises(HarnessError, match="description of a must have 1 to 500 characters"):
            audit_hooks(tools(("a", description)))


def test_comments_alone_are_no_hooks_and_no_fault() -> None:
    for code in ("", "# nothing yet\n", '"""Nothing yet."""\n'):
        assert audit_hooks(code).defined == frozenset()


def test_another_harness_has_its_own_limit_path_and_hooks() -> None:
    surface = audit_hooks(
        "def before_tool(command):\n    return command\ndef on_turn_end(a, b, c, d): pass\n",
        limit_bytes=65536,
        path="teacher_code/hooks.py",
        kinds=IMPROVER_HOOKS,
    )
    assert (surface.defined, surface.path) == ({"before_tool"}, "teacher_code/hooks.py")
    with pytest.raises(HarnessError, match=r"teacher_code/hooks\.py has 65537 bytes; at most 65536"):
        audit_hooks("#" * 65537, limit_bytes=65536, path="teacher_code/hooks.py", kinds=IMPROVER_HOOKS)
    with pytest.raises(HarnessError, match="EXTRA_TOOLS is not offered here"):
        audit_hooks(tools(("a", "x")), kinds=IMPROVER_HOOKS)


def test_the_tables_name_things_that_exist_and_nothing_that_reaches_out() -> None:
    for module, names in MODULES.items():
        found = importlib.import_module(module)
        for name in names:
            assert not isinstance(getattr(found, name), type(importlib)), f"{module}.{name} is a module"
    assert all(hasattr(builtins, name) for name in BUILTINS)
    reaching = {
        "open",
        "eval",
        "exec",
        "compile",
        "__import__",
        "getattr",
        "setattr",
        "globals",
        "vars",
        "type",
        "input",
    }
    assert reaching.isdisjoint(BUILTINS)
