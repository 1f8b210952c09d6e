"""A scripted agent that makes an experiment in every repair before it says what its script says."""

from __future__ import annotations

from scripted_agent import SCRIPT, ScriptedAgent

from heldout.improvers.agent import RoundView
from heldout.probes import Laboratory
from heldout.records import EditProposal, ProbeKind


class ProbingAgent(ScriptedAgent):
    """Runs the harness as it is on one train task, another one in each repair."""

    def repair(self, view: RoundView, proposal: EditProposal, fault: str, laboratory: Laboratory) -> EditProposal:
        tasks = sorted(view.traces)
        laboratory.probe(ProbeKind.RUN_EPISODE, tasks[len(SCRIPT.faults) :][:1])
        return super().repair(view, proposal, fault, laboratory)
