"""The round's pool of units, which pays for every probe, and the clock of each episode's phase."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from heldout.records import Evidence

__all__ = ["ProbePool"]


@dataclass(slots=True)
class ProbePool:
    """Units that the probes of one round may spend. Safe to share between threads.

    Units are set aside before a probe runs and given back where it did not, so that units spent never exceed the
    pool under any interleaving. `equal` gives each proposing episode the same part, the earlier ones the remainder;
    any other phase (the meta-episode) may spend what is left. The clock starts anew with each phase of an episode and
    is no other episode's, unlike in the paper's code, where each new episode restarts it for all.

    Recorded evidence of a resumed run counts against every other episode at once, and against its own as that
    episode asks for it again: so an episode is told the same numbers as in the run that was stopped.
    """

    units: int
    episodes: int
    """Proposing episodes of the round, numbered from 0."""
    clock: Callable[[], float]
    """Seconds, ascending."""
    share: Literal["pool", "equal"] = "pool"
    phase_s: float = 3600.0
    _spent: dict[int, int] = field(default_factory=dict)
    """By episode, with what is recorded and not asked for again yet."""
    _ahead: dict[int, dict[int, int]] = field(default_factory=dict)
    """By episode and ordinal, the units of recorded probes that are not asked for again yet."""
    _begun: dict[int, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def spent(self) -> int:
        """Units spent or set aside by all episodes."""
        with self._lock:
            return sum(self._spent.values())

    def begin(self, episode: int, *, first: int = 0) -> None:
        """A phase of this episode begins, with the probe `first`: its clock starts, and earlier ones are past."""
        with self._lock:
            self._begun[episode] = self.clock()
            waiting = self._ahead.get(episode, {})
            self._ahead[episode] = {ordinal: units for ordinal, units in waiting.items() if ordinal >= first}

    def reserve(self, episode: int, units: int) -> str:
        """Set units aside; a reason that names the limit (count or clock) where that is refused, else nothing."""
        if units < 0:
            raise ValueError(f"a probe costs at least 0 units, got {units!r}")
        with self._lock:
            elapsed = self.clock() - self._begun.setdefault(episode, self.clock())
            if elapsed > self.phase_s:
                return f"the clock: {elapsed:.0f} s of this phase have passed, the limit is {self.phase_s:g} s"
            left = self._left(episode)
            if units > left:
                return f"the count: this probe takes {units} unit{'' if units == 1 else 's'}, {self._told(left)}"
            self._spent[episode] = self._spent.get(episode, 0) + units
        return ""

    def refund(self, episode: int, units: int) -> None:
        """Give back units of a probe that did not run."""
        with self._lock:
            if not 0 <= units <= self._spent.get(episode, 0) - self._waiting(episode):
                raise ValueError(f"episode {episode} has not spent the {units!r} units that are to be refunded")
            self._spent[episode] = self._spent.get(episode, 0) - units

    def restore(self, evidence: Evidence) -> None:
        """Count a recorded probe that its episode has not asked for again yet."""
        with self._lock:
            self._spent[evidence.episode] = self._spent.get(evidence.episode, 0) + evidence.units
            self._ahead.setdefault(evidence.episode, {})[evidence.ordinal] = evidence.units

    def asked_again(self, evidence: Evidence) -> None:
        """An episode came to a recorded probe, which is paid."""
        with self._lock:
            if self._ahead.get(evidence.episode, {}).pop(evidence.ordinal, None) is None:
                raise ValueError(f"evidence {evidence.id} was not restored, or is counted already")

    def left(self, episode: int) -> int:
        """Units that this episode may still spend, as far as it has come."""
        with self._lock:
            return self._left(episode, ahead=self._waiting(episode))

    def _waiting(self, episode: int) -> int:
        return sum(self._ahead.get(episode, {}).values())

    def _left(self, episode: int, *, ahead: int = 0) -> int:
        left = self.units - sum(self._spent.values()) + ahead
        if self.share == "equal" and 0 <= episode < self.episodes:
            left = min(left, self._part(episode) - self._spent.get(episode, 0) + ahead)
        return max(left, 0)

    def _part(self, episode: int) -> int:
        part, remainder = divmod(self.units, self.episodes)
        return part + (episode < remainder)

    def _told(self, left: int) -> str:
        whose = "this episode's equal part of " if self.share == "equal" else ""
        return f"{left} of {whose}the round's pool of {self.units} are left"
