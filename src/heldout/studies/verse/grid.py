"""Part (c): does the order of the four main arms hold for other error rates and other noise? (C6)"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from heldout.studies.plots import Line, Plot, Spot
from heldout.studies.results import Claim, ClaimVerdict, Part
from heldout.studies.tables import Cell, Table
from heldout.studies.verse.arms import FOUR, World
from heldout.studies.verse.bench import Bench
from heldout.studies.verse.differences import AHEAD, claim_of, signed
from heldout.studies.verse.summaries import INTERACTION, ArmRuns, Known, contrast, known, true_gain

__all__ = ["order_claim", "robustness"]

Cells = Mapping[World, Mapping[str, ArmRuns]]


def robustness(bench: Bench) -> Part:
    """The four main arms in every cell of ε and ν."""
    plan = bench.plan
    cells = bench.run(FOUR, [World(error, rate) for error in plan.errors for rate in plan.rates])
    return Part(
        id="c",
        title="Other error rates and other noise",
        simulated=True,
        quick=plan.quick,
        intro=(
            f"The four main arms in {len(cells)} worlds, {plan.seeds} seeds an arm: ε is the chance that the improver "
            "reads a signature wrongly, ν the share of tasks whose formatter undoes a mend in half of the runs. The "
            "world of part a is ε = 0.4, ν = 0.15."
        ),
        tables=(_table(cells),),
        claims=(order_claim(cells),),
        plots=(_plot(cells),),
        seeds=plan.seeds,
        config_digests={
            f"{name} at ε = {world.error:g}, ν = {world.nondeterminism:g}": runs.config_digest
            for world, arms in cells.items()
            for name, runs in arms.items()
        },
    )


def order_claim(cells: Cells) -> Claim:
    """C6. The order is that of C2: the interaction is above zero in every cell, Bonferroni-corrected for the cells."""
    confidence = 1.0 - 0.05 / len(cells)
    found = {world: known(contrast(arms, INTERACTION), confidence=confidence) for world, arms in cells.items()}
    if any(np.isnan(one.value) for one in found.values()):
        return claim_of("C6", "c", ClaimVerdict.UNDECIDED, "", next(iter(found.values())), "")
    verdicts = [AHEAD.verdict(one.interval) for one in found.values()]
    verdict = ClaimVerdict.UNDECIDED
    if ClaimVerdict.NOT_REPRODUCED in verdicts:
        verdict = ClaimVerdict.NOT_REPRODUCED
    elif set(verdicts) == {ClaimVerdict.REPRODUCED}:
        verdict = ClaimVerdict.REPRODUCED
    weakest = min(found, key=lambda world: found[world].low)
    pooled = known(np.mean([contrast(arms, INTERACTION) for arms in cells.values()], axis=0))
    verified = [known(contrast(arms, _VERIFIED)) for arms in cells.values()]
    sentence = (
        f"The interaction is above zero in {sum(one.value > 0.0 for one in found.values())} of {len(found)} cells, for "
        f"sure in {verdicts.count(ClaimVerdict.REPRODUCED)}; the mean of all cells is {_over(pooled)}. Self-edit with "
        f"full verification is ahead of self-edit without it in {sum(one.value > 0.0 for one in verified)} cells, for "
        f"sure (uncorrected) in {sum(one.low > 0.0 for one in verified)}."
    )
    rests_on = (
        f"smallest lower end of the interaction, points: ε = {weakest.error:g}, ν = {weakest.nondeterminism:g} "
        f"(of {len(cells)}, Bonferroni)"
    )
    return claim_of("C6", "c", verdict, rests_on, found[weakest], sentence)


_VERIFIED = {"full, self-edit": 1.0, "none, self-edit": -1.0}


def _over(one: Known) -> str:
    return f"{signed(one.value)} points ({signed(one.low)} to {signed(one.high)})"


def _table(cells: Cells) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for world, arms in cells.items():
        interaction = known(contrast(arms, INTERACTION))
        rows.append(
            (
                *(world.error, world.nondeterminism),
                *(arms[name].known(true_gain).estimate for name in FOUR),
                known(contrast(arms, _VERIFIED)).estimate,
                *(interaction.estimate, interaction.low, interaction.high, AHEAD.verdict(interaction.interval).value),
            )
        )
    return Table(
        name="grid",
        title="True gains by ε and ν",
        note=(
            "A simulation. Points, ± standard error over seeds; `low` and `high` are the 95 % t interval of the "
            "interaction, not corrected for the number of cells."
        ),
        columns=(
            *("ε", "ν", *FOUR, "full − none, self-edit"),
            *("interaction", "low", "high", "above zero"),
        ),
        rows=tuple(rows),
    )


def _plot(cells: Cells) -> Plot:
    places = {world: f"ε = {world.error:g}\nν = {world.nondeterminism:g}" for world in cells}
    lines = []
    for name in FOUR:
        found = {world: arms[name].known(true_gain) for world, arms in cells.items()}
        spots = tuple(
            Spot(x=places[world], y=one.value, standard_error=one.standard_error)
            for world, one in found.items()
            if not np.isnan(one.value)
        )
        lines.append(Line(name=name, spots=spots, joined=False))
    return Plot(
        name="grid",
        title="True gain in nine worlds (simulation)" if len(cells) == 9 else "True gain by world (simulation)",
        x_label="error of reading, and noise of tasks",
        y_label="points",
        xs=tuple(places.values()),
        lines=tuple(lines),
    )
