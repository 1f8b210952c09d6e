"""GSM8K: grade-school word problems (Cobbe et al., 2021): 7,473 + 1,319 problems."""

from __future__ import annotations

import re
from collections.abc import Sequence

from heldout.benchmarks.files import data_file, data_folder
from heldout.errors import SetupError
from heldout.tasks.base import Item
from heldout.tasks.rows import read_jsonl

__all__ = ["Gsm8kSource"]

URL = "https://github.com/openai/grade-school-math/tree/master/grade_school_math/data"

_CALCULATOR = re.compile(r"<<[^<>]*>>")
_FINAL = re.compile(r"####\s*\S")


class Gsm8kSource:
    """GSM8K word problems, graded by the last number (tasks.path or $HELDOUT_DATA/gsm8k).

    Train and test are merged; ids are `train-N` and `test-N`, N the row. The reference is the published
    solution without its calculator notes; it ends in `#### NUMBER`.
    """

    description = "Solve a word problem of grade-school arithmetic; the answer is one number."
    instruction = "Solve the problem step by step and end with the answer as a number."
    labels: tuple[str, ...] = ()
    grader = "number"

    def __init__(self, *, path: str | None = None, seed: int = 0) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        folder = data_folder(path, benchmark="gsm8k")
        self.files = {
            part: data_file(folder, [f"gsm8k_{part}.jsonl", f"{part}.jsonl"], url=URL) for part in ("train", "test")
        }

    def items(self) -> Sequence[Item]:
        items = []
        for part, path in self.files.items():
            for row in read_jsonl(path):
                question, answer = row.fields.get("question"), row.fields.get("answer")
                if not isinstance(question, str) or not isinstance(answer, str) or not _FINAL.search(answer):
                    raise SetupError(f"{str(path)!r}, {row.where}: expected a question, and an answer with #### NUMBER")
                items.append(
                    Item(id=f"{part}-{row.number}", input=question.strip(), reference=_CALCULATOR.sub("", answer))
                )
        return items
