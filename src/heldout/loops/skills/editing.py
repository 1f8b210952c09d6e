"""Step 3 of a round: the editor rewrites one module (or the skill), and what it wrote is checked before it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from heldout.improvers.skill_roles import Attribution, EditView, SkillTrace
from heldout.loops.paying import paid_call
from heldout.loops.proposing import step_seed
from heldout.loops.skills.attributing import copied, told
from heldout.loops.skills.state import Learnable, SkillSearch
from heldout.records import Candidate, EditProposal, apply_edits
from heldout.skills.guide import changed_modules, kind_of
from heldout.skills.literals import literals_in
from heldout.skills.modules import NO_SKILL_FILE, SKILL_FILE
from heldout.store import fault_of_files
from heldout.store.events import CandidateAdded
from heldout.store.folders import MAX_FOLDER_BYTES
from heldout.store.skill_events import ModuleEdited

__all__ = ["answered_edit", "ask_for_edit", "edit"]

_KINDS: Mapping[str, str] = {"guide": "a guide", "skill": "a skill", "none": "no skill"}

NOTE_CHARACTERS = 10_000
"""Of an editor's note that the journal keeps."""


def edit(search: SkillSearch, learnable: Learnable, *, number: int, any_module: bool = False) -> ModuleEdited:
    """Ask for one edit after this failure; on record with what is wrong with it, where something is."""
    module = None if search.target == "skill" or any_module else learnable.module
    traces, faults = (learnable.trace,), (told(learnable),)
    return ask_for_edit(search, learnable.head, traces, faults, number=number, module=module)


def ask_for_edit(
    search: SkillSearch,
    head: Candidate,
    traces: Sequence[SkillTrace],
    faults: Sequence[Attribution],
    *,
    number: int,
    module: str | None,
) -> ModuleEdited:
    """One question to the editor."""
    session = search.session
    view = EditView(
        round=number,
        seed=step_seed(session.config.seed, number, 0),
        head=copied(head),
        target=search.target,
        module=module,
        faults=tuple(faults),
        traces=tuple(traces),
        history=tuple(search.notes),
        description=session.tasks.description,
        run_seed=session.config.seed,
        forbidden=search.forbidden,
    )
    return answered_edit(search, head, partial(search.improver.edit, view), number=number, module=module)


def answered_edit(
    search: SkillSearch, head: Candidate, ask: Callable[[], EditProposal], *, number: int, module: str | None = None
) -> ModuleEdited:
    """What the improver answers, as an edit on record; what is on record is not asked for again."""
    entry = search.session.recorder.find("skill.edit", f"{number}/0", ModuleEdited)
    if entry is None:
        answered = paid_call(search.session, ask, EditProposal, bound=search.improver.bound, purpose="edit")
        proposal = answered.value or EditProposal(error=answered.error, unanswered=answered.unanswered)
        proposal = _fitting(proposal).model_copy(update={"spend": answered.spend})
        entry = _record_edit(search, head, proposal, number=number, module=module)
    _enter_lineage(search, head, entry)
    return entry


def _fitting(proposal: EditProposal) -> EditProposal:
    """The proposal, if the journal may hold it; of one that is larger than any folder, that it was."""
    size = sum(len((edit.path + (edit.content or "")).encode()) for edit in proposal.edits)
    if size > MAX_FOLDER_BYTES:
        return EditProposal(error=f"the edit has {size} bytes; a folder has at most {MAX_FOLDER_BYTES}")
    return proposal.model_copy(update={"note": proposal.note[:NOTE_CHARACTERS]})


def _record_edit(
    search: SkillSearch, head: Candidate, proposal: EditProposal, *, number: int, module: str | None
) -> ModuleEdited:
    """Check an edit, keep the folder that it makes, and put the edit on record."""
    made = _made(head, proposal)
    edited = () if made is None else changed_modules(head.files, made.files)
    fault = _fault(search, made, edited, module=module) if made is not None else "the editor has nothing left to try"
    fault = proposal.error or fault
    if made is not None and fault_of_files(made.files) is None:
        search.session.store.save(made)
    entry = ModuleEdited(
        round=number,
        target=search.target,
        head=head.digest,
        attributed=module,
        edited=edited,
        proposal=proposal,
        digest=made.digest if made is not None and not fault else None,
        fault=fault,
        unanswered=proposal.unanswered,
    )
    return search.session.recorder.record("skill.edit", entry)


def _enter_lineage(search: SkillSearch, head: Candidate, entry: ModuleEdited) -> None:
    """Put the candidate of an edit on record, where a harness could run it; refused ones stay there too, with the
    reason beside them. An edit that was recorded earlier may have been the last event of a run that was stopped.
    """
    made = _made(head, entry.proposal)
    if made is None or fault_of_files(made.files) is not None or search.session.check(made) is not None:
        return
    note = entry.proposal.note or entry.fault
    added = CandidateAdded(
        digest=made.digest, parent=head.digest, track=search.track, generation=entry.round, index=0, note=note
    )
    search.session.add_candidate(made, added)


def _made(head: Candidate, proposal: EditProposal) -> Candidate | None:
    """The folder after the edits; one that becomes a skill is no longer without one. None where nothing is edited."""
    if not proposal.edits:
        return None
    made = apply_edits(head, proposal.edits)
    if SKILL_FILE not in made.files:
        return made
    files = {path: text for path, text in made.files.items() if path != NO_SKILL_FILE}
    return Candidate(files=files, weights=made.weights, parent=head.digest)


def _fault(search: SkillSearch, made: Candidate, edited: Sequence[str], *, module: str | None) -> str:
    """What forbids running it; see the specification, sections 6.5 and 9."""
    unkept = fault_of_files(made.files)
    if unkept is not None:
        return f"the edited folder is not usable: {unkept}"
    if not edited:
        return "the edit changes nothing"
    wrong_kind = _kind_fault(search, made)
    if wrong_kind:
        return wrong_kind
    if module is not None and tuple(edited) != (module,):
        return f"the fault was attributed to {module}, and the edit changes {', '.join(edited)}"
    unusable = search.session.check(made)
    if unusable is not None:
        return unusable
    held = {name for path in edited for name in _names_in(search, made.files.get(path, ""))}
    if held:
        return f"it holds names of train tasks, which a guide may not: {', '.join(map(repr, sorted(held)))}"
    if search.session.known(made.digest):
        return "it was tried before"
    return ""


def _kind_fault(search: SkillSearch, made: Candidate) -> str:
    """A guide stays a guide, and a skill a skill; what is neither is refused by the harness, in its own words."""
    if search.session.check(made) is not None:
        return ""
    kind = kind_of(made)
    return "" if kind == search.target else f"the edit makes {_KINDS[kind]} of a {search.target}"


def _names_in(search: SkillSearch, text: str) -> tuple[str, ...]:
    if not search.forbidden:
        return ()
    return literals_in(text, search.forbidden, allowed_text="\n".join(search.start.files.values()))
