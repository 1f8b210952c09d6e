"""Bugs of something remembered for too long."""

from __future__ import annotations

from heldout.worlds.repair.draft import Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["prices", "summaries", "totals"]

_TOTALS = '''
"""A book of $items."""


class $cls:
    """What there is of each name. The total is worked out when somebody asks, and kept until something changes."""

    def __init__(self):
        self._kept = {}
        self._total = None

    def add(self, name, $count):
        """Add to what there is of a name."""
        self._kept[name] = self._kept.get(name, 0) + $count
        self._total = None

$$spot

    def total(self):
        """The sum over all names."""
        if self._total is None:
            self._total = sum(self._kept.values())
        return self._total
'''

_METHODS = '''
    def change(self, name, $count):
        """Put another figure in place of the old one."""
        self._kept[name] = $count{0}

    def drop(self, name):
        """Forget a name."""
        self._kept.pop(name, None){1}
'''

_COUNTER = '''
"""A counter for the door."""


class $cls:
    """Counts up; the total is asked for once a day."""

    def __init__(self):
        self._seen = []
        self._total = None

    def note(self, $count):
        """One more line."""
        self._seen.append($count)

    def close(self):
        """The day's total, and an empty list for the next."""
        self._total = sum(self._seen)
        self._seen.clear()
        return self._total
'''


def totals(draw: Draw) -> Draft:
    """Two of three methods leave the old total standing; the partial mend cares for one of them."""
    items, item, measure, words = draw.domain.items, draw.domain.item, draw.domain.measure, draw.words(3)
    first, second, other = draw.number(5, 40), draw.number(5, 40), draw.number(50, 90)
    cls, reset = draw.pick("Book", "Register", "Stack"), "\n        self._total = None"
    methods = fill(_METHODS.strip("\n"), draw.slots())
    begin = (f"book = {cls}()", f"book.add({words[0]!r}, {first})", f"book.add({words[1]!r}, {second})", "book.total()")
    change, drop = f"book.change({words[0]!r}, {other})", f"book.drop({words[0]!r})"
    return Draft(
        stems=(draw.pick("bookkeeping", "holdings", "inventory"), draw.pick("doorway", "gate")),
        names=(cls,),
        target=fill(_TOTALS, draw.slots(cls=cls)),
        broken=methods.format("", ""),
        fixed=methods.format(reset, reset),
        partial=methods.format(reset, ""),
        lookalike=fill(_COUNTER, draw.slots(cls=draw.pick("DoorCounter", "Turnstile"))),
        lookalike_line="        self._total = sum(self._seen)",
        lookalike_change="        self._total = sum(list(self._seen))",
        search="self._total = sum(",
        visible=(
            steady("after adding", "book.total()", first + second + 1, *begin, f"book.add({words[2]!r}, 1)"),
            shallow("after a change", "book.total()", other + second, *begin, change),
            deep("after dropping one", "book.total()", second, *begin, drop),
        ),
        hidden=(
            shallow(
                "change twice", "book.total()", second, *begin, change, "book.total()", f"book.change({words[0]!r}, 0)"
            ),
            deep("drop all", "book.total()", 0, *begin, drop, f"book.drop({words[1]!r})"),
            deep("drop and add", "book.total()", second, *begin, drop, "book.total()", f"book.drop({words[2]!r})"),
            steady("drop before asking", f"{cls}().total()", 0),
            steady("two books", "book.total()", first + second, *begin, f"{cls}().add('x', 1)"),
            deep("drop after change", "book.total()", second, *begin, change, "book.total()", drop),
        ),
        symptoms=(
            f"The grand total stays as it was when I correct a {measure} afterwards.",
            f"I fixed a typing error in one {item}, and the sum at the bottom did not move.",
            f"Corrections of {items} are shown in their own line and ignored in the sum.",
            "The sum at the bottom is right once, and after a correction it shows the former figure.",
        ),
        example=Example(
            f"{words[0]} {first} and {words[1]} {second}, looked at the sum, then set {words[0]} to {other}",
            f"{other + second}",
            f"{first + second}",
        ),
        remarks=(
            f"Removing one of the {items} leaves the sum as it was, too.",
            f"If I delete {words[0]} altogether, the sum should go down to {second}, and it does not.",
            "Only after something new is entered does the sum catch up, even with deletions.",
            "The same with deleting: the line is gone, its amount is still in the sum.",
        ),
    )


_PRICES = '''
"""Remembered prices, since working one out used to take long."""

_known = {}


def $fn(name, $count, rate):
    """What a $count of a name costs at a rate: $count times rate, and the length of the name for handling."""
$$spot
    if key not in _known:
        _known[key] = $count * rate + len(name)
    return _known[key]


def $offer(names, $count, rate):
    """The same $count of several names."""
    return [$fn(name, $count, rate) for name in names]
'''

_SIGNS = '''
"""Name plates, engraved once."""

_engraved = {}


def $fn(name):
    """The plate of a name."""
    key = name.strip()
    if key not in _engraved:
        _engraved[key] = f"[ {key} ]"
    return _engraved[key]


def $plates(names):
    """One plate each."""
    return [$fn(name) for name in names]
'''


def prices(draw: Draw) -> Draft:
    """A price is remembered by name alone; the partial mend forgets the rate."""
    measure = draw.domain.measure
    item, count, words = draw.domain.item, draw.domain.count, draw.words(8)
    many, more, rate, dear = draw.number(3, 20), draw.number(30, 60), draw.number(2, 6), draw.number(7, 12)
    fn, offer = draw.pick("price_of", "costs", "quote"), draw.pick("offer", "quote_all")
    plates = draw.slots(fn=draw.pick("plate", "engrave"), plates=draw.pick("plates", "engrave_all"))
    ask = f"{fn}({{0!r}}, {{1}}, {{2}})"

    def cost(name: str, number: int, at: int) -> int:
        return number * at + len(name)

    a, b, c, d = words[:4]
    return Draft(
        stems=(draw.pick("quoting", "remembering", "pricebook"), draw.pick("engraving", "plating")),
        names=(fn, offer),
        target=fill(_PRICES, draw.slots(fn=fn, offer=offer)),
        broken="    key = name",
        fixed=f"    key = name, {count}, rate",
        partial=f"    key = name, {count}",
        lookalike=fill(_SIGNS, plates),
        lookalike_line="    key = name.strip()",
        lookalike_change="    key = name.strip().upper()",
        search="key = name",
        visible=(
            steady("the first price", ask.format(a, many, rate), cost(a, many, rate)),
            shallow("another number", ask.format(b, more, rate), cost(b, more, rate), ask.format(b, many, rate)),
            deep("another rate", ask.format(c, many, dear), cost(c, many, dear), ask.format(c, many, rate)),
        ),
        hidden=(
            shallow(
                "numbers in turn", f"[{fn}({d!r}, n, {rate}) for n in (1, 2, 3)]", [cost(d, n, rate) for n in (1, 2, 3)]
            ),
            deep(
                "rates in turn",
                f"[{fn}({words[4]!r}, {many}, r) for r in (1, 2)]",
                [cost(words[4], many, r) for r in (1, 2)],
            ),
            steady("asked twice", ask.format(words[5], 2, 2), cost(words[5], 2, 2), ask.format(words[5], 2, 2)),
            deep(
                "an offer at another rate",
                f"{offer}({words[6:8]}, 1, {dear})",
                [cost(name, 1, dear) for name in words[6:8]],
                f"{offer}({words[6:8]}, 1, {rate})",
            ),
        ),
        symptoms=(
            f"The second quotation for the same {item} is always the price of the first one.",
            f"When a customer changes the {measure}, the price does not change with it.",
            f"Whatever I ask for first sticks: later prices of that {item} are all identical.",
            "Prices seem to be frozen for the day once somebody has asked for them.",
        ),
        example=Example(
            f"{a} at a rate of {rate}, first {many} and then {more}",
            f"{cost(a, many, rate)} and then {cost(a, more, rate)}",
            f"{cost(a, many, rate)} both times",
        ),
        remarks=(
            f"A new rate has no effect either: at {dear} instead of {rate} the price should rise.",
            "We raised the rate at noon, and the prices of the morning stayed.",
            f"Changing the rate and leaving the {measure} alone shows the same, by the way.",
            f"Both matter, the {measure} and the rate, and both are ignored the second time.",
        ),
    )


_SUMMARIES = '''
"""Summaries of long lists, kept because lists rarely change."""

_kept = {}


def $fn(entries):
    """Sum and largest of a list of (name, $count) pairs, 0 and "" for none."""
$$spot
    if key not in _kept:
        largest = max(entries, key=lambda entry: entry[1], default=("", 0))
        _kept[key] = sum(entry[1] for entry in entries), largest[0]
    return _kept[key]


def $line(entries):
    """The summary as a line."""
    total, name = $fn(entries)
    return f"{total} in all, most of {name or 'nothing'}"
'''

_WIDTHS = '''
"""Column widths, worked out once for each size of a table."""

_widths = {}


def $fn(entries, width):
    """How wide one of the columns is."""
    key = len(entries)
    if (key, width) not in _widths:
        _widths[key, width] = width // max(1, key)
    return _widths[key, width]


def $ruler(entries, width):
    """A line as wide as a column."""
    return "-" * $fn(entries, width)
'''


def summaries(draw: Draw) -> Draft:
    """A list is remembered by its length; the partial mend looks at the first entry too."""
    items, words, low = draw.domain.items, draw.words(8), draw.number(3, 30)
    fn, line = draw.pick("summary", "sum_and_most", "digest"), draw.pick("summary_line", "in_words")
    ruler = draw.slots(fn=draw.pick("column", "column_width"), ruler=draw.pick("ruler", "rule"))

    def pairs(*numbers: int) -> list[tuple[str, int]]:
        return list(zip(words, numbers, strict=False))

    one, other = pairs(low, low + 5), pairs(low + 9, low + 5)
    three, tail = pairs(low, 1, 2), pairs(low, 1, low + 50)
    four, late = pairs(low + 1, 1, 2, 3), pairs(low + 1, 1, low + 70, 3)
    return Draft(
        stems=(draw.pick("digesting", "recap", "longlists"), draw.pick("tabular", "columns")),
        names=(fn, line),
        target=fill(_SUMMARIES, draw.slots(fn=fn, line=line)),
        broken="    key = len(entries)",
        fixed="    key = tuple(map(tuple, entries))",
        partial="    key = len(entries), tuple(entries[:1])",
        lookalike=fill(_WIDTHS, ruler),
        lookalike_line="    key = len(entries)",
        lookalike_change="    key = len(list(entries))",
        search="key = len(entries)",
        visible=(
            steady("a first list", f"{fn}({pairs(low)})", (low, words[0])),
            shallow("other entries", f"{fn}({other})", (2 * low + 14, words[0]), f"{fn}({one})"),
            deep("another last entry", f"{fn}({tail})", (2 * low + 51, words[2]), f"{fn}({three})"),
        ),
        hidden=(
            steady("no entries", f"{fn}([])", (0, "")),
            shallow("other first entry", f"{fn}({pairs(5, 6, 7, 8, 9)})[0]", 35, f"{fn}({pairs(1, 6, 7, 8, 9)})"),
            deep("changed in the middle", f"{fn}({late})", (2 * low + 75, words[2]), f"{fn}({four})"),
            deep(
                "as a line",
                f"{line}({pairs(1, 2, 3, 4, 5, 9)})",
                f"24 in all, most of {words[5]}",
                f"{line}({pairs(1, 2, 3, 4, 5, 6)})",
            ),
            steady("the same list again", f"{fn}({pairs(*range(7))})[0]", 21, f"{fn}({pairs(*range(7))})"),
        ),
        symptoms=(
            f"The summary of today's {items} is that of yesterday, although nearly all lines are different.",
            f"Two lists of {items} with the same number of lines get one and the same summary.",
            f"I exchanged a line in the list of {items}, and sum and record holder remained what they were.",
            "The summary only wakes up when the list becomes longer or shorter.",
        ),
        example=Example(
            f"first {one[0][0]} {one[0][1]} and {one[1][0]} {one[1][1]}, then {other[0][1]} for {other[0][0]}",
            f"{2 * low + 14} as the new sum",
            f"{2 * low + 5} again",
        ),
        remarks=(
            "It does not matter which line is changed, the first, the last or one in between.",
            f"When only the last line changes, from 2 to {low + 50} say, it is overlooked as well.",
            "A change at the bottom of a list is ignored just as one at the top.",
            "Any correction should count, also one in the last line.",
        ),
    )
