"""Bugs of figures that are cut where they should be rounded."""

from __future__ import annotations

from heldout.worlds.repair.draft import Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["cents", "shares", "steps"]

_CENTS = '''
"""Prices as whole cents."""

from decimal import ROUND_HALF_UP, Decimal


def $fn(price):
    """A price in cents, half a cent rounded up."""
$$spot


def $total(prices):
    """The sum of several prices in cents, each rounded for itself."""
    return sum($fn(price) for price in prices)


def $exact(text):
    """A price as somebody typed it, with a comma or a point, to the cent."""
    return Decimal(text.replace(",", ".")).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
'''

_TILL = '''
"""What is read aloud at the till."""


def $fn(price):
    """The part of a price before the point."""
    hundredths = int(price * 100)
    return hundredths // 100


def $spoken(price, currency):
    """A price as one says it."""
    return f"{$fn(price)} {currency} and something"
'''


def _awkward(draw: Draw) -> float:
    """A price whose binary value lies just below a whole number of cents."""
    while True:
        price = draw.number(105, 9899) / 100
        if int(price * 100) != round(price * 100):
            return price


def cents(draw: Draw) -> Draft:
    """Prices are cut; the partial mend rounds half to even."""
    items = draw.domain.items
    price, whole = _awkward(draw), draw.number(2, 40)
    fn, total = draw.pick("to_cents", "in_cents", "cents"), draw.pick("sum_in_cents", "all_cents", "add_up")
    exact, half = draw.pick("typed", "parse_price"), whole + 0.125
    till = draw.slots(fn=draw.pick("units", "before_point"), spoken=draw.pick("spoken", "announce"))
    right = round(price * 100)
    return Draft(
        stems=(draw.pick("coins", "pricing", "smallchange"), draw.pick("till", "cashbox")),
        names=(fn, total),
        target=fill(_CENTS, draw.slots(fn=fn, total=total, exact=exact)),
        broken="    return int(price * 100)",
        fixed='    return int((Decimal(str(price)) * 100).quantize(Decimal("1"), rounding=ROUND_HALF_UP))',
        partial="    return round(price * 100)",
        lookalike=fill(_TILL, till),
        lookalike_line="    hundredths = int(price * 100)",
        lookalike_change="    hundredths = round(price * 100)",
        search="int(price * 100)",
        visible=(
            steady("a whole price", f"{fn}({whole}.5)", whole * 100 + 50),
            shallow("a price with cents", f"{fn}({price})", right),
            deep("half a cent", f"{fn}({half})", whole * 100 + 13),
        ),
        hidden=(
            shallow("odd cents", f"{fn}({price})", right),
            shallow("one cent short", f"{fn}(1.15)", 115),
            deep("half a cent up", f"[{fn}({whole}.125), {fn}({whole}.625)]", [whole * 100 + 13, whole * 100 + 63]),
            deep("half a cent in decimals", f"{fn}(1.005)", 101),
            steady("nothing", f"{fn}(0)", 0),
            deep("sum of prices", f"{total}([{price}, {half}])", right + whole * 100 + 13),
        ),
        symptoms=(
            f"Some of our {items} come out a cent too cheap, which adds up over a month.",
            "The amounts in cents are sometimes one lower than the price on the label.",
            f"Our bank refuses the file because single {items} differ by one cent from the printed price.",
            "Certain prices lose a cent on the way, others are right, and I see no pattern.",
        ),
        example=Example(f"a price of {price:.2f}", f"{right} cents", f"{right - 1} cents"),
        remarks=(
            f"Half cents must go up, the tax office insists, so {half} is {whole * 100 + 13} cents and not one less.",
            f"We also have prices such as {half}; there we always count half a cent as a full one.",
            f"Please mind our bulk prices with three decimals, for instance {half}, which should be rounded upwards.",
            f"A related case is {half}: commercial rounding gives {whole * 100 + 13}, the program gives less.",
        ),
    )


_SHARES = '''
"""Dividing a $count fairly."""


def $fn(total, parts):
    """Whole shares that add up to the total. They differ by one at most, and the larger ones come first."""
    if parts < 1:
        raise ValueError("there must be at least one part")
$$spot


def $named(total, names):
    """The share of each name."""
    return dict(zip(names, $fn(total, len(names))))
'''

_ROUGH = '''
"""A first guess before anything is fixed."""


def $fn(total, parts):
    """What everybody gets for sure."""
    rough = [total // parts] * parts
    return rough[0]


def $note(total, parts):
    """One line for the blackboard."""
    return f"about {$fn(total, parts)} each"
'''


def shares(draw: Draw) -> Draft:
    """The remainder is lost; the partial mend gives all of it to the first."""
    measure, groups, parts = draw.domain.measure, draw.domain.groups, draw.number(4, 7)
    each, left = draw.number(11, 60), draw.number(2, parts - 1)
    total, names = each * parts + left, draw.names(parts)
    right = [each + 1] * left + [each] * (parts - left)
    fn, named = draw.pick("divide", "split_up", "fair_shares"), draw.pick("by_name", "share_for_each", "assign")
    rough = draw.slots(fn=draw.pick("at_least", "guess"), note=draw.pick("chalk_line", "remark"))
    return Draft(
        stems=(draw.pick("fairness", "dividing", "allotment"), draw.pick("blackboard", "sketching")),
        names=(fn, named),
        target=fill(_SHARES, draw.slots(fn=fn, named=named)),
        broken="    return [total // parts] * parts",
        fixed="    return [total // parts + (place < total % parts) for place in range(parts)]",
        partial="    return [total // parts + total % parts] + [total // parts] * (parts - 1)",
        lookalike=fill(_ROUGH, rough),
        lookalike_line="    rough = [total // parts] * parts",
        lookalike_change="    rough = [-(-total // parts)] * parts",
        search="[total // parts]",
        visible=(
            steady("nothing left over", f"{fn}({each * parts}, {parts})", [each] * parts),
            shallow("one left over", f"{fn}({each * parts + 1}, {parts})", [each + 1] + [each] * (parts - 1)),
            deep("several left over", f"{fn}({total}, {parts})", right),
            deep("shares by name", f"{named}({total}, {names!r})", dict(zip(names, right, strict=True))),
        ),
        hidden=(
            shallow("sum of shares", f"sum({fn}({total}, {parts}))", total),
            deep("difference of shares", f"{fn}({total}, {parts})[:{left}]", [each + 1] * left),
            deep("fewer than parts", f"{fn}(2, {parts})", [1, 1] + [0] * (parts - 2)),
            steady("one part", f"{fn}({total}, 1)", [total]),
            steady("nothing to divide", f"{fn}(0, {parts})", [0] * parts),
            deep("names in order", f"list({named}({total}, {names!r}).values())", right),
        ),
        symptoms=(
            f"When we divide a {measure} among the {groups}, a little of it disappears.",
            "The parts do not add up to what went in; there is always something missing at the end.",
            f"Splitting between several {groups} loses the remainder, and at the month's end we look for it.",
            f"I distribute a {measure} and the sum of what everyone gets is lower than what I had.",
        ),
        example=Example(
            f"{total} divided among {parts} {groups}",
            f"{left} times {each + 1} and {parts - left} times {each}",
            f"{parts} times {each}, which is {each * parts} only",
        ),
        remarks=(
            "Nobody should get more than one above anybody else, that is what we agreed upon.",
            f"It would not be fair to hand the whole rest to the first of the {groups} either.",
            "Where the division leaves no rest, all is well.",
            f"The larger parts go to the {groups} at the top of the list, one extra each.",
        ),
    )


_STEPS = '''
"""Figures in round steps."""


def $fn(value, step):
    """The multiple of `step` that is nearest to a whole value; of two that are equally near, the larger."""
$$spot


def $all(values, step):
    """Several figures in steps, and their sum."""
    found = [$fn(value, step) for value in values]
    return found, sum(found)
'''

_SLOTS = '''
"""Places on the notice board."""


def $fn(value, step):
    """Where the slot begins that a value belongs to."""
    slot = value // step * step
    return slot


def $title(value, step):
    """The heading of that slot."""
    begin = $fn(value, step)
    return f"{begin} to {begin + step - 1}"
'''


def steps(draw: Draw) -> Draft:
    """Figures are cut to the step below; the partial mend rounds half to even."""
    measure, item, step, base = draw.domain.measure, draw.domain.item, 2 * draw.number(2, 12), draw.number(1, 9)
    above, half = (base + 1) * step - 1, 2 * base * step + step // 2
    fn, several = draw.pick("nearest", "in_steps", "rounded"), draw.pick("all_in_steps", "rounded_list")
    board = draw.slots(fn=draw.pick("slot_start", "slot_of"), title=draw.pick("slot_title", "heading_of"))
    wanted = [(base + 1) * step, (2 * base + 1) * step]
    return Draft(
        stems=(draw.pick("rounder", "coarse", "grid"), draw.pick("noticeboard", "pinboard")),
        names=(fn, several),
        target=fill(_STEPS, draw.slots(fn=fn, all=several)),
        broken="    return value // step * step",
        fixed="    return (2 * value + step) // (2 * step) * step",
        partial="    return round(value / step) * step",
        lookalike=fill(_SLOTS, board),
        lookalike_line="    slot = value // step * step",
        lookalike_change="    slot = round(value / step) * step",
        search="value // step * step",
        visible=(
            steady("already round", f"{fn}({base * step}, {step})", base * step),
            shallow("nearer to the step above", f"{fn}({above}, {step})", wanted[0]),
            deep("in the middle of two steps", f"{fn}({half}, {step})", wanted[1]),
        ),
        hidden=(
            shallow("just below a step", f"{fn}({above}, {step})", wanted[0]),
            steady("just above a step", f"{fn}({base * step + 1}, {step})", base * step),
            deep(
                "middle goes up", f"[{fn}({half}, {step}), {fn}({half - step}, {step})]", [wanted[1], 2 * base * step]
            ),
            deep("half of the first step", f"{fn}({step // 2}, {step})", step),
            deep("several and their sum", f"{several}([{above}, {half}], {step})", (wanted, sum(wanted))),
            steady("zero", f"{fn}(0, {step})", 0),
        ),
        symptoms=(
            f"The {measure} in our summary is always rounded in the house's favour, never in ours.",
            f"Rounding to steps of {step} does not work: everything is pushed down.",
            f"We publish each {item} in steps of {step}, and the figures are systematically too small.",
            f"A {measure} that is nearly at the next step is shown as the one below.",
        ),
        example=Example(f"a {measure} of {above} in steps of {step}", f"{wanted[0]}", f"{base * step}"),
        remarks=(
            f"By our rules the exact middle goes up too, thus {half} counts as {wanted[1]}.",
            f"And in the middle of two steps, {half} say, the upper one is right: {wanted[1]}.",
            f"Mind that {half} should become {wanted[1]}, we never round halves downwards.",
            f"The sum below the list suffers as well, and so do halves such as {half}, which belong to {wanted[1]}.",
        ),
    )
