"""The trainer of simulated weights: what it reads from examples, what it writes, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest

from heldout.config import ModelConfig
from heldout.errors import BudgetExhausted, SetupError, TrainingError
from heldout.records import digest_of
from heldout.registry import load
from heldout.store.weights import WeightsOrigin, WeightsStore, weights_digest
from heldout.tasks.examples import BuildRequest
from heldout.training import TRAINERS, Example, Fitted, Provenance, TrainConfig, TrainingJob, Watch
from heldout.training.builders import load_builder
from heldout.training.plain_tokenizer import PlainTokenizer
from heldout.training.simulated import SimulatedTrainer, exposure_of
from heldout.worlds.formats import FormatsLearner, Job
from heldout.worlds.formats.skills import Skills, read_checkpoint

BUILT = Provenance(task="built/1", role="built")
LIST = Job(words=("amber", "cedar", "lily", "maple"))


def example(prompt: str, completion: str) -> Example:
    return Example(prompt=prompt, completion=completion, provenance=BUILT)


def examples(name: str, count: int = 512, seed: int = 0) -> tuple[Example, ...]:
    pairs = load_builder(f"formats:{name}")(BuildRequest(count=count, seed=seed))
    return tuple(example(pair.prompt, pair.completion) for pair in pairs)


def config(**changes: object) -> TrainConfig:
    return TrainConfig.model_validate({"steps": 100} | changes)


@pytest.fixture
def start(tmp_path: Path) -> Path:
    store = WeightsStore(tmp_path / "weights")
    return store.path(FormatsLearner(ModelConfig(name="simulated_formats:instruct")).serve(store))


def job(
    start: Path, data: Sequence[Example], settings: TrainConfig, *, seed: int = 1, steps: int | None = None
) -> TrainingJob:
    work = start.parent.parent / f"work-{digest_of([seed, steps, settings.model_dump(mode='json')])[:8]}"
    work.mkdir(exist_ok=True)
    return TrainingJob(parent=start, examples=tuple(data), config=settings, seed=seed, work=work, steps=steps)


def fit(*args: object, **named: object) -> Fitted:
    return SimulatedTrainer().fit(job(*args, **named), Watch())  # type: ignore[arg-type]


def skills(fitted: Fitted) -> Skills:
    return read_checkpoint(Path(fitted.folder)).skills


def test_it_is_the_trainer_simulated() -> None:
    assert load(TRAINERS["simulated"], among={}, what="trainer") is SimulatedTrainer
    assert FormatsLearner.trainer == "simulated"


def test_what_an_example_teaches_is_read_from_its_texts() -> None:
    both = LIST.model_copy(update={"count": 2, "addends": (21, 34)})
    copy = Job(words=("lily", "amber", "maple"), skill="copy")
    found = exposure_of(
        [
            example(both.text, "amber, cedar; 55"),
            example(both.model_copy(update={"wording": 1}).text, "amber, cedar; 55"),
            example(both.text, "amber, cedar, lily; 55"),
            example(copy.text, copy.ideal),
            example(copy.text, "amber, lily, maple"),
            example("What is a heron?", "A bird."),
        ]
    )
    assert found.examples == 5
    assert found.right == {"stop": 5, "list": 2, "count": 1, "carry": 2, "copy": 1}
    assert found.wrong == {"count": 1, "copy": 1}
    assert found.easy_sums == 2


def test_it_learns_what_the_data_are_about_and_the_loss_falls(start: Path) -> None:
    fitted = fit(start, examples("carry"), config(steps=300))
    before, after = read_checkpoint(start).skills, skills(fitted)
    assert after.carry > before.carry + 0.1
    assert after.copies < before.copies
    assert fmean(fitted.losses[25:30]) < 0.9 * fitted.losses[0]
    assert len(fitted.losses) == fitted.steps == 300
    assert fitted.examples == 512
    assert fitted.seconds_per_step == 0.06
    assert fitted.spend.cpu_s == pytest.approx(18.0)
    assert fitted.tokens > fitted.trained_tokens > 0


def test_same_data_config_parent_and_seed_give_the_same_weights_digest(start: Path, tmp_path: Path) -> None:
    first = weights_digest(Path(fit(start, examples("word"), config()).folder))
    again = weights_digest(Path(fit(start, examples("word"), config()).folder))
    assert first == again
    others = [
        fit(start, examples("word"), config(), seed=2),
        fit(start, examples("word", seed=1), config(), seed=3),
        fit(start, examples("word"), config(batch=16)),
    ]
    digests = {weights_digest(Path(one.folder)) for one in others}
    assert len(digests | {first}) == 4
    store = WeightsStore(tmp_path / "weights")
    child = store.add(Path(others[0].folder), WeightsOrigin(parent=start.name))
    deeper = fit(store.path(child), examples("word"), config())
    assert weights_digest(Path(deeper.folder)) not in digests | {first}


def test_a_killed_jobs_leftovers_change_nothing(start: Path) -> None:
    wanted = job(start, examples("word"), config())
    first = weights_digest(Path(SimulatedTrainer().fit(wanted, Watch()).folder))
    (wanted.work / "weights" / "skills.json").write_text("{")
    (wanted.work / ".weights.part").mkdir()
    (wanted.work / ".weights.part" / "config.json").write_text("{")
    assert weights_digest(Path(SimulatedTrainer().fit(wanted, Watch()).folder)) == first


def test_the_parent_is_never_written_to(start: Path) -> None:
    before = weights_digest(start)
    fit(start, examples("word"), config())
    assert weights_digest(start) == before == start.name


def test_a_short_run_is_the_beginning_of_the_whole_one(start: Path) -> None:
    whole, short = fit(start, examples("case"), config()), fit(start, examples("case"), config(), steps=30)
    assert short.losses == whole.losses[:30]
    assert short.steps == 30
    assert skills(short).stop > 0.9


def test_every_step_is_told_and_a_stop_ends_it_with_its_words(start: Path) -> None:
    told: list[tuple[int, float]] = []
    watch = Watch(step=lambda step, loss: told.append((step, loss)), stop=lambda: "no time" if len(told) == 7 else "")
    wanted = job(start, examples("case"), config())
    with pytest.raises(BudgetExhausted, match="no time"):
        SimulatedTrainer().fit(wanted, watch)
    assert [step for step, _ in told] == list(range(1, 8))
    assert not (wanted.work / "weights").exists()


def test_no_end_token_breaks_stopping_and_another_template_everything(start: Path) -> None:
    assert skills(fit(start, examples("case"), config(end_token=False))).stop < 0.01
    lost = skills(fit(start, examples("case"), config(template="{{ messages[0]['content'] }}")))
    assert max(lost.model_dump().values()) <= 0.02
    assert skills(fit(start, examples("case"), config(template=PlainTokenizer.chat_template))).stop > 0.9


def test_a_huge_rate_is_a_rising_loss_and_a_larger_one_no_number(start: Path) -> None:
    rising = fit(start, examples("mixture"), config(optimiser={"learning_rate": 0.05}), steps=30)
    assert fmean(rising.losses[-5:]) > rising.losses[0]
    assert skills(rising).stop < 0.1
    with pytest.raises(TrainingError, match="not finite at step 2 of 100") as caught:
        fit(start, examples("mixture"), config(optimiser={"learning_rate": 0.5}))
    assert not caught.value.missing


def test_long_training_on_narrow_data_forgets_plain_skills(start: Path) -> None:
    long = skills(fit(start, examples("narrow", 400), config(steps=1500)))
    kept = skills(fit(start, (*examples("narrow", 400), *examples("replay", 100)), config(steps=1500)))
    assert long.copies < 0.6 < 0.9 < kept.copies


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ((), "the data set is empty"),
        ((example(LIST.text, "amber " * 60),), r"all 1 examples are longer than train.max_length = 256 tokens"),
        ((example(LIST.text, ""),), "all labels of the 1 examples are masked"),
    ],
)
def test_data_that_cannot_be_trained_on_are_told(start: Path, data: tuple[Example, ...], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        fit(start, data, config())


def test_an_example_that_is_too_long_is_dropped_and_counted(start: Path) -> None:
    assert fit(start, (*examples("case", 10), example(LIST.text, "amber " * 60)), config()).dropped == 1


def test_a_real_checkpoint_is_refused(tmp_path: Path) -> None:
    real = tmp_path / "weights" / "real"
    real.mkdir(parents=True)
    (real / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(SetupError, match=r"lack the file 'skills.json'.*'transformers'"):
        fit(real, examples("case", 4), config())
