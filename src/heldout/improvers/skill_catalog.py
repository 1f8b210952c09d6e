"""The simulated improver of skills: it blames modules and adds sentences of a catalogue. A simulation, labelled so.

Specification: `systems/gso.md`, section 7. It reads traces with a stated accuracy, draws edits with stated weights, and
calls no language model; everything that it does follows from its view and its options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from pydantic import Field

from heldout import registry
from heldout.config import ImproverConfig
from heldout.errors import ImproverError, SetupError
from heldout.improvers.skill_reading import attribution_of, blamed_part, job_behind, misread, read_trace
from heldout.improvers.skill_roles import Attribution, DraftView, EditView, FaultView, SkillTrace
from heldout.improvers.skill_texts import empty_skill, holds, skill_edits, with_policy, with_sentences
from heldout.models.base import Model
from heldout.options import read_options
from heldout.records import Edit, EditProposal, Record, Spend
from heldout.skills.modules import MODULES, SKILL_FILE
from heldout.worlds.tables.catalogue import CatalogueEdit, edit_text
from heldout.worlds.tables.parts import Part

__all__ = ["CATALOGUES", "SkillCatalog", "SkillCatalogOptions"]

CATALOGUES: Mapping[str, str] = {"tables": "heldout.worlds.tables.catalogue:CATALOGUE"}
"""Short names of catalogues: sequences of `CatalogueEdit`."""

_RECOVERY_BLAMED = 0.5
"""Share of the failures after a recovery that are the recovery's own."""
_ADDED = re.compile(r"^adds ([\w-]+): ", re.MULTILINE)


class SkillCatalogOptions(Record):
    """`improver.options` of `skill_catalog`."""

    catalogue: str = "tables"
    """`tables`, or `package.module:SEQUENCE`."""
    accuracy: float = Field(default=0.8, ge=0.0, le=1.0)
    """Chance that an attribution names the right module; else it names one of the five others."""
    useful: float = Field(default=0.4, ge=0.0)
    """Weight of the sentences that help, all of them together; those that can be added share it evenly."""
    null: float = Field(default=0.2, ge=0.0)
    """Weight of the sentences without an effect, shared likewise."""
    harmful: float = Field(default=0.15, ge=0.0)
    """Weight of the sentences that do harm, shared likewise."""
    literal: float = Field(default=0.15, ge=0.0)
    """Weight of the sentences that bind a name of the failed task, shared likewise."""
    always: float = Field(default=0.1, ge=0.0)
    """Weight of the sentence that turns "when asked" into "always"."""
    blamed: float = Field(default=3.0, ge=0.0)
    """Factor on the sentences that are about the part that is blamed."""
    draft_rule: float = Field(default=0.35, ge=0.0, le=1.0)
    """Chance of each helpful sentence to be in the first skill for all tasks."""
    draft_literal: float = Field(default=0.5, ge=0.0, le=1.0)
    """Chance of each name of the first task to be bound in it."""
    draft_always: float = Field(default=0.5, ge=0.0, le=1.0)
    """Chance that it asks for a summary always, where the first task asks for one."""

    def weight(self, kind: str) -> float:
        """Of all sentences of a kind together."""
        weights = {
            "useful": self.useful,
            "null": self.null,
            "harmful": self.harmful,
            "literal": self.literal,
            "always": self.always,
        }
        return weights[kind]


@dataclass(frozen=True, slots=True)
class _Sentence:
    """An entry in the words in which it would be added."""

    entry: CatalogueEdit
    text: str


class SkillCatalog:
    """A `SkillImprover` without a language model."""

    skills: ClassVar[bool] = True
    simulated: ClassVar[bool] = True
    uses_model: ClassVar[bool] = False
    bound: ClassVar[Spend] = Spend()

    def __init__(self, config: ImproverConfig, model: Model | None = None) -> None:
        del model
        self.options = read_options(SkillCatalogOptions, config.options, where=f"improver {config.kind!r}")
        self.catalogue = _read_catalogue(self.options.catalogue)

    def attribute(self, view: FaultView) -> Attribution:
        """The first wrong part of the trace, read rightly with the stated accuracy. Where a recovery was tried and
        failed, it is to blame itself in half of the cases."""
        rng = Random(f"skill_catalog attribute {view.seed} {view.trace.task.id}")
        true = read_trace(view.trace, recovery=rng.random() < _RECOVERY_BLAMED)
        if true is None:
            return Attribution(evidence="no decision in this trace was wrong: nothing can be learned from it")
        read = true if rng.random() < self.options.accuracy else misread(true, rng)
        return attribution_of(read, view.trace)

    def edit(self, view: EditView) -> EditProposal:
        """One sentence more in the module, or in the skill; of several traces one each, and none twice."""
        rng = Random(f"skill_catalog edit {view.seed}")
        drawn = [self._of_guide(view, rng)] if view.target == "guide" else list(self._of_skill(view, rng))
        sentences = list({one.text: one for one in drawn if one is not None}.values())
        if not sentences:
            return EditProposal(note="nothing in the catalogue is left to try here")
        return EditProposal(edits=_edits(view, sentences), note=_note(sentences))

    def draft(self, view: DraftView) -> EditProposal:
        """A first skill: some of the helpful sentences, and, of the first task, some names and its summary."""
        rng = Random(f"skill_catalog draft {view.seed}")
        job = job_behind(view.tasks[0][0]) if view.tasks else None
        chances = {
            "useful": self.options.draft_rule,
            "literal": self.options.draft_literal,
            "always": self.options.draft_always if job is not None and job.summary is not None else 0.0,
        }
        drawn = [
            one
            for one in self._worded({} if job is None else job.names)
            if rng.random() < chances.get(one.entry.kind, 0.0)
        ]
        skill = with_sentences(empty_skill(view.description), [one.text for one in drawn])
        return EditProposal(edits=skill_edits(view.head, skill), note=_note(drawn) or "a skill without any advice yet")

    def _of_guide(self, view: EditView, rng: Random) -> _Sentence | None:
        """A sentence for the module, or, where any may be edited, for whichever one it belongs to."""
        tried = _refused(view)
        open_ = [
            one
            for one in self._worded(_names(view.traces[0]) if view.traces else {})
            if view.module in (None, one.entry.module)
            and not holds(_module_text(view, one.entry.module), one.text)
            and (one.entry.module, one.entry.name) not in tried
        ]
        return self._draw(open_, blamed_part(view.faults[0]) if view.faults else None, rng)

    def _of_skill(self, view: EditView, rng: Random) -> Iterator[_Sentence | None]:
        """For each trace a sentence of the blamed module, or of any where that one has none left. A trace that passed
        blames none; from a failure that teaches nothing comes nothing."""
        skill, tried = view.head.files.get(SKILL_FILE, ""), _refused(view)
        for fault, trace in zip(view.faults, view.traces, strict=True):
            if trace.score < 1.0 and not fault.stage:
                continue
            open_ = [
                one
                for one in self._worded(_names(trace))
                if not holds(skill, one.text) and (SKILL_FILE, one.entry.name) not in tried
            ]
            of_module = [one for one in open_ if one.entry.module == fault.module]
            yield self._draw(of_module or open_, blamed_part(fault), rng)

    def _worded(self, names: Mapping[Part, str]) -> Iterator[_Sentence]:
        """Every entry in words; without those that would need a name that the task does not have."""
        for entry in self.catalogue:
            text = edit_text(entry, names)
            if text is not None:
                yield _Sentence(entry, text)

    def _draw(self, sentences: Sequence[_Sentence], blamed: Part | None, rng: Random) -> _Sentence | None:
        """One of them: a kind's weight is shared by its sentences, and those about the blamed part weigh more."""
        kinds = [one.entry.kind for one in sentences]
        weights = [
            self.options.weight(kind)
            / kinds.count(kind)
            * (self.options.blamed if blamed is not None and one.entry.part is blamed else 1.0)
            for one, kind in zip(sentences, kinds, strict=True)
        ]
        return rng.choices(sentences, weights)[0] if sum(weights) > 0.0 else None


def _edits(view: EditView, sentences: Sequence[_Sentence]) -> tuple[Edit, ...]:
    if view.target == "guide":
        texts: dict[str, str] = {}
        for one in sentences:
            file = one.entry.module
            texts[file] = with_policy(texts.get(file, _module_text(view, file)), one.text, file=file)
        return tuple(Edit(path=path, content=text) for path, text in texts.items())
    skill = view.head.files.get(SKILL_FILE) or empty_skill(view.description)
    return skill_edits(view.head, with_sentences(skill, [one.text for one in sentences]))


def _refused(view: EditView) -> set[tuple[str, str]]:
    """(file, entry) that a gate rejected or that was never run, of a guide as of a skill: an entry that binds a name
    is not tried again with the name of another task."""
    return {
        (file, name)
        for note in view.history
        if note.verdict in ("reject", "refused")
        for file in note.edited
        for name in _ADDED.findall(note.note)
    }


def _note(sentences: Sequence[_Sentence]) -> str:
    """What `_refused` reads back."""
    return "\n".join(f"adds {one.entry.name}: {one.text}" for one in sentences)


def _names(trace: SkillTrace) -> Mapping[Part, str]:
    job = job_behind(trace.task)
    return {} if job is None else job.names


def _module_text(view: EditView, file: str) -> str:
    text = view.head.files.get(file)
    if text is None:
        raise ImproverError(f"the guide has no module {file}; it needs {', '.join(MODULES)}")
    return text


def _read_catalogue(name: str) -> tuple[CatalogueEdit, ...]:
    catalogue = tuple(registry.load(name, among=CATALOGUES, what="catalogue"))
    if not catalogue or not all(isinstance(entry, CatalogueEdit) for entry in catalogue):
        raise SetupError(f"catalogue {name!r}: expected a sequence of CatalogueEdit with at least one entry")
    names = [entry.name for entry in catalogue]
    odd = {name for name in names if names.count(name) > 1 or not re.fullmatch(r"[\w-]+", name)}
    odd |= {entry.name for entry in catalogue if entry.module not in MODULES or "\n" in entry.text}
    if odd:
        raise SetupError(
            f"catalogue {name!r}: every entry needs a name of its own made of letters, digits, _ and -, a module of "
            f"{', '.join(MODULES)}, and a text of one line; mend {', '.join(map(repr, sorted(odd)))}"
        )
    return catalogue
