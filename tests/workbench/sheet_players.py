"""SpreadsheetBench tasks that the project wrote itself, and a served model that plays every role on them.

Each task asks for the total of a column. Where the column holds numbers as text, only a solver that was told to look at
types adds them up rightly; so the lesson in the guide is worth something.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.improvers.skill_texts import with_policy
from heldout.skills import start_guide
from heldout.testing.scripted_server import ScriptedReply, SeenRequest
from heldout.testing.workbook_bytes import workbook_bytes

__all__ = ["CANARY", "LESSON", "MARK", "Players", "asked_for", "published", "role_of"]

CANARY = "canary-7c1e-beside-the-answers"
"""Stands in every answer workbook, in a cell that is not compared, and in nothing that a model may see."""

LESSON = "Look at the type of each value before adding it up, and read numbers that are stored as text."

MARK = "made for this request alone: "
"""Begins the line of a transient skill that says whose it is."""

COLUMNS = ("pears", "nails", "tickets", "bricks", "stamps", "lamps", "boats", "chairs", "wheels", "letters")
WORDS = (
    "My cousin runs a farm stall and wants one figure for the season.",
    "For the hardware inventory we need a bottom line.",
    "The theatre asks how many seats were sold altogether.",
    "Our mason has to order again and asks what was used.",
    "A collector would like to know the size of the album.",
    "The electrician counts what hangs in the old school.",
    "Harbour office, yearly statistics, please be quick.",
    "We rent furniture and lost the overview.",
    "The bicycle shop closes its books tonight.",
    "Post office: the postmaster needs the week in one number.",
)


def published(root: Path, *, count: int = 20) -> Path:
    """A folder in the published layout; every fourth task has plain numbers."""
    entries = []
    for number in range(count):
        name = f"{100 + 7 * number}-{number % 3}"
        column = f"{COLUMNS[number % 10]}{'' if number < 10 else ' again'}"
        plain = number % 4 == 0
        values: list[Any] = [3 + number, 2 * number + 1, 11] if plain else [3 + number, f" {2 * number + 1}", "11"]
        rows: list[list[Any]] = [["day", column, None], *([day, value] for day, value in enumerate(values, start=1))]
        folder = root / "spreadsheet" / name
        folder.mkdir(parents=True)
        (folder / f"1_{name}_input.xlsx").write_bytes(workbook_bytes({"Counts": rows}))
        right = [[*rows[0], None, None, CANARY], *rows[1:]]
        right[0][3] = 3 + number + 2 * number + 1 + 11
        (folder / f"1_{name}_answer.xlsx").write_bytes(workbook_bytes({"Counts": right}))
        where = f"{WORDS[number % 10]} {WORDS[(number + 3) % 10] if number >= 10 else ''}".strip()
        entries.append(
            {
                "id": name,
                "instruction": f"{where} Add up the column '{column}' and write the total into cell D1.",
                "spreadsheet_path": f"spreadsheet/{name}",
                "instruction_type": "Cell-Level Manipulation",
                "answer_position": "D1",
            }
        )
    (root / "dataset.json").write_text(json.dumps(entries))
    return root


_ROLES: Mapping[str, str] = {
    "# Write one skill\n": "writer",
    "# Solve one task\n": "solver",
    "# Your work\nAn agent was given a skill": "attributor",
    "# Your work\nYou edit a guide": "editor",
    "# Your work\nYou edit one skill": "skill editor",
    "# Your work\nWrite one skill": "drafter",
}
"""How the system message of each role begins."""


def role_of(request: SeenRequest) -> str:
    """Which part a request asks for; `check` for the first question of an opening."""
    messages = request.body["messages"]
    if len(messages) == 1 or messages[0]["role"] != "system":
        return "check"
    system = str(messages[0]["content"])
    return next((role for begins, role in _ROLES.items() if system.startswith(begins)), "check")


def asked_for(request: SeenRequest) -> str:
    """The task's text, as a writer and a solver are told it."""
    text = str(request.body["messages"][1]["content"])
    if role_of(request) == "writer":
        return text.removeprefix("# Request\n\n").partition("\n\n# What the task shows")[0]
    return text


Fault = Callable[[str, SeenRequest], ScriptedReply | None]
"""(role, request) -> what the server does instead, or None."""


@dataclass
class Players:
    """One server's script. `ways` holds what goes wrong with a task, by its text, whatever it was told."""

    ways: Mapping[str, str] = field(default_factory=dict)
    """`deletes`, `garbage`, `errs`: what the solver leaves; `snoops`: it looks for answers and leaves the workbook;
    `undescribed`: what the writer writes."""
    edits: list[str] = field(default_factory=lambda: [LESSON])
    """Policies that the editor adds to the blamed module, one a round; the last again."""
    blames: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the attributor says of a task, by its text, instead of what it says of others."""
    fault: Fault = lambda _role, _request: None
    counted: Counter[str] = field(default_factory=Counter)
    edited: int = 0
    unreadable: int = 0
    """Writer requests whose workbook could not be shown."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: SeenRequest) -> ScriptedReply:
        """The reply to a request."""
        role = role_of(request)
        instead = self.fault(role, request)
        with self._lock:
            self.counted[role] += 1
        if instead is not None:
            return instead
        plays = {
            "check": lambda _: "yes",
            "writer": self._write,
            "solver": self._solve,
            "attributor": self._blame,
            "editor": self._edit,
            "drafter": self._draft,
            "skill editor": self._draft,
        }
        return ScriptedReply(text=plays[role](request))

    def _write(self, request: SeenRequest) -> str:
        """A skill that hands the guide's lesson on, if it has it."""
        system, text = str(request.body["messages"][0]["content"]), asked_for(request)
        with self._lock:
            self.unreadable += "## workbook.xlsx\nUnreadable: " in str(request.body["messages"][1]["content"])
        if self.ways.get(text) == "undescribed":
            return "```markdown\n---\nname: add-up\n---\n\n1. Add up.\n```"
        lesson = f"2. {LESSON}\n" if LESSON in system else ""
        body = f"1. Add up the column and save the workbook.\n{lesson}\nNote: {MARK}{text}"
        return f"```markdown\n---\nname: add-up\ndescription: Adds up a column.\n---\n\n{body}\n```"

    def _solve(self, request: SeenRequest) -> str:
        """A turn: it edits the workbook with Python, then submits; of plain numbers, after a fault and a recovery."""
        system, text, *past = (str(message["content"]) for message in request.body["messages"])
        turn, recovering = len(past) // 2, any("# One recovery" in message for message in past)
        slow = "again'" in text
        if recovering:
            moves = [_adds(text, careful=LESSON in system), "echo HELDOUT_SUBMIT"]
            return _turn(moves[turn - 2])
        begin = _LEAVES.get(self.ways.get(text, ""), _adds(text, careful=LESSON in system, off=slow))
        fault = "echo 'HELDOUT_FAULT execution: the total is off by one'; " if slow else ""
        return _turn([begin, f"{fault}echo HELDOUT_SUBMIT"][turn])

    def _blame(self, request: SeenRequest) -> str:
        question = str(request.body["messages"][1]["content"])
        said: dict[str, Any] = {
            "step": 0,
            "stage": "source selection",
            "module": "m2_sources.md",
            "mechanism": "It left out values that are stored as text.",
            "evidence": "turn 0",
            "preserve": "the rest",
            "learnable": True,
        }
        instead = next((other for text, other in self.blames.items() if text in question), {})
        return json.dumps({**said, **instead})

    def _edit(self, request: SeenRequest) -> str:
        """The blamed module with one more policy; asked again in the same dialogue it says the same."""
        system = str(request.body["messages"][0]["content"])
        module = re.search(r"rewrite (m\d_\w+\.md)", system)
        assert module is not None
        with self._lock:
            self.edited += len(request.body["messages"]) == 2
            policy = self.edits[min(self.edited, len(self.edits)) - 1]
        text = with_policy(start_guide()[module[1]], policy, file=module[1])
        return f"NOTE: adds a policy\n````markdown\n{text}````\n"

    def _draft(self, _request: SeenRequest) -> str:
        body = f"1. Add up the column and save the workbook.\n2. {LESSON}"
        return f"NOTE: drafts\n````markdown\n---\nname: add-up\ndescription: Adds up.\n---\n\n{body}\n````\n"


def _turn(command: str) -> str:
    return f"I go on.\n\n```bash\n{command}\n```"


def _adds(text: str, *, careful: bool, off: bool = False) -> str:
    column = re.search(r"the column '(.*?)'", text)
    assert column is not None
    total = "sum(float(value) for value in values)" if careful else "sum(v for v in values if not isinstance(v, str))"
    return "\n".join(
        [
            "python3 - <<'PY'",
            "import openpyxl",
            'book = openpyxl.load_workbook("workbook.xlsx")',
            "sheet = book.active",
            f"at = [cell.value for cell in sheet[1]].index({column[1]!r}) + 1",
            "values = [sheet.cell(row, at).value for row in range(2, sheet.max_row + 1)]",
            f'sheet["D1"] = {total}{" + 1" if off else ""}',
            'book.save("workbook.xlsx")',
            "PY",
        ]
    )


_WANTED = ("*answer*", "*golden*", "dataset.json", "events.jsonl", "SKILL.md", "workbook.xlsx")

_LEAVES: Mapping[str, str] = {
    "snoops": "find / \\( -path /proc -o -path /sys \\) -prune -o -type f \\( "
    + " -o ".join(f"-name '{name}'" for name in _WANTED)
    + " \\) -print 2>/dev/null; env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; echo END OF THE SEARCH",
    "deletes": "rm workbook.xlsx",
    "garbage": "echo 'no workbook at all' > workbook.xlsx",
    "errs": "python3 -c \"import openpyxl; b = openpyxl.load_workbook('workbook.xlsx'); b.active['D1'] = '=B2/0'; "
    "b.save('workbook.xlsx')\"",
}
