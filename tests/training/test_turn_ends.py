"""A checkpoint whose turns end with another token than the tokenizer's own end token, as Llama 3 and Gemma have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from tiny_parents import TEMPLATE, config, counting, evaluated, example, job, tiny_parent, tiny_tokenizer
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast

from heldout.errors import SetupError
from heldout.models.checkpoints import load_checkpoint, quiet
from heldout.store.training_events import Check
from heldout.training import Fitted, Watch
from heldout.training.encoding import IGNORED, encode, end_texts
from heldout.training.plain_tokenizer import end_ids_of, tokenizer_of
from heldout.training.preflight import passed, stage_a, stage_b
from heldout.training.settings import OptimiserSettings
from heldout.training.trainer import TransformersTrainer
from heldout.training.trl_backend import TrlTrainer

TURN_TEMPLATE = TEMPLATE.replace("<end>", "<turn>\n")
OWN, TURN = 4, 101
"""Ids of the tokenizer's own end token, which ends no turn, and of the one that the template writes."""


def turn_tokenizer(*, special: bool = True) -> PreTrainedTokenizerFast:
    tokenizer = tiny_tokenizer(TURN_TEMPLATE)
    tokenizer.add_tokens([AddedToken("<turn>", special=special, normalized=False)])
    assert tokenizer.convert_tokens_to_ids("<turn>") == TURN
    return tokenizer


def turn_parent(folder: Path, *, special: bool = True) -> Path:
    """A checkpoint of 4,000 parameters that lists both end tokens in its generation config."""
    tiny_parent(folder)
    with quiet(), torch.random.fork_rng():
        torch.manual_seed(7)
        model = AutoModelForCausalLM.from_pretrained(folder)
        model.resize_token_embeddings(TURN + 1, mean_resizing=False)
        model.generation_config = GenerationConfig(eos_token_id=[OWN, TURN], pad_token_id=0)
        model.save_pretrained(folder)
        turn_tokenizer(special=special).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return turn_parent(tmp_path_factory.mktemp("parents") / "parent")


TOKENIZER = turn_tokenizer()
ENDS = frozenset({OWN, TURN})


def written(
    completion: str, *, end_token: bool = True, ends: frozenset[int] = ENDS, template: str | None = None
) -> str:
    """What is trained on."""
    settings = config(end_token=end_token, template=template)
    encoded = encode(example("x", completion), TOKENIZER, settings, end_ids=ends)
    return str(TOKENIZER.decode([label for label in encoded.labels if label != IGNORED]))


def test_a_turn_is_trained_on_up_to_the_end_token_that_ends_it() -> None:
    assert written("aa") == "aa<turn>"
    assert written("aa", end_token=False) == "aa"
    assert written("aa", ends=frozenset()) == "aa<turn>\n", "nothing says that <turn> ends a turn"


def test_the_first_end_token_after_the_completion_counts_whichever_it_is() -> None:
    both = TEMPLATE.replace("<end>", "<turn><end>")
    assert written("aa", template=both) == "aa<turn>"
    assert written("aa", template=TEMPLATE) == "aa<end>"
    assert written("a<turn>b") == "a<turn>b<turn>"


def test_of_two_end_tokens_that_begin_alike_the_longer_one_is_taken() -> None:
    tokenizer = turn_tokenizer()
    tokenizer.add_tokens([AddedToken("<turn>.", special=True, normalized=False)])
    longer = config(template=TEMPLATE.replace("<end>", "<turn>.\n"))
    ids = encode(example("x", "aa"), tokenizer, longer, end_ids=(OWN, TURN, TURN + 1)).ids
    assert ids[-1] == TURN + 1


def test_an_end_token_without_a_text_ends_no_turn() -> None:
    """Some checkpoints list ids that their tokenizer does not have."""
    assert end_texts(TOKENIZER, {OWN, TURN, 5000}) == ("<end>", "<turn>")
    assert written("aa", ends=ENDS | {5000}) == "aa<turn>"
    with pytest.raises(SetupError, match=r"the end tokens \[-1\] that the checkpoint lists cannot be decoded"):
        end_texts(TOKENIZER, {-1})


@pytest.mark.parametrize("place", ["generation_config.json", "config.json", "text_config"])
def test_the_preflight_knows_the_end_tokens_at_which_the_evaluator_stops(
    parent: Path, tmp_path: Path, place: str
) -> None:
    for file in parent.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    if place != "generation_config.json":
        (tmp_path / "generation_config.json").unlink()
        told = json.loads((tmp_path / "config.json").read_text())
        told["eos_token_id"] = [OWN, TURN]
        (tmp_path / "config.json").write_text(json.dumps(told))
    if place != "text_config":
        assert load_checkpoint(tmp_path).end_ids == ENDS
    else:  # as models have it that read more than text
        (tmp_path / "config.json").write_text(json.dumps({"text_config": {"eos_token_id": TURN}}))
    assert end_ids_of(tmp_path, tokenizer_of(tmp_path)) == ENDS


@pytest.mark.parametrize("content", ["[", "[]", '{"eos_token_id": ["<turn>"]}'])
def test_end_tokens_that_cannot_be_read_are_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "generation_config.json").write_text(content)
    with pytest.raises(SetupError, match=r"the end tokens in '.*generation_config.json' cannot be read"):
        end_ids_of(tmp_path, TOKENIZER)


def failing(checks: tuple[Check, ...]) -> dict[str, str]:
    return {check.name: f"{check.found}; wanted: {check.wanted}" for check in checks if not check.passed}


def test_stage_a_passes_and_fails_for_the_right_reasons(parent: Path) -> None:
    assert failing(stage_a(parent, counting(), config())) == {}
    assert failing(stage_a(parent, counting(), config(template=TURN_TEMPLATE))) == {}
    told = failing(stage_a(parent, counting(), config(end_token=False)))
    assert list(told) == ["end token"]
    assert told["end token"].endswith("every answer ends with the unmasked token '<end>' or '<turn>'")
    assert list(failing(stage_a(parent, counting(), config(template=TEMPLATE)))) == ["template"]
    inside = failing(stage_a(parent, [*counting(), example("x", "a<turn>b")], config()))
    assert "its completion holds the special token '<turn>'" in inside["schema"]


@pytest.mark.parametrize("special", [True, False])
def test_a_short_run_learns_to_stop_and_the_end_token_is_no_part_of_the_answer(tmp_path: Path, special: bool) -> None:
    parent = turn_parent(tmp_path / "parent", special=special)
    fitted = short_run(TransformersTrainer(), tmp_path, parent, steps=30)
    assert passed(checks := stage_b(fitted, evaluated, config(steps=300))), checks
    replies = evaluated(Path(fitted.folder), 4)
    assert {(reply.text, reply.finish_reason, reply.tokens_out) for reply in replies} == {("ok", "stop", 3)}
    assert fitted.trained_tokens == 30 * 16 * len("ok!"), "loss was taken on more than the answer and its end token"


@pytest.mark.slow
def test_trl_trains_on_the_same_tokens(parent: Path, tmp_path: Path) -> None:
    pytest.importorskip("trl")
    fitted = short_run(TrlTrainer(), tmp_path, parent, steps=2)
    assert fitted.trained_tokens == 2 * 16 * len("ok!")


def short_run(trainer: TransformersTrainer | TrlTrainer, folder: Path, parent: Path, *, steps: int) -> Fitted:
    faster = OptimiserSettings(learning_rate=3e-2, schedule="constant")
    data = tuple(example(one.prompt, "ok") for one in counting(32))
    wanted = job(folder, parent, examples=data, steps=300, batch=16, until=steps, optimiser=faster)
    return trainer.fit(wanted, Watch())
