"""The claims C1 to C5 and C8, each by a rule that was fixed before any arm was run (spec §7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.stats import holm_adjusted, holm_divisors, paired_t_test, wilson_interval
from heldout.studies.gso.arms import BARE, FROM_RULES, PERSISTENT, RIVALS, Sizes
from heldout.studies.gso.beginnings import head_start
from heldout.studies.gso.ordering import order_missed
from heldout.studies.gso.summaries import (
    ArmRuns,
    Baselines,
    Known,
    Measure,
    audit,
    exact_audit,
    gains_of,
    known,
    over,
)
from heldout.studies.results import Claim, ClaimVerdict, Region

__all__ = ["ABOVE", "BELOW", "SAYS", "Lead", "ahead_of_all", "ahead_of_rules", "claim_of", "main_claims", "worst"]

SAYS: Mapping[str, str] = {
    "C1": "Persistent skills gain on train and lose a part of it on audit (Retention < 0).",
    "C2": "gso has the highest audit score.",
    "C3": "Its advantage over the start guide is positive (the paper does not show this).",
    "C4": "Removing the recovery lowers audit, but not below the persistent arms.",
    "C5": "Weight 2 admits fewer harmful edits than R > B.",
    "C6": "The gate's false-accept rate is that of the specification's table.",
    "C7": "A content judge orders finished artifacts better than it predicts single edits.",
    "C8": "At n = 40 audit tasks the true order of the arms is often missed.",
}

ABOVE, BELOW = Region(low=0.0), Region(high=0.0)
_OFTEN = Region(low=50.0)
"""Percent of the seeds."""

_ALPHA = 0.05

Arms = Mapping[str, ArmRuns]


@dataclass(frozen=True, slots=True)
class Lead:
    """How one arm stands against several others, paired over seeds, with Holm's correction."""

    differences: Mapping[str, Known]
    """The arm minus each other; the interval's confidence is what Holm's rule judges that one by."""
    p_values: Mapping[str, float]
    """Adjusted."""

    @property
    def smallest(self) -> str:
        """The other arm that comes closest, or is furthest ahead."""
        return min(self.differences, key=lambda name: self.differences[name].value)

    def verdict_over(self, name: str) -> ClaimVerdict:
        """Against one of the others, within the family of all."""
        if name not in self.differences or self.p_values[name] > _ALPHA:
            return ClaimVerdict.UNDECIDED
        return ABOVE.verdict((self.differences[name].value,) * 2)

    @property
    def verdict(self) -> ClaimVerdict:
        """Reproduced where the arm is significantly ahead of every other, not reproduced where one is of it."""
        sure = {name: self.p_values[name] <= _ALPHA for name in self.differences}
        if all(sure[name] and one.value > 0.0 for name, one in self.differences.items()):
            return ClaimVerdict.REPRODUCED
        behind = any(sure[name] and one.value < 0.0 for name, one in self.differences.items())
        return ClaimVerdict.NOT_REPRODUCED if behind else ClaimVerdict.UNDECIDED

    @property
    def beaten(self) -> int:
        """Others that the arm is significantly ahead of."""
        return sum(self.p_values[name] <= _ALPHA and one.value > 0.0 for name, one in self.differences.items())


def ahead_of_all(arms: Arms, name: str, others: Sequence[str], measure: Measure = audit) -> Lead:
    """Compare `name` with `others`, which must be among the arms; those without two seeds are not compared."""
    own = arms[name].values(measure)
    values = {other: arms[other].values(measure) for other in others}
    tests = {other: paired_t_test(given, own) for other, given in values.items()}
    p_values = {other: p for other, p in tests.items() if p is not None}
    divisors = dict(zip(p_values, holm_divisors(list(p_values.values()), alpha=_ALPHA), strict=True))
    return Lead(
        {other: known(own - values[other], confidence=1.0 - _ALPHA / divisors[other]) for other in p_values},
        dict(zip(p_values, holm_adjusted(list(p_values.values())), strict=True)),
    )


def main_claims(arms: Arms, none: Baselines, sizes: Sizes) -> tuple[Claim, ...]:
    """C1 to C5 and C8."""
    rivals = [name for name in RIVALS if name in arms]
    every = [name for name in arms if name not in ("gso", *BARE) and "one skill" not in name]
    begins = head_start(arms, _there(arms, PERSISTENT), which="the persistent arms of the paper on average")
    return (
        _retention(arms, none),
        _highest(arms, rivals, "every rival, the start guide among them", begins=f" {begins}"),
        _highest(arms, every, "every other arm, gso's own variants among them"),
        ahead_of_rules(arms, rivals, part="a"),
        _over_start(arms),
        _recovery(arms, _there(arms, tuple(BARE)), "persistent arms without a recovery too, as in the paper"),
        _recovery(arms, _there(arms, PERSISTENT), "persistent arms that keep their recovery"),
        _harmful(arms, rounds=sizes.rounds),
        _missed(arms, rivals, small=sizes.small),
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


def worst(*verdicts: ClaimVerdict) -> ClaimVerdict:
    """Of a claim that says several things."""
    order = (ClaimVerdict.NOT_REPRODUCED, ClaimVerdict.UNDECIDED, ClaimVerdict.REPRODUCED)
    return next(one for one in order if one in verdicts)


def _there(arms: Arms, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in arms]


def _seeds(arms: Arms) -> str:
    return f"paired over {len(next(iter(arms.values())).results)} seeds"


def _retention(arms: Arms, none: Baselines) -> Claim:
    """Of the mean over the persistent arms: a train gain above zero, and a retention below."""
    names = _there(arms, PERSISTENT)
    found = {name: gains_of(arms[name], none) for name in names}
    train = known(_mean([one.train for one in found.values()]))
    kept = known(_mean([one.retention for one in found.values()]), unit=2.0)
    exact = known(_mean([gains_of(arms[name], none, exact=True).retention for name in names]), unit=2.0)
    each = "; ".join(
        f"{name} {over(known(one.train))} and {over(known(one.retention, unit=2.0))}, exactly "
        f"{over(known(gains_of(arms[name], none, exact=True).retention, unit=2.0))}"
        for name, one in found.items()
    )
    sentence = (
        f"Mean of {len(names)} arms: train gain {over(train)} points, Retention {over(kept)}; by the exact rates "
        f"Retention is {over(exact)}. Arm by arm, train gain, Retention, and exact Retention: {each}."
    )
    verdict = worst(ABOVE.verdict(train.interval), BELOW.verdict(kept.interval))
    return claim_of(
        "C1", "a", verdict, f"Retention, points, mean of the persistent arms, {_seeds(arms)}", kept, sentence
    )


def _highest(arms: Arms, others: Sequence[str], which: str, begins: str = "") -> Claim:
    lead, exact = ahead_of_all(arms, "gso", others), ahead_of_all(arms, "gso", others, exact_audit)
    number = _number(lead)
    sentence = (
        f"Against {which}: significantly ahead of {lead.beaten} of {len(lead.differences)} (Holm); the closest, or "
        f"furthest ahead, is {lead.smallest}, from which gso differs by {over(number)} points (interval corrected). By "
        f"the exact rates: {exact.verdict.value}, {over(_number(exact))} against {exact.smallest}."
        if lead.differences
        else ""
    )
    rests_on = f"smallest difference of measured audit scores to {which}, points, {_seeds(arms)}, Holm"
    return claim_of("C2", "a", lead.verdict, rests_on, number, sentence + begins)


def ahead_of_rules(arms: Arms, rivals: Sequence[str], *, part: str) -> Claim:
    """C2 against the persistent skill that begins where gso begins, as one more member of the family of the rivals."""
    lead = ahead_of_all(arms, "gso", [*rivals, FROM_RULES])
    exact = known(arms["gso"].values(exact_audit) - arms[FROM_RULES].values(exact_audit))
    found = lead.differences.get(FROM_RULES, _number(Lead({}, {})))
    told = f"Holm-adjusted p {_p(lead.p_values[FROM_RULES])}" if FROM_RULES in lead.p_values else ""
    sentence = (
        "Against a persistent skill with the strict gate that begins with the start guide's own sentences, so that no "
        f"draft decides: gso differs by {over(found)} points ({told}); by the exact rates {over(exact)}. "
        f"{head_start(arms, [FROM_RULES], which='that skill')}"
    )
    rests_on = f"measured audit, gso minus `{FROM_RULES}`, points, {_seeds(arms)}, Holm with every rival"
    return claim_of("C2", part, lead.verdict_over(FROM_RULES), rests_on, found, sentence)


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _over_start(arms: Arms) -> Claim:
    found, exact = (
        known(arms["gso"].values(measure) - arms["start guide"].values(measure)) for measure in (audit, exact_audit)
    )
    sentence = f"Learning adds {over(found)} points to the start guide on audit; by the exact rates {over(exact)}."
    rests_on = f"measured audit, gso minus start guide, points, {_seeds(arms)}"
    return claim_of("C3", "a", ABOVE.verdict(found.interval), rests_on, found, sentence)


def _recovery(arms: Arms, others: Sequence[str], which: str) -> Claim:
    """Reproduced where both halves are: it lowers audit, and gso without it stays ahead of each of these arms."""
    lost = known(arms["gso"].values(audit) - arms["gso, no recovery"].values(audit))
    lead = ahead_of_all(arms, "gso, no recovery", others)
    number = _number(lead)
    exact = ahead_of_all(arms, "gso, no recovery", others, exact_audit)
    sentence = (
        f"Without its recovery gso loses {over(lost)} points on audit. Against {which} it is then significantly ahead "
        f"of {lead.beaten} of {len(lead.differences)} (Holm); the closest is {lead.smallest}, {over(number)}. By the "
        f"exact rates: {exact.verdict.value}."
        if lead.differences
        else ""
    )
    rests_on = f"smallest difference of gso without recovery to {which}, measured audit, points, {_seeds(arms)}, Holm"
    return claim_of("C4", "a", worst(ABOVE.verdict(lost.interval), lead.verdict), rests_on, number, sentence)


def _harmful(arms: Arms, *, rounds: int) -> Claim:
    """Harmful: the exact mean over the tasks that train tasks are drawn from falls. At most one edit a round."""
    counts = {name: arms[name].values(lambda one: float(one.edits.harmful)) for name in ("gso", "gso, R > B")}
    accepted = {name: arms[name].values(lambda one: float(one.edits.accepted)) for name in counts}
    number = known(counts["gso"] - counts["gso, R > B"], scale=1.0, unit=float(rounds))
    sentence = (
        f"Weight 2 admitted {counts['gso'].sum():.0f} harmful edits of {accepted['gso'].sum():.0f} accepted in "
        f"{len(counts['gso'])} runs, R > B {counts['gso, R > B'].sum():.0f} of {accepted['gso, R > B'].sum():.0f}."
    )
    rests_on = f"harmful accepted edits a run, gso minus R > B, {_seeds(arms)}"
    return claim_of("C5", "a", BELOW.verdict(number.interval), rests_on, number, sentence)


def _missed(arms: Arms, names: Sequence[str], *, small: int) -> Claim:
    """Often: in more than half of the seeds."""
    compared = {name: arms[name] for name in ("gso", *names)}
    few, many = order_missed(compared, first=small), order_missed(compared, first=None)
    low, high = wilson_interval(few.missed, few.seeds)
    number = Known(100.0 * few.missed / few.seeds, 100.0 * low, 100.0 * high, 0.0)
    sentence = (
        f"Of {few.seeds} seeds, {few.missed} show another order of {len(compared)} arms than the exact rates at n = "
        f"{small}, and {few.best_missed} another first arm; of the pairs of arms that truly differ "
        f"{100 * few.share:.0f} % are reversed or tied. With all audit tasks: {many.missed}, {many.best_missed} and "
        f"{100 * many.share:.0f} %."
    )
    rests_on = f"seeds in which the order of gso and its rivals is missed at n = {small}, %, Wilson interval"
    return claim_of("C8", "a", _OFTEN.verdict(number.interval), rests_on, number, sentence)


def _number(lead: Lead) -> Known:
    nothing = float("nan")
    return lead.differences[lead.smallest] if lead.differences else Known(nothing, nothing, nothing, nothing)


def _mean(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Over arms, seed by seed."""
    found: NDArray[np.float64] = np.mean(columns, axis=0)
    return found
