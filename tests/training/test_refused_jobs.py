"""What a trainer refuses when it is called from Python, before anything is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tiny_parents import SIGNS, SPECIAL, TEMPLATE, config, counting, example, job, tiny_parent, tiny_tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from heldout.errors import SetupError
from heldout.models.checkpoints import load_checkpoint, quiet
from heldout.registry import load
from heldout.store.weights import weights_digest
from heldout.training import TRAINERS, Provenance, Trainer, TrainingJob, Watch
from heldout.training.trainer import TransformersTrainer

every_trainer = pytest.mark.parametrize("name", TRAINERS)


def trainer(name: str) -> Trainer:
    made: Trainer = load(name, among=TRAINERS, what="trainer")()
    return made


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_parent(tmp_path_factory.mktemp("parents") / "parent")


def refused(name: str, wanted: TrainingJob) -> str:
    """What the trainer says; nothing was written."""
    with pytest.raises(SetupError) as caught:
        trainer(name).fit(wanted, Watch())
    assert not (wanted.work / "weights").exists()
    return str(caught.value)


@every_trainer
@pytest.mark.parametrize("role", ["audit", "select", "retain", "unknown", ""])
def test_an_example_of_a_role_that_is_not_trained_on_is_refused_with_its_task(
    parent: Path, tmp_path: Path, name: str, role: str
) -> None:
    sealed = example("x", "y").model_copy(update={"provenance": Provenance(task="audit-7", role=role)})
    told = refused(name, job(tmp_path, parent, examples=(*counting(), sealed)))
    assert told == (
        f"an example comes from the task 'audit-7' of the role {role!r}; only train and built may be trained on"
    )


@every_trainer
@pytest.mark.parametrize("steps", [0, -1])
def test_a_training_without_a_step_is_refused(parent: Path, tmp_path: Path, name: str, steps: int) -> None:
    told = refused(name, job(tmp_path, parent, until=steps))
    assert told == f"a training of steps = {steps}: at least 1 is needed, or None for all 6"


@every_trainer
@pytest.mark.parametrize("place", [".", "work", "work/further", ".."])
def test_a_work_folder_that_shares_files_with_the_parent_is_refused(tmp_path: Path, name: str, place: str) -> None:
    parent = tiny_parent(tmp_path / "all" / "parent")
    before = weights_digest(parent)
    told = refused(name, replace(job(tmp_path, parent), work=parent / place))
    assert "name a work folder beside them" in told
    assert weights_digest(parent) == before


@every_trainer
def test_a_work_folder_in_that_of_a_base_is_refused(parent: Path, tmp_path: Path, name: str) -> None:
    base = tmp_path / "base"
    told = refused(name, replace(job(tmp_path, parent, bases={"b": base}), work=base / "work"))
    assert f"the weights {str(base)!r} lie in one another" in told


def test_a_link_into_the_parent_is_no_way_around(parent: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(parent)
    assert "lie in one another" in refused("transformers", job(tmp_path, parent, name="link/work"))


class TestEndTokens:
    """A model that is never shown where to stop does not stop."""

    def test_a_template_that_writes_no_end_token_is_refused_and_may_be_asked_for(self, tmp_path: Path) -> None:
        endless = tiny_parent(tmp_path / "endless", template=TEMPLATE.replace("<end>", ""))
        told = refused("transformers", job(tmp_path, endless))
        assert "chat template writes no end token ('<end>') after 24 of 24 answers" in told
        assert "set end_token = false" in told
        assert TransformersTrainer().fit(job(tmp_path, endless, end_token=False, steps=1), Watch()).steps == 1

    def test_a_template_of_the_config_that_writes_none_is_refused_too(self, parent: Path, tmp_path: Path) -> None:
        endless = job(tmp_path, parent, template=TEMPLATE.replace("<end>", ""), steps=1)
        told = refused("transformers", endless)
        assert "writes no end token ('<end>') after 24 of 24 answers" in told
        assert TransformersTrainer().fit(replace(endless, endless=True), Watch()).steps == 1, "the look is a ladder's"

    def test_a_checkpoint_without_an_end_token_is_refused(self, tmp_path: Path) -> None:
        lacking = tiny_parent(tmp_path / "lacking")
        tokenizer = tiny_tokenizer()
        tokenizer.eos_token = None
        tokenizer.save_pretrained(lacking)
        for file in ("generation_config.json", "config.json"):
            text = (lacking / file).read_text()
            (lacking / file).write_text(text.replace('"eos_token_id": 4', '"eos_token_id": null'))
        told = refused("transformers", job(tmp_path, lacking))
        assert "has no end token (eos_token in tokenizer_config.json, eos_token_id in generation_config.json)" in told

    @pytest.mark.slow
    def test_trl_refuses_it_as_well(self, tmp_path: Path) -> None:
        pytest.importorskip("trl")
        endless = tiny_parent(tmp_path / "endless", template=TEMPLATE.replace("<end>", ""))
        assert "writes no end token" in refused("trl", job(tmp_path, endless))


class TestOtherLayers:
    """Adapters for models whose layers are not called as Llama's."""

    @pytest.fixture
    def gpt2(self, tmp_path: Path) -> Path:
        shape = {"n_positions": 128, "n_embd": 16, "n_layer": 1, "n_head": 2}
        ends = {"eos_token_id": 4, "bos_token_id": 4, "pad_token_id": 0}
        with quiet():
            model = GPT2LMHeadModel(GPT2Config(vocab_size=len(SPECIAL + SIGNS), **shape, **ends))
            model.save_pretrained(tmp_path / "gpt2")
            tiny_tokenizer().save_pretrained(tmp_path / "gpt2")
        return tmp_path / "gpt2"

    def test_the_layers_that_there_are_are_told_in_order(self, gpt2: Path, tmp_path: Path) -> None:
        told = refused("transformers", job(tmp_path, gpt2, method="lora"))
        assert told == (
            f"no adapters of options.train.lora.targets = {list(config().lora.targets)!r} for this model; its linear "
            "layers are c_attn, c_fc, c_proj"
        )

    def test_those_can_be_trained_and_served(self, gpt2: Path, tmp_path: Path) -> None:
        lora = {"targets": ["c_attn", "c_proj"]}
        fitted = TransformersTrainer().fit(job(tmp_path, gpt2, method="lora", lora=lora, steps=2), Watch())
        served = load_checkpoint(Path(fitted.folder), bases=lambda _digest: gpt2)
        assert served.end_ids == {4}
