"""The prompt harness: messages, calibration by hand, bounds, and what it refuses."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from heldout.config import ModelConfig, SolverConfig
from heldout.errors import HarnessError, ModelError, SetupError
from heldout.harness import CONTENT_FREE, Demonstration, Episode, Preparation, Prompt, PromptHarness, make_harness
from heldout.harness.prompt import fixed_messages
from heldout.models.base import Reply, Request
from heldout.models.simulated import SimulatedModel, answer_key
from heldout.records import Candidate, Task
from heldout.worlds.questions import QuestionsSource

TASK = Task(id="t", input="Who came?")
SHOWN = (Demonstration(input="Where?", output="no"), Demonstration(input="Who?", output="yes"))


@dataclass
class ListedModel:
    """A model whose log-probabilities are listed by input."""

    logprobs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    text: str = " person \n"
    can_choose: bool = True
    asked: list[Request] = field(default_factory=list)
    name: str = "listed"
    fingerprint: str = "listed"
    deterministic: bool = True
    simulated: bool = False

    def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        found = self.logprobs.get(request.messages[-1].content)
        return Reply(text=self.text, tokens_in=7, tokens_out=2, choice_logprobs=found)

    def close(self) -> None:
        pass


def candidate(*demonstrations: Demonstration) -> Candidate:
    return Candidate(files=Prompt("Say who.", demonstrations).files())


def test_messages_are_instruction_then_examples_as_turns_then_the_input() -> None:
    model = ListedModel()
    PromptHarness().run(candidate(*SHOWN), TASK, Episode(model, 5, Preparation()))
    request = model.asked[0]
    assert [(message.role, message.content) for message in request.messages] == [
        ("system", "Say who."),
        ("user", "Where?"),
        ("assistant", "no"),
        ("user", "Who?"),
        ("assistant", "yes"),
        ("user", "Who came?"),
    ]
    assert (request.seed, request.max_tokens, request.choices) == (5, 64, ())


def test_generate_answers_with_the_stripped_text_and_an_empty_reply_is_no_answer() -> None:
    harness = PromptHarness(max_tokens=9)
    done = harness.run(candidate(), TASK, Episode(ListedModel(), 3, Preparation()))
    assert (done.answer, done.seed, done.model, done.harness) == ("person", 3, "listed", harness.fingerprint)
    assert (done.spend.calls, done.spend.tokens_in, done.spend.tokens_out) == (1, 7, 2)
    assert harness.run(candidate(), TASK, Episode(ListedModel(text=" \n"), 0, Preparation())).answer is None
    assert harness.prepare(candidate(), ListedModel()) == Preparation()


def test_choose_subtracts_the_mean_over_content_free_inputs() -> None:
    free = {"N/A": {"yes": -1.0, "no": -2.0}, "": {"yes": -0.5, "no": -3.0}, "[MASK]": {"yes": -0.3, "no": -4.0}}
    model = ListedModel(logprobs={**free, "Who came?": {"yes": -0.7, "no": -2.0}})
    harness = PromptHarness(answer="choose", labels=("yes", "no"))
    prepared = harness.prepare(candidate(), model)
    # Means: yes −0.6, no −3.0. Raw scores favour yes (−0.7 > −2.0), calibrated ones no (1.0 > −0.1).
    assert prepared.values == pytest.approx({"yes": -0.6, "no": -3.0})
    assert prepared.spend.calls == 3
    assert [request.messages[-1].content for request in model.asked] == list(CONTENT_FREE)
    assert harness.run(candidate(), TASK, Episode(model, 0, prepared)).answer == "no"
    uncalibrated = Preparation(values={"yes": 0.0, "no": 0.0})
    assert harness.run(candidate(), TASK, Episode(model, 0, uncalibrated)).answer == "yes"
    assert model.asked[-1].choices == ("yes", "no")
    assert model.asked[-1].max_tokens == 1


def test_a_label_that_no_content_free_input_reported_does_not_always_win() -> None:
    free = {text: {"yes": -1.0, "no": -100.0} for text in CONTENT_FREE}
    model = ListedModel(logprobs={**free, "Who came?": {"yes": -0.5, "no": -100.0}})
    harness = PromptHarness(answer="choose", labels=("no", "yes"))
    prepared = harness.prepare(candidate(), model)
    assert prepared.values == pytest.approx({"yes": -1.0, "no": -15.0})
    # Calibrated: yes 0.5, no −15 + 15 = 0.
    assert harness.run(candidate(), TASK, Episode(model, 0, prepared)).answer == "yes"


def test_a_tie_goes_to_the_first_label() -> None:
    model = ListedModel(logprobs={"Who came?": {"yes": -1.0, "no": -1.0}})
    prepared = Preparation(values={"yes": -2.0, "no": -2.0})
    harness = PromptHarness(answer="choose", labels=("no", "yes"))
    assert harness.run(candidate(), TASK, Episode(model, 0, prepared)).answer == "no"


def test_missing_log_probabilities_are_not_measured_rather_than_wrong() -> None:
    harness = PromptHarness(answer="choose", labels=("yes", "no"))
    prepared = Preparation(values={"yes": 0.0, "no": 0.0})
    for found in ({}, {"Who came?": {"yes": -1.0}}):
        with pytest.raises(ModelError, match="log-probabilities of 2 labels"):
            harness.run(candidate(), TASK, Episode(ListedModel(logprobs=found), 0, prepared))


def test_choose_is_refused_without_labels_or_without_a_model_that_can() -> None:
    with pytest.raises(SetupError, match="closed set of labels"):
        PromptHarness(answer="choose")
    with pytest.raises(SetupError, match="'listed' cannot give"):
        PromptHarness(answer="choose", labels=("a",)).prepare(candidate(), ListedModel(can_choose=False))


def test_the_bound_covers_what_is_spent() -> None:
    harness = PromptHarness(max_tokens=11)
    task = Task(id="t", input="Où est-ce ?")
    bound = harness.bound(candidate(*SHOWN), task, ListedModel())
    texts = ["Say who.", "Where?", "no", "Who?", "yes", "Où est-ce ?"]
    assert bound.tokens_in == sum(len(text.encode()) for text in texts) + 6 * 16
    assert (bound.calls, bound.tokens_out) == (1, 11)
    choosing = PromptHarness(answer="choose", labels=("a", "b"), max_tokens=64)
    assert choosing.bound(candidate(), TASK, ListedModel()).tokens_out == 1


def test_a_folder_that_cannot_be_read_is_a_harness_error_before_and_while_it_runs() -> None:
    harness = PromptHarness()
    bad = Candidate(files={"instruction.md": "Say.", "demonstrations.jsonl": '{"input": "x"}\n'})
    with pytest.raises(HarnessError, match=r"demonstrations\.jsonl, line 1"):
        harness.run(bad, TASK, Episode(ListedModel(), 0, Preparation()))
    with pytest.raises(HarnessError, match=r"demonstrations\.jsonl, line 1"):
        harness.bound(bad, TASK, ListedModel())


def test_the_fingerprint_tells_settings_apart_and_survives_pickling() -> None:
    made = [
        PromptHarness(),
        PromptHarness(max_tokens=65),
        PromptHarness(answer="choose", labels=("a", "b")),
        PromptHarness(answer="choose", labels=("b", "a")),
    ]
    assert len({harness.fingerprint for harness in made}) == 4
    assert PromptHarness(labels=("a",)).fingerprint == PromptHarness().fingerprint
    assert pickle.loads(pickle.dumps(made[2])).fingerprint == made[2].fingerprint


def test_make_harness_reads_the_solver_config() -> None:
    harness = make_harness(SolverConfig(answer="choose", model=ModelConfig(max_tokens=5)), labels=("a", "b"))
    assert harness.fingerprint == PromptHarness(answer="choose", labels=("a", "b")).fingerprint
    with pytest.raises(SetupError, match="no harness 'prompter'"):
        make_harness(SolverConfig(harness="prompter"), labels=())


def test_choosing_on_the_simulated_model_finds_its_answer() -> None:
    items = QuestionsSource(items=60, ood=0).items()
    model = SimulatedModel(ModelConfig(), answer_key(items))
    choose = PromptHarness(answer="choose", labels=QuestionsSource.labels)
    generate = PromptHarness()
    prepared = choose.prepare(candidate(*SHOWN), model)
    assert prepared.values == pytest.approx(dict.fromkeys(QuestionsSource.labels, -math.log(6)))
    for item in items:
        task = Task(id=item.id, input=item.input)
        chosen = choose.run(candidate(*SHOWN), task, Episode(model, 0, prepared)).answer
        assert chosen == generate.run(candidate(*SHOWN), task, Episode(model, 0, Preparation())).answer
    assert len(fixed_messages(candidate(*SHOWN))) == 5


@pytest.mark.slow
def test_the_harness_costs_less_than_an_eight_thousandth_of_a_second() -> None:
    items = QuestionsSource(items=600, ood=0).items()
    model = SimulatedModel(ModelConfig(), answer_key(items))
    harness = PromptHarness(answer="choose", labels=QuestionsSource.labels)
    episode = Episode(model, 0, harness.prepare(candidate(*SHOWN), model))
    tasks = [Task(id=item.id, input=item.input) for item in items]
    begun = time.process_time()
    for task in tasks:
        harness.run(candidate(*SHOWN), task, episode)
    assert len(tasks) / (time.process_time() - begun) > 8000
