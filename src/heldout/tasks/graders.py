"""Named graders, and the wrapper that keeps a grader of the user's honest."""

from __future__ import annotations

import math
import numbers
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from heldout.errors import SetupError, TaskError, boundary
from heldout.registry import load

__all__ = [
    "CUT",
    "GRADERS",
    "CheckedGrader",
    "contains",
    "exact",
    "label",
    "last_number",
    "load_grader",
    "normalise_label",
    "number",
]

GRADERS: Mapping[str, str] = {
    "label": "heldout.tasks.graders:label",
    "number": "heldout.tasks.graders:number",
    "exact": "heldout.tasks.graders:exact",
    "contains": "heldout.tasks.graders:contains",
    "formats": "heldout.worlds.formats.grading:grade",
    "repair": "heldout.worlds.repair.grading:grade",
    "tables": "heldout.worlds.tables.grading:grade",
    "spreadsheetbench": "heldout.benchmarks.spreadsheet_grading:grade_spreadsheets",
    "math": "heldout.benchmarks.math_grading:grade_math",
    "ifeval": "heldout.benchmarks.ifeval_grading:grade_ifeval",
    "humaneval": "heldout.benchmarks.humaneval_grading:grade_humaneval",
}
"""Short name to dotted path."""

CUT = "\n[cut at max_tokens]"
"""Ends an answer that did not end by itself, so that a grader can tell; the harness `completion` adds it."""

_AROUND = " \t\r\n.,:;!?\"'`*()[]{}“”‘’«»"
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_])\s*[-_:/,]+\s*(?=[^\W\d_])")
_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(
    r"(?:(?<![\w)])-\$?|\$-?)?"
    r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|(?<![.\w])\.[0-9]+)"
)


@dataclass(frozen=True, slots=True)
class CheckedGrader:
    """A grader that answers in [0, 1] or raises `TaskError`. A missing answer scores 0 without asking it.

    A grader may have a method `explain(answer, reference) -> str`, which says why an answer is not right.
    """

    name: str
    function: Callable[[str | None, str], Any]

    def __call__(self, answer: str | None, reference: str, *, task: str = "") -> float:
        """Score of `answer`; `task` is the id that an error names."""
        if answer is None:
            return 0.0
        where = f"grader {self.name!r} on task {task!r}"
        with boundary(TaskError, f"{where} raised"):
            value = self.function(answer, reference)
        if not isinstance(value, bool | np.bool_ | numbers.Real):
            raise TaskError(f"{where} returned {value!r}; expected a number in [0, 1]")
        score = float(value)
        if math.isnan(score) or not 0.0 <= score <= 1.0:
            raise TaskError(f"{where} returned {value!r}; expected a number in [0, 1]")
        return score

    def explain(self, answer: str | None, reference: str, *, task: str = "") -> str:
        """What the grader has to say about an answer; empty where it explains nothing, or there is no answer."""
        explain = getattr(self.function, "explain", None)
        if explain is None or answer is None:
            return ""
        with boundary(TaskError, f"grader {self.name!r} could not explain task {task!r}"):
            said = explain(answer, reference)
        if not isinstance(said, str):
            raise TaskError(f"grader {self.name!r} on task {task!r} explained with {said!r}; expected a text")
        return said

    def faults(self, answer: str | None, reference: str, *, task: str = "") -> tuple[str, ...]:
        """Codes of what is wrong with an answer, the one that hides the others first; none where it is right.

        A grader may have a method `faults(answer, reference)`; of one that has not, `no answer` or `wrong`.
        """
        name_faults = getattr(self.function, "faults", None)
        if answer is None:
            return ("no answer",)
        if name_faults is None:
            return () if self(answer, reference, task=task) >= 1.0 else ("wrong",)
        with boundary(TaskError, f"grader {self.name!r} could not name the faults of task {task!r}"):
            return tuple(str(code) for code in name_faults(answer, reference))


def load_grader(name: str) -> CheckedGrader:
    """A named grader, or `package.module:function` of the user's, checked at every call."""
    function = load(name, among=GRADERS, what="grader")
    if not callable(function):
        raise SetupError(f"grader {name!r} is not a function (answer, reference) -> score, it is {function!r}")
    return CheckedGrader(name, function)


def label(answer: str | None, reference: str) -> float:
    """1 where the whole answer, or its first line that is not blank, is the reference after `normalise_label`."""
    if answer is None:
        return 0.0
    first_line = answer.strip().split("\n", 1)[0]
    wanted = normalise_label(reference)
    return float(wanted in (normalise_label(answer), normalise_label(first_line)))


def normalise_label(text: str) -> str:
    """Unicode NFKC, lower case, no quotes, brackets, stars or sentence marks around it, single spaces.

    A hyphen, underscore, colon, slash or comma between two letters is a space: `card_arrival` is
    `Card arrival`. Other signs stay, so that `C` and `C++`, or `1` and `-1`, remain different labels.
    A label of such marks alone is kept as it is.
    """
    folded = _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
    return _BETWEEN_WORDS.sub(" ", folded.strip(_AROUND)) or folded


def number(answer: str | None, reference: str) -> float:
    """1 where the last number of the answer equals the last number of the reference, exactly as decimals."""
    wanted = last_number(reference)
    return float(wanted is not None and answer is not None and last_number(answer) == wanted)


def last_number(text: str) -> Decimal | None:
    """The last number in `text`: `$1,234.50`, `18%`, `#### -5`. Fractions and exponents are not read.

    A minus counts where it touches the number and follows no letter, digit or bracket: `10-5` ends in 5.
    """
    found = _NUMBER.findall(unicodedata.normalize("NFKC", text).replace("−", "-"))
    return Decimal(re.sub(r"[$,]", "", found[-1])) if found else None


def exact(answer: str | None, reference: str) -> float:
    """1 where answer and reference are the same text, but for white space around it."""
    return float(answer is not None and answer.strip() == reference.strip())


def contains(answer: str | None, reference: str) -> float:
    """1 where the answer holds the reference as whole words, whatever the case and white space."""
    wanted, given = (_SPACE.sub(" ", text.casefold()).strip() for text in (reference, answer or ""))
    return float(bool(wanted) and re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", given) is not None)
