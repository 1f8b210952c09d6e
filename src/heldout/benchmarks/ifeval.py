"""IFEval: verifiable instructions (Zhou et al., 2023, arXiv 2311.07911): 541 prompts with 834 instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from heldout.benchmarks.files import data_file, data_folder
from heldout.benchmarks.ifeval_grading import IfevalReference, Instruction
from heldout.benchmarks.ifeval_rules import read_rule
from heldout.errors import SetupError
from heldout.options import read_options
from heldout.records import Record
from heldout.tasks.base import Item
from heldout.tasks.rows import Row, read_jsonl

__all__ = ["IfevalOptions", "IfevalSource"]

URL = "https://github.com/google-research/google-research/tree/master/instruction_following_eval/data"


class IfevalOptions(Record):
    """`tasks.options` of `ifeval`."""

    rule: Literal["strict", "loose"] = "strict"
    """`loose` also takes an answer that follows an instruction without its first or last line or its stars."""
    score: Literal["prompt", "instruction"] = "prompt"
    """1 where all instructions of a prompt are followed, or the share that is. The mean of the latter weighs prompts
    alike and not instructions, so it is not exactly the published instruction accuracy."""


class IfevalSource:
    """IFEval prompts, graded by the instructions that they state (tasks.path or $HELDOUT_DATA/ifeval).

    Ids are the published keys. A family is the group of a prompt's first instruction. There are no right answers to
    compare with: the reference is the list of instructions.
    """

    description = "Answer a prompt so that every instruction in it that can be verified is followed."
    instruction = "Follow every instruction of the request."
    labels: tuple[str, ...] = ()
    grader = "ifeval"
    has_solutions = False

    def __init__(self, *, path: str | None = None, seed: int = 0, **options: Any) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        self.options = read_options(IfevalOptions, options, where="task source 'ifeval'")
        self.file = data_file(data_folder(path, benchmark="ifeval"), ["input_data.jsonl"], url=URL)

    def items(self) -> Sequence[Item]:
        return [self._item(row) for row in read_jsonl(self.file)]

    def solution_text(self, item: Item) -> str:
        """Nothing: no answer is published."""
        del item
        return ""

    def _item(self, row: Row) -> Item:
        key, prompt = row.fields.get("key"), row.fields.get("prompt")
        if not isinstance(key, int) or not isinstance(prompt, str):
            raise SetupError(f"{str(self.file)!r}, {row.where}: expected a key and a prompt, got {dict(row.fields)!r}")
        instructions = _instructions(row, self.file)
        reference = IfevalReference(
            instructions=instructions, loose=self.options.rule == "loose", share=self.options.score == "instruction"
        )
        group = instructions[0].id.partition(":")[0]
        return Item(id=str(key), input=prompt, reference=reference.model_dump_json(), family=group, stratum=group)


def _instructions(row: Row, file: Path) -> tuple[Instruction, ...]:
    """The published instructions, every one checked to be one."""
    where = f"{str(file)!r}, {row.where}"
    names, arguments = row.fields.get("instruction_id_list"), row.fields.get("kwargs")
    if not isinstance(names, list) or not isinstance(arguments, list) or not names or len(names) != len(arguments):
        raise SetupError(f"{where}: expected an instruction_id_list and kwargs of the same length, got {names!r}")
    made = []
    for name, given in zip(names, arguments, strict=True):
        if not isinstance(given, Mapping):
            raise SetupError(f"{where}: the kwargs of {name!r} are no object: {given!r}")
        try:
            read_rule(str(name), given)
        except SetupError as fault:
            raise SetupError(f"{where}: {fault}") from fault
        made.append(
            Instruction(id=str(name), arguments={key: value for key, value in given.items() if value is not None})
        )
    return tuple(made)
