"""What a writer and a solver can know: their own task, and nothing of graders or of other tasks' skills."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from skill_parts import GUIDE, LOCAL, SUBMIT, Player, Tables, harness, is_writer, lasting, skill

import heldout.skills
from heldout.config import BudgetConfig, ExecutorConfig
from heldout.ledger import Ledger
from heldout.models import Request
from heldout.records import Candidate, SelectTask, TrainTask
from heldout.rollouts import Engine, Sweep, make_executor
from heldout.store import MemoryTraces
from heldout.tasks.environment import read_changes
from heldout.testing import MemoryJournal
from heldout.testing.object_graph import reached

ROOM = Path(heldout.skills.__file__).parent
TASKS = tuple(SelectTask(id=f"task-{i}", input=f"Do the work of number {i}.") for i in range(6))
CANARY = "CANARY-7f3a-in-the-gold-file"


def number_of(request: Request) -> str:
    """Which task a request is about, by its own text."""
    found = re.search(r"work of number (\d)", request.messages[1].content)
    assert found is not None
    return found[1]


def plants_a_marker(request: Request) -> str:
    return skill(body=f"MARKER-{number_of(request)}-{request.seed}\n\nDo it.")


@dataclass
class Room:
    """An engine over the harness, with what it keeps."""

    model: Player
    sandbox: str = LOCAL
    gold: Path | None = None
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    kept: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine = Engine(
            harness(sandbox=self.sandbox),
            self.model,
            make_executor(ExecutorConfig(kind="threads", workers=3)),
            Ledger(BudgetConfig()),
            self.journal.append,
            keep_trace=MemoryTraces({}).save,
            keep_artifact=self._keep,
        )

    def sweep(self, candidate: Candidate, *, repeat: int = 0) -> list[float | None]:
        sweep = Sweep(candidate, TASKS, "select", repeat, traced=True)
        return [outcome.score for outcome in self.engine.evaluate(sweep, grade=self._grade)]

    def _grade(self, task: str, answer: str | None) -> float:
        gold = "2" if self.gold is None else (self.gold / f"{task}.txt").read_text()
        return float(read_changes(answer).get("out.txt") == gold)

    def _keep(self, name: str, text: str) -> str:
        self.kept[f"{name}/{len(self.kept)}"] = text
        return f"digest-{len(self.kept)}"


def test_no_transient_skill_text_reaches_the_context_of_another_task() -> None:
    """Invariant 3: a marker in every skill, searched for in every request of several tasks, sweeps and candidates."""
    model = Player(writes=plants_a_marker, commands=("ls; cat *; env; ls /tmp", SUBMIT))
    room = Room(model)
    other = Candidate(files={**GUIDE.files, "m1_task.md": GUIDE.files["m1_task.md"] + "\n"})
    for candidate in (GUIDE, other, lasting()):
        for repeat in (0, 1):
            room.sweep(candidate, repeat=repeat)
    assert len(model.written_for) == 2 * 2 * len(TASKS)
    own = 0
    for request in model.asked:
        text = "\n".join(message.content for message in request.messages)
        found = re.findall(r"MARKER-(\d)-(\d+)", text)
        if is_writer(request):
            assert found == []
            continue
        assert set(found) <= {(number_of(request), str(request.seed))}
        own += bool(found)
    assert own == 2 * 2 * len(TASKS) * 2
    kept = [text for text in room.kept.values() if "MARKER-" in text]
    assert len(kept) == len(model.written_for)


def test_a_transient_skill_is_a_record_that_the_harness_cannot_reach() -> None:
    model = Player(writes=plants_a_marker)
    room = Room(model)
    room.sweep(GUIDE)
    assert any("MARKER-" in text for text in room.kept.values())
    assert reached(room.engine.harness, ["MARKER-"]) == set()


def test_the_writers_process_cannot_read_a_planted_canary_beside_the_gold_files(
    bubblewrap: None, tmp_path: Path
) -> None:
    """Invariant 4, and the solver cannot either."""
    del bubblewrap
    for task in TASKS:
        (tmp_path / f"{task.id}.txt").write_text("2\n")
    (tmp_path / "canary.txt").write_text(CANARY)
    search = f"cat {tmp_path}/* || ls {tmp_path} || ls {tmp_path.parent}; echo 2 > out.txt"
    model = Player(commands=(search, SUBMIT))
    room = Room(model, sandbox="bubblewrap", gold=tmp_path)
    assert room.sweep(GUIDE) == [1.0] * len(TASKS)
    assert len(model.asked) == 3 * len(TASKS)
    for request in model.asked:
        text = "\n".join(message.content for message in request.messages)
        assert CANARY not in text
        if is_writer(request):
            assert str(tmp_path) not in text
        elif len(request.messages) > 2:
            assert "No such file or directory" in text
    assert reached(room.engine.harness, [CANARY, str(tmp_path)]) == set()


def test_a_tasks_reference_is_in_no_request() -> None:
    model = Player()
    task = TrainTask(id="task-0", input="Do the work of number 0.", reference=CANARY)
    room = Room(model)
    room.engine.evaluate(Sweep(GUIDE, (task,), "train"), grade=lambda _task, _answer: 1.0)
    assert len(model.asked) == 2
    assert all(CANARY not in request.model_dump_json() for request in model.asked)


def test_garbage_of_a_writer_is_a_failed_outcome_and_never_a_missing_one() -> None:
    room = Room(Player(writes="Nothing."))
    assert room.sweep(GUIDE) == [0.0] * len(TASKS)


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("name", ["writer", "visible", "workbook", "solver", "faults", "compiling", "harness"])
def test_what_makes_a_request_imports_no_grader_no_task_set_and_no_world(name: str) -> None:
    found = list(imports_of(ROOM / f"{name}.py"))
    assert found
    closed = re.compile(
        r"heldout\.(worlds|benchmarks|rollouts|store\.traces|tasks(?!\.environment|\.workbooks\.packages))"
    )
    assert [one for one in found if closed.match(one)] == []


def test_a_scene_is_the_only_part_of_a_task_that_a_harness_is_given() -> None:
    assert reached(harness(environment=Tables()), ["This is task-0"]) == set()
