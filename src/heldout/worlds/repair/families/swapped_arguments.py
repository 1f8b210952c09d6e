"""Bugs of arguments in the wrong order."""

from __future__ import annotations

from heldout.worlds.repair.draft import Case, Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["percentages", "replacements", "rounds"]

_PERCENT = '''
"""How far the $items have come."""


def share(part, whole):
    """`part` in percent of `whole`, cut to a whole number; nothing of nothing is 0."""
    return part * 100 // whole if whole else 0


def $fn(done, missing):
    """The percentages of what is done and of what is missing."""
    everything = done + missing
$$spot
    return {"done": finished, "missing": remaining}


def $line(done, missing):
    """The same as one line."""
    return "{done} % done, {missing} % missing".format(**$fn(done, missing))
'''

_BAR = '''
"""A bar of signs on a narrow screen."""

from $package.$stem import share


def $fn(everything, width):
    """How full a bar of `width` signs is when everything gets one sign."""
    filled = share(everything, width)
    return min(filled, 100)


def $bar(everything, width):
    """The bar."""
    return "#" * ($fn(everything, width) * width // 100)
'''


def percentages(draw: Draw) -> Draft:
    """Part and whole change places twice; the partial mend turns the first call."""
    items, done, missing = draw.domain.items, draw.number(12, 60), draw.number(3, 11)
    fn, line, stem = (
        draw.pick("progress", "completion"),
        draw.pick("progress_line", "as_text"),
        draw.pick("advance", "headway"),
    )
    whole = done + missing
    right = (done * 100 // whole, missing * 100 // whole)
    bar = draw.slots(fn=draw.pick("fullness", "filling"), bar=draw.pick("bar", "gauge"), stem=stem)
    calls = "    finished = share({0})\n    remaining = share({1})"
    first, second = ("everything, done", "done, everything"), ("everything, missing", "missing, everything")
    return Draft(
        stems=(stem, draw.pick("narrow", "barscreen")),
        names=(fn, line, "share"),
        target=fill(_PERCENT, draw.slots(fn=fn, line=line)),
        broken=calls.format(first[0], second[0]),
        fixed=calls.format(first[1], second[1]),
        partial=calls.format(first[1], second[0]),
        lookalike=fill(_BAR, bar),
        lookalike_line="    filled = share(everything, width)",
        lookalike_change="    filled = share(width, everything)",
        search="share(everything,",
        visible=(
            steady("a share", f"share({missing}, {missing * 4})", 25),
            steady("nothing at all", f"{fn}(0, 0)", {"done": 0, "missing": 0}),
            shallow("percentage done", f"{fn}({done}, {missing})['done']", right[0]),
            deep("percentage missing", f"{fn}({done}, {missing})['missing']", right[1]),
        ),
        hidden=(
            deep("both percentages", f"{fn}({done}, {missing})", {"done": right[0], "missing": right[1]}),
            shallow("done of four", f"{fn}(3, 1)['done']", 75),
            deep("missing of four", f"{fn}(3, 1)['missing']", 25),
            steady("nothing done", f"{fn}(0, {missing})", {"done": 0, "missing": 100}),
            deep("as a line", f"{line}(1, 4)", "20 % done, 80 % missing"),
        ),
        symptoms=(
            f"The percentages of finished {items} are above a hundred, which makes no sense.",
            f"Our progress with the {items} is shown as more than everything.",
            "The more we still have to do, the further we are, if one believes the percentage.",
            f"Percentages for the {items} look as if somebody had divided the wrong way round.",
        ),
        example=Example(
            f"{done} {items} done and {missing} to do",
            f"{right[0]} percent done",
            f"{whole * 100 // done} percent done",
        ),
        remarks=(
            f"The other figure, what remains, should be {right[1]} percent here and is far off as well.",
            "The remaining part is wrong in the same manner; the two ought to make about a hundred together.",
            f"What is left over comes out even stranger: I would expect {right[1]} percent.",
            "Neither of the two figures can be used, the finished part nor the open one.",
        ),
    )


_ROUNDS = '''
"""Ways between $groups."""


def leg(table, start, goal):
    """What the way from `start` to `goal` takes; the way back may take longer."""
    return table[start][goal] if start != goal else 0


def $fn(table, $groups):
    """What a round takes: each of the $groups in turn, and from the last one home to the first."""
    total = 0
    for start, goal in zip($groups, $groups[1:]):
$$spot


def $nearest(table, start):
    """Where one is soonest from `start`; the first by name of several."""
    return min(sorted(table[start]), key=lambda goal: leg(table, start, goal))
'''

_RETURN = '''
"""What to tell people who want to go back at once."""

from $package.$stem import leg


def $fn(table, start, goal):
    """There and back again, and which of the two takes longer."""
    back = leg(table, goal, start)
    there = leg(table, start, goal)
    return there + back, "there" if there > back else "back"
'''


def rounds(draw: Draw) -> Draft:
    """Ways are looked up backwards; the partial mend forgets the way home."""
    groups, names, item = draw.domain.groups, draw.names(3), draw.domain.item
    a, b, c = names
    ab, bc, ca = draw.number(4, 19), draw.number(4, 19), draw.number(4, 19)
    detour, home = draw.number(3, 9), draw.number(11, 15)
    table = {a: {b: ab, c: ca}, b: {a: ab + detour, c: bc}, c: {b: bc + 1, a: ca}}
    harder = {**table, c: {b: bc + 1, a: ca + home}}
    fn, nearest, stem = (
        draw.pick("round_trip", "whole_round", "circuit"),
        draw.pick("soonest", "closest"),
        draw.pick("footpaths", "legs"),
    )
    loop = "        total += leg(table, {0})\n    return total + leg(table, {1})"
    there, back = "start, goal", "goal, start"
    home_right, home_wrong = f"{groups}[-1], {groups}[0]", f"{groups}[0], {groups}[-1]"
    right = ab + bc + ca
    return Draft(
        stems=(stem, draw.pick("returning", "backwards")),
        names=(fn, nearest, "leg"),
        target=fill(_ROUNDS, draw.slots(fn=fn, nearest=nearest)),
        broken=loop.format(back, home_wrong),
        fixed=loop.format(there, home_right),
        partial=loop.format(there, home_wrong),
        lookalike=fill(_RETURN, draw.slots(fn=draw.pick("both_ways", "there_and_back"), stem=stem)),
        lookalike_line="    back = leg(table, goal, start)",
        lookalike_change="    back = leg(table, start, goal)",
        search="leg(table, goal, start)",
        visible=(
            steady("one way", f"leg({table}, {a!r}, {b!r})", ab),
            shallow("round with an even way home", f"{fn}({table}, {names})", right),
            deep("round with an uneven way home", f"{fn}({harder}, {names})", right + home),
        ),
        hidden=(
            shallow("even way home", f"{fn}({table}, {names})", right),
            deep("uneven way home", f"{fn}({harder}, {names})", right + home),
            deep("other direction", f"{fn}({harder}, {names[::-1]})", bc + 1 + ab + detour + ca),
            steady("a single stop", f"{fn}({table}, [{a!r}])", 0),
            Case("there and back", f"{fn}({table}, [{a!r}, {b!r}])", str(2 * ab + detour), partial="AssertionError"),
            steady("nearest", f"{nearest}({{'x': {{'y': 5, 'z': 3}}}}, 'x')", "z"),
        ),
        symptoms=(
            f"The minutes for a tour of our {groups} do not match what the stopwatch says.",
            f"We walk from one to the next, and the planned time for visiting all {groups} is off.",
            f"Tours through the {groups} are planned as though we walked them in the opposite direction.",
            f"Uphill takes longer than downhill between our {groups}, but the plan seems to mix them up.",
        ),
        example=Example(
            f"the tour {a}, {b}, {c} and home, with {ab}, {bc} and {ca} minutes on the way",
            f"{right} minutes",
            f"{ab + detour + bc + 1 + ca} minutes",
        ),
        remarks=(
            f"The last stretch, home to where the {item} came from, is looked up the wrong way round too.",
            "Mind the end of the tour as well: coming home takes longer than leaving, and that is mixed up likewise.",
            "I have the impression that the way home suffers from the same confusion.",
            "If all ways took equally long in both directions, nobody would ever notice.",
        ),
    )


_REPLACE = '''
"""Putting names right in a printed $item."""


def swap(text, wrong, right):
    """The text with every `wrong` replaced by `right`."""
    return text.replace(wrong, right)


def $fn(text, right, wrong, footer=""):
    """The text and below it the footer, in both of them `right` in place of `wrong`."""
$$spot
    return f"{head}\\n{foot}" if foot else head


def $count_fn(text, wrong):
    """How often a name has to be put right."""
    return text.count(wrong)
'''

_UNDO = '''
"""Taking a correction back."""

from $package.$stem import swap


def $fn(head, right, wrong):
    """The head as it was before somebody put a name right."""
    before = swap(head, right, wrong)
    return before


def $changed(head, right, wrong):
    """Whether taking it back changes anything."""
    return $fn(head, right, wrong) != head
'''


def replacements(draw: Draw) -> Draft:
    """Old and new name change places; the partial mend cares for the text and not for its footer."""
    item, (right, wrong, other) = draw.domain.item, draw.names(3)
    fn, counter = draw.pick("corrected", "put_right", "renamed"), draw.pick("corrections", "mistakes")
    stem = draw.pick("renaming", "namefix")
    undo = draw.slots(fn=draw.pick("take_back", "undone"), changed=draw.pick("undo_changes", "was_renamed"), stem=stem)
    said, below = f"{draw.words(1)[0]} for {{0}} and {other}", "sent by {0}"
    calls = "    head = swap(text, {0})\n    foot = swap(footer, {1})"
    mixed, good = "right, wrong", "wrong, right"
    text, foot = said.format(wrong), below.format(wrong)
    both = f"{said.format(right)}\n{below.format(right)}"
    return Draft(
        stems=(stem, draw.pick("undoing", "restoring")),
        names=(fn, counter, "swap"),
        target=fill(_REPLACE, draw.slots(fn=fn, count_fn=counter)),
        broken=calls.format(mixed, mixed),
        fixed=calls.format(good, good),
        partial=calls.format(good, mixed),
        lookalike=fill(_UNDO, undo),
        lookalike_line="    before = swap(head, right, wrong)",
        lookalike_change="    before = swap(head, wrong, right)",
        search=", right, wrong)",
        visible=(
            steady("nothing to put right", f"{fn}('no names here', {right!r}, {wrong!r})", "no names here"),
            shallow("text alone", f"{fn}({text!r}, {right!r}, {wrong!r})", said.format(right)),
            deep("text with a footer", f"{fn}({text!r}, {right!r}, {wrong!r}, {foot!r})", both),
        ),
        hidden=(
            shallow("one name", f"{fn}({wrong!r}, {right!r}, {wrong!r})", right),
            shallow("right name stays", f"{fn}({right!r}, {right!r}, {wrong!r})", right),
            deep("footer alone", f"{fn}('', {right!r}, {wrong!r}, {foot!r})", "\n" + below.format(right)),
            deep("both", f"{fn}({text!r}, {right!r}, {wrong!r}, {foot!r})", both),
            steady("a swap", "swap('abc', 'b', 'x')", "axc"),
            steady("how often", f"{counter}({text!r}, {wrong!r})", 1),
        ),
        symptoms=(
            f"After a change of name the printed {item} still shows the former name.",
            f"We tell the program the new name and the old one, and it does the opposite in every {item}.",
            "A name that was right before is turned into the outdated one, and the outdated one stays.",
            f"The correction of misspelt names in a printed {item} has no effect, or the reverse effect.",
        ),
        example=Example(f"“{text}” where {wrong} is now {right}", f"“{said.format(right)}”", f"“{text}”"),
        remarks=(
            "At the bottom of the page it is the same story as in the main text.",
            "Please look at the small print at the bottom too, it needs the new name as well.",
            "The last line under the text is equally affected, I checked that separately.",
            "Main text and last line both get it wrong, so it is not the paper size.",
        ),
    )
