"""The evolvable folder of an agent's harness: texts that become the system message, hooks, and loop settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from heldout.errors import HarnessError
from heldout.harness.hook_audit import HOOKS_BYTES, HOOKS_FILE, audit_hooks
from heldout.harness.hook_surface import HookSurface
from heldout.harness.hooks import NO_HOOKS
from heldout.harness.loop_settings import LOOP_FILE, read_loop_file
from heldout.records import Candidate, digest_of

__all__ = [
    "FILE_LIMITS",
    "FOLDERS",
    "FOLDER_FILES",
    "FOLDER_FILE_BYTES",
    "PROMPT_FILE",
    "Workspace",
    "assemble",
    "check_workspace",
    "component_fingerprints",
    "read_workspace",
]

PROMPT_FILE = "system_prompt.md"
"""The file that a start folder has."""

FILE_LIMITS: Mapping[str, int] = {
    PROMPT_FILE: 16384,
    "workflow.md": 16384,
    "memory.md": 32768,
    HOOKS_FILE: HOOKS_BYTES,
    LOOP_FILE: 1024,
}
"""Bytes of each single file."""

FOLDERS: Mapping[str, str] = {
    "tool_notes": "Tool notes",
    "skills": "Skill",
    "middleware": "Middleware",
    "subagents": "Subagent",
}
"""Folders of `*.md` files, with the heading of each of their files."""

FOLDER_FILES = 24
"""Files in each folder."""

FOLDER_FILE_BYTES = 8192

_HEADINGS: Mapping[str, str] = {PROMPT_FILE: "System prompt", "workflow.md": "Workflow", "memory.md": "Memory"}

_COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "prompt": (PROMPT_FILE, "workflow.md", "memory.md", "skills/", "subagents/"),
    "tools": ("tool_notes/",),
    "handlers": ("middleware/", "harness_code/"),
}
"""Component to the files and folders that make it up."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\.md")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A candidate folder that passed every check."""

    text: str
    """Its texts, joined under headings: the system message before the protocol's rules."""
    hooks: HookSurface
    settings: Mapping[str, int]
    """What its `loop.toml` declares."""
    components: Mapping[str, str]
    """Fingerprint of each component."""


def read_workspace(candidate: Candidate) -> Workspace:
    """The folder as the loop needs it. `HarnessError`, which names file and fault, for one that cannot be run."""
    return _read(tuple(sorted(candidate.files.items())))


def check_workspace(candidate: Candidate) -> None:
    """Raise as `read_workspace` does; nothing of the candidate is run."""
    read_workspace(candidate)


def assemble(candidate: Candidate) -> str:
    """The texts of the folder in their fixed order, each under its heading; empty files add nothing."""
    files = candidate.files
    parts = [(heading, files.get(path, "")) for path, heading in _HEADINGS.items()]
    for folder, heading in FOLDERS.items():
        inside = sorted(path for path in files if path.startswith(f"{folder}/"))
        parts += [(f"{heading}: {_stem(path)}", files[path]) for path in inside]
    text = "\n\n".join(f"# {heading}\n\n{body.strip()}" for heading, body in parts if body.strip())
    if not text:
        raise HarnessError(f"the folder has no text for the model; {PROMPT_FILE} is where it begins")
    return text


def component_fingerprints(candidate: Candidate) -> dict[str, str]:
    """A digest of the files of each component: prompt, tools, handlers."""
    return {
        component: digest_of({path: text for path, text in candidate.files.items() if path.startswith(places)})[:16]
        for component, places in _COMPONENTS.items()
    }


@lru_cache(maxsize=256)
def _read(files: tuple[tuple[str, str], ...]) -> Workspace:
    """Pure, remembered because every rollout needs it."""
    candidate = Candidate(files=dict(files))
    for path, text in files:
        _check_file(path, text)
    for folder in FOLDERS:
        count = sum(path.startswith(f"{folder}/") for path in candidate.files)
        if count > FOLDER_FILES:
            raise HarnessError(f"{folder}/ holds {count} files; at most {FOLDER_FILES} are allowed")
    source = candidate.files.get(HOOKS_FILE)
    return Workspace(
        text=assemble(candidate),
        hooks=NO_HOOKS if source is None else audit_hooks(source),
        settings=read_loop_file(candidate.files.get(LOOP_FILE, "")),
        components=component_fingerprints(candidate),
    )


def _check_file(path: str, text: str) -> None:
    folder, _, name = path.rpartition("/")
    if path not in FILE_LIMITS and not (folder in FOLDERS and _NAME.fullmatch(name)):
        raise HarnessError(f"{path!r} is no file of a harness folder; there is {_places()}")
    limit = FILE_LIMITS.get(path, FOLDER_FILE_BYTES)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as cause:
        raise HarnessError(f"{path} is no valid text: {cause.reason}") from cause
    if size > limit:
        raise HarnessError(f"{path} has {size} bytes; at most {limit} are allowed")
    if "\0" in text:
        raise HarnessError(f"{path} holds a NUL character")


def _places() -> str:
    return ", ".join([*FILE_LIMITS, *(f"{folder}/NAME.md" for folder in FOLDERS)])


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")
