"""Rows of rollouts: whose they are, at which temperature, of how many turns, and which are no part of a step."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_policies import FAST, llama, rollouts, same, weights_of

from heldout.errors import SetupError
from heldout.models.base import ReplyTokens
from heldout.training.data import AdmissionPolicy
from heldout.training.examples import Provenance
from heldout.training.policy_gradient import PolicyTrainer, UpdateSettings
from heldout.training.policy_loss import LossSettings
from heldout.training.policy_rows import PolicyRow, episode_rows
from heldout.training.policy_terms import PolicyTerm

OURS = Provenance(task="t1", role="train", model="m1", harness={"prompt": "p1"}, score=0.0)


def _of(origin: Provenance | None, seed: int = 0) -> list[PolicyRow]:
    return [replace(row, origin=origin) for row in rollouts(seed=seed)]


def test_one_policy_sampled_for_every_term_of_a_step() -> None:
    trainer = PolicyTrainer(llama(), seed=0, optimiser=FAST)
    other = OURS.model_copy(update={"model": "m2", "harness": {"prompt": "p2"}})
    terms = (PolicyTerm("actor", _of(OURS)), PolicyTerm("proposal", _of(other, 1)))
    with pytest.raises(SetupError, match=r"the rollouts are refused: .*written by several models"):
        trainer.update(*terms)
    assert trainer.update(*terms, admission=AdmissionPolicy(mixed_models=True)).steps == 1
    with pytest.raises(SetupError, match="12 of 24 rows have no origin; others do"):
        trainer.update(terms[0], PolicyTerm("proposal", rollouts(seed=1)))


def test_each_update_names_the_policy_and_the_harness_that_its_rollouts_come_from() -> None:
    model = llama()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST)
    assert trainer.update(PolicyTerm("p", _of(OURS)), admission=AdmissionPolicy(model="m1")).steps == 1
    before = weights_of(model)
    with pytest.raises(SetupError, match="not all written by 'm2'"):
        trainer.update(PolicyTerm("p", _of(OURS)), admission=AdmissionPolicy(model="m2"))
    for asked in (AdmissionPolicy(model="m1"), AdmissionPolicy(harness=OURS.harness)):
        with pytest.raises(SetupError, match="12 of 12 rows have no origin, and the admission asks for a harness or"):
            trainer.update(PolicyTerm("p", rollouts()), admission=asked)
    assert same(before, weights_of(model))


def test_rollouts_of_another_temperature_are_refused() -> None:
    rows = [replace(row, temperature=0.7) for row in rollouts()]
    with pytest.raises(SetupError, match=r"sampled at the temperature 0\.7, and the update is made at 1\.0"):
        PolicyTrainer(llama(), seed=0, optimiser=FAST).update(PolicyTerm("a", rollouts()), PolicyTerm("b", rows))
    greedy = [replace(row, temperature=0.0) for row in rollouts()]
    with pytest.raises(SetupError, match=r"sampled at the temperature 0\.0, and the update is made at 1\.0"):
        PolicyTrainer(llama(), seed=0, optimiser=FAST).update(PolicyTerm("policy", greedy))
    warm = PolicyTrainer(llama(), seed=0, optimiser=FAST, settings=UpdateSettings(temperature=0.7))
    assert warm.update(PolicyTerm("a", rollouts()), PolicyTerm("b", rows)).steps == 1


def _reply(prompt: tuple[int, ...], ids: tuple[int, ...], temperature: float = 0.7) -> ReplyTokens:
    logprobs = tuple(-float(token) for token in ids)
    return ReplyTokens(prompt=prompt, ids=ids, logprobs=logprobs, temperature=temperature)


def test_an_episode_is_one_row_with_its_observations_masked() -> None:
    turns = [_reply((1, 2), (3, 4)), _reply((1, 2, 3, 4, 9, 8), (5,)), _reply((1, 2, 3, 4, 9, 8, 5), (6, 7))]
    (row,) = episode_rows(turns, 0.5, clip_high=0.3, origin=OURS)
    assert row == PolicyRow(
        (1, 2),
        (3, 4, 9, 8, 5, 6, 7),
        0.5,
        mask=(True, True, False, False, True, True, True),
        sampler=(-3.0, -4.0, 0.0, 0.0, -5.0, -6.0, -7.0),
        clip_high=0.3,
        temperature=0.7,
        origin=OURS,
    )


@pytest.mark.parametrize(
    "third",
    [
        _reply((1, 9), (6, 7)),  # a context that was cut
        _reply((1, 2, 3, 9, 9, 5, 8), (6, 7)),  # one that was read into other tokens
        _reply((1, 2, 3, 9, 5, 8), (6, 7), temperature=1.0),
    ],
)
def test_a_prompt_that_does_not_go_on_begins_a_row(third: ReplyTokens) -> None:
    first, second = episode_rows([_reply((1, 2), (3,)), _reply((1, 2, 3, 9), (5,)), third], None)
    assert (first.prompt, first.response, first.mask) == ((1, 2), (3, 9, 5), (True, False, True))
    assert (second.prompt, second.response, second.mask) == (third.prompt, (6, 7), (True, True))
    assert (second.sampler, second.temperature) == ((-6.0, -7.0), third.temperature)


def test_an_episode_without_a_reply_has_no_row() -> None:
    assert episode_rows([], 1.0) == ()


@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
def test_a_row_without_a_written_token_is_counted_and_in_no_mean(aggregation: Any) -> None:
    loss = LossSettings(aggregation=aggregation, length=8 if aggregation == "constant" else None)
    empty = [PolicyRow((1, 2), (5, 6), 1.0, mask=(False, False)), PolicyRow((1, 2), (), 0.0)]
    results = []
    for extra in ([], empty):
        model = llama()
        report = PolicyTrainer(model, seed=0, optimiser=FAST).update(PolicyTerm("p", [*rollouts(), *extra], loss))
        assert (report.terms[0].rows, report.terms[0].empty) == (12 + len(extra), len(extra))
        assert (report.terms[0].missing, report.terms[0].idle) == (0, 0)
        results.append((weights_of(model), report.terms[0].loss))
    assert same(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    only = PolicyTrainer(llama(), seed=0, optimiser=FAST).update(PolicyTerm("p", empty, loss))
    assert (only.steps, only.skipped, only.terms[0].empty) == (0, 1, 2)


def test_a_row_longer_than_the_context_is_refused() -> None:
    model = llama()  # of 64 positions
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST)
    before = weights_of(model)
    with pytest.raises(SetupError, match=r"a row has 65 tokens, and the model's context is 64"):
        trainer.update(PolicyTerm("p", [PolicyRow((1, 2), (7,) * 63, 1.0)]))
    assert same(before, weights_of(model))
    assert trainer.update(PolicyTerm("p", [PolicyRow((1, 2), (7,) * 62, 1.0)])).steps == 1


@pytest.mark.parametrize(
    ("old", "parts", "epochs"),
    [("recompute", None, 1), ("recompute", 4, 2), ("recompute", None, 3), ("sampler", None, 2)],
)
def test_the_disagreement_of_trainer_and_sampler_is_told_as_it_was_before_the_policy_moved(
    old: Any, parts: int | None, epochs: int
) -> None:
    rows = rollouts(sampler=True)
    if old == "recompute":
        rows = [replace(row, sampler=None if place % 3 == 0 else row.sampler) for place, row in enumerate(rows)]
    model = llama()
    settings = UpdateSettings(old=old, minibatch=parts, epochs=epochs, tokens_per_forward=30)
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=settings)
    given = [row for row in rows if row.sampler is not None]
    scored = torch.cat(trainer.scorer.score([row.scored for row in given])).exp()
    told = torch.tensor([row.sampler[place] for row in given if row.sampler for place in row.written]).exp()
    report = trainer.update(PolicyTerm("p", rows)).terms[0]
    assert report.compared == len(told)
    assert report.disagreement == pytest.approx(float((scored - told).abs().mean()), abs=1e-6)
    assert report.masked is None


def test_a_disagreement_with_nobody_is_none() -> None:
    report = PolicyTrainer(llama(), seed=0, optimiser=FAST).update(PolicyTerm("p", rollouts())).terms[0]
    assert (report.compared, report.disagreement) == (0, None)


def test_observations_have_no_say_in_what_a_row_may_carry() -> None:
    row = PolicyRow((1,), (2, 3), 1.0, mask=(False, True), sampler=(math.nan, -1.0), reference=(0.5, 5e-5))
    assert row.written == (1,)
