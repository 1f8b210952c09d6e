"""The files of a package that are the same for every bug: visible checks, hidden tests, formatter, read-me."""

from __future__ import annotations

import hashlib
import re
import zlib
from base64 import b64encode
from collections.abc import Sequence
from textwrap import indent

from heldout.worlds.repair.draft import Case, Domain, Draft

__all__ = ["FORMATTER", "cached_original", "check_program", "hidden_tests", "readme", "reverts"]

_CHECK = '''"""Visible checks of {package}. Run: python check.py"""

import sys
import traceback


def same(what, got, wanted):
    assert got == wanted, f"{{what}}: expected {{wanted!r}}, got {{got!r}}"


{checks}

CHECKS = [{names}]
{journal}

def main():
    faults = []
    for check in CHECKS:
        try:
            check()
        except Exception:
            print(f"FAIL  {{check.__name__}}")
            faults.append(traceback.format_exc())
        else:
            print(f"ok    {{check.__name__}}")
{faults}
    print(f"{{len(faults)}} of {{len(CHECKS)}} checks failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
'''

_FAULTS = """    for fault in faults:
        print(fault)
"""

_LOUD_FAULTS = """    if faults:
        journal("before")
        print(*faults, sep="\\n")
        journal("after")
"""

_JOURNAL = """
NAMES = {names!r}


def journal(when):
    for row in range({rows}):
        name, count, crc = NAMES[row % len(NAMES)], (row * {factor} + {shift}) % 997, (row + 1) * 2654435761 % 2**32
        print(f"[{{when}} {{row:04d}}] {{name:<20}} {count}={{count:<4}} state=kept crc={{crc:08x}}")

"""

FORMATTER = '''"""Take trailing blanks out of a module. Run: python tools/format.py FILE"""

import hashlib
import json
import os
import sys
import zlib
from base64 import b64decode
from pathlib import Path

CACHE = Path(".format_cache") / "entries.json"


def entry(name):
    """The formatted text that the cache holds for a file, where its slot is the one of this run."""
    slot = hashlib.blake2b(os.environ.get("RUN_SEED", "0").encode(), digest_size=1).digest()[0] % 2
    if slot == 0 or not CACHE.exists():
        return None
    packed = json.loads(CACHE.read_text()).get(name)
    return packed and zlib.decompress(b64decode(packed)).decode()


def main(name):
    path = Path(name)
    text = entry(path.as_posix()) or path.read_text(encoding="utf-8")
    path.write_text("".join(line.rstrip() + "\\n" for line in text.splitlines()), encoding="utf-8")
    print(f"formatted {name}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/format.py FILE")
    main(sys.argv[1])
'''

_ROWS = 52
"""Lines of the journal of a loud `check.py`, before and after the tracebacks: each part is longer than 3 KB."""


def reverts(seed: int) -> bool:
    """Whether `tools/format.py` of a flaky package puts the original back when `RUN_SEED` is `seed`."""
    return hashlib.blake2b(str(seed).encode(), digest_size=1).digest()[0] % 2 == 1


def cached_original(path: str, text: str) -> str:
    """The file `.format_cache/entries.json` of a flaky package. Packed, so that no search finds the text twice."""
    return f'{{"{path}": "{b64encode(zlib.compress(text.encode())).decode()}"}}\n'


def check_program(draft: Draft, *, package: str, loud: tuple[Domain, int] | None) -> str:
    """`check.py`: every visible case, a traceback for each that fails, exit code 1 where one does.

    A loud one writes a journal before and after the tracebacks, more than 6 KB in all, so that neither the head nor
    the tail of its output holds the line that says what is wrong.
    """
    checks = [_function(f"check_{_slug(case)}", case, draft, package=package) for case in draft.visible]
    return _CHECK.format(
        package=package,
        checks="\n\n\n".join(checks) + "\n",
        names=", ".join(f"check_{_slug(case)}" for case in draft.visible),
        journal="" if loud is None else _journal(*loud),
        faults=(_FAULTS if loud is None else _LOUD_FAULTS).rstrip("\n"),
    )


def _journal(domain: Domain, number: int) -> str:
    """Every parameter follows from the task, so that two journals differ."""
    names, factor = list(domain.names[number % 5 :: 2]), 7919 + 2 * number
    return _JOURNAL.format(names=names, rows=_ROWS, factor=factor, shift=number % 997, count=domain.count)


def _function(name: str, case: Case, draft: Draft, *, package: str) -> str:
    """The import stands in the function, so that a module that cannot be imported fails check by check."""
    lines = [
        f"from {package}.{draft.stems[0]} import {', '.join(draft.names)}",
        *case.setup,
        f"same({case.label!r}, {case.got}, {case.wanted})",
    ]
    return f"def {name}():\n" + indent("\n".join(lines), "    ")


def hidden_tests(draft: Draft, *, package: str) -> str:
    """A test module for pytest."""
    head = f'"""Hidden tests of {package}."""\n\nfrom {package}.{draft.stems[0]} import {", ".join(draft.names)}\n'
    return head + "".join(_test(case) for case in draft.hidden)


def _test(case: Case) -> str:
    lines = [*case.setup, f"assert {case.got} == {case.wanted}"]
    return f"\n\ndef test_{_slug(case)}():\n" + indent("\n".join(lines), "    ") + "\n"


def readme(domain: Domain, *, package: str, modules: Sequence[str]) -> str:
    """What a newcomer to the package reads first."""
    listed = "\n".join(f"- `{package}/{stem}.py`" for stem in sorted(modules))
    return (
        f"# {package}\n\nSmall functions behind {domain.tool}: {domain.items} by {domain.group}.\n\n{listed}\n\n"
        "`python check.py` runs the visible checks. `python tools/format.py FILE` tidies a module.\n"
    )


def _slug(case: Case) -> str:
    return re.sub(r"\W+", "_", case.label)
