"""A real HTTP server on loopback that answers chat completions from a script, faults included."""

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
        """Base URL, for `ModelConfig.url`."""
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
                reply = scripted._next(SeenRequest(path=self.path, headers=headers, body=body))
                scripted._wait(reply.delay_s)
                _send(self, reply)

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


def _send(handler: BaseHTTPRequestHandler, reply: ScriptedReply) -> None:
    body = reply.raw if reply.raw is not None else json.dumps(_payload(reply)).encode()
    handler.close_connection = handler.close_connection or reply.disconnect != "never"
    if reply.disconnect == "before":
        return
    handler.send_response(reply.status)
    for name, value in {"Content-Type": "application/json", **reply.headers}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2] if reply.disconnect == "middle" else body)


def _payload(reply: ScriptedReply) -> dict[str, Any]:
    if reply.status != 200:
        return {"error": {"message": reply.text, "type": "scripted", "code": reply.status}}
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": reply.text},
    }
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


def _position(likely: Mapping[str, float]) -> dict[str, Any]:
    best = max(likely, key=lambda token: likely[token])
    return {
        "token": best,
        "logprob": likely[best],
        "top_logprobs": [{"token": token, "logprob": logprob} for token, logprob in likely.items()],
    }
