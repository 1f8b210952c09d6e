"""What the catalogue improver makes of the failures, and which draft it tries next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from heldout.improvers.beliefs import Beliefs
from heldout.probes.base import Attribution, SignatureEntry, Trace
from heldout.probes.signatures import signature
from heldout.records import Candidate, Edit, apply_edits, edits_digest

__all__ = ["CLASS_CAUSES", "Case", "Chooser", "Diagnose", "Draft", "HarnessEdit", "Reader", "focus_of", "read_cases"]

CLASS_CAUSES: Mapping[str, tuple[str, ...]] = {
    "tests": ("omission",),
    "locate": ("omission", "commission"),
    "keep_mend": ("commission",),
    "shell": ("mechanics",),
    "traceback": ("mechanics",),
}
"""Class of edits to the kinds of mistake that it is for, the likeliest first. Attribution tells omission and commission
apart and knows no mechanics: those fail as omissions do. A change in the wrong place may look like either."""

_GROWING = 2.0
"""How much more a failure that spreads weighs than one that does not."""

_ASIDE = 0.5
"""What a class keeps of its draw where the guidance, or the attributed cause, points elsewhere."""


class HarnessEdit(Protocol):
    """An entry of a catalogue."""

    @property
    def name(self) -> str:
        """Unique in its catalogue: letters, digits, `-` and `_`."""

    @property
    def edit_class(self) -> str:
        """What it purports to address."""

    @property
    def text(self) -> str:
        """What it does, in a sentence."""

    def apply(self, folder: Mapping[str, str], /) -> tuple[Edit, ...]:
        """The whole-file writes that make it; none where it is made already."""


class Diagnose(Protocol):
    """A reading of a failure: which class of edits would mend it. Wrong with probability `error`, and always the
    same for one signature and seed."""

    def __call__(
        self, signature: str, /, *, error: float, seed: int, allowed: Collection[str] | None = None
    ) -> str: ...


@dataclass(frozen=True, slots=True)
class Reader:
    """How one run's improver reads failures."""

    diagnose: Diagnose
    error: float
    seed: int
    classes: tuple[str, ...]
    causes: Mapping[str, Sequence[str]]
    """Class to omission, commission, mechanics, the likeliest first; a class that is not listed fits every cause."""

    @property
    def commission(self) -> frozenset[str]:
        """Classes that are for mistakes of commission before all others."""
        return frozenset(name for name in self.classes if tuple(self.causes.get(name, ()))[:1] == ("commission",))

    def allowed(self, cause: str) -> tuple[str, ...]:
        """Classes that an attributed cause leaves; all of them where it leaves none."""
        kinds = {"commission": {"commission"}, "omission": {"omission", "mechanics"}}.get(cause, set())
        left = [name for name in self.classes if not kinds or kinds & set(self.causes.get(name, kinds))]
        return tuple(left) or self.classes

    def read(self, failure: str, cause: str) -> str:
        """The class of edits that would mend this signature, as the improver sees it."""
        return self.diagnose(failure, error=self.error, seed=self.seed, allowed=self.allowed(cause))


@dataclass(frozen=True, slots=True)
class Case:
    """The failing tasks that share a signature."""

    signature: str
    tasks: tuple[str, ...]
    """Those with a minimised trace first, since that one is known to reproduce."""
    minimised: frozenset[str]
    cause: str
    """`omission`, `commission` or `unknown`."""
    growing: bool
    reading: str
    """Class of edits."""

    def without(self, gone: Collection[str]) -> Case:
        """The case with some tasks left out."""
        left = tuple(task for task in self.tasks if task not in gone)
        return Case(self.signature, left, self.minimised, self.cause, self.growing, self.reading)


def read_cases(
    traces: Mapping[str, Trace],
    attributions: Iterable[Attribution],
    ledger: Iterable[SignatureEntry],
    reader: Reader,
) -> tuple[Case, ...]:
    """Every signature of the failing traces that the ledger does not hold extinct, by signature."""
    entries = {entry.signature: entry for entry in ledger}
    minimised = {one.task: one for one in attributions if not one.passed}
    tasks: dict[str, list[str]] = {}
    for task in sorted(traces):
        if traces[task].passed is False:
            tasks.setdefault(signature(traces[task]), []).append(task)
    cases = []
    for failure, failing in sorted(tasks.items()):
        entry = entries.get(failure)
        if entry is not None and entry.status == "EXTINCT":
            continue
        proven = frozenset(minimised.keys() & set(failing))
        causes = [minimised[task].cause for task in sorted(proven)]
        cause = _cause(causes, entry)
        growing = entry is not None and entry.status == "GROWING"
        ordered = tuple(sorted(failing, key=lambda task: (task not in proven, task)))
        cases.append(Case(failure, ordered, proven, cause, growing, reader.read(failure, cause)))
    return tuple(cases)


def focus_of(guidance: str, classes: Sequence[str], causes: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The classes that a block of guidance points at: those of its line `Focus: …`, else those of the kind of mistake
    (omission, commission, mechanics) that it begins with; empty where it points at none."""
    for line in guidance.splitlines():
        if line.startswith("Focus:"):
            named = {word.strip(" .`") for word in line.removeprefix("Focus:").split(",")}
            return frozenset(named & set(classes))
    kind = guidance.split(":", 1)[0].strip().lower()
    return frozenset(name for name in classes if kind in causes.get(name, ()))


@dataclass(frozen=True, slots=True)
class Draft:
    """Edits that may be proposed, and what for."""

    case: Case
    entries: tuple[HarnessEdit, ...]
    """The first is for the case; further ones come along."""
    edits: tuple[Edit, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of its entries."""
        return tuple(entry.name for entry in self.entries)

    @property
    def edit_class(self) -> str:
        """What it is meant to address."""
        return self.entries[0].edit_class


@dataclass(frozen=True, slots=True)
class Chooser:
    """Draws drafts by Thompson sampling from what the improver believes and reads."""

    base: Candidate
    """What the edits are made to."""
    catalogue: Sequence[HarnessEdit]
    classes: Beliefs
    edits: Beliefs
    trust: float
    """Successes that the improver's own reading counts for."""
    focus: frozenset[str]
    size: int
    """Entries of one draft."""
    dead: frozenset[str]
    """Edits digests."""
    reader: Reader
    rng: Random

    def next(self, cases: Iterable[Case], aside: Collection[str]) -> Draft | None:
        """The draft to try next, without the entries in `aside`; None where nothing is left.

        Its first entry may be anything; further ones, up to the policy's edit size, are entries that have helped.
        """
        ranked = self._ranked([case for case in cases if case.tasks])
        draft: Draft | None = None
        for case, edit_class in ranked:
            taken = set(aside) | set(draft.names if draft else ())
            entries = self._by_promise(case, edit_class, taken)
            if draft is not None:
                entries = [entry for entry in entries if self._helped(case, entry)]
            grown = self._grown(draft, case, entries)
            if grown is not None:
                draft = grown
                if len(draft.entries) == self.size:
                    break
        return draft

    def _ranked(self, cases: Sequence[Case]) -> list[tuple[Case, str]]:
        """Pairs of a case and a class, best first, by failing tasks times a draw of the chance of mending them."""
        scored = []
        for case in cases:
            weight = len(case.tasks) * (_GROWING if case.growing else 1.0)
            allowed = self.reader.allowed(case.cause)
            for name in self.reader.classes:
                prior = self.trust if name == case.reading else 0.0
                drawn = self.classes.draw(case.signature, name, self.rng, prior=prior)
                value = weight * max([drawn, *self._proven(case, name)])
                value *= 1.0 if not self.focus or name in self.focus else _ASIDE
                value *= 1.0 if name in allowed else _ASIDE
                scored.append((value, case, name))
        scored.sort(key=lambda item: (-item[0], item[1].signature, item[2]))
        return [(case, name) for _, case, name in scored]

    def _proven(self, case: Case, edit_class: str) -> list[float]:
        """Draws of the class's entries that have helped against this signature and are not in place."""
        entries = [one for one in self.catalogue if one.edit_class == edit_class and self._helped(case, one)]
        waiting = [entry for entry in entries if entry.apply(self.base.files)]
        return [self.edits.draw(case.signature, entry.name, self.rng) for entry in waiting]

    def _helped(self, case: Case, entry: HarnessEdit) -> bool:
        helped, did_not = self.edits.parameters(case.signature, entry.name)
        return helped > did_not

    def _by_promise(self, case: Case, edit_class: str, taken: Collection[str]) -> list[HarnessEdit]:
        """The class's entries that are left, by a draw of each one's own chance."""
        left = [entry for entry in self.catalogue if entry.edit_class == edit_class and entry.name not in taken]
        draws = {entry.name: self.edits.draw(case.signature, entry.name, self.rng) for entry in left}
        return sorted(left, key=lambda entry: -draws[entry.name])

    def _grown(self, draft: Draft | None, case: Case, entries: Iterable[HarnessEdit]) -> Draft | None:
        """`draft` with the first of these entries that changes something and does not make a dead edit of it."""
        for entry in entries:
            before = draft.edits if draft else ()
            change = entry.apply(apply_edits(self.base, before).files)
            written = {edit.path: edit for edit in (*before, *change)}
            edits = tuple(edit for _, edit in sorted(written.items()) if self._changes(edit))
            if change and edits and edits_digest(edits) not in self.dead:
                return Draft(draft.case if draft else case, (*(draft.entries if draft else ()), entry), edits)
        return None

    def _changes(self, edit: Edit) -> bool:
        return self.base.files.get(edit.path) != edit.content


def _cause(causes: Sequence[str], entry: SignatureEntry | None) -> str:
    """The cause that the minimised traces agree on, else the ledger's."""
    known = {cause for cause in causes if cause in ("omission", "commission")}
    if len(known) == 1:
        return known.pop()
    return entry.cause if entry is not None and not known else "unknown"
