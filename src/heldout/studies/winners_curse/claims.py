"""Claims C1 to C8 of section 7, judged on the simulated loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from heldout.stats import wilson_interval
from heldout.studies.results import Claim, ClaimVerdict, Region
from heldout.studies.tables import Estimate, mean_estimate
from heldout.studies.winners_curse.arms import STRICT_RULES
from heldout.studies.winners_curse.summaries import ArmRuns, rmse

__all__ = ["SAYS", "Evidence", "simulated_claims"]

SAYS: Mapping[str, str] = {
    "C1": "Inflation falls from 13–20 points at n = 16 to 1–5 at n = 256.",
    "C2": "Most rewrites after the first commit do not help (paper: 4–39 % do).",
    "C3": "The first commit's mean overstatement matches the noise model.",
    "C4": "Later commits overstate less than the fresh-set model says.",
    "C5": "No strict rule beats greedy over whole runs at equal cost.",
    "C6": "A 64-item audit removes the bias, with an RMSE of about √((p_d − δ²)/64).",
    "C7": "The gain grows with n in some worlds and not in others.",
    "C8": "From a strong start reported gains rise while true ones fall or stay flat.",
}
_MATCHES = 2.0
"""Points within which a measured mean counts as matching the model: the paper's mean over settings was off by 0.1,
and its single settings by several."""
_FLAT = 1.0
"""Points of growth that count as none."""
_RMSE_MARGIN = 0.1
"""Relative; `about` in C6."""
_NOBODY = Estimate(value=float("nan"), standard_error=float("nan"))


@dataclass(frozen=True, slots=True)
class Evidence:
    """The arms that claims rest on."""

    standard: Mapping[tuple[str, int], ArmRuns]
    """By rule and n."""
    strong: Mapping[int, ArmRuns]
    """Greedy from a strong start, by n."""
    plain: Mapping[int, ArmRuns]
    """Greedy where there is no choice to make well, by n."""

    @property
    def sizes(self) -> list[int]:
        return sorted(self.strong)

    @property
    def greedy(self) -> dict[int, ArmRuns]:
        return {n: self.standard["greedy", n] for n in self.sizes}


def simulated_claims(evidence: Evidence) -> tuple[Claim, ...]:
    """One claim each, in order."""
    return (
        _inflation_falls(evidence),
        _most_do_not_help(evidence),
        _first_matches(evidence),
        _later_overstate_less(evidence),
        _no_strict_rule_wins(evidence),
        _audit_is_unbiased(evidence),
        _growth_differs(evidence),
        _strong_start(evidence),
    )


def _claim(
    name: str, verdict: ClaimVerdict, rests_on: str, number: float, interval: tuple[float, float], sentence: str
) -> Claim:
    known = math.isfinite(number) and all(math.isfinite(end) for end in interval)
    return Claim(
        id=name,
        part="b",
        says=SAYS[name],
        verdict=verdict if known else ClaimVerdict.UNDECIDED,
        rests_on=rests_on,
        number=number if known else None,
        interval=interval if known else None,
        sentence=sentence if known else "Too few runs to say.",
    )


def _inflation_falls(evidence: Evidence) -> Claim:
    small, large = evidence.sizes[0], evidence.sizes[-1]
    first, last = (evidence.greedy[n].inflation or _NOBODY for n in (small, large))
    drop = first.minus(last)
    verdict = Region(low=0.0).verdict(drop.interval)
    in_range = 13.0 <= first.value <= 20.0 and 1.0 <= last.value <= 5.0
    if large != 256 or (verdict is ClaimVerdict.REPRODUCED and not in_range):
        verdict = ClaimVerdict.UNDECIDED
    sentence = (
        f"Greedy ends {first.value:.1f} points above the truth at n = {small} and {last.value:.1f} at n = {large}"
    )
    sentence += ", both within the paper's ranges." if in_range else "; the paper's ranges are for n = 16 and n = 256."
    return _claim("C1", verdict, f"inflation at n = {small} minus n = {large}", drop.value, drop.interval, sentence)


def _most_do_not_help(evidence: Evidence) -> Claim:
    runs = [run for arm in evidence.greedy.values() for run in arm.runs]
    helpful, total = sum(run.later_helpful for run in runs), sum(run.later_rewrites for run in runs)
    low, high = wilson_interval(helpful, total)
    verdict = Region(high=50.0).verdict((100 * low, 100 * high))
    sentence = (
        f"{helpful:,} of {total:,} later rewrites are truly better than their incumbent; the simulation was built so "
        f"(4.8 % expected), so that this checks it, not the world."
    )
    share = 100 * helpful / total if total else math.nan
    return _claim("C2", verdict, "percent of later rewrites that help", share, (100 * low, 100 * high), sentence)


def _first_matches(evidence: Evidence) -> Claim:
    difference = _against_model(evidence.greedy[evidence.sizes[0]], first=True)
    verdict = Region(low=-_MATCHES, high=_MATCHES).verdict(difference.interval)
    arm = evidence.greedy[evidence.sizes[0]]
    measured = (arm.overstatement(first=True) or _NOBODY).value
    sentence = (
        f"First greedy commits at n = {arm.arm.n} overstate by {measured:.1f} points on average, and the model says "
        f"{measured - difference.value:.1f}; within ±{_MATCHES:g} counts as a match."
    )
    return _claim("C3", verdict, "overstatement minus model, points", difference.value, difference.interval, sentence)


def _later_overstate_less(evidence: Evidence) -> Claim:
    arm = evidence.greedy[evidence.sizes[0]]
    difference = _against_model(arm, first=False)
    verdict = Region(high=0.0).verdict(difference.interval)
    measured = (arm.overstatement(first=False) or _NOBODY).value
    sentence = (
        f"Later greedy commits at n = {arm.arm.n} overstate by {measured:.1f} points, a fresh set would give "
        f"{measured - difference.value:.1f}: the incumbent's own luck is subtracted (lock-in)."
    )
    return _claim("C4", verdict, "overstatement minus fresh-set model", difference.value, difference.interval, sentence)


def _against_model(arm: ArmRuns, *, first: bool) -> Estimate:
    measured, model = arm.overstatement(first=first), arm.model(first=first)
    return _NOBODY if measured is None or model is None else measured.minus(model)


def _no_strict_rule_wins(evidence: Evidence) -> Claim:
    """Paired by seed; the interval of the largest difference is Bonferroni-corrected for the number of comparisons."""
    gains = {
        (rule, n): mean_estimate(evidence.standard[rule, n].gains - evidence.greedy[n].gains)
        for rule in STRICT_RULES
        for n in evidence.sizes
    }
    known = {key: gain for key, gain in gains.items() if gain is not None and gain.standard_error > 0.0}
    if not known:
        return _claim("C5", ClaimVerdict.UNDECIDED, "", math.nan, (math.nan, math.nan), "")
    z = NormalDist().inv_cdf(1.0 - 0.025 / len(gains))
    ends = {
        key: (gain.value - z * gain.standard_error, gain.value + z * gain.standard_error) for key, gain in known.items()
    }
    best = max(known, key=lambda key: ends[key][0])
    winners = [f"{rule} at n = {n}" for (rule, n), (low, _) in ends.items() if low > 0.0]
    losers = [f"{rule} at n = {n}" for (rule, n), (_, high) in ends.items() if high < 0.0]
    verdict = ClaimVerdict.UNDECIDED
    if winners:
        verdict = ClaimVerdict.NOT_REPRODUCED
    elif all(high <= _FLAT for _, high in ends.values()):
        verdict = ClaimVerdict.REPRODUCED
    found = f"ahead of greedy: {', '.join(winners)}" if winners else "no strict rule is ahead of greedy for sure"
    behind = f"; behind it: {', '.join(losers)}" if losers else ""
    sentence = (
        f"On the same items and rewrites, {found}{behind}. Known beforehand for n = 16: a useful first step is large "
        "and "
        f"common here, and the paper's real loops said otherwise."
    )
    rests_on = f"largest lower end of true gain over greedy: {best[0]}, n = {best[1]} (of {len(gains)}, Bonferroni)"
    return _claim("C5", verdict, rests_on, known[best].value, ends[best], sentence)


def _audit_is_unbiased(evidence: Evidence) -> Claim:
    large = evidence.greedy[evidence.sizes[-1]]
    errors = np.concatenate([arm.audit_errors for arm in evidence.greedy.values()])
    bias = mean_estimate(errors) or _NOBODY
    found = rmse(errors)
    expected = ArmRuns(large.arm, tuple(run for arm in evidence.greedy.values() for run in arm.runs)).audit_formula
    ratio = Estimate(value=found.value / expected, standard_error=found.standard_error / expected)
    verdicts = {
        Region(low=1.0 - _RMSE_MARGIN, high=1.0 + _RMSE_MARGIN).verdict(ratio.interval),
        Region(low=-_FLAT, high=_FLAT).verdict(bias.interval),
    }
    worst = [ClaimVerdict.NOT_REPRODUCED, ClaimVerdict.UNDECIDED, ClaimVerdict.REPRODUCED]
    verdict = next(one for one in worst if one in verdicts)
    more = large.rmse_audit.value > large.rmse_reported.value
    sentence = (
        f"Bias {bias.value:+.1f} ± {bias.standard_error:.1f} points, RMSE {found.value:.1f} where the formula says "
        f"{expected:.1f}; at n = {large.arm.n} the audit's error ({large.rmse_audit.value:.1f}) is "
        f"{'larger' if more else 'smaller'} than the report's own ({large.rmse_reported.value:.1f})."
    )
    return _claim("C6", verdict, "RMSE over its formula, greedy, all n", ratio.value, ratio.interval, sentence)


def _growth_differs(evidence: Evidence) -> Claim:
    """Reproduced where the standard world grows for sure and the plain one by less than a point for sure."""
    grows, flat = (_growth(arms) for arms in (evidence.greedy, evidence.plain))
    verdicts = (Region(low=0.0).verdict(grows.interval), Region(low=-_FLAT, high=_FLAT).verdict(flat.interval))
    verdict = verdicts[0] if verdicts[0] is verdicts[1] else ClaimVerdict.UNDECIDED
    small, large = evidence.sizes[0], evidence.sizes[-1]
    sentence = (
        f"From n = {small} to n = {large} greedy's true gain changes by {grows.value:+.1f} points where later "
        "rewrites harm, "
        f"and by {flat.value:+.1f} ± {flat.standard_error:.1f} where there is no choice to make well."
    )
    return _claim("C7", verdict, "growth of the true gain, standard world", grows.value, grows.interval, sentence)


def _growth(arms: Mapping[int, ArmRuns]) -> Estimate:
    first, last = (arms[n].gain or _NOBODY for n in (min(arms), max(arms)))
    return last.minus(first)


def _strong_start(evidence: Evidence) -> Claim:
    n = evidence.sizes[0]
    arm = evidence.strong[n]
    reported, gain = arm.reported or _NOBODY, arm.gain or _NOBODY
    rises, falls = Region(low=0.0).verdict(reported.interval), Region(high=_FLAT).verdict(gain.interval)
    verdict = rises if rises is falls else ClaimVerdict.UNDECIDED
    if ClaimVerdict.NOT_REPRODUCED in (rises, falls):
        verdict = ClaimVerdict.NOT_REPRODUCED
    sentence = (
        f"Greedy at n = {n} from a start of {100 * arm.arm.world.start:.0f} %, with the useful first step behind it, "
        f"reports {reported.value:+.1f} points and truly moves by {gain.value:+.1f}."
    )
    return _claim("C8", verdict, f"true gain from the strong start, n = {n}", gain.value, gain.interval, sentence)
