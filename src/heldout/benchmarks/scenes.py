"""Where the tasks of published agent benchmarks begin, and the folders of text that they are made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from heldout.errors import SetupError, TaskError
from heldout.records import Task, digest_of
from heldout.sandbox import Limits, Sandboxes, Scene, make_sandboxes
from heldout.tasks.environment import read_changes

__all__ = ["Beginning", "Beginnings", "Tree", "applied", "image_tree", "read_tree", "safe_path", "sandboxes_for"]

_IGNORED = frozenset({".git", "__pycache__", ".pytest_cache", ".hg", ".svn", ".tox", "node_modules"})
_LARGEST = 16 << 20
"""Bytes of text that a folder may hold."""

_LARGEST_ANSWER = 64 << 20
_DEEPEST = 32

Tree = Mapping[str, str]
"""Relative path to text."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """One task's beginning. It holds nothing of a grader or of a reference."""

    files: Tree = field(default_factory=dict)
    """The work folder's text, where it is not read from a folder or an image."""
    folder: str | None = None
    """Host folder that the work folder is read from."""
    image: str | None = None
    """Container image; None runs on this machine's base system."""
    origin: str | None = None
    """Folder of the image that becomes the work folder."""
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def tree(self) -> Tree:
        """The text files of the work folder. Cached where they are read from elsewhere."""
        if self.folder is not None:
            return _known_tree(self.folder)
        if self.image is not None and self.origin is not None:
            return image_tree(self.image, self.origin)
        return self.files

    def scene(self) -> Scene:
        return Scene(
            files=dict(self.tree()),
            env=dict(self.env),
            image=self.image,
            origin=self.origin,
            limits=self.limits,
        )


@dataclass(frozen=True, slots=True)
class Beginnings:
    """The `Environment` of a source whose tasks do not differ from one run to the next."""

    source: str
    by_task: Mapping[str, Beginning]

    @property
    def fingerprint(self) -> str:
        """Of everything that a task may begin with, but for what lies in folders and images."""
        tasks = {
            name: [one.folder, one.image, one.origin, dict(one.files), dict(one.env), one.limits.model_dump()]
            for name, one in self.by_task.items()
        }
        return f"{self.source}:{digest_of(tasks)[:16]}"

    def scene(self, task: Task, *, seed: int) -> Scene:
        del seed  # These tasks begin in the same way in every run.
        if task.id not in self.by_task:
            raise TaskError(f"task {task.id!r} is not of the source {self.source!r}")
        return self.by_task[task.id].scene()


def sandboxes_for(image: str | None) -> Sandboxes:
    """Docker for what needs an image, else bubblewrap."""
    return make_sandboxes("bubblewrap" if image is None else "docker")


def safe_path(path: str, *, where: str) -> str:
    """A relative path that stays within its folder; `SetupError` names `where` it was found."""
    parts = PurePosixPath(path).parts
    if not path or path.startswith("/") or ".." in parts or "\\" in path or "\0" in path:
        raise SetupError(f"{where}: the path {path!r} leads out of the folder")
    return PurePosixPath(path).as_posix()


def applied(tree: Tree, answer: str | None, *, protected: Callable[[str], bool] | None = None) -> dict[str, str] | None:
    """The work folder that an answer leaves, but for version control and for changes to what is `protected`; None where
    it holds what no work folder can: bad paths, half characters, too much.

    That is the answer's fault: it must not surface as a sandbox that failed, which would let the answer go missing.
    """
    changes = {path: text for path, text in read_changes(answer).items() if not path.startswith(".git/")}
    if protected is not None:
        changes = {path: text for path, text in changes.items() if not protected(path)}
    if not all(map(_is_plain, changes)) or not _fits(text for text in changes.values() if text is not None):
        return None
    files = {**tree, **{path: text for path, text in changes.items() if text is not None}}
    for path in changes.keys() - {path for path, text in changes.items() if text is not None}:
        files.pop(path, None)
    folders = {parent.as_posix() for path in files for parent in PurePosixPath(path).parents}
    return None if folders & files.keys() else files


def _fits(texts: Iterable[str]) -> bool:
    try:
        return sum(len(text.encode()) for text in texts) <= _LARGEST_ANSWER
    except UnicodeEncodeError:
        return False


def _is_plain(path: str) -> bool:
    parts = PurePosixPath(path).parts
    plain = "/".join(parts) == path and not path.startswith("/") and ".." not in parts
    return plain and 0 < len(parts) <= _DEEPEST and "\0" not in path and len(path) < 1024 and path.isprintable()


def read_tree(folder: str) -> Tree:
    """Every text file of a folder; `SetupError` for links, and where it is too large. Files that are no text are left
    out, as are caches and version control."""
    root = Path(folder)
    if not root.is_dir():
        raise SetupError(f"no such folder {folder!r}")
    files: dict[str, str] = {}
    size = 0
    for place, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - _IGNORED)
        for name in sorted(names):
            path = Path(place) / name
            if path.is_symlink() or not path.is_file():
                continue
            size += path.stat().st_size
            if size > _LARGEST:
                raise SetupError(f"{folder!r} holds more than {_LARGEST >> 20} MB; a work folder must be smaller")
            text = _text(path)
            if text is not None:
                files[path.relative_to(root).as_posix()] = text
    return MappingProxyType(files)


@lru_cache(maxsize=64)
def _known_tree(folder: str) -> Tree:
    return read_tree(folder)


@lru_cache(maxsize=16)
def image_tree(image: str, origin: str) -> Tree:
    """The text files of a folder of a container image, read by starting it once."""
    with make_sandboxes("docker").open(Scene(image=image, origin=origin)) as box:
        return MappingProxyType(dict(box.snapshot()))


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None
    except OSError as cause:
        raise SetupError(f"cannot read {str(path)!r}: {cause.strerror}") from cause
