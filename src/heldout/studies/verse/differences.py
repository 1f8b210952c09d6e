"""What the arms differ by, paired over seeds, and the claims C1 to C5 that rest on it (spec §7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heldout.studies.results import Claim, ClaimVerdict, Region
from heldout.studies.tables import Cell, Table
from heldout.studies.verse.summaries import INTERACTION, ArmRuns, Known, contrast, known, true_gain, wrong_change

__all__ = ["AHEAD", "SAYS", "claim_of", "cost_claims", "difference_table", "main_claims", "signed"]

SAYS: Mapping[str, str] = {
    "C1": "Self-edit without verification gains no more than no self-edit.",
    "C2": "With verification, self-edit gains more (the interaction).",
    "C3": "The improver's wrong beliefs fall only in arms with verification.",
    "C4": "Random scheduling is worse than chosen probes.",
    "C5": "The select score of the winner overstates its audit.",
    "C6": "The order holds for ε in {0, 0.2, 0.4} and ν in {0, 0.15, 0.3}.",
}

AHEAD = Region(low=0.0)
_NO_MORE = Region(high=1.0)
"""Points within which a gain counts as none."""
_FALLS = Region(high=0.0)
_STAYS = Region(low=-1.0)

_SELF_EDIT = {"none, self-edit": 1.0, "none": -1.0}
_CHOSEN = {"full, self-edit": 1.0, "random schedule": -1.0}

_ROWS: Mapping[str, Mapping[str, float]] = {
    "self-edit, without verification (C1)": _SELF_EDIT,
    "self-edit, with run_episode": {"run_episode, self-edit": 1.0, "run_episode": -1.0},
    "self-edit, with full verification": {"full, self-edit": 1.0, "full": -1.0},
    "interaction, full over none (C2)": INTERACTION,
    "interaction, run_episode over none": {
        "run_episode, self-edit": 1.0,
        "run_episode": -1.0,
        "none, self-edit": -1.0,
        "none": 1.0,
    },
    "full verification, without self-edit": {"full": 1.0, "none": -1.0},
    "full verification, with self-edit": {"full, self-edit": 1.0, "none, self-edit": -1.0},
    "full over run_episode, with self-edit": {"full, self-edit": 1.0, "run_episode, self-edit": -1.0},
    "chosen over random schedule (C4)": _CHOSEN,
    "chosen over fixed schedule": {"full, self-edit": 1.0, "fixed schedule": -1.0},
    "attribution": {"full, self-edit": 1.0, "− attribution": -1.0},
    "ledger": {"full, self-edit": 1.0, "− ledger": -1.0},
}


def difference_table(arms: Mapping[str, ArmRuns], *, name: str, title: str) -> Table:
    """Every comparison that these arms allow."""
    rows: list[tuple[Cell, ...]] = []
    for says, weights in _ROWS.items():
        if weights.keys() <= arms.keys():
            exact, audited = (
                known(contrast(arms, weights, measure)) for measure in (true_gain, lambda one: one.audited)
            )
            rows.append(
                (says, exact.estimate, exact.low, exact.high, AHEAD.verdict(exact.interval).value, audited.estimate)
            )
    seeds = len(next(iter(arms.values())).results)
    return Table(
        name=name,
        title=title,
        note=(
            f"A simulation. Points, paired over {seeds} seeds; `low` and `high` are the 95 % t interval of the true "
            "gain, not corrected for the number of rows. `above zero`: *reproduced* with the whole interval above, "
            "*not reproduced* with all of it below."
        ),
        columns=("what it adds", "true gain", "low", "high", "above zero", "audited gain"),
        rows=tuple(rows),
    )


@dataclass(frozen=True, slots=True)
class _Both:
    """The same contrast on the claims' seeds and on the table's."""

    all: Known
    first: Known

    def told(self, region: Region) -> str:
        return f"On the table's own seeds alone {region.verdict(self.first.interval).value}: {_over(self.first)}."


def main_claims(many: Mapping[str, ArmRuns], table: Mapping[str, ArmRuns]) -> tuple[Claim, ...]:
    """C1 to C5. `many` are the arms that claims rest on, on more seeds; `table` those of the main table."""
    return (
        _no_more(many, table),
        _interaction(many, table),
        _beliefs(many),
        _chosen(many, table),
        _overstated(many, table),
    )


def cost_claims(arms: Mapping[str, ArmRuns]) -> tuple[Claim, ...]:
    """C1, C2 and C4 at equal total cost."""
    c1, c2, c4 = (known(contrast(arms, weights)) for weights in (_SELF_EDIT, INTERACTION, _CHOSEN))
    gain, both = _rests(arms, "true gain, points"), _rests(arms, "difference of differences, points")
    return (
        claim_of("C1", "b", _NO_MORE.verdict(c1.interval), gain, c1, f"At equal total cost: {_over(c1)}."),
        claim_of("C2", "b", AHEAD.verdict(c2.interval), both, c2, f"At equal total cost: {_over(c2)}."),
        claim_of("C4", "b", AHEAD.verdict(c4.interval), gain, c4, f"At equal total cost: {_over(c4)}."),
    )


def claim_of(name: str, part: str, verdict: ClaimVerdict, rests_on: str, number: Known, sentence: str) -> Claim:
    """A claim that rests on one estimate; undecided where there is none."""
    told = not np.isnan(number.value)
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


def _both(many: Mapping[str, ArmRuns], table: Mapping[str, ArmRuns], weights: Mapping[str, float]) -> _Both:
    return _Both(known(contrast(many, weights)), known(contrast(table, weights)))


def _rests(many: Mapping[str, ArmRuns], what: str) -> str:
    return f"{what}, paired over {len(next(iter(many.values())).results)} seeds"


def _no_more(many: Mapping[str, ArmRuns], table: Mapping[str, ArmRuns]) -> Claim:
    found = _both(many, table, _SELF_EDIT)
    sentence = (
        f"Without verification an improver that edits its method truly gains {_level(many, 'none, self-edit')} points, "
        f"and one that does not {_level(many, 'none')}; up to a point counts as no more. {found.told(_NO_MORE)}"
    )
    verdict = _NO_MORE.verdict(found.all.interval)
    return claim_of("C1", "a", verdict, _rests(many, "true gain, points"), found.all, sentence)


def _interaction(many: Mapping[str, ArmRuns], table: Mapping[str, ArmRuns]) -> Claim:
    found = _both(many, table, INTERACTION)
    with_it = known(contrast(many, {"full, self-edit": 1.0, "full": -1.0}))
    sentence = (
        f"With full verification self-edit adds {_over(with_it)} to {_level(many, 'full')} points. {found.told(AHEAD)}"
    )
    verdict = AHEAD.verdict(found.all.interval)
    return claim_of("C2", "a", verdict, _rests(many, "difference of differences, points"), found.all, sentence)


def _beliefs(many: Mapping[str, ArmRuns]) -> Claim:
    """Reproduced where they fall with full verification and do not fall by more than a point without any."""
    full, none = (many[name].known(wrong_change) for name in ("full, self-edit", "none, self-edit"))
    verdicts = {_FALLS.verdict(full.interval), _STAYS.verdict(none.interval)}
    worst = [ClaimVerdict.NOT_REPRODUCED, ClaimVerdict.UNDECIDED, ClaimVerdict.REPRODUCED]
    verdict = next(one for one in worst if one in verdicts)
    simple = many["run_episode, self-edit"].known(wrong_change)
    sentence = (
        f"The share of wrong beliefs changes by {_over(full)} points with full verification, by {_over(none)} without "
        f"any, and by {_over(simple)} with run_episode; arms without self-edit cannot change it."
    )
    rests_on = _rests(many, "change of the share of wrong beliefs, full, self-edit")
    return claim_of("C3", "a", verdict, rests_on, full, sentence)


def _chosen(many: Mapping[str, ArmRuns], table: Mapping[str, ArmRuns]) -> Claim:
    found = _both(many, table, _CHOSEN)
    sentence = (
        f"Chosen probes gain {_level(many, 'full, self-edit')} points, random ones {_level(many, 'random schedule')}. "
        f"{found.told(AHEAD)}"
    )
    verdict = AHEAD.verdict(found.all.interval)
    return claim_of("C4", "a", verdict, _rests(many, "true gain, points"), found.all, sentence)


def _overstated(many: Mapping[str, ArmRuns], table: Mapping[str, ArmRuns]) -> Claim:
    weights = dict.fromkeys(many, 1.0 / len(many))
    found = known(contrast(many, weights, lambda one: one.overstated))
    recorded = known(contrast(many, weights, lambda one: one.recorded_score - one.final_true))
    believed = known(contrast(table, dict.fromkeys(table, 1.0 / len(table)), lambda one: one.believed - one.true))
    sentence = (
        f"The score that the final was chosen by is {_over(found)} points above what its audit expects; the score that "
        f"its own round recorded, after confirmation, {_over(recorded)}. Over all arms of the table the believed gain "
        f"is {_over(believed)} above the true one."
    )
    verdict = AHEAD.verdict(found.interval)
    return claim_of("C5", "a", verdict, _rests(many, f"points, mean of {len(many)} arms"), found, sentence)


def _level(arms: Mapping[str, ArmRuns], name: str) -> str:
    return signed(arms[name].known(true_gain).value)


def _over(one: Known) -> str:
    return f"{signed(one.value)} ({signed(one.low)} to {signed(one.high)})"


def signed(value: float) -> str:
    """With its sign and one decimal."""
    return f"{value:+.1f}".replace("-", "−")
