"""The researcher by rules: weighs every strategy, chooses one, and says why the others lost."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from heldout.errors import SetupError
from heldout.improvers.strategies import Library
from heldout.improvers.training_history import KEPT, first_accepted
from heldout.improvers.training_roles import Research, ResearchView
from heldout.improvers.training_weighing import Rule, Weighed, combined, score_of, too_long_for, varied, weigh
from heldout.store.training_events import WeighedStrategy

__all__ = ["StrategyChoice", "answer", "check_choice", "check_size", "choose_by_score", "nothing_left", "research"]

StrategyChoice = str
"""`best`: the largest score. `random`: any that is open. `repeat_first`: the first one that was accepted, again and
again (until one is, the best). A strategy's id: that one in every round."""

_CHOICES = ("best", "random", "repeat_first")


def research(
    view: ResearchView,
    library: Library,
    *,
    rule: Rule = "expected_gain_per_hour",
    strategy: StrategyChoice = "best",
    explore: float = 0.0,
) -> Research:
    """The whole table, and the choice. `SetupError` where the library is smaller than the table has to be."""
    check_size(library, view.min_strategies)
    weighed = weigh(view, library, rule)
    forced = first_accepted(view.history) if strategy == "repeat_first" else strategy
    if forced not in ("best", "random", None):
        return _forced(forced, weighed, view, rule)
    rng = Random(f"training strategy {view.seed}")
    if strategy == "random" or rng.random() < explore:
        return _drawn(weighed, rule, rng)
    return _best(weighed, view, library, rule)


def check_size(library: Library, least: int) -> None:
    """`SetupError` for a library with fewer strategies than must be compared."""
    if len(library.strategies) < least:
        raise SetupError(
            f"the library {library.name!r} offers {len(library.strategies)} strategies "
            f"({', '.join(one.id for one in library.strategies) or 'none'}), and {least} must be compared; name fewer "
            "in improver.options.without, more in improver.options.only, or lower options.min_strategies"
        )


def check_choice(strategy: StrategyChoice, library: Library) -> None:
    """`SetupError` for a choice that this library does not have."""
    ids = [one.id for one in library.strategies]
    if strategy not in (*_CHOICES, *ids):
        raise _unknown(strategy, ids)


def choose_by_score(weighed: Sequence[Weighed]) -> Weighed | None:
    """The open one with the largest score, of equal ones the first by id; None where none is open."""
    still = [one for one in weighed if one.open]
    return min(still, key=lambda one: (-(one.row.score or 0.0), one.row.id)) if still else None


def _best(weighed: list[Weighed], view: ResearchView, library: Library, rule: Rule) -> Research:
    best = choose_by_score(weighed)
    if best is None:
        again = varied(weighed, view, rule)
        ids = {one.row.id for one in again}
        weighed = [one for one in weighed if one.row.id not in ids] + again
        best = choose_by_score(again)
    if best is None:
        return nothing_left(weighed, rule)
    joined = combined(best, view, library, rule)
    if joined is not None:
        weighed = [*weighed, joined]
        best = choose_by_score([best, joined]) or best
    top, unit = best.row.score or 0.0, _unit(rule)
    rivals = sorted((one.row for one in weighed if one.open and one is not best), key=lambda row: -(row.score or 0.0))
    nearest = f"; next {rivals[0].id} with {rivals[0].score:.0f}" if rivals else "; no other is open"
    why = f"{_promise(best.row)}: {top:.0f} {unit}{nearest}"
    return answer(weighed, best, rule, why=why, others=f"the chosen {best.row.id} has {top:.0f} {unit}")


def _drawn(weighed: Sequence[Weighed], rule: Rule, rng: Random) -> Research:
    still = [one for one in weighed if one.open]
    if not still:
        return nothing_left(weighed, rule)
    drawn = rng.choice(still)
    return answer(weighed, drawn, rule, why=f"drawn at random from {len(still)} open strategies", others="not drawn")


def _forced(strategy: str | None, weighed: Sequence[Weighed], view: ResearchView, rule: Rule) -> Research:
    """That one, whatever speaks for another; its history bars it no more, only the budget and the data do."""
    wanted = (strategy or "").removesuffix(KEPT)
    fixed = next((one for one in weighed if one.row.id == wanted), None)
    if fixed is None:
        raise _unknown(wanted, [one.row.id for one in weighed])
    if too_long := too_long_for(fixed.row.cost_s, view):
        return Research(table=_table(weighed), rule=rule, why=f"{wanted} {too_long}", too_dear=True)
    if fixed.hindrance == "data":
        return Research(table=_table(weighed), rule=rule, why=f"{wanted} {fixed.row.lost}")
    chosen = Weighed(fixed.row.model_copy(update={"lost": "", "score": score_of(fixed.row, rule)}), fixed.recipe)
    table = [chosen if one is fixed else one for one in weighed]
    why = f"{wanted} in every round (improver.options.strategy)"
    return answer(table, chosen, rule, why=why, others=f"{wanted} is repeated in every round")


def _unknown(strategy: str, ids: Sequence[str]) -> SetupError:
    return SetupError(
        f"no strategy {strategy!r}; improver.options.strategy is {', '.join(_CHOICES)}, or one of {', '.join(ids)}"
    )


def nothing_left(weighed: Sequence[Weighed], rule: str) -> Research:
    """The table without a choice."""
    table = _table(weighed)
    dear = sum(one.hindrance == "budget" for one in weighed)
    why = f"nothing is left to try: of {len(table)} strategies {dear} would take longer than there is time"
    if dear < len(table):
        why += ", and the others do not fit or were tried with the same recipe"
    return Research(table=table, rule=rule, why=why, too_dear=dear > 0)


def answer(weighed: Sequence[Weighed], chosen: Weighed, rule: Rule, *, why: str, others: str) -> Research:
    """The table with the reason of every loser."""
    rows = []
    for row in _table(weighed):
        lost = row.lost or (f"{row.score:.0f} {_unit(rule)}; {others}" if row.score is not None else others)
        rows.append(row.model_copy(update={"lost": "" if row.id == chosen.row.id else lost}))
    return Research(table=tuple(rows), chosen=chosen.row.id, recipe=chosen.recipe, rule=rule, why=why)


def _table(weighed: Sequence[Weighed]) -> tuple[WeighedStrategy, ...]:
    """The rows, best first."""
    return tuple(sorted((one.row for one in weighed), key=lambda row: (-(row.score or 0.0), row.id)))


def _promise(row: WeighedStrategy) -> str:
    return (
        f"{row.id}: fits {row.fits:.2f} · {row.reported_gain:g} reported points · P {row.reproduces:.2f} in "
        f"{row.cost_s:.1f} s"
    )


def _unit(rule: Rule) -> str:
    return "points per hour" if rule == "expected_gain_per_hour" else "points"
