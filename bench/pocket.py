"""Makes the pocket checkpoints that are shipped, and measures what they can do with the world's own grader.

python bench/pocket.py [--out DIR] [--only base|instruct] [--tasks N]

Without --out they are written to src/heldout/training/checkpoints. Equal recipes give equal files on one machine.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from pydantic import TypeAdapter

from heldout.config import ModelConfig
from heldout.models.base import Message, Request
from heldout.models.local_transformers import LocalTransformersModel
from heldout.tasks.graders import CUT
from heldout.training.pocket_folders import SHIPPED, Made, read_made, write_checkpoint
from heldout.training.pocket_recipes import RECIPES, pocket_recipe, recipe_digest
from heldout.worlds.formats.generator import PLAIN_SKILLS, draw_skill, draw_task
from heldout.worlds.formats.grading import faults_in
from heldout.worlds.formats.job import Constraint, Fault, Job

LONGEST_ANSWER = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SHIPPED, help="folder of the checkpoints")
    parser.add_argument(
        "--only", choices=sorted(RECIPES), help="make this one; the other must be there if it is its start"
    )
    parser.add_argument("--tasks", type=int, default=1000, help="fresh tasks that are measured on")
    given = parser.parse_args()
    for name in [given.only] if given.only else list(RECIPES):
        made = make(name, given.out, tasks=given.tasks)
        found = dict(read_made(given.out)) | {name: made}
        text = TypeAdapter(dict[str, Made]).dump_json(found, indent=2).decode()
        (given.out / "recipe.json").write_text(text + "\n", encoding="utf-8")


def make(name: str, out: Path, *, tasks: int) -> Made:
    recipe = pocket_recipe(name)
    folder = out / f"pocket-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = None if recipe.start is None else out / f"pocket-{recipe.start}"
    seconds = write_checkpoint(recipe, folder, start=start, tell=print, name=name)
    model = LocalTransformersModel(ModelConfig(name=f"local:{folder}"))
    accuracy = measured(model, tasks=tasks)
    print(f"pocket:{name}: {seconds:.0f} s; " + ", ".join(f"{what} {share:.2f}" for what, share in accuracy.items()))
    return Made(
        digest=recipe_digest(recipe),
        recipe=recipe,
        parameters=sum(tensor.numel() for tensor in model.weights().model.parameters()),
        accuracy=accuracy,
        tasks=tasks,
        seconds=round(seconds, 1),
        versions={package: version(package) for package in ("torch", "transformers", "tokenizers")},
    )


def measured(model: LocalTransformersModel, *, tasks: int) -> dict[str, float]:
    """Shares of right answers to fresh tasks; see `Made.accuracy`."""
    rng = random.Random("pocket measure")
    jobs = [draw_task(rng) for _ in range(tasks)]
    faults = [faults_in(answer, job) for job, answer in zip(jobs, answers(model, jobs), strict=True)]
    shares = {
        "all": _share([not found for found in faults]),
        "stop": _share([Fault.STOP not in found for found in faults]),
        "list": _share([Fault.LIST not in found for found in faults]),
    }
    for constraint in Constraint:
        asked = [found for job, found in zip(jobs, faults, strict=True) if constraint in job.constraints]
        shares[constraint.value] = _share([Fault(constraint.value) not in found for found in asked])
    for skill in PLAIN_SKILLS:
        plain = [draw_skill(rng, skill) for _ in range(tasks // 4)]
        given = answers(model, plain)
        shares[skill] = _share([not faults_in(answer, job) for job, answer in zip(plain, given, strict=True)])
    return shares


def answers(model: LocalTransformersModel, jobs: Sequence[Job]) -> list[str]:
    asked = [
        Request(messages=(Message(role="user", content=job.text),), max_tokens=LONGEST_ANSWER, temperature=0.0)
        for job in jobs
    ]
    replies = model.complete_batch(asked)
    return [reply.text + (CUT if reply.finish_reason == "length" else "") for reply in replies]


def _share(right: Sequence[bool]) -> float:
    return round(sum(right) / max(len(right), 1), 3)


if __name__ == "__main__":
    main()
