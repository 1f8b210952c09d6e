"""Part (a): eleven arms in one world, with the truth beside what each run believes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from heldout.studies.plots import Line, Plot, Spot
from heldout.studies.results import ClaimVerdict, Part
from heldout.studies.tables import Cell, Estimate, Table, mean_estimate
from heldout.studies.verse.arms import ARMS, FOUR, World
from heldout.studies.verse.bench import Bench, Plan
from heldout.studies.verse.differences import AHEAD, difference_table, main_claims, signed
from heldout.studies.verse.summaries import INTERACTION, ArmRuns, Known, contrast, known, true_gain, wrong_change
from heldout.studies.verse.truths import HELPS

__all__ = ["CLAIM_ARMS", "main_table"]

CLAIM_ARMS = (*FOUR, "run_episode, self-edit", "random schedule")


def main_table(bench: Bench) -> Part:
    """Tables of every arm, differences, claims C1 to C5."""
    plan = bench.plan
    arms = bench.run(ARMS)[World()]
    many = bench.run({name: ARMS[name] for name in CLAIM_ARMS}, seeds=plan.claim_seeds)[World()]
    return Part(
        id="a",
        title="Verification and self-edit",
        simulated=True,
        quick=plan.quick,
        intro=f"{_settings(plan)} {_why(many)}",
        tables=(
            _gains(arms),
            difference_table(arms, name="differences", title="Differences between arms"),
            difference_table(many, name="differences_more_seeds", title="Differences on the seeds of the claims"),
            _improver(arms),
            _verdicts(arms),
            _rounds(arms),
        ),
        claims=main_claims(many, arms),
        plots=(_gains_plot(arms), _rounds_plot(many)),
        seeds=plan.seeds,
        config_digests={name: runs.config_digest for name, runs in (arms | many).items()},
    )


def _settings(plan: Plan) -> str:
    world, sizes = World(), plan.sizes
    return (
        "Whole runs of the real loop in a simulated world: a coder with five stated weaknesses, and an improver that "
        "chooses from 24 edits (8 useful, 8 null, 8 harmful). It reads a failure wrongly with chance "
        f"{world.error:g} (ε); in {100 * world.nondeterminism:g} % of the tasks (ν) a formatter undoes a mend in half "
        f"of the runs. {sizes.rounds} rounds, {sizes.candidates} candidates and a pool of "
        f"{sizes.units * sizes.candidates} units a round; {sizes.train} train, {sizes.select} select, {sizes.audit} "
        f"audit and {sizes.ood} ood tasks. "
        "The seeds of run and tasks vary together, and arms share them, so that differences are paired. Tables of "
        f"arms: {plan.seeds} seeds. Claims, and the second table of differences: {plan.claim_seeds} seeds, of which "
        f"the first {plan.seeds} are those of the tables."
    )


def _why(many: Mapping[str, ArmRuns]) -> str:
    """Whether the interaction is there, and where it is not for sure, what the runs show instead."""
    interaction = known(contrast(many, INTERACTION))
    if np.isnan(interaction.value):
        return "Too few seeds to say whether the paper's interaction is there."
    verdict = AHEAD.verdict(interaction.interval)
    if verdict is ClaimVerdict.REPRODUCED:
        return f"The paper's interaction appears: {_over(interaction)} points."
    alone, beside = (
        known(contrast(many, {one: 1.0, other: -1.0}))
        for one, other in (("full", "none"), ("full, self-edit", "none, self-edit"))
    )
    return " ".join(
        [
            f"The paper's interaction does not appear for sure: {_over(interaction)} points, {verdict.value}.",
            f"What the runs show instead: verification adds {_over(alone)} points without self-edit and "
            f"{_over(beside)} with it.",
            *_learned(many["full, self-edit"]),
        ]
    )


def _learned(runs: ArmRuns) -> Iterator[str]:
    """What self-edit with full verification had to learn from, and what came of it."""
    told = runs.verdicts
    if supports := told.right_supports + told.wrong_supports:
        yield (
            f"Of the {supports} `supports` that the self-editing arm learned from, "
            f"{100 * told.right_supports / supports:.0f} % were of drafts that truly help: a draft without effect "
            "passes twice by luck on a task that is a coin toss."
        )
    wrong = runs.known(wrong_change)
    if not np.isnan(wrong.value):
        yield f"Its share of wrong beliefs changed by {_over(wrong)} points."
    method = _method(runs)
    if method is not None and not np.isnan(method.value):
        yield (
            f"One round under its edited method gained {_over(method)} points over one under the start method, on the "
            "same head and seeds (method audit, exact)."
        )


def _over(one: Known) -> str:
    return f"{signed(one.value)} ({signed(one.low)} to {signed(one.high)})"


def _gains(arms: Mapping[str, ArmRuns]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, runs in arms.items():
        audited = runs.known(lambda one: one.audited)
        rows.append(
            (
                *(name, audited.value, audited.low, audited.high, runs.known(true_gain).estimate),
                *(runs.known(lambda one: one.believed).estimate, runs.known(lambda one: one.select_score).estimate),
                *(runs.known(lambda one: one.overstated).estimate, runs.known(lambda one: one.ood_audited).estimate),
                *(runs.known(lambda one: one.ood_true).estimate, 100.0 * runs.mean(lambda one: one.is_start)),
                *(runs.executions, runs.mean(lambda one: float(one.units)), "n/a"),
            )
        )
    return Table(
        name="arms",
        title="Every arm",
        note=(
            "A simulation. Points, ± one standard error over seeds; `low` and `high` are the 95 % t interval of the "
            "audited gain. `true gain`: exact expectation over seeds on the audit tasks, known because this is a "
            "simulation. `believed gain` and `select score`: of the final, by the sweep that it was chosen by; "
            "`overstates`: that score minus what the audit expects. Executions are evaluations and replays of a run up "
            "to its final selection; audits, and the method audit of self-edit arms, come on top. No arm calls a paid "
            "model, so dollars do not apply. `best of N` proposes from the start only and chooses once, at the end."
        ),
        columns=(
            *("arm", "audited gain", "low", "high", "true gain", "believed gain", "select score", "overstates"),
            *("ood gain, audited", "ood gain, true", "final is start, %", "executions", "probe units", "dollars"),
        ),
        rows=tuple(rows),
    )


def _improver(arms: Mapping[str, ArmRuns]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            runs.mean(lambda one: float(one.wrong_before)),
            runs.mean(lambda one: float(one.wrong_after)),
            runs.mean(lambda one: float(one.beliefs)),
            runs.known(wrong_change).estimate if runs.arm.self_edit else None,
            100.0 * runs.mean(lambda one: one.edited_method),
            None if (method := _method(runs)) is None else method.estimate,
        )
        for name, runs in arms.items()
    ]
    return Table(
        name="improver",
        title="What became of the improver",
        note=(
            "A simulation. A belief is the class of edits that the improver blames for a signature among the start's "
            "failures on train: its own reading and what it counted, weighed; wrong where `truth.true_class` says "
            "otherwise. `change` is that of the wrong share, in points. Method audit: one round under the final method "
            "minus one under the start method, same head and seeds, as exact gain on the audit tasks in points."
        ),
        columns=("arm", "wrong at the start", "wrong at the end", "of", "change", "method edited, %", "method audit"),
        rows=tuple(rows),
    )


def _method(runs: ArmRuns) -> Known | None:
    values = np.array([np.nan if one.method_true is None else one.method_true for one in runs.results])
    return None if np.isnan(values).all() else known(values)


def _verdicts(arms: Mapping[str, ArmRuns]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, runs in arms.items():
        if runs.arm.verify != "full":
            continue
        told = runs.verdicts
        supports, refutes = told.right_supports + told.wrong_supports, told.right_refutes + told.wrong_refutes
        rows.append(
            (
                *(name, told.right_supports, told.wrong_supports, told.wrong_refutes, told.right_refutes),
                told.inconclusive,
                100.0 * told.right_supports / supports if supports else None,
                100.0 * told.right_refutes / refutes if refutes else None,
            )
        )
    return Table(
        name="verdicts",
        title="Verdicts of fix_probe against the truth",
        note=(
            "A simulation; probes of all seeds together. A draft helps where it raises the exact chance of at least "
            f"one of the probe's own targets by {100 * HELPS:.0f} points or more over the probe's base. Other kinds of "
            "probe say nothing of a draft, and `run_episode` has no verdict."
        ),
        columns=(
            *("arm", "supports, helps", "supports, does not", "refutes, helps", "refutes, does not"),
            *("inconclusive", "supports right, %", "refutes right, %"),
        ),
        rows=tuple(rows),
    )


def _rounds(arms: Mapping[str, ArmRuns]) -> Table:
    count = len(next(iter(arms.values())).results[0].heads_true)
    return Table(
        name="rounds",
        title="True gain of the head after each round",
        note="A simulation. Points over the start, ± one standard error over seeds; the final is chosen from these.",
        columns=("arm", *(f"round {number}" for number in range(1, count + 1))),
        rows=tuple((name, *_by_round(runs)) for name, runs in arms.items() if runs.arm.iterate),
    )


def _by_round(runs: ArmRuns) -> list[Estimate | None]:
    heads = np.array([one.heads_true for one in runs.results])
    return [mean_estimate(column - runs.values(lambda one: one.start_true)) for column in heads.T]


def _gains_plot(arms: Mapping[str, ArmRuns]) -> Plot:
    measures = {
        "believed": lambda one: one.believed,
        "audited": lambda one: one.audited,
        "true": true_gain,
    }
    lines = []
    for title, measure in measures.items():
        found = {name: runs.known(measure) for name, runs in arms.items()}
        spots = tuple(
            Spot(x=_PLACES.get(name, name), y=one.value, standard_error=one.standard_error)
            for name, one in found.items()
            if not np.isnan(one.value)
        )
        lines.append(Line(name=title, spots=spots, joined=False))
    return Plot(
        name="gains",
        title="Gain that a run believes, that an audit finds, and that is true (simulation)",
        x_label="arm (run: run_episode; edit: self-edit)",
        y_label="points",
        xs=tuple(_PLACES.get(name, name) for name in arms),
        lines=tuple(lines),
    )


_PLACES: Mapping[str, str] = {
    "none, self-edit": "none\n+ edit",
    "run_episode": "run",
    "run_episode, self-edit": "run\n+ edit",
    "full, self-edit": "full\n+ edit",
    "− attribution": "no\nattrib.",
    "− ledger": "no\nledger",
    "random schedule": "random",
    "fixed schedule": "fixed",
    "best of N": "best\nof N",
}
"""Places on an axis are narrow."""


def _rounds_plot(many: Mapping[str, ArmRuns]) -> Plot:
    lines = []
    for name in FOUR:
        found = [Estimate(value=0.0, standard_error=0.0), *_by_round(many[name])]
        spots = [(str(at), one) for at, one in enumerate(found) if one is not None]
        lines.append(
            Line(
                name=name, spots=tuple(Spot(x=at, y=one.value, standard_error=one.standard_error) for at, one in spots)
            )
        )
    count = len(many["none"].results[0].heads_true)
    return Plot(
        name="rounds",
        title="True gain of the head by round (simulation)",
        x_label="round",
        y_label="points",
        xs=tuple(map(str, range(count + 1))),
        lines=tuple(lines),
    )
