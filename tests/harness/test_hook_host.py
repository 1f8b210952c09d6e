"""Hooks at work: what they may return, what a failing one changes (nothing), and that none reaches out."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_parts import ClosedSandboxes, DoomedSandboxes
from hypothesis import given, settings
from hypothesis import strategies as st

from heldout.errors import SandboxError, SetupError
from heldout.harness.hook_surface import ANSWER_BYTES, GROWTH_BYTES, NOTE_BYTES, SOLVER_HOOKS, HookSurface
from heldout.harness.hooks import HOOKS_FILE, NO_HOOKS, HookHost, audit_hooks, dry_run
from heldout.sandbox import Sandboxes, make_sandboxes
from heldout.testing.local_sandbox import LocalSandboxes

MESSAGES = [{"role": "system", "content": "S"}, {"role": "user", "content": "T"}]

RAISING = """
EXTRA_TOOLS = [{"name": "peek", "description": "x"}]
def system_prompt(text, task): raise ValueError("no prompt")
def before_llm(messages):
    messages.append({"role": "user", "content": "half done"})
    return messages[99]
def after_llm(text): return text / 2
def before_tool(command): return {}["x"]
def after_tool(command, output, exit_code): assert False, "no"
def on_turn_end(turn, messages): return 1 / 0
def run_tool(name, argument): return undefined
"""

GIVEN: dict[str, tuple[Any, ...]] = {
    "system_prompt": ("You.", {"input": "T"}),
    "before_llm": (MESSAGES,),
    "after_llm": ("I go.",),
    "before_tool": ("ls",),
    "after_tool": ("ls", "a.txt", 0),
    "on_turn_end": (1, MESSAGES),
    "run_tool": ("peek", "a"),
}
IDENTITY = {
    "system_prompt": "You.",
    "before_llm": MESSAGES,
    "after_llm": "I go.",
    "before_tool": "ls",
    "after_tool": "a.txt",
    "on_turn_end": None,
    "run_tool": None,
}


@pytest.fixture(params=["local", "bubblewrap"])
def sandboxes(request: pytest.FixtureRequest) -> Sandboxes:
    return kind_of_sandbox(request.param)


def kind_of_sandbox(name: str) -> Sandboxes:
    if name == "local":
        return LocalSandboxes()
    try:
        found = make_sandboxes(name)
    except SetupError as fault:
        pytest.skip(str(fault))
    if found.fault() is not None:
        pytest.skip(f"{name}: {found.fault()}")
    return found


@pytest.fixture(scope="module")
def raising() -> Iterator[HookHost]:
    with HookHost(audit_hooks(RAISING), LocalSandboxes()) as host:
        yield host


def hosted(source: str, sandboxes: Sandboxes | None = None, **options: Any) -> HookHost:
    return HookHost(audit_hooks(source), sandboxes or LocalSandboxes(), **options)


def unaudited(source: str) -> HookSurface:
    """As if the audit had been outwitted."""
    return HookSurface(source=source, path=HOOKS_FILE, kinds=SOLVER_HOOKS, defined=frozenset({"after_llm"}))


@pytest.mark.parametrize("name", GIVEN)
def test_a_raising_hook_behaves_as_the_identity_and_adds_exactly_one_error(raising: HookHost, name: str) -> None:
    calls, errors = raising.calls, raising.errors
    given = GIVEN[name]
    before = pickle.dumps(given)
    assert raising.call(name, *given) == IDENTITY[name]
    assert pickle.dumps(given) == before
    assert (raising.calls, raising.errors) == (calls + 1, errors + 1)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
_MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": _TEXT})


@given(st.lists(_MESSAGE, min_size=1, max_size=8), _TEXT)
@settings(max_examples=60, deadline=None)
def test_invariant_5_a_raising_hook_leaves_any_messages_unchanged_and_adds_one_error(
    raising: HookHost, messages: list[dict[str, str]], text: str
) -> None:
    before = [dict(message) for message in messages]
    errors = raising.errors
    assert raising.call("before_llm", messages) is messages
    assert messages == before
    assert raising.call("after_tool", "ls", text, 1) is text
    assert raising.errors == errors + 2


def test_the_first_faults_are_kept_with_their_lines_and_all_are_counted() -> None:
    with hosted("\ndef after_llm(text):\n    return helper(text)\ndef helper(text):\n    return text['x']\n") as host:
        for _ in range(20):
            assert host.call("after_llm", "I") == "I"
    assert (host.calls, host.errors, len(host.faults)) == (20, 20, 8)
    assert host.faults[0] == "after_llm: line 5: TypeError: string indices must be integers, not 'str'"


@pytest.mark.parametrize("said", ["'\\ud800'", "'x' * 10**7", "{'\\ud800': 1}"])
def test_a_fault_can_be_written_whatever_a_hook_says_in_it(said: str) -> None:
    surface = audit_hooks(f"def before_tool(command): raise ValueError({said})\n")
    with HookHost(surface, LocalSandboxes()) as host:
        host.call("before_tool", "ls")
    (fault,) = host.faults
    assert fault.startswith("before_tool: ")
    assert len(fault.encode()) <= 500


def test_hooks_that_cannot_be_loaded_fail_at_every_call() -> None:
    with hosted("x = 1 / 0\ndef after_llm(text):\n    return text\n") as host:
        assert [host.call("after_llm", "I"), host.call("after_llm", "you")] == ["I", "you"]
    assert host.errors == 2
    assert host.faults[1] == "after_llm: not loaded: line 1: ZeroDivisionError: division by zero"


def test_hooks_do_their_work_in_the_sandbox(sandboxes: Sandboxes) -> None:
    source = """
from __future__ import annotations
import json, re
from collections import Counter, namedtuple
from dataclasses import dataclass
from functools import lru_cache
EXTRA_TOOLS = [{"name": "peek", "description": "x"}]
Pair = namedtuple("Pair", "a b")
@dataclass
class State:
    n: int = 0
STATE = State()
@lru_cache(maxsize=None)
def words(text):
    return Counter(re.findall(r"[a-z]+", text))
def system_prompt(text, task):
    print("this goes nowhere" * 10_000)
    return text + " " + task["input"] + " ö€"
def before_llm(messages):
    return messages[:1] + [{"role": "user", "content": json.dumps(Pair(1, 2))}]
def after_llm(text):
    STATE.n += 1
    return f"{text} {STATE.n} {words('a b a')['a']}"
def before_tool(command):
    return {"block": "no"} if command == "rm" else {"answer": ""} if command == "cd" else command + " -l"
def after_tool(command, output, exit_code):
    return f"{command}|{output}|{exit_code}"
def on_turn_end(turn, messages):
    return f"turn {turn} of {len(messages)}" if turn > 1 else None
def run_tool(name, argument):
    return f"{name}: {argument}"
"""
    with hosted(source, sandboxes) as host:
        assert host.call("system_prompt", "You.", {"input": "T"}) == "You. T ö€"
        assert host.call("before_llm", MESSAGES) == [MESSAGES[0], {"role": "user", "content": "[1, 2]"}]
        assert [host.call("after_llm", "I"), host.call("after_llm", "I")] == ["I 1 2", "I 2 2"]
        assert host.call("before_tool", "ls") == "ls -l"
        assert host.call("before_tool", "rm") == {"block": "no"}
        assert host.call("before_tool", "cd") == {"answer": ""}
        assert host.call("after_tool", "ls", "a", 2) == "ls|a|2"
        assert [host.call("on_turn_end", 1, MESSAGES), host.call("on_turn_end", 2, MESSAGES)] == [None, "turn 2 of 2"]
        assert host.call("run_tool", "peek", "a b") == "peek: a b"
    assert (host.errors, host.faults) == (0, [])


def test_nothing_leaks_from_one_episode_to_the_next() -> None:
    surface = audit_hooks("SEEN = []\ndef after_llm(text):\n    SEEN.append(text)\n    return str(len(SEEN))\n")
    for _ in range(2):
        with HookHost(surface, LocalSandboxes()) as host:
            assert [host.call("after_llm", "a"), host.call("after_llm", "b")] == ["1", "2"]


def returning(name: str, value: str) -> str:
    parameters = ", ".join(SOLVER_HOOKS[name].parameters)
    tools = 'EXTRA_TOOLS = [{"name": "peek", "description": "x"}]\n' if name == "run_tool" else ""
    return f"{tools}def {name}({parameters}):\n    return {value}\n"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("system_prompt", "None", "the system prompt is a NoneType, not a text"),
        ("system_prompt", "' '", "the system prompt is empty"),
        ("system_prompt", f"'x' * {GROWTH_BYTES + 5}", f"has {GROWTH_BYTES + 5} bytes; at most {GROWTH_BYTES + 4}"),
        ("system_prompt", "'a\\0'", "holds a NUL character"),
        ("system_prompt", "'\\ud800'", "is no valid text"),
        ("before_llm", "[]", "no list with at least one message"),
        ("before_llm", "'x'", "no list with at least one message, but a str"),
        ("before_llm", "[1]", "message 0 is no mapping"),
        ("before_llm", "[{'role': 'user'}]", "message 0 is no mapping with the keys ['content', 'role']"),
        ("before_llm", "[dict(messages[0], name='x')]", "message 0 is no mapping"),
        ("before_llm", "[{'role': 'owner', 'content': ''}]", "has the role 'owner'"),
        ("before_llm", "[{'role': 'user', 'content': 3}]", "message 0 is a int, not a text"),
        ("before_llm", "messages[:1]", "the last message is of the system, not of the user"),
        ("before_llm", "messages * 6", "12 messages came back for 2; at most 8 may be added"),
        ("before_llm", f"[dict(messages[1], content='x' * {GROWTH_BYTES + 3})]", "bytes; at most"),
        ("after_llm", "3", "the reply is a int"),
        ("before_tool", "''", "the command is empty"),
        ("before_tool", "None", "the command is a NoneType"),
        ("before_tool", "{'block': 'a', 'answer': 'b'}", "'block' or 'answer' alone; it has ['answer', 'block']"),
        ("before_tool", "{'deny': 'a'}", "it has ['deny']"),
        ("before_tool", "{'block': ''}", "the text of 'block' is empty"),
        ("before_tool", "{'block': 3}", "the text of 'block' is a int"),
        ("before_tool", f"{{'answer': 'x' * {ANSWER_BYTES + 1}}}", f"at most {ANSWER_BYTES} are taken here"),
        ("after_tool", "['a']", "the output is a list"),
        ("after_tool", f"'x' * {GROWTH_BYTES + 6}", f"at most {GROWTH_BYTES + 5} are taken here"),
        ("on_turn_end", "True", "the note is a bool"),
        ("on_turn_end", "''", "the note is empty"),
        ("on_turn_end", f"'x' * {NOTE_BYTES + 1}", f"at most {NOTE_BYTES} are taken here"),
        ("run_tool", "['ls']", "the command is a list"),
        ("after_llm", "{1}", "not JSON serializable"),
        ("after_llm", "float('nan')", "Out of range float values"),
        ("after_llm", "'x' * 5_000_000", "returned 5000013 characters; at most 2000000 are read"),
    ],
)
def test_what_a_hook_may_not_return_is_an_error_and_the_identity(name: str, value: str, words: str) -> None:
    with hosted(returning(name, value)) as host:
        assert host.call(name, *GIVEN[name]) == IDENTITY[name]
    assert host.errors == 1
    assert words in host.faults[0]


def test_the_largest_allowed_results_are_taken() -> None:
    with hosted(returning("system_prompt", f"'x' * {GROWTH_BYTES + 4}")) as host:
        assert len(host.call("system_prompt", "You.", {"input": "T"})) == GROWTH_BYTES + 4
    with hosted(returning("before_llm", f"[dict(messages[1], content='x' * {GROWTH_BYTES + 2})]")) as host:
        assert len(host.call("before_llm", MESSAGES)[0]["content"]) == GROWTH_BYTES + 2
    with hosted(returning("after_llm", "''")) as host:
        assert host.call("after_llm", "I") == ""


class TestHostileHooks:
    def test_an_endless_loop_costs_three_time_outs_and_not_one_in_every_turn(self, sandboxes: Sandboxes) -> None:
        with hosted("def after_llm(text):\n    while True: pass\n", sandboxes, timeout_s=0.2) as host:
            begun = time.perf_counter()
            assert [host.call("after_llm", "I") for _ in range(30)] == ["I"] * 30
            assert time.perf_counter() - begun < 5.0
        assert host.errors == 30
        assert host.faults[0] == "after_llm: gave no answer within 0.2 s, or its process died"
        assert host.faults[3] == "after_llm: not called: the hooks' process was lost 3 times"

    def test_deep_recursion_is_one_error(self, sandboxes: Sandboxes) -> None:
        with hosted("def after_llm(text):\n    return after_llm(text)\n", sandboxes) as host:
            assert host.call("after_llm", "I") == "I"
        assert host.errors == 1
        assert "RecursionError" in host.faults[0]

    def test_an_endless_value_is_one_error(self) -> None:
        source = "def after_llm(text):\n    nested = []\n    nested.append(nested)\n    return nested\n"
        with hosted(source) as host:
            assert host.call("after_llm", "I") == "I"
        assert "Circular reference" in host.faults[0]

    def test_a_memory_hog_is_an_error_and_is_not_our_memory(self) -> None:
        source = "def after_llm(text):\n    hog = [text]\n    while True: hog += hog\n"
        with hosted(source, kind_of_sandbox("bubblewrap"), timeout_s=10.0) as host:
            assert [host.call("after_llm", "I"), host.call("after_llm", "I")] == ["I", "I"]
        assert host.errors == 2

    @pytest.mark.parametrize(
        "code",
        [
            "__import__('os').getcwd()",
            "open('/etc/passwd').read()",
            "eval('1')",
            "getattr(text, 'upper')()",
            "vars()",
            "type(text)",
            "input()",
            "json.codecs.open('/etc/passwd')",
            "functools.wraps(text)",
            "re.enum.sys",
        ],
    )
    def test_what_slips_through_the_audit_finds_nothing_to_use(self, code: str) -> None:
        source = f"import functools, json, re\ndef after_llm(text):\n    return str({code})\n"
        with HookHost(unaudited(source), LocalSandboxes()) as host:
            assert host.call("after_llm", "I") == "I"
        assert host.errors == 1

    def test_an_import_that_slips_through_the_audit_is_refused(self) -> None:
        for code in ("import os", "from os import path", "import collections.abc, os", "from . import x"):
            with HookHost(unaudited(f"{code}\ndef after_llm(text): return 'done'\n"), LocalSandboxes()) as host:
                assert host.call("after_llm", "I") == "I"
            assert "ImportError: hooks may not import" in host.faults[0]

    def test_what_slips_through_both_fences_is_still_in_the_sandbox(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret.txt"
        secret.write_text("the answer")
        source = f"""
import json
def after_llm(text):
    return json.loads.__globals__["codecs"].open({str(secret)!r}).read()
def after_tool(command, output, exit_code):
    return json.loads.__globals__["codecs"].open("/work/hook_host.py").read()[:9]
"""
        surface = replace(unaudited(source), defined=frozenset({"after_llm", "after_tool"}))
        with HookHost(surface, kind_of_sandbox("bubblewrap")) as host:
            assert host.call("after_tool", "ls", "", 0) == '"""The pr'
            assert host.call("after_llm", "I") == "I"
        assert "FileNotFoundError" in host.faults[0]


class TestLostProcess:
    SOURCE = "SEEN = []\ndef after_llm(text):\n    SEEN.append(text)\n    return str(len(SEEN))\n"

    def test_is_started_again_and_costs_one_error(self) -> None:
        with hosted(self.SOURCE, DoomedSandboxes(lost=(2,))) as host:
            assert [host.call("after_llm", "I") for _ in range(4)] == ["1", "I", "1", "2"]
        assert (host.calls, host.errors) == (4, 1)

    def test_is_given_up_after_three_losses(self) -> None:
        with hosted(self.SOURCE, DoomedSandboxes(lost=(1, 3, 4))) as host:
            assert [host.call("after_llm", "I") for _ in range(6)] == ["I", "1", "I", "I", "I", "I"]
        assert (host.calls, host.errors) == (6, 5)

    def test_that_cannot_be_started_again_is_the_hooks_own_doing(self) -> None:
        with hosted(self.SOURCE, DoomedSandboxes(lost=(2,), starts=1)) as host:
            assert [host.call("after_llm", "I") for _ in range(4)] == ["1", "I", "I", "I"]
        assert (host.calls, host.errors) == (4, 3)
        assert host.faults[1:] == ["after_llm: could not be started again: the work folder is full"] * 2


def test_a_sandbox_that_does_not_start_is_no_fault_of_the_hooks() -> None:
    with hosted("def after_llm(text):\n    return text\n", ClosedSandboxes()) as host:
        with pytest.raises(SandboxError, match="the process for hooks did not start: no room for 1 files"):
            host.call("after_llm", "I")
        assert host.errors == 0


def test_hooks_that_are_not_defined_cost_nothing_and_start_nothing() -> None:
    with HookHost(NO_HOOKS, ClosedSandboxes()) as host:
        assert {name: host.call(name, *args) for name, args in GIVEN.items()} == IDENTITY
    assert (host.calls, host.errors) == (0, 0)


def test_arguments_too_large_to_hand_over_are_one_error() -> None:
    with hosted("def after_llm(text):\n    return text\n") as host:
        huge = "x" * 3_000_001
        assert host.call("after_llm", huge) is huge
        assert host.call("after_llm", "I") == "I"
    assert host.errors == 1
    assert "its arguments have" in host.faults[0]


def test_a_dry_run_loads_the_hooks_and_calls_each_once(sandboxes: Sandboxes) -> None:
    assert dry_run(NO_HOOKS, ClosedSandboxes()) == []
    assert dry_run(audit_hooks("def after_llm(text):\n    return text\n"), sandboxes) == []
    found = dry_run(audit_hooks(RAISING), sandboxes)
    assert [fault.partition(":")[0] for fault in found] == list(SOLVER_HOOKS)
    two = 'EXTRA_TOOLS = [{"name": "a", "description": "x"}, {"name": "b", "description": "x"}]\n'
    picky = two + "def run_tool(name, argument):\n    return {'a': 'ls'}[name]\n"
    assert dry_run(audit_hooks(picky), sandboxes) == ["run_tool: line 3: KeyError: 'b'"]
