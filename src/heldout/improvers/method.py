"""The improver's own folder: what may be in it, and the mechanical checks of every edit.

    prompt.md               how it works                          ≤ 16 KB
    notes.md                what it believes and remembers        ≤ 32 KB
    search.md               one guidance block per candidate      ≤  4 KB
    skills/NAME.md          one skill each, at most 24            ≤  8 KB
    teacher_code/hooks.py   hooks around its own episodes         ≤ 64 KB
    MANIFEST.json           list of the above, written by the machine

Nothing else is allowed, so nothing in the folder can reach the probe kit, the budgets, the graders or the episode in
which the folder is edited: those read no file of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from heldout.errors import HarnessError, ImproverError
from heldout.harness.hooks import IMPROVER_HOOKS, audit_hooks
from heldout.improvers.guidance import SEARCH_FILE
from heldout.records import Candidate, Edit, apply_edits, digest_of

__all__ = [
    "HOOKS_BYTES",
    "HOOKS_FILE",
    "MANIFEST_FILE",
    "MAX_SKILLS",
    "NOTES_FILE",
    "PROMPT_FILE",
    "HookFaults",
    "apply_method_edits",
    "audit_method_hooks",
    "check_method",
    "check_method_edits",
    "manifest_text",
    "method_candidate",
]

PROMPT_FILE = "prompt.md"
NOTES_FILE = "notes.md"
HOOKS_FILE = "teacher_code/hooks.py"
MANIFEST_FILE = "MANIFEST.json"

_KB = 1024
HOOKS_BYTES = 64 * _KB
MAX_SKILLS = 24
_SKILL_BYTES = 8 * _KB
_LIMITS: Mapping[str, int] = {
    PROMPT_FILE: 16 * _KB,
    NOTES_FILE: 32 * _KB,
    SEARCH_FILE: 4 * _KB,
    HOOKS_FILE: HOOKS_BYTES,
}
_SKILL = re.compile(r"skills/[a-z0-9][a-z0-9_-]{0,63}\.md")
_NO_TASK_IDS = (SEARCH_FILE, HOOKS_FILE)
_ALLOWED = f"{', '.join(_LIMITS)} and skills/NAME.md (lower case letters, digits, - and _)"
_LONG_ID = 6

HookFaults = Callable[[str], Iterable[str]]
"""Faults of the source of `teacher_code/hooks.py`: the audit, and where it can be had a dry run."""


def manifest_text(files: Mapping[str, str]) -> str:
    """`MANIFEST.json` of a folder: sizes, digests and the digest of everything but itself."""
    content = {path: text for path, text in files.items() if path != MANIFEST_FILE}
    listed = {
        path: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for path, data in ((path, _bytes(text)) for path, text in sorted(content.items()))
    }
    return json.dumps({"version": 1, "digest": digest_of(content), "files": listed}, indent=1) + "\n"


def method_candidate(files: Mapping[str, str], *, parent: str | None = None) -> Candidate:
    """The method folder of these files, with a fresh manifest."""
    content = {path: text for path, text in files.items() if path != MANIFEST_FILE}
    return Candidate(files={**content, MANIFEST_FILE: manifest_text(content)}, parent=parent)


def apply_method_edits(method: Candidate, edits: Sequence[Edit]) -> Candidate:
    """`method` with the edits and a fresh manifest, as its child; `ImproverError` where they touch the manifest.

    Edits that change nothing give the same digest back.
    """
    if any(edit.path == MANIFEST_FILE for edit in edits):
        raise ImproverError(_manifest_fault())
    return method_candidate(apply_edits(method, edits).files, parent=method.digest)


def check_method_edits(
    method: Candidate, edits: Sequence[Edit], *, task_ids: Iterable[str] = (), hook_faults: HookFaults | None = None
) -> tuple[str, ...]:
    """Why these edits of the folder are refused; empty where they may be made."""
    if any(edit.path == MANIFEST_FILE for edit in edits):
        return (_manifest_fault(),)
    doubled = sorted({edit.path for edit in edits if [other.path for other in edits].count(edit.path) > 1})
    if doubled:
        return (f"each file may be edited once, and {', '.join(map(repr, doubled))} is edited several times",)
    faults = [fault for edit in edits if edit.content is not None for fault in _file_faults(edit.path, edit.content)]
    if faults:
        return tuple(faults)
    return check_method(apply_method_edits(method, edits).files, task_ids=task_ids, hook_faults=hook_faults)


def check_method(
    files: Mapping[str, str], *, task_ids: Iterable[str] = (), hook_faults: HookFaults | None = None
) -> tuple[str, ...]:
    """Why a folder may not be a method; empty where it may.

    `task_ids` are those that `search.md` and the hooks may not name. `hook_faults` is asked about the hooks where
    there are any; None takes the static audit (`audit_method_hooks`).
    """
    faults = [fault for path in sorted(files) for fault in _file_faults(path, files[path])]
    skills = [path for path in files if _SKILL.fullmatch(path)]
    if len(skills) > MAX_SKILLS:
        faults.append(f"there are {len(skills)} skills, and at most {MAX_SKILLS} are allowed")
    if MANIFEST_FILE in files and not faults and files[MANIFEST_FILE] != manifest_text(files):
        faults.append(_manifest_fault())
    ids = tuple(task_ids)
    faults += [f"{path} names the task {name!r}" for path in _NO_TASK_IDS for name in _named(files.get(path, ""), ids)]
    if files.get(HOOKS_FILE, "").strip() and not faults:
        asked = hook_faults if hook_faults is not None else audit_method_hooks
        said = [
            fault if fault.startswith(HOOKS_FILE) else f"{HOOKS_FILE}: {fault}" for fault in asked(files[HOOKS_FILE])
        ]
        faults += said
    return tuple(faults)


def audit_method_hooks(source: str) -> tuple[str, ...]:
    """What the static audit of hooks says against this source, as for a harness but with this folder's size limit."""
    try:
        audit_hooks(source, limit_bytes=HOOKS_BYTES, path=HOOKS_FILE, kinds=IMPROVER_HOOKS)
    except HarnessError as fault:
        return (str(fault),)
    return ()


def _manifest_fault() -> str:
    return f"{MANIFEST_FILE} is written by the machine and cannot be edited"


def _file_faults(path: str, text: str) -> list[str]:
    if path == MANIFEST_FILE:
        return []
    limit = _LIMITS.get(path, _SKILL_BYTES if _SKILL.fullmatch(path) else None)
    if limit is None:
        return [f"{path[:200]!r} is no file of a method folder; allowed are {_ALLOWED}"]
    size = len(_bytes(text))
    faults = [f"{path} has {size} bytes, and at most {limit} are allowed"] if size > limit else []
    if "\0" in text or not _is_unicode(text):
        faults.append(f"{path} is no plain text")
    return faults


def _named(text: str, ids: Sequence[str]) -> list[str]:
    """Ids that stand in a text: short ones as whole words, long ones anywhere, in any case."""
    folded = text.casefold()
    here = [name for name in ids if name and name.casefold() in folded]
    return sorted(name for name in here if len(name) >= _LONG_ID or _is_word(name.casefold(), folded))


def _is_word(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def _is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8 (lone surrogates cannot)."""
    return text == text.encode(errors="replace").decode()


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")
