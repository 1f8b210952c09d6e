"""Views, failures, history and scripted replies for the tests of improvers of weights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from heldout.improvers.training_roles import Asset, BuildView, Diagnosis, DiagnosisView, Failed, Recipe, ResearchView
from heldout.records import Spend, TrainTask
from heldout.store.training_events import AttemptEnded, Check, Cluster

LIBRARY = """
name = "three"

[[strategy]]
id = "alpha"
source = "a report"
mechanism = "Train on alpha."
reported_gain = 10.0
reported_on = "a model"
fits = { stop = 1.0, wrapper = 0.5 }
reproduces = 0.5
data = "alpha data"
cost_s = 36.0
implementation = "low"
risk = "none"
[strategy.recipe]
builder = "formats:end"
count = 100

[[strategy]]
id = "beta"
source = "a report"
mechanism = "Train on beta."
reported_gain = 20.0
reported_on = "a model"
fits = { "*" = 0.5 }
reproduces = 0.4
data = "beta data"
cost_s = 72.0
implementation = "medium"
[strategy.recipe]
builder = "formats:mixture"
count = 100

[[strategy]]
id = "gamma"
source = "a report"
mechanism = "Train on gamma."
reported_gain = 5.0
reported_on = "a model"
fits = { wrapper = 1.0 }
reproduces = 0.8
data = "gamma data"
cost_s = 18.0
implementation = "high"
[strategy.recipe]
builder = "formats:wrapper"
count = 100
"""
"""Hand-computed, for `stop`, with the overhead of building (0.05, 0.15, 0.3): alpha 1 · 10 · 0.5 = 5 points in
36 · 1.05 = 37.8 s, 476.19 an hour; beta 0.5 · 20 · 0.4 = 4 points in 72 · 1.15 = 82.8 s, 173.91 an hour; gamma 0."""


def failed(number: int, *faults: str, **changes: Any) -> Failed:
    """A failed train task with these faults."""
    given: dict[str, Any] = {
        "task": TrainTask(id=f"t{number}", input=f"Write list {number}.", reference=f"right {number}", family="list"),
        "answer": f"wrong {number}",
        "faults": faults or ("stop",),
        "feedback": f"feedback {number}",
        "measures": {"stopped": 0.0 if "stop" in faults else 1.0, "tokens_out": 24.0},
        "solution": f"right {number}",
    }
    return Failed(**{**given, **changes})


def cluster(code: str, count: int, *, n: int = 100, **changes: Any) -> Cluster:
    """A cluster of so many of n tasks."""
    return Cluster(code=code, count=count, share=count / n, **changes)


CLUSTERS = (cluster("stop", 60), cluster("wrapper", 30), cluster("carry", 5))
FAILURES = (
    *(failed(number, "stop", "wrapper") for number in range(3)),
    *(failed(number, "stop") for number in range(3, 7)),
    *(failed(number, "wrapper") for number in range(7, 10)),
    failed(10, "carry"),
)


def ended(round: int, strategy: str, status: str, *, focal: str = "stop", **changes: Any) -> AttemptEnded:
    """How an attempt went."""
    given = {"round": round, "focal": focal, "strategy": strategy, "status": status, "reason": f"because {status}"}
    return AttemptEnded.model_validate({**given, **changes})


def took(seconds: float) -> Spend:
    """Processor time of an attempt."""
    return Spend(cpu_s=seconds)


def diagnosis_view(**changes: Any) -> DiagnosisView:
    """What a diagnostician is given."""
    given: dict[str, Any] = {
        "round": 1,
        "seed": 11,
        "description": "Follow short instructions.",
        "n": 100,
        "score": 0.05,
        "clusters": CLUSTERS,
        "failures": FAILURES,
        "history": (),
    }
    return DiagnosisView(**{**given, **changes})


def research_view(**changes: Any) -> ResearchView:
    """What a researcher is given: a problem with stopping."""
    given: dict[str, Any] = {
        "round": 1,
        "seed": 12,
        "description": "Follow short instructions.",
        "diagnosis": Diagnosis(focal="stop", why="stop: 60 of 100 tasks"),
        "clusters": CLUSTERS,
        "focal": "stop",
        "failures": FAILURES,
        "history": (),
        "tried": (),
        "assets": (),
        "budget_s": None,
        "min_strategies": 3,
    }
    return ResearchView(**{**given, **changes})


def build_view(recipe: Recipe | None = None, *, failing: Sequence[str] = (), **changes: Any) -> BuildView:
    """What a builder is given; with failing checks a first repair."""
    given: dict[str, Any] = {
        "round": 1,
        "seed": 13,
        "strategy": "end_token",
        "focal": "stop",
        "recipe": recipe or Recipe(builder="formats:end", count=512),
        "repair": 1 if failing else 0,
        "failed_checks": tuple(check(name) for name in failing),
        "errors": (),
        "failures": FAILURES,
        "assets": (),
    }
    return BuildView(**{**given, **changes})


def check(name: str, *, passed: bool = False) -> Check:
    """A check of the preflight."""
    return Check(name=name, passed=passed, found=f"found of {name}", wanted=f"wanted of {name}")


def asset(strategy: str, *, recipe: Recipe | None = None, kind: str = "data_builder", focal: str = "stop") -> Asset:
    """A validated builder, with its recipe where it is given."""
    files = {} if recipe is None else {"recipe.json": recipe.model_dump_json()}
    return Asset(name=f"{strategy} data", kind=kind, files=files, validated_on="w" * 64, strategy=strategy, focal=focal)


def diagnosing(**changes: Any) -> str:
    """A diagnostician's reply that fits."""
    said: Mapping[str, Any] = {
        "focal": "wrapper",
        "fix_rates": [{"code": "stop", "rate": 0.3}, {"code": "wrapper", "rate": 0.9}],
        "cited": ["t0", "t7", "t10", "t1", "t8"],
        "why": "Wrappers are learned from few examples.",
    }
    return json.dumps({**said, **changes})


def row(name: str, **changes: Any) -> dict[str, Any]:
    """A row of a researcher's reply, of a strategy of the library."""
    empty: dict[str, Any] = {"mechanism": "", "reported_gain": 0, "reported_on": "", "data": "", "risk": ""}
    plain = {"id": name, "fits": 0.5, "reproduces": 0.5, "why_not": f"{name} is too weak"}
    return {**plain, **empty, "implementation": "low", "cost_s": 0, "builder": "", **changes}


def own_row(name: str = "my_idea", **changes: Any) -> dict[str, Any]:
    """A row of a strategy of the model's own."""
    given: dict[str, Any] = {
        "fits": 1.0,
        "reproduces": 0.8,
        "mechanism": "Short answers, many of them.",
        "reported_gain": 15,
        "reported_on": "my estimate",
        "data": "generated",
        "implementation": "medium",
        "cost_s": 40,
        "builder": "script",
    }
    return row(name, **{**given, **changes})


def weighing(*rows: Mapping[str, Any], chosen: str = "alpha", **changes: Any) -> str:
    """A researcher's reply."""
    entries = rows or (row("alpha"), row("beta"), row("gamma"))
    return json.dumps({"strategies": entries, "chosen": chosen, "why": "It is the cheapest.", **changes})


SCRIPT = 'import sys\nopen("examples.jsonl", "w").write("{}")\n'


def building(*, script: str = SCRIPT, **changes: Any) -> str:
    """A builder's reply with a script of its own."""
    said: Mapping[str, Any] = {
        "builder": "script",
        "count": 700,
        "replay": 0.2,
        "train": {"steps": 50},
        "note": "short",
    }
    return f"{json.dumps({**said, **changes})}\n\n````python\n{script}````\n"
