"""Step 3 of a round: strategies for the focal problem, weighed, and the choice with the losers' reasons."""

from __future__ import annotations

from heldout.errors import BudgetExhausted
from heldout.improvers.training_roles import Diagnosis, Recipe, Research, ResearchView
from heldout.loops.paying import paid_call
from heldout.loops.proposing import step_seed
from heldout.loops.trainings import keep_part, stopped_key
from heldout.loops.weights.state import Attributed, WeightsSearch
from heldout.store.training_events import StrategiesWeighed

__all__ = ["direct", "recipe_of"]


def direct(search: WeightsSearch, attributed: Attributed, number: int) -> StrategiesWeighed:
    """The researcher's table and choice, on record. `BudgetExhausted` where only the budget forbids all that is left:
    nothing is recorded then, so that a run with a larger one asks again."""
    session, diagnosed = search.session, attributed.diagnosed
    recorded = session.recorder.find("strategies", str(number), StrategiesWeighed)
    if recorded is not None:
        return recorded
    view = _view(search, attributed, number)
    answered = paid_call(
        session,
        lambda: search.improver.research(view),
        Research,
        bound=search.improver.bound,
        purpose="research",
    )
    said = answered.value or Research()
    if said.too_dear and said.chosen is None:
        keep_part(session.recorder, stopped_key("research", f"round-{number}"), "research", answered.spend)
        raise BudgetExhausted(said.why)
    weighed = StrategiesWeighed(
        round=number,
        focal=diagnosed.focal or "",
        table=said.table,
        chosen=said.chosen if said.recipe is not None else None,
        recipe={} if said.recipe is None else said.recipe.model_dump(mode="json"),
        rule=said.rule,
        why=said.why,
        error=answered.error or _too_few(said, search.options.min_strategies),
        unanswered=answered.unanswered,
        spend=answered.spend,
    )
    return session.recorder.record("strategies", weighed)


def recipe_of(weighed: StrategiesWeighed) -> Recipe | None:
    """The chosen recipe; None where nothing was chosen, or too little was compared."""
    if weighed.chosen is None or weighed.error is not None:
        return None
    return Recipe.model_validate(weighed.recipe)


def _too_few(said: Research, wanted: int) -> str | None:
    if len(said.table) >= wanted:
        return None
    return f"{len(said.table)} strategies were weighed, and options.min_strategies asks for {wanted}"


def _view(search: WeightsSearch, attributed: Attributed, number: int) -> ResearchView:
    session, diagnosed = search.session, attributed.diagnosed
    focal = diagnosed.focal or ""
    ledger = session.ledger
    lefts = [ledger.left("wall_s"), ledger.left("cpu_s")]
    if getattr(session.engine.model, "accelerators", 0):
        lefts.append(ledger.left("gpu_s"))
    known = [left for left in lefts if left is not None]
    return ResearchView(
        round=number,
        seed=step_seed(session.config.seed, number, 1),
        description=session.tasks.description,
        diagnosis=Diagnosis(
            fix_rates={one.code: one.fix_rate for one in diagnosed.clusters},
            focal=diagnosed.focal,
            cited=diagnosed.cited,
            why=diagnosed.why,
        ),
        clusters=diagnosed.clusters,
        focal=focal,
        failures=tuple(sorted(attributed.failures, key=lambda failed: failed.faults[0] != focal)),
        history=tuple(search.history),
        tried=tuple(search.tried),
        assets=tuple(search.assets) if search.options.assets else (),
        budget_s=min(known) if known else None,
        min_strategies=search.options.min_strategies,
        settings=search.options.train,
    )
