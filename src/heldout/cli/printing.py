"""How results look in a terminal: short tables, points with a sign, plain words last."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import TypeAdapter
from rich import box
from rich.console import Console
from rich.table import Table

from heldout.audit import CompareResult
from heldout.records import Record
from heldout.report import RunSummary
from heldout.report.numbers import interval, percent, plus_minus, points, signed
from heldout.tasks import SourceEntry, SourceReport
from heldout.workbench import MachineCheck, NoiseReport, Plan, Recommendation

__all__ = [
    "print_checks",
    "print_compare",
    "print_json",
    "print_noise",
    "print_plan",
    "print_runs",
    "print_source_report",
    "print_sources",
]


def print_json(value: Record | Iterable[Record], *, name: str = "") -> None:
    """One JSON object on standard output; several records become the list `name` of it."""
    text = value.model_dump_json() if isinstance(value, Record) else f'{{"{name}":{_array(value)}}}'
    sys.stdout.write(text + "\n")


def print_compare(result: CompareResult, *, a: str, b: str) -> None:
    """B against A, and what it means."""
    table = _table("", "mean", "flip rate between repeats")
    table.add_row(f"A  {Path(a).name}", percent(result.a_mean), percent(result.flip_rate_a))
    table.add_row(f"B  {Path(b).name}", percent(result.b_mean), percent(result.flip_rate_b))
    figures = _table("tasks", "B - A", "standard error", f"{result.confidence:.0%} interval", "fixed", "broken", "p")
    figures.add_row(
        str(result.n_tasks),
        points(result.mean_difference),
        plus_minus(result.standard_error),
        interval(result.interval),
        f"{result.fixed:g}",
        f"{result.broken:g}",
        "-" if result.p_value is None else f"{result.p_value:.3f} ({result.test})",
    )
    lines = [result.sentence]
    if result.missing:
        lines.append(f"{result.missing} tasks have no score on one side or both; they are not counted as failures.")
    _print(table, figures, *lines)


def print_noise(report: NoiseReport) -> None:
    """The noise floor, and what every rule makes of no change."""
    table = _table("rule", "false accepts", "smallest wins-losses that commit")
    for gate in report.calibration:
        rate = f"{100 * gate.false_accept_rate:.1f} % ± {100 * gate.standard_error:.1f}"
        table.add_row(gate.gate, rate, gate.smallest_table or "-")
    flips = "not measured" if report.expected_flips is None else f"{report.expected_flips:.1f}"
    lines = [
        f"The start against itself on {report.n_tasks} select tasks: flip rate {percent(report.flip_rate)}, "
        f"so {flips} flips are expected under no change.",
        f"False accepts: an equally good generation of {report.candidates} that differs on "
        f"{percent(report.disagreement)} of the tasks ({report.disagreement_source}).",
        f"The audit's standard error at that disagreement: {plus_minus(report.audit_standard_error)}.",
        *([] if report.recommendation is None else _recommended(report.recommendation)),
    ]
    _print(*(["SIMULATION: the solver is a simulated model."] if report.simulated else []), table, *lines)


def print_plan(config_toml: str, plan: Plan, *, as_json: bool) -> None:
    """The resolved config and what it will cost at most."""
    if as_json:
        import tomllib

        answer = {"config": tomllib.loads(config_toml), "plan": json.loads(plan.model_dump_json())}
        sys.stdout.write(json.dumps(answer) + "\n")
        return
    sys.stdout.write(config_toml.rstrip() + "\n\n")
    table = _table("evaluations, at most", "")
    for name, value in plan:
        if value and name not in ("proposals", "affordable_proposals", "per_proposal", "total"):
            table.add_row(name.replace("_", " "), str(value))
    table.add_row("total", str(plan.total))
    bought = f"{plan.proposals} proposals are planned."
    if plan.affordable_proposals is not None:
        bought += f" budget.evaluations buys about {plan.affordable_proposals} of them beside everything else."
    _print(table, bought)


def print_runs(found: Sequence[RunSummary], *, folder: Path) -> None:
    """A line a run."""
    if not found:
        _print(f"No runs in {folder}. Start one: heldout quickstart")
        return
    table = _table("run", "loop", "status", "believed", "audited", "interval", "solver")
    for one in found:
        audit = one.audit
        table.add_row(
            one.started.run,
            one.started.loop,
            one.status,
            signed(one.gains.believed),
            signed(None if audit is None else audit.gain),
            interval(None if audit is None else audit.interval),
            one.started.solver + (" (simulation)" if one.started.simulated else ""),
        )
    _print(table)


def print_sources(entries: Sequence[SourceEntry]) -> None:
    """A line a source."""
    table = _table("source", "what it is")
    for entry in entries:
        table.add_row(entry.name, entry.summary)
    _print(table)


def print_source_report(report: SourceReport) -> None:
    """What a check of a source found."""
    strata = sorted({stratum for counts in report.roles.values() for stratum in counts})
    shown = strata if 1 < len(strata) <= 8 else []
    table = _table("role", "tasks", *shown)
    for role, counts in report.roles.items():
        table.add_row(role, str(sum(counts.values())), *(str(counts.get(stratum, 0)) for stratum in shown))
    lines = [
        f"{report.source}: {report.items} tasks, {len(report.strata)} strata, grader {report.grader}.",
        (f"Right answers score 1: {report.gold_right} of {report.graded}. " if report.gold_known else "")
        + f"Wrong answers score 0: {report.wrong_refused} of {report.graded}.",
        *(["A sample was graded; --all grades the rest."] if report.graded < report.items else []),
        f"Duplicates: {report.exact_duplicates} exact, {report.near_duplicates} near pairs; "
        f'tasks.duplicates = "drop" leaves out {report.copies} tasks.',
        *(
            f"  {pair.similarity:.2f}  {pair.a} / {pair.b}: {pair.a_text!r} / {pair.b_text!r}"
            for pair in report.examples
        ),
    ]
    faults = [f"FAULT: {fault}" for fault in report.failures]
    _print(table, *lines, *(faults or ["Nothing has to be mended."]))


def print_checks(checks: Sequence[MachineCheck]) -> None:
    """A line a check, with what mends it."""
    table = _table("", "", "", "mend it with")
    for check in checks:
        table.add_row("works" if check.works else "absent", check.name, check.detail, check.mend)
    _print(table)


def _recommended(found: Recommendation) -> list[str]:
    """The setting, what it brings and what it costs."""
    return [
        f"Recommended: {found.setting}. As configured, the gate of this run accepts {percent(found.now)} of the edits "
        f"without effect; with it, {percent(found.then)} ± {100 * found.then_standard_error:.1f}.",
        f"The price: an edit that truly repairs {percent(found.repaired)} of the tasks is accepted in "
        f"{percent(found.power_then)} of the cases instead of {percent(found.power_now)}.",
    ]


def _array(records: Iterable[Record]) -> str:
    return TypeAdapter(list[dict[str, object]]).dump_json([one.model_dump(mode="json") for one in records]).decode()


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(*parts: Table | str) -> None:
    console = Console()
    for part in parts:
        console.print(part, highlight=False, markup=False)
