"""Bugs of a name that is imported from the wrong place, or is the wrong name."""

from __future__ import annotations

from heldout.worlds.repair.draft import Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["boxes", "middles", "styles"]

_MIDDLE = '''
"""What is usual."""

$$spot


def $fn($items):
    """The $count in the middle of (name, $count) pairs: as many have less as have more."""
    return middle($count for _, $count in $items)


def $above($items):
    """The names with more than that."""
    centre = $fn($items)
    return [name for name, $count in $items if $count > centre]
'''

_MEAN = '''
"""Figures for the yearbook."""

from statistics import mean, pstdev


def $fn(numbers):
    """Mean and standard deviation, to one decimal."""
    return round(mean(numbers), 1), round(pstdev(numbers), 1)


def $unusual(numbers):
    """The numbers that lie more than two standard deviations off."""
    centre, spread = $fn(numbers)
    return [number for number in numbers if abs(number - centre) > 2 * spread]
'''


def middles(draw: Draw) -> Draft:
    """The mean instead of the median; the partial mend takes the lower of two middle values."""
    measure = draw.domain.measure
    items, count, words = draw.domain.items, draw.domain.count, draw.words(5)
    low, far = draw.number(3, 12), draw.number(70, 160)
    odd = [(words[0], low), (words[1], low + 2), (words[2], far)]
    even = [*odd, (words[3], low + 6)]
    fn, above = draw.pick("usual", "typical", f"middle_{count}"), draw.pick("above_usual", "more_than_usual")
    book = draw.slots(fn=draw.pick("yearbook_line", "two_figures"), unusual=draw.pick("unusual", "far_off"))
    mean = (2 * low + 2 + far) / 3
    return Draft(
        stems=(draw.pick("everyday", "custom", "ordinary"), draw.pick("yearbook", "almanach")),
        names=(fn, above),
        target=fill(_MIDDLE, draw.slots(fn=fn, above=above)),
        broken="from statistics import mean as middle",
        fixed="from statistics import median as middle",
        partial="from statistics import median_low as middle",
        lookalike=fill(_MEAN, book),
        lookalike_line="from statistics import mean, pstdev",
        lookalike_change="from statistics import fmean as mean, pstdev",
        search="from statistics import mean",
        visible=(
            steady("all the same", f"{fn}([({words[0]!r}, {low}), ({words[1]!r}, {low})])", low),
            shallow("three of them", f"{fn}({odd})", low + 2),
            deep("four of them", f"{fn}({even})", low + 4.0),
        ),
        hidden=(
            shallow("odd number", f"{fn}({odd})", low + 2),
            deep("even number", f"{fn}({even})", low + 4.0),
            steady("a single one", f"{fn}([({words[4]!r}, {far})])", far),
            shallow(
                "more than usual",
                f"{above}([*{even}, ({words[4]!r}, {far}), ({words[0]!r}, 1)])",
                [words[2], words[3], words[4]],
            ),
            deep(
                "two of them",
                f"{fn}([({words[0]!r}, 0), ({words[1]!r}, {low}), ({words[2]!r}, {low + 1}), ('x', {far})])",
                low + 0.5,
            ),
        ),
        symptoms=(
            f"One enormous {measure} pulls the “usual” figure up so far that it is of no use.",
            f"The usual {measure} is meant to be the one in the middle, half below and half above, and it is not.",
            f"A single outlier among the {items} changes what is called typical beyond recognition.",
            f"What the program calls the usual {measure} is larger than nearly all that we have.",
        ),
        example=Example(f"the figures {low}, {low + 2} and {far}", f"{low + 2}", f"about {mean:.0f}"),
        remarks=(
            f"With an even number of {items} it should lie half-way between the two in the middle.",
            f"For {low}, {low + 2}, {low + 6} and {far} I would expect {low + 4}, half-way between the middle ones.",
            f"By the textbook, four figures such as {low}, {low + 2}, {low + 6}, {far} have {low + 4} as their middle.",
            "If two are in the middle, we take what lies exactly between them.",
        ),
    )


_BOXES = '''
"""What has to be fetched from the cellar."""

$$spot


def $fn($count, size):
    """How many boxes of `size` a $count fills; one that is just begun counts."""
    return whole($count / size)


def $all(numbers, size):
    """Boxes for several, each packed for itself."""
    return sum($fn(number, size) for number in numbers)
'''

_FULL = '''
"""What can be sealed already."""

from math import floor


def $fn($count, size):
    """How many boxes are full."""
    return floor($count / size)


def $left($count, size):
    """What stays loose."""
    return $count - $fn($count, size) * size
'''


def boxes(draw: Draw) -> Draft:
    """A begun box does not count; the partial mend counts it where it is at least half full."""
    measure, item, size, full = draw.domain.measure, draw.domain.item, draw.number(5, 12), draw.number(2, 9)
    nearly, hardly = full * size + size - 1, full * size + 1
    fn, several = draw.pick("boxes_for", "boxes", "crates"), draw.pick("boxes_for_all", "all_boxes")
    sealed = draw.slots(fn=draw.pick("full_boxes", "sealed"), left=draw.pick("loose", "left_over"))
    return Draft(
        stems=(draw.pick("crating", "cellar", "boxing"), draw.pick("sealing", "lids")),
        names=(fn, several),
        target=fill(_BOXES, draw.slots(fn=fn, all=several)),
        broken="from math import floor as whole",
        fixed="from math import ceil as whole",
        partial="whole = round",
        lookalike=fill(_FULL, sealed),
        lookalike_line="from math import floor",
        lookalike_change="from math import trunc as floor",
        search="from math import floor",
        visible=(
            steady("full boxes", f"{fn}({full * size}, {size})", full),
            shallow("one box nearly full", f"{fn}({nearly}, {size})", full + 1),
            deep("one box just begun", f"{fn}({hardly}, {size})", full + 1),
        ),
        hidden=(
            deep("a single piece", f"{fn}(1, {size})", 1),
            steady("nothing to pack", f"{fn}(0, {size})", 0),
            shallow("nearly full", f"{fn}({nearly}, {size})", full + 1),
            deep("hardly begun", f"[{fn}({hardly}, {size}), {fn}({hardly + 1}, {size})]", [full + 1, full + 1]),
            deep("each for itself", f"{several}([1, 1, {size}], {size})", 3),
            steady("boxes of one", f"{fn}({nearly}, 1)", nearly),
        ),
        symptoms=(
            f"We are always a box short when we pack a {measure} that does not fit evenly.",
            f"The number of boxes for a {measure} is too small; what does not fill one is left standing in the yard.",
            f"For each {item} the packing list asks for fewer boxes than we need.",
            "The remainder that needs a box of its own is forgotten on the packing list.",
        ),
        example=Example(f"a {measure} of {nearly} and boxes of {size}", f"{full + 1} boxes", f"{full} boxes"),
        remarks=(
            f"Whether the last one is nearly full or holds a single piece: {hardly} needs {full + 1} too.",
            f"Even one piece in the last box needs that box, so {hardly} also makes {full + 1}.",
            f"With {hardly} I expect {full + 1} as well, for the odd one has to go somewhere.",
            f"A {measure} of 1 should come out as one box rather than none.",
        ),
    )


_STYLES = '''
"""The $items in one of two styles."""

STYLES = ("comma", "wide")


def $fn($items, style):
    """Lines of (name, $count) pairs for the style."""
$$spot
    return [write(name, $count) for name, $count in $items]


def $known(style):
    """Whether there is such a style."""
    return style in STYLES
'''

_ROWS = '''
"""How one row is written."""


def comma_row(name, $count):
    """For a spreadsheet."""
    return f"{name},{$count}"


def wide_row(name, $count):
    """For the printer."""
    return f"{name:<16}{$count:>6}"
'''

_LETTER = '''
"""Letters to the $groups."""

from $package.$support import wide_row as wide_line


def $fn(name, $count):
    """What the letter says about one $item."""
    return "We have on record:\\n" + wide_line(name, $count)


def $polite(text):
    """The text with a greeting."""
    return f"Hello,\\n{text}\\nKind regards"
'''


def styles(draw: Draw) -> Draft:
    """Both styles import names that do not exist; the partial mend puts the first one right."""
    items, words, many = draw.domain.items, draw.words(2), draw.number(3, 900)
    pairs = [(words[0], many), (words[1], many + 7)]
    fn, known, support = (
        draw.pick("lines_for", "export", "lines_of"),
        draw.pick("is_style", "known"),
        draw.pick("rowing", "typeset"),
    )
    letter = draw.slots(
        fn=draw.pick("letter_part", "statement"), polite=draw.pick("greet", "with_greeting"), support=support
    )
    block = (
        '    if style == "comma":\n'
        f"        from {draw.package}.{support} import {{0}} as write\n"
        "    else:\n"
        f"        from {draw.package}.{support} import {{1}} as write"
    )
    comma, wide = [f"{name},{number}" for name, number in pairs], [f"{name:<16}{number:>6}" for name, number in pairs]
    return Draft(
        stems=(draw.pick("emitting", "outlet", "dispatching"), draw.pick("letters", "correspondence")),
        names=(fn, known),
        target=fill(_STYLES, draw.slots(fn=fn, known=known)),
        broken=block.format("comma_line", "wide_line"),
        fixed=block.format("comma_row", "wide_row"),
        partial=block.format("comma_row", "wide_line"),
        lookalike=fill(_LETTER, letter),
        lookalike_line=f"from {draw.package}.{support} import wide_row as wide_line",
        lookalike_change=f"from {draw.package}.{support} import comma_row as wide_line",
        search="wide_line",
        support={support: fill(_ROWS, draw.slots())},
        visible=(
            steady("known styles", f"[{known}('comma'), {known}('narrow')]", [True, False]),
            shallow("comma style", f"{fn}({pairs}, 'comma')", comma, error="ImportError"),
            deep("wide style", f"{fn}({pairs}, 'wide')", wide, error="ImportError"),
        ),
        hidden=(
            shallow("one comma line", f"{fn}({pairs[:1]}, 'comma')", comma[:1], error="ImportError"),
            deep("one wide line", f"{fn}({pairs[:1]}, 'wide')", wide[:1], error="ImportError"),
            shallow("no comma lines", f"{fn}([], 'comma')", [], error="ImportError"),
            deep("no wide lines", f"{fn}([], 'wide')", [], error="ImportError"),
        ),
        symptoms=(
            f"I cannot get the {items} out of the program any more: the export stops with an error.",
            f"Neither the spreadsheet nor the printer receives anything; writing the {items} fails at once.",
            "Exporting ends with a message that something cannot be imported, whatever that means.",
            f"Every attempt to save the {items} as a file dies before the first line is written.",
        ),
        example=Example(
            f"{words[0]} {many} and {words[1]} {many + 7} with commas",
            f"“{comma[0]}” and “{comma[1]}”",
            "an import error",
        ),
        remarks=(
            "The format for the printer, with the figures in a column, fails in the same way.",
            "I tried the wide format too, same result, other name in the message.",
            "It is both formats, commas and columns, so it cannot be the spreadsheet program.",
            "Printing in columns is what we need most, and that does not work either.",
        ),
    )
