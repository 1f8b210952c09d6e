"""MATH-500: competition problems (Hendrycks et al., 2021; the 500 of Lightman et al., 2023), seven subjects."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.benchmarks.files import data_file, data_folder
from heldout.benchmarks.math_answers import final_answer
from heldout.errors import SetupError
from heldout.tasks.base import Item
from heldout.tasks.rows import read_jsonl

__all__ = ["MATH_INSTRUCTION", "Math500Source"]

URL = "https://github.com/openai/prm800k/tree/main/prm800k/math_splits"

MATH_INSTRUCTION = "Solve the problem step by step and put the final answer in \\boxed{}."


class Math500Source:
    """MATH-500 problems, graded by the final answer (tasks.path or $HELDOUT_DATA/math500).

    Ids are the published ones (`test/algebra/1.json`), families the subjects, strata subject and level. The reference
    is the published solution, which ends in a box.
    """

    description = "Solve a competition problem; the final answer is compared as mathematics."
    instruction = MATH_INSTRUCTION
    labels: tuple[str, ...] = ()
    grader = "math"

    def __init__(self, *, path: str | None = None, seed: int = 0) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        folder = data_folder(path, benchmark="math500")
        self.file = data_file(folder, ["test.jsonl", "math500.jsonl"], url=URL)

    def items(self) -> Sequence[Item]:
        items = []
        for row in read_jsonl(self.file):
            told = [row.fields.get(name) for name in ("unique_id", "problem", "solution", "answer", "subject")]
            if not all(isinstance(text, str) and text.strip() for text in told):
                raise SetupError(
                    f"{str(self.file)!r}, {row.where}: expected unique_id, problem, solution, answer and subject"
                )
            name, problem, solution, answer, subject = map(str, told)
            if final_answer(solution) != answer.strip():
                raise SetupError(
                    f"{str(self.file)!r}, {row.where}: the solution ends in {final_answer(solution)!r}, "
                    f"and the answer is {answer!r}"
                )
            items.append(
                Item(
                    id=name,
                    input=problem.strip(),
                    reference=solution.strip(),
                    family=subject,
                    stratum=f"{subject}, level {row.fields.get('level', '?')}",
                )
            )
        return items
