"""What is really so in a simulated run: pass rates, diagnoses and drafts, against which the run's own are held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heldout.harness.loop_settings import ToolLoopOptions
from heldout.improvers.beliefs import wrong_beliefs
from heldout.improvers.catalog import CatalogImprover
from heldout.improvers.catalog_notes import read_note
from heldout.loops.session import Session
from heldout.options import read_options
from heldout.records import Candidate, Evidence, EvidenceVerdict, ProbeKind, Record, apply_edits
from heldout.store.agent_events import SignatureSeen, Submitted
from heldout.studies.verse.shadow import features_of
from heldout.worlds.repair.catalogue import CATALOGUE
from heldout.worlds.repair.coder import package_of
from heldout.worlds.repair.package import Package
from heldout.worlds.repair.truth import pass_probability, pass_rate, true_class

__all__ = ["HELPS", "Truth", "Verdicts", "changes", "count_verdicts", "draft_of", "wrong_readings"]

HELPS = 0.1
"""A draft truly helps its targets where it raises the chance of at least one of them to pass by this much, exactly."""

_ENTRIES = {entry.name: entry for entry in CATALOGUE}


class Verdicts(Record):
    """Verdicts of `fix_probe` against the truth of its draft."""

    right_supports: int = 0
    """The draft truly helps a target."""
    wrong_supports: int = 0
    right_refutes: int = 0
    """It helps none."""
    wrong_refutes: int = 0
    inconclusive: int = 0

    def __add__(self, other: Verdicts) -> Verdicts:
        return Verdicts(**{name: value + getattr(other, name) for name, value in self})


@dataclass(frozen=True, slots=True)
class Truth:
    """Exact expectations over seeds for the tasks of one run, after its last decision."""

    session: Session
    options: ToolLoopOptions
    sealed: Mapping[str, tuple[Package, ...]]
    """Packages of `audit` and `ood`."""
    known: dict[tuple[str, str], float] = field(default_factory=dict)
    """By candidate and role: a head is asked for once for each round that it lasts."""

    @classmethod
    def of(cls, session: Session) -> Truth:
        """Reads the sealed roles once more; nothing of the run goes on after this."""
        opened = {name: session.tasks.open_role(name) for name in session.tasks.sealed}
        return cls(
            session,
            read_options(ToolLoopOptions, session.config.solver.options, where="the tool loop"),
            {name: tuple(package_of(role.references[task.id]) for task in role.tasks) for name, role in opened.items()},
        )

    def rate(self, digest: str, role: str) -> float:
        """Expected score of a candidate on a sealed role."""
        if (digest, role) not in self.known:
            features = features_of(self.session.store.load(digest), self.options)
            self.known[digest, role] = pass_rate(self.sealed[role], features.reading, features.view)
        return self.known[digest, role]


def count_verdicts(session: Session, evidence: Iterable[Evidence]) -> Verdicts:
    """Every `fix_probe` of the catalogue improver's own episodes, by what its draft really does to its targets."""
    drafts = {
        found: names
        for one in session.recorder.every("submission", Submitted)
        for found, names in read_note(one.proposal.note).tried.items()
    }
    options = read_options(ToolLoopOptions, session.config.solver.options, where="the tool loop")
    packages, total = _train(session), Verdicts()
    for one in evidence:
        if one.kind is not ProbeKind.FIX_PROBE or one.refused or one.id not in drafts:
            continue
        base = session.store.load(one.base)
        draft = draft_of(base, drafts[one.id])
        helps = max(changes(base, draft, [packages[task] for task in one.tasks], options)) >= HELPS
        total += _counted(one.verdict, helps=helps)
    return total


def wrong_readings(session: Session, before: str, after: str) -> tuple[int, int, int]:
    """How many signatures of the start's own failures the improver blames on a wrong class under the method `before`,
    how many under `after`, and of how many."""
    improver = CatalogImprover(session.config.improver)
    seen = session.recorder.every("ledger.signature", SignatureSeen)
    signatures = [one.signature for one in seen if one.round == 1]
    tasks = [task.id for task in session.tasks.train]
    wrong = []
    for method in (before, after):
        believed = improver.believed(session.store.load(method).files, signatures, tasks=tasks)
        wrong.append(wrong_beliefs(believed, true_class))
    return wrong[0][0], wrong[1][0], wrong[0][1]


def _train(session: Session) -> dict[str, Package]:
    return {task.id: package_of(task.reference) for task in session.tasks.train}


def draft_of(base: Candidate, names: Sequence[str]) -> Candidate:
    """The folder that a draft of these catalogue edits, in this order, makes of its base."""
    draft = base
    for name in names:
        draft = apply_edits(draft, _ENTRIES[name].apply(draft.files))
    return draft


def changes(base: Candidate, draft: Candidate, packages: Iterable[Package], options: ToolLoopOptions) -> list[float]:
    """What a draft adds to the exact chance of each package to pass."""
    old, new = (features_of(one, options) for one in (base, draft))
    return [
        pass_probability(package, new.reading, new.view) - pass_probability(package, old.reading, old.view)
        for package in packages
    ]


def _counted(verdict: EvidenceVerdict, *, helps: bool) -> Verdicts:
    if verdict is EvidenceVerdict.SUPPORTS:
        return Verdicts(right_supports=int(helps), wrong_supports=int(not helps))
    if verdict is EvidenceVerdict.REFUTES:
        return Verdicts(right_refutes=int(not helps), wrong_refutes=int(helps))
    return Verdicts(inconclusive=1)
