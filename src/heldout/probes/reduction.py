"""The search for the smallest part of one trace that still shows what happened, and what its size says of the cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from heldout.errors import BoundaryError, ImproverError, boundary
from heldout.probes.base import Trace
from heldout.probes.signatures import command_ending, error_class
from heldout.probes.verdicts import is_pass

__all__ = ["Reduced", "Reduction", "Shown", "Suggest"]

Suggest = Callable[[Trace, str], Sequence[int] | None]
"""(trace, what was wrong with the last suggestion, or empty) -> the fewest commands to keep, or None.

It may be called from several threads; where it fails, the search goes on without it.
"""

SUFFIXES = (1, 4, 16)
"""Lengths of the endings that are tried where the suggestions did not hold."""

Keep = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a replay of some of the commands showed."""

    score: float | None
    """None where it was not measured."""
    classes: frozenset[str]
    """Error classes of the commands that failed."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The commands that were found, by index, and the class of the cause."""

    keep: Keep
    cause: str
    """`omission`, `commission`, `unknown`; `success` for a success."""


@dataclass(slots=True)
class Reduction:
    """Reduces one trace.

    A failure that a command showed is reproduced where its error class appears again: one trigger suffices →
    omission, earlier steps are needed → commission, only the whole list does → unknown. A failure that only the
    grader saw is judged by the state that is left: a part still fails → omission (a weak statement: what was left out
    was not what broke it); a part passes while the whole fails → the rest is the commission core. A success is
    reduced to a part that still passes.
    """

    trace: Trace
    show: Callable[[Keep], Shown | None]
    """Replays these commands in a fresh environment; None where the time is up, which ends the search."""
    suggest: Suggest
    tried: dict[Keep, Shown] = field(default_factory=dict)

    def search(self) -> Reduced | None:
        """The first part that holds: the named one, its one correction, short endings, the whole; None for none."""
        for keep in self._parts():
            found = self._judged(keep)
            if found is not None:
                return found
            if keep not in self.tried:
                return None
        if not self._reproduced(self._shown(self._whole)):
            return None
        if self.trace.passed:
            return Reduced(self._whole, "success")
        return Reduced(self._whole, "omission" if len(self._whole) == 1 else "unknown")

    @property
    def _whole(self) -> Keep:
        return tuple(range(len(self.trace.commands)))

    def _parts(self) -> Iterator[Keep]:
        """Proper parts, in the order in which they are tried; the fault of one is told before the next is named."""
        count = len(self.trace.commands)
        if count > 1:
            fault = ""
            for _ in range(2):
                keep, fault = self._named(fault)
                if keep:
                    yield keep
                    fault = self._told(keep)
        for length in SUFFIXES:
            if length < count:
                yield self._whole[-length:]

    def _named(self, fault: str) -> tuple[Keep, str]:
        """A suggestion that can be replayed, or nothing and what is wrong with it."""
        count = len(self.trace.commands)
        try:
            with boundary(ImproverError, "the improver raised when it was asked which commands to keep"):
                named = self.suggest(self.trace, fault)
                keep = tuple(sorted({int(index) for index in named})) if named is not None else ()
        except BoundaryError as error:
            return (), str(error)
        if not keep or keep[0] < 0 or keep[-1] >= count:
            return (), f"name at least one command, by its index from 0 to {count - 1}; got {list(keep)!r}"
        if len(keep) == count:
            return (), f"these are all {count} commands; name fewer"
        return keep, ""

    def _shown(self, keep: Keep) -> Shown | None:
        if keep not in self.tried:
            shown = self.show(keep)
            if shown is None:
                return None
            self.tried[keep] = shown
        return self.tried[keep]

    def _reproduced(self, shown: Shown | None) -> bool:
        if shown is None:
            return False
        if self.trace.passed:
            return is_pass(shown.score)
        ending = command_ending(self.trace)
        if ending.origin == "command":
            return error_class(ending.signature) in shown.classes
        return shown.score is not None and not is_pass(shown.score)

    def _judged(self, keep: Keep) -> Reduced | None:
        """What a proper part says; None where it does not hold."""
        shown = self._shown(keep)
        by_state = command_ending(self.trace).origin == "grader"
        if self._reproduced(shown):
            if self.trace.passed:
                return Reduced(keep, "success")
            return Reduced(keep, "omission") if by_state else self._by_trigger(keep)
        if by_state and not self.trace.passed and shown is not None and is_pass(shown.score):
            rest = tuple(index for index in self._whole if index not in keep)
            return Reduced(rest, "commission") if self._reproduced(self._shown(self._whole)) else None
        return None

    def _by_trigger(self, keep: Keep) -> Reduced:
        """A part that shows the error may hold more than it needs: its last command alone decides the class."""
        trigger = keep[-1:]
        alone = self._shown(trigger)
        if self._reproduced(alone):
            return Reduced(trigger, "omission")
        return Reduced(keep, "unknown" if alone is None or alone.score is None else "commission")

    def _told(self, keep: Keep) -> str:
        shown = self._shown(keep)
        if shown is None or shown.score is None:
            return f"the replay of commands {list(keep)!r} gave nothing"
        if self.trace.passed:
            return f"with commands {list(keep)!r} alone the task does not pass"
        wanted = error_class(command_ending(self.trace).signature)
        seen = ", ".join(sorted(shown.classes)) or "no failing command"
        return f"the replay of commands {list(keep)!r} does not show {wanted!r}; it shows {seen}"
