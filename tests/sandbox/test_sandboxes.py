"""Both kinds of sandbox keep the contract; each is skipped where its machine part does not work, with the reason."""

from __future__ import annotations

import pytest

from heldout.sandbox import SANDBOXES, Sandboxes, make_sandboxes
from heldout.testing.sandbox_contract import SandboxContract


@pytest.fixture(params=sorted(SANDBOXES), scope="module")
def sandboxes(request: pytest.FixtureRequest) -> Sandboxes:
    made = make_sandboxes(request.param)
    fault = made.fault()
    if fault is not None:
        pytest.skip(fault)
    return made


class TestSandboxes(SandboxContract):
    """The contract."""
