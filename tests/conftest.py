"""What every test stands on: a temporary home, one thread for numeric libraries, no live network."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary home, and connections to loopback only."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    real_connect = socket.socket.connect

    def connect(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "localhost", "::1"):
            raise OSError(f"tests may not connect to {address!r}")
        real_connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture
def shared_data() -> Path:
    """The public data folder beside the project; the test skips where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the public data folder is not beside the project")
    return SHARED_DATA
