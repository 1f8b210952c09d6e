"""Minerva's OCWCourses: problems of undergraduate courses at MIT (Lewkowycz et al., 2022): 272 problems."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.benchmarks.files import data_file, data_folder
from heldout.benchmarks.math500 import MATH_INSTRUCTION
from heldout.benchmarks.math_answers import final_answer
from heldout.errors import SetupError
from heldout.records import digest_of
from heldout.tasks.base import Item
from heldout.tasks.rows import read_jsonl

__all__ = ["MinervaMathSource"]

URL = "https://github.com/QwenLM/Qwen2.5-Math/tree/main/evaluation/data/minerva_math"


class MinervaMathSource:
    """Minerva's undergraduate problems, graded by the final answer (tasks.path or $HELDOUT_DATA/minerva_math).

    Ids are the published `idx`, families and strata the courses, groups the parts of one problem, which quote each
    other's solutions: use tasks.split_by = "group". The reference is the published solution with its box.
    Numbers are compared exactly, as elsewhere: a rounding other than the published one is wrong.
    """

    description = "Solve a problem of an undergraduate course in science; the final answer is compared as mathematics."
    instruction = MATH_INSTRUCTION
    labels: tuple[str, ...] = ()
    grader = "math"

    def __init__(self, *, path: str | None = None, seed: int = 0) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        folder = data_folder(path, benchmark="minerva_math")
        self.file = data_file(folder, ["test.jsonl", "minerva_math.jsonl"], url=URL)

    def items(self) -> Sequence[Item]:
        items = []
        for row in read_jsonl(self.file):
            problem, solution, course = (row.fields.get(name) for name in ("problem", "solution", "type"))
            if not all(isinstance(text, str) for text in (problem, solution, course)) or "idx" not in row.fields:
                raise SetupError(f"{str(self.file)!r}, {row.where}: expected problem, solution, type and idx")
            if "boxed" not in str(solution) or not final_answer(str(solution)):
                raise SetupError(f"{str(self.file)!r}, {row.where}: the solution has no \\boxed{{}}")
            items.append(
                Item(
                    id=str(row.fields["idx"]),
                    input=str(problem).strip(),
                    reference=str(solution).strip(),
                    family=str(course),
                    stratum=str(course),
                    group=_group(str(problem), str(row.fields["idx"])),
                )
            )
        return items


def _group(problem: str, name: str) -> str:
    """What stands before the first part of a problem of several parts; else the problem itself."""
    preamble, parts, _ = problem.partition("Subproblem 0:")
    return digest_of(" ".join(preamble.split()))[:16] if parts else name
