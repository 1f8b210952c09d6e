"""How a simulated learner changes with its training data: stated learning curves, forgetting, noise, and a loss.

Notation: a training of T steps of B sequences on N different examples sees each of them E = T·B / N times; d_c of them,
a share q_c, have to do with source c (a fault, or a plain skill), and a share r_c of these is right.

- Effective examples: e_c = d_c · g · Σ_{k<E} ρ^k, ρ = 0.5 (of a broken epoch its part): a further look at an example
  gives half of the one before. Completions that occur twice are one example. g = min(1, rate / 10⁻³), times 0.7 for
  adapters.
- Learning: s_c ← s_c + (t_c − s_c) · (1 − exp(−e_c / τ_c)), with t_c = max(s_c, cap_c) where all are right, and else
  t_c = r_c · cap_c: wrong completions teach to be wrong. Sums are learned from fewer examples (τ · 0.6) where at least
  a fifth of them does not carry: the curriculum.
- Forgetting: s_c ← s_c · exp(−φ_c), φ_c = ψ · x · (1 + E / 40) · max(0, 1 − q_c / 0.05), with x = T·rate·h / 0.3 (1 for
  300 steps at 10⁻³; h = 0.5 for adapters). What is one example in twenty is kept.
- End token: with it, every example has to do with `stop`; without it, s ← s · exp(−T·B·g / τ_stop), and no more is
  learned of it.
- Another template than that of evaluation: every s is at most 0.02 afterwards, whatever was learned.
- A rate above 0.02 (0.2 for adapters): the loss rises by a tenth of the first with each step, and every s is multiplied
  by 0.3, `stop` by 0.02; above ten times that the loss is not finite.
- Training noise: logit s_c ← logit s_c + σ · min(1, x) · z_c, z standard normal by (parent, data, config, seed).
- Loss of a step, per completion token: 0.03 + 0.05 · exp(−n / 300) + Σ_c q_c · w_c · (−ln s_c), after n sequences, with
  the skills of that step, w = 0.25 (`stop`: 0.5), and noise of 2 %. The second term is what is new in any data.

All constants are our choice; none is fitted to a model.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from heldout.worlds.formats.skills import Learning, Skills

__all__ = ["CAPS", "LIMIT", "TAUS", "Exposure", "Schooling", "diverges", "is_finite", "learned", "loss_curve"]

CAPS: Mapping[str, float] = MappingProxyType(
    {"stop": 0.995, "wrapper": 0.97, "list": 0.985, "count": 0.95, "case": 0.98, "word": 0.96, "carry": 0.92}
    | {"copy": 0.99, "reverse": 0.95, "sort": 0.93}
)
"""What a source can be learned to, by name of the fault or plain skill."""

TAUS: Mapping[str, float] = MappingProxyType(
    {"stop": 120.0, "wrapper": 2500.0, "list": 6000.0, "count": 4000.0, "case": 2000.0, "word": 2500.0, "carry": 8000.0}
    | {"copy": 2000.0, "reverse": 3000.0, "sort": 4000.0}
)
"""Effective examples in which 63 % of the way is gone."""

LIMIT = 0.02
"""The largest rate that full training bears; adapters bear ten times that."""

_DECAY = 0.5
_USUAL_RATE = 1e-3
_USUAL_STEPS = 300
_EPOCHS = 40.0
_COVERED = 0.05
_CURRICULUM_SHARE, _CURRICULUM_SPEED = 0.2, 0.6
_TEMPLATE_LOST = 0.02
_BURNT, _BURNT_STOP, _RISE = 0.3, 0.02, 0.1
_FLOOR, _NEW, _NEW_TAU, _WEIGHT, _STOP_WEIGHT, _LOSS_NOISE = 0.03, 0.05, 300.0, 0.25, 0.5, 0.02
_LEAST = 0.005
"""Skills are kept this far from 0 and 1 where a logarithm or logit is taken."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """What a data set holds, by source."""

    examples: int
    """N: different ones."""
    right: Mapping[str, int]
    """Those that have to do with the source and are right."""
    wrong: Mapping[str, int]
    """Those that have the fault."""
    easy_sums: int = 0
    """Those of `right["carry"]` without a carry."""

    def count(self, source: str) -> int:
        """d_c."""
        return self.right.get(source, 0) + self.wrong.get(source, 0)

    def share(self, source: str) -> float:
        """q_c."""
        return self.count(source) / self.examples


@dataclass(frozen=True, slots=True)
class Schooling:
    """How the data is trained on."""

    steps: int
    batch: int
    rate: float
    adapters: bool = False
    end_token: bool = True
    same_template: bool = True

    @property
    def seen(self) -> int:
        """T·B: sequences."""
        return self.steps * self.batch

    @property
    def gain(self) -> float:
        """g."""
        return min(1.0, self.rate / _USUAL_RATE) * (0.7 if self.adapters else 1.0)

    @property
    def movement(self) -> float:
        """x: how far the weights move."""
        return self.steps * self.rate / (_USUAL_STEPS * _USUAL_RATE) * (0.5 if self.adapters else 1.0)

    @property
    def limit(self) -> float:
        """The largest rate that it bears."""
        return LIMIT * (10.0 if self.adapters else 1.0)


def diverges(schooling: Schooling) -> bool:
    """Whether the loss rises instead of falling."""
    return schooling.rate > schooling.limit


def is_finite(schooling: Schooling) -> bool:
    """Whether the loss stays a number."""
    return schooling.rate <= 10.0 * schooling.limit


def learned(skills: Skills, data: Exposure, schooling: Schooling, learning: Learning, *, luck: str) -> Skills:
    """The skills after a training; `luck` names its draw of the training noise."""
    rng = random.Random(luck)
    after: dict[str, float] = {}
    for source in CAPS:
        value = _taught(source, skills.of(source), data, schooling, learning)
        if source != "stop" or schooling.end_token:
            value *= math.exp(-_forgotten(source, data, schooling, learning))
        if diverges(schooling):
            value *= _BURNT_STOP if source == "stop" else _BURNT
        spread = learning.noise * min(1.0, schooling.movement)
        value = _noisy(value, spread * rng.gauss(0.0, 1.0))
        if not schooling.same_template:
            value = min(value, _TEMPLATE_LOST)
        after["copies" if source == "copy" else source] = round(value, 9)
    return Skills.model_validate(after)


def loss_curve(
    skills: Skills, data: Exposure, schooling: Schooling, learning: Learning, *, steps: int, luck: str
) -> tuple[float, ...]:
    """Losses of the first `steps` steps."""
    rng = random.Random(f"{luck} losses")
    sources = [(source, data.share(source) * _WEIGHT) for source in CAPS if source != "stop" and data.share(source)]
    sources += [("stop", _STOP_WEIGHT)] if schooling.end_token else []
    curves = [(weight, _curve(source, skills.of(source), data, schooling, learning)) for source, weight in sources]

    def loss(step: int) -> float:
        new = _NEW * math.exp(-step * schooling.batch / _NEW_TAU)
        return _FLOOR + new - sum([weight * math.log(curve(step)) for weight, curve in curves])

    rises = diverges(schooling)
    means = [loss(0) * (1.0 + _RISE * step) if rises else loss(step) for step in range(steps)]
    return tuple([round(mean * (1.0 + _LOSS_NOISE * rng.gauss(0.0, 1.0)), 6) for mean in means])


class _Curve:
    """The skill of one source as a function of the steps that were made."""

    __slots__ = ("_epochs", "_gap", "_rate", "_target")

    def __init__(self, start: float, target: float, rate: float, epochs: float) -> None:
        self._target, self._gap = target, target - start
        self._rate, self._epochs = rate, epochs

    def __call__(self, step: int) -> float:
        value = self._target - self._gap * math.exp(-self._rate * _looks(step * self._epochs))
        return min(1.0 - _LEAST, max(_LEAST, value))


def _curve(source: str, start: float, data: Exposure, schooling: Schooling, learning: Learning) -> _Curve:
    rate = data.count(source) * schooling.gain / _tau(source, data, learning)
    return _Curve(start, _target(source, start, data), rate, schooling.batch / data.examples)


def _looks(epochs: float) -> float:
    """Σ_{k<E} ρ^k."""
    whole = math.floor(epochs)
    return (1.0 - _DECAY**whole) / (1.0 - _DECAY) + (epochs - whole) * _DECAY**whole


def _taught(source: str, value: float, data: Exposure, schooling: Schooling, learning: Learning) -> float:
    if source == "stop" and not schooling.end_token:
        return value * math.exp(-schooling.seen * schooling.gain * learning.speed / TAUS["stop"])
    count = data.count(source) * schooling.gain * _looks(schooling.seen / data.examples)
    way = -math.expm1(-count / _tau(source, data, learning))
    return value + (_target(source, value, data) - value) * way


def _target(source: str, value: float, data: Exposure) -> float:
    right, wrong = data.right.get(source, 0), data.wrong.get(source, 0)
    if wrong:
        return CAPS[source] * right / (right + wrong)
    return max(value, CAPS[source])


def _tau(source: str, data: Exposure, learning: Learning) -> float:
    helped = source == "carry" and data.easy_sums >= _CURRICULUM_SHARE * max(1, data.right.get("carry", 0))
    return TAUS[source] / learning.speed * (_CURRICULUM_SPEED if helped else 1.0)


def _forgotten(source: str, data: Exposure, schooling: Schooling, learning: Learning) -> float:
    """φ_c."""
    uncovered = max(0.0, 1.0 - data.share(source) / _COVERED)
    epochs = schooling.seen / data.examples
    return learning.forgetting * schooling.movement * (1.0 + epochs / _EPOCHS) * uncovered


def _noisy(value: float, shift: float) -> float:
    """The value moved on its logit; 0 and 1 stay."""
    if not 0.0 < value < 1.0:
        return value
    return 1.0 / (1.0 + math.exp(-(math.log(value / (1.0 - value)) + shift)))
