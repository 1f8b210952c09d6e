"""What a run sets of the tool loop, and what a candidate's loop.toml may change."""

from __future__ import annotations

import pytest

from heldout.errors import HarnessError, SetupError
from heldout.harness.loop_settings import LOOP_RANGES, LoopSettings, ToolLoopOptions, read_loop_file
from heldout.options import read_options


def test_a_candidate_may_shrink_the_turns_and_move_the_rest_within_their_ranges() -> None:
    options = ToolLoopOptions(max_turns=20, obs_cap=4096, keep_full_turns=12)
    assert options.settings({}) == LoopSettings(20, 4096, 12)
    declared = read_loop_file("max_turns = 9\nobs_cap = 12288\nkeep_full_turns = 4\n")
    assert options.settings(declared) == LoopSettings(9, 12288, 4)
    assert options.settings({"max_turns": 90}).max_turns == 20


@pytest.mark.parametrize("key", LOOP_RANGES)
def test_both_ends_of_a_range_are_allowed_and_what_lies_beyond_is_refused_with_the_range(key: str) -> None:
    low, high = LOOP_RANGES[key]
    assert read_loop_file(f"{key} = {low}") == {key: low}
    assert read_loop_file(f"{key} = {high}") == {key: high}
    for value in (str(low - 1), str(high + 1), f"{low}.0", "true", f'"{low}"'):
        with pytest.raises(HarnessError, match=rf"{key} = .* is no whole number from {low} to {high}"):
            read_loop_file(f"{key} = {value}")


@pytest.mark.parametrize("text", ["max_turns = ", "[" * 900, "x = " + "9" * 5000])
def test_what_is_no_toml_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match=r"harness_code/loop\.toml cannot be read as TOML"):
        read_loop_file(text)


def test_an_unknown_setting_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(HarnessError, match=r"no setting 'wall_s'; allowed are max_turns \(1 to 100\), obs_cap \(1024"):
        read_loop_file("wall_s = 9")


def test_the_runs_options_are_checked_and_say_what_is_allowed() -> None:
    with pytest.raises(SetupError, match=r"max_turn: .*; allowed are sandbox, max_turns"):
        read_options(ToolLoopOptions, {"max_turn": 3}, where="the harness 'tool_loop'")
    with pytest.raises(SetupError, match="obs_cap: Input should be less than or equal to 12288"):
        read_options(ToolLoopOptions, {"obs_cap": 20000}, where="the harness 'tool_loop'")
    assert len(ToolLoopOptions.model_fields) <= 12
