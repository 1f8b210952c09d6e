"""From a model's table to a choice: the library's figures stand, and the rule of the run decides."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.improvers.training_llm.replies import SCRIPT, Table, TableRow
from heldout.improvers.training_llm.settings import ChoiceRule
from heldout.improvers.training_research import answer, choose_by_score, nothing_left
from heldout.improvers.training_roles import Recipe, Research, ResearchView
from heldout.improvers.training_weighing import Rule, Weighed, hindered
from heldout.store.training_events import WeighedStrategy

__all__ = ["choose"]


def choose(table: Table, weighed: Sequence[Weighed], view: ResearchView, rule: ChoiceRule) -> Research:
    """The rows of the model, scored by the rule. Where the model chooses itself, a choice that is not open is
    replaced by the open one with the largest score, and the reason says so."""
    by: Rule = "expected_gain_per_hour" if rule == "model" else rule
    known = {one.row.id: one for one in weighed}
    floor = min((one.row.cost_s for one in weighed), default=0.0)
    rows = [_row(row, known.get(row.id), view, by, floor) for row in table.rows]
    best = choose_by_score(rows)
    if best is None:
        return nothing_left(rows, rule)
    wanted = next((one for one in rows if one.row.id == table.chosen and one.open), None)
    chosen = wanted if rule == "model" and wanted is not None else best
    why = table.why
    if chosen.row.id != table.chosen:
        why = f"the model named {table.chosen}, and {chosen.row.id} is the largest that is open: {table.why}"
    found = answer(rows, chosen, by, why=why, others=f"{chosen.row.id} was chosen")
    said = {row.id: row.why_not for row in table.rows}
    losers = [
        row if row.id == chosen.row.id or not said.get(row.id) else row.model_copy(update={"lost": _both(row, said)})
        for row in found.table
    ]
    return found.model_copy(update={"table": tuple(losers), "rule": rule})


def _row(row: TableRow, known: Weighed | None, view: ResearchView, rule: Rule, floor: float) -> Weighed:
    """The model's estimates over the library's figures, or a strategy of its own. One of its own costs at least what
    the cheapest of the library does: nobody has measured it."""
    if known is None:
        made = WeighedStrategy(
            id=row.id,
            source="the model's own idea",
            mechanism=row.mechanism,
            reported_gain=row.reported_gain,
            reported_on=row.reported_on or "the model's own estimate",
            fits=row.fits,
            reproduces=row.reproduces,
            data=row.data or row.builder,
            implementation=row.implementation,
            cost_s=max(floor, row.cost_s),
            risk=row.risk,
        )
        recipe = Recipe(builder="" if row.builder == SCRIPT else row.builder)
    else:
        made = known.row.model_copy(update={"fits": row.fits, "reproduces": row.reproduces})
        recipe = known.recipe
    return hindered(Weighed(made, recipe), view, rule)


def _both(row: WeighedStrategy, said: dict[str, str]) -> str:
    return f"{said[row.id]} ({row.lost})" if row.lost else said[row.id]
