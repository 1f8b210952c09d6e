"""Our loss and gradient against those of TRL's GRPOTrainer on the same rollouts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from heldout.training.advantages import group_advantages
from heldout.training.pocket_tokenizer import pocket_tokenizer
from heldout.training.policy_loss import LossSettings
from heldout.training.policy_rows import PolicyRow, Scoring
from heldout.training.policy_terms import PolicyTerm
from heldout.training.token_scores import TokenScorer

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

pytestmark = pytest.mark.filterwarnings("ignore:`(is_)?gradient_checkpointing` is deprecated:FutureWarning")  # TRL

CASES: dict[str, tuple[dict[str, Any], LossSettings]] = {
    "grpo": ({"loss_type": "grpo"}, LossSettings(aggregation="sequence")),
    "dapo, wider above": (
        {"loss_type": "dapo", "epsilon_high": 0.272},
        LossSettings(aggregation="token", clip_high=0.272),
    ),
    "dr_grpo, divergence": (
        {"loss_type": "dr_grpo", "beta": 0.04},
        LossSettings(aggregation="constant", length=8, kl=0.04),
    ),
    "bnpo, narrow, divergence": (
        {"loss_type": "bnpo", "epsilon": 0.05, "beta": 0.5},
        LossSettings(aggregation="token", clip_low=0.05, clip_high=0.05, kl=0.5),
    ),
    "grpo, dual clip, temperature": (
        {"loss_type": "grpo", "delta": 1.5, "beta": 0.1, "temperature": 0.7},
        LossSettings(aggregation="sequence", dual_clip=1.5, kl=0.1),
    ),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trl") / "model"
    tokenizer = pocket_tokenizer([" one", " two"], longest=64)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **shape)).save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("moved", [False, True], ids=["on policy", "clipping"])
def test_loss_and_gradient_equal_trls(start: Path, tmp_path: Path, name: str, moved: bool) -> None:
    options, loss = CASES[name]
    trainer = _trainer(start, tmp_path, options)
    batch = _batch(moved, reference=loss.kl > 0)
    trainer.model.train()
    theirs = trainer.compute_loss(trainer.model, batch)
    theirs.backward()
    expected = _gradients(trainer.model)
    clipped = sum(trainer._metrics["train"]["clip_ratio/region_mean"])
    trainer.model.zero_grad()

    scorer = TokenScorer(trainer.model, temperature=options.get("temperature", 1.0))
    old = "sampler" if moved else "current"
    ready = PolicyTerm("policy", _rows(batch), loss).ready(Scoring(trainer.model, scorer, old))
    ready.backward()
    report = ready.report()
    assert report.loss == pytest.approx(theirs.item(), abs=1e-5)
    assert torch.allclose(_gradients(trainer.model), expected, atol=1e-5)
    assert expected.abs().max() > 1e-3, "there was nothing to compare"
    assert report.clipped_low is not None
    assert report.clipped_high is not None
    assert report.clipped_low + report.clipped_high == pytest.approx(clipped, abs=1e-6)
    assert (clipped > 0) is moved
    assert report.entropy == pytest.approx(trainer._metrics["train"]["entropy"][0], abs=1e-4)
    if loss.kl:
        assert report.kl == pytest.approx(trainer._metrics["train"]["kl"][0], rel=1e-4)


def test_advantages_equal_trls(start: Path, tmp_path: Path) -> None:
    """Of a whole step of TRL: its own sampling, our rewards, one of which is missing."""
    rewards = [1.0, 0.0, 0.0, 0.5, 0.25, 0.25, 0.25, None]
    trainer = _trainer(start, tmp_path, {}, rewards=rewards)
    trainer.model.train()
    found = trainer._generate_and_score_completions([{"prompt": " one"}] * 4 + [{"prompt": " two"}] * 4)["advantages"]
    ours = group_advantages(rewards, [0] * 4 + [1] * 4, eps=1e-4)
    assert torch.nan_to_num(torch.tensor(ours.values)).tolist() == pytest.approx(found.tolist(), abs=1e-5)
    assert ours.zero_variance_share == trainer._metrics["train"]["frac_reward_zero_std"][0]


def _trainer(start: Path, folder: Path, options: dict[str, Any], rewards: list[float | None] | None = None) -> Any:
    config = trl.GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=8,
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        use_bias_correction_kl=False,  # its default multiplies k3 with the ratio (arXiv 2512.02556); ours is k3
        **options,
    )
    trainer = trl.GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(start),
        reward_funcs=lambda completions, **_: rewards or [0.0] * len(completions),
        args=config,
        train_dataset=datasets.Dataset.from_dict({"prompt": [" one", " two"]}),
    )
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def _batch(moved: bool, *, reference: bool) -> dict[str, Tensor]:
    """Two prompts with four rollouts each, of several lengths, with observations; log-probabilities near uniform."""
    chance = torch.Generator().manual_seed(1)

    def padded(lengths: list[int], *, left: bool) -> tuple[Tensor, Tensor]:
        width = max(lengths)
        real = torch.tensor([[int(place < length) for place in range(width)] for length in lengths])
        real = real.flip(1) if left else real
        return real * torch.randint(5, 250, real.shape, generator=chance), real

    prompt, seen = padded([4, 7], left=True)
    completion, written = padded([8, 3, 5, 8, 1, 6, 8, 2], left=False)
    policy = (torch.rand(completion.shape, generator=chance) < 0.7).long()
    policy[:, 0] = 1
    near_uniform = torch.full(completion.shape, -math.log(263.0))
    batch = {
        "prompt_ids": prompt.repeat_interleave(4, 0),
        "prompt_mask": seen.repeat_interleave(4, 0),
        "completion_ids": completion,
        "completion_mask": written,
        "tool_mask": policy,
        "advantages": torch.randn(8, generator=chance),
        "num_items_in_batch": (written * policy).sum(),
    }
    if moved:
        batch["old_per_token_logps"] = near_uniform + 0.5 * torch.randn(completion.shape, generator=chance)
    if reference:
        batch["ref_per_token_logps"] = near_uniform + 0.5 * torch.randn(completion.shape, generator=chance)
    return batch


def _rows(batch: dict[str, Tensor]) -> list[PolicyRow]:
    rows = []
    for row in range(8):
        length = int(batch["completion_mask"][row].sum())

        def values(name: str, row: int = row, length: int = length) -> tuple[Any, ...] | None:
            return tuple(batch[name][row, :length].tolist()) if name in batch else None

        mask = values("tool_mask")
        assert mask is not None
        rows.append(
            PolicyRow(
                prompt=tuple(batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()),
                response=values("completion_ids") or (),
                advantage=float(batch["advantages"][row]),
                mask=tuple(map(bool, mask)),
                sampler=values("old_per_token_logps"),
                reference=values("ref_per_token_logps"),
            )
        )
    return rows


def _gradients(model: torch.nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
