"""What the released outcomes say of the paper's claims, before and after correction for the number of comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heldout.studies.results import Claim, Region
from heldout.studies.verse_published.pairs import Contest, Pair, pooled
from heldout.studies.verse_published.released import HOSTS, SETTINGS, START

__all__ = ["claims"]

_AHEAD = Region(low=0.0)

_SET: Mapping[str, str] = {"id": "in distribution", "ood": "out of distribution"}


def claims(contest: Contest, test_set: str) -> tuple[Claim, ...]:
    """V1 to V4: each host; V5: hosts together; V6 and V7: against the start; V8: against everything."""
    verse = tuple(HOSTS.values())
    by_host = [
        _host_claim(f"V{number}", contest, host, test_set=test_set) for number, host in enumerate(HOSTS, start=1)
    ]
    best = verse[0]
    return (
        *by_host,
        _pooled_claim(contest, test_set),
        _pair_claim("V6", contest.of(best, START), contest, test_set),
        _every_claim(
            "V7",
            [contest.of(name, START) for name in verse],
            f"Every one of the four VERSE settings is ahead of the start {_SET[test_set]}.",
            test_set,
        ),
        _every_claim(
            "V8",
            [contest.of(best, name) for name in SETTINGS if name != best],
            f"{SETTINGS[best]} is ahead of every other setting {_SET[test_set]}.",
            test_set,
        ),
        _pair_claim("V9", contest.of("meta_harness", START), contest, test_set),
    )


def _pair_claim(name: str, one: Pair, contest: Contest, test_set: str, *, more: str = "") -> Claim:
    before, after = _AHEAD.verdict(one.interval), _AHEAD.verdict(one.corrected)
    sentence = (
        f"Before correction {before.value}: {_signed(one.gain)} points, 95 % interval {_range(one.interval)}, "
        f"p = {_p(one.p_value)}. After Holm's correction for {len(contest.pairs)} pairs {after.value}: "
        f"p = {_p(one.holm_p)}.{more}"
    )
    return Claim(
        id=name,
        part=test_set,
        says=f"{one.b.title} is ahead of {'the start' if one.a.name == START else one.a.title} {_SET[test_set]}.",
        verdict=after,
        rests_on=f"points over {one.result.n_tasks} tasks, paired; interval corrected for {len(contest.pairs)} pairs",
        number=one.gain,
        interval=one.corrected,
        sentence=sentence,
    )


def _host_claim(name: str, contest: Contest, host: str, *, test_set: str) -> Claim:
    """A host claim also says what a correction for the four host pairs alone would give."""
    few = contest.family([(with_verse, alone) for alone, with_verse in HOSTS.items()])
    own = next(one for one in few if one.a.name == host)
    verdict = _AHEAD.verdict(own.corrected)
    more = f" For the {len(few)} pairs of a host and itself with VERSE alone {verdict.value}: p = {_p(own.holm_p)}."
    return _pair_claim(name, contest.of(HOSTS[host], host), contest, test_set, more=more)


def _pooled_claim(contest: Contest, test_set: str) -> Claim:
    result = pooled(contest)
    gain, low, high = (100.0 * value for value in (result.mean_difference or 0.0, *(result.interval or (-1.0, 1.0))))
    verdict = _AHEAD.verdict((low, high))
    p_value = 1.0 if result.p_value is None else result.p_value
    return Claim(
        id="V5",
        part=test_set,
        says=f"VERSE raises its host on average over the four hosts {_SET[test_set]}.",
        verdict=verdict,
        rests_on=f"points over {result.n_tasks} tasks, paired, mean of four hosts; one comparison, not corrected",
        number=gain,
        interval=(low, high),
        sentence=(
            f"{_signed(gain)} points, 95 % interval {_range((low, high))}, p = {_p(p_value)}: {verdict.value}. "
            "It is the average over these four evolved pairs; that another evolution would do as well is not measured."
        ),
    )


def _every_claim(name: str, pairs: Sequence[Pair], says: str, test_set: str) -> Claim:
    """The weakest of several comparisons carries the claim."""
    before, after = _weakest([one.interval for one in pairs]), _weakest([one.corrected for one in pairs])
    verdict = _AHEAD.verdict(after)
    ahead = [one for one in pairs if one.corrected[0] > 0.0]
    at_first = [one for one in pairs if one.interval[0] > 0.0]
    least = min(pairs, key=lambda one: one.gain)
    return Claim(
        id=name,
        part=test_set,
        says=says,
        verdict=verdict,
        rests_on=f"the smallest of {len(pairs)} gains in points; lowest ends of the corrected intervals",
        number=least.gain,
        interval=after,
        sentence=(
            f"Before correction {_AHEAD.verdict(before).value}, after it {verdict.value}: {len(at_first)} of "
            f"{len(pairs)} comparisons are above zero before Holm's correction and {len(ahead)} after it; the smallest "
            f"gain is {_signed(least.gain)} points, {_over(least)}."
        ),
    )


def _over(one: Pair) -> str:
    return f"{one.b.title} over {'the start' if one.a.name == START else one.a.title}"


def _weakest(intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Reproduced only where every interval is above zero, not reproduced as soon as one is below."""
    return min(low for low, _ in intervals), min(high for _, high in intervals)


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _range(ends: tuple[float, float]) -> str:
    return " to ".join(_signed(end).removeprefix("+") for end in ends)


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-4 else f"{value:.0e}"
