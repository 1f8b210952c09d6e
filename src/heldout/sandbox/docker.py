"""The optional sandbox: Docker, one container per command, for tasks that bring an image of their own."""

from __future__ import annotations

import math
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from heldout.errors import SandboxError
from heldout.sandbox.archive import pack, unpack
from heldout.sandbox.base import Completed, Conversation, Limits, Sandbox, Scene
from heldout.sandbox.conversation import LineConversation
from heldout.sandbox.faults import Fault
from heldout.sandbox.output import CappedOutput
from heldout.sandbox.pump import Killed, Pump, pipe_of
from heldout.sandbox.system import INNER_ID, WORK

__all__ = ["DEFAULT_IMAGE", "Docker", "command_argv", "keeper_argv"]

DEFAULT_IMAGE = "python:3.11-slim"
_CALL_S = 60.0
_LATE_S = 10
_CONVERSATION_S = 3600
_ENGINE_FAILED = 125
_CONFINED = (
    *("--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--user", f"{INNER_ID}:{INNER_ID}", "--workdir", WORK, "--hostname", "sandbox", "--pull", "never"),
)


class Docker:
    """Containers without network, capabilities or writable places but `/work` and `/tmp`, through `docker`.

    A scene's `image` is used as it is (default `python:3.11-slim`); it has to be on this machine, and to hold `sh`,
    `tar` and `timeout`. Images of benchmark tasks often keep the repository elsewhere (for example `/testbed`): the
    scene's `origin` names that folder, which is copied to `/work`, all that lasts and all that a snapshot shows.

    Every command is a container of its own, so what it started ends with it; the two memory file systems belong to a
    container that only waits. Where Heldout is killed, that one ends at once, a command at latest ten seconds after
    its wall limit, and a conversation after an hour. Unlike bubblewrap's, `memory_mb` is that of all processes
    together, and a command that passes the limits of memory, processes or disk is refused more, or killed by the
    kernel, without `killed` telling which.

    It does not protect against holes in the kernel or the engine, nor against what is in the image.
    """

    def __init__(self) -> None:
        self.fingerprint = "docker"

    def fault(self) -> str | None:
        """Why Docker does not work here, with what mends it."""
        fault = self.diagnose()
        return None if fault is None else str(fault)

    def diagnose(self) -> Fault | None:
        """`fault` with reason and remedy apart."""
        if shutil.which("docker") is None:
            return Fault("'docker' is not on the PATH", "install Docker Engine: https://docs.docker.com/engine/install")
        try:
            found = _docker("version", "--format", "{{.Server.Version}}")
        except SandboxError as failure:
            return Fault(f"no Docker engine answers: {failure}", "systemctl start docker")
        return None if found.strip() else Fault("the Docker engine has no version", "systemctl restart docker")

    @contextmanager
    def open(self, scene: Scene) -> Iterator[Sandbox]:
        """A new sandbox, gone with all its containers and files at the end."""
        if shutil.which("docker") is None:
            raise SandboxError(str(self.diagnose()))
        archive = pack(scene.files, owner=INNER_ID, encoded=scene.encoded)
        name = f"heldout-{secrets.token_hex(8)}"
        keeper = _spawn(keeper_argv(name, scene), stderr=subprocess.STDOUT)
        try:
            _await_word(keeper, "ready")
            sandbox = _Sandbox(name, scene)
            try:
                if scene.origin is not None:
                    sandbox.copy(scene.origin)
                sandbox.fill(archive)
                yield sandbox
            finally:
                sandbox.close()
        finally:
            _remove(name)
            _close(keeper)


def keeper_argv(name: str, scene: Scene) -> list[str]:
    """The container that holds `/work` and `/tmp` until the standard input of this command closes."""
    volumes = [
        word
        for path, mode in ((WORK, "0755"), ("/tmp", "1777"))
        for word in ("--mount", _memory_volume(path, mode, scene.limits))
    ]
    shown = [word for source, path in scene.mounts.items() for word in ("--mount", _read_only(source, path))]
    image = scene.image or DEFAULT_IMAGE
    return [
        *("docker", "run", "--rm", "--interactive", "--name", name, *_CONFINED, *volumes, *shown),
        *("--entrypoint", "sh", image, "-c", "echo ready; read -r _"),
    ]


def _memory_volume(path: str, mode: str, limits: Limits) -> str:
    # The option holds commas, so that Docker wants it in quotes of its own, as in a line of CSV.
    options = f"size={limits.disk_mb}m,nr_inodes={limits.disk_mb * 256},uid={INNER_ID},gid={INNER_ID},mode={mode}"
    return f'type=volume,dst={path},volume-opt=type=tmpfs,volume-opt=device=tmpfs,"volume-opt=o={options}"'


def _read_only(source: str, path: str) -> str:
    if any(sign in source + path for sign in ',"\n'):
        raise SandboxError(f"a mount of Docker holds no comma, quote or line end: {source!r} at {path!r}")
    return f"type=bind,src={source},dst={path},readonly"


def command_argv(
    name: str, keeper: str, argv: Sequence[str], *, scene: Scene, limits: Limits, wall_s: int
) -> list[str]:
    """One command in a container `name` of its own, on the file systems of `keeper`; ended from inside after `wall_s`
    also where nobody is left to end it from outside."""
    settings = {"HOME": WORK, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **scene.env}
    return [
        *("docker", "run", "--rm", "--interactive", "--name", name, *_CONFINED, "--volumes-from", keeper),
        *("--pids-limit", str(limits.processes + 2), "--memory", f"{limits.memory_mb}m"),
        *("--memory-swap", f"{limits.memory_mb}m", "--ulimit", f"cpu={math.ceil(limits.cpu_s)}"),
        *("--ulimit", f"fsize={limits.file_mb << 20}", "--ulimit", "core=0", "--ulimit", "nofile=1024"),
        *(word for key, value in settings.items() for word in ("--env", f"{key}={value}")),
        *("--entrypoint", "sh", scene.image or DEFAULT_IMAGE),
        *("-c", '(exec timeout -s KILL "$0" "$@"); exit $?', str(wall_s), *argv),
    ]


class _Container:
    """A running command; killing it kills its container."""

    def __init__(self, argv: Sequence[str], name: str, *, stderr: int) -> None:
        self.popen = _spawn(argv, stderr=stderr)
        self._name = name

    def kill(self) -> None:
        """End it with everything in it. Safe to call twice."""
        with suppress(SandboxError):  # it may have ended by itself
            _docker("kill", self._name)
        self.popen.kill()

    def watch(self) -> Killed:
        """The engine keeps the limits."""
        return ""

    def close(self) -> None:
        """End it and wait for that."""
        if self.popen.poll() is None:
            self.kill()
        _close(self.popen)


class _Sandbox:
    def __init__(self, keeper: str, scene: Scene) -> None:
        self._keeper = keeper
        self._scene = scene
        self._lock = threading.Lock()
        self._number = 0
        self._conversations: list[LineConversation] = []

    def copy(self, origin: str) -> None:
        """Copy a folder of the image into the work folder."""
        done = self._complete(["cp", "-a", f"{origin}/.", WORK], b"", self._scene.limits)
        if done.exit_code != 0:
            raise SandboxError(f"{origin!r} of the image cannot be copied: {done.output.strip()[-500:]!r}")

    def fill(self, archive: bytes) -> None:
        """Unpack the files of the scene, as the user that commands run as."""
        done = self._complete(["tar", "-xf", "-"], archive, self._scene.limits)
        if done.exit_code != 0:
            raise SandboxError(f"the work folder cannot be written: {done.output.strip()[-500:]!r}")

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: Limits | None = None) -> Completed:
        """Run one command to its end, under the scene's limits or these."""
        return self._complete(argv, stdin.encode("utf-8", "replace"), limits or self._scene.limits)

    def _complete(self, argv: Sequence[str], stdin: bytes, limits: Limits) -> Completed:
        begun = time.perf_counter()
        output = CappedOutput(limits.output_bytes)
        container = self._start(argv, limits, wall_s=int(limits.wall_s) + _LATE_S, stderr=subprocess.STDOUT)
        try:
            pump = Pump(container.popen, stdin, output, ended=None)
            killed = pump.run(wall_s=limits.wall_s, watch=container.watch)
            if killed:
                container.kill()
            code = container.popen.wait(_CALL_S)
            pump.drain()
        finally:
            container.close()
        if code == _ENGINE_FAILED and not killed and "docker: " in output.text():
            raise SandboxError(f"docker did not start the command; it said: {output.text().strip()[-2000:]!r}")
        exit_code = 137 if killed else code
        return Completed(exit_code=exit_code, output=output.text(), killed=killed, wall_s=time.perf_counter() - begun)

    def snapshot(self) -> Mapping[str, str]:
        """Every regular text file of the work folder, by relative path."""
        container = self._start(["tar", "-cf", "-", "."], self._scene.limits, wall_s=60, stderr=subprocess.DEVNULL)
        try:
            pipe_of(container.popen.stdin).close()
            stream, limit = pipe_of(container.popen.stdout), self._scene.limits.disk_mb << 20
            return unpack(stream, limit=limit, encoded=self._scene.encoded)
        finally:
            container.close()

    def talk(self, argv: Sequence[str]) -> Conversation:
        """Start a process for a conversation; it ends with the sandbox."""
        limits = self._scene.limits
        conversation = LineConversation(
            lambda: self._start(argv, limits, wall_s=_CONVERSATION_S, stderr=subprocess.PIPE)
        )
        self._conversations.append(conversation)
        return conversation

    def close(self) -> None:
        """End every conversation; commands have ended, for `run` waits for them."""
        for conversation in self._conversations:
            conversation.close()

    def _start(self, argv: Sequence[str], limits: Limits, *, wall_s: int, stderr: int) -> _Container:
        if not argv:
            raise SandboxError("there is no command to run: its list of arguments is empty")
        with self._lock:
            self._number += 1
            name = f"{self._keeper}-{self._number}"
        words = command_argv(name, self._keeper, argv, scene=self._scene, limits=limits, wall_s=wall_s)
        return _Container(words, name, stderr=stderr)


def _spawn(argv: Sequence[str], *, stderr: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0, start_new_session=True
        )
    except (OSError, ValueError) as cause:
        raise SandboxError(f"docker cannot be started: {cause}") from cause


def _await_word(keeper: subprocess.Popen[bytes], word: str) -> None:
    said = pipe_of(keeper.stdout).readline().decode("utf-8", "replace").strip()
    if said != word:
        raise SandboxError(
            f"docker did not start a container; it said: {said!r}; docker pull IMAGE brings one that is missing"
        )


def _docker(*words: str) -> str:
    try:
        done = subprocess.run(
            ["docker", *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=_CALL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise SandboxError(f"docker {words[0]}: {cause}") from cause
    if done.returncode != 0:
        raise SandboxError(f"docker {words[0]}: {done.stderr.decode('utf-8', 'replace').strip()[-500:]}")
    return done.stdout.decode("utf-8", "replace")


def _remove(name: str) -> None:
    with suppress(SandboxError):  # its end of input may have ended it already
        _docker("rm", "--force", "--volumes", name)


def _close(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
