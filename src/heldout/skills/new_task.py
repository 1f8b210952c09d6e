"""A task that a person brings: a folder with a request and input files, or a text file that is the request."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from heldout.errors import SetupError
from heldout.sandbox import Scene

__all__ = ["REQUEST_FILES", "TASK_FOLDER_BYTES", "NewTask", "read_task"]

REQUEST_FILES = ("instruction.txt", "request.md", "prompt.txt")
"""Where a task's folder holds its request; the first of them that is there."""

TASK_FOLDER_BYTES = 64 << 20
"""Largest folder of a task."""

_REQUEST_BYTES = 1 << 20
_ANSWER = re.compile(r"(?:^|[/_-])(?:answer|answers|golden|gold|solution|expected)\.\w+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NewTask:
    """What a writer is told of it."""

    request: str
    scene: Scene
    left_out: tuple[str, ...] = ()
    """Files that look like the answer, which no writer may see."""


def read_task(path: Path) -> NewTask:
    """The task at this path; `SetupError` says what is missing.

    Links in a folder are left out, also one that stands for the request: whoever made the folder may not choose which
    other files of this machine a model is shown. Hidden files are left out, and so are answers beside the inputs, as
    published benchmarks have them.
    """
    if path.is_file():
        return NewTask(_request(path), Scene())
    if not path.is_dir():
        raise SetupError(f"no task at {str(path)!r}: name a text file, or a folder that holds {_one_of_them()}")
    found = next((path / name for name in REQUEST_FILES if _is_own_file(path / name)), None)
    if found is None:
        holds = ", ".join(sorted(entry.name for entry in path.iterdir())[:8]) or "nothing"
        raise SetupError(f"{str(path)!r} holds no request: put it into {_one_of_them()}; there is {holds}")
    request = _request(found)
    inputs = {name: data for name, data in _inputs(path) if path / name != found}
    answers = tuple(name for name in inputs if _ANSWER.search(name))
    return NewTask(request, _scene({name: data for name, data in inputs.items() if name not in answers}), answers)


def _is_own_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _request(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > _REQUEST_BYTES:
            raise SetupError(f"the request in {str(path)!r} has {size} bytes; at most {_REQUEST_BYTES} are taken")
        data = path.read_bytes()
        text = data.decode().strip()
    except OSError as cause:
        raise SetupError(f"cannot read {str(path)!r}: {cause.strerror}") from cause
    except UnicodeDecodeError as cause:
        raise SetupError(f"{str(path)!r} is not UTF-8 text, so it is no request") from cause
    if not text or "\0" in text:
        raise SetupError(f"{str(path)!r} holds no request: {'a NUL character' if text else 'it is blank'}")
    return text


def _inputs(folder: Path) -> Iterator[tuple[str, bytes]]:
    total = 0
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if not _is_own_file(path) or any(part.startswith(".") for part in inside.parts):
            continue
        try:
            total += path.stat().st_size
            if total > TASK_FOLDER_BYTES:
                raise SetupError(
                    f"{str(folder)!r} has more than {TASK_FOLDER_BYTES} bytes, too many for a task's folder"
                )
            yield inside.as_posix(), path.read_bytes()
        except OSError as cause:
            raise SetupError(f"cannot read {str(path)!r}: {cause.strerror}") from cause


def _scene(inputs: Mapping[str, bytes]) -> Scene:
    """Files that are no text are bytes, and so is every other file of their suffix."""
    suffixes = tuple(sorted({Path(name).suffix or name for name, data in inputs.items() if _text(data) is None}))
    files = {name: _carried(name, data, suffixes) for name, data in inputs.items()}
    return Scene(files=files, encoded=suffixes)


def _carried(name: str, data: bytes, suffixes: tuple[str, ...]) -> str:
    text = _text(data)
    encoded = text is None or name.lower().endswith(tuple(suffix.lower() for suffix in suffixes))
    return base64.b64encode(data).decode("ascii") if encoded or text is None else text


def _text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _one_of_them() -> str:
    return " or ".join([", ".join(REQUEST_FILES[:-1]), REQUEST_FILES[-1]])
