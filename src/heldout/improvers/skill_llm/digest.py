"""Episodes and tasks as texts of a stated length."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.harness.steps import Step
from heldout.improvers.clipping import clipped
from heldout.improvers.skill_roles import Attribution, SkillNote, SkillTrace
from heldout.records import TrainTask
from heldout.tasks.environment import read_changes

__all__ = ["clipped", "fault_text", "history_text", "task_text", "trace_text"]

_LEAST_TURN = 300
"""Room of a turn below which turns in the middle are left out; the first and the last are always shown."""
_NOTES_SHOWN = 8
_NOTE_SHOWN = 500
_MARK = 60
"""Room for the line that says what was left out."""


def trace_text(trace: SkillTrace, *, limit: int) -> str:
    """An episode in at most `limit` characters (and at least 2,000): the request, what the task shows, the skill, what
    was found wrong, and the turns, numbered from 0, which take what the others leave."""
    measured = ", ".join(f"{name} {value:g}" for name, value in sorted(trace.measures.items()))
    parts = [
        f"train task {trace.task.id}; score {trace.score:g}{f'; {clipped(measured, 200)}' if measured else ''}",
        _section("The request", trace.task.input, limit // 7),
        _section("What the task shows", trace.visible, limit // 7),
        _section("The skill that the solver was given", trace.skill or "None.", limit // 5),
        _section("First fault, as the solver recorded it", trace.first_fault, limit // 16),
        _section("What the grader says", trace.feedback, limit // 16),
        _section("What was answered", _answer_text(trace.answer), limit // 16),
    ]
    told = "\n\n".join(part for part in parts if part)
    heading = "### The turns\n"
    return f"{told}\n\n{heading}{_turns(trace.steps, limit - len(told) - len(heading) - 2)}"


def task_text(task: TrainTask, visible: str, *, limit: int) -> str:
    """A train task and what it shows, in at most `limit` characters."""
    parts = [
        f"train task {task.id}",
        _section("The request", task.input, limit // 2 - 50),
        _section("What the task shows", visible, limit // 2 - 50),
    ]
    return "\n\n".join(part for part in parts if part)


def fault_text(fault: Attribution) -> str:
    """An attribution, for the editor."""
    if not fault.stage:
        return f"No fault that can be learned from. {fault.evidence}".strip()
    lines = {
        "stage": fault.stage,
        "module": fault.module or "",
        "turn": "" if fault.step is None else str(fault.step),
        "mechanism": fault.mechanism,
        "evidence": fault.evidence,
        "must be preserved": fault.preserve,
    }
    return "\n".join(f"- {name}: {value}" for name, value in lines.items() if value)


def history_text(notes: Sequence[SkillNote]) -> str:
    """What became of the newest edits."""
    return "\n".join(clipped(_note_text(note), _NOTE_SHOWN) for note in notes[-_NOTES_SHOWN:])


def _answer_text(answer: str | None) -> str:
    """An answer; of changed files their names, since workbooks are no text."""
    changes = read_changes(answer)
    if not changes:
        return answer or "Nothing."
    sizes = {path: "deleted" if text is None else f"{len(text)} characters" for path, text in changes.items()}
    return "Changed files: " + "; ".join(f"{path} ({size})" for path, size in sorted(sizes.items()))


def _note_text(note: SkillNote) -> str:
    parts = [f"- round {note.round}: {note.verdict or 'no verdict'}"]
    parts += [f"edited {', '.join(note.edited)}"] if note.edited else []
    parts += [" ".join(note.note.split())] if note.note else []
    parts += [f"because {note.reason}"] if note.reason else []
    parts += [f"repaired {', '.join(note.repairs)}"] if note.repairs else []
    parts += [f"broke {', '.join(note.regressions)}"] if note.regressions else []
    return "; ".join(parts)


def _section(title: str, text: str, limit: int) -> str:
    shown = clipped(text, max(100, limit))
    return f"### {title}\n{shown}" if shown else ""


def _turns(steps: Sequence[Step], limit: int) -> str:
    """The turns, each with the same room at most; too many of them lose their middle."""
    if not steps:
        return "There is none."
    most = max(2, (limit - _MARK) // (_LEAST_TURN + 2))
    numbered = list(enumerate(steps))
    shown = numbered if len(steps) <= most else [*numbered[: most // 2], *numbered[len(steps) - most + most // 2 :]]
    room = max(100, (limit - _MARK) // len(shown) - 2)
    texts = [clipped(_turn_text(number, step), room) for number, step in shown]
    if len(shown) < len(steps):
        texts.insert(most // 2, f"[{len(steps) - len(shown)} turns left out]")
    return "\n\n".join(texts)


def _turn_text(number: int, step: Step) -> str:
    lines = [f"[turn {number}] {step.kind}"]
    lines += [step.text] if step.text else []
    if step.command is not None and step.command not in step.text:
        lines.append(f"$ {step.command}")
    if step.output or step.exit_code is not None:
        code = "" if step.exit_code is None else f" (exit code {step.exit_code})"
        lines.append(f"[output{code}{f', killed: {step.killed}' if step.killed else ''}]\n{step.output}")
    return "\n".join(lines)
