"""The claims C1 to C8, each by a rule that was fixed before any arm was run (spec §7), but for the unit of C4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from heldout.studies.gso.claims import ABOVE, Lead, worst
from heldout.studies.improve_any_task.arms import (
    AS_DIAGNOSED,
    FIXED,
    FULL,
    MIXTURE,
    NO_PREFLIGHT,
    RANDOM_FOCAL,
    RANDOM_STRATEGY,
    RANDOM_UNCHECKED,
    WITHOUT_START,
)
from heldout.studies.improve_any_task.forgetting import forgetting_claim
from heldout.studies.improve_any_task.leads import (
    ALPHA,
    by_start,
    difference,
    exact_audit,
    lead_of,
    others_of,
    seeds_of,
)
from heldout.studies.improve_any_task.plans import STARTS, Start
from heldout.studies.improve_any_task.runs import Result
from heldout.studies.improve_any_task.saying import claim_of
from heldout.studies.improve_any_task.summaries import Arms, Known, both_starts, known, over, share
from heldout.studies.improve_any_task.without_start import below_claim
from heldout.studies.results import Claim, ClaimVerdict, Region

__all__ = ["MENDED", "OFTEN", "ablation_claims", "claims_of", "path_of"]

OFTEN = Region(low=50.0)
"""Percent of the seeds: most of them."""

MENDED = (
    "The unit was mended after the first results, which had counted the runs of a seed from several starts as "
    "independent."
)
"""Of C4, for the page: the only rule that changed once results were seen."""

_MODULES = (RANDOM_FOCAL, RANDOM_STRATEGY, NO_PREFLIGHT)
"""The arms that lack one module: a family of comparisons."""


@dataclass(frozen=True, slots=True)
class _Half:
    """One of two things that a claim asks for."""

    verdict: ClaimVerdict
    number: Known
    rests_on: str


def _decided(name: str, part: str, halves: tuple[_Half, _Half], sentence: str) -> Claim:
    """A claim that asks for both rests on the half with the worst verdict, of equal ones on the first."""
    verdict = worst(*(one.verdict for one in halves))
    at = next(at for at, one in enumerate(halves) if one.verdict is verdict)
    rests_on = f"the {('first', 'second')[at]} half, which decides: {halves[at].rests_on}"
    return claim_of(name, part, verdict, rests_on, halves[at].number, sentence)


def claims_of(arms: Arms, part: str) -> tuple[Claim, ...]:
    """Those whose arms were run."""
    there = set.intersection(*(set(arms[start]) for start in _starts(arms)))
    found = [*ablation_claims(arms, part, there), _changes(arms, part)]
    if FIXED in there:
        found.append(_stalls(arms, part, there))
    if WITHOUT_START in there:
        found.append(below_claim(arms, part))
    if AS_DIAGNOSED in there:
        found.append(_overstates(arms, part))
    return (*found, forgetting_claim(arms, part))


def _starts(arms: Arms) -> list[Start]:
    return [start for start in STARTS if start in arms]


def ablation_claims(arms: Arms, part: str, there: Iterable[str]) -> list[Claim]:
    """C1 to C3: full against the arms that lack one module, one family by Holm's rule."""
    others = [name for name in _MODULES if name in there]
    lead, exact = lead_of(arms, others), lead_of(arms, others, exact_audit)
    made = []
    for name, other in (("C1", RANDOM_FOCAL), ("C2", RANDOM_STRATEGY)):
        if other in others:
            sentence = f"Full differs from `{other}` by {_told(arms, lead, exact, other)}"
            rests_on = f"audited score, full minus `{other}`, points, {seeds_of(arms)}, Holm over {len(others)}"
            made.append(claim_of(name, part, lead.verdict_over(other), rests_on, _number(lead, other), sentence))
    if NO_PREFLIGHT in others:
        made.append(_preflight(arms, part, lead, exact, unchecked=RANDOM_UNCHECKED in there))
    return made


def _preflight(arms: Arms, part: str, lead: Lead, exact: Lead, *, unchecked: bool) -> Claim:
    """Both halves: it loses, and more of its spend is wasted."""
    wasted = difference(arms, NO_PREFLIGHT, FULL, _wasted)
    sentence = (
        f"Full differs from `{NO_PREFLIGHT}` by {_told(arms, lead, exact, NO_PREFLIGHT)} Without preflight the share "
        f"of wasted spend is higher by {over(wasted)} points; the claim asks for both."
    )
    if unchecked:
        random = difference(arms, RANDOM_STRATEGY, RANDOM_UNCHECKED)
        more = difference(arms, RANDOM_UNCHECKED, RANDOM_STRATEGY, _wasted)
        sentence += (
            f" Where strategies are drawn at random, so that bad ones are tried, preflight is worth {over(random)} "
            f"points of audit, and the wasted share without it is higher by {over(more)}."
        )
    loses = _Half(
        lead.verdict_over(NO_PREFLIGHT),
        _number(lead, NO_PREFLIGHT),
        f"audited score, full minus `{NO_PREFLIGHT}`, points, {seeds_of(arms)}, Holm with C1 and C2",
    )
    wastes = _Half(
        ABOVE.verdict(wasted.interval),
        wasted,
        f"share of wasted spend, `{NO_PREFLIGHT}` minus full, points, {seeds_of(arms)}",
    )
    return _decided("C3", part, (loses, wastes), sentence)


def _wasted(one: Result) -> float:
    return one.trail.wasted_share


def _told(arms: Arms, lead: Lead, exact: Lead, other: str) -> str:
    """The difference, the exact one where it is known, and from each start."""
    if other not in lead.differences:
        return "what fewer than two seeds cannot tell."
    told = f"{over(lead.differences[other])} points on audit (interval corrected, p {lead.p_values[other]:.3f})"
    if other in exact.differences:
        told += f", exactly {over(exact.differences[other])}"
    return f"{told}; {by_start(arms, FULL, other)}."


def _number(lead: Lead, other: str) -> Known:
    """NaN with fewer than two seeds."""
    nothing = float("nan")
    return lead.differences.get(other, Known(nothing, nothing, nothing, nothing))


def _changes(arms: Arms, part: str) -> Claim:
    """C4. Runs of a seed share it from every start, so that seeds are the unit and not runs."""
    starts = _starts(arms)
    runs = [arms[start][FULL].results for start in starts]
    both = [all(one.trail.changes for one in of_a_seed) for of_a_seed in zip(*runs, strict=True)]
    number = share(sum(both), len(both))
    changed, total = sum(one.trail.changes for given in runs for one in given), sum(map(len, runs))
    paths = "; ".join(f"{start}: {_commonest(arms[start][FULL].results)}" for start in starts)
    sentence = (
        f"In {sum(both)} of {len(both)} seeds it changes in the runs of full from every start ({changed} of {total} "
        f"runs). The commonest path, {paths}. {MENDED}"
    )
    rests_on = "seeds in which the dominant error changes in the runs of full from every start, %, Wilson interval"
    return claim_of("C4", part, OFTEN.verdict(number.interval), rests_on, number, sentence)


def path_of(one: Result) -> str:
    """The dominant errors of its rounds, what stays the same once."""
    return " → ".join(name for name, _ in groupby(one.trail.dominant))


def _commonest(runs: Iterable[Result]) -> str:
    """All of them where several are equally common; none where no two runs share one."""
    paths = Counter(path_of(one) for one in runs)
    most = max(paths.values())
    if most == 1:
        return f"no path occurs twice in {paths.total()} runs"
    tied = sorted(path for path, count in paths.items() if count == most)
    return f"{' and '.join(tied)} ({most} of {paths.total()}{' each' if len(tied) > 1 else ''})"


def _stalls(arms: Arms, part: str, there: Iterable[str]) -> Claim:
    """C5, both halves: full ends above it, and after its first acceptance it gains less than half of what full does."""
    lead = difference(arms, FULL, FIXED)
    later = {name: both_starts(arms, name, lambda one: one.later_gain) for name in (FULL, FIXED)}
    short = known(0.5 * later[FULL] - later[FIXED])
    sentence = (
        f"Full ends {over(lead)} points above it on audit ({by_start(arms, FULL, FIXED)}). After the first acceptance "
        f"the fixed recipe gains {over(known(later[FIXED]))} more, full {over(known(later[FULL]))}; the claim asks for "
        f"both, and for less than half of it (half of full's minus its own: {over(short)})."
    )
    if MIXTURE in there:
        sentence += f" {_mixture(arms)}"
    above = _Half(ABOVE.verdict(lead.interval), lead, f"audited score, full minus `{FIXED}`, points, {seeds_of(arms)}")
    stalls = _Half(
        ABOVE.verdict(short.interval),
        short,
        f"audited gain after the first acceptance, half of full's minus that of `{FIXED}`, points, {seeds_of(arms)}",
    )
    return _decided("C5", part, (above, stalls), sentence)


def _mixture(arms: Arms) -> str:
    """Which of the two is ahead, said whichever it is; one wins only by Holm's rule over all rows of the table."""
    lead, others = difference(arms, MIXTURE, FULL), others_of(arms)
    p = lead_of(arms, others).p_values.get(MIXTURE)
    sure = p is not None and p < ALPHA
    if lead.low > 0.0:
        said = "wins in this world: it is ahead of full" if sure else "is ahead of full"
    elif lead.high < 0.0:
        said = "does not win here: it is behind full"
    else:
        said = "is not told apart from full: it differs"
    told = "no p" if p is None else f"p after Holm over all {len(others)} rows {p:.3f}"
    return (
        f"Training on all data at once {said} by {over(lead)} points (plain interval; {told}; "
        f"{by_start(arms, MIXTURE, FULL)})."
    )


def _overstates(arms: Arms, part: str) -> Claim:
    """C7."""
    more = difference(arms, AS_DIAGNOSED, FULL, _overstatement, unit=2.0)
    own: Mapping[str, Known] = {
        name: known(both_starts(arms, name, _overstatement), unit=2.0) for name in (AS_DIAGNOSED, FULL)
    }
    sentence = (
        f"Deciding on the tasks that are diagnosed overstates by {over(own[AS_DIAGNOSED])} points, deciding on others "
        f"by {over(own[FULL])}; {by_start(arms, AS_DIAGNOSED, FULL, _overstatement, unit=2.0)}."
    )
    rests_on = f"gain on the deciding tasks minus audited gain, `{AS_DIAGNOSED}` minus full, points, {seeds_of(arms)}"
    return claim_of("C7", part, ABOVE.verdict(more.interval), rests_on, more, sentence)


def _overstatement(one: Result) -> float:
    return one.overstatement
