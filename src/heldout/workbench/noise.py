"""`heldout noise`: how much a run would see move where nothing changed."""

from __future__ import annotations

from collections.abc import Mapping

from heldout.config import GateConfig, RunConfig
from heldout.gates import GATES, Gate, false_accept_rate, make_gate
from heldout.gates.repairs_over_regressions import RepairsOverRegressions
from heldout.loops import measure_noise
from heldout.records import Record
from heldout.stats import repair_power
from heldout.store.events import NoiseMeasured
from heldout.workbench.opening import BEFORE_THE_PILOT, Opening, open_run

__all__ = ["FALSE_ACCEPTS_LIMIT", "GateNoise", "NoiseReport", "Recommendation", "noise"]

FALSE_ACCEPTS_LIMIT = 0.2
"""False-accept rate of `repairs_over_regressions` above which a higher bar is recommended (gso.md, section 6.2)."""

_HIGHER = 2.0
"""The `min_u` that is recommended."""

_REPAIRED = 0.1
"""Share of tasks that the edit of the power figures truly repairs."""


class GateNoise(Record):
    """What one rule makes of no change."""

    gate: str
    false_accept_rate: float
    standard_error: float
    smallest_table: str


class Recommendation(Record):
    """A setting that lowers the false accepts of the run's own gate, with what it costs."""

    setting: str
    """As on the command line."""
    now: float
    """False-accept rate as configured."""
    then: float
    """The same with the setting; simulated."""
    then_standard_error: float
    repaired: float
    """Share of tasks that an edit truly repairs, for the two powers."""
    power_now: float
    """Probability that such an edit is accepted, were it the only candidate; exact."""
    power_then: float


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
    recommendation: Recommendation | None = None
    """None where the run's gate needs none."""


def noise(config: RunConfig, opening: Opening) -> NoiseReport:
    """Run the start against itself on the whole select role and calibrate every built-in rule; nothing is searched."""
    whole = config.noise.model_copy(update={"tasks": config.tasks.select})
    with open_run(config.model_copy(update={"noise": whole}), opening) as opened:
        session = opened.session
        start = session.score_start(opened.start, track="instruction")
        measured = measure_noise(session, start, [_gate(config.gate, kind) for kind in GATES])
        simulated = session.engine.model.simulated
    return _report(measured, simulated=simulated, recommendation=_recommendation(config, measured))


def _gate(config: GateConfig, kind: str) -> Gate:
    """The rule of this name with the run's settings; `options` are those of the run's own gate alone."""
    options = config.options if kind == config.kind else {}
    changed = config.model_copy(update={"kind": kind, "options": options})
    return make_gate(changed, prior=config.prior or BEFORE_THE_PILOT)


def _recommendation(config: RunConfig, measured: NoiseMeasured) -> Recommendation | None:
    """A higher bar for a gate on repairs and regressions that lets too many edits without effect in."""
    rates = {one.gate: one.false_accept_rate for one in measured.gates}
    gate = make_gate(config.gate) if config.gate.kind in rates else None
    if not isinstance(gate, RepairsOverRegressions) or rates[gate.name] <= FALSE_ACCEPTS_LIMIT:
        return None
    options, n, disagreement = gate.options, measured.select_tasks, measured.disagreement
    if options.variant not in ("binary", "u_only") or options.min_u >= _HIGHER:
        return None
    higher = make_gate(config.gate.model_copy(update={"options": {**config.gate.options, "min_u": _HIGHER}}))
    then = false_accept_rate(
        higher,
        n=n,
        candidates=measured.candidates,
        disagreement=disagreement,
        simulations=config.noise.simulations,
        seed=config.seed,
    )
    repaired = min(_REPAIRED, 1.0 - disagreement)
    now_power, then_power = (
        repair_power(n, disagreement, repaired, weight=options.weight, min_u=least)
        for least in (options.min_u, _HIGHER)
    )
    return Recommendation(
        setting=f"gate.options.min_u={_HIGHER:g}",
        now=rates[gate.name],
        then=then.rate,
        then_standard_error=then.standard_error,
        repaired=repaired,
        power_now=now_power,
        power_then=then_power,
    )


def _report(measured: NoiseMeasured, *, simulated: bool, recommendation: Recommendation | None) -> NoiseReport:
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
        recommendation=recommendation,
    )
