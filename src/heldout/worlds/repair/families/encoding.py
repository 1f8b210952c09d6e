"""Bugs of letters beyond ASCII."""

from __future__ import annotations

import unicodedata

from heldout.worlds.repair.draft import Draft, Draw, Example, deep, fill, shallow, steady

__all__ = ["cut_labels", "same_names", "spreadsheets"]

_ROWS = '''
"""Files that come from a spreadsheet."""


def $fn(data):
    """The rows of a file in UTF-8, with or without the mark that some programs put first; semicolons between fields."""
$$spot
    return [line.split(";") for line in text.splitlines() if line.strip()]


def $column(data, name):
    """One column by its heading, without the heading."""
    heading, *rows = $fn(data)
    place = heading.index(name)
    return [row[place] for row in rows]
'''

_CODES = '''
"""The four letters with which every file of the old machine begins."""


def $fn(data):
    """The code of a file, or "" where it is too short."""
    if len(data) < 4:
        return ""
    code = data[:4].decode("ascii")
    return code.strip()


def $known(code):
    """Whether the old machine has such a code."""
    return code.isupper() and len(code) <= 4
'''


def spreadsheets(draw: Draw) -> Draft:
    """Bytes are read as ASCII; the partial mend leaves the byte order mark."""
    group, count, accented, many = draw.domain.group, draw.domain.count, draw.accented(), draw.number(2, 90)
    text = f"{group};{count}\n{accented};{many}\n"
    plain, rows = f"{group};{count}\nA;{many}\n", [[group, count], [accented, str(many)]]
    fn, column = draw.pick("rows_of", "read_rows", "from_sheet"), draw.pick("column", "column_of")
    codes = draw.slots(fn=draw.pick("code_of", "file_code"), known=draw.pick("is_code", "known_code"))
    ascii_file, utf8_file, marked, marked_ascii = (
        repr(data) for data in (plain.encode(), text.encode(), text.encode("utf-8-sig"), plain.encode("utf-8-sig"))
    )
    wrong, then = "UnicodeDecodeError", "AssertionError"
    return Draft(
        stems=(draw.pick("sheets", "ingest", "intake"), draw.pick("oldmachine", "punchcard")),
        names=(fn, column),
        target=fill(_ROWS, draw.slots(fn=fn, column=column)),
        broken='    text = data.decode("ascii")',
        fixed='    text = data.decode("utf-8-sig")',
        partial='    text = data.decode("utf-8")',
        lookalike=fill(_CODES, codes),
        lookalike_line='    code = data[:4].decode("ascii")',
        lookalike_change='    code = data[:4].decode("utf-8")',
        search='.decode("ascii")',
        visible=(
            steady("plain letters", f"{fn}({ascii_file})", [[group, count], ["A", str(many)]]),
            shallow("letters with accents", f"{fn}({utf8_file})", rows, error=wrong),
            deep("a mark at the beginning", f"{fn}({marked})", rows, error=wrong, then=then),
        ),
        hidden=(
            shallow("accents", f"{fn}({utf8_file})[1:]", rows[1:], error=wrong),
            deep("mark and plain letters", f"{fn}({marked_ascii})[0]", [group, count], error=wrong, then=then),
            shallow("a column", f"{column}({utf8_file}, {count!r})", [str(many)], error=wrong),
            deep("column after a mark", f"{column}({marked}, {group!r})", [accented], error=wrong, then="ValueError"),
            steady("an empty file", f"{fn}(b'')", []),
            steady("blank lines", f"{fn}(b'\\n' + {ascii_file})[0][0]", group),
        ),
        symptoms=(
            f"Files from our spreadsheet cannot be read when the name of a {group} has an accent.",
            f"Importing stops at the first {group} whose name is not plain English.",
            f"Since we opened {accented}, no file that mentions it can be imported.",
            "Foreign letters in a file end the import with a long error.",
        ),
        example=Example(
            f"a file with the line “{accented};{many}”", f"{accented} with {many}", "an error about a byte"
        ),
        remarks=(
            "Files from the newer office program begin with an invisible sign; the first heading must still be found.",
            f"Some files carry an invisible mark in front of the heading “{group}”; those should work as well.",
            "My colleague's computer puts a mark at the start of each file, please mind that too.",
            f"Files of the other office start with an unseen sign, and not even the heading “{group}” is recognised.",
        ),
    )


_CUT = '''
"""Labels for a machine that counts bytes."""


def $fn(name, width):
    """The beginning of a name that fits into `width` bytes of UTF-8; no letter is ever cut in two."""
$$spot


def $fits(name, width):
    """Whether nothing has to be cut."""
    return $fn(name, width) == name
'''

_PLAIN = '''
"""Names for a display that has no accents."""


def $fn(name):
    """The name with a question mark for every letter that the display lacks."""
    plain = name.encode("ascii", "replace").decode()
    return plain.upper()


def $blink(name):
    """Whether a name should blink since something is missing."""
    return "?" in $fn(name)
'''


def cut_labels(draw: Draw) -> Draft:
    """Labels are cut as ASCII; the partial mend cuts letters in two."""
    group, accented = draw.domain.group, draw.accented()
    place = next(index for index, sign in enumerate(accented) if ord(sign) > 127)
    through, after = place + 1, place + 2
    fn, fits = draw.pick("fit", "cut", "shorten"), draw.pick("fits", "is_short")
    display = draw.slots(fn=draw.pick("on_display", "for_display"), blink=draw.pick("blinks", "warn"))
    line = '    return name.encode("{0}")[:width].decode("{0}"{1})'
    wrong, half = "UnicodeEncodeError", "UnicodeDecodeError"
    return Draft(
        stems=(draw.pick("labelling", "clipping", "tags"), draw.pick("panel", "readout")),
        names=(fn, fits),
        target=fill(_CUT, draw.slots(fn=fn, fits=fits)),
        broken=line.format("ascii", ""),
        fixed=line.format("utf-8", ', errors="ignore"'),
        partial=line.format("utf-8", ""),
        lookalike=fill(_PLAIN, display),
        lookalike_line='    plain = name.encode("ascii", "replace").decode()',
        lookalike_change='    plain = name.encode("ascii", "ignore").decode()',
        search='name.encode("ascii"',
        visible=(
            steady("plain name", f"{fn}('Warehouse', 4)", "Ware"),
            shallow("cut behind an accent", f"{fn}({accented!r}, {after})", accented[: place + 1], error=wrong),
            deep("cut within a letter", f"{fn}({accented!r}, {through})", accented[:place], error=wrong, then=half),
        ),
        hidden=(
            shallow("wide enough", f"{fn}({accented!r}, 80)", accented, error=wrong),
            deep("only half a letter", f"{fn}({accented[place]!r}, 1)", "", error=wrong, then=half),
            shallow("fits", f"{fits}({accented!r}, {len(accented.encode())})", True, error=wrong),
            deep("does not fit", f"{fits}({accented!r}, {through})", False, error=wrong, then=half),
            deep("three bytes of a sign", f"{fn}('a€', 3)", "a", error=wrong, then=half),
            steady("no width", f"{fn}('abc', 0)", ""),
        ),
        symptoms=(
            f"Labels for a {group} with foreign letters in its name are not printed at all.",
            f"The label printer gives up on {accented}, while English names are fine.",
            f"An accent in the name of a {group} is enough to stop the printing of labels.".replace(
                "An accent", "A single accent"
            ),
            f"Since {accented} joined us, the labels end in an error in the middle of the roll.",
        ),
        example=Example(
            f"the name {accented} and room for {after} bytes", f"“{accented[: place + 1]}”", "an encoding error"
        ),
        remarks=(
            f"If the space ends inside a letter, that letter should simply be left out, as with {through} bytes here.",
            f"With room for {through} bytes the accented letter does not fit, and the label should stop before it.",
            "Half a letter must never be printed, our scanner chokes on it; rather leave it away.",
            "Where the last letter needs two bytes and one is left, I would expect the label without it.",
        ),
    )


_KEYS = '''
"""Finding out whether two people typed the same name."""

import unicodedata


def $key(name):
    """What two spellings of one name share: capitals and the way in which accents are stored do not matter."""
$$spot


def $fn(one, other):
    """Whether two spellings mean the same name. An accent that is there or not makes another name."""
    return $key(one) == $key(other)


def $visible(name):
    """The name without control signs."""
    return "".join(sign for sign in name if unicodedata.category(sign) != "Cc")
'''

_FILES = '''
"""File names that every computer accepts."""


def $fn(name):
    """A file name made of the plain letters of a name."""
    plain = name.encode("ascii", "ignore").decode().lower()
    return plain.replace(" ", "-") or "nameless"


def $numbered(name, number):
    """The same with a number."""
    return f"{$fn(name)}-{number:03d}"
'''


def same_names(draw: Draw) -> Draft:
    """Accents are dropped before names are compared; the partial mend ignores how they are stored."""
    group, groups, accented = draw.domain.group, draw.domain.groups, draw.accented()
    place = next(index for index, sign in enumerate(accented) if not unicodedata.is_normalized("NFD", sign))
    without, apart = accented[:place] + accented[place + 1 :], unicodedata.normalize("NFD", accented)
    key, fn = draw.pick("name_key", "spelling", "key_of"), draw.pick("same_name", "is_same", "means_same")
    names = draw.slots(fn=draw.pick("file_name", "safe_name"), numbered=draw.pick("numbered", "numbered_file"))
    return Draft(
        stems=(draw.pick("spellings", "identity", "namesakes"), draw.pick("filenames", "saving")),
        names=(key, fn),
        target=fill(_KEYS, draw.slots(key=key, fn=fn, visible=draw.pick("without_controls", "printable"))),
        broken='    return name.encode("ascii", "ignore").decode().lower()',
        fixed='    return unicodedata.normalize("NFC", name).casefold()',
        partial="    return name.lower()",
        lookalike=fill(_FILES, names),
        lookalike_line='    plain = name.encode("ascii", "ignore").decode().lower()',
        lookalike_change='    plain = name.encode("ascii", "ignore").decode().casefold()',
        search='name.encode("ascii", "ignore")',
        visible=(
            steady("capitals", f"{fn}('NORTH gate', 'North Gate')", True),
            shallow("a letter with an accent missing", f"{fn}({accented!r}, {without!r})", False),
            deep("accents stored apart", f"{fn}({accented!r}, {apart!a})", True),
        ),
        hidden=(
            shallow("different accents", f"{fn}('Ré', 'Rö')", False),
            deep("stored in two ways", f"{fn}({accented!r}, {apart!a})", True),
            shallow("capital accents", f"[{fn}('É', 'é'), {fn}('É', 'Ü')]", [True, False]),
            deep("sharp s", f"{fn}('STRASSE', 'straße')", True),
            steady("different names", f"{fn}('north', 'south')", False),
            steady("the same name", f"{fn}({accented!r}, {accented!r})", True),
        ),
        symptoms=(
            f"Two different {groups} are taken for one because their names differ by a foreign letter.",
            f"The program claims that a {group} exists already, but the other one is spelt differently.",
            f"Letters with accents are treated as if they were not there when {groups} are compared.",
            f"We cannot enter a new {group}: it is confused with an old one that lacks a letter.",
        ),
        example=Example(f"“{accented}” against “{without}”", "two names", "one and the same name"),
        remarks=(
            f"On the other hand {accented} typed on the telephone and on the computer should be one name, and is not.",
            "Oddly, the same name typed on two machines looks alike and is still told apart.",
            "Copied from a letter, a name with accents is not recognised though it looks exactly the same.",
            f"Conversely {accented} from the old system counts as another; accents are stored in two ways, I hear.",
        ),
    )
