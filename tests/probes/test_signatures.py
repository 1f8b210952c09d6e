"""Failure signatures: known answers for masks, error lines and the order of what counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from probe_parts import failed_trace, trace

from heldout.harness.base import Replayed
from heldout.harness.observations import observe
from heldout.harness.steps import Step
from heldout.probes import Trace, signature
from heldout.probes.signatures import ending, error_class, error_line, masked, replayed_classes
from heldout.records import TrainTask
from heldout.sandbox import Completed

TRACEBACK = """Traceback (most recent call last):
  File "/work/check.py", line 12, in <module>
    main()
  File "/work/shop/cart.py", line 40, in total
    raise ValueError(f"bad price {price!r}")
ValueError: bad price 'abc' at 0x7f3a2c in shop/cart.py line 40"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("KeyError: 'price'", "KeyError: <str>"),
        ("can't open file '/work/x.py'", "can't open file <str>"),
        ("No such file: /work/shop/cart.py", "No such file: <path>"),
        ("see ../shop/cart.py and ~/notes.md", "see <path> and <path>"),
        ("cart.py:40: expected 3.50, got -4", "<path>:<n>: expected <n>, got <n>"),
        ("object at 0x7F3a2c", "object at <hex>"),
        ("commit 9f8e7d6c5b4a", "commit <hex>"),
        ("took 1.5e-3 s in test_17", "took <n> s in test_<n>"),
        ("'it's here", "'it's here"),
        ("  two\n lines ", "two lines"),
        ("expected “one” but `two`", "expected <str> but <str>"),
    ],
)
def test_what_is_incidental_is_masked(text: str, expected: str) -> None:
    assert masked(text) == expected


def test_a_signature_has_at_most_120_characters() -> None:
    assert masked("word " * 60) == ("word " * 60)[:120]
    assert len(signature(failed_trace("f1", ("run", "ValueError: " + "long " * 90, 1)))) == 120


def test_of_a_line_without_end_only_the_beginning_is_masked() -> None:
    endless = "'" + "a" * 12_000 + "'"
    assert masked(endless) == endless[:120], "masking all of it would take time that grows with the square"
    assert masked("'" + "a" * 1_000 + "' was not found") == "<str> was not found"


@given(st.text(max_size=300))
def test_masking_never_fails_and_hides_every_ascii_digit(text: str) -> None:
    found = masked(text)
    assert len(found) <= 120
    assert "\n" not in found
    assert not set(found) & set("0123456789")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (TRACEBACK, "ValueError: bad price 'abc' at 0x7f3a2c in shop/cart.py line 40"),
        ("E   AssertionError: assert 3 == 4\n1 failed in 0.02s", "AssertionError: assert 3 == 4"),
        ("E       assert 3 == 4\nshort test summary\n1 failed", "AssertionError: assert 3 == 4"),
        ("FAILED tests/test_a.py::test_b - IndexError: list index\n1 failed", "IndexError: list index"),
        ("FAILED test_a.py::test_b - assert 1 == 2", "AssertionError: assert 1 == 2"),
        ("heading\n/usr/bin/grep: unrecognized option '--x'\nTry more", "grep: unrecognized option '--x'"),
        ("bash: line 1: foo: command not found\n(exit code 127)", "bash: line 1: foo: command not found"),
        ("one\ntwo\nexit code: 1", "two"),
        ("shop.errors.PriceError: no", "PriceError: no"),
        ("grep: invalid option -- 'Z'\nUsage: grep [OPTION]...\nTry 'grep --help'", "grep: invalid option -- 'Z'"),
        ("", ""),
    ],
)
def test_the_line_that_says_what_went_wrong(output: str, expected: str) -> None:
    assert error_line(output) == expected


def test_the_order_is_episode_then_command_then_grader() -> None:
    ran = ("python check.py", TRACEBACK, 1)
    crashed = failed_trace("f1", ran, error="step limit: 30 turns", feedback="AssertionError: no")
    assert ending(crashed).origin == "episode"
    assert signature(crashed) == "step limit: <n> turns"
    failed = failed_trace("f1", ran, feedback="AssertionError: no")
    assert ending(failed).origin == "command"
    assert signature(failed) == "ValueError: bad price <str> at <hex> in <path> line <n>"
    assert error_class(signature(failed)) == "ValueError"
    judged = failed_trace("f1", ("ls", "cart.py", 0), feedback="E   AssertionError: total 3 is wrong")
    assert ending(judged).origin == "grader"
    assert signature(judged) == "AssertionError: total <n> is wrong"


def test_a_failure_that_the_same_command_overcame_later_is_not_how_the_trace_ended() -> None:
    red, green = ("python check.py", TRACEBACK, 1), ("python check.py", "ok", 0)
    overcome = failed_trace("f1", red, ("sed mend", "", 0), green, feedback="AssertionError: hidden")
    assert signature(overcome) == "AssertionError: hidden"
    again = failed_trace("f1", red, green, red, feedback="AssertionError: hidden")
    assert signature(again).startswith("ValueError")


def test_the_last_failing_command_counts_and_a_silent_one_only_where_nobody_says_more() -> None:
    two = failed_trace("f1", ("a", "KeyError: 'x'", 1), ("b", "TypeError: no", 1))
    assert signature(two) == "TypeError: no"
    silent = ("grep nothing", "", 1)
    assert signature(failed_trace("f1", ("a", "KeyError: 'x'", 1), silent)) == "KeyError: <str>"
    assert signature(failed_trace("f1", silent, feedback="")) == "exit 1"
    assert signature(failed_trace("f1", ("true", "", 0), feedback=" ")) == "wrong answer"


def test_a_killed_command_names_its_signal_unless_it_says_more() -> None:
    assert signature(failed_trace("f1", ("sleep 99", "still here", 137))) == "killed: signal 9"
    assert signature(failed_trace("f1", ("x", "MemoryError: 5", 137))) == "MemoryError: <n>"


def test_what_a_tool_loop_adds_to_an_output_is_not_an_error_line() -> None:
    cap = 200
    done = Completed(exit_code=1, output="")
    long = "\n".join(f"row {number}" for number in range(90))
    assert error_line(observe(done, "KeyError: 'a'", cap_bytes=cap)) == "KeyError: 'a'"
    assert error_line(observe(done, "", cap_bytes=cap)) == ""
    assert error_line(observe(done, long + "\n", cap_bytes=cap)) == "row 89"
    killed = Completed(exit_code=137, output="", killed="time")
    assert error_line(observe(killed, "", cap_bytes=cap)) == ""
    assert signature(failed_trace("f1", ("sleep", observe(killed, "", cap_bytes=cap), 137))) == "killed: signal 9"
    silent = ("grep x", observe(done, "", cap_bytes=cap), 1)
    assert signature(failed_trace("f1", silent, feedback="ValueError: no")) == "ValueError: no"


def test_a_format_error_at_the_end_is_how_an_episode_ended() -> None:
    steps = (Step(kind="command", command="ls", exit_code=0), Step(kind="format_error", text="hm"))
    ended = Trace(TrainTask(id="f1", input="x"), False, steps, "wrong")
    assert signature(ended) == "format error"


@pytest.mark.parametrize("passed", [True, None])
def test_what_did_not_fail_has_no_signature(passed: bool | None) -> None:
    assert signature(Trace(TrainTask(id="t", input="x"), passed, (), "", "crash")) == ""
    assert signature(trace("p1", "ls")) == ""


def test_a_replay_is_read_by_the_same_rules() -> None:
    commands = ("check", "mend", "check", "grep", "other")
    replayed = Replayed(
        answer=None,
        outputs=("ValueError: 1", "", "fine", "", "KeyError: 'a'"),
        exit_codes=(1, 0, 0, 1, 1),
    )
    assert replayed_classes(commands, replayed) == {"KeyError"}
