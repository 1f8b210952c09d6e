"""The embedded job of `heldout quickstart`."""

from __future__ import annotations

from typing import Any

from heldout.errors import SetupError

__all__ = ["quickstart_config"]

QUICKSTART_MODELS = ("smollm2", "simulated")


def quickstart_config(model: str) -> dict[str, Any]:
    """Settings of the quickstart on `smollm2` (about two minutes on two cores) or `simulated` (seconds)."""
    if model not in QUICKSTART_MODELS:
        raise SetupError(f"quickstart has no model {model!r}; there is {', '.join(QUICKSTART_MODELS)}")
    return {
        "loop": "winners_curse",
        "tasks": {"source": "questions", "train": 64, "select": 48, "audit": 160},
        "solver": {"model": {"name": model}, "answer": "choose"},
        "improver": {"kind": "demonstrations"},
        "search": {"generations": 3, "candidates": 4},
        "gate": {"kind": "greedy"},
        "noise": {"tasks": 12, "simulations": 400},
    }
