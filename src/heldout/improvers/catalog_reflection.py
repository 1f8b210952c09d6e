"""The catalogue improver's meta-episode: what a round does to its own folder.

Where the run offers experiments with drafts, their verdicts are counted. Where it offers none there is nothing to
count but the improver's own readings: each diagnosis behind an edit that was kept counts as a success, which is how a
wrong one hardens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heldout.improvers.agent import MetaView
from heldout.improvers.beliefs import CLASS_TABLE, EDIT_TABLE, Beliefs
from heldout.improvers.catalog_choice import Reader
from heldout.improvers.catalog_learning import (
    Ground,
    Learned,
    count_evidence,
    count_plain_runs,
    count_readings,
    next_guidance,
    next_policy,
)
from heldout.improvers.catalog_method import notes_text
from heldout.improvers.catalog_notes import LabNote, read_note
from heldout.improvers.catalog_trials import DRAFT_PROBES
from heldout.improvers.guidance import SEARCH_FILE
from heldout.improvers.method import NOTES_FILE, check_method
from heldout.improvers.policy import POLICY_FILE, Policy, read_policy
from heldout.probes.base import Laboratory
from heldout.probes.signatures import signature
from heldout.records import Edit, EditProposal, Evidence, EvidenceVerdict, ProbeKind, Verdict

__all__ = ["Reflection"]

_CHECKS = 2
"""Replays of a meta-episode, from what the round left over."""


@dataclass(slots=True)
class Reflection:
    """One meta-episode."""

    view: MetaView
    laboratory: Laboratory
    reader: Reader
    class_of: Mapping[str, str]
    """Entry of the catalogue to its class."""
    start_policy: Policy
    start_files: Mapping[str, str]
    """What the folder began with, for files that can no longer be used."""
    spent: int = 0
    _unreal: set[str] = field(default_factory=set)

    def proposal(self) -> EditProposal:
        """The edits of its own folder; files that an earlier answer was refused for are left as they are."""
        files = self.view.method.files
        notes = files.get(NOTES_FILE, "")
        learned = Learned(Beliefs.read(notes, CLASS_TABLE), Beliefs.read(notes, EDIT_TABLE))
        learned, how = self._learned(learned)
        policy = read_policy(files.get(POLICY_FILE, ""), self.start_policy)
        policy = next_policy(policy, self.view.note.label, self.view.evidence)
        failing = Counter(self._signatures().values())
        wanted = {
            NOTES_FILE: self._fitting(notes_text(notes, learned.classes, learned.edits), learned),
            SEARCH_FILE: next_guidance(learned, failing, self.reader.classes),
            POLICY_FILE: policy.text(),
        }
        edits = [Edit(path=path, content=text) for path, text in wanted.items() if text not in (None, files.get(path))]
        left = [edit for edit in edits if not any(edit.path in fault for fault in self.view.faults)]
        return EditProposal(edits=tuple(left), note=LabNote(how).text(), measures={"units": float(self.spent)})

    def _learned(self, learned: Learned) -> tuple[Learned, str]:
        """The counts after the round, and a sentence on where they came from."""
        evidence = [one for one in self.view.evidence if not one.refused]
        offered = self.laboratory.available | {one.kind for one in evidence}
        if ProbeKind.FIX_PROBE in offered:
            self._check(evidence)
            return count_evidence(learned, evidence, self._ground()), "verdicts of probes counted"
        if offered & DRAFT_PROBES:
            return count_plain_runs(learned, evidence, self._ground()), "plain runs counted"
        kept = self.view.note.verdict == Verdict.ACCEPT and self.view.proposals
        if kept:
            return count_readings(learned, self.view.proposals[0], self._ground()), "own readings counted"
        return learned, "nothing to count"

    def _ground(self) -> Ground:
        tried = {found: names for one in self.view.proposals for found, names in read_note(one.note).tried.items()}
        return Ground(self._signatures(), self.class_of, tried, self.reader.commission)

    def _signatures(self) -> dict[str, str]:
        """Of the failing tasks whose failure is not known to be an accident."""
        failing = {task: trace for task, trace in self.view.traces.items() if trace.passed is False}
        return {task: signature(trace) for task, trace in sorted(failing.items()) if task not in self._unreal}

    def _check(self, evidence: Sequence[Evidence]) -> None:
        """Find targets of refuted drafts whose own failure does not reproduce: a refutation on those teaches nothing.

        What the round replayed is known; of the rest, a few are replayed with units that were left over.
        """
        replayed = {one.tasks[0]: one.verdict for one in evidence if one.kind is ProbeKind.REPLAY}
        refuted = [
            one for one in evidence if one.kind is ProbeKind.FIX_PROBE and one.verdict is EvidenceVerdict.REFUTES
        ]
        waiting = dict.fromkeys(task for one in refuted for task in one.tasks if task not in replayed)
        for task in list(waiting)[:_CHECKS]:
            if ProbeKind.REPLAY not in self.laboratory.available or self.laboratory.units_left() < 1:
                break
            found = self.laboratory.probe(ProbeKind.REPLAY, (task,))
            self.spent += found.units
            if not found.refused and found.kind is ProbeKind.REPLAY:
                replayed[found.tasks[0]] = found.verdict
        self._unreal = {task for task, verdict in replayed.items() if verdict is EvidenceVerdict.REFUTES}

    def _fitting(self, notes: str, learned: Learned) -> str:
        """The notes; without their free text where that leaves no room for the tables."""
        if not check_method({NOTES_FILE: notes}):
            return notes
        return notes_text(self.start_files[NOTES_FILE], learned.classes, learned.edits)
