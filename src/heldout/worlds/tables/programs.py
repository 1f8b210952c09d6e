"""The programs that do a task, rightly or with some parts wrong: their source, and what they leave behind."""

from __future__ import annotations

import base64
import contextlib
import io
from collections.abc import Collection, Iterator, Mapping

from heldout.worlds.tables.draft import draft_of
from heldout.worlds.tables.generator import ENCODED
from heldout.worlds.tables.job import Job
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.plan import Call, perform, settled, verb
from heldout.worlds.tables.toolbox.folder import MemoryFolder

__all__ = ["DECISIONS", "carried_out", "program"]

DECISIONS = "# simulated decisions: "
"""How the first line of a program begins; after it come the parts of the task, `outputs ok, columns wrong, …`."""


def program(job: Job, wrong: Collection[Part] = frozenset()) -> str:
    """Python source that does the task in the current folder, with exactly these parts wrong.

    It runs where `environment` has mounted the toolbox, begins with the files that the first such program found, and
    prints what a check would look at. `ValueError` for a part that the task does not have.
    """
    calls = list(_calls(job, wrong))
    told = ", ".join(f"{part} {'wrong' if part in wrong else 'ok'}" for part in job.parts)
    verbs = sorted({(verb(call.verb)[0], call.verb) for call in calls})
    imports = {module: ", ".join(name for place, name in verbs if place == module) for module, _ in verbs}
    lines = [
        f"{DECISIONS}{told}",
        "from heldout.worlds.tables.toolbox.folder import DiskFolder",
        *(f"from {module} import {names}" for module, names in imports.items()),
        "",
        "work = DiskFolder()",
        *map(_line, calls),
    ]
    return "\n".join(lines) + "\n"


def carried_out(job: Job, wrong: Collection[Part] = frozenset()) -> dict[str, str]:
    """The files that the program leaves, workbooks as base64, without a sandbox."""
    folder = MemoryFolder({name: _data(name, text) for name, text in job.files.items()})
    with contextlib.redirect_stdout(io.StringIO()):
        perform(_calls(job, wrong), {"work": folder})
    return {name: _text(name, data) for name, data in sorted(folder.files.items())}


def _calls(job: Job, wrong: Collection[Part]) -> Iterator[Call]:
    strange = [part for part in wrong if part not in job.parts]
    if strange:
        raise ValueError(f"{job.id} has no part {', '.join(strange)}; it has {', '.join(job.parts)}")
    return settled(draft_of(job.origin).calls, wrong)


def _line(call: Call) -> str:
    """A call as a line of Python."""
    arguments = [*call.on, *(f"{name}={_plain(value)!r}" for name, value in call.options.items() if value is not None)]
    gives = f"{call.gives} = " if call.gives else ""
    return f"{gives}{call.verb}({', '.join(arguments)})"


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value


def _data(name: str, text: str) -> bytes:
    return base64.b64decode(text) if name.endswith(ENCODED) else text.encode()


def _text(name: str, data: bytes) -> str:
    return base64.b64encode(data).decode() if name.endswith(ENCODED) else data.decode()
