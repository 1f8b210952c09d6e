"""Part (a): every arm in one world, with the truth beside what is measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from heldout.studies.gso.ablation import ablation_table, one_world_table
from heldout.studies.gso.arms import (
    ARMS,
    BARE,
    FACTORIAL,
    FROM_RULES,
    NO_SKILL,
    PERSISTENT,
    RIVALS,
    World,
    available,
    run_config,
)
from heldout.studies.gso.beginnings import begun_audit, begun_table
from heldout.studies.gso.bench import Bench, Plan
from heldout.studies.gso.claims import ahead_of_all, main_claims
from heldout.studies.gso.measuring import Role, roles_of
from heldout.studies.gso.runs import Result
from heldout.studies.gso.summaries import ArmRuns, Baselines, audit, exact_audit, gains_of, known
from heldout.studies.plots import Line, Plot, Spot
from heldout.studies.results import Part
from heldout.studies.scatter import Dot, Scatter
from heldout.studies.tables import Cell, Estimate, Table

__all__ = ["baselines", "main_table"]

Arms = Mapping[str, ArmRuns]


def main_table(bench: Bench) -> Part:
    """Tables of every arm, the ablation by ingredients, claims C1 to C5 and C8."""
    plan = bench.plan
    every = bench.run(available({**ARMS, **BARE, **FACTORIAL}))[World()]
    arms = {name: runs for name, runs in every.items() if name in ARMS}
    none = baselines(every)
    claimed = {name: runs for name, runs in every.items() if name not in FACTORIAL}
    roles = roles_of(run_config(ARMS[NO_SKILL], World(), plan.sizes, seed=plan.first_seed).tasks)
    return Part(
        id="a",
        title="Fresh skills against lasting ones",
        simulated=True,
        quick=plan.quick,
        intro=_intro(plan, arms),
        tables=(
            _scores(arms, small=plan.sizes.small),
            _gains(arms, none, small=plan.sizes.small),
            _edits_and_cost(arms),
            _differences(arms),
            begun_table(arms),
            ablation_table(every),
            one_world_table(arms, none, roles),
        ),
        claims=main_claims(claimed, none, plan.sizes),
        plots=(_retention_plot(arms, none), _audit_plot(arms)),
        seeds=plan.seeds,
        config_digests={name: runs.config_digest for name, runs in every.items()},
    )


def baselines(arms: Arms) -> Baselines:
    """No skill, with a recovery and without."""
    return {True: arms[NO_SKILL], False: arms["no skill, no recovery"]}


def _intro(plan: Plan, arms: Arms) -> str:
    sizes, world = plan.sizes, World()
    above = [name for name, runs in arms.items() if runs.mean(exact_audit) > arms["gso"].mean(exact_audit)]
    skipped = (
        "" if "GEPA" in arms else " GEPA is skipped: its package is not installed (`pip install 'heldout[gepa]'`)."
    )
    return (
        "Whole runs of the real loops in a simulated world: work on tables, a writer that turns the lines of a guide "
        "into lines of a skill, a solver that follows them and fails each step with probability "
        f"ε = {world.slip:g}, an attributor that is right with probability 0.8, and an editor with 40 sentences (18 "
        "that help, 12 without effect, 6 that harm, 4 traps). The start guide holds 11 of the 18. "
        f"{sizes.rounds} rounds of {sizes.batch} train tasks, none ended early; {sizes.train} train, {sizes.select} "
        f"select, {sizes.audit} audit and {sizes.ood} ood tasks, the last of two operations that no other role has. "
        f"{plan.seeds} seeds; run and world change together, and arms share them, so that differences are paired. "
        "Everything is measured once more after the last decision, on train and audit at seeds that no search used. "
        f"Arms have a recovery unless their name says otherwise, `one-shot` excepted, which is the paper's. Above "
        f"gso by the exact audit rate: {', '.join(f'`{name}`' for name in above) or 'no arm'}.{skipped}"
    )


def _scores(arms: Arms, *, small: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, runs in arms.items():
        full = runs.known(audit)
        rows.append(
            (
                *(
                    name,
                    full.value,
                    full.low,
                    full.high,
                    runs.known(lambda one: one.measured.mean("audit", small)).estimate,
                ),
                *(_measured(runs, role) for role in ("train", "select", "ood")),
                *(runs.known(measure).estimate for measure in (begun_audit, exact_audit, _last_exact)),
                100.0 * runs.mean(lambda one: one.is_start) if runs.arm.loop or runs.arm.of else None,
            )
        )
    return Table(
        name="arms",
        title="Every arm",
        note=(
            "A simulation. Scores in percent; `low` and `high` are the 95 % t interval over seeds of the audit score, "
            f"± is one standard error. `audit, n = {small}`: on the first {small} audit tasks, what the paper's size "
            "would have said. `select`: of the final, by the fresh sweep that it was chosen by. `exact audit`: the "
            "expectation over seeds on the same tasks, known because this is a simulation; `start` is what the first "
            "edit is made to (the draft, where an arm drafts a skill), `last head` what the gate ended with, before "
            "the final selection held it against the start."
        ),
        columns=(
            *("arm", "audit", "low", "high", f"audit, n = {small}", "train", "select", "ood"),
            *("exact audit, start", "exact audit", "exact audit, last head", "final is start, %"),
        ),
        rows=tuple(rows),
    )


def _last_exact(one: Result) -> float:
    return one.last_exact.audit


def _measured(runs: ArmRuns, role: Role) -> Estimate | None:
    return runs.known(lambda one: one.measured.mean(role)).estimate


def _gains(arms: Arms, none: Baselines, *, small: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, runs in arms.items():
        if name == NO_SKILL or runs is none[False]:
            continue
        found, few = gains_of(runs, none), gains_of(runs, none, first=small)
        exact = gains_of(runs, none, exact=True)
        train, after = known(found.train), known(found.audit)
        kept = known(found.retention, unit=2.0)
        rows.append(
            (
                *(name, train.value, train.low, train.high, after.value, after.low, after.high),
                *(kept.value, kept.low, kept.high, known(few.audit).estimate, known(few.retention, unit=2.0).estimate),
                *(known(exact.train).estimate, known(exact.audit).estimate, known(exact.retention, unit=2.0).estimate),
            )
        )
    return Table(
        name="gains",
        title="Gains over no skill, and what is kept of them",
        note=(
            "A simulation. Points over no skill under the same conditions (with a recovery, or without one), each with "
            "its 95 % t interval over seeds; Retention is the audit gain minus the train gain, and below zero a part "
            "of the train gain is lost. ± is one standard error."
        ),
        columns=(
            *("arm", "train gain", "low", "high", "audit gain", "low ", "high ", "Retention", "low  ", "high  "),
            *(f"audit gain, n = {small}", f"Retention, n = {small}"),
            *("exact train gain", "exact audit gain", "exact Retention"),
        ),
        rows=tuple(rows),
    )


def _edits_and_cost(arms: Arms) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, runs in arms.items():
        searched = bool(runs.arm.loop)
        costs = [runs.mean(lambda one, field=field: float(getattr(one.cost, field))) for field in _COSTS]  # type: ignore[misc]
        edits = [runs.mean(lambda one, field=field: float(getattr(one.edits, field))) for field in _EDITS]  # type: ignore[misc]
        rows.append(
            (
                name,
                *(edits if searched else (None,) * len(_EDITS)),
                *(costs if searched else (None,) * len(_COSTS)),
                runs.calls if searched else None,
                runs.mean(lambda one: one.measured.calls),
            )
        )
    return Table(
        name="cost",
        title="Edits, and what was spent",
        note=(
            "A simulation. Means of a run. `edits`: those that could be run; `accepted`: moves of the head after a "
            "draft; `harmful`: of them, those that lower the exact mean over the tasks that train tasks come from; "
            "`harmful, audit`: over the audit tasks. Costs are up to the final selection, without audits: evaluations, "
            "model calls of episodes (the writer's and those of recoveries are also shown apart), questions to "
            "attributor, editor and judge, which the simulated ones answer without a model and which count as one call "
            "each, and tokens of episodes, estimated. `calls` is their sum, at which part b compares. `calls a task`: "
            "model calls for one audit task. No arm calls a paid model, so dollars do not apply."
        ),
        columns=(
            *("arm", "edits", "accepted", "harmful", "harmful, audit", "evaluations", "episode calls", "skill calls"),
            *("recoveries", "questions", "tokens", "calls", "calls a task"),
        ),
        rows=tuple(rows),
    )


_EDITS = ("proposed", "accepted", "harmful", "harmful_audit")
_COSTS = ("evaluations", "episode_calls", "skill_calls", "recoveries", "questions", "tokens")


def _differences(arms: Arms) -> Table:
    others = [name for name in arms if name != "gso"]
    lead, exact = (ahead_of_all(arms, "gso", others, measure) for measure in (audit, exact_audit))
    rows: list[tuple[Cell, ...]] = []
    for name in others:
        if name not in lead.differences:
            continue
        plain = known(arms["gso"].values(audit) - arms[name].values(audit))
        rows.append(
            (name, plain.value, plain.low, plain.high, lead.p_values[name], exact.differences[name].estimate)
            if name in exact.differences
            else (name, plain.value, plain.low, plain.high, lead.p_values[name], None)
        )
    return Table(
        name="differences",
        title="gso minus every other arm",
        note=(
            "A simulation. Points of the audit score, paired over seeds; `low` and `high` are the plain 95 % t "
            "interval, `p` is adjusted by Holm's rule for all rows."
        ),
        columns=("other arm", "gso minus it", "low", "high", "p", "exact"),
        rows=tuple(rows),
    )


_GROUPS: Mapping[str, int] = {
    **dict.fromkeys((*PERSISTENT, FROM_RULES), 1),
    **dict.fromkeys(("best-of-N guides", "start guide", "start guide, no recovery"), 2),
    **dict.fromkeys(("one-shot", "one-shot + recovery"), 3),
}
"""Colours; gso and its variants have the first."""


def _retention_plot(arms: Arms, none: Baselines) -> Scatter:
    dots = []
    for name, runs in arms.items():
        if runs in none.values():
            continue  # the origin
        found = gains_of(runs, none)
        train, after = known(found.train), known(found.audit)
        if not np.isnan(train.value):
            dots.append(
                Dot(
                    name=name,
                    group=_GROUPS.get(name, 0),
                    x=train.value,
                    y=after.value,
                    x_error=train.standard_error,
                    y_error=after.standard_error,
                )
            )
    return Scatter(
        name="retention",
        title="Train gain against audit gain over no skill (simulation)",
        x_label="train gain, points",
        y_label="audit gain, points",
        dots=tuple(dots),
        below="below the diagonal: lost on audit",
    )


_PLACES: Mapping[str, str] = {
    "one-shot": "one-\nshot",
    "one-shot + recovery": "one-\nshot\n+ rec.",
    "persistent, strict gate": "pers.\nstrict",
    "persistent, GSO gate": "pers.\nGSO",
    FROM_RULES: "pers.\nrules",
    "EvoSkill-like": "Evo-\nSkill",
    "Trace2Skill-like": "Trace2-\nSkill",
    "best-of-N guides": "best\nof N",
    "start guide": "start\nguide",
    NO_SKILL: "no\nskill",
}
"""Places on an axis are narrow."""


def _audit_plot(arms: Arms) -> Plot:
    shown = [name for name in (*RIVALS, FROM_RULES, "gso") if name in arms]
    measures = {"audit": audit, "exact": exact_audit, "train": lambda one: one.measured.mean("train")}
    lines = []
    for title, measure in measures.items():
        found = {name: arms[name].known(measure) for name in shown}
        spots = tuple(
            Spot(x=_PLACES.get(name, name), y=one.value, standard_error=one.standard_error)
            for name, one in found.items()
            if not np.isnan(one.value)
        )
        lines.append(Line(name=title, spots=spots, joined=False))
    return Plot(
        name="audit",
        title="Audit score by arm (simulation)",
        x_label="arm",
        y_label="%",
        xs=tuple(_PLACES.get(name, name) for name in shown),
        lines=tuple(lines),
    )
