"""A plug-in model that serves weights, and a plug-in harness that answers in batches: their guards hide neither."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "loops"))

from run_events import of_kind
from weights_world import TINY

from heldout.config import ModelConfig, load_config
from heldout.errors import HarnessError, ModelError, SetupError
from heldout.harness import CompletionHarness, Episode, Preparation
from heldout.models import Message, Model, Reply, Request
from heldout.records import Candidate, Task, Trajectory
from heldout.store import RunFolder, WeightsStore
from heldout.testing import FunctionModel, PlainHarness
from heldout.workbench import Opening, run
from heldout.workbench.guards import GuardedHarness, GuardedModel, guard_harness, guard_model
from heldout.worlds.formats.learner import FormatsLearner

BATCHES: list[int] = []
"""Sizes of the batches that `Batches` was given, since the test that asks cleared it."""

REQUESTS = [Request(messages=(Message(role="user", content=text),)) for text in ("a", "b")]
TASKS = [Task(id=text, input=text) for text in ("a", "b")]


class Learner(FormatsLearner):
    """A simulated learner of a user's own."""

    def __init__(self, config: ModelConfig, **extra: Any) -> None:
        super().__init__(config.model_copy(update={"name": "simulated_formats"}), **extra)


class Batches(CompletionHarness):
    """A harness of a user's own."""

    def run_batch(
        self, candidate: Candidate, tasks: Sequence[Task], episodes: Sequence[Episode]
    ) -> Sequence[Trajectory]:
        BATCHES.append(len(tasks))
        return super().run_batch(candidate, tasks, episodes)


class Serving(FunctionModel):
    """A plug-in model; `says` is what its calls give or raise."""

    serves_weights = True
    trainer = "simulated"
    says: Any = None

    def complete_batch(self, requests: Sequence[Request]) -> Any:
        return self._say([self.complete(request) for request in requests])

    def serve(self, store: WeightsStore) -> Any:
        return self._say(store.root.name)

    def _say(self, usual: Any) -> Any:
        if isinstance(self.says, Exception):
            raise self.says
        return usual if self.says is None else self.says


class OnAccelerators(Serving):
    @property
    def accelerators(self) -> int:
        return int(self._say(2))


class BatchesOf8(PlainHarness):
    batch = 8

    def run_batch(self, candidate: Candidate, tasks: Sequence[Task], episodes: Sequence[Episode]) -> Any:
        answers = [self.run(candidate, task, episode) for task, episode in zip(tasks, episodes, strict=True)]
        return {"none": None, "few": answers[1:], "odd": ["odd", *answers[1:]]}.get(candidate.name, answers)


class Named(Candidate):
    name: str = ""


def guarded(model: Model) -> GuardedModel:
    found = guard_model(model)
    assert isinstance(found, GuardedModel)
    return found


def serving(says: Any = None, kind: type[Serving] = Serving) -> GuardedModel:
    inner = kind(lambda request: request.messages[-1].content.upper())
    inner.says = says
    return guarded(inner)


def trained(folder: Path, *over: dict[str, Any]) -> RunFolder:
    return run(load_config([TINY, *over]), Opening(folder, command="heldout run test"))


def test_a_run_trains_a_plug_in_model_through_a_plug_in_harness_like_the_built_in_ones(tmp_path: Path) -> None:
    BATCHES.clear()
    plug_ins = {"solver": {"model": {"name": f"{__name__}:Learner"}, "harness": f"{__name__}:Batches"}}
    built_in, plugged = trained(tmp_path / "built_in"), trained(tmp_path / "plugged", plug_ins)
    assert max(BATCHES) == 32, "the tasks of a sweep were not asked at once"
    scores = [
        [(data["candidate"], data["task"], data["score"]) for data in of_kind(one, "outcome")]
        for one in (built_in, plugged)
    ]
    assert scores[0] == scores[1]
    assert of_kind(plugged, "run.finished")[0]["final"] == of_kind(built_in, "run.finished")[0]["final"]
    assert len({data["candidate"] for data in of_kind(plugged, "outcome")}) > 1, "nothing was trained"


def test_a_model_that_serves_weights_still_does(tmp_path: Path) -> None:
    model = serving()
    assert (model.serves_weights, model.trainer, model.accelerators) == (True, "simulated", 0)
    assert serving(kind=OnAccelerators).accelerators == 2
    assert model.serve(WeightsStore(tmp_path)) == tmp_path.name
    assert [reply.text for reply in model.complete_batch(REQUESTS)] == ["A", "B"]
    assert model.complete(REQUESTS[0]).text == "A"


class NoTrainer(FunctionModel):
    serves_weights = True


class SubclassOfFunction(FunctionModel):
    """Like most plug-ins, without weights."""


def test_a_model_without_weights_serves_none_and_one_without_a_trainer_is_told() -> None:
    plain = guarded(SubclassOfFunction(lambda _request: "a"))
    assert (plain.serves_weights, plain.trainer, plain.accelerators) == (False, "", 0)
    with pytest.raises(AttributeError, match="trainer"):
        guard_model(NoTrainer(lambda _request: "a"))


def test_a_guarded_model_goes_to_a_worker_process() -> None:
    model = pickle.loads(pickle.dumps(guarded(Learner(ModelConfig(name="x")))))
    assert (model.serves_weights, model.trainer) == (True, "simulated")
    assert len(model.complete_batch(REQUESTS)) == 2


Ask = Callable[[GuardedModel, WeightsStore], object]


def ask_batch(model: GuardedModel, _store: WeightsStore) -> object:
    return model.complete_batch(REQUESTS)


def ask_serve(model: GuardedModel, store: WeightsStore) -> object:
    return model.serve(store)


@pytest.mark.parametrize(
    ("ask", "says", "told"),
    [
        (ask_batch, RuntimeError("full"), "the model 'function' raised: RuntimeError: full"),
        (ask_batch, 3, "the model 'function' raised: TypeError"),
        (ask_batch, [Reply(text="a")], "the model 'function' returned 1 replies to 2 requests"),
        (ask_batch, [Reply(text="a"), "b"], r"the model 'function' returned 'b', not a heldout\.models\.Reply"),
        (ask_serve, OSError("no disk"), "the model 'function' raised when it was given a store of weights: OSError"),
        (ask_serve, 7, "the model 'function' returned 7, not the digest of its start weights"),
        (lambda model, _: model.accelerators, ValueError("x"), "asked for its accelerators: ValueError: x"),
    ],
)
def test_faults_of_a_model_that_serves_weights_are_model_errors(
    tmp_path: Path, ask: Ask, says: object, told: str
) -> None:
    with pytest.raises(ModelError, match=told):
        ask(serving(says, OnAccelerators), WeightsStore(tmp_path))


def test_what_a_person_can_mend_passes_the_guard(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"config\.json is missing"):
        serving(SetupError("config.json is missing")).serve(WeightsStore(tmp_path))


class TestHarness:
    EPISODES = (Episode(FunctionModel(lambda request: request.messages[-1].content), 0, Preparation()),) * 2

    @staticmethod
    def guarded(harness: PlainHarness) -> GuardedHarness:
        found = guard_harness(harness, name="mine")
        assert isinstance(found, GuardedHarness)
        return found

    def ask(self, name: str) -> Sequence[Trajectory]:
        candidate = Named(files={"instruction.md": "x"}, name=name)
        return self.guarded(BatchesOf8()).run_batch(candidate, TASKS, self.EPISODES)

    def test_its_batches_pass_through(self) -> None:
        assert self.guarded(BatchesOf8()).batch == 8
        assert [one.answer for one in self.ask("")] == ["a", "b"]

    def test_one_that_says_nothing_takes_its_tasks_one_by_one(self) -> None:
        class Single(PlainHarness):
            pass

        assert self.guarded(Single()).batch == 1

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("none", "the harness 'mine' raised: TypeError"),
            ("few", "the harness 'mine' returned 1 trajectories of 2 tasks"),
            ("odd", r"the harness 'mine' returned 'odd', not a heldout\.records\.Trajectory"),
        ],
    )
    def test_faults_are_harness_errors(self, name: str, told: str) -> None:
        with pytest.raises(HarnessError, match=told):
            self.ask(name)


class OneByOne(CompletionHarness):
    """Changes what an episode does; the batches that it inherits know nothing of that."""

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        raise ModelError(f"{candidate.digest} does not answer {task.id} ({episode.seed})")


def test_a_harness_that_changes_run_alone_is_never_asked_in_batches() -> None:
    inner = CompletionHarness()
    assert guard_harness(inner, name="ours") is inner
    assert inner.batch > 1
    guarded_one = guard_harness(OneByOne(), name="one by one")
    assert isinstance(guarded_one, GuardedHarness)
    assert guarded_one.batch == 1
    both = guard_harness(Batches(), name="both")
    assert isinstance(both, GuardedHarness)
    assert both.batch == inner.batch
