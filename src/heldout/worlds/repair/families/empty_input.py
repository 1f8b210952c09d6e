"""Bugs of code that forgets that there may be nothing."""

from __future__ import annotations

from heldout.worlds.repair.draft import Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["best_group", "extremes", "titles"]

_BEST = '''
"""Which of the $groups does best."""


def $fn($groups):
    """The name with the highest mean $count; None where no $group has any entries at all."""
$$spot


def $sums($groups):
    """The sum of each."""
    return {name: sum(listed) for name, listed in $groups.items()}
'''

_MEANS = '''
"""The table of means for the yearly report."""


def $fn($groups):
    """The mean $count of every $group that has entries."""
    means = {name: sum($groups[name]) / len($groups[name]) for name in $groups if $groups[name]}
    return means


def $row($groups, name):
    """One row of the table, with a dash where there is nothing."""
    return f"{name}: {$fn($groups).get(name, '-')}"
'''


def best_group(draw: Draw) -> Draft:
    """The best of nothing raises; the partial mend forgets groups without entries."""
    group, groups, measure, names = draw.domain.group, draw.domain.groups, draw.domain.measure, draw.names(3)
    low, high = draw.number(3, 20), draw.number(30, 70)
    table = {names[0]: [low, low + 2], names[1]: [high, high + 4, high - 1], names[2]: [low]}
    fn, sums = draw.pick(f"best_{group}", "leader", "front_runner"), draw.pick("sums", f"sum_by_{group}")
    means = draw.slots(fn=draw.pick("all_means", "mean_table"), row=draw.pick("table_row", "report_row"))
    quotient = f"sum({groups}[name]) / len({groups}[name])"
    best = f"    return max({groups}, key=lambda name: {quotient})"
    filled = best.replace(groups, "filled")
    return Draft(
        stems=(draw.pick("leaders", "podium", "champions"), draw.pick("yearly", "annual")),
        names=(fn, sums),
        target=fill(_BEST, draw.slots(fn=fn, sums=sums)),
        broken=best,
        fixed=(
            f"    filled = {{name: listed for name, listed in {groups}.items() if listed}}\n"
            f"    if not filled:\n        return None\n{filled}"
        ),
        partial=f"    if not {groups}:\n        return None\n{best}",
        lookalike=fill(_MEANS, means),
        lookalike_line=f"    means = {{name: {quotient} for name in {groups} if {groups}[name]}}",
        lookalike_change=f"    means = {{name: {quotient} for name in sorted({groups}) if {groups}[name]}}",
        search=f"/ len({groups}[name])",
        visible=(
            steady("the best of three", f"{fn}({table})", names[1]),
            shallow("nothing at all", f"{fn}({{}})", None, error="ValueError"),
            deep("one without entries", f"{fn}({table | {names[2]: []}})", names[1], error="ZeroDivisionError"),
        ),
        hidden=(
            shallow("no names", f"{fn}({{}})", None, error="ValueError"),
            deep("only empty ones", f"{fn}({{{names[0]!r}: [], {names[1]!r}: []}})", None, error="ZeroDivisionError"),
            deep(
                "empty one first", f"{fn}({{{names[2]!r}: [], {names[0]!r}: [1]}})", names[0], error="ZeroDivisionError"
            ),
            steady("zeros are entries", f"{fn}({{{names[2]!r}: [0]}})", names[2]),
            steady("sums", f"{sums}({table})[{names[0]!r}]", 2 * low + 2),
        ),
        symptoms=(
            f"The program stops with an error on the first morning of a period, before any {measure} is entered.",
            f"Asking for the best {group} brings everything down when there is nothing to compare yet.",
            f"With an empty sheet I cannot even look at the ranking of the {groups}; it just crashes.",
            f"At the start of the season the ranking of {groups} ends in an error message instead of a blank.",
        ),
        example=Example(f"no {groups} at all", "no winner", "an error about an empty sequence"),
        remarks=(
            f"Later it crashes again if a single {group} has no figures while the others have some.",
            f"The same goes for a {group} that exists but has no entries; it should simply be left out.",
            f"One {group} without figures is enough to break it for everybody, {names[2]} for example.",
            f"A {group} that was closed all month, such as {names[2]}, stops the ranking as well.",
        ),
    )


_TITLES = '''
"""Titles for notes on $items."""


def $fn(note):
    """The first line of a note that says something, without blanks around it; "(untitled)" where none does."""
$$spot


def $index(notes):
    """Titles in alphabetical order, whatever the case."""
    return sorted(($fn(note) for note in notes), key=str.casefold)
'''

_TEASERS = '''
"""Short beginnings for the overview."""


def $fn(note):
    """Up to twelve signs of a note."""
    start = note.splitlines()[0][:12] if note.strip() else ""
    return start


def $dots(note):
    """The same with dots where something is missing."""
    return $fn(note) + ("…" if len(note) > 12 else "")
'''


def titles(draw: Draw) -> Draft:
    """An empty note raises; the partial mend forgets blank lines."""
    item, words, names = draw.domain.item, draw.words(2), draw.names(2)
    said = f"{words[0]} for {names[0]}"
    note = f"  {said} \nsecond line\n"
    fn, index = draw.pick("title_of", "headline", "caption_of"), draw.pick("index", "register", "contents")
    teasers = draw.slots(fn=draw.pick("beginning", "opening"), dots=draw.pick("with_dots", "cut_short"))
    return Draft(
        stems=(draw.pick("titling", "headlines", "memos"), draw.pick("overview", "teasers")),
        names=(fn, index),
        target=fill(_TITLES, draw.slots(fn=fn, index=index)),
        broken="    return note.splitlines()[0].strip()",
        fixed=(
            "    said = [line.strip() for line in note.splitlines() if line.strip()]\n"
            '    return said[0] if said else "(untitled)"'
        ),
        partial='    return note.splitlines()[0].strip() if note else "(untitled)"',
        lookalike=fill(_TEASERS, teasers),
        lookalike_line='    start = note.splitlines()[0][:12] if note.strip() else ""',
        lookalike_change='    start = note.splitlines()[0][:12] if note else ""',
        search="note.splitlines()[0]",
        visible=(
            steady("an ordinary note", f"{fn}({note!r})", said),
            shallow("no note", f"{fn}('')", "(untitled)", error="IndexError"),
            deep("blank lines first", f"{fn}({chr(10) + '  ' + chr(10) + note!r})", said),
        ),
        hidden=(
            shallow("empty", f"{fn}('')", "(untitled)", error="IndexError"),
            deep("only blanks", f"{fn}('  ')", "(untitled)"),
            deep("only line breaks", f"{fn}({chr(10) * 3!r})", "(untitled)"),
            deep("late title", f"{fn}({chr(10) * 2 + words[1]!r})", words[1]),
            shallow("with an empty one", f"{index}(['b', 'A', ''])", ["(untitled)", "A", "b"], error="IndexError"),
        ),
        symptoms=(
            f"As soon as one {item} has no remark, the whole list of remarks ends in an error.",
            f"Somebody saved an {item} with an empty remark, and now the program does not start.".replace(
                "an b", "a b"
            ),
            "An empty remark makes the program crash where it should show a placeholder.",
            f"I cleared the remark of one {item} and could not open the list any more.",
        ),
        example=Example("a remark with nothing in it", "(untitled)", "an index error"),
        remarks=(
            "When a remark begins with blank lines there is no crash, but nothing is shown for it either.",
            "People also press return before they type, and then the line in the list stays empty.",
            f"A remark that starts with an empty line, then “{said}”, should be listed under “{said}” and is not.",
            "Blanks alone count as nothing, too; such a line is simply white at present.",
        ),
    )


_EXTREMES = '''
"""From the least to the most."""


def $fn(numbers):
    """Least, most and difference of what was measured; None where nothing was. A None among the numbers is a gap."""
$$spot
    return smallest, largest, largest - smallest


def $steady(numbers, most):
    """Whether the difference stays within bounds. Nothing measured is no reason to worry."""
    found = $fn(numbers)
    return found is None or found[2] <= most
'''

_AXIS = '''
"""The axis of the wall chart."""


def $fn(numbers):
    """Where the axis begins and ends: the next ten below and above."""
    low, high = min(numbers), max(numbers)
    return low // 10 * 10, -(-high // 10) * 10


def $ticks(begin, end):
    """Every ten between them."""
    return list(range(begin, end + 1, 10))
'''


def extremes(draw: Draw) -> Draft:
    """Least and most of nothing raise; the partial mend forgets gaps."""
    item, measure, low, wide = draw.domain.items, draw.domain.measure, draw.number(2, 40), draw.number(5, 50)
    numbers = [low + 3, low, low + wide]
    right = (low, low + wide, wide)
    fn, calm = draw.pick("extremes", "range_of", "least_and_most"), draw.pick("is_steady", "within", "calm")
    axis = draw.slots(fn=draw.pick("axis", "axis_ends"), ticks=draw.pick("ticks", "marks"))
    line = "    smallest, largest = min(numbers), max(numbers)"
    return Draft(
        stems=(draw.pick("breadth", "measuring", "swing"), draw.pick("wallchart", "plotting")),
        names=(fn, calm),
        target=fill(_EXTREMES, draw.slots(fn=fn, steady=calm)),
        broken=line,
        fixed=(
            "    known = [number for number in numbers if number is not None]\n"
            f"    if not known:\n        return None\n{line.replace('numbers', 'known')}"
        ),
        partial=f"    if not numbers:\n        return None\n{line}",
        lookalike=fill(_AXIS, axis),
        lookalike_line="    low, high = min(numbers), max(numbers)",
        lookalike_change="    low, high = min(numbers, default=0), max(numbers, default=0)",
        search="= min(numbers), max(numbers)",
        visible=(
            steady("three numbers", f"{fn}({numbers})", right),
            shallow("no numbers", f"{fn}([])", None, error="ValueError"),
            deep("a gap", f"{fn}({[*numbers, None]})", right, error="TypeError"),
        ),
        hidden=(
            shallow("nothing", f"{fn}([])", None, error="ValueError"),
            deep("gaps alone", f"{fn}([None, None])", None, error="TypeError"),
            deep("gap in between", f"{fn}({[low, None, low + wide]})", right, error="TypeError"),
            steady("one number", f"{fn}([{low}])", (low, low, 0)),
            shallow("nothing is steady", f"{calm}([], 1)", True, error="ValueError"),
            deep("steady with a gap", f"{calm}({[low, None]}, 0)", True, error="TypeError"),
        ),
        symptoms=(
            f"On days without a single {measure} in the book the evening summary breaks off.",
            f"If no {item} came in, the line with the lowest and the highest {measure} cannot be printed.",
            f"An empty day kills the summary: instead of a dash for the {measure} there is an error.",
            "Our quiet Sundays make the program fall over when it looks for the extremes.",
        ),
        example=Example(f"a day without any {measure}", "nothing measured", "an error about an empty list"),
        remarks=(
            f"Gaps are another reason: where one {measure} was not taken, it fails though the others are known.",
            f"It also fails when somebody forgot one {measure} in the middle of a day; the rest should still be used.",
            f"The same with a {measure} left out between two others, which ought to be skipped.",
            f"A missing {measure} among good ones leads to a different error, about types, I think.",
        ),
    )
