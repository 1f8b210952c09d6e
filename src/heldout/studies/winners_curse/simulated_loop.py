"""Part (b): the simulated loop under every rule, beside the specification's reference results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heldout.studies.plots import Line, Plot, Spot
from heldout.studies.results import Part
from heldout.studies.tables import Cell, Estimate, Table
from heldout.studies.winners_curse.arms import EXTRA_RULES, RULES, Arm
from heldout.studies.winners_curse.claims import Evidence, simulated_claims
from heldout.studies.winners_curse.coverage import COVERAGE_RUNS, coverage_table
from heldout.studies.winners_curse.reference import reference_table
from heldout.studies.winners_curse.summaries import ArmRuns, run_arm

__all__ = ["SimulationPlan", "simulated_loop"]

EQUAL_COST = 1_296
"""Evaluations of one run of the paper's smallest size: 16 (1 + 20 · 4)."""

_COLUMNS = (
    *("world", "rule", "n", "inflation", "reported gain", "true gain", "RMSE reported", "RMSE audit (64)"),
    *("first overstates", "model, first", "later overstate", "model, later", "helpful later, %"),
    *("harmful commits", "commits", "evaluations"),
)


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """How much is simulated."""

    sizes: tuple[int, ...] = (16, 64, 256)
    seeds: int = 200
    """Of every table, as in the specification."""
    claim_seeds: int = 500
    """Of the arms that claims rest on: seeds are cheap, and verdicts should not hang on their number."""
    coverage_runs: int = COVERAGE_RUNS


QUICK = SimulationPlan(sizes=(16, 64), seeds=20, claim_seeds=60)


def simulated_loop(plan: SimulationPlan | None = None, *, quick: bool = False) -> Part:
    """Tables of arms, reference, equal cost and coverage; claims C1 to C8; plots."""
    chosen = plan or (QUICK if quick else SimulationPlan())
    arms = _Arms(chosen.sizes, chosen.seeds)
    standard = {(rule, n): arms.run(rule, n) for rule in (*RULES, *EXTRA_RULES) for n in chosen.sizes}
    worlds = {(world, n): arms.run("greedy", n, world) for world in ("alike", "strong", "plain") for n in chosen.sizes}
    best = [run_arm(Arm("greedy", n, generations=1, candidates=80), chosen.seeds) for n in chosen.sizes]
    alike = {n: worlds["alike", n] for n in chosen.sizes}
    return Part(
        id="b",
        title="The simulated loop",
        simulated=True,
        quick=quick,
        intro=(
            "A simulation of whole runs with the real gate objects: item difficulty N(0, 1), start at 40 %, K = 4, "
            "G = 20; rewrites gain N(+12, 8²) points until the first commit and N(−5, 3²) afterwards. Truth is known "
            f"exactly, so every error below is the loop's and not the measurement's. Tables: {chosen.seeds} seeds an "
            "arm. "
            f"Claims: {chosen.claim_seeds:,} seeds an arm."
        ),
        tables=(
            _rules_table(standard, chosen.sizes),
            reference_table(standard, alike),
            _arms_table([*standard.values(), *worlds.values()], best),
            _equal_cost_table(chosen),
            coverage_table(chosen.coverage_runs),
        ),
        claims=simulated_claims(_evidence(_Arms(chosen.sizes, chosen.claim_seeds))),
        plots=(_inflation_plot(standard, chosen.sizes), _greedy_plot(standard, chosen.sizes)),
        seeds=chosen.seeds,
    )


@dataclass(frozen=True, slots=True)
class _Arms:
    sizes: tuple[int, ...]
    seeds: int

    def run(self, rule: str, n: int, world: str = "standard") -> ArmRuns:
        return run_arm(Arm(rule, n, world_name=world), self.seeds)


def _evidence(arms: _Arms) -> Evidence:
    return Evidence(
        {(rule, n): arms.run(rule, n) for rule in RULES for n in arms.sizes},
        strong={n: arms.run("greedy", n, "strong") for n in arms.sizes},
        plain={n: arms.run("greedy", n, "plain") for n in arms.sizes},
    )


def _rules_table(standard: Mapping[tuple[str, int], ArmRuns], sizes: tuple[int, ...]) -> Table:
    quantities = ("inflation", "reported", "true", "commits")
    rows = [(rule, *(cell for n in sizes for cell in _short_row(standard[rule, n]))) for rule in (*RULES, *EXTRA_RULES)]
    return Table(
        name="simulated_rules",
        title="Rules by size of the select set",
        note=(
            "A simulation. Points, ± standard error over seeds. `ladder` and `fresh` are ours, not the paper's; "
            "`bayes` is "
            "told the true prior, before and after the first commit, and `fresh` pays for 32 new items more each time."
        ),
        columns=("rule", *(f"n = {n}: {quantity}" for n in sizes for quantity in quantities)),
        rows=tuple(rows),
    )


def _short_row(runs: ArmRuns) -> tuple[Cell, ...]:
    return runs.inflation, runs.reported, runs.gain, runs.commit_count


def _arms_table(arms: Sequence[ArmRuns], best_of_n: Sequence[ArmRuns]) -> Table:
    rows = [_arm_row(runs, runs.arm.rule) for runs in arms]
    rows += [_arm_row(runs, "best of 80, no iteration") for runs in best_of_n]
    return Table(
        name="simulated_arms",
        title="Every arm",
        note=(
            "A simulation. Gains in points, mean ± standard error over seeds. Inflation: the final program's select "
            "score "
            "minus its true skill. Overstatement: a commit's measured minus its true gain, beside the noise model's "
            "value for "
            "a fresh set (greedy and Bayes only). RMSE: of the run's reported gain, and of a paired audit on 64 new "
            "items, "
            "against the true gain. Evaluations leave out the audit's 128. Worlds: `alike` lets a rewrite keep 70 % "
            "of its "
            "incumbent's outcomes; `strong` starts at 75 % with the useful step behind it; `plain` has equally good "
            "first "
            "rewrites and later ones that do nothing. `bayes` is told the true prior, before and after the first "
            "commit. "
            "`ladder` and `fresh` are ours, not the paper's."
        ),
        columns=_COLUMNS,
        rows=tuple(rows),
    )


def _arm_row(runs: ArmRuns, name: str) -> tuple[Cell, ...]:
    first, later = runs.model(first=True), runs.model(first=False)
    return (
        runs.arm.world_name,
        name,
        runs.arm.n,
        runs.inflation,
        runs.reported,
        runs.gain,
        runs.rmse_reported,
        runs.rmse_audit,
        runs.overstatement(first=True),
        None if first is None else first.value,
        runs.overstatement(first=False),
        None if later is None else later.value,
        runs.helpful,
        runs.harmful_commits,
        runs.commit_count,
        runs.evaluations,
    )


def _equal_cost_table(plan: SimulationPlan) -> Table:
    """The same total of evaluations spent in other ways."""
    arms = [(rule, Arm(rule, 16, budget=EQUAL_COST)) for rule in (*RULES, *EXTRA_RULES)]
    arms += [(f"greedy, K = {k}", Arm("greedy", 16, generations=80 // k, candidates=k)) for k in (1, 16)]
    arms += [("best of 80, no iteration", Arm("greedy", 16, generations=1, candidates=80))]
    arms += [(rule, Arm(rule, n, budget=EQUAL_COST)) for n in plan.sizes if n > 16 for rule in RULES]
    arms += [("best of K, no iteration", _best_of(n)) for n in plan.sizes if n > 16]
    rows = []
    for name, arm in arms:
        runs = run_arm(arm, plan.seeds)
        rows.append((name, arm.n, runs.evaluations, runs.reported, runs.gain, runs.inflation, runs.commit_count))
    return Table(
        name="simulated_equal_cost",
        title=f"At an equal total of {EQUAL_COST:,} evaluations",
        note=(
            "A simulation. No generation begins that the total would not pay for, so larger sets buy fewer "
            "generations, and "
            "`fresh` pays for its confirmations (32 new items, measured for winner and incumbent)."
        ),
        columns=("rule", "n", "evaluations", "reported gain", "true gain", "inflation", "commits"),
        rows=tuple(rows),
    )


def _best_of(n: int) -> Arm:
    return Arm("greedy", n, generations=1, candidates=EQUAL_COST // n - 1)


def _inflation_plot(standard: Mapping[tuple[str, int], ArmRuns], sizes: tuple[int, ...]) -> Plot:
    return Plot(
        name="simulated_inflation",
        title="Inflation of the final program's select score (simulation)",
        x_label="items in the select set",
        y_label="points",
        xs=tuple(map(str, sizes)),
        lines=tuple(Line(name=rule, spots=_spots((n, standard[rule, n].inflation) for n in sizes)) for rule in RULES),
    )


def _greedy_plot(standard: Mapping[tuple[str, int], ArmRuns], sizes: tuple[int, ...]) -> Plot:
    greedy = [standard["greedy", n] for n in sizes]
    named = {
        "reported": [runs.reported for runs in greedy],
        "audited (64)": [runs.audited for runs in greedy],
        "true": [runs.gain for runs in greedy],
    }
    return Plot(
        name="simulated_gains",
        title="Greedy: the gain it reports, an audit finds, and that is true (simulation)",
        x_label="items in the select set",
        y_label="points",
        xs=tuple(map(str, sizes)),
        lines=tuple(Line(name=name, spots=_spots(zip(sizes, gains, strict=True))) for name, gains in named.items()),
    )


def _spots(values: Iterable[tuple[int, Estimate | None]]) -> tuple[Spot, ...]:
    return tuple(
        Spot(x=str(n), y=value.value, standard_error=value.standard_error) for n, value in values if value is not None
    )
