"""`quickstart`, `run`, `audit` and `noise`: the commands that spend."""

from __future__ import annotations

import secrets
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from heldout.cli.app import DONE, OUT_OF_BUDGET, app
from heldout.cli.printing import print_json, print_noise, print_plan
from heldout.cli.progress import progress_bar
from heldout.config import RunConfig, load_config, parse_overrides, read_toml
from heldout.errors import SetupError, TaskError
from heldout.loops import preset
from heldout.report import audit_view, print_summary, run_json, show, summary
from heldout.store import Index, RunFolder, toml_text
from heldout.tasks import load_tasks
from heldout.workbench import Opening, audit, noise, plan, quickstart_config, resume, run

__all__ = ["audit_command", "noise_command", "quickstart_command", "run_command"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else there.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder of the run; runs/NAME when it is not given.")]
Words = Annotated[
    list[str] | None, typer.Argument(help="preset=small|default|paper and key.sub=value, for example tasks.select=64")
]


@app.command("quickstart")
def quickstart_command(
    model: Annotated[
        str, typer.Option(help="`smollm2` (a real language model, on the CPU) or `simulated`.")
    ] = "smollm2",
    out: Out = None,
    as_json: Json = False,
) -> int:
    """The embedded job, end to end: classify questions, improve the prompt, audit the gain, write the report."""
    config = load_config([quickstart_config(model)])
    return _run(config, out=out or _new_folder("quickstart"), resuming=False, as_json=as_json)


@app.command("run")
def run_command(
    target: Annotated[
        str | None, typer.Argument(help="A loop (winners_curse, verse) or a CONFIG.toml; not needed with --resume.")
    ] = None,
    words: Words = None,
    out: Out = None,
    resuming: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out; nothing is paid twice.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved config and the plan; spend nothing.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Improve something with a loop, then audit the gain on tasks that no decision saw."""
    config: RunConfig | None
    if resuming and out is not None and target is not None and "=" in target:
        config = _with_words(RunFolder.find(out).load_config(), [target, *(words or [])])
    else:
        config = None if target is None else _resolve(target, words or [])
    if dry_run:
        if config is None:
            raise SetupError("--dry-run needs a loop or a config: heldout run winners_curse --dry-run")
        _warn_of_tasks(config)
        print_plan(toml_text(config.model_dump(mode="json")), plan(config), as_json=as_json)
        return DONE
    if config is None:
        if not resuming or out is None:
            raise SetupError("name a loop or a config, or continue a run: heldout run --resume --out runs/NAME")
        config = RunFolder.find(out).load_config()
    return _run(config, out=out or _new_folder(config.loop), resuming=resuming, as_json=as_json)


@app.command("audit")
def audit_command(
    run_folder: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its name under runs/.")],
    words: Annotated[
        list[str] | None, typer.Argument(help="Other limits than the run's, for example budget.evaluations=2000")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Open it although it was opened before; recorded as such.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Open the audit role of a run, once: start against final, paired. Make up for a retention that is missing."""
    folder = RunFolder.find(Path(run_folder))
    config = _with_words(folder.load_config(), words) if words else None
    with progress_bar(quiet=as_json) as progress:
        opening = Opening(folder.path, command=_command(), resume=True, progress=progress)
        result = audit(opening, again=again, config=config)
    if as_json:
        print_json(result)
    else:
        show(Console(), audit_view(result))
    return DONE


@app.command("noise")
def noise_command(
    target: Annotated[str, typer.Argument(metavar="CONFIG", help="A CONFIG.toml or a loop's name.")],
    words: Words = None,
    as_json: Json = False,
) -> int:
    """A/A: run the start against itself; expected flips, and each rule's false-accept rate at this n."""
    config = _resolve(target, words or [])
    with tempfile.TemporaryDirectory(prefix="heldout-noise-") as folder, progress_bar(quiet=as_json) as progress:
        report = noise(config, Opening(Path(folder) / "noise", command=_command(), progress=progress))
    (print_json if as_json else print_noise)(report)
    return DONE


def _run(config: RunConfig, *, out: Path, resuming: bool, as_json: bool) -> int:
    with progress_bar(quiet=as_json) as progress:
        opening = Opening(out, command=_command(), resume=resuming, progress=progress)
        folder = resume(opening, config=config) if resuming else run(config, opening)
    with Index.open(folder.path) as index:
        found = summary(index.connection)
    if as_json:
        print_json(run_json(found, report=folder.report))
    else:
        print_summary(found, report=folder.report)
    return OUT_OF_BUDGET if found.status == "stopped" else DONE


def _warn_of_tasks(config: RunConfig) -> None:
    """A plan does not need its tasks, and a person wants to know that they are not there."""
    try:
        load_tasks(config.tasks)
    except (SetupError, TaskError) as fault:
        sys.stderr.write(f"heldout: this config cannot be run here yet: {fault}\n")


def _resolve(target: str, words: Sequence[str]) -> RunConfig:
    """Preset, then file, then command line."""
    over = parse_overrides(words)
    layer: dict[str, Any] = {"loop": target}
    if target.endswith(".toml") or Path(target).is_file():
        layer = read_toml(Path(target))
    chosen = over.pop("preset", layer.pop("preset", "default"))
    return load_config([preset(str(layer.get("loop", "winners_curse")), str(chosen), layer, over), layer, over])


def _with_words(config: RunConfig, words: Sequence[str]) -> RunConfig:
    """A run's own config with new limits; what else may not change is refused when the run is opened."""
    return load_config([config.model_dump(mode="json"), parse_overrides(words)])


def _new_folder(name: str) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{name.rpartition(':')[2].lower()}-{stamp}-{secrets.token_hex(2)}"


def _command() -> str:
    """The command line as a person would type it again."""
    return shlex.join(["heldout", *sys.argv[1:]])
