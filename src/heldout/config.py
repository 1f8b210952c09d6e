"""The one configuration scheme of every loop: TOML, then `key.sub=value`, then a check of everything.

Precedence, lowest first: the defaults below, the loop's preset, the TOML file, the command line.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from heldout.errors import SetupError
from heldout.records import Record, digest_of

__all__ = [
    "AuditConfig",
    "BudgetConfig",
    "ExecutorConfig",
    "GateConfig",
    "ImproverConfig",
    "ModelConfig",
    "NoiseConfig",
    "Price",
    "RunConfig",
    "SearchConfig",
    "SolverConfig",
    "TasksConfig",
    "changed_keys",
    "config_digest",
    "load_config",
    "merge",
    "parse_overrides",
    "read_toml",
]


class TasksConfig(Record):
    """Where tasks come from and how they are divided into roles."""

    source: str = "questions"
    """Of questions: `questions`, `trec:6`, `trec:50`, `banking77`, `gsm8k`, `jsonl`, `csv`. Of agents' work: `repair`,
    `swe`, `harbor`; on workbooks: `tables`, `spreadsheetbench`. Of instructions, mathematics and code: `formats`,
    `ifeval`, `math500`, `aime`, `amc23`, `minerva_math`, `humaneval`. Or `package.module:Class`."""
    path: str | None = None
    """File or folder that the source reads; relative paths are relative to the working folder."""
    grader: str | None = None
    """`label`, `number`, `exact`, `contains`, `math`, those of the sources (`repair`, `tables`, `spreadsheetbench`,
    `formats`, `ifeval`, `humaneval`), or `package.module:function`; None takes the source's own."""
    train: int = Field(default=128, ge=1)
    """Tasks whose bodies and answers the improver may see."""
    select: int = Field(default=64, ge=1)
    """Tasks that gates score; the improver never sees their bodies."""
    audit: int = Field(default=200, ge=1)
    """Tasks opened once, at the end."""
    reports: Mapping[str, int] = Field(default_factory=dict)
    """Further sealed roles by name and size, for example `gold`, `test`, `ood`."""
    seed: int = 0
    """Seed of the division into roles (and of a generated world)."""
    split_by: Literal["text", "group"] = "text"
    """`group` keeps tasks of one group together in one role."""
    stratify: bool = True
    """Keep the mix of strata (labels) alike across roles."""
    duplicates: Literal["stop", "drop"] = "stop"
    """What to do about exact and near duplicates across roles: stop the run, or drop them and say so."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments of the source itself."""


class ModelConfig(Record):
    """A language model and how it is sampled."""

    name: str = "simulated"
    """`simulated`, `simulated_coder` (for `repair`), `simulated_tables` (for `tables`), `smollm2`, `openai:MODEL` (any
    compatible URL), `anthropic:MODEL`, or `package.module:Class`. With weights that can be trained: `pocket:base`,
    `pocket:instruct`, `local:FOLDER`, `local:smollm2`, `simulated_formats` (for `formats`)."""
    url: str | None = None
    """Base URL of an OpenAI-compatible server, for example http://127.0.0.1:8000/v1."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the key; for `anthropic:MODEL` the default means ANTHROPIC_API_KEY. Keys are
    never written in a config."""
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    """Sampling temperature; at 0 the likeliest token is taken."""
    max_tokens: int = Field(default=64, ge=1, le=131072)
    """Longest reply."""
    timeout_s: float = Field(default=60.0, gt=0.0)
    """Longest wait for one reply; then the next attempt begins."""
    retries: int = Field(default=4, ge=0, le=20)
    """Attempts after the first, on 429, 5xx, time-out and disconnect."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments of the model itself."""

    @field_validator("url")
    @classmethod
    def _holds_no_secret(cls, url: str | None) -> str | None:
        """The url is written to disk and shown in messages."""
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("expected a url such as http://127.0.0.1:8000/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError("a url may hold no user name, password or query: keys come from the environment only")
        return url


class SolverConfig(Record):
    """What solves tasks: a model in a harness, and the candidate that it starts from."""

    model: ModelConfig = ModelConfig()
    """The solving model."""
    harness: str = "prompt"
    """`prompt`, `completion` (the task as it stands, in batches), `tool_loop` (an agent with a shell), `skilled` (the
    same, with a skill), or `package.module:Class`."""
    answer: Literal["generate", "choose"] = "generate"
    """`choose` takes the label with the highest first-token log-probability, calibrated on empty inputs."""
    instruction: str | None = None
    """Text of the start instruction; None takes the task source's own."""
    start: str | None = None
    """Folder with the start candidate, instead of `instruction`."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments of the harness itself."""


class ImproverConfig(Record):
    """What proposes changes."""

    kind: str = "demonstrations"
    """Of whole prompts: `demonstrations`, `rewrite`, `simulated`. Of agents' folders: `catalog` (a simulation of an
    improver), `llm`. Of skills and guides: `skill_catalog` (a simulation), `skill_llm`. Of weights:
    `training_catalog`, `training_llm`. Or `package.module:Class`."""
    model: ModelConfig | None = None
    """The proposing model, with the keys of `solver.model`; None means the solver's own model."""
    failures: int = Field(default=4, ge=0, le=64)
    """Failures of the incumbent on train that each proposal is shown."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments of the improver itself."""


class SearchConfig(Record):
    """How much is tried."""

    generations: int = Field(default=8, ge=1, le=10000)
    """Rounds of propose, score and decide (G)."""
    candidates: int = Field(default=4, ge=1, le=1000)
    """Proposals per generation (K)."""
    iterate: bool = True
    """False is the best-of-N arm: every proposal is made from the start, and one decision is made at the end."""
    rerun_incumbent: bool = False
    """Measure the incumbent anew in each generation, for solvers that are not deterministic."""


class GateConfig(Record):
    """The acceptance rule."""

    kind: str = "select_confirm"
    """`greedy`, `net`, `tolerance`, `mcnemar`, `pace`, `select_confirm`, `bayes_pilot`, `bayes_online`,
    `fresh`, `ladder`, `repeats`, `keep_all`, `dual_split`, `near_best`, `manifest`, `repairs_over_regressions`,
    `noise` (of trained weights), or `package.module:Class`."""
    alpha: float = Field(default=0.05, gt=0.0, lt=1.0)
    """Level of the `mcnemar` and `pace` gates."""
    require_gain: bool = True
    """Bayes gates: also demand a positive measured gain."""
    tolerance: float = Field(default=0.03, ge=0.0, le=1.0)
    """`tolerance` and `near_best` gates: the loss, as a fraction of one, that they still accept."""
    fresh: int = Field(default=32, ge=1)
    """Tasks that `fresh` takes from the select role for confirmation, beyond `tasks.select`."""
    repeats: int = Field(default=3, ge=1, le=100)
    """Repeats of each evaluation under the `repeats` gate."""
    pilot_tasks: int = Field(default=600, ge=2)
    """`bayes_pilot`: further select tasks on which the prior is estimated."""
    pilot_candidates: int = Field(default=32, ge=2)
    """`bayes_pilot`: candidates from which the prior is estimated."""
    prior: tuple[float, float] | None = None
    """(mean, standard deviation) of true gains for the Bayes gates, instead of a pilot."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments of the gate itself."""


class AuditConfig(Record):
    """The last measurement: start against final, on tasks that no decision saw."""

    auto: bool = True
    """Open the audit at the end of the run; False leaves it to `heldout audit`."""
    repeats: int = Field(default=1, ge=1, le=100)
    """Evaluations of each task on each side; the task stays the unit."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1.0)
    """Coverage that the interval of the gain is made for."""
    coverage: float = Field(default=0.8, ge=0.0, le=1.0)
    """Share of audit tasks that must be measured on both sides; below it the audit is undecided."""
    oracle: str | None = None
    """A report role (for example `gold`) on which every candidate is scored after the last decision."""


class NoiseConfig(Record):
    """The A/A check before the first gate: the start against itself."""

    tasks: int = Field(default=32, ge=0)
    """Select tasks evaluated a second time under the start; 0 turns the check off."""
    disagreement: float = Field(default=0.2, gt=0.0, le=1.0)
    """Share of tasks on which an equally good candidate differs, assumed where A/A shows less."""
    simulations: int = Field(default=2000, ge=100)
    """Simulated generations behind each gate's false-accept rate."""


class Price(Record):
    """Dollars per million tokens."""

    input: float = Field(default=0.0, ge=0.0)
    """Of the prompt."""
    output: float = Field(default=0.0, ge=0.0)
    """Of the reply."""


class BudgetConfig(Record):
    """Hard limits of the whole run; None is no limit. In-flight work counts."""

    evaluations: int | None = Field(default=None, ge=1)
    """One candidate on one task, once."""
    calls: int | None = Field(default=None, ge=1)
    """Requests to a model, retries and calibration included."""
    tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens together."""
    dollars: float | None = Field(default=None, gt=0.0)
    """At `prices`."""
    wall_s: float | None = Field(default=None, gt=0.0)
    """Elapsed seconds, over all parts of a resumed run."""
    cpu_s: float | None = Field(default=None, gt=0.0)
    """Processor seconds."""
    gpu_s: float | None = Field(default=None, gt=0.0)
    """Seconds of accelerators, summed over them."""
    prices: Mapping[str, Price] = Field(default_factory=dict)
    """Price of each model by its name; a model that is not listed is free, and the report says so."""


class ExecutorConfig(Record):
    """Where evaluations run. It changes speed, never a result."""

    kind: Literal["inline", "threads", "process"] = "inline"
    """`inline`: one at a time. `threads`: for models behind a URL. `process`: a process a job, which can be killed."""
    workers: int = Field(default=8, ge=1, le=1024)
    """Jobs in flight at once; `inline` has one."""
    timeout_s: float = Field(default=900.0, gt=0.0)
    """`process`: the job's process group is killed after this. Others rely on the model's own time-out."""


class RunConfig(Record):
    """Everything that a run depends on."""

    loop: str = "winners_curse"
    """`winners_curse`, `verse`, `gso`, `improve_any_task`; beside `gso` `one_shot_skill`, `persistent_skill`,
    `skill_frontier`, `merged_patches`, `gepa`; or `package.module:Class`."""
    seed: int = Field(default=0, ge=0)
    """Seed of everything but the tasks: proposals, halves, orders, sampling."""
    tasks: TasksConfig = TasksConfig()
    """Tasks and their roles."""
    solver: SolverConfig = SolverConfig()
    """What solves tasks."""
    improver: ImproverConfig = ImproverConfig()
    """What proposes changes."""
    search: SearchConfig = SearchConfig()
    """How much is tried."""
    gate: GateConfig = GateConfig()
    """The acceptance rule."""
    audit: AuditConfig = AuditConfig()
    """The last measurement."""
    noise: NoiseConfig = NoiseConfig()
    """The A/A check."""
    budget: BudgetConfig = BudgetConfig()
    """Hard limits."""
    executor: ExecutorConfig = ExecutorConfig()
    """Where evaluations run."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments of the loop itself."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Faults that would otherwise show only after everything was spent."""
        oracle = self.audit.oracle
        if oracle is not None and oracle not in self.tasks.reports:
            raise ValueError(f"audit.oracle names the role {oracle!r}, and tasks.reports has no such role")
        return self


def read_toml(path: Path, *, what: str = "config") -> dict[str, Any]:
    """Read a TOML file; `SetupError` names the line that does not parse. `what` it should be, for messages."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise SetupError(f"cannot read the {what} {str(path)!r}: {cause.strerror}") from cause
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise SetupError(f"{str(path)!r} is not valid TOML: {cause}") from cause


def parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """Turn `tasks.select=64 gate.kind=pace` into nested dicts; values are read as TOML, else as text."""
    result: dict[str, Any] = {}
    for word in words:
        key, sign, text = word.partition("=")
        if not sign or not key or not all(key.split(".")):
            raise SetupError(f"{word!r} is not key=value; for example tasks.select=64")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        nested: Any = value
        for part in reversed(key.split(".")):
            nested = {part: nested}
        result = merge(result, nested)
    return result


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` wins; tables merge key by key, everything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def load_config(layers: Sequence[Mapping[str, Any]]) -> RunConfig:
    """Merge the layers, lowest first, and check the result; `SetupError` lists every fault."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(merged, layer)
    try:
        return RunConfig.model_validate(merged)
    except ValidationError as cause:
        raise SetupError("the config is not valid:\n" + "\n".join(_explain(cause))) from cause


def _explain(cause: ValidationError) -> list[str]:
    lines = []
    for fault in cause.errors():
        where = [str(part) for part in fault["loc"]]
        line = f"  {'.'.join(where)}: {fault['msg']}, got {fault['input']!r}"
        if fault["type"] == "value_error":  # our own words say what is wrong; the input may hold a secret
            line = f"  {'.'.join(where) or 'config'}: {fault['msg'].removeprefix('Value error, ')}"
        if fault["type"] == "extra_forbidden":
            line = f"  {'.'.join(where)}: unknown key; allowed here: {', '.join(_allowed(where[:-1]))}"
        lines.append(line)
    return lines


def _allowed(where: Sequence[str]) -> list[str]:
    """Keys of the table at `where`; the names inside `budget.prices` are the user's own."""
    if where[:2] == ["budget", "prices"]:
        return sorted(Price.model_fields)
    model: type[Record] = RunConfig
    for part in where:
        annotation = model.model_fields[part].annotation
        options = (annotation, *get_args(annotation))
        model = next(option for option in options if isinstance(option, type) and issubclass(option, Record))
    return sorted(model.model_fields)


def config_digest(config: RunConfig) -> str:
    """Identity of what a run computes: everything but the limits and the executor, which may change on resume."""
    return digest_of(_identity(config))


def changed_keys(old: RunConfig, new: RunConfig) -> list[str]:
    """Dotted keys whose change would make the run another run."""
    return _differences(_identity(old), _identity(new), prefix="")


def _identity(config: RunConfig) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(config.model_dump_json())
    del content["executor"]
    content["budget"] = {"prices": content["budget"]["prices"]}
    for part in ("solver", "gate"):
        if not content[part]["options"]:  # a later field: where it is not used, older runs keep their identity
            del content[part]["options"]
    return content


def _differences(old: Any, new: Any, *, prefix: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for key in sorted(old.keys() | new.keys())
            for line in _differences(old.get(key), new.get(key), prefix=f"{prefix}.{key}" if prefix else key)
        ]
    return [] if old == new else [f"{prefix}: {old!r} -> {new!r}"]
