"""The improver with a model: what it asks, what it makes of replies, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from improver_views import TRAIN, make_view, shown

from heldout.config import ImproverConfig, ModelConfig
from heldout.errors import ModelError, SetupError
from heldout.harness import read_prompt
from heldout.improvers import Failure, make_improver
from heldout.improvers.rewrite import RewriteImprover, cleaned, leak
from heldout.models import Reply, Request, make_model
from heldout.records import Proposal, TrainTask
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer

BETTER = "Name what the question asks for: animal, place or time."


@dataclass
class SaidModel:
    """Answers every request with the same words."""

    text: str
    finish_reason: str = "stop"
    asked: list[Request] = field(default_factory=list)
    name: str = "said"
    fingerprint: str = "said"
    deterministic: bool = True
    can_choose: bool = False
    simulated: bool = False

    def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        return Reply(text=self.text, finish_reason=self.finish_reason, tokens_in=80, tokens_out=12, calls=2)

    def close(self) -> None:
        pass


def rewrite(text: str, *, finish_reason: str = "stop", **options: Any) -> Proposal:
    config = ImproverConfig(kind="rewrite", options=options)
    return RewriteImprover(config, SaidModel(text, finish_reason)).propose(make_view(*shown(0, 1)))


def test_the_model_sees_the_task_the_incumbent_and_every_failure_of_the_view() -> None:
    model = SaidModel(BETTER)
    failures = [Failure(task, "time") for task in TRAIN[:5]] + [Failure(TRAIN[5], None)]
    view = make_view(instruction="Sort it.", failures=failures, seed=77)
    make_improver(ImproverConfig(kind="rewrite", options={"temperature": 0.5}), model=model).propose(view)
    request = model.asked[0]
    text = request.messages[-1].content
    assert (request.seed, request.temperature, len(model.asked)) == (77, 0.5, 1)
    assert "Sort questions by what they ask for." in text
    assert "animal, place, time" in text
    assert "Sort it." in text
    assert [f"question number {i}\n" in text for i in range(6)] == [True] * 6
    assert "It answered: time\n  Right: animal" in text


def test_a_rewrite_replaces_the_instruction_and_keeps_the_examples() -> None:
    proposal = rewrite(f'Here is the new instruction:\n\n"{BETTER}"')
    assert proposal.error is None
    assert read_prompt(proposal.files or {}).instruction == BETTER
    assert list(read_prompt(proposal.files or {}).demonstrations) == shown(0, 1)
    assert proposal.note == f"rewrite: {BETTER}"
    assert (proposal.spend.calls, proposal.spend.tokens_in, proposal.spend.tokens_out) == (2, 80, 12)


@pytest.mark.parametrize(
    ("text", "finish_reason", "error"),
    [
        ("", "stop", "no instruction"),
        (" \n\n", "stop", "no instruction"),
        ("```\n\n```", "stop", "no instruction"),
        ("person", "stop", "no instruction"),
        ("word " * 201, "stop", "201 words, more than improver.options.max_words = 200"),
        (BETTER, "length", "cut off"),
    ],
)
def test_unusable_replies_are_invalid_proposals_that_were_paid_for(text: str, finish_reason: str, error: str) -> None:
    proposal = rewrite(text, finish_reason=finish_reason)
    assert proposal.files is None
    assert error in (proposal.error or "")
    assert proposal.spend.calls == 2


@pytest.mark.parametrize(
    "reply",
    [
        BETTER,
        f"  {BETTER}\n",
        f"```\n{BETTER}\n```",
        f"```markdown\n{BETTER}\n```",
        f"“{BETTER}”",
        f"**{BETTER}**",
        f"Here is a better instruction:\n{BETTER}",
        f"Here's the rewritten instruction: {BETTER}",
        f"Sure! Here is one:\n\n{BETTER}",
        f"New instruction: {BETTER}",
        f"Instruction:\n```\n{BETTER}\n```",
        f'Certainly. The new instruction is as follows:\n\n"{BETTER}"',
    ],
)
def test_wrapping_is_taken_off(reply: str) -> None:
    assert cleaned(reply) == BETTER


@pytest.mark.parametrize(
    "instruction",
    [
        'Answer "yes" or "no" only, as in "yes"',
        "Here you see a question; name its type: animal, place or time.",
        "Classify the following question:\n- by animal\n- by place",
    ],
)
def test_an_instruction_of_its_own_form_stays(instruction: str) -> None:
    assert cleaned(instruction) == instruction


def test_a_train_task_word_for_word_is_a_leak_and_short_ones_are_not() -> None:
    long = TrainTask(id="long", input="Which old bridge in Oslo was closed in 1931?", reference="place")
    short = TrainTask(id="short", input="Who was it then, exactly, my friend?", reference="person")
    quoted = 'For example "which old bridge in Oslo,\nwas closed in 1931" asks for a place.'
    assert leak(quoted, [short, long]) == long
    assert leak("Who was it then, exactly, my friend? A person.", [short, long]) is None
    assert leak("Which old bridge in Oslo was closed in 19315?", [long]) is None
    view = make_view()
    view = type(view)(**{**{name: getattr(view, name) for name in view.__slots__}, "train": (long,)})
    proposal = RewriteImprover(ImproverConfig(kind="rewrite"), SaidModel(quoted)).propose(view)
    assert proposal.files is None
    assert proposal.error == "leak: contains train task 'long' word for word"


def test_it_needs_a_model_and_known_options() -> None:
    with pytest.raises(SetupError, match=r"set improver\.model"):
        make_improver(ImproverConfig(kind="rewrite"))
    with pytest.raises(SetupError, match="allowed are temperature, max_words"):
        rewrite(BETTER, failures=3)


def test_a_proposal_is_a_record_that_crosses_the_disk() -> None:
    proposal = rewrite(BETTER)
    assert Proposal.model_validate(json.loads(proposal.model_dump_json())) == proposal


def test_over_http_a_reply_becomes_a_candidate_and_a_fault_an_error() -> None:
    replies = [ScriptedReply(f"```\n{BETTER}\n```", usage=(120, 15)), "", ScriptedReply(status=400)]
    with ScriptedServer(replies) as server:
        model = make_model(ModelConfig(name="openai:writer", url=server.url, retries=0, max_tokens=90))
        improver = make_improver(ImproverConfig(kind="rewrite"), model=model)
        view = make_view(failures=[Failure(TRAIN[0], "time")], seed=5)
        proposal = improver.propose(view)
        assert proposal is not None
        assert read_prompt(proposal.files or {}).instruction == BETTER
        assert (proposal.spend.tokens_in, proposal.spend.tokens_out) == (120, 15)
        body = server.requests[0].body
        assert (body["model"], body["seed"], body["temperature"], body["max_tokens"]) == ("writer", 5, 0.7, 90)
        assert [message["role"] for message in body["messages"]] == ["system", "user"]
        empty = improver.propose(view)
        assert empty is not None
        assert empty.error is not None
        assert empty.files is None
        with pytest.raises(ModelError):
            improver.propose(view)
        model.close()


@pytest.mark.model
def test_smollm2_writes_an_instruction_or_an_invalid_proposal() -> None:
    pytest.importorskip("xllamacpp")
    model = make_model(ModelConfig(name="smollm2", max_tokens=40, options={"threads": 1}))
    try:
        improver = make_improver(ImproverConfig(kind="rewrite"), model=model)
        view = make_view(failures=[Failure(TRAIN[0], "time")])
        proposal = improver.propose(view)
        assert proposal is not None
        assert (proposal.files is None) == (proposal.error is not None)
        assert proposal.spend.tokens_in > 100
        assert proposal.spend.tokens_out > 0
        if proposal.files is not None:
            assert read_prompt(proposal.files).instruction != "Classify."
    finally:
        model.close()
