"""The claims C1 to C8, each by a rule that was fixed before any arm was run (spec §7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby

from heldout.studies.gso.claims import ABOVE, Lead, worst
from heldout.studies.improve_any_task.arms import (
    AS_DIAGNOSED,
    FIXED,
    FULL,
    HARMFUL,
    MIXTURE,
    NO_PREFLIGHT,
    RANDOM_FOCAL,
    RANDOM_STRATEGY,
    RANDOM_UNCHECKED,
    WITHOUT_START,
)
from heldout.studies.improve_any_task.forgetting import forgetting_claim
from heldout.studies.improve_any_task.leads import by_start, difference, exact_audit, lead_of, seeds_of
from heldout.studies.improve_any_task.plans import STARTS, Start
from heldout.studies.improve_any_task.runs import Result
from heldout.studies.improve_any_task.saying import claim_of
from heldout.studies.improve_any_task.summaries import Arms, Known, both_starts, known, over, share
from heldout.studies.results import Claim, ClaimVerdict, Region

__all__ = ["OFTEN", "SOMETIMES", "ablation_claims", "below_start", "claims_of", "path_of"]

OFTEN = Region(low=50.0)
"""Percent of the runs: most of them."""

SOMETIMES = Region(low=1.0)
"""Percent of the runs: more than one in a hundred."""

_MODULES = (RANDOM_FOCAL, RANDOM_STRATEGY, NO_PREFLIGHT)
"""The arms that lack one module: a family of comparisons."""


def claims_of(arms: Arms, part: str) -> tuple[Claim, ...]:
    """Those whose arms were run."""
    there = set.intersection(*(set(arms[start]) for start in _starts(arms)))
    found = [*ablation_claims(arms, part, there), _changes(arms, part)]
    if FIXED in there:
        found.append(_stalls(arms, part, there))
    if WITHOUT_START in there:
        found.append(_below(arms, part))
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
    verdict = worst(lead.verdict_over(NO_PREFLIGHT), ABOVE.verdict(wasted.interval))
    rests_on = f"audited score, full minus `{NO_PREFLIGHT}`, points, {seeds_of(arms)}, Holm with C1 and C2"
    return claim_of("C3", part, verdict, rests_on, _number(lead, NO_PREFLIGHT), sentence)


def _wasted(one: Result) -> float:
    return one.trail.wasted_share


def _told(arms: Arms, lead: Lead, exact: Lead, other: str) -> str:
    """The difference, the exact one where it is known, and from each start."""
    if other not in lead.differences:
        return "nothing in any seed."
    told = f"{over(lead.differences[other])} points on audit (interval corrected, p {lead.p_values[other]:.3f})"
    if other in exact.differences:
        told += f", exactly {over(exact.differences[other])}"
    return f"{told}; {by_start(arms, FULL, other)}."


def _number(lead: Lead, other: str) -> Known:
    """0 by identity where nothing differs in any seed."""
    return lead.differences.get(other, Known(0.0, 0.0, 0.0, 0.0))


def _changes(arms: Arms, part: str) -> Claim:
    """C4, over the runs of full from every start."""
    runs = [one for start in _starts(arms) for one in arms[start][FULL].results]
    changed = sum(one.trail.changes for one in runs)
    number = share(changed, len(runs))
    paths = "; ".join(f"{start}: {_commonest(arms[start][FULL].results)}" for start in _starts(arms))
    sentence = f"In {changed} of {len(runs)} runs of full. The commonest path, {paths}."
    rests_on = "runs of full in which the dominant error changes, %, Wilson interval"
    return claim_of("C4", part, OFTEN.verdict(number.interval), rests_on, number, sentence)


def path_of(one: Result) -> str:
    """The dominant errors of its rounds, what stays the same once."""
    return " → ".join(name for name, _ in groupby(one.trail.dominant))


def _commonest(runs: Iterable[Result]) -> str:
    paths = Counter(path_of(one) for one in runs)
    path, count = min(paths.items(), key=lambda one: (-one[1], one[0]))
    return f"{path} ({count} of {paths.total()})"


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
    verdict = worst(ABOVE.verdict(lead.interval), ABOVE.verdict(short.interval))
    rests_on = f"audited score, full minus `{FIXED}`, points, {seeds_of(arms)}"
    return claim_of("C5", part, verdict, rests_on, lead, sentence)


def _mixture(arms: Arms) -> str:
    """Which of the two wins, said whichever it is."""
    lead = difference(arms, MIXTURE, FULL)
    if lead.low > 0.0:
        said = "Training on all data at once wins in this world: it ends above full"
    elif lead.high < 0.0:
        said = "Training on all data at once does not win here: it ends below full"
    else:
        said = "Training on all data at once is not told apart from full"
    return f"{said}, by {over(lead)} points ({by_start(arms, MIXTURE, FULL)})."


def below_start(one: Result) -> bool:
    """Whether the final is worse than the start on audit: exactly where that is known, else measured."""
    before, after = one.begun.worth, one.final.worth
    if before.exact is not None and after.exact is not None:
        return after.exact < before.exact
    return after.audit < before.audit


def _below(arms: Arms, part: str) -> Claim:
    """C6, of the start that is hardest to improve; with the start in the pool it must never happen on select."""
    hardest: Start = "trained" if "trained" in arms else "instruct"
    runs = arms[hardest][WITHOUT_START].results
    number = share(sum(map(below_start, runs)), len(runs))
    every = [one for given in arms.values() for runs in given.values() if not runs.arm.of for one in runs.results]
    broken = sum(one.select_gain < 0.0 for one in every)
    told = "; ".join(
        f"`{name}` from {start} {sum(map(below_start, given[name].results))} of {len(given[name].results)}"
        for start, given in arms.items()
        for name in (WITHOUT_START, f"{HARMFUL}, without the start")
        if name in given
    )
    sentence = (
        f"The probability that the final without the start is below the start on audit is {number.value:.1f} % "
        f"({number.low:.1f} to {number.high:.1f}) from `{hardest}`, the start that is hardest to improve; the claim "
        f"asks for more than 1 %. {told}. With the start in the pool the final is below it on the deciding tasks in "
        f"{broken} of {len(every)} runs of all arms."
    )
    verdict = ClaimVerdict.NOT_REPRODUCED if broken else SOMETIMES.verdict(number.interval)
    rests_on = f"runs from `{hardest}` whose final without the start is below the start on audit, %, Wilson interval"
    return claim_of("C6", part, verdict, rests_on, number, sentence)


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
