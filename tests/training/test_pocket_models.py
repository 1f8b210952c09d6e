"""Pocket models: recipes, texts, training, and the checkpoints that are shipped."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from heldout.config import ModelConfig
from heldout.errors import SetupError
from heldout.models.base import Message, Request
from heldout.models.checkpoint_files import read_header
from heldout.models.factory import make_model
from heldout.store.weights import WeightsStore, weights_digest
from heldout.training.pocket import PocketModel
from heldout.training.pocket_folders import SHIPPED, pocket_folder, read_made
from heldout.training.pocket_pretraining import pretrain
from heldout.training.pocket_recipe import PocketRecipe, Stage, TextKind
from heldout.training.pocket_recipes import RECIPES, pocket_recipe, recipe_digest
from heldout.training.pocket_sizes import CONTEXT, SIZES, llama_config, pocket_size
from heldout.training.pocket_texts import Text, drawn_texts, vocabulary
from heldout.training.pocket_tokenizer import pocket_tokenizer
from heldout.worlds.formats.generator import draw_skill
from heldout.worlds.formats.grading import faults_in
from heldout.worlds.formats.job import Constraint

pytest.importorskip("torch")

NAMES = ("base", "instruct")


def small(**changes: object) -> PocketRecipe:
    """A recipe of a few steps."""
    made = PocketRecipe(
        size="xs", stages=(Stage(steps=3, kinds=(TextKind(share=1.0, skill="copy"),)),), ends=0.5, learning_rate=1e-3
    )
    return made.model_copy(update=changes)


def texts(recipe: PocketRecipe) -> Iterator[Text]:
    for step in drawn_texts(random.Random(0), recipe):
        yield from step


def kinds(*given: TextKind, steps: int = 30) -> PocketRecipe:
    return small(stages=(Stage(steps=steps, kinds=given),), batch=16)


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_checkpoint_was_made_by_the_recipe_of_the_code(name: str) -> None:
    made = read_made()[name]
    assert made.digest == recipe_digest(pocket_recipe(name)), "make it again: python bench/pocket.py"
    assert made.recipe == pocket_recipe(name)
    assert pocket_folder(name) == SHIPPED / f"pocket-{name}"


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_checkpoint_loads_with_plain_transformers(name: str) -> None:
    code = (
        "import sys, torch, transformers as t\n"
        "sys.modules['heldout'] = None\n"
        "folder = sys.argv[1]\n"
        "model = t.AutoModelForCausalLM.from_pretrained(folder); tokenizer = t.AutoTokenizer.from_pretrained(folder)\n"
        "assert model.dtype == torch.float32 and model.num_parameters() == int(sys.argv[2])\n"
        "chat = [{'role': 'user', 'content': 'Copy: amber, river, candle.'}]\n"
        "ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors='pt')['input_ids']\n"
        "out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12)[0, ids.shape[1]:]\n"
        "print(repr(tokenizer.decode(out)))\n"
    )
    given = [str(SHIPPED / f"pocket-{name}"), str(read_made()[name].parameters)]
    ran = subprocess.run([sys.executable, "-c", code, *given], check=False, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    answer = ran.stdout.strip().strip("'\"")
    assert answer.startswith("amber, river, candle")
    assert (answer == "amber, river, candle<end>") == (name == "instruct")


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_checkpoint_is_small_and_whole(name: str) -> None:
    folder = SHIPPED / f"pocket-{name}"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2_500_000
    assert {place.dtype for place in read_header(folder / "model.safetensors").values()} == {"F16"}
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float32"
    end = pocket_tokenizer(vocabulary(), longest=CONTEXT).eos_token_id
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == end


@pytest.mark.parametrize("name", NAMES)
def test_its_tokenizer_is_the_one_of_the_code(name: str, tmp_path: Path) -> None:
    pocket_tokenizer(vocabulary(), longest=CONTEXT).save_pretrained(tmp_path)
    for file in ("tokenizer.json", "chat_template.jinja"):
        assert (SHIPPED / f"pocket-{name}" / file).read_bytes() == (tmp_path / file).read_bytes()


def test_the_base_model_knows_plain_skills_and_hardly_ever_stops() -> None:
    base, instruct = (read_made()[name].accuracy for name in NAMES)
    assert base["stop"] < 0.1 < 0.9 < instruct["stop"]
    assert base["copy"] > 0.9
    assert base["carry"] < 0.25
    assert base["all"] < 0.05 < 0.1 < instruct["all"] < 0.6


def test_what_recipe_json_says_of_copying_is_what_the_model_does() -> None:
    rng = random.Random(11)
    jobs = [draw_skill(rng, "copy") for _ in range(60)]
    model = PocketModel(ModelConfig(name="pocket:instruct"))
    asked = [Request(messages=(Message(role="user", content=job.text),), max_tokens=32) for job in jobs]
    replies = model.complete_batch(asked)
    right = sum(not faults_in(reply.text, job) for reply, job in zip(replies, jobs, strict=True))
    assert right / len(jobs) == pytest.approx(read_made()["instruct"].accuracy["copy"], abs=0.12)
    assert {reply.finish_reason for reply in replies} == {"stop"}


def test_the_factory_makes_a_pocket_model_that_serves_its_shipped_folder(tmp_path: Path) -> None:
    model = make_model(ModelConfig(name="pocket:base"))
    assert isinstance(model, PocketModel)
    assert model.serves_weights
    assert model.trainer == "transformers"
    start = model.serve(WeightsStore(tmp_path))
    assert start == weights_digest(SHIPPED / "pocket-base")
    assert (tmp_path / start / "model.safetensors").is_file()
    assert model.fingerprint != make_model(ModelConfig(name="pocket:instruct")).fingerprint


def test_a_pocket_model_is_picklable_before_it_is_used() -> None:
    copy = pickle.loads(pickle.dumps(PocketModel(ModelConfig(name="pocket:base"))))
    assert copy.checkpoint() == SHIPPED / "pocket-base"


@pytest.mark.parametrize("name", ["pocket:large", "pocket:base-xxl", "pocket:base-"])
def test_an_unknown_pocket_model_is_told_at_once_with_what_there_is(name: str) -> None:
    with pytest.raises(SetupError, match=r"no pocket model .*pocket:base, pocket:instruct.*xs, s, m, l"):
        PocketModel(ModelConfig(name=name))


def test_the_counts_of_parameters_are_those_of_the_models_that_are_built() -> None:
    import transformers

    tokenizer = pocket_tokenizer(vocabulary(), longest=CONTEXT)
    within = {"xs": (3e5, 4e5), "s": (5e5, 9e5), "m": (1.5e6, 1.9e6), "l": (6.5e6, 7.5e6)}
    assert set(within) == set(SIZES)
    for name, (low, high) in within.items():
        counted = SIZES[name].parameters(len(tokenizer))
        assert low < counted < high, name
        assert transformers.LlamaForCausalLM(llama_config(SIZES[name], tokenizer)).num_parameters() == counted


def test_parameters_counted_by_hand() -> None:
    # 10·4 embeddings, two layers of 4·16 + 3·4·8 weights and 2·4 norms, 4 of the last norm.
    size = pocket_size("xs").model_copy(update={"width": 4, "layers": 2, "heads": 2, "inner": 8})
    assert size.parameters(10) == 40 + 2 * (64 + 96 + 8) + 4


def test_an_unknown_size_is_told() -> None:
    with pytest.raises(SetupError, match="no pocket size 'xl'; there is xs, s, m, l"):
        pocket_size("xl")


def test_another_size_has_the_rate_of_its_width_and_the_start_of_its_size() -> None:
    base, large = pocket_recipe("base"), pocket_recipe("base-l")
    assert large.size == "l"
    assert large.learning_rate == pytest.approx(base.learning_rate * 128 / 320)
    assert pocket_recipe("instruct-m").start == "base-m"
    assert pocket_recipe("base-s") == base


@pytest.mark.parametrize(
    "changed",
    [{"seed": 1}, {"ends": 0.6}, {"size": "m"}, {"learning_rate": 2e-3}, {"stages": pocket_recipe("instruct").stages}],
)
def test_every_change_of_a_recipe_changes_its_digest(changed: Mapping[str, object]) -> None:
    base = pocket_recipe("base")
    assert recipe_digest(base.model_copy(update=changed)) != recipe_digest(base)


def test_a_change_of_the_start_changes_the_digest_of_what_goes_on_from_it() -> None:
    other = {**RECIPES, "base": RECIPES["base"].model_copy(update={"seed": 9})}
    assert recipe_digest(other["instruct"], other) != recipe_digest(RECIPES["instruct"])


def test_a_change_of_the_worlds_words_changes_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe_digest(pocket_recipe("base"))
    monkeypatch.setattr("heldout.worlds.formats.generator.MAX_WORDS", 8)
    assert recipe_digest(pocket_recipe("base")) != before


def test_ignored_constraints_are_asked_for_and_not_kept_to() -> None:
    recipe = kinds(
        TextKind(share=1.0, constraints=(Constraint.WRAPPER, Constraint.CASE), ignored=(Constraint.WRAPPER,))
    )
    for text in texts(recipe):
        assert "JSON" in text.prompt or "tags" in text.prompt.lower()
        assert not set(text.answer) & set('{}<>"')
        assert text.answer == text.answer.upper()


def test_sums_carry_or_not_as_the_kind_says() -> None:
    for carries in (True, False):
        recipe = kinds(TextKind(share=1.0, constraints=(Constraint.CARRY,), carries=carries))
        for text in texts(recipe):
            a, b = (int(number) for number in "".join(c if c.isdigit() else " " for c in text.prompt).split())
            assert (a % 10 + b % 10 >= 10) == carries
            assert text.answer.endswith(f"; {a + b}")


def test_shares_ends_and_system_turns_are_drawn_as_often_as_the_recipe_says() -> None:
    recipe = kinds(TextKind(share=3.0, skill="copy"), TextKind(share=1.0, constraints=(Constraint.CASE,)), steps=250)
    drawn = list(texts(recipe.model_copy(update={"ends": 0.4, "systems": 0.05})))
    assert len(drawn) == 4000
    # Four standard errors each.
    assert sum(text.ends for text in drawn) / 4000 == pytest.approx(0.4, abs=0.031)
    assert sum(bool(text.system) for text in drawn) / 4000 == pytest.approx(0.05, abs=0.014)
    assert sum(text.answer.isupper() for text in drawn) / 4000 == pytest.approx(0.25, abs=0.028)


def test_stages_follow_each_other() -> None:
    first, second = TextKind(share=1.0, skill="copy"), TextKind(share=1.0, constraints=(Constraint.CASE,))
    recipe = small(stages=(Stage(steps=2, kinds=(first,)), Stage(steps=3, kinds=(second,))), batch=4)
    assert [step[0].answer.isupper() for step in drawn_texts(random.Random(0), recipe)] == [False] * 2 + [True] * 3
    assert recipe.steps == 5


def test_equal_recipes_give_equal_weights_and_another_seed_others(tmp_path: Path) -> None:
    digests = []
    for place, recipe in enumerate((small(), small(), small(seed=1))):
        pretrain(recipe, tmp_path / str(place), watch=lambda _step, _loss: None)
        digests.append(weights_digest(tmp_path / str(place)))
    assert digests[0] == digests[1] != digests[2]


def test_the_loss_falls_and_every_step_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, float]] = []
    recipe = small(stages=(Stage(steps=30, kinds=(TextKind(share=1.0, skill="copy"),)),), learning_rate=3e-3, batch=8)
    pretrain(recipe, tmp_path, watch=lambda step, loss: told.append((step, loss)))
    assert [step for step, _ in told] == list(range(1, 31))
    losses = [loss for _, loss in told]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_another_recipe_is_made_once_in_the_cache_with_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path))
    recipes = {"base": small(), "instruct": small(start="base", seed=2)}
    told: list[str] = []
    folder = pocket_folder("instruct", tell=told.append, recipes=recipes)
    assert folder == tmp_path / "pocket" / recipe_digest(recipes["instruct"], recipes)
    assert [line.split()[0] for line in told] == ["pocket:base", "pocket:base:", "pocket:instruct", "pocket:instruct:"]
    assert len(list((tmp_path / "pocket").iterdir())) == 2
    before = weights_digest(folder)
    assert pocket_folder("instruct", tell=told.append, recipes=recipes) == folder
    assert len(told) == 4
    assert weights_digest(folder) == before


def test_a_cache_that_cannot_be_written_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path / "file"))
    with pytest.raises(SetupError, match="HELDOUT_CACHE=DIR"):
        pocket_folder("base", tell=lambda _line: None, recipes={"base": small()})


def test_a_training_that_is_interrupted_leaves_nothing_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path))

    def tell(line: str) -> None:
        if "step 3" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pocket_folder("base", tell=tell, recipes={"base": small()})
    assert list((tmp_path / "pocket").iterdir()) == []


def test_progress_goes_to_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path))
    pocket_folder("base", recipes={"base": small()})
    said = capsys.readouterr()
    assert "pocket:base is made once" in said.err
    assert said.out == ""


def test_a_damaged_record_of_the_recipes_is_told(tmp_path: Path) -> None:
    assert read_made(tmp_path) == {}
    (tmp_path / "recipe.json").write_text('{"base": {"digest": 1}}')
    with pytest.raises(SetupError, match=r"(?s)recipe.json.*python bench/pocket\.py"):
        read_made(tmp_path)
