"""What the tests of agent benchmarks need of the machine."""

from __future__ import annotations

import pytest

from heldout.sandbox import make_sandboxes


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """Tests that run commands skip, with the reason, where nothing can be run."""
    fault = make_sandboxes("bubblewrap").fault()
    if fault is not None:
        pytest.skip(fault)
