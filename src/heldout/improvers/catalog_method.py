"""The method folder that the catalogue improver begins with, and the guidance that it writes into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heldout.improvers.beliefs import CLASS_TABLE, EDIT_TABLE, Beliefs
from heldout.improvers.guidance import DEFAULT_BLOCKS, SEARCH_FILE, join_blocks
from heldout.improvers.method import NOTES_FILE, PROMPT_FILE
from heldout.improvers.policy import POLICY_FILE, Policy

__all__ = ["TABLE_BYTES", "notes_text", "start_files"]

TABLE_BYTES: Mapping[str, int] = {CLASS_TABLE: 14 * 1024, EDIT_TABLE: 14 * 1024}
"""Longest section of `notes.md` for each table; with the text before them they stay below the file's limit."""

_PROMPT = """# Method

A simulation of an improver. In each episode it groups the failing tasks by signature, reads each signature as one
class of edits ({classes}), draws what to try from the counts in `notes.md` and from that reading, and submits one
draft of its catalogue. `skills/policy.md` says how much it tries out first. `search.md` says where each of a round's
episodes looks first: a line `Focus:` names classes.
"""

_NOTES = """# Notes

Each row counts how often a remedy helped against a failure signature and how often it did not. Both begin at 1, so a
pair without a row is an open question. Text outside the two tables is kept.
"""


def start_files(policy: Policy, classes: Sequence[str], causes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The folder, without its manifest: even counts, the default guidance with its classes named."""
    blocks = []
    for block in DEFAULT_BLOCKS:
        kind = block.split(":", 1)[0].lower()
        named = [name for name in classes if kind in causes.get(name, ())]
        blocks.append(f"{block}\n\nFocus: {', '.join(named)}" if named else block)
    return {
        PROMPT_FILE: _PROMPT.format(classes=", ".join(classes)),
        NOTES_FILE: notes_text(_NOTES, Beliefs(), Beliefs()),
        SEARCH_FILE: join_blocks(blocks),
        POLICY_FILE: policy.text(),
    }


def notes_text(notes: str, classes: Beliefs, edits: Beliefs) -> str:
    """`notes` with both tables replaced."""
    text = classes.written(notes, CLASS_TABLE, limit_bytes=TABLE_BYTES[CLASS_TABLE])
    return edits.written(text, EDIT_TABLE, limit_bytes=TABLE_BYTES[EDIT_TABLE])
