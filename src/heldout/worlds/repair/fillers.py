"""Modules of a package that have nothing to do with its bug."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heldout.worlds.repair.draft import Draw, fill

__all__ = ["FILLERS", "fillers"]

FILLERS: Mapping[str, str] = {
    "captions": '''
"""Headings for what is printed."""


def caption($group, $items):
    """One line above the $items of a $group."""
    return f"{$group}: {len($items)} $items"


def underline(text, sign="-"):
    """A line as long as the text."""
    return sign * len(text)
''',
    "bounds": '''
"""What may be typed in."""

LARGEST = 9999


def acceptable($count):
    """Whether a $count can be right at all."""
    return isinstance($count, int) and 0 <= $count <= LARGEST


def complain($count):
    """What to say about a $count that cannot be right."""
    return "" if acceptable($count) else f"{$count!r} is no $count"
''',
    "isodates": '''
"""Dates as text, year first."""


def split(day):
    """Year, month and day of a date such as 2024-05-17."""
    year, month, rest = day.split("-")
    return int(year), int(month), int(rest)


def same_month(one, other):
    """Whether two dates fall into one month of one year."""
    return split(one)[:2] == split(other)[:2]
''',
    "finders": '''
"""Looking something up by its beginning."""


def starting_with(beginning, names):
    """The names that begin so, whatever the case."""
    wanted = beginning.casefold()
    return [name for name in names if name.casefold().startswith(wanted)]


def only(beginning, names):
    """The one name that begins so, or None where there are none or several."""
    found = starting_with(beginning, names)
    return found[0] if len(found) == 1 else None
''',
    "records": '''
"""How one $item is kept: as a dictionary with fixed keys."""

KEYS = ("name", "$group", "$count")


def make(name, $group, $count):
    """A new $item."""
    return {"name": name, "$group": $group, "$count": $count}


def complete($item):
    """Whether nothing is missing."""
    return all($item.get(key) not in (None, "") for key in KEYS)
''',
    "paperwork": '''
"""Plain text for the printer."""

WIDTH = 60


def centred(text):
    """The text in the middle of a line."""
    return text.center(WIDTH).rstrip()


def columns(left, right):
    """Two texts at the two ends of a line."""
    return left + right.rjust(WIDTH - len(left))
''',
}
"""Name of a module to its template."""


def fillers(draw: Draw, *, count: int, taken: Collection[str]) -> dict[str, str]:
    """Up to `count` further modules, of other names than those that are taken."""
    free = [stem for stem in FILLERS if stem not in taken]
    chosen = draw.rng.sample(free, max(0, min(count, len(free))))
    return {stem: fill(FILLERS[stem], draw.slots()) for stem in chosen}
