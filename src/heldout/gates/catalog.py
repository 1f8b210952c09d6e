"""The acceptance rules by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from heldout.config import GateConfig
from heldout.gates.base import Gate
from heldout.registry import load

__all__ = ["GATES", "make_gate"]

GATES: Mapping[str, str] = MappingProxyType(
    {
        "greedy": "heldout.gates.counting:Greedy",
        "net": "heldout.gates.counting:Net",
        "tolerance": "heldout.gates.counting:Tolerance",
        "ladder": "heldout.gates.counting:Ladder",
        "repeats": "heldout.gates.counting:Repeats",
        "mcnemar": "heldout.gates.mcnemar:McNemar",
        "pace": "heldout.gates.pace:Pace",
        "select_confirm": "heldout.gates.select_confirm:SelectConfirm",
        "bayes_pilot": "heldout.gates.bayes:BayesPilot",
        "bayes_online": "heldout.gates.bayes:BayesOnline",
        "fresh": "heldout.gates.fresh:Fresh",
        "keep_all": "heldout.gates.keep_all:KeepAll",
        "dual_split": "heldout.gates.dual_split:DualSplit",
        "near_best": "heldout.gates.near_best:NearBest",
        "manifest": "heldout.gates.manifest:Manifest",
        "noise": "heldout.gates.two_noises:TwoNoises",
        "repairs_over_regressions": "heldout.gates.repairs_over_regressions:RepairsOverRegressions",
    }
)
"""Short names of `gate.kind`."""


def make_gate(config: GateConfig, *, prior: tuple[float, float] | None = None) -> Gate:
    """Build the gate that `config.kind` names. `prior` (mean, sd of true gains), as a pilot found it, replaces
    `config.prior`. `SetupError` for an unknown name, and for a Bayes pilot gate without a prior."""
    if prior is not None:
        config = config.model_copy(update={"prior": prior})
    gate: Gate = load(config.kind, among=GATES, what="gate")(config)
    return gate
