"""The simulated improver of agent harnesses: it chooses from a catalogue of edits. A simulation, and labelled so.

Specification: `systems/verse.md`, section 7. It reads failure signatures with a stated error, holds beliefs in its own
method folder, spends probes before it submits where there are any, and rewrites that folder after a round. It calls no
language model, and everything that it does follows from its view and its options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import ClassVar

from pydantic import Field

from heldout import registry
from heldout.config import ImproverConfig
from heldout.errors import SetupError
from heldout.improvers.agent import MetaView, RoundNote, RoundView
from heldout.improvers.beliefs import CLASS_TABLE, EDIT_TABLE, Beliefs
from heldout.improvers.catalog_choice import CLASS_CAUSES, Case, Chooser, HarnessEdit, Reader, focus_of, read_cases
from heldout.improvers.catalog_method import start_files
from heldout.improvers.catalog_notes import LabNote, read_note
from heldout.improvers.catalog_reflection import Reflection
from heldout.improvers.catalog_trials import CLEAR, Trial, Trials, suspect_step
from heldout.improvers.method import NOTES_FILE
from heldout.improvers.policy import POLICY_FILE, RANGES, Policy, read_policy
from heldout.models.base import Model
from heldout.options import read_options
from heldout.probes.base import Laboratory, Suggestion, Trace
from heldout.probes.signatures import signature
from heldout.records import Candidate, Claim, EditProposal, EvidenceVerdict, Record, Spend, Verdict, digest_of

__all__ = ["CATALOGUES", "DIAGNOSES", "CatalogImprover", "CatalogOptions"]

CATALOGUES: Mapping[str, str] = {"repair": "heldout.worlds.repair.catalogue:CATALOGUE"}
"""Short names of catalogues: sequences of entries with `name`, `edit_class`, `text` and `apply(folder)`."""

DIAGNOSES: Mapping[str, str] = {"repair": "heldout.worlds.repair.truth:diagnose"}
"""Short names of readings with a stated error."""

_MOST_DRAFTS = 12
"""Drafts that one episode looks at, whatever they cost."""


class CatalogOptions(Record):
    """`improver.options` of `catalog`."""

    catalogue: str = "repair"
    """`repair`, or `package.module:SEQUENCE`."""
    diagnosis: str = "repair"
    """`repair`, or `package.module:function`."""
    error: float = Field(default=0.4, ge=0.0, le=1.0)
    """Chance that a signature is read wrongly (ε)."""
    seed: int | None = None
    """Of the readings, which are the same in a whole run; None takes it from the ids of the train tasks."""
    trust: float = Field(default=2.0, ge=0.0, le=100.0)
    """Successes that a reading counts for, beside what was counted."""
    targets: int = Field(default=3, ge=1, le=3)
    """Failing tasks on which a draft is run, and which an untried one predicts to mend."""
    causes: Mapping[str, tuple[str, ...]] = Field(default_factory=lambda: dict(CLASS_CAUSES))
    """Class of edits to the kinds of mistake it is for: omission, commission, mechanics, the likeliest first."""
    probes: int = Field(default=8, ge=RANGES["probes"][0], le=RANGES["probes"][1])
    """Of the policy that the method folder begins with: units that one episode spends at most."""
    canaries: int = Field(default=0, ge=RANGES["canaries"][0], le=RANGES["canaries"][1])
    """Of that policy: passing tasks on which a draft runs before it is submitted."""
    edit_size: int = Field(default=1, ge=RANGES["edit_size"][0], le=RANGES["edit_size"][1])
    """Of that policy: entries in one proposal at most; those after the first must have helped before."""
    branch: bool = True
    """After a kept round that was labelled HARMFUL, propose for the harness before it (`base_round`)."""


class CatalogImprover:
    """An `AgentImprover` without a language model."""

    agent: ClassVar[bool] = True
    uses_model: ClassVar[bool] = False
    simulated: ClassVar[bool] = True
    bound: ClassVar[Spend] = Spend()

    def __init__(self, config: ImproverConfig, model: Model | None = None) -> None:
        del model
        where = f"improver {config.kind!r}"
        self.options = options = read_options(CatalogOptions, config.options, where=where)
        self.catalogue = _read_catalogue(options.catalogue)
        self.classes = tuple(sorted({entry.edit_class for entry in self.catalogue}))
        self.start_policy = Policy(options.probes, options.canaries, options.edit_size)
        self.start_method: Mapping[str, str] = start_files(self.start_policy, self.classes, options.causes)
        self._diagnose = registry.load(options.diagnosis, among=DIAGNOSES, what="diagnosis")

    def propose(self, view: RoundView, laboratory: Laboratory) -> EditProposal:
        """The best draft that the policy's units could find; without probes, the best belief."""
        return self._propose(view, laboratory, LabNote())

    def repair(self, view: RoundView, proposal: EditProposal, fault: str, laboratory: Laboratory) -> EditProposal:
        """Without the predictions that the evidence contradicts, where that is the fault; else another draft."""
        contradicted = proposal.predicted_fixes if "predicted_fixes" in fault else ()
        faulty = {task for task in contradicted if _names(fault, task)}
        if proposal.edits and faulty:
            return proposal.model_copy(
                update={
                    "predicted_fixes": tuple(task for task in proposal.predicted_fixes if task not in faulty),
                    "claims": tuple(claim for claim in proposal.claims if claim.task not in faulty),
                }
            )
        before = read_note(proposal.note)
        aside = tuple(dict.fromkeys((*before.aside, *before.submitted)))
        return self._propose(view, laboratory, LabNote(tried=before.tried, aside=aside))

    def reflect(self, view: MetaView, laboratory: Laboratory) -> EditProposal:
        """Beliefs, policy and guidance after the round; see `Reflection`."""
        reader = self._reader(view.traces, view.run_seed)
        class_of = {entry.name: entry.edit_class for entry in self.catalogue}
        return Reflection(view, laboratory, reader, class_of, self.start_policy, self.start_method).proposal()

    def suggestion(self, trace: Trace, fault: str) -> Suggestion:
        """As `suggest`; it costs nothing."""
        return Suggestion(self.suggest(trace, fault), Spend())

    def suggest(self, trace: Trace, fault: str) -> tuple[int, ...] | None:
        """Its guess at the smallest set of commands that still shows a trace's result, for the minimiser.

        It names the last command of a failure, and the changing ones of a success; wrong as often as its readings.
        After a fault it gives way to everything that changed something.
        """
        count = len(trace.commands)
        if not count:
            return None
        last = suspect_step(trace)
        rng = Random(f"suggest {self.options.seed} {trace.task.id} {signature(trace)} {bool(fault)}")
        if rng.random() < self.options.error:
            return (rng.randrange(count),)
        if trace.passed is False and not fault:
            return (count - 1,)
        return tuple(range(last + 1)) if last is not None else tuple(range(count))

    def believed(
        self, method: Mapping[str, str], signatures: Iterable[str], *, tasks: Iterable[str], run_seed: int | None = None
    ) -> dict[str, str]:
        """The class that it blames for each signature by now: of its own reading and the classes that helped once,
        the one with the highest mean, the reading's weighed in. `tasks` are the ids of all train tasks."""
        beliefs = Beliefs.read(method.get(NOTES_FILE, ""), CLASS_TABLE)
        reader = self._reader(tasks, run_seed)
        believed = {}
        for failure in signatures:
            reading = reader.read(failure, "unknown")
            means = {
                name: beliefs.mean(failure, name, prior=self.options.trust if name == reading else 0.0)
                for name in self.classes
                if name == reading or beliefs.parameters(failure, name)[0] > 1
            }
            believed[failure] = max(means, key=lambda name: (means[name], name == reading))
        return believed

    def _propose(self, view: RoundView, laboratory: Laboratory, before: LabNote) -> EditProposal:
        rng = Random(f"catalog {view.seed} {len(before.aside)}")
        policy = read_policy(view.method.files.get(POLICY_FILE, ""), self.start_policy)
        reader = self._reader(view.traces, view.run_seed)
        cases = read_cases(view.traces, view.attributions, view.ledger, reader)
        base_round = _branch(view) if self.options.branch else None
        base = view.head if base_round is None else view.bases[base_round]
        chooser = self._chooser(view, base, policy, reader, rng)
        trials = Trials(
            laboratory, view.traces, policy, self.options.targets, rng, reader.commission, base_round=base_round
        )
        best = self._search(chooser, trials, cases, {*before.aside, *_disproved(view.history)})
        return _submission(best, trials, before, base_round)

    def _search(self, chooser: Chooser, trials: Trials, cases: Sequence[Case], aside: set[str]) -> Trial | None:
        """The best draft found: the first that is clearly supported and breaks nothing, or, when nothing more can be
        tried, a weaker one, or one that was never run. None where all were refuted."""
        best: Trial | None = None
        for _ in range(_MOST_DRAFTS):
            draft = chooser.next([case.without(trials.gone) for case in cases], aside)
            if draft is None:
                break
            trial = trials.attempt(draft) if trials.can_try() else Trial(draft, draft.case.tasks[: trials.targets])
            if trial is None:  # no failure of the case reproduces; its tasks are gone now
                continue
            if trial.rank > (best.rank if best else 0):
                best = trial
            if trial.rank in (1, CLEAR):
                break
            aside.add(draft.names[0])
        return best

    def _chooser(self, view: RoundView, base: Candidate, policy: Policy, reader: Reader, rng: Random) -> Chooser:
        notes = view.method.files.get(NOTES_FILE, "")
        return Chooser(
            base=base,
            catalogue=self.catalogue,
            classes=Beliefs.read(notes, CLASS_TABLE),
            edits=Beliefs.read(notes, EDIT_TABLE),
            trust=self.options.trust,
            focus=focus_of(view.guidance, self.classes, self.options.causes),
            size=policy.edit_size,
            dead=view.dead_edits,
            reader=reader,
            rng=rng,
        )

    def _reader(self, tasks: Iterable[str], run_seed: int | None = None) -> Reader:
        seed = self.options.seed
        if seed is None:
            seed = int(digest_of([run_seed, *sorted(tasks)])[:12], 16)
        return Reader(self._diagnose, self.options.error, seed, self.classes, self.options.causes)


def _submission(best: Trial | None, trials: Trials, before: LabNote, base_round: int | None) -> EditProposal:
    measures = {"drafts": float(trials.drafts), "units": float(trials.spent)}
    tried = {**before.tried, **trials.tried}
    gone = tuple(
        Claim(task=task, diagnosis="the failure does not reproduce", evidence=tuple(trials.about.get(task, ())))
        for task in sorted(trials.gone)
    )
    if best is None:
        note = LabNote("nothing left to try", (), tried, before.aside)
        return EditProposal(claims=gone, note=note.text(), measures=measures)
    draft = best.draft
    why = f"{draft.edit_class} for {draft.case.signature[:80]!r} (read as {draft.case.reading})"
    supported = best.verdict is EvidenceVerdict.SUPPORTS
    predicted = best.passed if supported else tuple(task for task in best.targets if task not in trials.gone)
    return EditProposal(
        edits=draft.edits,
        predicted_fixes=predicted,
        at_risk=best.broken,
        claims=(*(_claim(task, best, trials) for task in predicted), *gone),
        base_round=base_round,
        note=LabNote(why, draft.names, tried, before.aside).text(),
        measures=measures,
    )


def _claim(task: str, trial: Trial, trials: Trials) -> Claim:
    return Claim(
        task=task,
        diagnosis=f"{trial.draft.edit_class}: {trial.draft.entries[0].text}",
        step=trials.blamed.get(task),
        evidence=(*trials.about.get(task, ()), *trial.evidence_on(task)),
    )


def _branch(view: RoundView) -> int | None:
    """The kept round before the newest, where the newest kept round was harmful."""
    kept = [note for note in view.history if note.verdict == Verdict.ACCEPT]
    if not kept or max(kept, key=lambda note: note.round).label != "HARMFUL":
        return None
    return max((number for number in view.bases if number < max(note.round for note in kept)), default=None)


def _disproved(history: Iterable[RoundNote]) -> set[str]:
    """Entries that a gate has rejected, or kept and then found harmful."""
    bad = [note for note in history if note.verdict == Verdict.REJECT or note.label == "HARMFUL"]
    return {name for note in bad for name in read_note(note.note).submitted}


def _names(text: str, task: str) -> bool:
    """Whether a text names a task."""
    return re.search(rf"(?<![\w-]){re.escape(task)}(?![\w-])", text) is not None


def _read_catalogue(name: str) -> tuple[HarnessEdit, ...]:
    catalogue: Sequence[HarnessEdit] = tuple(registry.load(name, among=CATALOGUES, what="catalogue"))
    names = [entry.name for entry in catalogue]
    odd = sorted({name for name in names if names.count(name) > 1 or not re.fullmatch(r"[\w-]+", name)})
    if odd or not catalogue:
        raise SetupError(
            f"catalogue {name!r}: expected at least one entry, each with a name of its own made of letters, digits, "
            f"_ and -; got {', '.join(map(repr, odd)) or 'none'}"
        )
    return tuple(catalogue)
