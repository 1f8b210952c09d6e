"""Whole jobs: a run from config to report, an audit, a noise check, a look at the machine."""

from heldout.workbench.doctor import MachineCheck, check_machine
from heldout.workbench.exporting import export_model
from heldout.workbench.noise import GateNoise, NoiseReport, Recommendation, noise
from heldout.workbench.opening import Opening, OpenRun, open_run
from heldout.workbench.plan import Plan, plan
from heldout.workbench.quickstart import quickstart_config
from heldout.workbench.running import audit, improve, resume, run

__all__ = [
    "GateNoise",
    "MachineCheck",
    "NoiseReport",
    "OpenRun",
    "Opening",
    "Plan",
    "Recommendation",
    "audit",
    "check_machine",
    "export_model",
    "improve",
    "noise",
    "open_run",
    "plan",
    "quickstart_config",
    "resume",
    "run",
]
