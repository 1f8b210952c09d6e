"""Bugs of a default that is not the one that the documentation promises."""

from __future__ import annotations

from heldout.worlds.repair.draft import Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["fees", "house_rules", "incomplete_entries"]

_FEES = '''
"""What $items cost."""


def $fn($items, fees, minimums):
    """The sum of $count times fee over (name, $count) pairs, each $count raised to the minimum of its name.

    A name without a fee is free of charge; a name without a minimum has none.
    """
    total = 0
    for name, $count in $items:
$$spot
        total += max($count, least) * fee
    return total


def $dearest($items, fees, minimums):
    """The pair that costs most by itself; the first of several."""
    return max($items, key=lambda pair: $fn([pair], fees, minimums))
'''

_OFFER = '''
"""A quick estimate for people on the telephone."""


def $fn(names, fees):
    """The lowest fee that somebody has to expect, at least 1."""
    lowest = []
    for name in names:
        fee = fees.get(name, 1)
        lowest.append(max(fee, 1))
    return min(lowest, default=1)
'''


def fees(draw: Draw) -> Draft:
    """Two lookups fall back to 1 instead of 0; the partial mend changes the fee only."""
    measure, items, words = draw.domain.measure, draw.domain.items, draw.words(4)
    fee, many = draw.number(3, 9), draw.number(4, 30)
    fn, dearest = draw.pick("bill", "charge", "cost_of"), draw.pick("dearest", "most_expensive")
    table, least = {words[0]: fee, words[1]: fee + 2}, {words[0]: 3}
    lines = "        fee = fees.get(name, {0})\n        least = minimums.get(name, {1})"
    return Draft(
        stems=(draw.pick("tariff", "charging", "pricelist"), draw.pick("hotline", "estimating")),
        names=(fn, dearest),
        target=fill(_FEES, draw.slots(fn=fn, dearest=dearest)),
        broken=lines.format(1, 1),
        fixed=lines.format(0, 0),
        partial=lines.format(0, 1),
        lookalike=fill(_OFFER, draw.slots(fn=draw.pick("rough_fee", "from_price"))),
        lookalike_line="        fee = fees.get(name, 1)",
        lookalike_change="        fee = fees.get(name, 0)",
        search="fee = fees.get(name,",
        visible=(
            steady(
                "fee and minimum",
                f"{fn}([({words[0]!r}, {many}), ({words[0]!r}, 1)], {table}, {least})",
                (many + 3) * fee,
            ),
            shallow("without a fee", f"{fn}([({words[2]!r}, {many})], {table}, {least})", 0),
            deep("without a minimum", f"{fn}([({words[1]!r}, 0), ({words[1]!r}, 2)], {table}, {least})", 2 * (fee + 2)),
        ),
        hidden=(
            shallow("free of charge", f"{fn}([({words[2]!r}, 1), ({words[3]!r}, 7)], {table}, {{}})", 0),
            deep("nothing ordered", f"{fn}([({words[1]!r}, 0)], {table}, {{}})", 0),
            deep("a part of one", f"{fn}([({words[1]!r}, 0.5)], {table}, {{}})", (fee + 2) * 0.5),
            steady("no lines", f"{fn}([], {table}, {least})", 0),
            steady("minimum applies", f"{fn}([({words[0]!r}, 0)], {table}, {least})", 3 * fee),
            shallow("dearest", f"{dearest}([({words[2]!r}, 99), ({words[1]!r}, 3)], {table}, {{}})", (words[1], 3)),
        ),
        symptoms=(
            f"We are charged for {items} that have no price in our table, although those are free.",
            f"The total is too high as soon as the list holds {items} without an entry in the price table.",
            f"Free {items} are not free: something is added for each of them.",
            f"My sum by hand is lower than what comes out, and the difference is about the {items} that cost nothing.",
        ),
        example=Example(f"{many} times {words[2]}, which has no price in the table", "0", f"{many}"),
        remarks=(
            f"Likewise a {measure} of 0 is treated as 1 for names that have no lower bound at all.",
            f"Small lots are wrong too: where no lower bound is agreed, a {measure} of 0 should cost nothing.",
            f"Half of one is billed as a whole even where we never agreed on a least {measure}.",
            f"Names without a least {measure} behave as if there were one; I found that with a {measure} of zero.",
        ),
    )


_RULES = '''
"""How lists of $items are ordered and cut."""


def $fn(chosen):
    """All settings: what was chosen, and the house rules for the rest: by name, from A to Z, up to twenty."""
    settings = {
        "by": "name",
$$spot
    }
    settings.update(chosen)
    return settings


def $arrange($items, chosen):
    """(name, $count) pairs as chosen."""
    settings = $fn(chosen)
    place = 0 if settings["by"] == "name" else 1
    found = sorted($items, key=lambda pair: pair[place], reverse=settings["descending"])
    return found[: settings["limit"]]
'''

_SCREEN = '''
"""The monitor in the hall."""

SCREEN = {
    "font": "large",
        "limit": 10,
    "seconds": 15,
}


def $fn($items):
    """As many $items as the monitor has lines."""
    return list($items)[: SCREEN["limit"]]
'''


def house_rules(draw: Draw) -> Draft:
    """Order and limit are not those of the house; the partial mend sets the order right."""
    items, words = draw.domain.items, draw.words(12)
    pairs = [(word, draw.number(1, 99)) for word in words]
    three, ordered = pairs[:3], sorted(pairs)
    fn, arrange = draw.pick("settings_for", "with_rules", "complete"), draw.pick("arrange", "listing", "in_order")
    top = draw.number(2, 5)
    lines = '        "descending": {0},\n        "limit": {1},'
    return Draft(
        stems=(draw.pick("preferences", "ordering", "conventions"), draw.pick("monitor", "hallway")),
        names=(fn, arrange),
        target=fill(_RULES, draw.slots(fn=fn, arrange=arrange)),
        broken=lines.format(True, 10),
        fixed=lines.format(False, 20),
        partial=lines.format(False, 10),
        lookalike=fill(_SCREEN, draw.slots(fn=draw.pick("on_monitor", "for_the_hall"))).replace(
            '        "lim', '    "lim'
        ),
        lookalike_line='    "limit": 10,',
        lookalike_change='    "limit": 20,',
        search='"limit": 10',
        visible=(
            steady(
                "everything chosen",
                f"{arrange}({pairs}, {{'by': 'name', 'descending': False, 'limit': {top}}})",
                ordered[:top],
            ),
            shallow("order by name", f"{arrange}({three}, {{}})", sorted(three)),
            deep("a dozen", f"len({arrange}({pairs}, {{}}))", 12),
        ),
        hidden=(
            deep("the rules", f"{fn}({{}})", {"by": "name", "descending": False, "limit": 20}),
            deep("all of a dozen", f"{arrange}({pairs}, {{}})", ordered),
            shallow("by figure", f"{arrange}([('a', 2), ('b', 1)], {{'by': 'figure'}})", [("b", 1), ("a", 2)]),
            steady("descending", f"{arrange}({three}, {{'descending': True}})", sorted(three, reverse=True)),
            deep("twenty of thirty", f"len({arrange}([(str(n), n) for n in range(30)], {{}}))", 20),
            steady("own limit", f"len({arrange}({pairs}, {{'limit': {top}}}))", top),
        ),
        symptoms=(
            f"Without any choice of mine the {items} are listed from Z to A.",
            f"The manual promises an alphabetical list of {items}, but the alphabet runs backwards here.",
            f"If nobody touches the options, the {items} stand in the wrong order.",
            "Only when I choose everything by hand does the list look as the manual says it should by itself.",
        ),
        example=Example(
            f"the {items} {', '.join(name for name, _ in three)} without further options",
            ", ".join(name for name, _ in sorted(three)),
            ", ".join(name for name, _ in sorted(three, reverse=True)),
        ),
        remarks=(
            "Long lists are cut too soon as well: up to twenty entries should fit, and I count ten.",
            "In addition two of my dozen entries are missing altogether, although twenty are allowed.",
            f"Also, of my twelve {items} only ten are there. The manual speaks of twenty.",
            f"By the way, more than ten {items} never show up unless I ask for more, and the limit was to be twenty.",
        ),
    )


_ENTRIES = '''
"""Adding up what was entered."""


def $fn($items):
    """The $count of all confirmed $items. One that says nothing of its $count adds nothing, and one that says nothing
    of a confirmation is not confirmed."""
    total = 0
    for entry in $items:
$$spot
        if confirmed:
            total += number
    return total


def $open($items):
    """How many $items nobody has confirmed."""
    return sum(1 for entry in $items if not entry.get("confirmed"))
'''

_LABELS = '''
"""Stickers for the printer."""


def $fn($items):
    """One sticker for each $item; without a $count it gets a single one."""
    stickers = []
    for entry in $items:
        number = entry.get("$count", 1)
        stickers.append(f"{entry.get('name', '')} x{number}")
    return stickers
'''


def incomplete_entries(draw: Draw) -> Draft:
    """A missing figure counts 1 and a missing mark counts as set; the partial mend cares for the figure."""
    measure = draw.domain.measure
    count, items, item = draw.domain.count, draw.domain.items, draw.domain.item
    many, few = draw.number(20, 80), draw.number(2, 9)
    fn, unsure = draw.pick("confirmed_total", "sum_confirmed", "sure_total"), draw.pick("still_open", "unconfirmed")
    full = {count: many, "confirmed": True}
    lines = f'        number = entry.get("{count}", {{0}})\n        confirmed = entry.get("confirmed", {{1}})'
    return Draft(
        stems=(draw.pick("adding", "summing", "ledgers"), draw.pick("stickers", "printing")),
        names=(fn, unsure),
        target=fill(_ENTRIES, draw.slots(fn=fn, open=unsure)),
        broken=lines.format(1, True),
        fixed=lines.format(0, False),
        partial=lines.format(0, True),
        lookalike=fill(_LABELS, draw.slots(fn=draw.pick("stickers_for", "print_run"))),
        lookalike_line=f'        number = entry.get("{count}", 1)',
        lookalike_change=f'        number = entry.get("{count}", 0)',
        search=f'number = entry.get("{count}"',
        visible=(
            steady("complete entries", f"{fn}([{full}, {full | {'confirmed': False}}])", many),
            steady("open entries", f"{unsure}([{full}, {{{count!r}: 3}}])", 1),
            shallow("without a figure", f"{fn}([{full}, {{'confirmed': True}}])", many),
            deep("without a mark", f"{fn}([{full}, {{{count!r}: {few}}}])", many),
        ),
        hidden=(
            shallow("no figures", f"{fn}([{{'confirmed': True}}] * {few})", 0),
            deep("no marks", f"{fn}([{{{count!r}: {few}}}] * 3)", 0),
            deep("nothing known", f"{fn}([{full}, {{}}, {{{count!r}: {few}}}])", many),
            steady("no entries", f"{fn}([])", 0),
            steady("all confirmed", f"{fn}([{full}] * 3)", 3 * many),
        ),
        symptoms=(
            f"The total {measure} is too high when some {items} were entered in a hurry and lack something.",
            f"An {item} whose {measure} was left blank still adds to the sum.",
            "Blank fields are not treated as blank; each of them makes the sum grow.",
            f"We leave the {measure} empty until we know it, yet the total rises by one every time.",
        ),
        example=Example(
            f"one confirmed entry with a {measure} of {many} and one confirmed entry with no {measure}",
            f"{many}",
            f"{many + 1}",
        ),
        remarks=(
            "Those that nobody has ticked off yet must stay out of the total, but they are in it.",
            "I also see entries in the sum that were never confirmed by anyone.",
            f"And {items} without a tick are counted as though somebody had given the tick.",
            "It counts what has neither been confirmed nor refused, which should wait.",
        ),
    )
