"""One episode of the tool loop: a model, a shell in a sandbox, and a candidate's hooks, turn by turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from heldout.harness.context import Context
from heldout.harness.hooks import HookHost
from heldout.harness.loop_settings import LoopSettings, ToolLoopOptions
from heldout.harness.observations import observe, truncate
from heldout.harness.protocol import is_submission, read_command
from heldout.harness.steps import Step
from heldout.models.base import Message, Model, Reply, Request
from heldout.records import Spend
from heldout.sandbox import Completed, Limits, Sandbox

__all__ = ["ENDINGS", "LoopEpisode", "Shell", "ended_by"]

ENDINGS: Mapping[str, str] = {
    "submitted": "",
    "turn_limit": "the episode reached its limit of turns",
    "wall_limit": "the episode reached its limit of time",
    "format_limit": "the episode ended after too many replies in a row without a usable command",
}
"""The measure that says how an episode ended (1.0, the others 0.0), and its words; none for the agent's own end."""

_COUNTED = ("turns", "commands", "blocked", "format_errors", "timeouts", "truncated")


def ended_by(measures: Mapping[str, float]) -> str:
    """What ended an episode where the agent did not, in words; empty where it submitted, or nothing is known."""
    return next((words for name, words in ENDINGS.items() if measures.get(name)), "")


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands of an episode or of a replay under the same limits."""

    sandbox: Sandbox
    limits: Limits

    def run(self, command: str, *, left_s: float | None = None) -> Completed:
        """One command in a new shell: bash, or sh where an image has no bash."""
        limits = self.limits
        if left_s is not None and left_s < limits.wall_s:
            limits = limits.model_copy(update={"wall_s": max(left_s, 0.001)})
        return self.sandbox.run(("sh", "-c", _BASH_OR_SH, "sh", command), limits=limits)


_BASH_OR_SH = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi'


@dataclass(slots=True)
class LoopEpisode:
    """The state of one episode; `run` takes it to its end, from which `go_on` may take it once more."""

    model: Model
    shell: Shell
    hooks: HookHost
    context: Context
    options: ToolLoopOptions
    settings: LoopSettings
    request: Request
    """Seed and longest reply of every turn; its messages are replaced."""
    clock: Callable[[], float]
    steps: list[Step] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    spend: Spend = field(default_factory=Spend)
    _ending: str = ""
    _format_errors_in_a_row: int = 0
    _deadline: float = 0.0

    def run(self) -> None:
        """Take turns until the agent submits or a limit is reached. `ModelError` and `SandboxError` pass through."""
        self._deadline = self.clock() + self.options.wall_s
        self._take_turns()

    @property
    def submitted(self) -> bool:
        """Whether the agent itself has ended the episode."""
        return self._ending == "submitted"

    def go_on(self, note: str) -> bool:
        """Take up an episode that the agent ended, with a note added to what it is shown last, under the same limits.

        False, and nothing happens, where it was not the agent that ended it, or no turn is left.
        """
        if not self.submitted or self.counts["turns"] >= self.settings.max_turns or self._left_s() <= 0.0:
            return False
        self._ending = ""
        self.context.note(note)
        last = self.steps[-1]
        self.steps[-1] = last.model_copy(update={"output": f"{last.output}\n\n{note}".strip()})
        self._take_turns()
        return True

    def _take_turns(self) -> None:
        while not self._ending:
            if self.counts["turns"] >= self.settings.max_turns:
                self._ending = "turn_limit"
            elif self._left_s() <= 0.0:
                self._ending = "wall_limit"
            else:
                self._turn()

    def measures(self) -> dict[str, float]:
        """What was counted, each as a number; see `ENDINGS` for how the episode ended."""
        counted = {name: float(self.counts[name]) for name in _COUNTED}
        counted |= {"hook_calls": float(self.hooks.calls), "hook_errors": float(self.hooks.errors)}
        return counted | {name: float(name == self._ending) for name in ENDINGS}

    def _turn(self) -> None:
        known = len(self.hooks.faults) if self.steps else 0
        reply = self._complete()
        self.counts["turns"] += 1
        written = _valid(reply.text)
        said = self.hooks.call("after_llm", written)
        step = self._answer(said, cut=reply.finish_reason == "length")
        self.context.add(said, step.output)
        output = self._noted(step.output)
        faults = tuple(self.hooks.faults[known:])
        self.steps.append(step.model_copy(update={"text": written, "output": output, "hook_faults": faults}))
        if self._ending == "submitted" and step.kind == "command":
            self.steps.append(_step("submit"))

    def _answer(self, said: str, *, cut: bool) -> Step:
        """What comes back for a reply."""
        reading = read_command(said, cut=cut)
        if reading.command is None:
            return self._format_error(reading.fault)
        self._format_errors_in_a_row = 0
        wanted = self.hooks.call("before_tool", reading.command)
        return self._blocked(reading.command, wanted) if isinstance(wanted, dict) else self._run(self._expanded(wanted))

    def _complete(self) -> Reply:
        messages = tuple(self.context.messages)
        if self.hooks.defines("before_llm"):
            given = self.context.plain()
            wanted = self.hooks.call("before_llm", given)
            if wanted is not given:
                messages = tuple(Message.model_construct(**message) for message in wanted)
        reply = self.model.complete(self.request.model_copy(update={"messages": messages}))
        self.spend += Spend.model_construct(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
        return reply

    def _format_error(self, fault: str) -> Step:
        self.counts["format_errors"] += 1
        self._format_errors_in_a_row += 1
        if self._format_errors_in_a_row >= self.options.max_format_errors:
            self._ending = "format_limit"
        return _step("format_error", output=fault)

    def _blocked(self, command: str, wanted: Mapping[str, str]) -> Step:
        """What a hook says in place of the shell: a message, or the output of a command that succeeded."""
        self.counts["blocked"] += 1
        cap = self.settings.obs_cap
        if "block" in wanted:
            return _step("blocked", command=command, output=truncate(wanted["block"], cap))
        done = Completed.model_construct(exit_code=0)
        return _step("blocked", command=command, output=observe(done, wanted["answer"], cap_bytes=cap))

    def _expanded(self, command: str) -> str:
        """The shell command that an extra tool stands for; any other command as it is."""
        name, _, argument = command.strip().partition(" ")
        if all(tool.name != name for tool in self.hooks.surface.tools):
            return command
        found = self.hooks.call("run_tool", name, argument.strip())
        return command if found is None else str(found)

    def _run(self, command: str) -> Step:
        done = self.shell.run(command, left_s=self._left_s())
        self.counts["commands"] += 1
        self.counts["timeouts"] += done.killed == "time"
        self.spend += Spend.model_construct(cpu_s=done.cpu_s)
        if is_submission(done):
            self._ending = "submitted"
        output = self.hooks.call("after_tool", command, done.output, done.exit_code)
        self.counts["truncated"] += len(output.encode()) > self.settings.obs_cap
        return _step(
            "submit" if self._ending and _is_bare(command) else "command",
            command=command,
            output=observe(done, output, cap_bytes=self.settings.obs_cap),
            exit_code=done.exit_code,
            killed=done.killed,
        )

    def _noted(self, shown: str) -> str:
        """What the model is shown of the turn, with the note of `on_turn_end` if there is one."""
        if self._ending or not self.hooks.defines("on_turn_end"):
            return shown
        note = self.hooks.call("on_turn_end", self.counts["turns"], self.context.plain())
        if note is None:
            return shown
        self.context.note(note)
        return f"{shown}\n\n{note}"

    def _left_s(self) -> float:
        return self._deadline - self.clock()


def _step(kind: str, **values: Any) -> Step:
    return Step.model_validate({"kind": kind, **values})


def _is_bare(command: str) -> bool:
    """Whether a command does nothing but submit, so that a replay may leave it out."""
    return len(command.split()) == 2 and command.split()[0] == "echo"


def _valid(text: str) -> str:
    """Half of a surrogate pair, as broken JSON escapes make it, cannot be shown to anybody."""
    return text.encode(errors="replace").decode()
