"""Small runs of the loop over weights on the simulated learner, with trainers and evaluators that do what a test says.

A run takes about a second: a hundred examples, two dozen tasks of each role, and a learner that learns fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from heldout.config import ImproverConfig, RunConfig, load_config
from heldout.errors import ModelError, need
from heldout.gates import GenerationTable
from heldout.gates.evidence import Judgement, Winner
from heldout.gates.rule import BestGainRule
from heldout.harness.base import Episode
from heldout.harness.completion import CompletionHarness
from heldout.improvers.training_catalog import TrainingCatalog
from heldout.improvers.training_roles import BuildView, Diagnosis, DiagnosisView, RecipePlan, Research, ResearchView
from heldout.models import Model
from heldout.records import Candidate, Task, Trajectory, Verdict
from heldout.store import RunFolder, read_events
from heldout.store.events import Event
from heldout.store.toml import toml_text
from heldout.tasks.examples import BuildRequest, Pair
from heldout.training import Fitted, TrainConfig, TrainingJob, Watch
from heldout.training.simulated import SimulatedTrainer
from heldout.workbench import Opening, resume, run
from heldout.worlds.formats.builders import end, mixture

LEARNS_FAST = {"learning": {"speed": 40.0, "noise": 0.0}}

TINY: Mapping[str, Any] = {
    "loop": "improve_any_task",
    "tasks": {
        "source": "formats",
        "train": 32,
        "select": 32,
        "audit": 24,
        "reports": {"retain": 12},
        "options": {"items": 120, "retain": 40},
    },
    "solver": {
        "model": {"name": "simulated_formats", "max_tokens": 48, "options": LEARNS_FAST},
        "harness": "completion",
    },
    "improver": {"kind": "training_catalog"},
    "search": {"generations": 1, "candidates": 1},
    "gate": {"kind": "net"},
    "noise": {"tasks": 4, "simulations": 100},
    "options": {
        "train": {"steps": 60},
        "preflight": {"steps": 15, "answers": 8, "examples": 8},
        "training_noise": False,
        "min_strategies": 1,
    },
}

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "end": {"builder": "formats:end", "count": 96},
    "mixture": {"builder": "formats:mixture", "count": 96},
    "long": {"builder": "formats:narrow", "count": 96, "train": {"steps": 1200}},
    "leak_select": {"builder": "formats:leak", "count": 96},
    "other_template": {
        "builder": "formats:end",
        "count": 96,
        "train": {
            "template": "{% for message in messages %}### {{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
            "{% if add_generation_prompt %}### assistant: {% endif %}"
        },
    },
    "huge_rate": {"builder": "formats:mixture", "count": 96, "train": {"optimiser": {"learning_rate": 9000.0}}},
    "nothing": {"builder": "weights_world:nothing", "count": 96},
    "same_data": {"builder": "weights_world:same_data", "count": 96},
    "yields": {"builder": "weights_world:yields", "count": 96},
    "leaves": {"builder": "weights_world:leaves", "count": 96},
    "seen": {"builder": "weights_world:seen_request", "count": 96},
}
"""By the id of a strategy. `huge_rate` is too much even after two repairs; `long` forgets everything else."""

Doing = Callable[[TrainingJob, Fitted | None], Fitted | None]
"""(job, None) before a training, and (job, what it gave) after it -> what it gives instead, or None. May raise."""

DOINGS: list[Doing] = []
"""What `DoctoredTrainer` does beside training; `start` sets it."""

OUTAGES: list[Callable[[Candidate, Task], str]] = []
"""Why `OutageHarness` cannot ask a model, or nothing; `start` sets it."""

VIEWS: list[DiagnosisView | ResearchView | BuildView] = []
"""Every view that a `SeeingCatalog` was handed since the last `start`."""

IMPROVERS: list[TrainingCatalog] = []
"""Every `SeeingCatalog` since the last `start`."""

JOBS: list[TrainingJob] = []
"""Every job of a `DoctoredTrainer` since the last `start`."""


class DoctoredTrainer(SimulatedTrainer):
    """The simulated trainer, with accidents."""

    def fit(self, job: TrainingJob, watch: Watch) -> Fitted:
        JOBS.append(job)
        for doing in DOINGS:
            doing(job, None)
        fitted = super().fit(job, watch)
        for doing in DOINGS:
            fitted = doing(job, fitted) or fitted
        return fitted


class OutageHarness(CompletionHarness):
    """The completion harness, on a machine that fails for some."""

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        if why := next((said for out in OUTAGES if (said := out(candidate, task))), ""):
            raise ModelError(why)
        return super().run(candidate, task, episode)


class SeeingCatalog(TrainingCatalog):
    """The catalogue, which keeps what it is shown."""

    def __init__(self, config: ImproverConfig, model: Model | None = None) -> None:
        super().__init__(config, model)
        IMPROVERS.append(self)

    def diagnose(self, view: DiagnosisView) -> Diagnosis:
        VIEWS.append(view)
        return super().diagnose(view)

    def research(self, view: ResearchView) -> Research:
        VIEWS.append(view)
        return super().research(view)

    def build(self, view: BuildView) -> RecipePlan:
        VIEWS.append(view)
        return super().build(view)


def nothing(request: BuildRequest) -> Sequence[Pair]:
    """A data builder that finds no data."""
    del request
    return ()


def same_data(request: BuildRequest) -> Sequence[Pair]:
    """The same examples whenever it is asked."""
    return end(request.model_copy(update={"seed": 5, "failures": ()}))


def yields(request: BuildRequest) -> Iterator[Pair]:
    """One after the other."""
    yield from end(request)


def leaves(request: BuildRequest) -> Sequence[Pair]:
    """Wants the process to end."""
    sys.exit(request.count)


def seen_request(request: BuildRequest) -> Sequence[Pair]:
    """Keeps what a data builder is handed."""
    REQUESTS.append(request)
    return mixture(request)


REQUESTS: list[BuildRequest] = []
"""Of `seen_request`, since the last `start`."""


def library(path: Path, *ids: str, recipes: Mapping[str, Mapping[str, Any]] = RECIPES) -> Path:
    """A library of these strategies, the first of which promises most."""
    entries = [
        {
            "id": name,
            "source": "a test",
            "mechanism": f"Train on {name}.",
            "reported_gain": 20.0 - 2.0 * place,
            "reported_on": "invented",
            "fits": {"*": 0.9},
            "reproduces": 0.5,
            "data": "generated",
            "cost_s": 0.1,
            "implementation": "low",
            "recipe": dict(recipes[name]),
        }
        for place, name in enumerate(ids)
    ]
    path.write_text(toml_text({"name": "test", "strategy": entries}))
    return path


def start(
    tmp_path: Path,
    *ids: str,
    over: Sequence[Mapping[str, Any]] = (),
    recipes: Mapping[str, Mapping[str, Any]] = RECIPES,
) -> RunConfig:
    """The config of a run with these strategies, and all that tests set behind it set back."""
    for kept in (DOINGS, OUTAGES, VIEWS, IMPROVERS, JOBS, REQUESTS):
        kept.clear()
    strategies = library(tmp_path / "library.toml", *ids, recipes=recipes)
    return load_config([TINY, {"improver": {"options": {"library": str(strategies)}}}, *over])


def play(tmp_path: Path, *ids: str, over: Sequence[Mapping[str, Any]] = (), name: str = "run") -> RunFolder:
    """A whole run with these strategies."""
    return finish(start(tmp_path, *ids, over=over), tmp_path / name)


def finish(config: RunConfig, path: Path) -> RunFolder:
    """A whole run."""
    return run(config, Opening(path, command="heldout run test"))


DOCTORED: Mapping[str, Any] = {"options": {"backend": "weights_world:DoctoredTrainer"}}
OUT: Mapping[str, Any] = {"solver": {"harness": "weights_world:OutageHarness"}}
SEEING: Mapping[str, Any] = {"improver": {"kind": "weights_world:SeeingCatalog"}}


def rounds(count: int) -> Mapping[str, Any]:
    """So many rounds."""
    return {"search": {"generations": count}}


def events(folder: RunFolder) -> list[Event]:
    return list(read_events(folder.events))


def of_kind(folder: RunFolder, kind: str) -> list[Mapping[str, Any]]:
    """Data of every event of a kind, in order."""
    return [event.data for event in events(folder) if event.kind == kind]


def attempts(folder: RunFolder) -> list[Mapping[str, Any]]:
    """How each round ended."""
    return of_kind(folder, "attempt")


def start_weights(folder: RunFolder) -> str:
    """Digest of the weights that the run began with."""
    (first,) = (one for one in of_kind(folder, "candidate") if one.get("parent") is None)
    weights = folder.load(first["digest"]).weights
    assert weights is not None
    return weights


def head(folder: RunFolder) -> str:
    """Digest of the candidate that the journal leaves at the head."""
    moved = of_kind(folder, "track.moved")
    (first,) = (one for one in of_kind(folder, "candidate") if one.get("parent") is None)
    return str(moved[-1]["target"] if moved else first["digest"])


def finished(folder: RunFolder) -> Mapping[str, Any]:
    """The end of the search."""
    return of_kind(folder, "run.finished")[-1]


def finish_again(folder: RunFolder) -> RunFolder:
    """Resume a run."""
    return resume(Opening(folder.path, command="again", resume=True))


class Lacking(SimulatedTrainer):
    """A trainer whose library nobody has."""

    def ready(self, config: TrainConfig) -> None:
        need({"full": "trl_of_tomorrow"}[config.method], extra="trl")


class Bare:
    """Trains, by its own word, and can hardly do anything."""

    trains = True

    def __init__(self, config: ImproverConfig, model: Model | None = None) -> None:
        self.asked = (config, model)

    def diagnose(self, view: DiagnosisView) -> Diagnosis:
        return Diagnosis(why=f"round {view.round}")

    def build(self, view: BuildView) -> RecipePlan:
        return RecipePlan(note=view.strategy)


class Never(BestGainRule):
    """A gate that rejects everything."""

    name: ClassVar[str] = "never"

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:
        del winner, table
        return Judgement(Verdict.REJECT, "never")
