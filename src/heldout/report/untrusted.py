"""Text that a candidate, an agent or a model wrote, made safe to look at: nothing invisible, nothing that moves text.

Escape sequences can rewrite a terminal, and marks of writing direction can show code in another order than it runs.
HTML is escaped by the page's template; this is for what escaping leaves.
"""

from __future__ import annotations

import unicodedata

__all__ = ["legible", "one_line"]

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories: controls, formats (direction marks, zero widths), surrogates, private use, separators."""

_KEPT = frozenset("\t\n\u00ad\u200c\u200d")
"""Of these, what ordinary text has: layout, soft hyphens, and the joiners that some scripts and emoji need."""


def legible(text: str) -> str:
    r"""The same text with what cannot be seen written out, as `\x1b` or `\u202e`.

    Tabs and line ends stay; those of Windows become plain ones.
    """
    if text.isprintable():
        return text
    return "".join(_written(sign) if _hides(sign) else sign for sign in text.replace("\r\n", "\n"))


def one_line(text: str, limit: int = 200) -> str:
    """`legible` on one line, cut to `limit` characters."""
    line = legible(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."


def _hides(sign: str) -> bool:
    return sign not in _KEPT and unicodedata.category(sign) in _UNSEEN


def _written(sign: str) -> str:
    number = ord(sign)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
