"""The harness `skilled`: a fresh skill for each task from a guide, or one skill for all, or none; then the tool loop.

Specification: `systems/gso.md`, section 4, "per task". Steps 1 to 3 are the writer's one call, 4 to 6 the solver's
episode with at most one bounded recovery. The transient skill is an artifact of one trajectory; nothing reads it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from heldout.harness.base import Episode, Preparation
from heldout.harness.context import Context
from heldout.harness.hooks import NO_HOOKS, HookHost
from heldout.harness.loop_bound import TOKENS_PER_MESSAGE, most_tokens_in
from heldout.harness.loop_episode import ENDINGS, LoopEpisode, Shell
from heldout.harness.loop_requirements import agents_environment, usable_sandboxes
from heldout.harness.loop_settings import ToolLoopOptions
from heldout.harness.protocol import rules
from heldout.harness.steps import Step
from heldout.ledger import paid_until_now
from heldout.models.base import Model, Request
from heldout.options import read_options
from heldout.records import Candidate, Spend, Task, Trajectory, digest_of
from heldout.sandbox import Sandbox, Scene
from heldout.skills.faults import FIRST_FAULT_FILE, DeclaredFault, declared_fault
from heldout.skills.folder import SKILL_BYTES, read_skill
from heldout.skills.guide import NO_SKILL, Kind, check_guide, kind_of, start_guide
from heldout.skills.modules import SKILL_FILE
from heldout.skills.solver import RECOVERY_NOTE, SOLVER_RULES, skill_section, solver_system
from heldout.skills.visible import VISIBLE_BYTES, visible
from heldout.skills.writer import WRITER_RULES, WriterTask, Written, write_skill, writer_messages
from heldout.tasks.environment import Environment, changes_answer

__all__ = ["SkilledHarness", "SkilledOptions"]

NAME = "skilled"


class SkilledOptions(ToolLoopOptions):
    """`solver.options` of the harness `skilled`: those of the tool loop, and its own."""

    recovery: bool = True
    """Whether a submission that names a fault of its own may be followed by one repair, under the same limits."""
    start: Literal["guide", "none"] = "guide"
    """What a run begins with where `solver.start` names no folder: the hand-written guide, or no skill."""
    writer_tokens: int = Field(default=4096, ge=256, le=131072)
    """Longest reply of the writer, and so longest skill."""


@dataclass(frozen=True, slots=True)
class _Solved:
    """How an episode went, and what of it only this harness counts."""

    loop: LoopEpisode
    answer: str
    recoveries: int
    faults: tuple[DeclaredFault, ...]
    """In the order in which they were declared."""


class SkilledHarness:
    """Write a skill for the task where the candidate is a guide, then solve the task with it in turns.

    A candidate is a guide (`heldout.skills.MODULES`), one skill for all tasks (`SKILL.md`, and further files), or no
    skill (`NO_SKILL.md`). A writer's reply that is no skill is a failed episode, which names the fault. Where a model
    or a sandbox does not do its part, `ModelError` or `SandboxError` says that nothing was measured.
    """

    prepares: ClassVar[bool] = False
    replayable: ClassVar[bool] = False

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
        self.environment = agents_environment(NAME, environment, answer=answer, max_tokens=max_tokens, source="tables")
        self.options = _options(options or {})
        self.max_tokens = max_tokens
        self.sandboxes = usable_sandboxes(NAME, self.options.sandbox)
        self._settings = self.options.settings({})
        self._clock = clock
        self.fingerprint = f"{NAME}:{digest_of(self._identity())[:16]}"

    @staticmethod
    def start_folder(options: Mapping[str, Any]) -> Mapping[str, str] | None:
        """The folder that a run with these options begins with."""
        return start_guide() if _options(options).start == "guide" else NO_SKILL

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        """Nothing is measured beforehand."""
        del candidate, model
        return Preparation()

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        """See `Harness.run`. `TaskError` for a task that is not of the environment's source."""
        kind = _checked(candidate)
        scene = self.environment.scene(task, seed=episode.seed)
        if kind != "guide":
            solved = self._solve(_lasting_skill(candidate, kind), task, scene, episode)
            return self._trajectory(candidate, episode, solved=solved)
        written = self._write(candidate, task, scene, episode)
        if written.skill is None:
            return self._unwritten(candidate, episode, written)
        with paid_until_now(lambda: written.spend):
            solved = self._solve(skill_section(written.skill), task, scene, episode)
        return self._trajectory(candidate, episode, solved=solved, written=written)

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:
        """At most one token per byte of what is sent in every turn, those of a recovery among them, and the longest
        reply to each; for a guide, the writer's call besides.

        Raises `HarnessError` for a folder that cannot be run, so that a bad candidate is known before it runs.
        """
        del model
        kind = _checked(candidate)
        skill = "" if kind == "guide" else _lasting_skill(candidate, kind)
        asked = len(task.input.encode())
        first = len(self._system(skill).encode()) + asked + len(RECOVERY_NOTE.encode()) + 2 * TOKENS_PER_MESSAGE
        turns = self._settings.max_turns
        calls, tokens_out = turns, turns * self.max_tokens
        tokens_in = 0
        if kind == "guide":
            first += SKILL_BYTES
            messages = writer_messages(candidate.files, WriterTask(task.input, ""))
            tokens_in = sum(len(message.content.encode()) + TOKENS_PER_MESSAGE for message in messages) + VISIBLE_BYTES
            calls, tokens_out = calls + 1, tokens_out + self.options.writer_tokens
        tokens_in += most_tokens_in(self._settings, frozenset(), first=first, reply=self.max_tokens)
        return Spend.model_construct(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out)

    def _write(self, candidate: Candidate, task: Task, scene: Scene, episode: Episode) -> Written:
        """The writer is given the guide, the request and what the scene shows; nothing else is within its reach."""
        return write_skill(
            candidate.files,
            WriterTask(task.input, visible(scene)),
            model=episode.model,
            max_tokens=self.options.writer_tokens,
            seed=episode.seed,
        )

    def _solve(self, skill: str, task: Task, scene: Scene, episode: Episode) -> _Solved:
        with HookHost(NO_HOOKS, self.sandboxes) as hooks, self.sandboxes.open(scene) as sandbox:
            loop = LoopEpisode(
                model=episode.model,
                shell=self._shell(sandbox, scene),
                hooks=hooks,
                context=Context(self._system(skill), task.input, keep_full_turns=self._settings.keep_full_turns),
                options=self.options,
                settings=self._settings,
                request=Request(messages=(), max_tokens=self.max_tokens, seed=episode.seed),
                clock=self._clock,
            )
            with paid_until_now(lambda: loop.spend):
                loop.run()
                faults = _declared(loop)
                recovered = bool(faults) and self.options.recovery and loop.go_on(RECOVERY_NOTE)
                if recovered:
                    faults += _declared(loop)
                answer = changes_answer(scene.files, sandbox.snapshot())
        return _Solved(loop, answer, int(recovered), faults)

    def _trajectory(
        self, candidate: Candidate, episode: Episode, *, solved: _Solved, written: Written | None = None
    ) -> Trajectory:
        artifacts = {} if written is None or written.skill is None else {SKILL_FILE: written.skill.text}
        if solved.faults:
            artifacts[FIRST_FAULT_FILE] = solved.faults[0].text
        counted = {
            "skill_calls": float(written is not None),
            "recoveries": float(solved.recoveries),
            "faults_declared": float(len(solved.faults)),
        }
        return self._told(candidate, episode).model_copy(
            update={
                "answer": solved.answer,
                "steps": tuple(step.model_dump(mode="json") for step in solved.loop.steps),
                "measures": solved.loop.measures() | counted,
                "artifacts": artifacts,
                "spend": solved.loop.spend if written is None else written.spend + solved.loop.spend,
            }
        )

    def _unwritten(self, candidate: Candidate, episode: Episode, written: Written) -> Trajectory:
        """The guide led to no skill: the solver is not asked, and the episode has failed."""
        step = Step(kind="format_error", text=written.reply, output=written.fault)
        counted = {"turns": 0.0, "format_errors": 1.0, "recoveries": 0.0, "faults_declared": 0.0, **_NO_ENDING}
        return self._told(candidate, episode).model_copy(
            update={
                "steps": (step.model_dump(mode="json"),),
                "measures": counted | {"skill_calls": 1.0, "unusable_skills": 1.0},
                "spend": written.spend,
            }
        )

    def _told(self, candidate: Candidate, episode: Episode) -> Trajectory:
        """A trajectory in which nothing has happened yet."""
        return Trajectory.model_construct(
            answer=None,
            harness=self.fingerprint,
            components={kind_of(candidate): candidate.digest[:16]},
            model=episode.model.name,
            seed=episode.seed,
        )

    def _shell(self, sandbox: Sandbox, scene: Scene) -> Shell:
        return Shell(sandbox, scene.limits.model_copy(update={"wall_s": self.options.command_timeout_s}))

    def _system(self, skill: str) -> str:
        protocol = rules(
            max_turns=self._settings.max_turns, command_timeout_s=self.options.command_timeout_s, tools=NO_HOOKS.tools
        )
        return solver_system(skill, protocol)

    def _identity(self) -> dict[str, Any]:
        return {
            "options": self.options.model_dump(exclude={"sandbox", "start"}),
            "sandbox": self.sandboxes.fingerprint,
            "environment": self.environment.fingerprint,
            "tokens": self.max_tokens,
            "texts": [WRITER_RULES, SOLVER_RULES, RECOVERY_NOTE, self._system("")],
        }


_NO_ENDING: Mapping[str, float] = dict.fromkeys(ENDINGS, 0.0)


def _options(options: Mapping[str, Any]) -> SkilledOptions:
    return read_options(SkilledOptions, options, where=f"the harness {NAME!r}")


def _checked(candidate: Candidate) -> Kind:
    """The candidate's kind; `HarnessError` for one that cannot be run."""
    kind = kind_of(candidate)
    if kind == "guide":
        check_guide(candidate.files)
    elif kind == "skill":
        read_skill(candidate.files)
    return kind


def _lasting_skill(candidate: Candidate, kind: Kind) -> str:
    """What a candidate that writes no skill gives to every task."""
    return skill_section(read_skill(candidate.files)) if kind == "skill" else ""


def _declared(loop: LoopEpisode) -> tuple[DeclaredFault, ...]:
    """The fault of the submission that ended the episode, where there is one."""
    fault = declared_fault(loop.steps) if loop.submitted else None
    return () if fault is None else (fault,)
