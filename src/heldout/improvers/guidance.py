"""Where each of a round's proposals is told to look first: one block of text per episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["DEFAULT_BLOCKS", "NEUTRAL_BLOCK", "SEARCH_FILE", "guidance_blocks", "join_blocks", "round_guidance"]

SEARCH_FILE = "search.md"
"""The method's file of guidance blocks, one per candidate, split by lines of `---`."""

_RULE = "---"

DEFAULT_BLOCKS = (
    "Omission: look first for what the agent did not do. In which failures would one more step (a check, a second "
    "look, another file) have shown that the work was not finished? Prefer an edit that makes the agent take it.",
    "Commission: look first for what the agent did and should have left alone. In which failures did it undo, "
    "overwrite or widen something that was right before? Prefer an edit that stops that one action.",
    "Mechanics: look first at the machinery between the agent and its tools. Malformed commands, output that was cut "
    "before the line that mattered, turns spent on errors: prefer an edit of tools, hooks or settings.",
)
"""What a run with probes and without a method track gives its episodes."""

NEUTRAL_BLOCK = "Improve the harness: find what most failures share, and propose the edit that should mend it."
"""What a run without probes and without a method track gives every episode."""


def join_blocks(blocks: Sequence[str]) -> str:
    """The text of `search.md` that holds these blocks."""
    return f"\n\n{_RULE}\n\n".join(block.strip() for block in blocks) + "\n"


def guidance_blocks(files: Mapping[str, str], count: int) -> tuple[str, ...]:
    """The blocks of a method folder's `search.md` for `count` episodes.

    Too few are used again from the first; a file without any text gives every episode the neutral block.
    """
    blocks: list[list[str]] = [[]]
    for line in files.get(SEARCH_FILE, "").splitlines():
        if line.strip() == _RULE:
            blocks.append([])
        else:
            blocks[-1].append(line)
    texts = [text for text in ("\n".join(block).strip() for block in blocks) if text] or [NEUTRAL_BLOCK]
    return tuple(texts[index % len(texts)] for index in range(count))


def round_guidance(files: Mapping[str, str], count: int, *, self_edit: bool, probes: bool) -> tuple[str, ...]:
    """What a round's episodes are told (specification, step 3): the method's own blocks where that track is on;
    else the default blocks where there are probes; else the neutral block for all."""
    if self_edit:
        return guidance_blocks(files, count)
    if probes:
        return tuple(DEFAULT_BLOCKS[index % len(DEFAULT_BLOCKS)] for index in range(count))
    return (NEUTRAL_BLOCK,) * count
