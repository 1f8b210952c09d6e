"""What is true of the simulated coder, for graders of improvers and for studies; an improver only calls `diagnose`.

What a failure looks like, and what was its cause (shares at the start harness; `habit` in `weaknesses` draws them):

| last error of the trace | cause in most cases | and otherwise |
|---|---|---|
| `grep` usage | W3 malformed search: class `shell` | |
| `tail: cannot open …` | W1 untested half mend: `tests` | W2 with the other habit |
| `rm: cannot remove …` | W2 reverted mend: `keep_mend` | W1 with the other habit |
| `cat: check.log: No such file` | W4 hidden error: `traceback` | W5 with the other habit, unsolvable tasks |
| `the fragment is not there` | W5 look-alike: `locate` | W4 with the other habit, unsolvable tasks |
| an error of the checks or the tests | the formatter undid the mend: `keep_mend` | turn limits |
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Collection, Iterable, Mapping
from math import prod
from typing import Literal

from heldout.worlds.repair.catalogue import EDIT_CLASSES
from heldout.worlds.repair.package import Package
from heldout.worlds.repair.plan import Intent
from heldout.worlds.repair.symbolic import Ending, View, endings
from heldout.worlds.repair.weaknesses import Reading, Weakness, chances, traits_of

__all__ = ["CAUSES", "CLASS_OF", "EFFECTS", "diagnose", "pass_probability", "pass_rate", "true_class"]

EFFECTS: Mapping[str, Literal["useful", "null", "harmful"]] = {
    "run_checks_after_edit": "useful",
    "definition_of_done": "useful",
    "tests_matter": "null",
    "check_layout": "null",
    "trust_small_changes": "harmful",
    "leave_mend_in_place": "useful",
    "check_after_format": "useful",
    "summarise_change": "null",
    "clean_tree": "harmful",
    "short_episodes": "harmful",
    "mend_flags": "useful",
    "list_shell_tools": "null",
    "strip_colour": "null",
    "spell_out_options": "harmful",
    "one_liners": "harmful",
    "wide_observations": "useful",
    "surface_errors": "useful",
    "read_tracebacks": "null",
    "narrow_observations": "harmful",
    "first_lines_only": "harmful",
    "follow_the_call": "useful",
    "directory_map": "null",
    "read_readme": "null",
    "first_match": "harmful",
}
"""By name, what a catalogue edit does to the start harness on average over tasks. Two help some tasks and hurt others:
`follow_the_call` misleads where the bug is a wrong import, and `short_episodes`, which loses every mend that takes two
tries, also ends before a mend is reverted or formatted away."""

CLASS_OF: Mapping[Weakness, str] = {
    Weakness.UNTESTED: "tests",
    Weakness.REVERT: "keep_mend",
    Weakness.MALFORMED: "shell",
    Weakness.CUT: "traceback",
    Weakness.LOOKALIKE: "locate",
}
"""Which class of edits addresses a weakness."""

CAUSES: Mapping[str, frozenset[str]] = {
    "omission": frozenset({"tests", "shell", "traceback", "locate"}),
    "commission": frozenset({"keep_mend", "locate"}),
    "unknown": frozenset(EDIT_CLASSES),
}
"""Cause by attribution to the classes that are consistent with it: an omission is something that was never done, a
commission something that was done and had better not been; a change of the wrong module may look like either."""

_SIGNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^(?:grep|Usage: grep)\b"), "shell"),
    (re.compile(r"^tail: cannot open\b"), "tests"),
    (re.compile(r"^rm: cannot remove\b"), "keep_mend"),
    (re.compile(r"^cat: .*No such file"), "traceback"),
    (re.compile(r"^AssertionError: the fragment is not there"), "locate"),
)


def true_class(signature: str) -> str:
    """The class of edits that addresses most failures with this signature under the start harness."""
    return next((edit_class for sign, edit_class in _SIGNS if sign.search(signature)), "keep_mend")


def diagnose(signature: str, *, error: float, seed: int, allowed: Collection[str] | None = None) -> str:
    """How a simulated improver reads a signature: the true class with probability 1 − error, else another.

    The wrong reading is drawn from `_CONFUSED`. All is drawn from (signature, seed): within a run the same signature
    is read the same way every time, as a model at temperature 0 reads it. `allowed` leaves out classes that other
    evidence excludes (see `CAUSES`); the probabilities of the others keep their proportions.
    """
    true = true_class(signature)
    weights = {found: error * share for found, share in _CONFUSED[true].items()} | {true: 1.0 - error}
    weights = {found: weights.get(found, 0.0) for found in EDIT_CLASSES if allowed is None or found in allowed}
    if not weights:
        raise ValueError(f"no class is allowed; there is {', '.join(EDIT_CLASSES)}")
    if not any(weights.values()):
        weights = dict.fromkeys(weights, 1.0)
    drawn = hashlib.blake2b(f"{seed}\0{signature}".encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(drawn, "big")).choices(list(weights), list(weights.values()))[0]


_CONFUSED: Mapping[str, Mapping[str, float]] = {
    "tests": {"keep_mend": 0.3, "shell": 0.1, "traceback": 0.2, "locate": 0.4},
    "keep_mend": {"tests": 0.4, "shell": 0.2, "traceback": 0.2, "locate": 0.2},
    "shell": {"tests": 0.2, "keep_mend": 0.1, "traceback": 0.3, "locate": 0.4},
    "traceback": {"tests": 0.3, "keep_mend": 0.1, "shell": 0.2, "locate": 0.4},
    "locate": {"tests": 0.3, "keep_mend": 0.1, "shell": 0.2, "traceback": 0.4},
}
"""Where a wrong reading goes: rows are true classes, each sums to 1."""


def pass_probability(package: Package, reading: Reading, view: View) -> float:
    """The exact expectation of the score over seeds: over the 32 sets of weaknesses that may act, and the formatter.

    The system text is given, so its luck with this task is not averaged out by it but by the seeds: every seed draws
    anew. A flaky package's formatter puts the original back in half of the runs. Sets that differ only in weaknesses
    that the coder never came to are summed up as one.
    """
    traits = traits_of(package)
    q = chances(package, reading.names)
    intent = Intent(frozenset(), traits.solvable, traits.slips, reading.rechecks, traits.habit)
    outcomes = (False, True) if package.flaky else (False,)
    return sum(_mended(q, endings(package, intent, view, restores=restores)) for restores in outcomes) / len(outcomes)


def _mended(q: Mapping[Weakness, float], found: Iterable[Ending]) -> float:
    """The probability of the endings in which the package is mended."""
    return sum(
        prod(q[weakness] if weakness in one.acting else 1.0 - q[weakness] for weakness in sorted(one.asked))
        for one in found
        if one.mended
    )


def pass_rate(packages: Iterable[Package], reading: Reading, view: View) -> float:
    """The mean of `pass_probability`: the true score of a harness on these tasks."""
    found = [pass_probability(package, reading, view) for package in packages]
    return sum(found) / len(found)
