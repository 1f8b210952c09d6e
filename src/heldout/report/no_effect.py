"""What drafts, screens and edits without any effect would show in this run, beside what its own ones showed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from heldout.probes.noise import FlipRates, probe_noise, rates_at_half
from heldout.records import Evidence, ProbeKind
from heldout.report.queries import noise
from heldout.store.agent_events import Screened

__all__ = ["NoEffect", "no_effect"]

TRAIN = "train"
"""Purpose of the sweeps of the train role."""

CONFIRM = "confirm"
"""Purpose of the second runs of flipped select tasks."""


@dataclass(frozen=True, slots=True)
class NoEffect:
    """Rates of the start against itself; a probe or a screen of the run is measured against them."""

    rates: FlipRates
    select_tasks: int
    twice: bool
    """Whether flips of select tasks were run once more."""

    @property
    def select_flips(self) -> float:
        """Select tasks that seem fixed after a round, and as many that seem broken, although nothing changed.

        Noisy tasks pass with ½: of n tasks n·d/2 rise, and as many fall; a second run agrees with half of them.
        """
        return self.select_tasks * self.rates.disagreement / (4.0 if self.twice else 2.0)

    def screen(self, screened: Screened) -> tuple[float, float]:
        """Expected net of one screen of these sizes, and of the best of the round's screens."""
        screens = sum(one is not None for one in screened.candidates)
        passing = len(screened.canaries)
        found = probe_noise(self.rates, failing=len(screened.tasks) - passing, passing=passing, screens=max(1, screens))
        return found.screen_net, found.screen_best

    def supported(self, evidence: Iterable[Evidence]) -> float:
        """How many of the drafts that `fix_probe` ran it would have supported if none had any effect."""
        drafts = (one for one in evidence if one.kind is ProbeKind.FIX_PROBE and not one.refused)
        return sum(self.support(len(one.tasks)) for one in drafts)

    def support(self, targets: int) -> float:
        """P(a draft on this many failing tasks is supported)."""
        return 1.0 - (1.0 - self.rates.confirmed) ** targets


def no_effect(connection: sqlite3.Connection) -> NoEffect | None:
    """From the run's A/A check and its first train sweep; None before they were measured."""
    measured = noise(connection)
    failing = _failing(connection)
    if measured is None or failing is None:
        return None
    differ = measured.flip_rate if measured.flip_rate is not None else measured.disagreement
    twice = connection.execute("SELECT 1 FROM outcomes WHERE purpose = ? LIMIT 1", (CONFIRM,)).fetchone()
    return NoEffect(rates_at_half(min(differ, 0.5), failing=failing), measured.select_tasks, twice is not None)


def _failing(connection: sqlite3.Connection) -> float | None:
    """Share of the train tasks that failed under the start."""
    row = connection.execute(
        """
        SELECT AVG(score < 0.5) FROM outcomes WHERE purpose = ?1 AND repeat = 0 AND score IS NOT NULL AND candidate =
            (SELECT json_extract(data, '$.head') FROM events WHERE kind = 'round.started' ORDER BY seq LIMIT 1)
        """,
        (TRAIN,),
    ).fetchone()
    return None if row[0] is None else float(row[0])
