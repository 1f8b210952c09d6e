"""Updates by policy gradients on tiny random models: terms, mini-batches, optimiser, reference, what is refused."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_policies import FAST, VOCABULARY, gradients_of, llama, plain_log_probs, rollouts, same, weights_of
from torch import Tensor, nn

from heldout.errors import SetupError, StoreError, TrainingError
from heldout.training.advantages import group_advantages
from heldout.training.data import AdmissionPolicy
from heldout.training.examples import Provenance
from heldout.training.policy_gradient import PolicyTrainer, UpdateSettings
from heldout.training.policy_loss import LossSettings
from heldout.training.policy_rows import PolicyRow
from heldout.training.policy_terms import AuxiliaryTerm, PolicyTerm
from heldout.training.settings import OptimiserSettings
from heldout.training.token_scores import ScoredRow, TokenScorer


def _hold(scorer: TokenScorer, rows: Any) -> Tensor:
    """One-sided: no probability of token 5 below a tenth, at the first place after the prompt."""
    logits = scorer.logits([ScoredRow((*prompt, 5), (len(prompt),)) for prompt in rows])
    return torch.relu(math.log(0.1) - torch.log_softmax(logits, -1)[:, 5]).square().mean()


def test_several_losses_are_added_in_one_step() -> None:
    model, actor, proposals = llama(), rollouts(8), rollouts(4, seed=5)
    prompts = [row.prompt for row in proposals]

    def policy(rows: list[PolicyRow]) -> list[Tensor]:
        scores = [plain_log_probs(model, row) for row in rows]
        return [-(one - one.detach()).exp() * row.advantage for one, row in zip(scores, rows, strict=True)]

    joint = torch.cat(policy(actor)).mean()
    joint = joint + 0.5 * torch.stack([one.mean() for one in policy(proposals)]).mean()
    extra = torch.stack([torch.log_softmax(model(torch.tensor([p])).logits[0, -1], -1)[5] for p in prompts])
    joint = joint + 3.0 * torch.relu(math.log(0.1) - extra).square().mean()
    joint.backward()
    norm = float(gradients_of(model).norm())
    model.zero_grad()

    report = PolicyTrainer(model, seed=0, optimiser=FAST).update(
        PolicyTerm("actor", actor),
        PolicyTerm("proposal", proposals, LossSettings(aggregation="sequence"), weight=0.5),
        AuxiliaryTerm("support", prompts, _hold, weight=3.0),
    )
    assert report.steps == 1
    assert report.gradient_norm == pytest.approx(norm, rel=1e-4)
    assert [term.name for term in report.terms] == ["actor", "proposal", "support"]
    measures = report.measures()
    assert measures["support/loss"] > 0
    assert measures["actor/entropy"] == pytest.approx(math.log(VOCABULARY), abs=0.1)
    assert "actor/kl" not in measures, "a divergence that nobody asked for was reported"


def test_minibatches_hold_every_row_once_an_epoch_and_split_the_other_terms_evenly() -> None:
    seen: list[list[int]] = []

    def note(scorer: TokenScorer, numbers: Any) -> Tensor:
        seen.append(list(numbers))
        return 0.0 * scorer.logits([ScoredRow((1, 2), (1,))]).sum()

    model = llama()
    settings = UpdateSettings(minibatch=5, epochs=2)
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=settings)
    report = trainer.update(PolicyTerm("actor", rollouts(12)), AuxiliaryTerm("extra", list(range(7)), note))
    assert report.steps == 6
    assert [len(part) for part in seen] == [2, 3, 2] * 2
    assert sorted(seen[0] + seen[1] + seen[2]) == list(range(7))
    assert seen[0] + seen[1] + seen[2] != list(range(7)), "nothing was shuffled"
    assert (report.terms[0].rows, report.terms[1].rows) == (12, 7)
    again = seen.copy()
    seen.clear()
    PolicyTrainer(llama(), seed=0, optimiser=FAST, settings=settings).update(
        PolicyTerm("actor", rollouts(12)), AuxiliaryTerm("extra", list(range(7)), note)
    )
    assert seen == again, "the order does not follow from the seed alone"


def test_minibatches_keep_the_rollouts_of_a_prompt_together_in_a_shuffled_order() -> None:
    rows = [PolicyRow((1, 1 + number // 2), (3,), float(number)) for number in range(16)]
    parts = PolicyTerm("policy", rows).split(4, np.random.default_rng(0))
    assert [len(part.rows) for part in parts] == [4] * 4
    assert all(len({row.prompt for row in part.rows}) == 2 for part in parts)
    found = [row.advantage for part in parts for row in part.rows]
    assert found != sorted(found)  # type: ignore[type-var]
    assert set(found) == set(range(16))


OURS = Provenance(task="t1", role="train", model="m1", harness={"prompt": "p1", "tools": "x1"}, score=0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"harness": {"prompt": "p1", "tools": "x2"}}, "differ in 'tools'"),
        ({"model": "m2"}, "written by several models"),
        ({"role": "select"}, "of the role 'select'; only train and built"),
        ({"task": ""}, "an example of 'm1' has a provenance without a task"),
    ],
)
def test_rollouts_that_may_not_be_learned_from_together_are_refused_before_any_step(
    change: dict[str, Any], message: str
) -> None:
    model = llama()
    before = weights_of(model)
    rows = [replace(row, origin=OURS) for row in rollouts()]
    mixed = [*rows[:-1], replace(rows[-1], origin=OURS.model_copy(update=change))]
    with pytest.raises(SetupError, match=f"the rollouts are refused: .*{message}"):
        PolicyTrainer(model, seed=0, optimiser=FAST).update(
            PolicyTerm("actor", rollouts()), PolicyTerm("policy", mixed)
        )
    with pytest.raises(SetupError, match="1 of 12 rows have no origin; others do"):
        PolicyTrainer(model, seed=0, optimiser=FAST).update(
            PolicyTerm("policy", [*rows[:-1], replace(rows[-1], origin=None)])
        )
    assert same(before, weights_of(model))
    assert PolicyTrainer(model, seed=0, optimiser=FAST).update(PolicyTerm("policy", rows)).steps == 1


def test_two_terms_may_have_harnesses_of_their_own_and_a_policy_may_let_one_mix_them() -> None:
    rows = [replace(row, origin=OURS) for row in rollouts()]
    others = [replace(row, origin=OURS.model_copy(update={"harness": {"prompt": "p2"}})) for row in rollouts(seed=1)]
    trainer = PolicyTrainer(llama(), seed=0, optimiser=FAST)
    assert trainer.update(PolicyTerm("actor", rows), PolicyTerm("proposal", others)).steps == 1
    loose = AdmissionPolicy(mixed_harness=True)
    assert trainer.update(PolicyTerm("policy", [*rows, *others]), admission=loose).steps == 1


def test_matrices_decay_and_gains_do_not() -> None:
    results = []
    for decay in (0.0, 0.5):
        model = llama()
        rate = FAST.model_copy(update={"weight_decay": decay})
        PolicyTrainer(model, seed=0, optimiser=rate).update(PolicyTerm("policy", rollouts()))
        results.append(weights_of(model))
    assert {name for name, one in results[0].items() if torch.equal(one, results[1][name])} == {
        name for name in results[0] if "norm" in name
    }


def test_every_update_has_an_order_of_its_own_and_a_resumed_one_the_same(tmp_path: Path) -> None:
    seen: list[int] = []

    def note(scorer: TokenScorer, numbers: Any) -> Tensor:
        seen.extend(numbers)
        return 0.0 * scorer.logits([ScoredRow((1, 2), (1,))]).sum()

    def order(trainer: PolicyTrainer) -> list[int]:
        seen.clear()
        trainer.update(AuxiliaryTerm("extra", list(range(12)), note))
        return seen.copy()

    settings = UpdateSettings(minibatch=4)
    trainer, resumed = (PolicyTrainer(llama(), seed=0, optimiser=FAST, settings=settings) for _ in range(2))
    first = order(trainer)
    trainer.save(tmp_path / "state")
    second = order(trainer)
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second
    resumed.load(tmp_path / "state")
    assert order(resumed) == second


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # peft asks for it
def test_adapters_have_the_weights_below_them_as_reference() -> None:
    from peft import LoraConfig, get_peft_model

    base = llama()
    frozen = weights_of(base)
    torch.manual_seed(0)
    model = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.5))
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST)
    assert trainer.scorer.trees
    reports = [trainer.update(PolicyTerm("policy", rollouts(), LossSettings(kl=0.1))).terms[0] for _ in range(3)]
    assert reports[0].kl == pytest.approx(0.0, abs=1e-7)
    assert reports[2].kl is not None
    assert reports[2].kl > 1e-6
    after = {name.replace(".base_layer", ""): one for name, one in model.get_base_model().state_dict().items()}
    assert same(frozen, after)


def test_no_gradient_reaches_the_reference_and_its_bytes_stay() -> None:
    reference = llama(seed=3)
    before = weights_of(reference)
    trainer = PolicyTrainer(llama(), seed=0, optimiser=FAST, reference=reference)
    report = trainer.update(PolicyTerm("policy", rollouts(), LossSettings(kl=0.1)))
    assert report.terms[0].kl is not None
    assert report.terms[0].kl > 0
    assert same(before, weights_of(reference))
    assert all(parameter.grad is None for parameter in reference.parameters())


def test_there_is_no_dropout_and_the_model_is_given_back_as_it_was() -> None:
    model = llama(attention_dropout=0.5).train()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(epochs=1))
    twin = copy.deepcopy(model).eval()
    trainer.update(PolicyTerm("policy", rollouts()))
    PolicyTrainer(twin, seed=0, optimiser=FAST).update(PolicyTerm("policy", rollouts()))
    assert model.training
    assert same(weights_of(model), weights_of(twin))


def test_a_saved_optimiser_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    settings = UpdateSettings(minibatch=5)
    rate = OptimiserSettings(learning_rate=0.01, schedule="cosine", warmup=0.2)

    def trainer(model: nn.Module) -> PolicyTrainer:
        return PolicyTrainer(model, seed=4, optimiser=rate, settings=settings, horizon=20)

    model = llama()
    whole = trainer(model)
    whole.update(PolicyTerm("policy", rollouts()))
    for name in ("a", "b"):
        whole.save(tmp_path / name)
    middle = copy.deepcopy(model)
    last = whole.update(PolicyTerm("policy", rollouts(seed=1)))
    resumed = trainer(middle)
    resumed.load(tmp_path / "a")
    again = resumed.update(PolicyTerm("policy", rollouts(seed=1)))
    assert again.model_copy(update={"spend": last.spend}) == last
    assert same(weights_of(model), weights_of(middle))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(SetupError, match="of another model"):
        PolicyTrainer(llama(hidden_size=32), seed=0, optimiser=FAST).load(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"no tensors")
    with pytest.raises(StoreError, match="cannot read the optimiser's state a"):
        resumed.load(tmp_path / "a")
    with pytest.raises(StoreError, match="cannot write"):
        resumed.save(tmp_path / "nowhere" / "a")


def test_the_rate_rises_and_falls_over_the_horizon() -> None:
    rate = OptimiserSettings(learning_rate=1.0, schedule="linear", warmup=0.5)
    trainer = PolicyTrainer(llama(), seed=0, optimiser=rate, horizon=4)
    found = [trainer.update(PolicyTerm("policy", rollouts(4))).learning_rate for _ in range(5)]
    assert found == pytest.approx([1 / 3, 2 / 3, 1.0, 0.5, 0.0])


def test_a_loss_that_is_not_finite_ends_the_update_before_it_spoils_the_weights() -> None:
    model = llama()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(old="sampler"))
    before = weights_of(model)
    row = PolicyRow((1, 2), (3,), -1.0, sampler=(-1e4,))
    with pytest.raises(TrainingError, match="the loss of 'policy' is inf"):
        trainer.update(PolicyTerm("fine", rollouts(sampler=True)), PolicyTerm("policy", [row]))
    assert same(before, weights_of(model))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_gradient_that_is_not_finite_ends_the_update_too() -> None:
    def steep(scorer: TokenScorer, rows: Any) -> Tensor:
        logits = scorer.logits([ScoredRow(tuple(one), (1,)) for one in rows])
        return (logits - logits.detach()).sqrt().sum()

    model = llama()
    before = weights_of(model)
    with pytest.raises(TrainingError, match="the norm of the gradient is"):
        PolicyTrainer(model, seed=0, optimiser=FAST).update(AuxiliaryTerm("steep", [(1, 2)], steep))
    assert same(before, weights_of(model))


def test_what_cannot_work_is_told() -> None:
    model = llama()
    with pytest.raises(SetupError, match="needs a horizon"):
        PolicyTrainer(model, seed=0, optimiser=OptimiserSettings())
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST)
    with pytest.raises(SetupError, match="kl > 0 needs a reference"):
        trainer.update(PolicyTerm("policy", rollouts(), LossSettings(kl=0.1)))
    with pytest.raises(SetupError, match="12 of 12 rows have no `sampler` log-probabilities; they are asked for"):
        trainer.update(PolicyTerm("policy", rollouts(), LossSettings(mismatch=0.1)))
    asked = [PolicyRow((1,), (2,), 1.0, sampler=(-1.0,))]
    with pytest.raises(SetupError, match="a mismatch of the two is never found: set old = 'recompute'"):
        PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(old="sampler")).update(
            PolicyTerm("policy", asked, LossSettings(mismatch=0.1))
        )
    mixed = [PolicyRow((1,), (2,), 1.0, reference=(-1.0,)), PolicyRow((1,), (3,), -1.0)]
    with pytest.raises(SetupError, match="1 of 2 rows have no `reference` log-probabilities; others do"):
        trainer.update(PolicyTerm("policy", mixed, LossSettings(kl=0.1)))
    unknown = [PolicyRow((1,), (2,), 1.0, sampler=(-math.inf,))]
    with pytest.raises(SetupError, match="no old log-probability"):
        PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(old="sampler")).update(
            PolicyTerm("policy", unknown)
        )
    with pytest.raises(ValueError, match="without terms"):
        trainer.update()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(SetupError, match="no weight of the model"):
        PolicyTrainer(model, seed=0, optimiser=FAST)


@pytest.mark.parametrize("token", [VOCABULARY, 10**6, -1])
@pytest.mark.parametrize("place", ["prompt", "response"])
def test_a_token_outside_the_vocabulary_is_refused_before_any_step(token: int, place: str) -> None:
    model = llama()
    before = weights_of(model)
    row = PolicyRow(**{"prompt": (1, 2), "response": (3, 4), "advantage": 1.0, place: (1, token)})
    with pytest.raises(SetupError, match=f"holds the token {token}, and the model's vocabulary is 0 to 11"):
        PolicyTrainer(model, seed=0, optimiser=FAST).update(PolicyTerm("policy", [*rollouts(), row]))
    assert same(before, weights_of(model))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prompt": ()}, "without a prompt"),
        ({"mask": (True,)}, "1 values of `mask` for a response of 2"),
        ({"advantage": (1.0,)}, "1 values of `advantage`"),
        ({"advantage": math.nan}, "is not a number"),
        ({"mask": [True]}, "1 values of `mask`"),
        ({"clip_high": -0.5}, "clip_high -0.5 is no bound"),
        ({"clip_high": math.nan}, "clip_high nan is no bound"),
        ({"sampler": (-1.0, 0.4)}, "0.4 in `sampler` is no natural logarithm"),
        ({"sampler": (math.nan, -1.0)}, "nan in `sampler`"),
        ({"reference": (math.nan, -1.0)}, "nan in `reference`"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyRow(**{"prompt": (1,), "response": (2, 3), "advantage": 1.0, **given})


def test_a_token_that_is_rewarded_becomes_likely() -> None:
    model = llama()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST)
    chance = torch.Generator().manual_seed(0)
    prompts = [(1, 2), (3, 4, 5)]

    def probability() -> float:
        scores = trainer.scorer.score([ScoredRow((*prompt, 7), (len(prompt),)) for prompt in prompts])
        return float(torch.cat(scores).exp().mean())

    start = probability()
    for _ in range(25):
        with torch.no_grad():
            tables = [model(torch.tensor([prompt])).logits[0, -1].softmax(-1) for prompt in prompts]
        drawn = [torch.multinomial(table, 16, replacement=True, generator=chance).tolist() for table in tables]
        rewards = [float(token == 7) for tokens in drawn for token in tokens]
        advantages = group_advantages(rewards, [number // 16 for number in range(32)]).rows()
        answered = [(prompt, token) for prompt, tokens in zip(prompts, drawn, strict=True) for token in tokens]
        trainer.update(
            PolicyTerm(
                "policy",
                [PolicyRow(p, (token,), a) for (p, token), a in zip(answered, advantages, strict=True)],
            )
        )
    assert start < 0.15
    assert probability() > 0.7
