"""What a policy-gradient trainer takes, when it steps and stops, and which state it goes on from."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_policies import FAST, llama, rollouts, same, weights_of
from torch import Tensor

from heldout.errors import BudgetExhausted, SetupError, StoreError
from heldout.training.policy_gradient import PolicyTrainer, UpdateSettings
from heldout.training.policy_loss import LossSettings
from heldout.training.policy_rows import PolicyRow
from heldout.training.policy_terms import AuxiliaryTerm, PolicyTerm
from heldout.training.token_scores import ScoredRow, TokenScorer


def test_weights_that_would_round_a_step_away_are_refused() -> None:
    model = llama().bfloat16()
    with pytest.raises(SetupError, match=r"is torch\.bfloat16, .* load_checkpoint\(\.\.\., dtype=\"float32\"\)"):
        PolicyTrainer(model, seed=0, optimiser=FAST)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("norm" in name)
        if "norm" in name:
            parameter.data = parameter.data.float()
    PolicyTrainer(model, seed=0, optimiser=FAST)  # what is frozen may be of any kind


def test_a_reference_is_another_model_that_knows_every_token() -> None:
    model = llama()
    with pytest.raises(SetupError, match="the reference is the model itself"):
        PolicyTrainer(model, seed=0, optimiser=FAST, reference=model)
    with pytest.raises(SetupError, match="the reference knows 9 tokens, and the model 12"):
        PolicyTrainer(model, seed=0, optimiser=FAST, reference=llama(vocab_size=9))
    PolicyTrainer(model, seed=0, optimiser=FAST, reference=llama(1))


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # peft asks for it
def test_the_weights_below_adapters_are_no_reference_while_the_adapters_are_in_them() -> None:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(llama(), LoraConfig(r=2, target_modules=["q_proj"]))
    with pytest.raises(SetupError, match="holds weights that are trained, and moves with it"):
        PolicyTrainer(model, seed=0, optimiser=FAST, reference=model.get_base_model())


def test_idle_rows_count_in_the_loss_of_every_division_into_mini_batches() -> None:
    rows = [PolicyRow((1, 2 + number), (3,), advantage) for number, advantage in enumerate((1.0, 0.0, 1.0, 0.0))]
    found = []
    for size in (None, 1):
        trainer = PolicyTrainer(llama(), seed=0, optimiser=FAST, settings=UpdateSettings(minibatch=size))
        found.append(trainer.update(PolicyTerm("p", rows, LossSettings(aggregation="sequence"))).terms[0])
    assert found[0].loss == pytest.approx(-0.5)
    assert found[1].loss == pytest.approx(-0.5, abs=0.01)  # the policy has moved between the steps
    unknown = [PolicyRow((1, 2), (3,), None)]
    assert PolicyTrainer(llama(), seed=0, optimiser=FAST).update(PolicyTerm("p", unknown)).terms[0].loss is None


def _with_momentum(model: Any, **given: Any) -> PolicyTrainer:
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, **given)
    trainer.update(PolicyTerm("p", rollouts()))
    return trainer


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_a_minibatch_whose_tokens_are_all_masked_does_not_step(kl: float) -> None:
    model = llama()
    trainer = _with_momentum(model, reference=llama(1))
    before = weights_of(model)
    rows = [PolicyRow((1, 2), (7, 8), 1.0, sampler=(math.log(0.9), math.log(0.9)))]
    report = trainer.update(PolicyTerm("p", rows, LossSettings(mismatch=0.1, kl=kl)))
    assert (report.steps, report.skipped, report.terms[0].masked) == (0, 1, 1.0)
    assert same(before, weights_of(model))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_minibatch_steps_for_a_token_with_an_advantage_or_a_divergence() -> None:
    model = llama()
    trainer = _with_momentum(model, reference=llama(1))
    honest = float(trainer.scorer.score([ScoredRow((1, 2, 7, 8), (3,))])[0])
    rows = [PolicyRow((1, 2), (7, 8), (1.0, 0.0), sampler=(math.log(0.9), honest))]
    assert trainer.update(PolicyTerm("p", rows, LossSettings(mismatch=0.1))).steps == 0
    assert trainer.update(PolicyTerm("p", rows, LossSettings(mismatch=0.1, kl=0.1))).steps == 1


def test_a_term_of_no_weight_moves_nothing() -> None:
    model = llama()
    trainer = _with_momentum(model)
    before = weights_of(model)
    extra = AuxiliaryTerm(
        "extra", [ScoredRow((1, 2), (1,))], lambda scorer, rows: scorer.logits(rows).sum(), weight=0.0
    )
    report = trainer.update(PolicyTerm("p", rollouts(), weight=0.0), extra)
    assert (report.steps, report.skipped) == (0, 1)
    assert report.terms[1].loss is not None
    assert same(before, weights_of(model))


def test_minibatches_are_counted_by_the_largest_term() -> None:
    trainer = PolicyTrainer(llama(), seed=0, optimiser=FAST, settings=UpdateSettings(minibatch=4))
    for first in ([], rollouts(4, seed=1)):
        report = trainer.update(PolicyTerm("proposal", first), PolicyTerm("actor", rollouts()))
        assert (report.steps, report.terms[1].rows) == (3, 12)


def test_an_update_that_is_stopped_leaves_the_weights_between_two_steps() -> None:
    settings = UpdateSettings(minibatch=4)
    whole, stopped = llama(), llama()
    words = iter(["", "", "the time is over"])
    trainer = PolicyTrainer(stopped, seed=0, optimiser=FAST, settings=settings)
    with pytest.raises(BudgetExhausted, match="the time is over"):
        trainer.update(PolicyTerm("p", rollouts()), stop=lambda: next(words))
    moved: list[dict[str, Tensor]] = []

    def note() -> str:
        moved.append(weights_of(whole))
        return ""

    PolicyTrainer(whole, seed=0, optimiser=FAST, settings=settings).update(PolicyTerm("p", rollouts()), stop=note)
    assert len(moved) == 3
    assert same(moved[2], weights_of(stopped))
    assert all(parameter.grad is None for parameter in stopped.parameters())


def test_an_update_tells_what_it_cost() -> None:
    report = PolicyTrainer(llama(), seed=0, optimiser=FAST).update(PolicyTerm("p", rollouts()))
    assert report.spend.wall_s > 0
    assert report.spend.cpu_s > 0
    assert report.spend.gpu_s == 0
    assert report.measures()["wall_s"] == report.spend.wall_s


OTHERS: dict[str, Callable[[], tuple[int, dict[str, Any]]]] = {
    "seed": lambda: (9, {}),
    "optimiser": lambda: (0, {"optimiser": FAST.model_copy(update={"betas": (0.5, 0.5)})}),
    "update": lambda: (0, {"settings": UpdateSettings(minibatch=1)}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_state_of_another_seed_or_other_settings_is_refused(tmp_path: Path, name: str) -> None:
    model = llama()
    _with_momentum(model).save(tmp_path / "state")
    seed, given = OTHERS[name]()
    other = PolicyTrainer(copy.deepcopy(model), seed=seed, **{"optimiser": FAST, **given})
    with pytest.raises(SetupError, match=f"state is the optimiser's state of a trainer that differs in {name}: load"):
        other.load(tmp_path / "state")
    PolicyTrainer(copy.deepcopy(model), seed=0, optimiser=FAST).load(tmp_path / "state")


def test_a_state_beside_weights_of_another_moment_is_refused(tmp_path: Path) -> None:
    model = llama()
    trainer = _with_momentum(model)
    trainer.save(tmp_path / "early")
    trainer.update(PolicyTerm("p", rollouts(seed=1)))
    trainer.save(tmp_path / "late")
    resumed = PolicyTrainer(model, seed=0, optimiser=FAST)
    with pytest.raises(SetupError, match="differs in weights: load the weights that were saved"):
        resumed.load(tmp_path / "early")
    resumed.load(tmp_path / "late")


def test_a_file_of_other_tensors_is_no_state(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / "x")
    with pytest.raises(StoreError, match="cannot read the optimiser's state x"):
        PolicyTrainer(llama(), seed=0, optimiser=FAST).load(tmp_path / "x")


@pytest.mark.parametrize("temperature", [None, 1.0, 2.0])
def test_a_further_loss_may_be_taken_at_a_temperature_of_its_own(temperature: float | None) -> None:
    model, row = llama(), ScoredRow((1, 2, 3), (2,))
    expected = model(torch.tensor([[1, 2]])).logits[0, 1] / (0.5 if temperature is None else temperature)
    found: list[Tensor] = []

    def note(scorer: TokenScorer, rows: Any) -> Tensor:
        found.append(scorer.logits(rows, temperature=temperature))
        return found[0].sum()

    settings = UpdateSettings(temperature=0.5)
    PolicyTrainer(model, seed=0, optimiser=FAST, settings=settings).update(AuxiliaryTerm("extra", [row], note))
    assert torch.allclose(found[0][0], expected, atol=1e-6)
    with pytest.raises(ValueError, match="not positive"):
        TokenScorer(model).logits([row], temperature=0.0)


@pytest.mark.parametrize("places", [(3, 5, 4), (3, 3, 4)])
def test_places_that_do_not_ascend_are_refused(places: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not ascend"):
        ScoredRow((1, 2, 3, 4, 5, 6, 7), places)
