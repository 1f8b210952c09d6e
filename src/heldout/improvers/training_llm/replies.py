"""What a reply of a role holds, read with patience, or what is wrong with it in words for the model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from heldout.config import merge
from heldout.improvers.reading import Reading, as_words, fenced, json_objects, without_reasoning
from heldout.improvers.training_llm.prompts import SETTABLE
from heldout.improvers.training_roles import Diagnosis, Recipe
from heldout.store.training_events import Cluster
from heldout.training import TrainConfig
from heldout.training.data_script import script_fault

__all__ = [
    "MOST_EXAMPLES",
    "SCRIPT",
    "Built",
    "Table",
    "TableRow",
    "diagnosis_schema",
    "read_built",
    "read_diagnosis",
    "read_table",
    "table_schema",
]

SCRIPT = "script"
"""Name that stands for a data builder that the model writes itself."""

MOST_EXAMPLES = 16_384
_ID = re.compile(r"[\w-]{1,60}")
_EFFORTS: tuple[Literal["low", "medium", "high"], ...] = ("low", "medium", "high")
_MOST_POINTS = 100.0


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a researcher's table; of a strategy of the library only the first four fields say anything."""

    id: str
    fits: float
    reproduces: float
    why_not: str
    mechanism: str = ""
    reported_gain: float = 0.0
    reported_on: str = ""
    data: str = ""
    implementation: str = "low"
    cost_s: float = 0.0
    risk: str = ""
    builder: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """What a researcher answered."""

    rows: tuple[TableRow, ...]
    chosen: str
    why: str


@dataclass(frozen=True, slots=True)
class Built:
    """What a builder answered; no recipe where it gives up."""

    recipe: Recipe | None
    note: str


def diagnosis_schema() -> dict[str, Any]:
    """The form of a diagnosis."""
    rate = _object({"code": {"type": "string"}, "rate": {"type": "number"}})
    return _object(
        {
            "focal": {"type": "string"},
            "fix_rates": {"type": "array", "items": rate},
            "cited": {"type": "array", "items": {"type": "string"}},
            "why": {"type": "string"},
        }
    )


def table_schema() -> dict[str, Any]:
    """The form of a table of strategies. No field may be absent or null, which not every server's strict mode knows."""
    words, number = {"type": "string"}, {"type": "number"}
    row = {
        **dict.fromkeys(("id", "why_not", "mechanism", "reported_on", "data", "risk", "builder"), words),
        **dict.fromkeys(("fits", "reproduces", "reported_gain", "cost_s"), number),
        "implementation": {"type": "string", "enum": list(_EFFORTS)},
    }
    return _object({"strategies": {"type": "array", "items": _object(row)}, "chosen": words, "why": words})


def read_diagnosis(text: str, *, clusters: Sequence[Cluster], shown: Sequence[str], least: int) -> Reading[Diagnosis]:
    """The first JSON object with a focal problem, checked against the clusters and the failures that were shown."""
    found = _first(text, {"focal", "fix_rates"})
    if found is None:
        return Reading(fault="It holds no JSON object with the fields focal, fix_rates, cited, why.")
    codes = {cluster.code.casefold(): cluster.code for cluster in clusters}
    focal = codes.get(as_words(found.get("focal")).casefold())
    if focal is None:
        return Reading(fault=f"focal is one of {', '.join(codes.values())}, and was {_short(found.get('focal'))}.")
    rates = {}
    for code, value in _rates(found.get("fix_rates")):
        known, rate = codes.get(code.casefold()), _share(value)
        if known is None:
            return Reading(fault=f"fix_rates names {_short(code)}; the clusters are {', '.join(codes.values())}.")
        if rate is None:
            return Reading(fault=f"The fix rate of {code} is a number from 0 to 1, and was {_short(value)}.")
        rates[known] = rate
    said = found.get("cited")
    named = [as_words(one) for one in said] if isinstance(said, list) else []
    cited = tuple(dict.fromkeys(one for one in named if one in shown))
    wanted = min(least, len(shown))
    if len(cited) < wanted:
        return Reading(
            fault=f"cited holds {len(cited)} ids of failures that were shown, and {wanted} are asked for; they are "
            f"{', '.join(shown)}."
        )
    return Reading(Diagnosis(fix_rates=rates, focal=focal, cited=cited, why=as_words(found.get("why"))))


def read_table(text: str, *, library: Sequence[str], builders: Sequence[str], least: int) -> Reading[Table]:
    """The first JSON object with strategies: at least `least` different ones, those that the library does not have
    with everything that a row needs."""
    found = _first(text, {"strategies"})
    entries = found.get("strategies") if found is not None else None
    if found is None or not isinstance(entries, list):
        return Reading(fault="It holds no JSON object with the fields strategies, chosen, why.")
    rows: dict[str, TableRow] = {}
    for entry in entries:
        row = _row(entry, library, builders)
        if isinstance(row, str):
            return Reading(fault=row)
        rows.setdefault(row.id, row)
    if len(rows) < least:
        return Reading(fault=f"It weighs {len(rows)} different strategies, and {least} are asked for.")
    chosen = as_words(found.get("chosen"))
    if chosen not in rows:
        return Reading(fault=f"chosen is one of {', '.join(rows)}, and was {_short(chosen)}.")
    return Reading(Table(tuple(rows.values()), chosen, as_words(found.get("why"))))


def read_built(text: str, *, before: Recipe, settings: TrainConfig, builders: Sequence[str]) -> Reading[Built]:
    """The first JSON object with a recipe, and the script in a fence where it is to have one.

    A field that is missing stays as in `before`. The builder is one of `builders`: a path of Python is never taken
    from a model.
    """
    found = _first(text, {"builder", "count", "params", "replay", "train", "give_up"})
    if found is None:
        return Reading(fault="It holds no JSON object with the fields builder, count, params, replay, train, note.")
    note = as_words(found.get("note"))
    if found.get("give_up") is True:
        return Reading(Built(None, note))
    builder = as_words(found.get("builder", before.builder or SCRIPT))
    if builder not in builders:
        return Reading(fault=f"builder is one of {', '.join(builders)}, and was {_short(builder)}.")
    script, fault = _script(text, before) if builder == SCRIPT else ("", "")
    train = found.get("train", before.train)
    fault = fault or _train_fault(train, settings)
    if fault:
        return Reading(fault=fault)
    try:
        recipe = Recipe(
            builder="" if builder == SCRIPT else builder,
            count=min(MOST_EXAMPLES, found.get("count", before.count)),
            params=found.get("params", before.params) if builder != SCRIPT else {},
            script=script,
            replay=found.get("replay", before.replay),
            train=train,
        )
    except (ValidationError, TypeError) as cause:
        return Reading(fault=f"The recipe is not valid: {_first_line(cause)}.")
    return Reading(Built(recipe, note))


def _first(text: str, names: set[str]) -> Mapping[str, Any] | None:
    return next((one for one in json_objects(without_reasoning(text)) if one.keys() & names), None)


def _rates(value: Any) -> list[tuple[str, Any]]:
    """Pairs of code and rate, of a list of objects or of one object."""
    if isinstance(value, Mapping):
        return [(str(code), rate) for code, rate in value.items()]
    entries = value if isinstance(value, list) else []
    return [(as_words(one.get("code")), one.get("rate")) for one in entries if isinstance(one, Mapping)]


def _row(entry: Any, library: Sequence[str], builders: Sequence[str]) -> TableRow | str:
    """A row, or what is wrong with it."""
    if not isinstance(entry, Mapping):
        return f"strategies holds {_short(entry)}; each is an object with id, fits, reproduces, why_not."
    name = as_words(entry.get("id"))
    fits, reproduces = _share(entry.get("fits")), _share(entry.get("reproduces"))
    if fits is None or reproduces is None:
        return f"fits and reproduces of {_short(name)} are numbers from 0 to 1."
    if name in library:
        return TableRow(name, fits, reproduces, as_words(entry.get("why_not")))
    gain, cost = _number(entry.get("reported_gain")), _number(entry.get("cost_s"))
    effort, builder = as_words(entry.get("implementation")).casefold(), as_words(entry.get("builder"))
    if not _ID.fullmatch(name):
        return f"The id {_short(name)} is none; an id has letters, digits, - and _, at most 60."
    if gain is None or not 0.0 <= gain <= _MOST_POINTS or cost is None or cost <= 0.0:
        return f"{name} is your own: its reported_gain is 0 to 100 points, and its cost_s more than 0."
    if effort not in _EFFORTS:
        return f"implementation of {name} is one of {', '.join(_EFFORTS)}, and was {_short(effort)}."
    if builder not in builders:
        return f"builder of {name} is one of {', '.join(builders)}, and was {_short(builder)}."
    texts = {key: as_words(entry.get(key)) for key in ("why_not", "mechanism", "reported_on", "data", "risk")}
    if not texts["mechanism"]:
        return f"{name} is your own and says no mechanism."
    return TableRow(
        id=name,
        fits=fits,
        reproduces=reproduces,
        reported_gain=gain,
        cost_s=cost,
        implementation=effort,
        builder=builder,
        **texts,
    )


def _script(text: str, before: Recipe) -> tuple[str, str]:
    """The script in the only fence that holds no JSON, else the one before; and what is wrong with it."""
    _, blocks, fault = fenced(without_reasoning(text))
    programs = [block for block in blocks if not block.lstrip().startswith("{")]
    if fault or len(programs) > 1:
        return "", fault or f"It holds {len(programs)} scripts in fences; one is asked for."
    script = f"{programs[0].strip()}\n" if programs and programs[0].strip() else before.script
    if not script:
        return "", "builder is script, and there is no script in a fence of four backticks."
    wrong = script_fault(script)
    return ("", f"{wrong[:1].upper()}{wrong[1:]}.") if wrong else (script, "")


def _train_fault(train: Any, settings: TrainConfig) -> str:
    if not isinstance(train, Mapping):
        return f"train is an object of settings, and was {_short(train)}."
    odd = sorted(str(key) for key in train.keys() - set(SETTABLE))
    if odd:
        return f"train holds {', '.join(odd)}; allowed are {', '.join(SETTABLE)}."
    if train.get("template") is not None:  # it would be rendered here, and a loop in it never ends
        return "train.template is null: the chat template of evaluation is the tokenizer's own."
    try:
        TrainConfig.model_validate(merge(settings.model_dump(), train))
    except ValidationError as cause:
        return f"train is not valid: {_first_line(cause)}."
    return ""


def _first_line(cause: ValidationError | TypeError) -> str:
    if isinstance(cause, TypeError):
        return str(cause)
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in cause.errors()[:3])


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _share(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and 0.0 <= number <= 1.0 else None


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": dict(properties),
    }


def _short(value: Any) -> str:
    return repr(value)[:80]
