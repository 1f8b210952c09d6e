"""A llama.cpp server inside this process, on loopback, for as long as somebody needs it."""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.errors import ModelError, boundary, need

__all__ = ["Address", "LlamaServer", "ServerSettings"]

_QUIET = -1


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What is served, and with how much of the machine."""

    weights: Path
    alias: str
    n_ctx: int
    threads: int


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server listens, and the random key that keeps this machine's other users out."""

    url: str
    key: str = field(repr=False)


class LlamaServer:
    """Starts on the first `address()`, stops on `close()` and at exit; it lives in this process and dies with it.

    A pickled copy of a started server carries its address and owns nothing: closing the copy stops nothing.
    A copy made before the start starts a server of its own.
    """

    def __init__(self, settings: ServerSettings, *, address: Address | None = None) -> None:
        self.settings = settings
        self._address = address
        self._stop: weakref.finalize[Any, LlamaServer] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (self.settings, self._address)

    def address(self) -> Address:
        """Where to connect; starts the server where there is none. `ModelError` where it does not start."""
        with self._lock:
            if self._address is None:
                key = secrets.token_urlsafe(24)
                server = _start(self.settings, key)
                self._address = Address(url=server.listening_address, key=key)
                # The list holds the only reference, and the native server stops when that is dropped.
                self._stop = weakref.finalize(self, _release, [server], os.getpid())
            return self._address

    def close(self) -> None:
        """Stop the server that this object started, if any; the port is closed on return. Safe to call twice."""
        with self._lock:
            if self._stop is not None:
                self._stop()
                self._stop = self._address = None


def _copy(settings: ServerSettings, address: Address | None) -> LlamaServer:
    return LlamaServer(settings, address=address)


def _release(holder: list[Any], owner: int) -> None:
    # A forked child has a copy of this object but none of the server's threads, and must not join them.
    if os.getpid() == owner:
        holder.clear()


def _start(settings: ServerSettings, key: str) -> Any:
    xllamacpp = need("xllamacpp", extra="local")
    params = xllamacpp.CommonParams()
    params.model.path = str(settings.weights)
    params.model_alias = {settings.alias}
    params.n_ctx = settings.n_ctx
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    # With flash attention or a 16-bit cache, a prompt whose beginning is reused gets other log-probabilities (up to
    # 0.7 nats, on most prompts). Without them reuse is nearly exact; only a cold prompt is exact (see SmolLM2Model).
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    # No second cache of old prompts in main memory, which may grow to 8 GiB.
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.port = 0
    params.api_keys = [key]
    params.ui = params.endpoint_slots = params.warmup = False
    params.verbosity = _QUIET
    with boundary(ModelError, f"the embedded server for {settings.alias!r} did not start"):
        return xllamacpp.Server(params)
