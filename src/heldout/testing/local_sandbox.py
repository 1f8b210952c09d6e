"""A sandbox that protects from NOTHING: plain processes in a temporary folder, for tests of trusted commands only."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from heldout.errors import SandboxError
from heldout.sandbox import Completed, Limits, Sandbox, Scene
from heldout.sandbox.encoding import as_bytes, as_text

__all__ = ["LocalConversation", "LocalSandbox", "LocalSandboxes"]


@dataclass(frozen=True)
class LocalSandboxes:
    """Not a protection: commands run as the user, with the network and every file. Only the wall clock is limited."""

    fingerprint: str = "local, unprotected"

    def fault(self) -> str | None:
        return None

    def open(self, scene: Scene) -> AbstractContextManager[Sandbox]:
        return _open(scene)


@contextmanager
def _open(scene: Scene) -> Iterator[Sandbox]:
    with tempfile.TemporaryDirectory() as folder:
        for path, text in scene.files.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(as_bytes(path, text, scene.encoded))
        sandbox = LocalSandbox(Path(folder), scene)
        try:
            yield sandbox
        finally:
            for conversation in sandbox.conversations:
                conversation.close()


@dataclass
class LocalSandbox:
    """A temporary work folder."""

    folder: Path
    scene: Scene
    conversations: list[LocalConversation] = field(default_factory=list)

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: Limits | None = None) -> Completed:
        limits = limits or self.scene.limits
        begun = time.perf_counter()
        process = self._start(argv, stderr=subprocess.STDOUT)
        try:
            output, _ = process.communicate(stdin.encode(), timeout=limits.wall_s)
            killed = False
        except subprocess.TimeoutExpired:
            killed = True
            _kill(process)
            output, _ = process.communicate()
        code = process.returncode
        return Completed(
            exit_code=code if code >= 0 else 128 - code,
            output=output.decode(errors="replace"),
            killed="time" if killed else "",
            wall_s=time.perf_counter() - begun,
        )

    def snapshot(self) -> Mapping[str, str]:
        found = {}
        for path in sorted(self.folder.rglob("*")):
            inside = path.relative_to(self.folder)
            if path.is_file() and not path.is_symlink() and "__pycache__" not in inside.parts:
                name, data = inside.as_posix(), path.read_bytes()
                text = as_text(name, data, self.scene.encoded)
                found[name] = data.decode("utf-8", "replace") if text is None else text
        return found

    def talk(self, argv: Sequence[str]) -> LocalConversation:
        conversation = LocalConversation(self._start(argv, stderr=subprocess.DEVNULL))
        self.conversations.append(conversation)
        return conversation

    def _start(self, argv: Sequence[str], *, stderr: int) -> subprocess.Popen[bytes]:
        path = f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
        env = {"PATH": path, "HOME": str(self.folder), "LANG": "C.UTF-8", **self.scene.env}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            list(argv), cwd=self.folder, env=env, stdin=pipe, stdout=pipe, stderr=stderr, start_new_session=True
        )


@dataclass
class LocalConversation:
    """A process that answers a line with a line."""

    process: subprocess.Popen[bytes]

    def ask(self, line: str, *, timeout_s: float) -> str:
        asked, answers = self.process.stdin, self.process.stdout
        if self.process.poll() is not None or asked is None or answers is None:
            raise SandboxError("the process has ended")
        deadline = time.monotonic() + timeout_s
        try:
            asked.write(line.encode() + b"\n")
            asked.flush()
        except BrokenPipeError as cause:
            raise SandboxError("the process has ended") from cause
        got = b""
        while not got.endswith(b"\n"):
            ready, _, _ = select.select([answers], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(answers.fileno(), 1 << 20) if ready else b""
            if not chunk:
                self.close()
                raise SandboxError("the process gave no line")
            got += chunk
        return got.decode().rstrip("\n")

    def close(self) -> None:
        _kill(self.process)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
