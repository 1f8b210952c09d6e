"""What a loop over skills will do at most, loop by loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from heldout.config import RunConfig
from heldout.loops import load_loop
from heldout.loops.gepa import metric_calls
from heldout.loops.skills.options import GepaOptions, MergedOptions, SkillOptions
from heldout.options import read_options

__all__ = ["SkillBounds", "skill_bounds"]


@dataclass(frozen=True, slots=True)
class SkillBounds:
    """Upper bounds, in evaluations; the start's sweep, noise, final, retention and sealed roles are not in them."""

    proposals: int
    per_proposal: int
    """Select tasks, confirmations aside."""
    batch: int
    """Train tasks for one proposal."""
    confirmation: int
    """Second runs of flips, in the whole search."""
    search: int
    """Everything that the rounds and a draft may take together."""
    retention: bool
    """Whether the run ends with the arms on train and audit."""

    @property
    def per_round(self) -> int:
        """What one more proposal takes, confirmations aside."""
        return self.per_proposal + self.batch


def skill_bounds(config: RunConfig) -> SkillBounds:
    """Of the loop that the config names, one of `SKILL_LOOPS`."""
    return _BOUNDS[config.loop](config)


def _options(config: RunConfig) -> SkillOptions:
    model: type[SkillOptions] = load_loop(config.loop).options_model
    return read_options(model, config.options, where=f"the loop {config.loop!r}")


def _gated(config: RunConfig) -> SkillBounds:
    options = _options(config)
    return _paired(config, options, rounds=config.search.generations, batch=min(options.batch, config.tasks.train))


def _drafted(config: RunConfig) -> SkillBounds:
    gated = _gated(config)
    return replace(gated, search=gated.search + config.tasks.select)


def _merged(config: RunConfig) -> SkillBounds:
    options = read_options(MergedOptions, config.options, where=f"the loop {config.loop!r}")
    rounds = min(options.passes, config.search.generations)
    return _paired(config, options, rounds=rounds, batch=config.tasks.train)


def _paired(config: RunConfig, options: SkillOptions, *, rounds: int, batch: int) -> SkillBounds:
    """A proposal in every round, both sides run anew, every select task a flip."""
    select, sweep = config.tasks.select, options.sweep
    per_proposal = select * (1 + sweep.rerun_parent)
    confirmation = 2 * select * rounds if sweep.confirm_flips else 0
    search = rounds * (per_proposal + batch) + confirmation
    return SkillBounds(rounds, per_proposal, batch, confirmation, search, options.retention)


def _one_shot(config: RunConfig) -> SkillBounds:
    select = config.tasks.select
    return SkillBounds(1, select, batch=0, confirmation=0, search=select, retention=_options(config).retention)


def _frontier(config: RunConfig) -> SkillBounds:
    """Children are scored once, parents never again."""
    options, rounds, select = _options(config), config.search.generations, config.tasks.select
    batch = min(options.batch, config.tasks.train)
    search = rounds * (select + batch)
    return SkillBounds(rounds, select, batch, confirmation=0, search=search, retention=options.retention)


def _gepa(config: RunConfig) -> SkillBounds:
    """GEPA's budget of calls, which its last iteration may pass; most iterations fit in where no edit can be used."""
    options = read_options(GepaOptions, config.options, where=f"the loop {config.loop!r}")
    select, batch = config.tasks.select, min(options.batch, config.tasks.train)
    calls = metric_calls(config, options)
    search = calls + 2 * batch + select
    proposals = -(-(calls - select) // batch)
    return SkillBounds(proposals, select, 2 * batch, confirmation=0, search=search, retention=options.retention)


_BOUNDS: Mapping[str, Callable[[RunConfig], SkillBounds]] = MappingProxyType(
    {
        "gso": _gated,
        "one_shot_skill": _one_shot,
        "persistent_skill": _drafted,
        "skill_frontier": _frontier,
        "merged_patches": _merged,
        "gepa": _gepa,
    }
)
