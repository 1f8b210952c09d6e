"""The preflight ladder on weights of a simulation: every check by name, and what each bad input does to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from heldout.errors import ModelError, SetupError, TrainingError
from heldout.models.base import Reply
from heldout.store.training_events import Check, Preflighted
from heldout.training import Example, Fitted, Provenance, TrainConfig
from heldout.training.encoding import encode
from heldout.training.plain_tokenizer import PlainTokenizer, end_ids_of, tokenizer_of
from heldout.training.pocket_tokenizer import TEMPLATE
from heldout.training.preflight import (
    STAGE_A,
    STAGE_B,
    Limits,
    PreflightOptions,
    cleared,
    passed,
    projected_s,
    stage_a,
    stage_b,
    template_digest,
)

NO_END = TEMPLATE.replace("{{ eos_token }}", "")


def example(number: int = 0, **changes: Any) -> Example:
    base = {"prompt": f"Copy: word{number}.", "completion": f"word{number}, ü\n“✓”"}
    return Example(**(base | {"provenance": Provenance(task=f"b/{number}", role="built")} | changes))


DATA = tuple(example(number) for number in range(100))


def failing(checks: Sequence[Check]) -> list[str]:
    return [check.name for check in checks if not check.passed]


def found(checks: Sequence[Check], name: str) -> str:
    return next(check.found for check in checks if check.name == name)


def test_good_data_pass_every_check_of_stage_a(tmp_path: Path) -> None:
    checks = stage_a(tmp_path, DATA, TrainConfig())
    assert tuple(check.name for check in checks) == STAGE_A
    assert passed(checks), failing(checks)
    assert found(checks, "end token") == "all 64 examples"


def test_an_empty_data_set_fails_the_check_data(tmp_path: Path) -> None:
    checks = stage_a(tmp_path, (), TrainConfig())
    assert failing(checks) == ["data"]
    assert not passed(checks)
    assert not passed(()), "no check is no pass"


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({"completion": " \n"}, "its completion is blank"),
        ({"prompt": ""}, "its prompt is blank"),
        ({"completion": "word<end>"}, "its completion holds the special token '<end>'"),
        ({"provenance": Provenance(task="", role="built")}, "its provenance names no task"),
    ],
)
def test_one_invalid_example_of_all_fails_the_check_schema(tmp_path: Path, bad: dict[str, Any], what: str) -> None:
    """All are looked at, not only those that are encoded."""
    data = [*DATA[:50], example(50, **bad), *DATA[51:]]
    checks = stage_a(tmp_path, data, TrainConfig(), options=PreflightOptions(examples=2))
    assert failing(checks) == ["schema"]
    assert found(checks, "schema") == f"1 of 100 examples not valid; example 50: {what}"


def test_a_template_without_an_end_token_fails_the_check_end_token(tmp_path: Path) -> None:
    checks = stage_a(tmp_path, DATA, TrainConfig(template=NO_END))
    assert failing(checks) == ["template", "end token"]
    assert found(checks, "end token").startswith("not 64 of 64 examples; the first: it ends with")


def test_data_without_the_end_token_fail_the_check_end_token(tmp_path: Path) -> None:
    assert failing(stage_a(tmp_path, DATA, TrainConfig(end_token=False))) == ["end token"]


def test_another_template_than_that_of_evaluation_fails_the_check_template(tmp_path: Path) -> None:
    other = TEMPLATE.replace("'<assistant>'", "'<assistant>\nAnswer: '").replace(
        "message['content'] }}", "('\nAnswer: ' if message['role'] == 'assistant' else '') + message['content'] }}"
    )
    checks = stage_a(tmp_path, DATA, TrainConfig(template=other))
    assert failing(checks) == ["template"]
    assert "training reads '<user>Copy: word0.<assistant>\\nAnswer: '" in found(checks, "template")
    assert stage_a(tmp_path, DATA, TrainConfig(template=TEMPLATE)) == stage_a(tmp_path, DATA, TrainConfig())


@pytest.mark.parametrize("template", ["{{ raise_exception('no') }}", "{% for %}", "{{ messages[5].content }}", "same"])
def test_a_template_that_does_not_render_the_data_fails_the_check_template(tmp_path: Path, template: str) -> None:
    checks = stage_a(tmp_path, DATA, TrainConfig(template=template))
    assert "template" in failing(checks)


def test_another_system_turn_than_that_of_evaluation_fails_the_check_template(tmp_path: Path) -> None:
    told = tuple(example(number, system="Be brief.") for number in range(3))
    assert passed(stage_a(tmp_path, told, TrainConfig(), instruction="Be brief.\n"))
    assert failing(stage_a(tmp_path, told, TrainConfig())) == ["template"]
    assert failing(stage_a(tmp_path, DATA, TrainConfig(), instruction="Be brief.")) == ["template"]


def test_a_template_that_teaches_more_than_the_answer_fails_the_check_mask(tmp_path: Path) -> None:
    chatty = TEMPLATE.replace("{{ eos_token }}", "{{ ' Anything else?' + eos_token }}")
    checks = stage_a(tmp_path, DATA, TrainConfig(template=chatty))
    assert failing(checks) == ["template", "mask"]
    assert "Anything else?', the answer is 'word0" in found(checks, "mask")


def test_data_whose_labels_are_all_masked_fail_the_check_labels(tmp_path: Path) -> None:
    blank = tuple(example(number, completion="") for number in range(3))
    checks = stage_a(tmp_path, blank, TrainConfig(end_token=False))
    assert "labels" in failing(checks)
    assert found(checks, "labels").startswith("not 3 of 3 examples; the first: all 14 labels are masked")


def test_too_many_examples_that_are_too_long_fail_the_check_length(tmp_path: Path) -> None:
    def data(long: int) -> list[Example]:
        return [example(number, completion="x" * (300 if number < long else 3)) for number in range(40)]

    assert passed(stage_a(tmp_path, data(2), TrainConfig(max_length=64))), "2 of 40 are five percent"
    checks = stage_a(tmp_path, data(3), TrainConfig(max_length=64))
    assert failing(checks) == ["length"]
    assert found(checks, "length") == "3 of 40 examples are longer than 64 tokens; the longest has 315"


def test_the_examples_that_are_looked_at_are_spread_over_the_data_set(tmp_path: Path) -> None:
    """A curriculum, or a second part that was appended, must not hide behind its beginning."""
    data = [example(number, system="" if number < 50 else "Be brief.") for number in range(100)]
    checks = stage_a(tmp_path, data, TrainConfig(), options=PreflightOptions(examples=10))
    assert found(checks, "template").startswith("not 5 of 10 examples")


def test_the_plain_tokenizer_gives_back_every_text() -> None:
    tokenizer = PlainTokenizer()
    text = "<system>ü<user>a\nb<assistant>“✓” <em>x</em><end>"
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids, skip_special_tokens=True) == "üa\nb“✓” <em>x</em>"
    assert ids[-1] == tokenizer.eos_token_id
    assert len(ids) == len(text) - sum(len(name) - 1 for name in ("<system>", "<user>", "<assistant>", "<end>"))


def test_weights_of_a_simulation_have_the_plain_tokenizer_and_a_checkpoint_without_one_is_refused(
    tmp_path: Path,
) -> None:
    assert isinstance(tokenizer_of(tmp_path), PlainTokenizer)
    assert end_ids_of(tmp_path, PlainTokenizer()) == {PlainTokenizer().eos_token_id}
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(SetupError, match=r"has no tokenizer\.json"):
        tokenizer_of(tmp_path)


def test_adapters_are_checked_with_the_tokenizer_of_what_they_adapt(tmp_path: Path) -> None:
    adapters, base = tmp_path / "a1", tmp_path / "b1"
    for folder in (adapters, base):
        folder.mkdir()
    (adapters / "adapter_config.json").write_text("{}")
    (adapters / "adapter_model.safetensors").write_bytes(b"")
    (adapters / "base.json").write_text('{"base": "b1"}')
    assert isinstance(tokenizer_of(adapters), PlainTokenizer)
    (base / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')
    assert end_ids_of(adapters, PlainTokenizer()) == {7, 9, PlainTokenizer().eos_token_id}
    base.rename(tmp_path / "b2")
    with pytest.raises(SetupError, match="the weights 'b1' that they adapt are not there"):
        tokenizer_of(adapters)


def test_the_preflight_encodes_as_the_training_does() -> None:
    encoded = encode(example(1), PlainTokenizer(), TrainConfig())
    assert PlainTokenizer().decode(encoded.ids) == f"<user>{example(1).prompt}<assistant>{example(1).completion}<end>"


def fitted(*losses: float, **changes: Any) -> Fitted:
    base = {
        "folder": "weights",
        "losses": losses,
        "steps": len(losses),
        "examples": 64,
        "tokens": 100,
        "trained_tokens": 50,
        "seconds_per_step": 0.25,
        "peak_memory_mb": 300.0,
    }
    return Fitted.model_validate(base | changes)


LEARNT = (2.0, *(1.9,) * 24, *(1.7,) * 5)


def answers(stopped: int, count: int = 32) -> Any:
    """An evaluator whose first `stopped` answers end by themselves."""

    def answer(folder: Path, wanted: int) -> list[Reply]:
        assert (folder, wanted) == (Path("weights"), 32)
        return [Reply(text="a", finish_reason="stop" if n < stopped else "length") for n in range(count)]

    return answer


def test_a_good_short_run_passes_every_check_of_stage_b() -> None:
    checks = stage_b(fitted(*LEARNT), answers(31), TrainConfig(steps=400), limits=Limits(seconds=100, memory_mb=400))
    assert tuple(check.name for check in checks) == STAGE_B
    assert passed(checks)
    assert found(checks, "loss falls").startswith("1.920 on average over the first 5 steps, 1.700 over the last")
    assert found(checks, "time") == "100 s"


def test_the_mean_of_the_last_five_losses_must_be_below_nine_tenths_of_the_first_five() -> None:
    begins = (1.8, 2.2, 2.0, 1.9, 2.1)  # 2.0 on average
    flat = (*begins, *(1.0,) * 20, 1.7, 1.9, 1.8, 1.7, 1.9)  # mean of the last five 1.8 = 0.9 × 2.0
    assert failing(stage_b(fitted(*flat), answers(32), TrainConfig())) == ["loss falls"]
    assert passed(stage_b(fitted(*flat[:-1], 1.89), answers(32), TrainConfig()))
    assert passed(stage_b(fitted(*flat), answers(32), TrainConfig(), options=PreflightOptions(loss_ratio=0.95)))


def test_a_training_that_could_not_begin_is_no_loss_that_was_not_finite() -> None:
    (check,) = stage_b(SetupError("no adapters fit"), answers(32), TrainConfig())
    assert (check.name, check.passed, check.found) == ("trains", False, "no adapters fit")


def test_a_short_run_of_few_steps_compares_its_two_halves() -> None:
    for losses in ((3.0, 2.0), (3.0, 2.9, 2.0, 2.1), (3.0, 3.0, 9.0, 2.0, 2.0)):
        assert passed(stage_b(fitted(*losses), answers(32), TrainConfig())), losses
    for losses in ((2.0,), (2.0, 1.9), (2.0, 2.0, 1.0, 1.9, 1.9)):
        assert failing(stage_b(fitted(*losses), answers(32), TrainConfig())) == ["loss falls"], losses


def test_a_parent_that_knows_its_data_needs_only_a_loss_that_does_not_climb() -> None:
    known = (0.2, 0.2, 0.2, 0.2, 0.2, *(0.25,) * 5)
    assert passed(stage_b(fitted(*known), answers(32), TrainConfig()))
    assert failing(stage_b(fitted(*known), answers(32), TrainConfig(), options=PreflightOptions(mastered=0.0))) == [
        "loss falls"
    ]
    climbs = (*known[:5], *(0.31,) * 5)
    assert failing(stage_b(fitted(*climbs), answers(32), TrainConfig())) == ["loss falls"]
    high = (0.69, 0.69, 0.69, 0.69, 0.69, *(0.71,) * 5)
    assert failing(stage_b(fitted(*high), answers(32), TrainConfig())) == ["loss falls"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_fails_the_check_finite_loss(bad: float) -> None:
    """Its checkpoint is not even loaded."""
    checks = stage_b(fitted(2.0, 1.9, bad), answers(0), TrainConfig())
    assert failing(checks) == ["finite loss"]
    assert found(checks, "finite loss") == f"a loss of {bad} at step 3 of 3"
    assert failing(stage_b(fitted(), answers(0), TrainConfig())) == ["finite loss"]


def test_a_short_run_that_died_of_its_loss_fails_and_one_that_died_of_the_machine_is_missing() -> None:
    """Invariant 12: an accident says nothing about the recipe."""
    died = TrainingError("the loss is not finite at step 7 of 30")
    checks = stage_b(died, answers(0), TrainConfig())
    assert [(check.name, check.passed, check.found) for check in checks] == [("finite loss", False, str(died))]
    with pytest.raises(TrainingError, match="out of memory"):
        stage_b(TrainingError("out of memory", missing=True), answers(0), TrainConfig())


def test_a_checkpoint_that_the_evaluator_does_not_load_fails_the_check_loads() -> None:
    def refuse(_folder: Path, _count: int) -> list[Reply]:
        raise SetupError("it lacks the tensor 'model.norm.weight'")

    checks = stage_b(fitted(*LEARNT), refuse, TrainConfig())
    assert failing(checks) == ["loads"]
    assert found(checks, "loads") == "it lacks the tensor 'model.norm.weight'"

    def silent(_folder: Path, _count: int) -> list[Reply]:
        raise ModelError("no answer")

    assert failing(stage_b(fitted(*LEARNT), silent, TrainConfig())) == ["loads"]
    assert failing(stage_b(fitted(*LEARNT), answers(31, 31), TrainConfig())) == ["loads"], "one answer is missing"


@pytest.mark.parametrize(("stopped", "failed"), [(32, []), (31, []), (30, ["stops"]), (0, ["stops"])])
def test_95_percent_of_32_answers_must_stop_by_themselves(stopped: int, failed: list[str]) -> None:
    checks = stage_b(fitted(*LEARNT), answers(stopped), TrainConfig())
    assert failing(checks) == failed
    assert found(checks, "stops") == f"{stopped} of 32 answers ended by themselves"


def test_memory_and_projected_time_must_fit_what_is_left() -> None:
    run, config = fitted(*LEARNT), TrainConfig(steps=400)
    assert projected_s(run, config) == 100.0
    assert failing(stage_b(run, answers(32), config, limits=Limits(seconds=99.9))) == ["time"]
    assert failing(stage_b(run, answers(32), config, limits=Limits(memory_mb=299.0))) == ["memory"]
    assert failing(stage_b(run, answers(32), config, options=PreflightOptions(memory_mb=299.0))) == ["memory"]
    assert passed(stage_b(run, answers(32), config))


def verdict(stage: str, ok: bool = True, **changes: str) -> Preflighted:
    digests = {"data": "d", "template": "t", "config": "c"} | changes
    return Preflighted.model_validate({"round": 0, "stage": stage, "checks": [], "passed": ok} | digests)


def test_invariant_3_nothing_is_cleared_before_both_stages_passed_for_the_same_digests() -> None:
    def is_cleared(*ladder: Preflighted) -> bool:
        return cleared(ladder, data="d", template="t", config="c")

    assert is_cleared(verdict("a"), verdict("b"))
    assert not is_cleared()
    assert not is_cleared(verdict("a"))
    assert not is_cleared(verdict("b"))
    assert not is_cleared(verdict("a"), verdict("b", ok=False))
    assert not is_cleared(verdict("a", ok=False), verdict("b"))
    for other in ("data", "template", "config"):
        assert not is_cleared(verdict("a"), verdict("b", **{other: "x"})), other
    assert is_cleared(verdict("a", data="x"), verdict("a"), verdict("b")), "other data say nothing"


def test_the_template_digest_names_both_templates_and_the_system_turn(tmp_path: Path) -> None:
    plain = template_digest(tmp_path, TrainConfig())
    assert template_digest(tmp_path, TrainConfig(steps=5)) == plain
    assert template_digest(tmp_path, TrainConfig(template=NO_END)) != plain
    assert template_digest(tmp_path, TrainConfig(), instruction="Be brief.") != plain
