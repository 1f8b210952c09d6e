"""The `skill_llm` improver: any chat model blames, edits and drafts, in at most two replies each."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from heldout.config import ImproverConfig
from heldout.errors import HarnessError, ImproverError, SetupError
from heldout.improvers.asking import Asking, bound_of
from heldout.improvers.reading import Reading
from heldout.improvers.skill_llm.prompts import (
    attribution_question,
    attribution_rules,
    draft_question,
    draft_rules,
    edit_question,
    edit_rules,
)
from heldout.improvers.skill_llm.replies import (
    Written,
    attribution_schema,
    read_attribution,
    read_written,
)
from heldout.improvers.skill_llm.settings import SkillLlmOptions
from heldout.improvers.skill_roles import Attribution, DraftView, EditView, FaultView
from heldout.improvers.skill_texts import skill_edits
from heldout.models.base import Model
from heldout.options import read_options
from heldout.records import Edit, EditProposal
from heldout.skills.folder import skill_faults
from heldout.skills.guide import check_guide, guide_text
from heldout.skills.literals import literals_in
from heldout.skills.modules import MODULES, SKILL_FILE

__all__ = ["SkillLlm"]

_HITS_SHOWN = 8


class SkillLlm:
    """A `SkillImprover` over a chat model. Holds no state between calls, so several may run at once.

    A reply that cannot be used is asked for once more, with its fault named; then it is an `ImproverError`. Only a
    literal in a module goes through after that: the loop refuses it before it is run, and records why.
    """

    skills: ClassVar[bool] = True
    uses_model: ClassVar[bool] = True

    def __init__(self, config: ImproverConfig, model: Model | None) -> None:
        if model is None:
            raise SetupError("improver.kind = 'skill_llm' needs a model: set improver.model")
        self.options = read_options(SkillLlmOptions, config.options, where=f"improver {config.kind!r}")
        self.bound = bound_of(self.options, config.model)
        self._model = model

    def attribute(self, view: FaultView) -> Attribution:
        """The first actionable fault, as the model reads the trace."""
        asking = self._asking(view.seed, "attribution")
        turns = len(view.trace.steps)
        found = asking.ask(
            attribution_rules(),
            attribution_question(view, limit=self.options.trace_chars),
            lambda text: read_attribution(text, turns=turns),
            attribution_schema(),
        )
        return found.model_copy(update={"spend": asking.spend})

    def edit(self, view: EditView) -> EditProposal:
        """The module, or the skill, written anew."""
        _check_view(view)
        asking = self._asking(view.seed, f"edit of {view.module or view.target}")
        read = _guide_reader(view) if view.target == "guide" else _skill_reader(view.head.files.get(SKILL_FILE))
        question = edit_question(view, limit=self.options.trace_chars)
        written = asking.ask(edit_rules(view), question, read)
        if written.text is None:
            edits: tuple[Edit, ...] = ()
        elif view.target == "guide":
            edits = (Edit(path=view.module or written.module, content=written.text),)
        else:
            edits = skill_edits(view.head, written.text)
        return _proposal(edits, written, asking)

    def draft(self, view: DraftView) -> EditProposal:
        """A first skill for all tasks."""
        asking = self._asking(view.seed, "draft of a skill")
        question = draft_question(view, limit=self.options.trace_chars)
        written = asking.ask(draft_rules(), question, _must_write(_skill_reader(None)))
        assert written.text is not None
        return _proposal(skill_edits(view.head, written.text), written, asking)

    def _asking(self, seed: int, what: str) -> Asking:
        return Asking(self._model, self.options, seed, what)


def _proposal(edits: tuple[Edit, ...], written: Written, asking: Asking) -> EditProposal:
    note = written.note or f"rewrites {', '.join(edit.path for edit in edits if edit.content is not None)}"
    return EditProposal(edits=edits, note=note, measures={"turns": float(asking.calls)}, spend=asking.spend)


def _check_view(view: EditView) -> None:
    if view.target == "skill":
        return
    missing = [file for file in ((view.module,) if view.module else MODULES) if file not in view.head.files]
    if missing:
        raise ImproverError(f"the guide has no module {missing[0]}; it needs {', '.join(MODULES)}")


_Reader = Callable[[str], Reading[Written]]


def _guide_reader(view: EditView) -> _Reader:
    """Reads a module that the guide can hold; one with a literal is usable, and better mended."""

    def read(text: str) -> Reading[Written]:
        found = read_written(text, names_module=view.module is None)
        if found.value is None or found.value.text is None:
            return found
        file, module = view.module or found.value.module, found.value.text
        if module.strip() == view.head.files[file].strip():
            return Reading(fault=f"It leaves {file} as it is.")
        try:
            check_guide({**view.head.files, file: module})
        except HarnessError as fault:
            return Reading(fault=f"{fault}.")
        hits = literals_in(module, view.forbidden, guide_text(view.head.files))
        if not hits:
            return found
        named = ", ".join(repr(hit) for hit in hits[:_HITS_SHOWN])
        return Reading(found.value, f"It names what belongs to single tasks: {named}. Say it without them.")

    return read


def _skill_reader(before: str | None) -> _Reader:
    """Reads a SKILL.md that differs from the one before."""

    def read(text: str) -> Reading[Written]:
        found = read_written(text)
        if found.value is None or found.value.text is None:
            return found
        if before is not None and found.value.text.strip() == before.strip():
            return Reading(fault="It leaves the skill as it is.")
        faults = skill_faults({SKILL_FILE: found.value.text})
        return Reading(fault=f"{'; '.join(faults)}.") if faults else found

    return read


def _must_write(read: _Reader) -> _Reader:
    """Where there is no skill yet, changing nothing is no answer."""

    def checked(text: str) -> Reading[Written]:
        found = read(text)
        nothing = found.value is not None and found.value.text is None
        return Reading(fault="It writes no skill; a skill is asked for.") if nothing else found

    return checked
