"""A served model of known skill: it answers the two-class tasks of `rows_file` over real HTTP, faults included."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from heldout.store import RunFolder, read_events
from heldout.testing.scripted_server import ScriptedReply, SeenRequest

__all__ = [
    "DOWN",
    "SECRET",
    "Fault",
    "asked",
    "is_check",
    "kinds",
    "served",
    "shown",
    "skilled",
    "skilled_by_rows",
    "spent",
]

SECRET = "sk-this-must-never-be-seen-4711"

DOWN = ScriptedReply(text="the server is down", status=500)

Fault = Callable[[SeenRequest], ScriptedReply | None]
"""What to answer instead, or None."""


def served(url: str, **model: Any) -> dict[str, Any]:
    """The part of a config that names a scripted server; nothing is retried unless the test says so."""
    settings = {"name": "openai:test", "url": url, "retries": 0, "timeout_s": 20, "max_tokens": 8, **model}
    return {"solver": {"model": settings, "answer": "generate"}}


def skilled(rows: Path, *, fault: Fault | None = None, delay_s: float = 0.0) -> Callable[[SeenRequest], ScriptedReply]:
    """Right on four tasks in ten without demonstrations, and on one more for each of them.

    Which tasks it can solve grows with the demonstrations, so a demonstration never breaks a task.
    """
    key = {row["input"]: row["reference"] for row in map(json.loads, rows.read_text().splitlines())}

    def answer(request: SeenRequest) -> ScriptedReply:
        instead = None if fault is None or is_check(request) else fault(request)
        if instead is not None:
            return instead
        text = asked(request)
        shown = (len(request.body["messages"]) - 2) // 2
        luck = int(hashlib.blake2b(text.encode(), digest_size=4).hexdigest(), 16) % 10
        right = key.get(text, "yes")
        wrong = "small" if right == "big" else "big"
        return ScriptedReply(text=right if luck < 4 + shown else wrong, delay_s=delay_s)

    return answer


def asked(request: SeenRequest) -> str:
    """The last message: a task's text, or the question that every opening begins with."""
    return str(request.body["messages"][-1]["content"])


def is_check(request: SeenRequest) -> bool:
    """Whether this is the first question of an opening."""
    return asked(request) == "Answer yes or no."


def spent(folder: RunFolder) -> Mapping[str, float]:
    """What the journal says was spent in all: calls, tokens, dollars."""
    total = {"calls": 0.0, "tokens": 0.0, "cost_usd": 0.0, "evaluations": 0.0}
    for event in read_events(folder.events):
        if event.kind in ("outcome", "prepared", "proposal"):
            spend = event.data.get("spend", {})
            total["calls"] += spend.get("calls", 0)
            total["tokens"] += spend.get("tokens_in", 0) + spend.get("tokens_out", 0)
            total["cost_usd"] += spend.get("cost_usd", 0.0)
            total["evaluations"] += spend.get("evaluations", 0)
    return total


def skilled_by_rows(
    rows: Path, tiny: Callable[[], object], fault: Fault | None = None, **more: Any
) -> Callable[[SeenRequest], ScriptedReply]:
    tiny()  # writes the rows
    return skilled(rows, fault=fault, **more)


def kinds(folder: RunFolder) -> list[str]:
    return [event.kind for event in read_events(folder.events)]


def shown(request: SeenRequest) -> bool:
    """Whether the request has demonstrations, as those of the start have not."""
    return len(request.body["messages"]) > 2
