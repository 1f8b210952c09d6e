"""Write docs/config.md and docs/commands.md from the code: `python docs/generate.py [FOLDER]`."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from heldout.cli import app, main
from heldout.config import RunConfig
from heldout.store import write_atomic

HERE = Path(__file__).parent

OPTIONS: Mapping[str, tuple[str, str]] = {
    "options of the loop `verse`": ("heldout.loops.agents.options", "VerseOptions"),
    "options of the loop `gso`": ("heldout.loops.skills.options", "GsoOptions"),
    "options of the loops `one_shot_skill` and `persistent_skill`": ("heldout.loops.skills.options", "DraftedOptions"),
    "options of the loop `skill_frontier`": ("heldout.loops.skills.options", "FrontierOptions"),
    "options of the loop `merged_patches`": ("heldout.loops.skills.options", "MergedOptions"),
    "options of the loop `gepa`": ("heldout.loops.skills.options", "GepaOptions"),
    "options of the loop `improve_any_task`": ("heldout.loops.weights.options", "ImproveOptions"),
    "gate.options of `repairs_over_regressions`": (
        "heldout.gates.repairs_over_regressions",
        "RepairsOverRegressionsOptions",
    ),
    "tasks.options of `jsonl` and `csv`": ("heldout.tasks.sources", "FileOptions"),
    "tasks.options of `questions`": ("heldout.worlds.questions.source", "QuestionsOptions"),
    "tasks.options of `repair`": ("heldout.worlds.repair.source", "RepairOptions"),
    "tasks.options of `tables`": ("heldout.worlds.tables.source", "TablesOptions"),
    "tasks.options of `formats`": ("heldout.worlds.formats.source", "FormatsOptions"),
    "tasks.options of `ifeval`": ("heldout.benchmarks.ifeval", "IfevalOptions"),
    "tasks.options of `aime`": ("heldout.benchmarks.aime", "AimeOptions"),
    "tasks.options of `spreadsheetbench`": ("heldout.benchmarks.spreadsheetbench", "SpreadsheetOptions"),
    "tasks.options of `swe`": ("heldout.benchmarks.swe", "SweOptions"),
    "tasks.options of `harbor`": ("heldout.benchmarks.harbor", "HarborOptions"),
    "solver.options of `tool_loop`": ("heldout.harness.loop_settings", "ToolLoopOptions"),
    "solver.options of `skilled`": ("heldout.skills.harness", "SkilledOptions"),
    "solver.options of `completion`": ("heldout.harness.completion", "CompletionOptions"),
    "solver.model.options of `openai:MODEL`": ("heldout.models.openai_compatible", "OpenAIOptions"),
    "solver.model.options of `anthropic:MODEL`": ("heldout.models.anthropic", "AnthropicOptions"),
    "solver.model.options of `local:FOLDER` and `pocket:NAME`": (
        "heldout.models.local_transformers",
        "TransformersOptions",
    ),
    "solver.model.options of `smollm2`": ("heldout.models.smollm2", "SmolLM2Options"),
    "solver.model.options of `simulated`": ("heldout.models.simulated", "SimulatedOptions"),
    "solver.model.options of `simulated_coder`": ("heldout.worlds.repair.coder", "CoderOptions"),
    "solver.model.options of `simulated_tables`": ("heldout.worlds.tables.worker", "TableWorkerOptions"),
    "solver.model.options of `simulated_formats`": ("heldout.worlds.formats.learner", "FormatsLearnerOptions"),
    "improver.options of `demonstrations`": ("heldout.improvers.demonstrations", "DemonstrationsOptions"),
    "improver.options of `rewrite`": ("heldout.improvers.rewrite", "RewriteOptions"),
    "improver.options of `simulated`": ("heldout.improvers.simulated", "SimulatedImproverOptions"),
    "improver.options of `catalog`": ("heldout.improvers.catalog", "CatalogOptions"),
    "improver.options of `llm`": ("heldout.improvers.llm.settings", "LlmOptions"),
    "improver.options of `skill_catalog`": ("heldout.improvers.skill_catalog", "SkillCatalogOptions"),
    "improver.options of `skill_llm`": ("heldout.improvers.skill_llm.settings", "SkillLlmOptions"),
    "improver.options of `training_catalog`": ("heldout.improvers.training_catalog", "TrainingCatalogOptions"),
    "improver.options of `training_llm`": ("heldout.improvers.training_llm.settings", "TrainingLlmOptions"),
}
"""Title to the module and class of what a built-in takes as options."""

OF_THE_MACHINE: Mapping[tuple[str, str], str] = {("SmolLM2Options", "threads"): "half of the cores, at most 4"}
"""Defaults that differ between machines."""

_TYPES: Mapping[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "anything"}
_BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "min_length": "at least", "max_length": "at most"}


def config_page() -> str:
    """Every key of a config, table by table, then the options of the built-ins."""
    parts = [
        "# Configuration",
        _GENERATED,
        "A config is TOML, and every key can be set on the command line as `key.sub=value`. Lowest first: these "
        "defaults, the loop's preset, the file, the command line. Unknown keys, wrong types and impossible values are "
        "refused with what is allowed. `heldout run CONFIG.toml --dry-run` prints the whole config and what it will "
        "cost at most.",
    ]
    parts += [_section(title, model) for title, model in _tables(RunConfig, "")]
    parts.append("# Options of the built-ins")
    parts += [_section(title, model) for title, model in option_tables()]
    return "\n\n".join(parts) + "\n"


def option_tables() -> Iterator[tuple[str, type[BaseModel]]]:
    """Every table of options of a built-in, and the tables inside it, by title."""
    for title, (module, name) in OPTIONS.items():
        path, _, whose = title.partition(" ")
        for table, model in _tables(getattr(importlib.import_module(module), name), path):
            yield f"{table.strip('[]')} {whose}", model


def commands_page() -> str:
    """`--help` of every command."""
    blocks = [f"## {' '.join(('heldout', *words))}\n\n```text\n{_help(words)}\n```" for words in command_paths()]
    codes = (
        'Exit codes: 0 done (also "nothing improved"), 1 failed, 2 wrong use, 3 stopped by a budget, 130 interrupted.'
    )
    return "\n\n".join(["# Commands", _GENERATED, codes, *blocks]) + "\n"


def command_paths() -> list[tuple[str, ...]]:
    """The words of `heldout` itself and of every command, sorted."""
    with redirect_stdout(StringIO()):
        _exit(["--help"])  # commands are added to `app` by the modules that `main` imports
    paths: list[tuple[str, ...]] = [()]
    paths += [(str(command.name),) for command in app.registered_commands]
    for group in app.registered_groups:
        paths.append((str(group.name),))
        paths += [(str(group.name), str(command.name)) for command in group.typer_instance.registered_commands]
    return sorted(paths)


def field_words(model: type[BaseModel]) -> dict[str, str]:
    """Field to the words under it, those of the records that it inherits from included."""
    words: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if one is not BaseModel and issubclass(one, BaseModel):
            words |= _own_words(one)
    return words


def _own_words(model: type[BaseModel]) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(tree, ast.ClassDef)
    words = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            words[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return words


_GENERATED = "Generated by `python docs/generate.py`; a test compares."


def _tables(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """The model and every model inside it, once, by the dotted path of its table."""
    yield (f"[{prefix}]" if prefix else "Top level"), model
    for name, field in model.model_fields.items():
        for inner in _models(field.annotation):
            # The improver's model has the keys of the solver's.
            if f"{prefix}.{name}" != "improver.model":
                path = f"{prefix}.{name}" if prefix else name
                yield from _tables(inner, f"{path}.NAME" if name == "prices" else path)


def _models(annotation: Any) -> list[type[BaseModel]]:
    options = (annotation, *get_args(annotation))
    return [one for one in options if isinstance(one, type) and issubclass(one, BaseModel)]


def _section(title: str, model: type[BaseModel]) -> str:
    about = " ".join((inspect.getdoc(model) or "").split("\n\n", 1)[0].split())
    if not model.model_fields:
        return f"## {title}\n\n{about}"
    rows = ["| key | type | default | what it is |", "|---|---|---|---|"]
    words = field_words(model)
    for name, field in model.model_fields.items():
        default = OF_THE_MACHINE.get((model.__name__, name), _default(field))
        cells = (f"`{name}`", _type(field), default, words.get(name, ""))
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return f"## {title}\n\n{about}\n\n" + "\n".join(rows)


def _type(field: FieldInfo) -> str:
    bounds = [f"{_BOUNDS[name]} {value:g}" for part in field.metadata for name, value in vars_of(part).items()]
    return ", ".join([_type_name(field.annotation), *bounds])


def vars_of(part: Any) -> dict[str, float]:
    """The bounds that a piece of pydantic's metadata sets."""
    return {name: value for name in _BOUNDS if (value := getattr(part, name, None)) is not None}


def _type_name(annotation: Any) -> str:
    if annotation in _TYPES:
        return _TYPES[annotation]
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inside)
    if origin in (Union, UnionType):
        return " or ".join("none" if one is type(None) else _type_name(one) for one in inside)
    if origin is tuple:
        return f"list of {_type_name(inside[0])}"
    return "table"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "see its table"
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 6:
        return f"a list of {len(value)}"
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _help(words: Sequence[str]) -> str:
    captured = StringIO()
    with redirect_stdout(captured):
        _exit([*words, "--help"])
    return "\n".join(line.rstrip() for line in captured.getvalue().strip().splitlines())


def _exit(words: Sequence[str]) -> None:
    """Run the command line, which always exits."""
    try:
        main(words)
    except SystemExit as stopped:
        if stopped.code:
            raise


def write_pages(folder: Path) -> None:
    """Both pages, the same on every machine."""
    os.environ["COLUMNS"] = "80"
    sys.argv[0] = "heldout"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "config.md", config_page())
    write_atomic(folder / "commands.md", commands_page())


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
