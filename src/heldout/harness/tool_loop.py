"""The tool loop: an agent with one shell in a sandbox, in a harness that is a folder of texts, hooks and settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from heldout.harness.base import Episode, Preparation, Replayed
from heldout.harness.context import Context
from heldout.harness.hooks import HookHost, dry_run
from heldout.harness.loop_bound import TOKENS_PER_MESSAGE, most_tokens_in
from heldout.harness.loop_episode import LoopEpisode, Shell
from heldout.harness.loop_requirements import agents_environment, usable_sandboxes
from heldout.harness.loop_settings import LoopSettings, ToolLoopOptions
from heldout.harness.observations import observe
from heldout.harness.protocol import rules
from heldout.harness.workspace import PROMPT_FILE, Workspace, read_workspace
from heldout.ledger import paid_until_now
from heldout.models.base import Model, Request
from heldout.options import read_options
from heldout.records import Candidate, Spend, Task, Trajectory, digest_of
from heldout.sandbox import Sandbox, Scene
from heldout.tasks.environment import Environment, changes_answer

__all__ = ["ToolLoopHarness"]


class ToolLoopHarness:
    """Solve a task in turns: the model gives one shell command, and is shown how it ended.

    The candidate is the folder of `heldout.harness.workspace`. The episode begins with the task's scene and ends when
    the agent submits, or at a limit; whatever ended it, the answer is what changed in the work folder. Commands and
    hooks run in sandboxes of the kind `options.sandbox`, apart from each other, and nowhere else. Where a model
    or a sandbox does not do its part, `ModelError` or `SandboxError` says that nothing was measured.
    """

    prepares: ClassVar[bool] = False
    replayable: ClassVar[bool] = True
    start_file: ClassVar[str] = PROMPT_FILE

    def __init__(
        self,
        *,
        answer: str = "generate",
        labels: Sequence[str] = (),
        max_tokens: int = 2048,
        options: Mapping[str, Any] | None = None,
        environment: Environment | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        del labels
        self.environment = agents_environment(
            "tool_loop", environment, answer=answer, max_tokens=max_tokens, source="repair"
        )
        self.options = read_options(ToolLoopOptions, options or {}, where="the harness 'tool_loop'")
        self.max_tokens = max_tokens
        self.sandboxes = usable_sandboxes("tool_loop", self.options.sandbox)
        self._clock = clock
        self.fingerprint = f"tool_loop:{digest_of(self._identity())[:16]}"

    def short(self, turns: int) -> Self:
        """The same harness with episodes of at most this many turns."""
        options = self.options.model_copy(update={"max_turns": min(turns, self.options.max_turns)})
        return type(self)(
            max_tokens=self.max_tokens,
            options=options.model_dump(),
            environment=self.environment,
            clock=self._clock,
        )

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        """Nothing is measured beforehand."""
        del candidate, model
        return Preparation()

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        """See `Harness.run`. `TaskError` for a task that is not of the environment's source."""
        workspace = read_workspace(candidate)
        scene = self.environment.scene(task, seed=episode.seed)
        with (
            HookHost(workspace.hooks, self.sandboxes, timeout_s=self.options.hook_timeout_s) as hooks,
            self.sandboxes.open(scene) as sandbox,
        ):
            settings = self.options.settings(workspace.settings)
            text = hooks.call("system_prompt", workspace.text, {"input": task.input})
            loop = LoopEpisode(
                model=episode.model,
                shell=self._shell(sandbox, scene),
                hooks=hooks,
                context=Context(
                    self._system(text, workspace, settings), task.input, keep_full_turns=settings.keep_full_turns
                ),
                options=self.options,
                settings=settings,
                request=Request(messages=(), max_tokens=self.max_tokens, seed=episode.seed, weights=candidate.weights),
                clock=self._clock,
            )
            with paid_until_now(lambda: loop.spend):
                loop.run()
                answer = changes_answer(scene.files, sandbox.snapshot())
        return Trajectory.model_construct(
            answer=answer,
            steps=tuple(step.model_dump(mode="json") for step in loop.steps),
            harness=self.fingerprint,
            components=workspace.components,
            model=episode.model.name,
            seed=episode.seed,
            measures=loop.measures(),
            spend=loop.spend,
        )

    def replay(self, task: Task, commands: Sequence[str], *, seed: int) -> Replayed:
        """See `Replayer.replay`; outputs are cut as the run's own options say."""
        scene = self.environment.scene(task, seed=seed)
        begun = self._clock()
        with self.sandboxes.open(scene) as sandbox:
            shell = self._shell(sandbox, scene)
            done = [shell.run(command) for command in commands]
            answer = changes_answer(scene.files, sandbox.snapshot())
        return Replayed(
            answer=answer,
            outputs=tuple(observe(one, one.output, cap_bytes=self.options.obs_cap) for one in done),
            exit_codes=tuple(one.exit_code for one in done),
            spend=Spend(wall_s=self._clock() - begun, cpu_s=sum(one.cpu_s for one in done)),
        )

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:
        """At most one token per byte of what is sent in every turn, and the longest reply to each.

        Raises `HarnessError` for a folder that cannot be run, so that a bad candidate is known before it runs.
        """
        del model
        workspace = read_workspace(candidate)
        settings = self.options.settings(workspace.settings)
        system = self._system(workspace.text, workspace, settings)
        first = len(system.encode()) + len(task.input.encode()) + 2 * TOKENS_PER_MESSAGE
        tokens_in = most_tokens_in(settings, workspace.hooks.defined, first=first, reply=self.max_tokens)
        turns = settings.max_turns
        return Spend.model_construct(calls=turns, tokens_in=tokens_in, tokens_out=turns * self.max_tokens)

    def dry_run(self, candidate: Candidate) -> list[str]:
        """What goes wrong when the candidate's hooks are loaded and each is called once on inert input."""
        return dry_run(read_workspace(candidate).hooks, self.sandboxes)

    def _shell(self, sandbox: Sandbox, scene: Scene) -> Shell:
        return Shell(sandbox, scene.limits.model_copy(update={"wall_s": self.options.command_timeout_s}))

    def _system(self, text: str, workspace: Workspace, settings: LoopSettings) -> str:
        protocol = rules(
            max_turns=settings.max_turns,
            command_timeout_s=self.options.command_timeout_s,
            tools=workspace.hooks.tools,
        )
        return f"{text}\n\n{protocol}"

    def _identity(self) -> dict[str, Any]:
        return {
            "options": self.options.model_dump(exclude={"sandbox"}),
            "sandbox": self.sandboxes.fingerprint,
            "environment": self.environment.fingerprint,
            "tokens": self.max_tokens,
            "rules": rules(max_turns=self.options.max_turns, command_timeout_s=self.options.command_timeout_s),
        }
