"""A pinned beginning against a cold evaluation of every prompt: seconds a question, and how many replies differ.

python bench/smollm2.py [examples]
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from typing import Any

from heldout.config import ModelConfig, TasksConfig
from heldout.harness import Demonstration, Prompt, fixed_messages
from heldout.models import Message, Request
from heldout.models.smollm2 import SmolLM2Model
from heldout.records import Candidate
from heldout.tasks import load_source

QUESTIONS = 24


def main() -> None:
    examples = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    source = load_source(TasksConfig(source="questions"))
    items = source.items()
    shown = tuple(Demonstration(input=item.input, output=item.reference) for item in items[:examples])
    fixed = tuple(fixed_messages(Candidate(files=Prompt(source.instruction, shown).files())))
    requests = [
        Request(messages=(*fixed, Message(role="user", content=item.input)), choices=source.labels)
        for item in items[examples : examples + QUESTIONS]
    ]
    model = SmolLM2Model(ModelConfig(name="smollm2"))
    model.complete(requests[0])
    cold = pickle.loads(pickle.dumps(model))  # a copy shares the server and evaluates every prompt from cold
    pinned_s, pinned = _timed(model, requests)
    cold_s, expected = _timed(cold, requests)
    cold.close()
    model.close()
    answer = {
        "examples": examples,
        "questions": QUESTIONS,
        "pinned_s_a_question": round(pinned_s, 3),
        "cold_s_a_question": round(cold_s, 3),
        "times_quicker": round(cold_s / pinned_s, 1),
        "replies_that_differ": sum(a != b for a, b in zip(pinned, expected, strict=True)),
    }
    print(json.dumps(answer, indent=2))


def _timed(model: SmolLM2Model, requests: list[Request]) -> tuple[float, list[Any]]:
    begun = time.perf_counter()
    replies = [model.complete(request).choice_logprobs for request in requests]
    return (time.perf_counter() - begun) / len(requests), replies


if __name__ == "__main__":
    main()
