"""`heldout noise`: how much a run would see move where nothing changed."""

from __future__ import annotations

from collections.abc import Mapping

from heldout.config import GateConfig, RunConfig
from heldout.gates import GATES, Gate, make_gate
from heldout.loops import measure_noise
from heldout.records import Record
from heldout.store.events import NoiseMeasured
from heldout.workbench.opening import BEFORE_THE_PILOT, Opening, open_run

__all__ = ["GateNoise", "NoiseReport", "noise"]


class GateNoise(Record):
    """What one rule makes of no change."""

    gate: str
    false_accept_rate: float
    standard_error: float
    smallest_table: str


class NoiseReport(Record):
    """The A/A check and every rule's false-accept rate at the run's select size and number of candidates."""

    n_tasks: int
    """Select tasks: the n of every rule, and of the A/A check."""
    missing: int
    candidates: int
    flip_rate: float | None
    expected_flips: float | None
    disagreement: float
    """Share of tasks on which an equally good candidate is taken to differ."""
    disagreement_source: str
    audit_standard_error: float
    gates: Mapping[str, float]
    """Rule to false-accept rate."""
    calibration: tuple[GateNoise, ...]
    simulated: bool


def noise(config: RunConfig, opening: Opening) -> NoiseReport:
    """Run the start against itself on the whole select role and calibrate every built-in rule; nothing is searched."""
    whole = config.noise.model_copy(update={"tasks": config.tasks.select})
    with open_run(config.model_copy(update={"noise": whole}), opening) as opened:
        session = opened.session
        start = session.score_start(opened.start, track="instruction")
        measured = measure_noise(session, start, [_gate(config.gate, kind) for kind in GATES])
        simulated = session.engine.model.simulated
    return _report(measured, simulated=simulated)


def _gate(config: GateConfig, kind: str) -> Gate:
    return make_gate(config.model_copy(update={"kind": kind}), prior=config.prior or BEFORE_THE_PILOT)


def _report(measured: NoiseMeasured, *, simulated: bool) -> NoiseReport:
    return NoiseReport(
        n_tasks=measured.select_tasks,
        missing=measured.missing,
        candidates=measured.candidates,
        flip_rate=measured.flip_rate,
        expected_flips=measured.expected_flips,
        disagreement=measured.disagreement,
        disagreement_source=measured.disagreement_source,
        audit_standard_error=measured.audit_standard_error,
        gates={gate.gate: gate.false_accept_rate for gate in measured.gates},
        calibration=tuple(
            GateNoise(
                gate=gate.gate,
                false_accept_rate=gate.false_accept_rate,
                standard_error=gate.standard_error,
                smallest_table=gate.smallest_table,
            )
            for gate in measured.gates
        ),
        simulated=simulated,
    )
