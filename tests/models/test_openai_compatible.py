"""The OpenAI-compatible model over real HTTP, against a scripted server and its faults."""

from __future__ import annotations

import math
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from heldout.config import ModelConfig
from heldout.errors import ModelError, SetupError
from heldout.models import Message, Model, Request, check_model, make_model
from heldout.models.endpoint import is_loopback
from heldout.models.openai_compatible import OpenAICompatibleModel
from heldout.testing.model_contract import ModelContract
from heldout.testing.scripted_server import Script, ScriptedReply, ScriptedServer, SeenRequest

KEY = "sk-very-secret-0123456789"
ASK = Request(messages=(Message(role="user", content="Who wrote Hamlet ?"),))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def config_for(url: str, **changes: Any) -> ModelConfig:
    return ModelConfig.model_validate({"name": "openai:tiny", "url": url, "timeout_s": 5.0, **changes})


@contextmanager
def serving(script: Script, **changes: Any) -> Iterator[tuple[OpenAICompatibleModel, ScriptedServer, list[float]]]:
    slept: list[float] = []
    with ScriptedServer(script) as server:
        model = OpenAICompatibleModel(config_for(server.url, **changes), sleep=slept.append)
        yield model, server, slept
        model.close()


class TestContract(ModelContract):
    @pytest.fixture
    def make_model(self) -> Iterator[Callable[[], Model]]:
        def script(request: SeenRequest) -> ScriptedReply:
            return ScriptedReply(
                "Word", logprobs=[{" person": -0.1, "num": -3.0}] if "logprobs" in request.body else None
            )

        with ScriptedServer(script) as server:
            yield lambda: make_model(config_for(server.url))


def test_sends_what_was_asked_and_reads_what_came() -> None:
    request = ASK.model_copy(
        update={"temperature": 0.5, "max_tokens": 9, "seed": 2**31 + 5, "stop": ("\n",), "top_logprobs": 2}
    )
    reply_script = ScriptedReply("Shakespeare", usage=(12, 4), logprobs=[{"Sh": -0.25, "Mar": -1.5}])
    with serving([reply_script]) as (model, server, _):
        reply = model.complete(request)
    (seen,) = server.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Who wrote Hamlet ?"}],
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 5,
        "stop": ["\n"],
        "logprobs": True,
        "top_logprobs": 2,
    }
    assert (reply.text, reply.tokens_in, reply.tokens_out, reply.calls) == ("Shakespeare", 12, 4, 1)
    assert reply.top_logprobs == ({"Sh": -0.25, "Mar": -1.5},)


def test_settings_left_open_are_the_configs_and_options_reach_the_body() -> None:
    options = {"token_limit": "max_completion_tokens", "extra_body": {"continue_final_message": True}}
    with serving(["x"], temperature=0.7, max_tokens=33, options=options) as (model, server, _):
        model.complete(ASK.model_copy(update={"grammar": 'root ::= "a"', "json_schema": {"type": "object"}}))
    body = server.requests[0].body
    assert (body["temperature"], body["max_completion_tokens"], body["seed"]) == (0.7, 33, 0)
    assert "max_tokens" not in body
    assert (body["continue_final_message"], body["grammar"]) == (True, 'root ::= "a"')
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_chooses_from_the_first_tokens() -> None:
    likely = {" Person": math.log(0.5), "per": math.log(0.25), " the": math.log(0.2)}
    with serving([ScriptedReply("P", logprobs=[likely])]) as (model, server, _):
        reply = model.complete(ASK.model_copy(update={"choices": ("person", "number")}))
    assert reply.choice_logprobs == {"person": pytest.approx(math.log(0.75)), "number": -100.0}
    assert (server.requests[0].body["max_tokens"], server.requests[0].body["top_logprobs"]) == (1, 20)


def test_choosing_without_logprobs_says_what_to_do() -> None:
    with serving(["Person"]) as (model, _, _), pytest.raises(ModelError, match=r"solver\.answer=generate"):
        model.complete(ASK.model_copy(update={"choices": ("person", "number")}))


@pytest.mark.parametrize(
    "fault",
    [
        ScriptedReply("slow down", status=429),
        ScriptedReply("oh", status=500),
        ScriptedReply("oh", status=502),
        ScriptedReply("loading", status=503),
        ScriptedReply("oh", status=504),
        ScriptedReply(disconnect="before"),
        ScriptedReply(disconnect="middle"),
        ScriptedReply(raw=b"<html>not json"),
        ScriptedReply(raw=b"{}"),
        ScriptedReply(raw=b'{"choices": []}'),
        ScriptedReply(raw=b"[1]"),
        ScriptedReply(text=None),
    ],
)
def test_a_passing_fault_is_tried_again_and_counted(fault: ScriptedReply) -> None:
    with serving([fault, fault, "fine"]) as (model, server, slept):
        reply = model.complete(ASK)
    assert (reply.text, reply.calls, len(server.requests), len(slept)) == ("fine", 3, 3, 2)
    assert 0.25 <= slept[0] < 0.5 <= slept[1] < 1.0


def test_retry_after_is_honoured() -> None:
    with serving([ScriptedReply(status=429, headers={"Retry-After": "9"}), "fine"]) as (model, _, slept):
        model.complete(ASK)
    assert slept == [9.0]


def test_a_429_forever_is_not_measured_after_every_attempt() -> None:
    with serving([ScriptedReply("slow down", status=429)], retries=2) as (model, server, _):
        with pytest.raises(ModelError, match=r"HTTP 429: .*slow down.*attempt 3 of 3"):
            model.complete(ASK)
        assert len(server.requests) == 3


def test_garbage_forever_is_a_model_error() -> None:
    endless = serving([ScriptedReply(raw=b"\x00\xff")], retries=1)
    with endless as (model, _, _), pytest.raises(ModelError, match=r"no chat completion.*attempt 2 of 2"):
        model.complete(ASK)


def test_a_silent_server_times_out() -> None:
    with serving([ScriptedReply(delay_s=30.0), "fine"], timeout_s=0.2) as (model, _, _):
        started = time.monotonic()
        assert model.complete(ASK).calls == 2
    assert time.monotonic() - started < 5.0


def test_a_refused_request_is_not_tried_again() -> None:
    refusing = serving([ScriptedReply("context too long", status=400)])
    with refusing as (model, server, slept), pytest.raises(ModelError, match=r"HTTP 400.*context too long"):
        model.complete(ASK)
    assert (len(server.requests), slept) == (1, [])


@pytest.mark.parametrize(("status", "named"), [(401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "'tiny'")])
def test_what_the_user_can_mend_is_a_setup_error(status: int, named: str) -> None:
    with serving([ScriptedReply("no", status=status)]) as (model, server, slept):
        with pytest.raises(SetupError, match=named) as caught:
            model.complete(ASK)
        assert server.url in str(caught.value)
    assert (len(server.requests), slept) == (1, [])


def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    model = OpenAICompatibleModel(config_for("https://models.example.org/v1", api_key_env="OTHER_KEY"))
    with pytest.raises(SetupError, match="OTHER_KEY"):
        model.complete(ASK)


def test_loopback_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving(["fine"]) as (model, _, _):
        assert model.complete(ASK).text == "fine"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_the_key_is_in_no_error_repr_pickle_or_fingerprint(status: int) -> None:
    with serving([ScriptedReply(f"bad key {KEY}", status=status)], retries=0) as (model, _, _):
        with pytest.raises((ModelError, SetupError)) as caught:
            model.complete(ASK)
        shown = [repr(model), repr(vars(model)), model.fingerprint, pickle.dumps(model).decode("latin-1")]
    error: BaseException | None = caught.value
    assert error is not None
    assert error.__suppress_context__ or error.__context__ is None
    assert KEY not in str(error)
    assert all(KEY not in text for text in shown)


def test_odd_keys_are_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-one\nsk-two")
    with serving(["x"]) as (model, _, _), pytest.raises(SetupError, match="odd characters") as caught:
        model.complete(ASK)
    assert "sk-one" not in str(caught.value)


def test_missing_usage_counts_nothing_and_unknown_content_of_a_cut_off_reply_is_empty() -> None:
    cut = b'{"choices": [{"message": {"content": null}, "finish_reason": "length"}]}'
    with serving([ScriptedReply("hi", usage=None), ScriptedReply(raw=cut)]) as (model, _, _):
        replies = [model.complete(ASK), model.complete(ASK)]
    assert [(reply.text, reply.tokens_in, reply.tokens_out) for reply in replies] == [("hi", 0, 0), ("", 0, 0)]


def test_fingerprint_follows_what_changes_answers_and_not_patience() -> None:
    def fingerprint(**changes: Any) -> str:
        return OpenAICompatibleModel(config_for("http://127.0.0.1:1/v1", **changes)).fingerprint

    base = fingerprint()
    assert fingerprint(timeout_s=9.0, retries=0, api_key_env="X") == base
    different = [fingerprint(temperature=0.5), fingerprint(max_tokens=3), fingerprint(name="openai:other")]
    assert len({base, *different}) == 4


def test_bad_settings_say_what_is_allowed() -> None:
    with pytest.raises(SetupError, match="names no model"):
        make_model(ModelConfig(name="openai"))
    with pytest.raises(SetupError, match="can_choose, choice_tokens"):
        make_model(config_for("http://127.0.0.1:1", options={"choise": 1}))


def test_an_unreachable_url_fails_fast_at_first_and_is_retried_once_it_was_reached() -> None:
    with serving(["fine"], retries=1) as (model, server, slept):
        model.complete(ASK)
        url = server.url
    slept.clear()
    with pytest.raises(ModelError, match="attempt 2 of 2"):
        model.complete(ASK)
    assert len(slept) == 1
    fresh = OpenAICompatibleModel(config_for(url), sleep=slept.append)
    with pytest.raises(ModelError, match="is the server running"):
        fresh.complete(ASK)
    assert len(slept) == 1
    model.close()
    fresh.close()


def test_check_turns_every_first_failure_into_wrong_use() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    for script, named in (
        ([ScriptedReply(status=401)], "OPENAI_API_KEY"),
        ([ScriptedReply(status=404)], "tiny"),
        ([ScriptedReply(raw=b"garbage")], "no chat completion"),
    ):
        with serving(script, retries=0) as (model, _, _), pytest.raises(SetupError, match=named):
            check_model(model)
    model = OpenAICompatibleModel(config_for(closed))
    with pytest.raises(SetupError, match="is the server running"):
        check_model(model)
    model.close()


def test_check_passes_a_working_model_and_asks_for_choices_only_where_told() -> None:
    with serving(["yes"]) as (model, _, _):
        check_model(model)
        with pytest.raises(SetupError, match="log-probabilities"):
            check_model(model, choose=True)
    unable = serving(["yes"], options={"can_choose": False})
    with unable as (model, _, _), pytest.raises(SetupError, match="cannot choose"):
        check_model(model, choose=True)


def test_openais_key_and_headers_go_to_openai_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = OpenAICompatibleModel(config_for("https://models.example.org/v1"))
    with pytest.raises(SetupError, match=r"OPENAI_API_KEY is not sent to https://models\.example\.org"):
        foreign.complete(ASK)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-private")
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    with ScriptedServer([ScriptedReply()]) as server:
        model = OpenAICompatibleModel(config_for(server.url, api_key_env="OTHER_KEY"))
        model.complete(ASK)
        model.close()
        headers = server.requests[0].headers
    assert "org-private" not in headers.values()
    assert headers["authorization"] == "Bearer sk-other"


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://localhost/v1", True),
        ("http://127.evil.example/v1", False),
        ("http://localhost.evil.example/v1", False),
        ("http://192.168.0.1/v1", False),
    ],
)
def test_a_name_that_begins_like_loopback_is_not_loopback(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback
