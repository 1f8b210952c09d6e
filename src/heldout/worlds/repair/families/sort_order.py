"""Bugs of the order in which things are listed."""

from __future__ import annotations

from heldout.worlds.repair.draft import Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["natural_order", "ranking"]

_NATURAL = '''
"""Codes as people sort them."""

import re


def $fn(codes):
    """Codes such as "$word 10" by their words, and among equal words by their numbers."""
$$spot


def $parts(code):
    """Words and numbers of a code."""
    return re.findall(r"\\d+|[^\\d\\s]+", code)
'''

_PLAIN_ORDER = '''
"""The order in which the old archive was filed."""


def $fn(codes):
    """The codes letter by letter, as the archive has them."""
    filed = sorted(codes)
    return filed


def $drawer(codes, code):
    """In which drawer of ten a code lies."""
    return $fn(codes).index(code) // 10
'''


def natural_order(draw: Draw) -> Draft:
    """Numbers are sorted as text; the partial mend sorts by length first."""
    items, words = draw.domain.items, draw.domain.words
    late, short = draw.rng.choice([(x, y) for x in words for y in words if x < y and len(x) > len(y) + 1])
    fn, parts, low = draw.pick("in_order", "arranged", "sort_codes"), draw.pick("parts", "pieces"), draw.number(2, 9)
    filing = draw.slots(fn=draw.pick("as_filed", "archive_order"), drawer=draw.pick("drawer", "drawer_of"))
    one = [f"{short} {low}", f"{short} {low + 8}", f"{short} {low + 95}"]
    two = [f"{late} {low}", f"{late} {low + 9}", f"{short} {low}"]
    split = 'int(part) if part.isdigit() else part for part in re.split(r"(\\d+)", code)'
    return Draft(
        stems=(draw.pick("codes", "sequence", "arranging"), draw.pick("cabinet", "filing")),
        names=(fn, parts),
        target=fill(_NATURAL, draw.slots(fn=fn, parts=parts, word=short)),
        broken="    return sorted(codes)",
        fixed=f"    return sorted(codes, key=lambda code: [{split}])",
        partial="    return sorted(codes, key=lambda code: (len(code), code))",
        lookalike=fill(_PLAIN_ORDER, filing),
        lookalike_line="    filed = sorted(codes)",
        lookalike_change="    filed = sorted(list(codes))",
        search="sorted(codes)",
        visible=(
            steady("single figures", f"{fn}(['{short} 3', '{short} 1'])", [f"{short} 1", f"{short} 3"]),
            shallow("numbers of one word", f"{fn}({one[::-1]})", one),
            deep("numbers of two words", f"{fn}({two[::-1]})", two),
        ),
        hidden=(
            shallow(
                "more numbers",
                f"{fn}(['{short} 10', '{short} 9', '{short} 100'])",
                [f"{short} {n}" for n in (9, 10, 100)],
            ),
            deep("several words", f"{fn}({[*two[1::-1], *one]})", [*two[:2], *one]),
            steady("none", f"{fn}([])", []),
            steady("parts", f"{parts}('{short} 12')", [short, "12"]),
            deep("long word first", f"{fn}(['b 2', 'aaaa 10', 'aaaa 9'])", ["aaaa 9", "aaaa 10", "b 2"]),
        ),
        symptoms=(
            f"Number ten stands before number two in every list of our {items}.",
            "The numbers behind the words are sorted as if they were letters.",
            f"In the list of {items} a hundred comes right after ten, and nine is at the very end.",
            "Small and large numbers are mixed up in the sorted list, which drives our trainees mad.",
        ),
        example=Example(f"{one[2]}, {one[0]}, {one[1]}", ", ".join(one), ", ".join(sorted(one))),
        remarks=(
            f"Words still come first: everything called {late} belongs before {short}, however long the number.",
            f"Of course {late} stays before {short}, since the words decide and the numbers come second.",
            f"With two kinds mixed, {two[0]} and {two[1]} go before {two[2]}.",
            f"Please keep the alphabet for the words; {two[1]} is to stand before {two[2]}.",
        ),
    )


_RANKING = '''
"""The table of the $groups."""


def $fn(table):
    """(name, $count) pairs, the highest $count first; equal ones from A to Z."""
$$spot


def $place(table, name):
    """Which place a name takes, from 1."""
    return [entry[0] for entry in $fn(table)].index(name) + 1
'''

_SMALLEST = '''
"""Where help is needed most."""


def $fn(table, places):
    """The names with the smallest $count."""
    needy = sorted(table, key=lambda entry: entry[1])
    return [name for name, _ in needy[:places]]


def $appeal(table):
    """A sentence for the bulletin."""
    return "Please think of " + " and ".join($fn(table, 2))
'''


def ranking(draw: Draw) -> Draft:
    """Lowest first; the partial mend leaves equal ones as they came."""
    group, groups, measure = draw.domain.group, draw.domain.groups, draw.domain.measure
    names, low = sorted(draw.names(3)), draw.number(3, 30)
    fn, place = draw.pick("ranking", "standings", "by_success"), draw.pick("place_of", "rank")
    help_ = draw.slots(fn=draw.pick("in_need", "smallest"), appeal=draw.pick("appeal", "plea"))
    apart = [(names[0], low), (names[1], low + 4), (names[2], low + 1)]
    tied = [(names[2], low), (names[1], low + 6), (names[0], low)]
    best = [(names[1], low + 6), (names[0], low), (names[2], low)]
    return Draft(
        stems=(draw.pick("laurels", "rankings", "places"), draw.pick("bulletin", "neediest")),
        names=(fn, place),
        target=fill(_RANKING, draw.slots(fn=fn, place=place)),
        broken="    return sorted(table, key=lambda entry: entry[1])",
        fixed="    return sorted(table, key=lambda entry: (-entry[1], entry[0]))",
        partial="    return sorted(table, key=lambda entry: entry[1], reverse=True)",
        lookalike=fill(_SMALLEST, help_),
        lookalike_line="    needy = sorted(table, key=lambda entry: entry[1])",
        lookalike_change="    needy = sorted(table, key=lambda entry: entry[1], reverse=True)",
        search="sorted(table, key=",
        visible=(
            steady("one alone", f"{fn}({apart[:1]})", apart[:1]),
            shallow("all different", f"{fn}({apart})", [apart[1], apart[2], apart[0]]),
            deep("two equal ones", f"{fn}({tied})", best),
        ),
        hidden=(
            shallow("first place", f"{place}({apart}, {names[1]!r})", 1),
            deep("second of equals", f"{place}({tied}, {names[2]!r})", 3),
            deep(
                "all equal",
                f"{fn}([('c', 1), ('a', 1), ('b', 1)])",
                [("a", 1), ("b", 1), ("c", 1)],
                then="AssertionError",
            ),
            steady("nobody", f"{fn}([])", []),
            deep("ties behind a leader", f"{fn}({tied})", best),
        ),
        symptoms=(
            f"The {group} with the lowest {measure} is celebrated as the winner.",
            f"The order of the {groups} is upside down: the weakest stands on top.",
            f"Whoever has the highest {measure} ends up at the bottom of our table.",
            "Our champions found themselves in the last row this morning.",
        ),
        example=Example(
            ", ".join(f"{name} {number}" for name, number in apart),
            ", ".join(name for name, _ in (apart[1], apart[2], apart[0])),
            ", ".join(name for name, _ in sorted(apart, key=lambda entry: entry[1])),
        ),
        remarks=(
            f"Where two {groups} are level, the alphabet decides, regardless of who was entered first.",
            f"Equal figures go by name: {names[0]} before {names[2]}.",
            f"And if {names[2]} and {names[0]} have the same {measure}, {names[0]} is to stand first.",
            "In a tie we go from A to Z, as the rules say.",
        ),
    )
