"""Bugs of one too few or one too many."""

from __future__ import annotations

from heldout.worlds.repair.draft import Case, Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["covered_days", "pages", "tiers"]

_PAGES = '''
"""Long lists of $items, piece by piece."""


def $fn($items, number, size):
    """Page `number` of the $items, counted from 1. The last one may be short; beyond it there is nothing."""
    if number < 1 or size < 1:
        raise ValueError("pages are counted from 1 and hold at least one of the $items")
    start = (number - 1) * size
$$spot


def $counter($items, size):
    """How many pages the $items fill."""
    return -(-len($items) // size)
'''

_WINDOW = '''
"""The few $items that are shown before anybody asks for more."""


def $fn($items, start, size):
    """Up to `size` of the $items for the screen at the entrance, from place `start` on."""
    shown = $items[start : start + size]
    return [str(entry) for entry in shown]


def $more($items, size):
    """Whether there is more than the screen shows."""
    return len($items) > size
'''


def pages(draw: Draw) -> Draft:
    """A page ends one entry early; the partial mend cares for the last page only."""
    size, items = draw.number(3, 5), draw.domain.items
    entries = [f"{word} {draw.number(2, 90)}" for word in draw.words(size + draw.number(1, size - 1))]
    whole, rest = entries[:size], entries[size:]
    fn = draw.pick(f"page_of_{items}", f"{items}_on_page", "page_of", f"sheet_of_{items}")
    counter = draw.pick("pages_needed", "page_count", "sheets")
    window = draw.slots(fn=draw.pick("screenful", "first_glance", "foretaste"), more=draw.pick("has_more", "goes_on"))
    return Draft(
        stems=(draw.pick("slicing", "leafing", "portion"), draw.pick("display", "entrance", "showcase")),
        names=(fn, counter),
        target=fill(_PAGES, draw.slots(fn=fn, counter=counter)),
        broken=f"    return {items}[start : start + size - 1]",
        fixed=f"    return {items}[start : start + size]",
        partial=(
            f"    if start + size >= len({items}):\n        return {items}[start:]\n"
            f"    return {items}[start : start + size - 1]"
        ),
        lookalike=fill(_WINDOW, window),
        lookalike_line=f"    shown = {items}[start : start + size]",
        lookalike_change=f"    shown = {items}[start : start + size + 1]",
        search=": start + size",
        visible=(
            steady("page beyond the end", f"{fn}({entries!r}, 3, {size})", []),
            steady("number of pages", f"{counter}({entries!r}, {size})", 2),
            shallow("only page", f"{fn}({whole!r}, 1, {size})", whole),
            deep("first of two pages", f"{fn}({entries!r}, 1, {size})", whole),
        ),
        hidden=(
            deep("first page", f"{fn}({entries!r}, 1, {size})", whole),
            steady("last page", f"{fn}({entries!r}, 2, {size})", rest),
            deep("pages of one", f"[{fn}({whole!r}, n, 1) for n in (1, 2)]", [[whole[0]], [whole[1]]]),
            deep("all pages together", f"sum(({fn}({entries!r}, n, 2) for n in range(1, 9)), [])", entries),
            steady("nothing to show", f"{fn}([], 1, {size})", []),
            shallow("everything on one page", f"{fn}({entries!r}, 1, {len(entries)})", entries),
        ),
        symptoms=(
            f"When I leaf through the {items}, some of them are on no page at all.",
            f"The printed sheets never hold as many {items} as we ask for; somebody is always left out.",
            f"If I add up what the single sheets show, I get fewer {items} than we really have.",
            "Every sheet seems to stop too early, and what is missing does not turn up on the next one either.",
        ),
        example=Example(
            f"{len(entries)} {items}, {size} to a page, first page please", ", ".join(whole), ", ".join(whole[:-1])
        ),
        remarks=(
            "It is not only the last page, the ones before it are short as well.",
            f"With just one of the {items} to a page, nothing is printed whatsoever.",
            f"The number of pages is right; what stands on them is wrong, for short and for long lists of {items}.",
            "Larger pages lose as many as smaller ones do, wherever they stand in the pile.",
        ),
    )


_DAYS = '''
"""Stretches of days, by the number of the day in the year."""


def $fn(first, last):
    """All days from `first` to `last`, both included; none where `last` comes before `first`."""
$$spot


def $total(stretches):
    """How many days the stretches cover together; a day that stands in two of them counts once."""
    return len({day for first, last in stretches for day in $fn(first, last)})
'''

_WEEKS = '''
"""The year on the wall, a line for each week."""


def $fn(first, last):
    """The days before `last` on which a line of the wall plan begins."""
    starts = list(range(first, last, 7))
    return starts


def $room(first, last, width):
    """How wide a line may be so that all fit side by side."""
    return width // max(1, len($fn(first, last)))
'''


def covered_days(draw: Draw) -> Draft:
    """The last day is left out; the partial mend cares for stretches of one day."""
    first, length, items = draw.number(5, 190), draw.number(3, 6), draw.domain.items
    last = first + length
    fn, total = draw.pick("days_between", "all_days", "span"), draw.pick("days_covered", "covered", "sum_of_days")
    weeks = draw.slots(fn=draw.pick("line_starts", "plan_lines"), room=draw.pick("line_width", "room_for_line"))
    days = list(range(first, last + 1))
    return Draft(
        stems=(draw.pick("timespans", "daycount", "intervals"), draw.pick("wallplan", "yeargrid")),
        names=(fn, total),
        target=fill(_DAYS, draw.slots(fn=fn, total=total)),
        broken="    return list(range(first, last))",
        fixed="    return list(range(first, last + 1))",
        partial="    if first == last:\n        return [first]\n    return list(range(first, last))",
        lookalike=fill(_WEEKS, weeks),
        lookalike_line="    starts = list(range(first, last, 7))",
        lookalike_change="    starts = list(range(first, last + 1, 7))",
        search="list(range(first, last",
        visible=(
            steady("end before beginning", f"{fn}({last}, {first})", []),
            shallow("a single day", f"{fn}({first}, {first})", [first]),
            deep("several days", f"{fn}({first}, {last})", days),
            deep("days covered together", f"{total}([({first}, {last}), ({last}, {last + 2})])", length + 3),
        ),
        hidden=(
            deep("two days", f"{fn}({first}, {first + 1})", [first, first + 1]),
            deep("a week", f"len({fn}({first}, {first + 6}))", 7),
            shallow("one day", f"{fn}({last}, {last})", [last]),
            steady("backwards", f"{fn}({last}, {first - 2})", []),
            deep("one stretch", f"{total}([({first}, {last})])", length + 1),
            deep("stretches apart", f"{total}([({first}, {first + 2}), ({last + 9}, {last + 10})])", 5),
            steady("no stretch", f"{total}([])", 0),
        ),
        symptoms=(
            f"We enter from when to when our {items} run, and the closing day is never part of the list.",
            f"The days that belong to a stretch of {items} are counted too low, every single time.",
            "Whoever comes on the last day is told that the period is over already.",
            f"Our own calendar and the program disagree about how long the {items} last.",
        ),
        example=Example(
            f"a stretch from day {first} to day {last}",
            f"the {length + 1} days {first} to {last}",
            f"{length} days, the last being {last - 1}",
        ),
        remarks=(
            "Something that begins and ends on one day vanishes altogether, and longer ones are cut as well.",
            "When two stretches touch, the sum is wrong too.",
            "Short or long makes no difference, and the month does not matter.",
            "Dates typed the wrong way round still give an empty list, which is fine with us.",
        ),
    )


_TIERS = '''
"""Tiers by $count."""


def $fn($count, limits):
    """0 below the first of the ascending limits, and one more for each limit that is reached."""
    tier = 0
$$spot
    return tier


def $spread(listed, limits):
    """How many of the listed numbers fall into each tier."""
    found = [$fn($count, limits) for $count in listed]
    return [found.count(tier) for tier in range(len(limits) + 1)]
'''

_ALARMS = '''
"""Warnings on the screen when a $count gets out of hand."""


def $fn($count, limits):
    """How many of the ascending limits have been passed, not just reached."""
    passed = 0
    while passed < len(limits) and $count > limits[passed]:
        passed += 1
    return passed


def $colour(passed):
    """The colour of a warning."""
    return ("green", "amber", "red")[min(passed, 2)]
'''


def tiers(draw: Draw) -> Draft:
    """A limit that is just reached does not count; the partial mend cares for the highest one."""
    measure = draw.domain.measure
    count, items, low = draw.domain.count, draw.domain.items, draw.number(10, 40)
    limits = [low, low + draw.number(15, 40), low + draw.number(50, 90)]
    fn, spread = draw.pick("tier_of", "band", "step_of"), draw.pick("spread", "by_tier", "tally_of_tiers")
    alarms = draw.slots(fn=draw.pick("warnings", "alarm_level"), colour=draw.pick("colour", "lamp"))
    loop = f"    while tier < len(limits) and {count} > limits[tier]:\n        tier += 1"
    return Draft(
        stems=(draw.pick("bands", "ladder", "rungs"), draw.pick("alarms", "lamps")),
        names=(fn, spread),
        target=fill(_TIERS, draw.slots(fn=fn, spread=spread)),
        broken=loop,
        fixed=loop.replace(">", ">="),
        partial=f"    if {count} == limits[-1]:\n        return len(limits)\n{loop}",
        lookalike=fill(_ALARMS, alarms),
        lookalike_line=f"    while passed < len(limits) and {count} > limits[passed]:",
        lookalike_change=f"    while passed < len(limits) and {count} >= limits[passed]:",
        search=f"and {count} > limits[",
        visible=(
            steady("between two limits", f"{fn}({limits[0] + 1}, {limits})", 1),
            steady("below every limit", f"{fn}({limits[0] - 1}, {limits})", 0),
            shallow("at the highest limit", f"{fn}({limits[2]}, {limits})", 3),
            deep("at the first limit", f"{fn}({limits[0]}, {limits})", 1),
        ),
        hidden=(
            deep("every limit", f"[{fn}(limit, {limits}) for limit in {limits}]", [1, 2, 3]),
            steady("above every limit", f"{fn}({limits[2] + 1}, {limits})", 3),
            Case("no limits", f"{fn}({low}, [])", "0", partial="IndexError"),
            shallow("one limit", f"{fn}({low}, [{low}])", 1),
            deep("spread over tiers", f"{spread}({[low - 1, *limits]}, {limits})", [1, 1, 1, 1]),
        ),
        symptoms=(
            f"{items.capitalize()} that hit a threshold exactly are put one class too low.",
            f"According to the contract the better tier begins at the {measure} that is printed there, not beyond it.",
            f"Our customers in the border case get the worse tier, although their {measure} is what we ask for.",
            f"Sorting {items} into tiers works, unless the {measure} is a round figure on the list.",
        ),
        example=Example(
            f"thresholds {limits[0]}, {limits[1]} and {limits[2]} and a {measure} of {limits[0]}", "tier 1", "tier 0"
        ),
        remarks=(
            "The same happens at the thresholds above it, the highest included.",
            "One more than the threshold is fine, one less is fine; only equality is treated wrongly.",
            "The overview with the number in each tier is shifted accordingly.",
            "I tried every threshold of ours, and none behaves.",
        ),
    )
