"""The preflight ladder on real weights: a tiny Llama, its tokenizer, the trainer and the evaluator's own loader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file
from tiny_parents import SPECIAL, TEMPLATE, config, counting, evaluated, example, job, tiny_parent

from heldout.errors import SetupError, TrainingError
from heldout.store.training_events import Check
from heldout.training import Fitted, TrainConfig, Watch
from heldout.training.preflight import STAGE_A, PreflightOptions, passed, stage_a, stage_b
from heldout.training.settings import OptimiserSettings
from heldout.training.trainer import TransformersTrainer


def failing(checks: Sequence[Check]) -> list[str]:
    return [check.name for check in checks if not check.passed]


def found(checks: Sequence[Check], name: str) -> str:
    return next(check.found for check in checks if check.name == name)


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_parent(tmp_path_factory.mktemp("parents") / "parent")


def test_good_data_pass_every_check_of_stage_a(parent: Path) -> None:
    checks = stage_a(parent, counting(80), config())
    assert tuple(check.name for check in checks) == STAGE_A
    assert passed(checks), checks
    told = tuple(example(f"say {n}", f"{n}\n{n}", system="Be brief.") for n in range(3))
    assert passed(stage_a(parent, told, config(), instruction="Be brief."))


def test_a_parent_whose_own_template_has_no_end_token_fails_the_check_end_token(tmp_path: Path) -> None:
    endless = tiny_parent(tmp_path / "endless", template=TEMPLATE.replace("<end>", ""))
    assert failing(stage_a(endless, counting(), config())) == ["end token"]


def test_a_parent_without_any_template_is_refused(tmp_path: Path) -> None:
    bare = tiny_parent(tmp_path / "bare", template=None)
    with pytest.raises(SetupError, match=r"no chat template.*chat_template\.jinja"):
        stage_a(bare, counting(), config())


def test_a_text_that_the_tokenizer_does_not_know_fails_the_check_round_trip(parent: Path) -> None:
    checks = stage_a(parent, [*counting(5), example("say it", "über")], config())
    assert failing(checks) == ["round trip", "mask"]
    assert f"comes back as '<user>say it<assistant>{SPECIAL[0]}ber<end>'" in found(checks, "round trip")


def test_labels_that_are_all_masked_fail_the_check_labels(parent: Path) -> None:
    checks = stage_a(parent, [example(f"say {n}", "") for n in range(4)], config(end_token=False))
    assert "labels" in failing(checks)
    assert "not 4 of 4 examples" in found(checks, "labels")


@pytest.fixture(scope="module")
def short_run(parent: Path, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """Thirty steps on data that teach where to stop."""
    data = tuple(example(one.prompt, "ok") for one in counting(32))
    wanted = job(tmp_path_factory.mktemp("short"), parent, examples=data, steps=300, batch=16, until=30)
    faster = wanted.config.model_copy(update={"optimiser": OptimiserSettings(learning_rate=3e-2, schedule="constant")})
    return TransformersTrainer().fit(
        type(wanted)(wanted.parent, wanted.examples, faster, wanted.seed, wanted.work, steps=30), Watch()
    )


def test_a_short_run_that_learns_loads_and_stops_passes_stage_b(short_run: Fitted) -> None:
    checks = stage_b(short_run, evaluated, config(steps=300))
    assert passed(checks), checks
    assert found(checks, "stops") == "32 of 32 answers ended by themselves"
    assert len(short_run.losses) == 30


def test_weights_that_never_learnt_to_stop_fail_the_check_stops(parent: Path, short_run: Fitted) -> None:
    untrained = short_run.model_copy(update={"folder": str(parent)})
    checks = stage_b(untrained, evaluated, config(steps=300))
    assert failing(checks) == ["stops"]


def test_a_checkpoint_with_a_missing_tensor_fails_the_check_loads(short_run: Fitted, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in Path(short_run.folder).iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    tensors = load_file(broken / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    checks = stage_b(short_run.model_copy(update={"folder": str(broken)}), evaluated, config())
    assert failing(checks) == ["loads"]
    assert "model.layers.1.mlp.up_proj.weight" in found(checks, "loads")


def test_a_rate_that_makes_the_loss_nan_fails_the_check_finite_loss(parent: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in parent.iterdir()}
    huge = OptimiserSettings(learning_rate=1e20, schedule="constant", warmup=0.0, clip=0.0)
    with pytest.raises(TrainingError) as caught:
        TransformersTrainer().fit(job(tmp_path, parent, optimiser=huge, steps=30), Watch())
    checks = stage_b(caught.value, evaluated, TrainConfig(), options=PreflightOptions())
    assert failing(checks) == ["finite loss"]
    assert "not finite" in found(checks, "finite loss")
    assert {file.name: file.read_bytes() for file in parent.iterdir()} == before, "the parent is untouched"
