"""What the tests of skills need of this machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from skill_parts import workbook

from heldout.errors import SetupError
from heldout.sandbox import make_sandboxes


@pytest.fixture
def bubblewrap() -> None:
    """Skips where bubblewrap does not work."""
    try:
        fault = make_sandboxes("bubblewrap").fault()
    except SetupError as cause:
        fault = str(cause)
    if fault is not None:
        pytest.skip(fault)


@pytest.fixture
def make_book() -> Callable[[], str]:
    """A small workbook in base64."""
    return lambda: workbook({"Data": [["id", "amount"], [1, 10]]})
