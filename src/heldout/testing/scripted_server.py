"""A real HTTP server on loopback that answers both chat protocols from a script, faults included."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self

__all__ = ["Script", "ScriptedReply", "ScriptedServer", "SeenRequest"]


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One answer of the server, or one of its faults."""

    text: str | None = "ok"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """Sent as the body, instead of a chat completion."""
    delay_s: float = 0.0
    disconnect: Literal["never", "before", "middle"] = "never"
    """`before` any byte of the reply, or in the `middle` of its body."""
    logprobs: Sequence[Mapping[str, float]] | None = None
    """For each token, the likely tokens and their natural-log probabilities."""
    usage: tuple[int, int] | None = (7, 3)
    """Tokens in and out; None leaves the field out."""
    tool_calls: Sequence[tuple[str, str]] = ()
    """Name and arguments of each call, the arguments as text. The messages protocol has no place for malformed ones:
    there they arrive as a text."""
    finish_reason: str | None = None
    """In the protocol's own words; None is what follows from the rest."""
    refusal: str | None = None
    reasoning: str = ""
    """Of the messages protocol: a block of reasoning before the answer, with its signature."""
    cached: tuple[int, int] | None = None
    """Of the messages protocol: input tokens written to the cache and read from it, beside `usage`."""


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Mapping[str, Any]


Script = Sequence[ScriptedReply | str] | Callable[[SeenRequest], ScriptedReply | str]
"""Replies in order (the last one repeats), or a function of the request. A text means that text."""


class ScriptedServer:
    """A context manager: listens on a free port of 127.0.0.1 from entry to exit, several requests at a time."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._seen: list[SeenRequest] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = _LoopbackServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Base URL, for `ModelConfig.url`; requests to `/v1/messages` are answered in the messages protocol."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def requests(self) -> tuple[SeenRequest, ...]:
        """Everything that arrived so far, in order."""
        with self._lock:
            return tuple(self._seen)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _next(self, request: SeenRequest) -> ScriptedReply:
        with self._lock:
            self._seen.append(request)
            index = len(self._seen) - 1
        reply = self._script(request) if callable(self._script) else self._script[min(index, len(self._script) - 1)]
        return ScriptedReply(text=reply) if isinstance(reply, str) else reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else a reply waits 40 ms for its body

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = json.loads(self.rfile.read(length) or b"{}")
                request = SeenRequest(path=self.path, headers=headers, body=body)
                reply = scripted._next(request)
                scripted._wait(reply.delay_s)
                payload = _message if request.path.endswith("/messages") else _completion
                _send(self, reply, json.dumps(payload(reply)).encode() if reply.raw is None else reply.raw)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing on standard error."""

        return Handler

    def _wait(self, delay_s: float) -> None:
        # Not a bare sleep, so that leaving the context never waits for a scripted time-out.
        if delay_s:
            self._stopping.wait(delay_s)


class _LoopbackServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is part of the script; anything else still shows."""
        import sys

        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _send(handler: BaseHTTPRequestHandler, reply: ScriptedReply, body: bytes) -> None:
    handler.close_connection = handler.close_connection or reply.disconnect != "never"
    if reply.disconnect == "before":
        return
    handler.send_response(reply.status)
    for name, value in {"Content-Type": "application/json", **reply.headers}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2] if reply.disconnect == "middle" else body)


def _completion(reply: ScriptedReply) -> dict[str, Any]:
    """The body in the OpenAI chat protocol."""
    if reply.status != 200:
        return {"error": {"message": reply.text, "type": "scripted", "code": reply.status}}
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.refusal is not None:
        message["refusal"] = reply.refusal
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(reply.tool_calls)
        ]
    finish = reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "message": message}
    if reply.logprobs is not None:
        choice["logprobs"] = {"content": [_position(likely) for likely in reply.logprobs]}
    payload: dict[str, Any] = {
        "id": "scripted",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": "scripted",
        "choices": [choice],
    }
    if reply.usage is not None:
        tokens_in, tokens_out = reply.usage
        payload["usage"] = {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        }
    return payload


def _message(reply: ScriptedReply) -> dict[str, Any]:
    """The body in the Anthropic messages protocol."""
    if reply.status != 200:
        return {"type": "error", "error": {"type": "scripted", "message": reply.text}}
    content: list[dict[str, Any]] = []
    if reply.reasoning:
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": "signed"})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    content += [_tool_use(number, name, arguments) for number, (name, arguments) in enumerate(reply.tool_calls)]
    stop = reply.finish_reason or ("tool_use" if reply.tool_calls else "end_turn")
    payload: dict[str, Any] = {
        "id": "scripted",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": "refusal" if reply.refusal is not None else stop,
    }
    if reply.refusal is not None:
        payload["stop_details"] = {"type": "refusal", "category": None, "explanation": reply.refusal}
    if reply.usage is not None:
        payload["usage"] = {"input_tokens": reply.usage[0], "output_tokens": reply.usage[1]}
        if reply.cached is not None:
            written, read = reply.cached
            payload["usage"] |= {"cache_creation_input_tokens": written, "cache_read_input_tokens": read}
    return payload


def _tool_use(number: int, name: str, arguments: str) -> dict[str, Any]:
    try:
        given = json.loads(arguments)
    except ValueError:
        given = arguments
    return {"type": "tool_use", "id": f"toolu-{number}", "name": name, "input": given}


def _position(likely: Mapping[str, float]) -> dict[str, Any]:
    best = max(likely, key=lambda token: likely[token])
    return {
        "token": best,
        "logprob": likely[best],
        "top_logprobs": [{"token": token, "logprob": logprob} for token, logprob in likely.items()],
    }
