"""`compile-skill`: the skill for a new task, written with the guide that a run ended with."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.app import DONE, app
from heldout.cli.finding import final_of
from heldout.config import ModelConfig, RunConfig
from heldout.errors import HarnessError, SetupError, boundary
from heldout.models import SIMULATIONS, Model, make_model
from heldout.models.simulated import answer_key
from heldout.records import Candidate
from heldout.skills import SkilledOptions
from heldout.skills.compiling import compile_skill, needed_guide
from heldout.skills.export import check_new_folder, free_folder, write_skill_as
from heldout.skills.new_task import read_task
from heldout.skills.writer import Written
from heldout.tasks import load_source
from heldout.workbench.guards import guard_model

__all__ = ["compile_skill_command"]


@app.command("compile-skill")
def compile_skill_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its name under runs/.")],
    task: Annotated[
        Path,
        typer.Argument(
            metavar="TASK",
            help="A folder with the request (instruction.txt, request.md or prompt.txt) and the input files, or a text "
            "file that is the request.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The skill's folder, which must not exist; its name becomes the skill's. Without it, a folder of the "
            "name that the writer gives.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The writing model, for example openai:MODEL; the run's solver model by default.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on standard output and nothing else there.")
    ] = False,
) -> int:
    """Write the skill for a new task with the guide that a run ended with: one model call."""
    folder, final = final_of(run)
    guide = needed_guide(final, of=run)
    given = read_task(task)
    if out is not None:
        check_new_folder(out)
    config = folder.load_config()
    writer = _writer(config, model)
    try:
        written = compile_skill(guide, given, model=writer, max_tokens=_longest(config), seed=config.seed)
    finally:
        writer.close()
    if given.left_out:
        sys.stderr.write(
            f"heldout: not shown to the writer, since they look like answers: {', '.join(given.left_out)}\n"
        )
    if writer.simulated:
        sys.stderr.write(f"heldout: SIMULATION: {writer.name!r} is a simulated writer, and no language model\n")
    path = _write(written, writer, out)
    _tell(path, guide, writer, written, as_json=as_json)
    return DONE


def _writer(config: RunConfig, name: str | None) -> Model:
    """The run's solver model, or another one; what was set for one kind of model says nothing of another."""
    settings = config.solver.model
    if name is not None and name.partition(":")[0] == settings.name.partition(":")[0]:
        settings = settings.model_copy(update={"name": name})
    elif name is not None:
        settings = ModelConfig(name=name)
    with boundary(SetupError, f"the model {settings.name!r} cannot be made"):
        if settings.name.partition(":")[0] in SIMULATIONS:
            return make_model(settings, answer_key=answer_key(load_source(config.tasks).items()))
        return guard_model(make_model(settings))


def _longest(config: RunConfig) -> int:
    """The longest reply of the run's own writer; its default where the run was made with another harness."""
    given = config.solver.options.get("writer_tokens")
    return given if isinstance(given, int) else SkilledOptions().writer_tokens


def _write(written: Written, writer: Model, out: Path | None) -> Path:
    if written.skill is None:
        known = "; a simulation knows only the tasks of the run's own source" if writer.simulated else ""
        begins = " ".join(written.reply.split())[:120]
        raise HarnessError(f"{written.fault}{known}. {writer.name!r} replied: {begins!r}")
    skill = written.skill
    return write_skill_as(Candidate(files=skill.files), out or free_folder(skill.head.name))


def _tell(path: Path, guide: Candidate, writer: Model, written: Written, *, as_json: bool) -> None:
    if not as_json:
        sys.stdout.write(f"{path}\n")
        return
    spend = written.spend
    answer = {
        "path": str(path),
        "name": path.resolve().name,
        "guide": guide.digest,
        "model": writer.name,
        "simulated": writer.simulated,
        "spend": {"calls": spend.calls, "tokens_in": spend.tokens_in, "tokens_out": spend.tokens_out},
    }
    sys.stdout.write(json.dumps(answer) + "\n")
