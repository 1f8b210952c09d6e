"""Grades mathematical answers: the final answer of a solution, by what it says and not by how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from heldout.benchmarks.math_answers import final_answer, plain_number, plain_text, simplified
from heldout.benchmarks.math_workers import math_workers
from heldout.tasks.graders import CUT

__all__ = ["MathGrader", "grade_math"]

_LONGEST = 4000
"""Characters of a final answer that is looked at; no right one comes near it."""


@dataclass(frozen=True, slots=True)
class MathGrader:
    """1 where the final answer of the answer is equal to that of the reference, else 0.

    Final answers are read by `final_answer`, from both. They are equal where they are the same but for spaces and
    sizes, the same decimal number, or equal to math-verify (Kydlíček 2024), which knows fractions, roots, polynomials,
    sets, intervals, matrices and units. That runs in a process of its own: an answer that takes more than `cpu_s` of
    the processor, or breaks the process, scores 0; `TaskError` where the process does not work on the right answer.
    """

    cpu_s: float = 5.0

    def __call__(self, answer: str | None, reference: str) -> float:
        """Score of an answer."""
        return float(not self._fault(answer, reference))

    def faults(self, answer: str | None, reference: str) -> tuple[str, ...]:
        """`stop` for an answer that was cut, then one of `no final answer`, `timed out`, `crashed`, `too long`,
        `value`."""
        fault = self._fault(answer, reference)
        if not fault:
            return ()
        return ("stop", fault) if (answer or "").endswith(CUT) else (fault,)

    def explain(self, answer: str | None, reference: str) -> str:
        """Which final answer was read and what is wrong with it; empty where nothing is."""
        fault = self._fault(answer, reference)
        given, gold = (repr(_final(text)[:200]) for text in (answer or "", reference))
        told = {
            "no final answer": "there is no final answer",
            "timed out": f"the final answer {given} could not be compared within {self.cpu_s:g} s",
            "crashed": f"the final answer {given} could not be compared",
            "too long": f"the final answer {given}… is longer than {_LONGEST} characters",
            "value": f"the final answer is {given}, and {gold} is right",
        }
        return told.get(fault, "")

    def _fault(self, answer: str | None, reference: str) -> str:
        given = _final(answer or "")
        if not given:
            return "no final answer"
        return "too long" if len(given) > _LONGEST else _compared(_final(reference), given, self.cpu_s)


grade_math = MathGrader()
"""The grader `math`."""


def _final(text: str) -> str:
    return final_answer(text.removesuffix(CUT))


def _latex(answer: str, number: Decimal | None) -> str:
    """LaTeX has no `4.5e33`."""
    if number is None or "e" not in answer.casefold():
        return answer
    digits, _, power = f"{number:e}".partition("e")
    return rf"{digits} \cdot 10^{{{int(power)}}}"


@lru_cache(maxsize=4096)
def _compared(gold: str, given: str, cpu_s: float) -> str:
    """The fault of a final answer; empty for a right one."""
    simple, wanted = simplified(given), simplified(gold)
    if simple == wanted:
        return ""
    numbers = plain_number(simple), plain_number(wanted)
    if None not in numbers:
        return "" if numbers[0] == numbers[1] else "value"
    words = plain_text(gold)
    if words is not None:
        return "" if (plain_text(given) or " ".join(given.casefold().split())) == words else "value"
    found = math_workers().compare(_latex(gold, numbers[1]), _latex(given, numbers[0]), cpu_s=cpu_s)
    return {"same": "", "different": "value"}.get(found, found)
