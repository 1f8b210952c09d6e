"""Payloads of the events that loops over agents write; see `events` for the rest."""

from __future__ import annotations

from collections.abc import Mapping

from heldout.records import EditProposal, Evidence, Record, Spend

__all__ = [
    "AGENT_PAYLOADS",
    "CardWritten",
    "CommandsReplayed",
    "FinalSelected",
    "Finalist",
    "FlipsConfirmed",
    "MethodAudited",
    "MethodEdited",
    "PredictionScored",
    "RoundStarted",
    "Screened",
    "SignatureSeen",
    "Smoked",
    "Submitted",
    "TraceMinimised",
]


class RoundStarted(Record):
    """kind `round.started`: what a round begins from."""

    round: int
    """0 is the start's own sweeps."""
    head: str
    """Digest of the harness."""
    method: str
    """Digest of the improver's folder."""
    swept: bool
    """Whether train was swept anew in this round."""
    why: str = ""


class Submitted(Record):
    """kind `submission`: what an improver's episode ended with."""

    round: int
    episode: int
    attempt: int = 0
    """0 is the episode's own; 1 and on are repairs after smoke or a repeated edit."""
    guidance: str = ""
    proposal: EditProposal
    digest: str | None = None
    """The candidate that it makes; None where there is none."""
    edits: str = ""
    """Edits digest."""
    fault: str = ""
    """Why it is not screened."""


class Screened(Record):
    """kind `screen`: the round's candidates on one shared subset of train."""

    round: int
    tasks: tuple[str, ...]
    canaries: tuple[str, ...]
    candidates: tuple[str | None, ...]
    """Digest of each episode's candidate, None where it was not screened."""
    fixed: tuple[int, ...]
    broken: tuple[int, ...]
    missing: tuple[int, ...]
    confirmed: tuple[int, ...]
    """Confirmed probe flips of exactly these edits."""
    disqualified: tuple[str, ...]
    """Reason by episode; empty where there is none."""
    winner: int | None


class Smoked(Record):
    """kind `smoke`: the mechanical checks of a winner."""

    round: int
    attempt: int
    candidate: str | None
    check: str
    """The check that failed: `leak`, `claims`, `apply`, `hooks`, `episode`; empty where all passed."""
    fault: str = ""


class FlipsConfirmed(Record):
    """kind `flips`: the paired select table of a round, before and after each flip ran once more."""

    round: int
    base: str
    candidate: str
    n: int
    """Select tasks measured on both sides."""
    coverage: float
    fixed: tuple[str, ...]
    """Select ids, confirmed."""
    broken: tuple[str, ...]
    flaky: tuple[str, ...]
    """Flips that a second run did not confirm; reset to the outcome before."""
    infra: tuple[str, ...]
    """Flips whose second run gave nothing; reset too."""
    score_before: float | None
    """Mean over the tasks that were measured on both sides, as the one after it."""
    score_after: float | None
    hook_error_rate: float
    hooks_broken: bool
    label: str
    """EFFECTIVE, HARMFUL, MIXED, INERT, or `void` below the coverage floor."""


class PredictionScored(Record):
    """kind `prediction.scored`: what became of a kept edit's predicted fixes on train."""

    round: int
    """Of the edit."""
    outcomes: Mapping[str, str]
    """Train id to flipped, still_T, still_F, regressed, absent."""


class TraceMinimised(Record):
    """kind `attribution`: one minimised trace; the body lies in `blobs/`."""

    round: int
    task: str
    signature: str
    passed: bool
    keep: tuple[int, ...]
    commands: tuple[str, ...]
    cause: str
    replays: int
    discarded: bool = False
    """Nothing reproduced it."""
    spend: Spend = Spend()


class SignatureSeen(Record):
    """kind `ledger.signature`: the failures of one sweep that share a signature."""

    round: int
    signature: str
    tasks: tuple[str, ...]
    cause: str = "unknown"
    core: tuple[str, ...] = ()


class MethodEdited(Record):
    """kind `method.edited`: a meta-episode."""

    round: int
    origin: str
    target: str
    """Equal to `origin` where nothing was changed or kept."""
    proposal: EditProposal
    faults: tuple[str, ...] = ()
    """What the mechanical checks refused; the folder then stays as it was."""
    spend: Spend = Spend()
    """Of all submissions of the episode."""


class CardWritten(Record):
    """kind `card`: the report card of a round; facts, no advice."""

    round: int
    text: str


class CommandsReplayed(Record):
    """kind `replay`: commands run again outside the probe pool (attribution, meta-episodes)."""

    round: int
    key: str
    answer: str | None
    outputs: tuple[str, ...]
    exit_codes: tuple[int, ...]
    score: float | None
    spend: Spend = Spend()


class Finalist(Record):
    """One harness in the final selection."""

    round: int
    digest: str
    journaled: float | None
    fresh: float | None
    score: float | None
    """What the rule compares."""


class FinalSelected(Record):
    """kind `selected`."""

    finalists: tuple[Finalist, ...]
    final: str
    rule: str


class MethodAudited(Record):
    """kind `meta_audit`: the start method and the final one, each run for one round on the same head and seeds."""

    head: str
    start_method: str
    final_method: str
    start_gain: float | None
    """Mean paired select gain of the round's winner under the start method."""
    final_gain: float | None
    n: int
    difference: float | None
    interval: tuple[float, float] | None
    """95 %, paired over tasks."""
    sentence: str


AGENT_PAYLOADS: Mapping[str, type[Record]] = {
    "round.started": RoundStarted,
    "submission": Submitted,
    "probe": Evidence,
    "screen": Screened,
    "smoke": Smoked,
    "flips": FlipsConfirmed,
    "prediction.scored": PredictionScored,
    "attribution": TraceMinimised,
    "ledger.signature": SignatureSeen,
    "method.edited": MethodEdited,
    "card": CardWritten,
    "replay": CommandsReplayed,
    "selected": FinalSelected,
    "meta_audit": MethodAudited,
}
"""Kind of event to the record that its data validates against."""
