"""What a model is shown of a command: known answers of truncation, elision, the protocol and the conversation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.harness.context import Context
from heldout.harness.hook_surface import ExtraTool
from heldout.harness.observations import HEADER_BYTES, LINE_BYTES, elide, observe, truncate
from heldout.harness.protocol import COMMAND_BYTES, is_submission, read_command, rules
from heldout.sandbox import Completed


def done(output: str = "", exit_code: int = 0, killed: str = "") -> Completed:
    return Completed.model_validate({"exit_code": exit_code, "output": output, "killed": killed})


def test_a_long_output_keeps_its_head_and_its_tail_and_says_what_is_missing() -> None:
    text = "h" * 1000 + "t" * 1000
    # Of a cap of 1024 the mark takes 64, so 480 bytes of each end stay and 2000 - 960 are missing.
    assert truncate(text, 1024) == "h" * 480 + "\n[... 1040 of 2000 bytes left out ...]\n" + "t" * 480
    assert truncate("x" * 1024, 1024) == "x" * 1024


def test_truncation_cuts_between_characters() -> None:
    # Three bytes each: 480 is a multiple of 3, and with one byte before them the cut falls inside a character.
    shown = truncate("a" + "€" * 1000, 1024)
    assert shown == "a" + "€" * 159 + "\n[... 2043 of 3001 bytes left out ...]\n" + "€" * 160


@given(st.text(max_size=3000), st.integers(1024, 4096))
def test_truncation_never_passes_the_cap_and_leaves_short_texts_alone(text: str, cap: int) -> None:
    shown = truncate(text * 3, cap)
    assert len(shown.encode()) <= cap
    assert (shown == text * 3) == (len(text.encode()) * 3 <= cap)


def test_an_observation_is_the_exit_code_and_the_output() -> None:
    assert observe(done(), "two\n", cap_bytes=1024) == "exit code 0\ntwo\n"
    assert observe(done(exit_code=3), "", cap_bytes=1024) == "exit code 3\n(no output)"
    killed = observe(done(exit_code=137, killed="time"), "half", cap_bytes=1024)
    assert killed == "exit code 137 (killed: it passed the limit of time)\nhalf"
    assert len(observe(done(exit_code=255, killed="processes"), "x" * 9999, cap_bytes=1024)) <= 1024 + HEADER_BYTES


def test_an_old_observation_is_one_line_that_keeps_the_exit_code() -> None:
    assert elide("exit code 1\nTraceback\nboom\n") == "exit code 1 [... 16 bytes of an older turn left out ...]"
    assert elide("no rm here") == "no rm here"
    long = "x" * 5000
    assert elide(long) == "x" * 80 + " [... 4920 bytes of an older turn left out ...]"
    assert len(elide("€" * 5000).encode()) <= LINE_BYTES


class TestReadCommand:
    def test_reads_the_one_block(self) -> None:
        assert read_command("I look.\n\n```bash\nls -l\ncat a\n```\nDone.").command == "ls -l\ncat a"
        assert read_command("```sh\nls\n```").command == "ls"
        assert read_command("```bash\r\nls\r\n```\r\n").command == "ls"

    def test_other_blocks_are_only_shown(self) -> None:
        assert read_command("Like this:\n```python\nx = 1\n```\n```bash\nls\n```").command == "ls"

    def test_a_longer_fence_may_hold_a_shorter_one(self) -> None:
        text = "````bash\ncat > r.md <<'E'\n```bash\nls\n```\nE\n````"
        assert read_command(text).command == "cat > r.md <<'E'\n```bash\nls\n```\nE"

    def test_reasoning_is_not_read(self) -> None:
        assert read_command("<think>\n```bash\nrm -r .\n```\n</think>\n```bash\nls\n```").command == "ls"

    @pytest.mark.parametrize(
        ("text", "cut", "words"),
        [
            ("I am done.", False, "holds no command block"),
            ("", False, "is empty"),
            (" \n", False, "is empty"),
            ("```bash\nls\n```\n```bash\npwd\n```", False, "holds 2 command blocks"),
            ("```bash\n\n```", False, "block of your reply is empty"),
            ("```bash\nls\n", False, "has no closing fence"),
            ("```bash\nls\n", True, "was cut off"),
            ("thinking …", True, "was cut off"),
            ("```python\nprint(1)\n```", False, "holds no command block"),
            ("```bash\nprintf '\0'\n```", False, "NUL character"),
            (f"```bash\n: {'x' * COMMAND_BYTES}\n```", False, "longer than 100000 bytes"),
        ],
    )
    def test_says_what_is_wrong_and_what_is_wanted(self, text: str, cut: bool, words: str) -> None:
        reading = read_command(text, cut=cut)
        assert reading.command is None
        assert words in reading.fault
        assert "Give exactly one command" in reading.fault
        assert len(reading.fault) < 300


@pytest.mark.parametrize(
    ("output", "exit_code", "submitted"),
    [
        ("HELDOUT_SUBMIT\n", 0, True),
        ("5 passed\nHELDOUT_SUBMIT\n", 0, True),
        ("HELDOUT_SUBMIT\ngoodbye\n", 0, True),
        ("HELDOUT_SUBMIT\n", 1, False),
        ("a\nHELDOUT_SUBMIT\nb\n", 0, False),
        ("run echo HELDOUT_SUBMIT at the end\n", 0, False),
        ("", 0, False),
    ],
)
def test_a_submission_is_the_marker_at_an_end_of_a_command_that_succeeded(
    output: str, exit_code: int, submitted: bool
) -> None:
    assert is_submission(done(output, exit_code)) is submitted


def test_the_rules_name_the_limits_the_marker_and_the_extra_commands() -> None:
    text = rules(max_turns=7, command_timeout_s=30.0, tools=(ExtraTool("peek", "Shows a file."),))
    for words in (
        "at most 7 turns",
        "30 seconds",
        "```bash",
        "echo HELDOUT_SUBMIT",
        "- `peek ARGUMENT`: Shows a file.",
    ):
        assert words in text
    assert "peek" not in rules(max_turns=7, command_timeout_s=30.0)


class TestContext:
    def test_older_observations_than_the_newest_full_turns_are_one_line_each(self) -> None:
        context = Context("S", "T", keep_full_turns=4)
        for turn in range(6):
            context.add(f"reply {turn}", f"exit code {turn}\n{'x' * 100}")
        shown = [message.content for message in context.messages if message.role == "user"]
        assert shown[0] == "T"
        assert shown[1] == "exit code 0 [... 101 bytes of an older turn left out ...]"
        assert shown[2] == "exit code 1 [... 101 bytes of an older turn left out ...]"
        assert shown[3:] == [f"exit code {turn}\n{'x' * 100}" for turn in range(2, 6)]
        replies = [message.content for message in context.messages if message.role == "assistant"]
        assert replies == [f"reply {turn}" for turn in range(6)]

    def test_roles_alternate_whatever_is_noted_or_left_unsaid(self) -> None:
        context = Context("S", "T", keep_full_turns=4)
        context.add("", "shown")
        context.note("and mind the tests")
        assert [(message.role, message.content) for message in context.messages] == [
            ("system", "S"),
            ("user", "T"),
            ("assistant", "(nothing)"),
            ("user", "shown\n\nand mind the tests"),
        ]

    def test_a_turn_copies_no_earlier_message(self) -> None:
        context = Context("S", "T", keep_full_turns=4)
        context.add("a", "b")
        before = list(context.messages)
        context.add("c", "d")
        assert all(now is then for now, then in zip(context.messages, before, strict=False))
