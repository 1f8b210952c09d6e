"""The five weaknesses of the simulated coder: who has them, and what in a workspace's text moves them.

For a task and a system text, weakness w acts in an episode with probability

    q = 1 − (1 − s · Π (1 − helping strengths)) · Π (1 − hurting strengths)

where s is the task's own susceptibility (`traits_of`), and the products go over the sentences of `INFLUENCES` that the
text holds and that reach this task. A sentence reaches a share of the tasks, drawn from the task and the sentence's
name; some act in one bug family only. Whether w acts is one uniform below q; the uniform is a hash of (task, seed,
system text, weakness): any other system text redraws it, as for a language model, and an edit of hooks or of `obs_cap`
does not (`max_turns` stands in the text). What those do, the coder sees in what comes back to it; see `plan`.

Shares and strengths were set by hand so that these exact expectations hold (`python bench/repair_coder.py --worlds 5`:
1600 tasks of the ordinary families, ν = 0.15): the start harness passes 41.8 %, two of its runs differ on 15.3 % of the
tasks, a useful edit alone adds 5.3 to 7.5 points, a harmful one takes 3.2 to 10.2, a null one changes nothing, and all
useful ones together pass 85.4 %. One task in ten is unsolvable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from heldout.worlds.repair.catalogue import CATALOGUE
from heldout.worlds.repair.package import Package

__all__ = ["INFLUENCES", "Influence", "Reading", "Traits", "Weakness", "acting", "chances", "read_system", "traits_of"]


class Weakness(StrEnum):
    """What the coder does wrong, numbered as in the specification (§7)."""

    UNTESTED = "untested"
    """W1: it runs no checks, so it never sees that its first mend is half a mend."""
    REVERT = "revert"
    """W2: it puts its backup back before it submits."""
    MALFORMED = "malformed"
    """W3: it searches with options that do not exist, and gives up after three tries."""
    CUT = "cut"
    """W4: where the error is not in what it was shown, it changes the wrong line."""
    LOOKALIKE = "lookalike"
    """W5: it changes the other module that matches its search."""


@dataclass(frozen=True, slots=True)
class Influence:
    """What one sentence in the system text does to one weakness."""

    weakness: Weakness
    strength: float
    """Helping: the susceptibility shrinks to (1 − strength) of itself. Hurting: the probability that it adds."""
    reach: float = 1.0
    """Share of the tasks that it acts on."""
    hurts: bool = False
    families: frozenset[str] = frozenset()
    """Bug families that it acts on; empty means all."""


INFLUENCES: Mapping[str, tuple[Influence, ...]] = {
    "run_checks_after_edit": (Influence(Weakness.UNTESTED, 0.97, reach=0.8),),
    "definition_of_done": (Influence(Weakness.UNTESTED, 0.97, reach=0.75),),
    "trust_small_changes": (Influence(Weakness.UNTESTED, 0.92, reach=0.7, hurts=True),),
    "leave_mend_in_place": (Influence(Weakness.REVERT, 0.97, reach=0.9),),
    "check_after_format": (Influence(Weakness.REVERT, 0.97, reach=0.55),),
    "clean_tree": (Influence(Weakness.REVERT, 0.92, reach=0.2, hurts=True),),
    "spell_out_options": (Influence(Weakness.MALFORMED, 0.92, reach=0.25, hurts=True),),
    "one_liners": (Influence(Weakness.MALFORMED, 0.92, reach=0.15, hurts=True),),
    "follow_the_call": (
        Influence(Weakness.LOOKALIKE, 0.97, reach=0.95),
        Influence(Weakness.LOOKALIKE, 0.92, reach=0.15, hurts=True, families=frozenset({"wrong-import"})),
    ),
    "first_match": (Influence(Weakness.LOOKALIKE, 0.92, reach=0.2, hurts=True),),
}
"""By the name of the catalogue edit whose sentence it is."""

RECHECKS = "check_after_format"
"""The sentence that makes the coder run the checks once more after it has formatted."""

_UNSOLVABLE = 0.10
_MAIN: Mapping[Weakness, float] = {
    Weakness.UNTESTED: 0.18,
    Weakness.REVERT: 0.12,
    Weakness.MALFORMED: 0.09,
    Weakness.LOOKALIKE: 0.14,
}
"""Share of tasks of which it is the main weakness; the others have none of these."""
_CUT = 0.43
"""Share of tasks, whatever their main weakness, that are prone to W4; it harms only where the error is hidden."""
_SLIPS = 0.33
"""Share of tasks without main weakness W1 in which the first mend is the partial one; with it, all are."""
_HIGH, _LOW, _MIDDLE = 0.97, 0.006, 0.5
_USUAL = 0.75
"""Share of tasks with the usual habit."""
_UNSTABLE = 0.4
"""Of prone tasks, the share in which the weakness acts about every other time."""


@dataclass(frozen=True, slots=True, eq=False)
class Traits:
    """What is fixed about this coder on one task."""

    key: str
    """Under which its draws are made."""
    solvable: bool
    slips: bool
    """Its first mend is the partial one."""
    habit: bool
    """At the end of failed work it does what is usual for the weakness; see `plan`."""
    susceptibility: Mapping[Weakness, float]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the coder takes from a system text."""

    digest: str
    names: frozenset[str]
    """Catalogue edits whose sentence it holds."""

    @property
    def rechecks(self) -> bool:
        return RECHECKS in self.names


def traits_of(package: Package) -> Traits:
    """Drawn from the task's id and issue, so that another world has other tasks."""
    return _traits(package.id, package.issue)


@lru_cache(maxsize=8192)
def _traits(name: str, issue: str) -> Traits:
    key = hashlib.blake2b(f"{name}\0{issue}".encode(), digest_size=12).hexdigest()
    main = _main(_uniform(key, "main"))
    prone = {main, Weakness.CUT} if _uniform(key, "cut") < _CUT else {main}
    prone_level = _MIDDLE if _uniform(key, "unstable") < _UNSTABLE else _HIGH
    return Traits(
        key=key,
        solvable=_uniform(key, "solvable") >= _UNSOLVABLE,
        slips=main is Weakness.UNTESTED or _uniform(key, "slips") < _SLIPS,
        habit=_uniform(key, "habit") < _USUAL,
        susceptibility={weakness: prone_level if weakness in prone else _LOW for weakness in Weakness},
    )


def _main(drawn: float) -> Weakness | None:
    """The main weakness of a task, by a uniform number."""
    for weakness, share in _MAIN.items():
        drawn -= share
        if drawn < 0.0:
            return weakness
    return None


@lru_cache(maxsize=1024)
def read_system(text: str) -> Reading:
    """Pure, remembered because every request of a candidate repeats its system text."""
    digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    return Reading(digest, frozenset(edit.name for edit in CATALOGUE if edit.sentence and edit.sentence in text))


def chances(package: Package, names: frozenset[str]) -> Mapping[Weakness, float]:
    """q of every weakness: the probability that it acts in an episode, given the sentences in the system text."""
    return _chances(traits_of(package), package.family, names)


def acting(package: Package, reading: Reading, *, seed: int) -> frozenset[Weakness]:
    """The weaknesses that act in the episode with this seed."""
    traits = traits_of(package)
    drawn = f"{traits.key}\0{seed}\0{reading.digest}"
    found = _chances(traits, package.family, reading.names)
    return frozenset([weakness for weakness, q in found.items() if _uniform(drawn, weakness) < q])


@lru_cache(maxsize=65536)
def _chances(traits: Traits, family: str, names: frozenset[str]) -> Mapping[Weakness, float]:
    return {weakness: _chance(traits, family, names, weakness) for weakness in Weakness}


def _chance(traits: Traits, family: str, names: frozenset[str], weakness: Weakness) -> float:
    prone, spared = traits.susceptibility[weakness], 1.0
    for name in sorted(names & INFLUENCES.keys()):
        for influence in INFLUENCES[name]:
            if influence.weakness is not weakness or not _reaches(influence, name, family, traits.key):
                continue
            if influence.hurts:
                spared *= 1.0 - influence.strength
            else:
                prone *= 1.0 - influence.strength
    return 1.0 - (1.0 - prone) * spared


def _reaches(influence: Influence, name: str, family: str, key: str) -> bool:
    if influence.families and family not in influence.families:
        return False
    return _uniform(key, "reach", name, influence.weakness) < influence.reach


def _uniform(*parts: str) -> float:
    """In [0, 1), from the hash of the parts."""
    drawn = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return (int.from_bytes(drawn, "big") >> 11) / 2.0**53
