"""An improver that submits what a test wrote down, and small runs of `verse` in the shadow world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from heldout.config import ImproverConfig, RunConfig, load_config
from heldout.improvers.agent import MetaView, RoundView
from heldout.loops import preset
from heldout.models.base import Model
from heldout.probes import Laboratory, Suggestion, Trace
from heldout.records import Edit, EditProposal, Spend
from heldout.store import RunFolder
from heldout.workbench import Opening, run

Say = Callable[[RoundView, Laboratory], EditProposal]

HARMLESS = "Answer with care."


@dataclass
class Script:
    """What the improver says; a test fills it in before the run."""

    propose: Say = lambda _view, _laboratory: note("nothing")
    repair: Callable[[RoundView, EditProposal, str], EditProposal] = lambda _view, proposal, _fault: proposal
    reflect: Callable[[MetaView], EditProposal] = lambda _view: EditProposal()
    faults: list[str] = field(default_factory=list)
    """Faults that were told in repairs."""
    views: list[RoundView] = field(default_factory=list)
    meta: list[MetaView] = field(default_factory=list)


SCRIPT = Script()
"""The script of the next run; `start` replaces what it says."""


class ScriptedAgent:
    """Calls the script of the test."""

    agent: ClassVar[bool] = True
    uses_model: ClassVar[bool] = False
    bound: ClassVar[Spend] = Spend()
    start_method: ClassVar[Mapping[str, str]] = {"prompt.md": "Be careful.\n", "search.md": "one\n---\ntwo\n"}

    def __init__(self, config: ImproverConfig, model: Model | None) -> None:
        del config, model

    def propose(self, view: RoundView, laboratory: Laboratory) -> EditProposal:
        SCRIPT.views.append(view)
        return SCRIPT.propose(view, laboratory)

    def repair(self, view: RoundView, proposal: EditProposal, fault: str, laboratory: Laboratory) -> EditProposal:
        del laboratory
        SCRIPT.faults.append(fault)
        return SCRIPT.repair(view, proposal, fault)

    def reflect(self, view: MetaView, laboratory: Laboratory) -> EditProposal:
        del laboratory
        SCRIPT.meta.append(view)
        return SCRIPT.reflect(view)

    def suggestion(self, trace: Trace, fault: str) -> Suggestion:
        del trace, fault
        return Suggestion(None, Spend())


def note(text: str, path: str = "memory.md", **further: Any) -> EditProposal:
    """A proposal that writes one file."""
    return EditProposal(edits=(Edit(path=path, content=text),), note=text[:40], **further)


def small(*layers: Mapping[str, Any]) -> RunConfig:
    """A run of one round and one proposal in the shadow world, with further layers on top."""
    base = {
        "tasks": {
            "grader": "heldout.studies.verse.shadow:shadow_grade",
            "train": 8,
            "select": 6,
            "audit": 6,
            "reports": {"ood": 3},
        },
        "solver": {"harness": "heldout.studies.verse.shadow:ShadowHarness"},
        "improver": {"kind": "scripted_agent:ScriptedAgent"},
        "search": {"generations": 1, "candidates": 1},
        "executor": {"kind": "inline"},
        "options": {"select": {"retry_wait_s": 0.0}},
    }
    return load_config([preset("verse", "small"), {"loop": "verse"}, base, *layers])


def start(folder: Path, config: RunConfig, **says: Any) -> RunFolder:
    """Run a config with a fresh script; returns the run's folder."""
    fresh = Script(**says)
    for name in ("propose", "repair", "reflect", "faults", "views", "meta"):
        setattr(SCRIPT, name, getattr(fresh, name))
    return run(config, Opening(folder, command="heldout run test"))
