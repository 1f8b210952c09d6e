"""What the claims say, and how one is put on record."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from heldout.studies.improve_any_task.summaries import Known
from heldout.studies.results import Claim, ClaimVerdict

__all__ = ["SAYS", "claim_of"]

SAYS: Mapping[str, str] = {
    "C1": "Full beats a focal problem at random.",
    "C2": "Full beats a strategy at random.",
    "C3": "Without preflight the loop loses, through wasted budget.",
    "C4": "The dominant error changes at least once in most runs.",
    "C5": "A fixed recipe stalls.",
    "C6": "A final without the start is sometimes below the start; with it never on select.",
    "C7": "Deciding on the tasks that are diagnosed overstates more.",
    "C8": "Some other skill falls in at least one arm.",
}


def claim_of(name: str, part: str, verdict: ClaimVerdict, rests_on: str, number: Known, sentence: str) -> Claim:
    """A claim that rests on one number; undecided where there is none."""
    told = not np.isnan(number.low)
    return Claim(
        id=name,
        part=part,
        says=SAYS[name],
        verdict=verdict if told else ClaimVerdict.UNDECIDED,
        rests_on=rests_on,
        number=number.value if told else None,
        interval=number.interval if told else None,
        sentence=sentence if told else "Too few seeds to say.",
    )
