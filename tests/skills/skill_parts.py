"""What the tests of skills share: an environment of small tables, scripted replies, candidates, and the two roles."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heldout.errors import TaskError
from heldout.harness import Episode, Preparation, steps_of
from heldout.harness.steps import Step
from heldout.models import Reply, Request
from heldout.records import Candidate, Task, Trajectory
from heldout.sandbox import Scene
from heldout.skills import NO_SKILL, SkilledHarness, start_guide

LOCAL = "heldout.testing.local_sandbox:LocalSandboxes"
TASK = Task(id="t-1", input="Double the amounts.")
SUBMIT = "echo HELDOUT_SUBMIT"
FAULT = "echo 'HELDOUT_FAULT execution: the sum is wrong'; echo HELDOUT_SUBMIT"

GUIDE = Candidate(files=dict(start_guide()))
NONE = Candidate(files=dict(NO_SKILL))


def skill(
    name: str = "double-amounts", body: str = "Double every amount.", description: str = "Doubles amounts."
) -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n"


def lasting(body: str = "Double every amount.") -> Candidate:
    return Candidate(files={"SKILL.md": skill(body=body)})


def says(command: str) -> str:
    return f"I go on.\n\n```bash\n{command}\n```\n"


def is_writer(request: Request) -> bool:
    return request.messages[0].content.startswith("# Write one skill\n\n")


@dataclass(frozen=True)
class Tables:
    """Every task begins with a table that names the task, and with nothing of an answer."""

    fingerprint: str = "tables"
    files: Mapping[str, str] = field(default_factory=lambda: {"in.csv": "id,amount\n1,10\n2,20\n"})

    def scene(self, task: Task, *, seed: int) -> Scene:
        if task.id == "unknown":
            raise TaskError("no such task")
        return Scene(files={**self.files, "task.txt": f"This is {task.id}.\n"}, env={"RUN_SEED": str(seed)})


@dataclass
class Player:
    """Plays both roles: `writes` answers the writer's request, `commands` are the solver's, in order. It keeps all
    requests."""

    writes: str | Callable[[Request], str] = field(default_factory=skill)
    commands: Sequence[str] = (SUBMIT,)
    cut: bool = False
    asked: list[Request] = field(default_factory=list)
    name: str = "player"
    fingerprint: str = "player"
    deterministic: bool = True
    can_choose: bool = False
    simulated: bool = True

    def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        if is_writer(request):
            text = self.writes if isinstance(self.writes, str) else self.writes(request)
            return Reply(text=text, finish_reason="length" if self.cut else "stop", tokens_in=100, tokens_out=40)
        turn = sum(message.role == "assistant" for message in request.messages)
        return Reply(text=says(self.commands[min(turn, len(self.commands) - 1)]), tokens_in=11, tokens_out=3)

    def close(self) -> None:
        """Nothing was started."""

    @property
    def written_for(self) -> list[Request]:
        return [request for request in self.asked if is_writer(request)]

    @property
    def solved_with(self) -> list[Request]:
        return [request for request in self.asked if not is_writer(request)]


def harness(*, environment: Any = None, sandbox: str = LOCAL, **options: Any) -> SkilledHarness:
    return SkilledHarness(options={"sandbox": sandbox, **options}, environment=environment or Tables())


def run(
    made: SkilledHarness, model: Any, candidate: Candidate = GUIDE, *, task: Task = TASK, seed: int = 5
) -> tuple[Trajectory, tuple[Step, ...]]:
    trajectory = made.run(candidate, task, Episode(model, seed, Preparation()))
    return trajectory, steps_of(trajectory)


def workbook(sheets: Mapping[str, Sequence[Sequence[object]]]) -> str:
    """A workbook in base64."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    stream = io.BytesIO()
    book.save(stream)
    return base64.b64encode(stream.getvalue()).decode("ascii")
