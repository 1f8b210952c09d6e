"""Bugs of operators without their brackets."""

from __future__ import annotations

from heldout.worlds.repair.draft import Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["admissions", "surcharges"]

_SURCHARGE = '''
"""What is charged for a $count."""


def $fn($count, extra, rate):
    """The $count and the extra, both at the rate."""
$$spot


def $month(days, rate):
    """The sum over ($count, extra) pairs, one a day."""
    return sum($fn($count, extra, rate) for $count, extra in days)
'''

_EXTRA = '''
"""Only the extra, for a slip of its own."""


def $fn(extra, rate, minimum):
    """What the extra costs, at least the minimum."""
    alone = extra * rate
    return max(alone, minimum)


def $slip(extra, rate, minimum):
    """The slip."""
    return f"extra: {$fn(extra, rate, minimum)}"
'''


def surcharges(draw: Draw) -> Draft:
    """A sum without its brackets; the partial mend puts the rate to the other side."""
    measure = draw.domain.measure
    count, item, many, extra, rate = (
        draw.domain.count,
        draw.domain.item,
        draw.number(4, 60),
        draw.number(2, 9),
        draw.number(3, 9),
    )
    fn, month = draw.pick("charge_for", "due", "charged"), draw.pick("month", "sum_of_days")
    slip = draw.slots(fn=draw.pick("extra_alone", "extra_cost"), slip=draw.pick("slip", "extra_slip"))
    right = (many + extra) * rate
    return Draft(
        stems=(draw.pick("charges", "dues", "reckoning"), draw.pick("extras", "supplement")),
        names=(fn, month),
        target=fill(_SURCHARGE, draw.slots(fn=fn, month=month)),
        broken=f"    return {count} + extra * rate",
        fixed=f"    return ({count} + extra) * rate",
        partial=f"    return {count} * rate + extra",
        lookalike=fill(_EXTRA, slip),
        lookalike_line="    alone = extra * rate",
        lookalike_change="    alone = (extra * rate)",
        search="extra * rate",
        visible=(
            steady("a rate of one", f"{fn}({many}, {extra}, 1)", many + extra),
            shallow("without an extra", f"{fn}({many}, 0, {rate})", many * rate),
            deep("with an extra", f"{fn}({many}, {extra}, {rate})", right),
        ),
        hidden=(
            deep("both at the rate", f"{fn}({many}, {extra}, {rate})", right),
            shallow("no extra", f"{fn}({many}, 0, 2)", 2 * many),
            deep("a month", f"{month}([({many}, {extra}), ({many}, 0)], {rate})", right + many * rate),
            steady("nothing", f"{fn}(0, 0, {rate})", 0),
            steady("no days", f"{month}([], {rate})", 0),
            deep("a discount", f"{fn}({many}, {extra}, 0)", 0),
        ),
        symptoms=(
            f"What we charge for an {item} hardly rises with the rate.",
            f"The rate seems to be applied to the extra alone and not to the {measure}.",
            "Customers pay far too little, for the main part is charged at the lowest rate.",
            f"Whichever rate I choose, the {measure} itself goes into the sum unmultiplied.",
        ),
        example=Example(f"a {measure} of {many}, no extra, rate {rate}", f"{many * rate}", f"{many}"),
        remarks=(
            f"With an extra of {extra} on top it should be {right}, as both parts are charged at the rate.",
            f"And both count at the rate: with an extra of {extra} I get {right} by hand.",
            f"The extra must be multiplied likewise; an extra of {extra} makes {right} in all.",
            f"Do not forget the extra, please: {many} and {extra} at {rate} are {right}.",
        ),
    )


_ADMIT = '''
"""Who may come in."""


def $fn($member, $paid, $barred):
    """Whoever is on the list or has paid, unless barred."""
$$spot


def $crowd(people):
    """How many of (list, paid, barred) triples may come in."""
    return sum(bool($fn(*person)) for person in people)
'''

_DESK = '''
"""The lamp at the cash desk."""


def $fn($paid, $barred):
    """Whether the lamp is green."""
    green = $paid and not $barred
    return green


def $lamp($paid, $barred):
    """Its colour."""
    return "green" if $fn($paid, $barred) else "red"
'''


def admissions(draw: Draw) -> Draft:
    """`or` and `and` without brackets; the partial mend lets barred people in who have paid."""
    items, groups = draw.domain.items, draw.domain.groups
    member, paid, barred = (
        draw.pick("member", "listed", "invited"),
        draw.pick("paid", "prepaid", "vouched"),
        draw.pick("barred", "blocked", "expelled"),
    )
    fn, crowd = draw.pick("may_enter", "admitted", "welcome"), draw.pick("crowd", "how_many")
    words = draw.slots(member=member, paid=paid, barred=barred)
    desk = words | {"fn": draw.pick("is_green", "clear"), "lamp": draw.pick("lamp", "lamp_colour")}
    people = [(True, False, True), (True, True, True), (False, True, True), (False, True, False), (False, False, False)]
    return Draft(
        stems=(draw.pick("doorkeeping", "admission", "turnstile"), draw.pick("cashdesk", "signal")),
        names=(fn, crowd),
        target=fill(_ADMIT, words | {"fn": fn, "crowd": crowd}),
        broken=f"    return {member} or {paid} and not {barred}",
        fixed=f"    return ({member} or {paid}) and not {barred}",
        partial=f"    return {member} and not {barred} or {paid}",
        lookalike=fill(_DESK, desk),
        lookalike_line=f"    green = {paid} and not {barred}",
        lookalike_change=f"    green = not {barred} and {paid}",
        search=f"{paid} and not {barred}",
        visible=(
            steady("neither listed nor paid", f"{fn}(False, False, False)", False),
            steady("paid", f"{fn}(False, True, False)", True),
            shallow("turned away though listed", f"{fn}(True, False, True)", False),
            deep("turned away though listed and paid", f"{fn}(True, True, True)", False),
        ),
        hidden=(
            shallow("listed but unwanted", f"{fn}(True, False, True)", False),
            deep("all three", f"{fn}(True, True, True)", False),
            steady("listed", f"{fn}(True, False, False)", True),
            deep("a small crowd", f"{crowd}({people})", 1),
            steady("nobody", f"{crowd}([])", 0),
        ),
        symptoms=(
            "People with a ban get in as long as their names are on our list.",
            f"A ban has no effect on regulars; they are let through to the {groups} all the same.",
            f"We expelled somebody, and the program still lets that person at our {items}.",
            "The ban works for strangers only. Whoever is registered passes in spite of it.",
        ),
        example=Example("somebody on the list who has not paid and is banned", "no entry", "entry"),
        remarks=(
            "Paying does not help a banned person either, or at least it should not, list or no list.",
            "A ban must count for everybody: on the list, paid, or both.",
            "One of them had even paid in advance, and should have been sent away nevertheless.",
            "Paid and registered and banned, that is still banned in my book.",
        ),
    )
