"""Views, traces and scripted replies for the tests of improvers of skills."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from heldout.harness.steps import Step
from heldout.improvers.skill_roles import Attribution, DraftView, EditView, FaultView, SkillNote, SkillTrace
from heldout.records import Candidate, TrainTask
from heldout.skills.guide import NO_SKILL, start_guide
from heldout.skills.modules import SKILL_FILE

GUIDE = Candidate(files=dict(start_guide()))
NONE = Candidate(files=dict(NO_SKILL))
SKILL = Candidate(
    files={
        SKILL_FILE: "---\nname: tables\ndescription: Work on tables.\n---\n\n# Tables\n\n- Save the result as it was.\n"
    }
)
FAULT = Attribution(
    step=0,
    stage="source selection",
    module="m2_sources.md",
    mechanism="columns: decided wrongly",
    evidence="turn 0: it summed a text column",
    preserve="the bindings to headers",
)
"""What an attributor of the catalogue says."""


def program(**decisions: bool) -> Step:
    """A turn that ran a simulated program; `columns=False` is a wrong decision."""
    said = ", ".join(f"{part} {'ok' if right else 'wrong'}" for part, right in decisions.items())
    command = f"python3 - <<'PY'\n# simulated decisions: {said}\nprint('done')\nPY"
    return Step(
        kind="command", text=f"I run it.\n\n```bash\n{command}\n```", command=command, output="done", exit_code=0
    )


def submit() -> Step:
    """The turn that ends an episode."""
    return Step(kind="submit", text="```bash\necho HELDOUT_SUBMIT\n```", command="echo HELDOUT_SUBMIT", exit_code=0)


def trace(task: str = "t-1", *, steps: Sequence[Step] | None = None, **changes: Any) -> SkillTrace:
    """A failed episode that decided on the columns wrongly."""
    given: dict[str, Any] = {
        "task": TrainTask(id=task, input=f"Sum the amounts of {task}.", reference=""),
        "visible": "in.xlsx: sheet Stock, headers Item, Amount",
        "skill": "---\nname: once\ndescription: Once.\n---\n\nSum it.\n",
        "steps": (program(outputs=True, columns=False, steps=True), submit()) if steps is None else tuple(steps),
        "answer": '{"in.xlsx":"UEsDBB=="}',
        "score": 0.0,
        "feedback": "cell B9 is 12 and should be 15",
        "first_fault": "",
        "measures": {"turns": 2.0},
    }
    return SkillTrace(**{**given, **changes})


def fault_view(found: SkillTrace | None = None, **changes: Any) -> FaultView:
    """What an attributor is given."""
    given: dict[str, Any] = {
        "round": 2,
        "seed": 11,
        "head": GUIDE,
        "target": "guide",
        "trace": found or trace(),
        "description": "Change workbooks as requests say.",
        "run_seed": 3,
    }
    return FaultView(**{**given, **changes})


def edit_view(**changes: Any) -> EditView:
    """What an editor is given: a fault of the second module."""
    given: dict[str, Any] = {
        "round": 2,
        "seed": 12,
        "head": GUIDE,
        "target": "guide",
        "module": "m2_sources.md",
        "faults": (FAULT,),
        "traces": (trace(),),
        "history": (),
        "description": "Change workbooks as requests say.",
        "run_seed": 3,
    }
    return EditView(**{**given, **changes})


def draft_view(tasks: Sequence[TrainTask] = (), **changes: Any) -> DraftView:
    """What a first writer is given."""
    found = tasks or [trace(f"t-{number}").task for number in range(3)]
    given: dict[str, Any] = {
        "seed": 13,
        "head": NONE,
        "tasks": tuple((task, f"what {task.id} shows") for task in found),
        "description": "Change workbooks as requests say.",
        "run_seed": 3,
    }
    return DraftView(**{**given, **changes})


def note(text: str, *, file: str = "m2_sources.md", verdict: str = "reject") -> SkillNote:
    """What became of an edit of one file."""
    return SkillNote(round=1, edited=(file,), note=text, verdict=verdict, reason="u = −1", regressions=("s-4",))


def blaming(**changes: Any) -> str:
    """An attributor's reply that fits."""
    said: Mapping[str, Any] = {
        "step": 0,
        "stage": "source selection",
        "module": "m2_sources.md",
        "mechanism": "It took a text column for numbers.",
        "evidence": "turn 0 printed done",
        "preserve": "the bindings to headers",
        "learnable": True,
    }
    return json.dumps({**said, **changes})


def writing(text: str, *, head: str = "NOTE: says how values are looked at") -> str:
    """An editor's reply with this text."""
    return f"{head}\n\n````markdown\n{text}````\n"
