"""HumanEval: complete a Python function from its docstring (Chen et al., 2021, arXiv 2107.03374): 164 problems."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.benchmarks.files import data_file, data_folder
from heldout.benchmarks.humaneval_grading import HumanevalReference
from heldout.errors import SetupError
from heldout.tasks.base import Item
from heldout.tasks.rows import read_jsonl

__all__ = ["HumanevalSource"]

URL = "https://github.com/openai/human-eval/tree/master/data"

_FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "test")


class HumanevalSource:
    """HumanEval problems, graded by their tests in a sandbox (tasks.path or $HELDOUT_DATA/humaneval).

    The file is `HumanEval.jsonl`, unpacked. Ids are the published ones. A reply may be the function in a fenced block,
    or the bare continuation of the prompt. The reference holds the published tests and solution.
    """

    description = "Complete a Python function as its docstring says; hidden tests decide."
    instruction = "Complete the function. Reply with the whole function, imports included, in one ```python block."
    labels: tuple[str, ...] = ()
    grader = "humaneval"

    def __init__(self, *, path: str | None = None, seed: int = 0) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        folder = data_folder(path, benchmark="humaneval")
        self.file = data_file(folder, ["HumanEval.jsonl", "human-eval-v2-20210705.jsonl"], url=URL)

    def items(self) -> Sequence[Item]:
        items = []
        for row in read_jsonl(self.file):
            told = [row.fields.get(name) for name in _FIELDS]
            if not all(isinstance(text, str) and text.strip() for text in told):
                raise SetupError(f"{str(self.file)!r}, {row.where}: expected the texts {', '.join(_FIELDS)}")
            name, prompt, entry_point, solution, test = map(str, told)
            if not entry_point.isidentifier() or f"def {entry_point}" not in prompt:
                raise SetupError(f"{str(self.file)!r}, {row.where}: the prompt does not define {entry_point!r}")
            reference = HumanevalReference(
                id=name, prompt=prompt, entry_point=entry_point, solution=solution, test=test
            )
            items.append(Item(id=name, input=prompt, reference=reference.model_dump_json()))
        return items

    def solution(self, item: Item) -> str:
        """The published function as a reply would give it."""
        task = HumanevalReference.model_validate_json(item.reference)
        return f"```python\n{task.prompt}{task.solution}```\n"

    def solution_text(self, item: Item) -> str:
        """The published body of the function."""
        return HumanevalReference.model_validate_json(item.reference).solution
