"""The shadow world: the tool loop, the sandbox and the grader of `repair`, simulated, for studies of many runs.

An episode here has the outcome, the steps and the answer that the simulated coder has in the real tool loop, without
one command being run: `tests/studies/test_verse_shadow.py` compares both. What it does not simulate: hooks that are
not of the catalogue (taken for the identity), the limits of time and of the sandbox, and the shrinking of old turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Self

from heldout.errors import HarnessError, SetupError, TaskError
from heldout.harness.base import Episode, Preparation, Replayed
from heldout.harness.loop_episode import ENDINGS
from heldout.harness.loop_settings import ToolLoopOptions
from heldout.harness.observations import truncate
from heldout.harness.protocol import rules
from heldout.harness.steps import Step
from heldout.harness.workspace import PROMPT_FILE, read_workspace
from heldout.models.base import Model
from heldout.options import read_options
from heldout.records import Candidate, Spend, Task, Trajectory, digest_of
from heldout.tasks.environment import read_changes
from heldout.worlds.repair.catalogue import hook_parts_in
from heldout.worlds.repair.coder import SimulatedCoder, package_of, reply_text, token_count
from heldout.worlds.repair.environment import RepairEnvironment
from heldout.worlds.repair.families import FAMILIES, OOD_FAMILIES
from heldout.worlds.repair.generator import generate
from heldout.worlds.repair.package import Package
from heldout.worlds.repair.plan import Move, intent_of
from heldout.worlds.repair.rendering import reverts
from heldout.worlds.repair.symbolic import Play, View, carry_out, is_mended, play
from heldout.worlds.repair.weaknesses import Reading, read_system

__all__ = ["Features", "ShadowGrader", "ShadowHarness", "features_of", "shadow_grade"]


_MOST_TURNS = 9
"""Eight commands and the submission."""

_REPLY_BYTES = 4096
"""More than any reply of the coder has."""


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What of a candidate the simulated coder can notice."""

    reading: Reading
    view: View
    components: Mapping[str, str]
    system_tokens: int


def features_of(candidate: Candidate, options: ToolLoopOptions) -> Features:
    """Read once for each candidate. `HarnessError` for a folder that the tool loop would refuse."""
    return _features(_Folder(candidate.digest, candidate), options)


class ShadowHarness:
    """The harness `tool_loop` with the simulated coder in the world `repair`, as a simulation; a `Replayer` too."""

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
        environment: object = None,
    ) -> None:
        del answer, labels, max_tokens
        if not isinstance(environment, RepairEnvironment):
            raise SetupError(f"the shadow harness simulates the tasks of source 'repair' only, got {environment!r}")
        self.options = read_options(ToolLoopOptions, options or {}, where="the shadow harness")
        self.environment = environment
        identity = {"options": self.options.model_dump(), "environment": environment.fingerprint}
        self.fingerprint = f"shadow:{digest_of(identity)[:16]}"

    def short(self, turns: int) -> Self:
        """The same harness with episodes of at most this many turns."""
        options = self.options.model_copy(update={"max_turns": min(turns, self.options.max_turns)})
        return type(self)(options=options.model_dump(), environment=self.environment)

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        """Nothing is measured beforehand."""
        del candidate, model
        return Preparation()

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        """The trajectory that the simulated coder has; `HarnessError` with any other model."""
        if episode.model.name != SimulatedCoder.name:
            raise HarnessError(f"the shadow harness simulates {SimulatedCoder.name!r}, not {episode.model.name!r}")
        features = features_of(candidate, self.options)
        package = _package(self.environment, task)
        intent = intent_of(package, features.reading, seed=episode.seed)
        played = play(package, intent, features.view, restores=reverts(episode.seed))
        record = _record(played, features.view)
        turns = len(played.turns)
        before = features.system_tokens + token_count(task.input)
        return Trajectory.model_construct(
            answer=played.answer,
            steps=record.steps,
            harness=self.fingerprint,
            components=features.components,
            model=episode.model.name,
            seed=episode.seed,
            measures=record.measures,
            spend=Spend.model_construct(
                calls=turns, tokens_in=turns * before + record.tokens_in, tokens_out=record.tokens_out
            ),
        )

    def replay(self, task: Task, commands: Sequence[str], *, seed: int) -> Replayed:
        """Symbolic as well; a command that is not the coder's own does nothing and succeeds."""
        ran, answer = carry_out(_package(self.environment, task), commands, restores=reverts(seed))
        view = View(truncate, self.options.obs_cap, self.options.max_turns)
        return Replayed.model_construct(
            answer=answer,
            outputs=tuple([view.shown(one) for one in ran]),
            exit_codes=tuple([one.exit_code for one in ran]),
            spend=Spend(),
        )

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:
        """No episode of the coder is longer. Raises `HarnessError` for a folder that cannot be run."""
        del model
        features = features_of(candidate, self.options)
        turns = min(features.view.max_turns, _MOST_TURNS)
        grown = turns * (features.view.obs_cap + _REPLY_BYTES) // 4
        first = features.system_tokens + token_count(task.input)
        return Spend.model_construct(
            calls=turns, tokens_in=turns * (first + grown), tokens_out=turns * _REPLY_BYTES // 4
        )

    def dry_run(self, candidate: Candidate) -> list[str]:
        """No hook is run here: what the audit refuses is a `HarnessError`, and no other fault is simulated."""
        read_workspace(candidate)
        return []


class ShadowGrader:
    """The grader of `repair`, simulated: the target is compared with the reference solution's, as code."""

    simulated: ClassVar[bool] = True

    def __call__(self, answer: str | None, reference: str) -> float:
        """1 where the target is mended, else 0."""
        return float(is_mended(package_of(reference), read_changes(answer)))

    def explain(self, answer: str | None, reference: str) -> str:
        """The first line of what the real grader says, with the number of failures left open; empty for a pass."""
        if self(answer, reference) == 1.0:
            return ""
        total = sum(text.count("\ndef test_") for text in package_of(reference).hidden.values())
        return f"1 of {total} hidden tests failed\n(a simulation: none was run, there may be more)"


shadow_grade = ShadowGrader()
"""What `tasks.grader` names."""


def _package(environment: RepairEnvironment, task: Task) -> Package:
    """The package of a task; `TaskError` for one of another world."""
    family, _, number = task.id.removeprefix("repair-").rpartition("-")
    if family not in {**FAMILIES, **OOD_FAMILIES} or not number.isdecimal():
        raise TaskError(f"task {task.id!r} is not of the world 'repair'; its ids are like 'repair-rounding-0017'")
    found = generate(
        seed=environment.seed, family=family, number=int(number), nondeterminism=environment.nondeterminism
    )
    if found.issue != task.input:
        raise TaskError(f"task {task.id!r} has another text than the world of seed {environment.seed} gives it")
    return found


@dataclass(frozen=True, slots=True)
class _Folder:
    """A candidate as a key of what is remembered."""

    digest: str
    candidate: Candidate = field(compare=False)


@lru_cache(maxsize=4096)
def _features(folder: _Folder, options: ToolLoopOptions) -> Features:
    workspace = read_workspace(folder.candidate)
    settings = options.settings(workspace.settings)
    protocol = rules(
        max_turns=settings.max_turns,
        command_timeout_s=options.command_timeout_s,
        tools=workspace.hooks.tools,
    )
    system = f"{workspace.text}\n\n{protocol}"
    return Features(
        reading=read_system(system),
        view=View(truncate, settings.obs_cap, settings.max_turns, hook_parts_in(workspace.hooks.source)),
        components=workspace.components,
        system_tokens=token_count(system),
    )


@dataclass(frozen=True, slots=True)
class _Record:
    """What of an episode does not depend on the candidate's text."""

    steps: tuple[Mapping[str, Any], ...]
    measures: Mapping[str, float]
    tokens_in: int
    """Beyond system message and issue."""
    tokens_out: int


@lru_cache(maxsize=8192)
def _record(played: Play, view: View) -> _Record:
    said = [reply_text(turn.move, turn.wanted) for turn in played.turns]
    steps = [
        Step(
            kind="submit" if turn.move is Move.SUBMIT else "command",
            text=text,
            command=turn.ran.command,
            output=turn.shown,
            exit_code=turn.ran.exit_code,
        )
        for turn, text in zip(played.turns, said, strict=True)
    ]
    tokens = [token_count(text) for text in said]
    grown = [out + token_count(turn.shown) for turn, out in zip(played.turns, tokens, strict=True)]
    return _Record(
        steps=tuple(step.model_dump(mode="json") for step in steps),
        measures=_measures(played, view),
        tokens_in=sum(sum(grown[:turn]) for turn in range(len(grown))),
        tokens_out=sum(tokens),
    )


def _measures(played: Play, view: View) -> Mapping[str, float]:
    turns = float(len(played.turns))
    ending = "submitted" if played.submitted else "turn_limit"
    cut = sum(len(view.output(turn.ran).encode()) > view.obs_cap for turn in played.turns)
    hooks = turns * (("mend_flags" in view.parts) + any(part != "mend_flags" for part in view.parts))
    counted = {"turns": turns, "commands": turns, "blocked": 0.0, "format_errors": 0.0, "timeouts": 0.0}
    counted |= {"truncated": float(cut), "hook_calls": hooks, "hook_errors": 0.0}
    return counted | {name: float(name == ending) for name in ENDINGS}
