"""The nouns of Heldout: frozen records that cross disk, process or network, and the paired table.

Pydantic models (`Record`) are what the journal and files hold; `Comparison` stays in memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = [
    "Candidate",
    "Claim",
    "Comparison",
    "Decision",
    "Edit",
    "EditProposal",
    "Evidence",
    "EvidenceVerdict",
    "Outcome",
    "OutcomeStatus",
    "ProbeKind",
    "Proposal",
    "Record",
    "SelectTask",
    "Spend",
    "Task",
    "TrainTask",
    "Trajectory",
    "Verdict",
    "apply_edits",
    "digest_of",
    "edits_digest",
]


class Record(BaseModel):
    """Base of everything that crosses a disk, a process or a network.

    Infinite numbers are written as the JSON text "Infinity", so that they come back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def digest_of(value: Any) -> str:
    """sha-256, hex, of the canonical JSON of `value` (sorted keys, UTF-8, no spaces)."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Task(Record):
    """What a solver is given. It never carries the answer."""

    id: str
    """Unique in its source."""
    input: str
    """The text that the solver reads."""
    family: str = ""
    """A public grouping, for reports; never the answer."""


class TrainTask(Task):
    """A task whose body, answer and feedback an improver may see."""

    reference: str = ""
    """The right answer, in the words of the source."""


class SelectTask(Task):
    """A task that gates score; an improver sees its id and never its body."""


class Candidate(Record):
    """An evolvable folder of text files; its identity is the sha-256 of its content.

    `parent` is history and not content: two paths to the same files are the same candidate.
    """

    files: Mapping[str, str]
    """Relative path to text."""
    weights: str | None = None
    """Digest of a weights folder, for trained candidates."""
    parent: str | None = None
    """Digest of the candidate that this one was made from."""

    @cached_property
    def digest(self) -> str:
        return digest_of({"files": dict(self.files), "weights": self.weights})


class Spend(Record):
    """What work cost. Unmeasured is 0 only where nothing was used; all fields add up."""

    evaluations: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    wall_s: float = 0.0
    """Seconds of work, summed over workers (not elapsed time)."""
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    """Seconds of accelerators, summed over them."""

    def __add__(self, other: Spend) -> Spend:
        return Spend.model_construct(
            evaluations=self.evaluations + other.evaluations,
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            cost_usd=self.cost_usd + other.cost_usd,
            wall_s=self.wall_s + other.wall_s,
            cpu_s=self.cpu_s + other.cpu_s,
            gpu_s=self.gpu_s + other.gpu_s,
        )


class Trajectory(Record):
    """What a solver did on one task: its answer, its steps, and under what it was produced."""

    answer: str | None
    """The final answer, or None when the harness found none."""
    steps: tuple[Mapping[str, Any], ...] = ()
    """Messages, actions and observations, in order."""
    harness: str = ""
    """Fingerprint of the harness that ran it."""
    components: Mapping[str, str] = Field(default_factory=dict)
    """Fingerprint of each component of the candidate (prompt, tools, handlers), where the harness has them."""
    model: str = ""
    seed: int = 0
    measures: Mapping[str, float] = Field(default_factory=dict)
    """What the harness counted: turns, hook_errors, format_errors, …"""
    artifacts: Mapping[str, str] = Field(default_factory=dict)
    """Texts that were made for this episode alone, by name (a transient `SKILL.md`); kept as a record, never read
    for another task."""
    spend: Spend = Spend()


class OutcomeStatus(StrEnum):
    """A third state besides passed and failed: nothing is known, through no fault of the candidate."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_MEASURED = "not_measured"


class Outcome(Record):
    """One graded evaluation of one candidate on one task, the only source of every mean."""

    key: str
    """Cache key: candidate, task, harness, model settings, seed and repeat."""
    purpose: str
    """Why it was paid for: select, audit, feedback, noise, gold, …"""
    candidate: str
    task: str
    repeat: int = 0
    seed: int = 0
    score: float | None = Field(default=None, ge=0.0, le=1.0)
    """In [0, 1]; None exactly when `status` is not_measured."""
    status: OutcomeStatus
    answer: str | None = None
    """What the solver answered, cut to 200 characters."""
    error: str | None = None
    measures: Mapping[str, float] = Field(default_factory=dict)
    """What the harness counted in the episode; see `Trajectory.measures`."""
    artifacts: Mapping[str, str] = Field(default_factory=dict)
    """Digest of each of `Trajectory.artifacts`, whose text lies in `blobs/<digest>/`."""
    spend: Spend = Spend()

    @model_validator(mode="after")
    def _missing_is_not_zero(self) -> Self:
        if (self.score is None) != (self.status is OutcomeStatus.NOT_MEASURED):
            raise ValueError("score must be None exactly when status is not_measured")
        return self


class Proposal(Record):
    """What an improver returns: a whole new candidate folder, or the reason why there is none."""

    files: Mapping[str, str] | None
    """The proposed folder, or None for an invalid proposal (recorded, not replaced)."""
    note: str = ""
    """What was changed, in the improver's words."""
    error: str | None = None
    unanswered: bool = False
    """The improver's model did not answer: nothing is known about what it would have proposed."""
    spend: Spend = Spend()


class Edit(Record):
    """One whole-file write of an evolvable folder."""

    path: str
    content: str | None
    """The new text of the file; None deletes it."""

    @field_validator("path", "content")
    @classmethod
    def _is_unicode(cls, text: str | None) -> str | None:
        """JSON lets half of a surrogate pair through, and no file can hold one."""
        if text is not None and any("\ud800" <= sign <= "\udfff" for sign in text):
            raise ValueError("the text holds half a character (a lone surrogate)")
        return text


def edits_digest(edits: Iterable[Edit]) -> str:
    """Identity of what `apply_edits` makes of these edits, and what evidence is bound to: their order says nothing but
    which of two writes of one file is the last."""
    last = {edit.path: edit.content for edit in edits}
    return digest_of(sorted([path, content or "", content is None] for path, content in last.items()))


def apply_edits(base: Candidate, edits: Iterable[Edit]) -> Candidate:
    """`base` with the edits made to it, as its child. Deleting a file that is not there changes nothing."""
    files = dict(base.files)
    for edit in edits:
        if edit.content is None:
            files.pop(edit.path, None)
        else:
            files[edit.path] = edit.content
    return Candidate(files=files, weights=base.weights, parent=base.digest)


class ProbeKind(StrEnum):
    """The experiments of VERSE (arXiv 2610.02616)."""

    REPLAY = "replay"
    ABLATE = "ablate"
    SUBSTITUTE = "substitute"
    FIX_PROBE = "fix_probe"
    RUN_EPISODE = "run_episode"


class EvidenceVerdict(StrEnum):
    """What an experiment says of the claim that it tested."""

    SUPPORTS = "supports"
    REFUTES = "refutes"
    INCONCLUSIVE = "inconclusive"
    NONE = "none"
    """No verdict: a plain run, or a probe that was refused or did not apply."""


class Evidence(Record):
    """One probe and what it found; bound to a base, and a draft's to its edits digest."""

    round: int
    episode: int
    """Which of the round's proposals asked, from 0; −1 is the meta-episode."""
    ordinal: int
    """Which of that episode's probes this is, from 0."""
    kind: ProbeKind
    tasks: tuple[str, ...] = ()
    """Train ids."""
    step: int | None = None
    """The command that was left out or replaced, from 0."""
    command: str | None = None
    """What it was replaced with."""
    base: str = ""
    """Digest of the candidate that the draft was applied to, or whose trace was replayed."""
    edits: str = ""
    """Edits digest of the draft; empty for probes of a trace."""
    verdict: EvidenceVerdict = EvidenceVerdict.NONE
    units: int = 0
    """Spent from the round's pool."""
    refused: str = ""
    """Why nothing was run: which limit, or which rule."""
    flips: tuple[str, ...] = ()
    """Tasks on which a pass was confirmed by a second run."""
    unconfirmed: tuple[str, ...] = ()
    """Tasks that passed once and failed the second run."""
    broken: tuple[str, ...] = ()
    """Canaries that passed before and fail now."""
    passed: tuple[str, ...] = ()
    """Tasks that passed in a plain run (`run_episode`), once; no flip follows from it."""
    unmeasured: tuple[str, ...] = ()
    """Tasks on which a run gave nothing, which speaks neither for nor against."""
    detail: str = ""
    """One sentence for a person."""
    spend: Spend = Spend()
    """Of replays; whole episodes are outcomes with their own spend."""

    @property
    def id(self) -> str:
        """What a claim cites."""
        return f"{self.round}/{self.episode}/{self.ordinal}"


class Claim(Record):
    """A diagnosis of one train task's failure."""

    task: str
    diagnosis: str
    step: int | None = None
    """The command that is blamed, from 0."""
    evidence: tuple[str, ...] = ()
    """Ids of the evidence that was sought for it."""


class EditProposal(Record):
    """What an agent improver submits: edits of a folder, a prediction, and claims with evidence."""

    edits: tuple[Edit, ...] = ()
    """Empty for an invalid proposal, or for none."""
    predicted_fixes: tuple[str, ...] = ()
    """Train tasks that fail now and that the edits should fix."""
    at_risk: tuple[str, ...] = ()
    """Tasks that the edits may break; select ids are allowed, since flips of select tasks are told by id."""
    claims: tuple[Claim, ...] = ()
    base_round: int | None = None
    """Apply to the state after this kept round (0 is the start) instead of the head."""
    note: str = ""
    error: str | None = None
    unanswered: bool = False
    """The improver's model did not answer: nothing is known about what it would have proposed."""
    measures: Mapping[str, float] = Field(default_factory=dict)
    """What the episode counted: turns, tool_calls, tool_errors, …"""
    spend: Spend = Spend()


class Verdict(StrEnum):
    """What a gate says. Undecided moves nothing and is never counted as a rejection."""

    ACCEPT = "accept"
    REJECT = "reject"
    UNDECIDED = "undecided"
    CONFIRM = "confirm"
    """The gate names a winner and asks for new measurements of it before it decides."""


class Decision(Record):
    """A gate's verdict with its evidence."""

    gate: str
    verdict: Verdict
    winner: int | None = None
    """Index of the best candidate of the generation, accepted or not; None if none was measured."""
    n: int = 0
    """Tasks measured for both winner and incumbent."""
    effect: float | None = None
    """Mean paired difference winner − incumbent, as a fraction."""
    standard_error: float | None = None
    interval: tuple[float, float] | None = None
    """95 % t interval of the effect, over tasks; not corrected for the choice among candidates."""
    wins: float = 0
    losses: float = 0
    p_value: float | None = None
    reason: str = ""
    """One sentence that a person can read."""
    evidence: Mapping[str, float] = Field(default_factory=dict)
    """Named numbers that the rule used (wealth, posterior mean, threshold, …)."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The paired table of two candidates on the same tasks and seeds; the input of every gate and audit.

    `a` and `b` have shape (tasks, repeats), scores in [0, 1], NaN where not measured. `a` is the
    start or incumbent, `b` the final or candidate. A pair counts where both sides have a score.
    """

    tasks: tuple[str, ...]
    a: NDArray[np.float64]
    b: NDArray[np.float64]

    def __post_init__(self) -> None:
        n = len(self.tasks)
        if self.a.ndim != 2 or self.b.ndim != 2 or self.a.shape[0] != n or self.b.shape[0] != n:
            raise ValueError(f"expected two (tasks, repeats) tables of {n} rows, got {self.a.shape} and {self.b.shape}")
