"""What the tests of the tool loop share: an environment, scripted agents, and kinds of sandbox."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from heldout.errors import SandboxError, TaskError
from heldout.harness import Episode, Preparation, Step, ToolLoopHarness, steps_of
from heldout.models import Reply, Request
from heldout.records import Candidate, Task, Trajectory
from heldout.sandbox import Completed, Conversation, Limits, Sandbox, Scene
from heldout.testing.local_sandbox import LocalSandboxes

LOCAL = "heldout.testing.local_sandbox:LocalSandboxes"
TASK = Task(id="t-1", input="Make it work.", family="secret family")
HOOKS = "harness_code/hooks.py"
SUBMIT = "echo HELDOUT_SUBMIT"


@dataclass(frozen=True)
class OneFile:
    """Every task begins with one file, and with the run's seed in the environment."""

    fingerprint: str = "one-file"

    def scene(self, task: Task, *, seed: int) -> Scene:
        if task.id == "unknown":
            raise TaskError("no such task")
        return Scene(files={"a.txt": "one\n"}, env={"RUN_SEED": str(seed)})


@dataclass
class ScriptedAgent:
    """Gives its replies in order, and keeps every request."""

    replies: Sequence[str]
    finish_reason: str = "stop"
    asked: list[Request] = field(default_factory=list)
    name: str = "scripted"
    fingerprint: str = "scripted"
    deterministic: bool = True
    can_choose: bool = False
    simulated: bool = True

    def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        text = self.replies[min(len(self.asked), len(self.replies)) - 1]
        return Reply(text=text, finish_reason=self.finish_reason, tokens_in=11, tokens_out=3)

    def close(self) -> None:
        """Nothing was started."""


def says(command: str) -> str:
    return f"I go on.\n\n```bash\n{command}\n```\n"


def agent(*commands: str) -> ScriptedAgent:
    return ScriptedAgent([says(command) for command in commands])


def folder(hooks: str | None = None, **files: str) -> Candidate:
    """A harness folder; keyword `a__b` stands for the path `a/b.md`."""
    content = {"system_prompt.md": "You are an engineer."}
    content |= {f"{name.replace('__', '/')}.md": text for name, text in files.items()}
    return Candidate(files=content if hooks is None else content | {HOOKS: hooks})


def loop(*, sandbox: str = LOCAL, clock: Callable[[], float] = time.monotonic, **options: Any) -> ToolLoopHarness:
    return ToolLoopHarness(options={"sandbox": sandbox, **options}, environment=OneFile(), clock=clock)


def run(harness: ToolLoopHarness, model: ScriptedAgent, candidate: Candidate | None = None, *, seed: int = 5) -> Ran:
    trajectory = harness.run(candidate or folder(), TASK, Episode(model, seed, Preparation()))
    return Ran(trajectory, steps_of(trajectory), trajectory.measures)


@dataclass(frozen=True)
class Ran:
    trajectory: Trajectory
    steps: tuple[Step, ...]
    measures: Mapping[str, float]

    @property
    def kinds(self) -> list[str]:
        return [step.kind for step in self.steps]


@dataclass(frozen=True)
class DoomedSandboxes(LocalSandboxes):
    """The processes of its conversations are lost at the calls of hooks that are named here, counted from 1."""

    lost: tuple[int, ...] = ()
    starts: int = 99
    """Conversations that can be started."""

    def open(self, scene: Scene) -> AbstractContextManager[Sandbox]:
        return self._open(scene)

    @contextmanager
    def _open(self, scene: Scene) -> Iterator[Sandbox]:
        with super().open(scene) as sandbox:
            yield _Doomed(sandbox, self.lost, self.starts)


@dataclass
class _Doomed:
    inner: Sandbox
    lost: tuple[int, ...]
    starts: int
    asked: int = 0

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: Limits | None = None) -> Completed:
        return self.inner.run(argv, stdin=stdin, limits=limits)

    def snapshot(self) -> Mapping[str, str]:
        return self.inner.snapshot()

    def talk(self, argv: Sequence[str]) -> Conversation:
        self.starts -= 1
        if self.starts < 0:
            raise SandboxError("the work folder is full")
        return _DoomedTalk(self, self.inner.talk(argv))


@dataclass
class _DoomedTalk:
    sandbox: _Doomed
    inner: Conversation

    def ask(self, line: str, *, timeout_s: float) -> str:
        if '"call"' in line:
            self.sandbox.asked += 1
            if self.sandbox.asked in self.sandbox.lost:
                raise SandboxError("the process was lost")
        return self.inner.ask(line, timeout_s=timeout_s)

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True)
class ClosedSandboxes:
    """Works, it says, and then cannot start."""

    fingerprint: str = "closed"

    def fault(self) -> str | None:
        return None

    def open(self, scene: Scene) -> AbstractContextManager[Sandbox]:
        raise SandboxError(f"no room for {len(scene.files)} files")


@dataclass(frozen=True)
class AbsentSandboxes(ClosedSandboxes):
    """Says that it does not work."""

    def fault(self) -> str | None:
        return "there is no engine; start one"


@dataclass(frozen=True)
class StillSandboxes(LocalSandboxes):
    """No process at all: every command prints its own text."""

    def open(self, scene: Scene) -> AbstractContextManager[Sandbox]:
        return self._open(scene)

    @contextmanager
    def _open(self, scene: Scene) -> Iterator[Sandbox]:
        yield _Still(scene)


@dataclass
class _Still:
    scene: Scene

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: Limits | None = None) -> Completed:
        del stdin, limits
        command = argv[-1]
        return Completed(exit_code=0, output=command.removeprefix("echo ") + "\n", cpu_s=0.25)

    def snapshot(self) -> Mapping[str, str]:
        return self.scene.files

    def talk(self, argv: Sequence[str]) -> Conversation:
        raise SandboxError(f"nobody to talk to: {argv[0]}")
