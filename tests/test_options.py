"""Options of plug-ins: every fault with its place, and the keys of the table that it is in."""

from __future__ import annotations

import pytest

from heldout.errors import SetupError
from heldout.options import read_options
from heldout.records import Record


class Inner(Record):
    steps: int = 1


class Outer(Record):
    inner: Inner = Inner()
    rounds: int = 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"turns": 3}, r"x: turns: Extra .* permitted; allowed are inner, rounds$"),
        ({"inner": {"step": 3}}, r"x: inner\.step: Extra .* permitted; allowed in inner are steps$"),
        ({"rounds": "many"}, r"x: rounds: .*integer.*; allowed are inner, rounds$"),
        (
            {"turns": 3, "inner": {"step": 3}},
            r"inner\.step: .*turns: .*; allowed in inner are steps; allowed are inner, rounds$",
        ),
    ],
)
def test_a_wrong_key_is_told_with_the_keys_of_its_own_table(options: dict[str, object], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        read_options(Outer, options, where="x")
