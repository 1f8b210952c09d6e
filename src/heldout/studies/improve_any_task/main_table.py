"""Parts (a) and (b): every arm from every start, simulated and with real pocket models."""

from __future__ import annotations

from heldout.studies.improve_any_task.arms import FULL, arms_of, budget_s
from heldout.studies.improve_any_task.bench import Bench
from heldout.studies.improve_any_task.claims import claims_of
from heldout.studies.improve_any_task.forgetting import retained_table
from heldout.studies.improve_any_task.plans import STARTS, Plan, Start
from heldout.studies.improve_any_task.plots import overstatement_plot
from heldout.studies.improve_any_task.summaries import Arms, named
from heldout.studies.improve_any_task.tables import (
    Found,
    attempts_table,
    differences_table,
    dominant_table,
    gains_table,
    measured,
    ordered,
    without_budget,
)
from heldout.studies.improve_any_task.training_noise import noise_table
from heldout.studies.improve_any_task.without_start import start_table
from heldout.studies.results import Part

__all__ = ["pocket_part", "simulated_part"]


def simulated_part(bench: Bench) -> Part:
    """Every arm on simulated weights, whose true accuracy is known."""
    return _part(bench, "a", "Every arm, with the truth beside what is measured", (*STARTS, "trained"), _SIMULATION)


def pocket_part(bench: Bench) -> Part:
    """Every arm on real models, trained on this machine."""
    return _part(bench, "b", "Every arm on real pocket models", STARTS, _POCKET)


_SIMULATION = (
    "Whole runs of the real loop over simulated weights: a file of probabilities of avoiding each fault, which the "
    "trainer moves along stated learning curves, with forgetting and training noise. Answers are real texts, graded by "
    "the real rules; data is built, checked and admitted as for any model. Seconds of trainings are simulated too. The "
    "start `trained` has learned all that can be learned here, so that a training can only spoil something."
)
_POCKET = (
    "Whole runs of the real loop over real models: transformers of under a million parameters with a character "
    "vocabulary, pre-trained by a committed script, fully fine-tuned here on one thread each. Processor seconds are "
    "measured, so that a second run of this part may differ where a budget ends."
)


def _part(bench: Bench, name: str, title: str, starts: tuple[Start, ...], about: str) -> Part:
    plan = bench.plan
    found = ordered(bench.run({start: arms_of(start, few=plan.few_arms) for start in starts}))
    compared = found.compared
    suffix = "" if plan.sizes.simulated else "_pocket"
    return Part(
        id=name,
        title=title,
        simulated=plan.sizes.simulated,
        quick=plan.quick,
        intro=f"{about} {_sizes(plan, found)}",
        tables=(
            gains_table(compared, name=f"gains{suffix}", simulated=plan.sizes.simulated),
            differences_table(compared, name=f"differences{suffix}"),
            attempts_table(compared, name=f"attempts{suffix}", simulated=plan.sizes.simulated),
            dominant_table(compared, name=f"dominant{suffix}"),
            retained_table(compared, name=f"retained{suffix}", simulated=plan.sizes.simulated),
            start_table(compared, name=f"start{suffix}"),
            noise_table(found.twice, name=f"noise{suffix}", simulated=plan.sizes.simulated),
        ),
        claims=claims_of(compared, name),
        plots=(overstatement_plot(compared, name=f"overstatement{suffix}", simulated=plan.sizes.simulated),),
        seeds=plan.seeds,
        config_digests={
            f"{arm}, {start}": runs.config_digest for start, given in found.every.items() for arm, runs in given.items()
        },
    )


def _sizes(plan: Plan, found: Found) -> str:
    sizes, arms = plan.sizes, found.compared
    runs = sum(len(runs.results) for given in arms.values() for runs in given.values() if not runs.arm.of)
    return (
        f"{sizes.train} diagnosis, {sizes.select} select, {sizes.audit} audit tasks; {sizes.steps} steps of 32 a "
        f"training. {_budgets(plan, found.every)} {plan.seeds} seeds from each start, {runs} runs in all; "
        "run, world and learner change together with the seed, and arms share them, so that differences are paired. "
        "The improver is the catalogue with rules, whose reported gains are invented, and false in part on purpose."
    )


def _budgets(plan: Plan, every: Arms) -> str:
    """What each arm may spend, and how many children that makes of full."""
    sizes, free = plan.sizes, without_budget(every)
    but = f" but {named(free)}, which end after a fixed number of rounds and have no budget," if free else ""
    told = f"Every arm{but} may spend {sizes.budget_s:,.0f} processor seconds on its search"
    at_once = {runs.name: runs.arm for given in every.values() for runs in given.values() if runs.arm.at_once}
    for name, arm in at_once.items():
        told += f" (`{name}`, whose steps are fixed beforehand, {budget_s(arm, sizes):,.0f})"
    children = ", ".join(f"{start} {given[FULL].mean(measured):.3g}" for start, given in every.items())
    return f"{told}; `{FULL}` trains and measures so many children in it, on average: {children}."
