"""What loops over agents are told beyond the common config: the table `options` of a run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from heldout.records import Record

__all__ = [
    "AttributeOptions",
    "FinalOptions",
    "MethodOptions",
    "ProbeOptions",
    "ScreenOptions",
    "SelectOptions",
    "SmokeOptions",
    "VerseOptions",
]


class MethodOptions(Record):
    """The improver's own folder."""

    self_edit: bool = True
    """Whether the improver edits its own method after each round."""
    start: str | None = None
    """Folder that its method begins with; None takes the improver's own."""
    attempts: int = Field(default=2, ge=1, le=8)
    """Submissions in one meta-episode, faults told in between."""
    audit: bool = True
    """At the end, run one round under the start method and one under the final method, on the same head and seeds."""


class ProbeOptions(Record):
    """Experiments that an improver may ask for."""

    verify: Literal["none", "run_episode", "full"] = "full"
    """`none`: no probes. `run_episode`: plain runs of a draft only (simple verification). `full`: all five."""
    units: int = Field(default=8, ge=0, le=1000)
    """Units for each of a round's proposals."""
    wall_s: float = Field(default=3600.0, gt=0.0)
    """Elapsed seconds in which an episode may begin probes."""
    share: Literal["pool", "equal"] = "pool"
    """`pool`: one pool for all episodes of a round. `equal`: each has its own part."""
    schedule: Literal["chosen", "random", "fixed"] = "chosen"
    """Who decides what is probed: the improver, chance, or a fixed rule; the budget is the same."""
    on: Literal["base", "head"] = "base"
    """What drafts with a `base_round` are tried on."""


class AttributeOptions(Record):
    """The trace minimiser, before each round's proposals; it runs only where `probe.verify = "full"`."""

    failures: int = Field(default=6, ge=0, le=100)
    """Failing traces that are minimised."""
    successes: int = Field(default=2, ge=0, le=100)
    """Passing traces that are minimised."""
    wall_s: float = Field(default=2400.0, gt=0.0)
    """Elapsed seconds in which replays may begin."""
    ledger: bool = True
    """Show the improver the failure ledger (signatures over rounds)."""


class ScreenOptions(Record):
    """The shared train subset on which a round's proposals compete."""

    tasks: int = Field(default=12, ge=1, le=1000)
    """Tasks of a screen, canaries included."""
    canaries: int = Field(default=2, ge=0, le=100)
    """Tasks that pass now, drawn in a seeded rotation."""
    rerun_base: bool = False
    """Measure the base anew on the screen, and the proposals at its new seeds, instead of taking recorded outcomes."""


class SmokeOptions(Record):
    """The mechanical checks of a round's winner."""

    attempts: int = Field(default=3, ge=1, le=10)
    """Checks in all; after each failure but the last, the improver may repair."""
    turns: int = Field(default=8, ge=1, le=100)
    """Turns of the trial episode."""
    leak_check: bool = True
    """Refuse edits that name a task or quote a reference solution (13 words)."""


class SelectOptions(Record):
    """The validation sweep of a round."""

    coverage: float = Field(default=0.8, ge=0.0, le=1.0)
    """Share of select tasks measured before and after; below it the round is void."""
    confirm_flips: bool = True
    """Run each flipped task once more; a flip that is not confirmed is reset to the outcome before."""
    hook_errors: float = Field(default=0.5, ge=0.0, le=1.0)
    """Share of hook calls that failed, above which a harness is never selected."""
    retries: int = Field(default=4, ge=0, le=20)
    """Further attempts at tasks that could not be measured."""
    retry_wait_s: float = Field(default=30.0, ge=0.0)
    """Wait before the second further attempt; it doubles after that, and the first comes at once."""


class FinalOptions(Record):
    """The final selection."""

    top: int = Field(default=2, ge=1, le=100)
    """Kept rounds that are measured anew, by their select score."""
    keep_start: bool = True
    """The start is always a finalist; False lets it compete by its select score only."""
    score: Literal["fresh", "mean"] = "fresh"
    """What finalists are compared by: the fresh sweep, or its mean with the recorded score."""
    ties: Literal["earlier", "later"] = "earlier"
    """Which of equal finalists is taken."""


class VerseOptions(Record):
    """`options` of the loop `verse` (arXiv 2610.02616)."""

    evidence: str = "digest"
    """How traces are shown: `pull`, `digest`, `clusters`, or `package.module:Class`."""
    method: MethodOptions = MethodOptions()
    """The improver's own folder."""
    probe: ProbeOptions = ProbeOptions()
    """Experiments."""
    attribute: AttributeOptions = AttributeOptions()
    """Trace minimiser and failure ledger."""
    screen: ScreenOptions = ScreenOptions()
    """Screening of proposals."""
    smoke: SmokeOptions = SmokeOptions()
    """Mechanical checks."""
    select: SelectOptions = SelectOptions()
    """Validation sweep."""
    final: FinalOptions = FinalOptions()
    """Final selection."""
