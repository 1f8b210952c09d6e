"""Bugs of a default or an attribute that all calls share."""

from __future__ import annotations

from heldout.worlds.repair.draft import Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["shared_attributes", "shared_lists"]

_TALLY = '''
"""Counting what comes in."""


$$spot
    for name in names:
        if name not in counts:
            order.append(name)
        counts[name] = counts.get(name, 0) + 1
    return order, counts


def $often(names, least):
    """The names that come at least so often."""
    found = {name: names.count(name) for name in names}
    return [name for name, number in found.items() if number >= least]
'''

_HEAD = '''
def $fn(names, order={0}, counts={1}):
    """Names in the order of their first coming, and how often each came; both go on from what is handed over."""{2}
'''

_QUEUE = '''
"""Who waits for what."""


def $fn(pairs, order=()):
    """The pairs by who comes first in the order, the others behind."""
    ranks = {name: place for place, name in enumerate(order)}
    return sorted(pairs, key=lambda pair: ranks.get(pair[0], len(ranks)))


def $last(pairs, order=()):
    """Who waits longest."""
    return $fn(pairs, order)[-1][0] if pairs else None
'''


def shared_lists(draw: Draw) -> Draft:
    """Two mutable defaults are shared by all calls; the partial mend cares for the list."""
    items, words = draw.domain.items, draw.words(5)
    a, b, c, d, e = words
    fn, often = draw.pick("tally", "arrivals", "count_names"), draw.pick("often", "frequent")
    line = draw.slots(fn=draw.pick("in_line", "queue"), last=draw.pick("last_in_line", "longest"))
    head = fill(_HEAD.strip("\n"), draw.slots(fn=fn))
    order, counts = "\n    order = [] if order is None else order", "\n    counts = {} if counts is None else counts"
    return Draft(
        stems=(draw.pick("tallying", "arriving", "census"), draw.pick("waiting", "lineup")),
        names=(fn, often),
        target=fill(_TALLY, draw.slots(often=often)),
        broken=head.format("[]", "{}", ""),
        fixed=head.format("None", "None", order + counts),
        partial=head.format("None", "{}", order),
        lookalike=fill(_QUEUE, line),
        lookalike_line="    return sorted(pairs, key=lambda pair: ranks.get(pair[0], len(ranks)))",
        lookalike_change="    return sorted(list(pairs), key=lambda pair: ranks.get(pair[0], len(ranks)))",
        search=", order=",
        visible=(
            steady("going on", f"{fn}([{a!r}], [{b!r}], {{{b!r}: 2}})", ([b, a], {b: 2, a: 1})),
            shallow("order of a second list", f"{fn}([{d!r}])[0]", [d], f"{fn}([{c!r}])"),
            deep("numbers of a second list", f"{fn}([{e!r}, {e!r}])[1]", {e: 2}, f"{fn}([{b!r}])"),
        ),
        hidden=(
            deep("twice the same", f"[{fn}([{a!r}]), {fn}([{a!r}])]", [([a], {a: 1}), ([a], {a: 1})]),
            deep("nothing after something", f"{fn}([])", ([], {}), f"{fn}([{b!r}])"),
            steady("how often", f"{often}([{a!r}, {b!r}, {a!r}], 2)", [a]),
            deep("own order", f"{fn}([{a!r}], order=[{c!r}])", ([c, a], {a: 1})),
        ),
        symptoms=(
            f"The second list of {items} that I count in one sitting still contains the first.",
            "Counting works once after starting the program, and from then on old names turn up.",
            f"Yesterday's {items} come back in today's count as long as the window stays open.",
            "It remembers what it should have forgotten: each count begins with the remains of the one before.",
        ),
        example=Example(f"one {c}, and after that a new list with one {d}", f"{d} alone", f"{c} and {d}"),
        remarks=(
            "The numbers behind the names go on growing in the same way.",
            "Not only the names stay, their numbers are added up too.",
            f"Two {e} counted afresh should be two, whatever was counted before.",
            "Names and figures are both affected, and closing the window helps.",
        ),
    )


_BASKET = '''
"""A sheet on which $items are put down."""


class $cls:
    """Names in the order in which they came, and remarks on some of them. Every sheet begins empty."""

$$spot

    def add(self, name, remark=""):
        """Put down a name, with or without a remark."""
        self.entries.append(name)
        if remark:
            self.remarks[name] = remark

    def lines(self):
        """The sheet as it is printed."""
        return [f"{name} ({self.remarks[name]})" if name in self.remarks else name for name in self.entries]
'''

_BUTTONS = '''
"""Buttons of the touch screen."""


class $cls:
    """Three buttons, the same on every screen."""

    entries = ["new", "show", "end"]

    def label(self, place):
        """What stands on a button."""
        return self.entries[place].upper()
'''


def shared_attributes(draw: Draw) -> Draft:
    """Two attributes belong to the class; the partial mend gives each object a list of its own."""
    items, words = draw.domain.items, draw.words(3)
    a, b, c = words
    cls, said = draw.pick("Sheet", "Slip", "Form"), draw.pick("urgent", "fragile", "late")
    own = "    def __init__(self):\n        self.entries = []"
    return Draft(
        stems=(draw.pick("jotting", "slips", "notetaking"), draw.pick("touchscreen", "buttons")),
        names=(cls,),
        target=fill(_BASKET, draw.slots(cls=cls)),
        broken="    entries = []\n    remarks = {}",
        fixed=f"{own}\n        self.remarks = {{}}",
        partial=f"    remarks = {{}}\n\n{own}",
        lookalike=fill(_BUTTONS, draw.slots(cls=draw.pick("Buttons", "Keys"))),
        lookalike_line='    entries = ["new", "show", "end"]',
        lookalike_change='    entries = ("new", "show", "end")',
        search="    entries = [",
        visible=(
            steady("what was put down", f"{a!r} in one.lines()", True, f"one = {cls}()", f"one.add({a!r})"),
            shallow("a second one is empty", "two.entries", [], f"one, two = {cls}(), {cls}()", f"one.add({a!r})"),
            deep(
                "remarks stay where they are",
                "two.remarks",
                {},
                f"one, two = {cls}(), {cls}()",
                f"one.add({b!r}, {said!r})",
            ),
        ),
        hidden=(
            shallow(
                "entries apart",
                "two.lines()",
                [b],
                f"one, two = {cls}(), {cls}()",
                f"one.add({a!r})",
                f"two.add({b!r})",
            ),
            deep(
                "remarks apart",
                "two.lines()",
                [c],
                f"one, two = {cls}(), {cls}()",
                f"one.add({c!r}, {said!r})",
                f"two.add({c!r})",
            ),
            shallow(
                "one sheet", "one.lines()", [f"{a} (x)", b], f"one = {cls}()", f"one.add({a!r}, 'x')", f"one.add({b!r})"
            ),
        ),
        symptoms=(
            f"When I begin a new sheet, the {items} of the one before are on it already.",
            "Two sheets that are open at once show one another's lines.",
            f"Whatever {items} I write on one sheet appear on every other.",
            "A fresh sheet should be white, and mine comes filled with old lines.",
        ),
        example=Example(
            f"two new sheets and {a} put down on the first", "a second sheet without lines", f"{a} on both"
        ),
        remarks=(
            f"Remarks wander too: “{said}” on the first sheet shows on the second, next to the same name.",
            "The notes in brackets are shared in the same manner as the lines.",
            "It concerns the lines as well as the remarks that some of them have.",
            f"I wrote “{said}” once and find it on sheets that never had a remark.",
        ),
    )
