"""The preflight ladder: what tiny data and a short run must show before a full training is paid for.

Stage a looks at the data, the chat template, the label mask and the end token; stage b at a short run: its losses, and
whether the checkpoint loads in the evaluator and stops by itself. A base model that was trained without its end token,
or with another one, is the commonest silent failure of fine-tuning; both stages look for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from heldout.errors import ModelError, SetupError, TrainingError
from heldout.models.base import Reply
from heldout.records import Record, digest_of
from heldout.store.training_events import Check, Preflighted
from heldout.training.base import Fitted
from heldout.training.encoding import IGNORED, Encoded, encode, encode_prompt, end_texts
from heldout.training.examples import Example
from heldout.training.plain_tokenizer import CheckedTokenizer, end_ids_of, tokenizer_of
from heldout.training.settings import TrainConfig

__all__ = [
    "STAGE_A",
    "STAGE_B",
    "Answers",
    "Limits",
    "PreflightOptions",
    "cleared",
    "passed",
    "projected_s",
    "stage_a",
    "stage_b",
    "template_digest",
]

STAGE_A = ("data", "schema", "template", "round trip", "labels", "mask", "end token", "length")
"""Names of the checks on tiny data, in order."""

STAGE_B = ("finite loss", "loss falls", "loads", "stops", "memory", "time")
"""Names of the checks of the short run, in order."""

Answers = Callable[[Path, int], Sequence[Reply]]
"""Load a checkpoint folder in the evaluator, sample so many answers. `SetupError` or `ModelError` where it cannot; a
`TrainingError` that is missing where the machine is to blame."""

_MEAN = 5
"""Steps at both ends of the short run whose mean losses are compared."""

_CLIMBS = 1.5


class PreflightOptions(Record):
    """`options.preflight`: sizes and thresholds of the ladder."""

    enabled: bool = True
    """False pays for full trainings unseen (an ablation)."""
    examples: int = Field(default=64, ge=1)
    """Examples that stage a encodes, spread over the data set."""
    steps: int = Field(default=30, ge=2)
    """Optimiser steps of the short run of stage b."""
    loss_ratio: float = Field(default=0.9, gt=0.0)
    """The mean loss of the last 5 steps must be below this share of that of the first 5."""
    mastered: float = Field(default=0.7, ge=0.0)
    """Mean loss per token of the last 5 steps (nats; e^−0.7 is one half) below which it is enough not to climb: the
    parent knows such answers already. 0 asks every short run to fall."""
    answers: int = Field(default=32, ge=1)
    """Answers that are sampled from the short run's checkpoint."""
    stop_rate: float = Field(default=0.95, ge=0.0, le=1.0)
    """Share of them that must end by themselves."""
    overlong: float = Field(default=0.05, ge=0.0, le=1.0)
    """Share of the examples that may be longer than `train.max_length`; they are dropped."""
    memory_mb: float | None = Field(default=None, gt=0.0)
    """Largest peak memory; None sets no limit."""
    repairs: int = Field(default=2, ge=0)
    """How often the builder may mend an attempt that failed a check."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is left for the full run; None is no limit."""

    seconds: float | None = None
    memory_mb: float | None = None


def stage_a(
    parent: Path,
    examples: Sequence[Example],
    config: TrainConfig,
    *,
    instruction: str = "",
    options: PreflightOptions | None = None,
) -> tuple[Check, ...]:
    """Check data, template, mask and end token on a few examples; nothing is trained.

    `parent` is the folder whose tokenizer evaluation uses, `instruction` the system turn of evaluation. A parent that
    has no usable tokenizer is a `SetupError`; whatever data or config are to blame for is a failed check.
    """
    options = options or PreflightOptions()
    tokenizer = tokenizer_of(parent)
    end_ids = end_ids_of(parent, tokenizer)
    checks = [_check("data", bool(examples), f"{len(examples)} examples", "at least 1 example")]
    if not examples:
        return tuple(checks)
    checks.append(_schema(examples, (*tokenizer.all_special_tokens, *end_texts(tokenizer, end_ids))))
    shown = _spread(examples, options.examples)
    try:
        encoded = [encode(example, tokenizer, config, end_ids=end_ids) for example in shown]
    except SetupError as fault:
        return (*checks, _check("template", False, str(fault), "a chat template that renders every example"))
    trial = _Trial(shown, encoded, tokenizer, config, end_ids)
    return (
        *checks,
        _same_template(trial, instruction),
        _round_trip(trial),
        _labels(trial),
        _mask(trial),
        _end_token(trial),
        _length(trial, options.overlong),
    )


def stage_b(
    run: Fitted | TrainingError | SetupError,
    answers: Answers,
    config: TrainConfig,
    *,
    limits: Limits | None = None,
    options: PreflightOptions | None = None,
) -> tuple[Check, ...]:
    """Check the short run of `options.steps` steps, and that its checkpoint loads and stops in the evaluator.

    A run that died is a failed check, unless an accident of the machine ended it: that error is raised again, since
    nothing is known about the recipe. A `SetupError` is a training that could not begin with these data and settings.
    """
    limits, options = limits or Limits(), options or PreflightOptions()
    if isinstance(run, SetupError):
        return (_check("trains", False, str(run), "a training that begins"),)
    if isinstance(run, TrainingError):
        if run.missing:
            raise run
        return (_check("finite loss", False, str(run), f"a finite loss at each of {options.steps} steps"),)
    checks = [_finite_loss(run)]
    if not checks[0].passed:
        return tuple(checks)
    checks.append(_loss_falls(run, options))
    try:
        replies = answers(Path(run.folder), options.answers)
    except (SetupError, ModelError, TrainingError) as fault:
        # A full disk or a broken grader says nothing about the recipe, and passes.
        if isinstance(fault, TrainingError) and fault.missing:
            raise
        checks.append(_check("loads", False, str(fault), "a checkpoint that the evaluator loads"))
    else:
        checks += [_loads(replies, options), _stops(replies, options)]
    memory = options.memory_mb if limits.memory_mb is None else limits.memory_mb
    checks.append(_at_most("memory", run.peak_memory_mb, memory, unit="MB"))
    checks.append(_at_most("time", projected_s(run, config), limits.seconds, unit="s"))
    return tuple(checks)


def projected_s(run: Fitted, config: TrainConfig) -> float:
    """Seconds that the full run will take, by the pace of the short one."""
    return run.seconds_per_step * config.steps


def passed(checks: Iterable[Check]) -> bool:
    """Whether there are checks, and none failed."""
    verdicts = [check.passed for check in checks]
    return bool(verdicts) and all(verdicts)


def template_digest(parent: Path, config: TrainConfig, *, instruction: str = "") -> str:
    """Identity of the chat templates of evaluation and training, and of the system turn of evaluation."""
    tokenizer = tokenizer_of(parent)
    return digest_of([tokenizer.chat_template, tokenizer.eos_token, config.template, instruction])


def cleared(ladder: Iterable[Preflighted], *, data: str, template: str, config: str) -> bool:
    """Whether both stages passed for exactly these digests, and none failed: only then a full run may be paid for."""
    verdicts = {
        one.stage: one.passed for one in ladder if (one.data, one.template, one.config) == (data, template, config)
    }
    return verdicts == {"a": True, "b": True}


@dataclass(frozen=True, slots=True)
class _Trial:
    """The examples of stage a as a training would see them."""

    examples: Sequence[Example]
    encoded: Sequence[Encoded]
    tokenizer: CheckedTokenizer
    config: TrainConfig
    end_ids: frozenset[int]
    """Tokens at which the evaluator stops."""

    def decoded(self, ids: Sequence[int]) -> str:
        """The text of some tokens, the special ones too."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def written(self, example: Example) -> str:
        """The whole conversation as the template of training writes it."""
        options = {"tokenize": False, "add_generation_prompt": False}
        return str(
            self.tokenizer.apply_chat_template(example.conversation, chat_template=self.config.template, **options)
        )

    def count(self, name: str, faults: Sequence[str], wanted: str) -> Check:
        """A check that each example must pass; `faults` has a text for each one that does not."""
        n = len(self.examples)
        found = f"all {n} examples" if not faults else f"not {len(faults)} of {n} examples; the first: {faults[0]}"
        return _check(name, not faults, found, wanted)


def _schema(examples: Sequence[Example], special: Sequence[str]) -> Check:
    faults = [(place, fault) for place, one in enumerate(examples) if (fault := _fault(one, special))]
    found = f"all {len(examples)} examples valid"
    if faults:
        place, fault = faults[0]
        found = f"{len(faults)} of {len(examples)} examples not valid; example {place}: {fault}"
    return _check("schema", not faults, found, "a prompt, an answer and a provenance in every example")


def _fault(example: Example, special: Sequence[str]) -> str:
    if not example.prompt.strip():
        return "its prompt is blank"
    if not example.completion.strip():
        return "its completion is blank"
    if not example.provenance.task:
        return "its provenance names no task"
    inside = [token for token in special if token.strip() and token in example.completion]
    return f"its completion holds the special token {inside[0]!r}" if inside else ""


def _spread(examples: Sequence[Example], count: int) -> list[Example]:
    """At most `count` of them, evenly spread: a data set may be a curriculum, or several parts in a row."""
    shown = min(count, len(examples))
    return [examples[place * len(examples) // shown] for place in range(shown)]


def _same_template(trial: _Trial, instruction: str) -> Check:
    """Whether training reads exactly the tokens that evaluation sends, and writes those that evaluation expects."""
    wanted = "the tokens of the chat template, and of the system turn, that evaluation uses"
    own = trial.config.model_copy(update={"template": None})
    faults = []
    for example, encoded in zip(trial.examples, trial.encoded, strict=True):
        sent = encode_prompt(example.model_copy(update={"system": instruction.strip()}), trial.tokenizer)
        read = encoded.ids[: encoded.prompt_length]
        if read != sent:
            faults.append(f"training reads {trial.decoded(read)[:80]!r}, evaluation sends {trial.decoded(sent)[:80]!r}")
        elif (
            trial.config.template is not None
            and encoded.ids != encode(example, trial.tokenizer, own, end_ids=trial.end_ids).ids
        ):
            faults.append(f"the answer is written as {trial.decoded(encoded.ids[len(read) :])[-80:]!r}")
    return trial.count("template", faults, wanted)


def _round_trip(trial: _Trial) -> Check:
    """Whether the tokens give back the conversation as the template writes it, up to the end token."""
    faults = []
    for example, encoded in zip(trial.examples, trial.encoded, strict=True):
        written, back = trial.written(example), trial.decoded(encoded.ids)
        if not written.startswith(back) or example.completion.strip() not in back:
            faults.append(f"{written[:160]!r} comes back as {back[:160]!r}")
    return trial.count("round trip", faults, "every conversation comes back from its tokens, sign for sign")


def _labels(trial: _Trial) -> Check:
    faults = [
        f"all {len(encoded.labels)} labels are masked: {example.completion[:60]!r}"
        for example, encoded in zip(trial.examples, trial.encoded, strict=True)
        if not encoded.trained_tokens
    ]
    return trial.count("labels", faults, "loss is taken on at least one token of every example")


def _mask(trial: _Trial) -> Check:
    faults = []
    for example, encoded in zip(trial.examples, trial.encoded, strict=True):
        start = encoded.prompt_length
        prompt, answer = encoded.labels[:start], encoded.labels[start:]
        learnt = answer[:-1] if answer and answer[-1] in trial.end_ids else answer
        text = trial.decoded([label for label in learnt if label != IGNORED])
        if any(label != IGNORED for label in prompt):
            faults.append(f"loss is taken on the prompt {example.prompt[:60]!r}")
        elif answer != encoded.ids[start:] or text.strip() != example.completion.strip():
            faults.append(f"loss is taken on {text[:80]!r}, the answer is {example.completion[:80]!r}")
    return trial.count("mask", faults, "loss is taken on the answer and its end token, and on nothing else")


def _end_token(trial: _Trial) -> Check:
    """Whether what is learnt ends with a token at which the evaluator stops."""
    faults = [
        f"it ends with {trial.decoded(encoded.ids[-3:])!r}"
        for encoded in trial.encoded
        if not encoded.labels or encoded.labels[-1] not in trial.end_ids
    ]
    ends = " or ".join(repr(text) for text in end_texts(trial.tokenizer, trial.end_ids))
    return trial.count("end token", faults, f"every answer ends with the unmasked token {ends}")


def _length(trial: _Trial, overlong: float) -> Check:
    lengths = [len(encoded.ids) for encoded in trial.encoded]
    longest = trial.config.max_length
    over = sum(length > longest for length in lengths)
    found = f"{over} of {len(lengths)} examples are longer than {longest} tokens; the longest has {max(lengths)}"
    return _check("length", over <= overlong * len(lengths), found, f"at most {overlong:.0%} that are dropped")


def _finite_loss(run: Fitted) -> Check:
    wrong = [step for step, loss in enumerate(run.losses, 1) if not math.isfinite(loss)]
    found = f"{len(run.losses)} finite losses"
    if wrong:
        found = f"a loss of {run.losses[wrong[0] - 1]} at step {wrong[0]} of {len(run.losses)}"
    return _check("finite loss", bool(run.losses) and not wrong, found, "a finite loss at each step")


def _loss_falls(run: Fitted, options: PreflightOptions) -> Check:
    """Means of five steps at both ends, or of half the steps where there are fewer than ten, since one batch's loss
    says little. A parent that knows its data already has nothing to lose in a short run; its loss must only not
    climb."""
    size = max(1, min(_MEAN, len(run.losses) // 2))
    first, last = (sum(part) / len(part) for part in (run.losses[:size], run.losses[-size:]))
    falls = last < options.loss_ratio * first
    mastered = last < options.mastered and last < _CLIMBS * first
    found = f"{first:.3f} on average over the first {size} steps, {last:.3f} over the last, of {len(run.losses)}"
    wanted = f"below {options.loss_ratio:g} × the first = {options.loss_ratio * first:.3f}"
    wanted += f", or below {options.mastered:g} without climbing by half"
    return _check("loss falls", falls or mastered, found, wanted)


def _loads(replies: Sequence[Reply], options: PreflightOptions) -> Check:
    found = f"{len(replies)} answers"
    return _check("loads", len(replies) == options.answers, found, f"{options.answers} answers from the evaluator")


def _stops(replies: Sequence[Reply], options: PreflightOptions) -> Check:
    stopped = sum(reply.finish_reason != "length" for reply in replies)
    found = f"{stopped} of {len(replies)} answers ended by themselves"
    fine = bool(replies) and stopped >= options.stop_rate * len(replies)
    return _check("stops", fine, found, f"at least {options.stop_rate:.0%}")


def _at_most(name: str, value: float, limit: float | None, *, unit: str) -> Check:
    wanted = "no limit is set" if limit is None else f"at most {limit:.0f} {unit}"
    return _check(name, limit is None or value <= limit, f"{value:.0f} {unit}", wanted)


def _check(name: str, fine: bool, found: str, wanted: str) -> Check:
    return Check(name=name, passed=fine, found=found, wanted=wanted)
