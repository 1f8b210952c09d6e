"""Noise before news: the start against itself, and what every rule would make of no change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heldout.errors import GateError, boundary
from heldout.gates import Gate, false_accept_rate, smallest_tables
from heldout.loops.session import Scored, Session
from heldout.stats import audit_standard_error, expected_flips, flip_rate
from heldout.store.events import GateCalibration, NoiseMeasured

__all__ = ["measure_noise"]

AA_REPEAT = 1
"""Repeat index, and so the seed, of the second run of the start."""


def measure_noise(session: Session, start: Scored, gates: Sequence[Gate], *, confirmed: float = 1.0) -> NoiseMeasured:
    """Evaluate the start a second time on some select tasks, and calibrate the rules at this n.

    `confirmed` is the share of no-effect flips that reach the gate of a loop that runs flipped tasks once more.
    """
    recorded = session.recorder.find("noise.measured", "", NoiseMeasured)
    if recorded is not None:
        return recorded
    noise, n = session.config.noise, len(session.tasks.select)
    count = min(noise.tasks, n)
    first, flips = start.scores[:count, 0], None
    missing = 0
    if count:
        again = session.measure(start.candidate, session.tasks.select[:count], purpose="noise", first_repeat=AA_REPEAT)
        missing = int(np.isnan(first - again[:, 0]).sum())
        flips = flip_rate(first, again[:, 0]) if missing < count else None
    measured = flips is not None and flips >= noise.disagreement
    disagreement = flips if flips is not None and measured else noise.disagreement
    return session.recorder.record(
        "noise.measured",
        NoiseMeasured(
            n_tasks=count,
            missing=missing,
            flip_rate=flips,
            expected_flips=None if flips is None else expected_flips(flips, n),
            disagreement=disagreement,
            disagreement_source="measured" if measured else "assumed",
            select_tasks=n,
            candidates=session.config.search.candidates,
            gates=tuple(_calibration(session, gate, disagreement * confirmed) for gate in gates),
            audit_standard_error=audit_standard_error(session.config.tasks.audit, disagreement),
        ),
    )


def _calibration(session: Session, gate: Gate, disagreement: float) -> GateCalibration:
    with boundary(GateError, f"the gate {session.config.gate.kind!r} raised while it was calibrated"):
        rate, standard_error = false_accept_rate(
            gate,
            n=len(session.tasks.select),
            candidates=session.config.search.candidates,
            disagreement=disagreement,
            simulations=session.config.noise.simulations,
            seed=session.config.seed,
            families=_families(session),
        )
        tables = smallest_tables(gate, n=len(session.tasks.select))
    return GateCalibration(gate=gate.name, false_accept_rate=rate, standard_error=standard_error, smallest_table=tables)


def _families(session: Session) -> tuple[str, ...]:
    """Of the select tasks; none where no task names one."""
    found = tuple(task.family for task in session.tasks.select)
    return found if any(found) else ()
