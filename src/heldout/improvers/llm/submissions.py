"""How an episode ends: a submission that fits, or the list of what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from pydantic import Field, model_validator

from heldout.errors import HarnessError
from heldout.improvers.agent import MetaView, RoundView
from heldout.improvers.llm.tools import Answer, Tool
from heldout.improvers.method import HookFaults, check_method_edits
from heldout.probes.base import Trace
from heldout.probes.claims import inconsistencies
from heldout.records import (
    Candidate,
    Claim,
    Edit,
    EditProposal,
    Evidence,
    Record,
    apply_edits,
    edits_digest,
)
from heldout.store import fault_of_files

__all__ = ["Check", "EditArgument", "draft_faults", "edits_of", "submit_method", "submit_proposal", "workspace_fault"]

Check = Callable[[Candidate], str | None]
"""Why a harness may not be run, or None."""


class EditArgument(Record):
    """A whole-file write, as a model gives it."""

    path: str = Field(min_length=1, description="relative to the folder, without its name")
    content: str | None = Field(default=None, description="the whole new text of the file")
    delete: bool = Field(default=False, description="true to delete the file, instead of content")

    @model_validator(mode="after")
    def _writes_or_deletes(self) -> Self:
        if (self.content is None) is not self.delete:
            raise ValueError("give either the content of the whole file or delete: true")
        return self


class _ClaimArgument(Record):
    task: str = Field(description="a train task that fails now")
    diagnosis: str = Field(min_length=1, description="why it fails, in one sentence")
    step: int | None = Field(default=None, description="number of the command that is to blame, where one is")
    evidence: tuple[str, ...] = Field(default=(), description="ids of the evidence sought for it, for example 2/0/3")


class _Proposal(Record):
    edits: tuple[EditArgument, ...] = Field(description="whole files of the harness; [] if nothing is worth trying")
    predicted_fixes: tuple[str, ...] = Field(default=(), description="train tasks that fail now and should pass then")
    at_risk: tuple[str, ...] = Field(default=(), description="tasks that the edits may break")
    claims: tuple[_ClaimArgument, ...] = ()
    base_round: int | None = Field(default=None, description="edit the harness after this kept round, not the head")
    note: str = Field(min_length=1, description="one sentence: what is changed, and why")


class _Method(Record):
    edits: tuple[EditArgument, ...] = Field(description="whole files of your method; [] leaves it as it is")
    note: str = Field(min_length=1, description="one sentence: what is changed, and why")


def workspace_fault(candidate: Candidate) -> str | None:
    """The default `Check`: the rules of the tool loop's workspace."""
    from heldout.harness.workspace import check_workspace

    try:
        check_workspace(candidate)
    except HarnessError as fault:
        return str(fault)
    return None


def edits_of(given: Sequence[EditArgument]) -> tuple[Edit, ...]:
    """The edits that a model gave."""
    return tuple(Edit(path=edit.path, content=edit.content) for edit in given)


def draft_faults(view: RoundView, edits: Sequence[Edit], *, base_round: int | None, check: Check) -> list[str]:
    """Why these edits cannot be run; empty where they can."""
    base = _base(view, base_round)
    if base is None:
        kept = ", ".join(map(str, sorted(view.bases))) or "none"
        return [f"base_round {base_round} is no kept round; there is {kept}"]
    paths = [edit.path for edit in edits]
    doubled = sorted({path for path in paths if paths.count(path) > 1})
    gone = [edit.path for edit in edits if edit.content is None and edit.path not in base.files]
    faults = [f"{path} is edited more than once" for path in doubled]
    faults += [f"{path} cannot be deleted: there is no such file" for path in gone]
    if faults:
        return faults
    draft = apply_edits(base, edits)
    if draft.digest == base.digest:
        return ["the edits leave every file as it is"]
    fault = fault_of_files(draft.files) or check(draft)
    return [fault] if fault else []


def submit_proposal(view: RoundView, evidence: Sequence[Evidence], *, check: Check, cited: Iterable[str] = ()) -> Tool:
    """The tool that ends a proposal; `evidence` is read when it is called, with all probes up to then.

    `cited` is evidence of the proposal that is mended here: claims may go on citing it.
    """

    def run(given: _Proposal) -> Answer:
        proposal = EditProposal(
            edits=edits_of(given.edits),
            predicted_fixes=tuple(dict.fromkeys(given.predicted_fixes)),
            at_risk=tuple(dict.fromkeys(given.at_risk)),
            claims=tuple(Claim(**claim.model_dump()) for claim in given.claims),
            base_round=given.base_round,
            note=given.note,
        )
        if not proposal.edits:
            nothing = EditProposal(note=given.note, error=f"nothing: {given.note}")
            return Answer("Noted: nothing is proposed.", ends=nothing)
        faults = draft_faults(view, proposal.edits, base_round=proposal.base_round, check=check)
        if not faults:
            faults = _proposal_faults(view, proposal, evidence, cited=frozenset(cited))
        return _verdict(proposal, faults)

    words = "End this episode with your edits, what you predict, and your claims with the evidence for them."
    return Tool("submit_proposal", words, _Proposal, run)


def submit_method(view: MetaView, *, hook_faults: HookFaults) -> Tool:
    """The tool that ends an episode on the improver's own folder."""

    def run(given: _Method) -> Answer:
        edits = edits_of(given.edits)
        faults = list(_method_faults(view, edits, hook_faults)) if edits else []
        return _verdict(EditProposal(edits=edits, note=given.note), faults)

    return Tool("submit_method", "End this episode with edits of your own method folder.", _Method, run)


def _method_faults(view: MetaView, edits: Sequence[Edit], hook_faults: HookFaults) -> tuple[str, ...]:
    return check_method_edits(view.method, edits, task_ids=view.traces, hook_faults=hook_faults)


def _verdict(proposal: EditProposal, faults: Sequence[str]) -> Answer:
    if faults:
        listed = "\n".join(f"- {fault}" for fault in faults)
        return Answer(f"Not accepted; mend this and submit again:\n{listed}", fault=True)
    return Answer("Accepted.", ends=proposal)


def _proposal_faults(
    view: RoundView, proposal: EditProposal, evidence: Sequence[Evidence], *, cited: frozenset[str]
) -> list[str]:
    base = _base(view, proposal.base_round)
    assert base is not None
    digest = edits_digest(proposal.edits)
    faults = []
    if digest in view.dead_edits:
        faults.append("exactly these edits were tried in an earlier round and taken back; change them")
    faults += [fault for task in proposal.predicted_fixes if (fault := _prediction_fault(task, view.traces))]
    known = cited | {item.id for item in evidence if not item.refused}
    for claim in proposal.claims:
        faults += _claim_faults(claim, view.traces, known)
    return faults + list(inconsistencies(proposal, evidence, edits_digest=digest, base=base.digest))


def _prediction_fault(task: str, traces: Mapping[str, Trace]) -> str | None:
    if task not in traces:
        return f"predicted_fixes: {task!r} is no train task with a trace"
    if traces[task].passed is not False:
        return f"predicted_fixes: {task!r} does not fail now"
    return None


def _claim_faults(claim: Claim, traces: Mapping[str, Trace], known: frozenset[str]) -> list[str]:
    if claim.task not in traces:
        return [f"claims: {claim.task!r} is no train task with a trace"]
    faults = []
    count = len(traces[claim.task].commands)
    if claim.step is not None and not 0 <= claim.step < count:
        faults.append(f"claims: {claim.task} has the commands 0 to {count - 1}, and no command {claim.step}")
    unknown = [cited for cited in claim.evidence if cited not in known]
    if unknown:
        have = ", ".join(sorted(known)) or "none"
        faults.append(f"claims: there is no evidence {', '.join(unknown)} in this episode; there is {have}")
    return faults


def _base(view: RoundView, base_round: int | None) -> Candidate | None:
    return view.head if base_round is None else view.bases.get(base_round)
