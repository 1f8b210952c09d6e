"""The candidate folder of the prompt harness: an instruction and labelled examples, as a person would edit them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pydantic import ValidationError

from heldout.errors import HarnessError
from heldout.records import Candidate, Record

__all__ = ["DEMONSTRATIONS_FILE", "INSTRUCTION_FILE", "Demonstration", "Prompt", "check_candidate", "read_prompt"]

INSTRUCTION_FILE = "instruction.md"
DEMONSTRATIONS_FILE = "demonstrations.jsonl"


class Demonstration(Record):
    """One labelled example: a line of `demonstrations.jsonl`."""

    input: str
    output: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a candidate folder says. Whitespace around the instruction carries no meaning."""

    instruction: str
    demonstrations: Sequence[Demonstration] = ()

    def files(self) -> dict[str, str]:
        """The folder, in one canonical form: equal prompts are the same candidate."""
        lines = [json.dumps(shown.model_dump(), ensure_ascii=False) for shown in self.demonstrations]
        return {
            INSTRUCTION_FILE: self.instruction.strip() + "\n",
            DEMONSTRATIONS_FILE: "".join(line + "\n" for line in lines),
        }


def read_prompt(files: Mapping[str, str]) -> Prompt:
    """Parse a folder; `demonstrations.jsonl` may be absent, other files are not read.

    Raises `HarnessError` that names the file, the line and the fault.
    """
    instruction = files.get(INSTRUCTION_FILE, "").strip()
    if not instruction:
        there = ", ".join(sorted(files)) or "nothing"
        raise HarnessError(f"the candidate has no text in {INSTRUCTION_FILE}; it holds {there}")
    return Prompt(instruction, read_demonstrations(files.get(DEMONSTRATIONS_FILE, "")))


def check_candidate(candidate: Candidate) -> str | None:
    """Why the prompt harness cannot run this candidate, or None."""
    try:
        read_prompt(candidate.files)
    except HarnessError as fault:
        return str(fault)
    return None


@lru_cache(maxsize=256)
def read_demonstrations(text: str) -> tuple[Demonstration, ...]:
    """The examples of a JSONL text, blank lines skipped. A pure function, remembered because every rollout calls it."""
    return tuple(_demonstration(line, number) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _demonstration(line: str, number: int) -> Demonstration:
    try:
        return Demonstration.model_validate(json.loads(line), strict=True)
    except (json.JSONDecodeError, RecursionError, ValidationError) as cause:
        raise HarnessError(
            f'{DEMONSTRATIONS_FILE}, line {number}: expected {{"input": "…", "output": "…"}}, got {line[:80]!r}'
        ) from cause
