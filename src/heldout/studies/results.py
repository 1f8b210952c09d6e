"""What a study's parts leave behind: tables, plots, claims with verdicts, and how they were made."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from heldout.records import Record
from heldout.studies.plots import Plot
from heldout.studies.scatter import Scatter
from heldout.studies.tables import Table

__all__ = ["Claim", "ClaimVerdict", "Part", "Provenance", "Region"]

_INF = float("inf")


class ClaimVerdict(StrEnum):
    """What the numbers say of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    UNDECIDED = "undecided"


class Region(Record):
    """The values for which a claim holds, ends included."""

    low: float = -_INF
    high: float = _INF

    def verdict(self, interval: tuple[float, float]) -> ClaimVerdict:
        """Reproduced with the whole interval inside, not reproduced with all of it outside, else undecided."""
        low, high = interval
        if self.low <= low and high <= self.high:
            return ClaimVerdict.REPRODUCED
        if high < self.low or low > self.high:
            return ClaimVerdict.NOT_REPRODUCED
        return ClaimVerdict.UNDECIDED


class Claim(Record):
    """One claim of the paper, judged on one part of the study."""

    id: str
    part: str
    says: str
    """The claim in the paper's terms."""
    verdict: ClaimVerdict
    rests_on: str
    """What the number is."""
    number: float | None
    interval: tuple[float, float] | None
    """95 %, corrected for the number of comparisons where the sentence says so."""
    sentence: str
    """Why, in one sentence."""


class Part(Record):
    """One part of a study; equal settings give equal parts."""

    id: str
    title: str
    simulated: bool
    quick: bool
    intro: str
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...] = ()
    plots: tuple[Plot | Scatter, ...] = ()
    seeds: int = 0
    config_digests: Mapping[str, str] = {}
    """Of the runs behind it, by name; where none was made, of the files."""


class Provenance(Record):
    """How a part was made; the only place that holds run times."""

    command: str
    heldout: str
    python: str
    numpy: str
    cores: int
    runtime_s: float
    quick: bool
    seeds: int
    digest: str
    """Of the part's content."""
    config_digests: Mapping[str, str] = {}
