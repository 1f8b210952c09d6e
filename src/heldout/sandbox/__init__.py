"""Where untrusted code runs: bubblewrap by default, Docker as an option; both fail closed."""

from __future__ import annotations

from collections.abc import Mapping

from heldout import registry
from heldout.sandbox.base import Completed, Conversation, Limits, Sandbox, Sandboxes, Scene

__all__ = ["SANDBOXES", "Completed", "Conversation", "Limits", "Sandbox", "Sandboxes", "Scene", "make_sandboxes"]

SANDBOXES: Mapping[str, str] = {
    "bubblewrap": "heldout.sandbox.bubblewrap:Bubblewrap",
    "docker": "heldout.sandbox.docker:Docker",
}
"""Short names of the kinds of sandbox."""


def make_sandboxes(name: str) -> Sandboxes:
    """The kind of sandbox that `name` means: a built-in or `package.module:Class`, called without arguments."""
    made: Sandboxes = registry.load(name, among=SANDBOXES, what="sandbox")()
    return made
