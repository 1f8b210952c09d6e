"""What a person sees in the terminal. Views are rich renderables; `show` puts them on a console.

On a stream that is no terminal the same words come in plain ASCII, without colour. Signs that take more room in
ASCII (± and arrows) stay out of tables, so that their columns hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from heldout.report.agent_terminal import agents_view
from heldout.report.numbers import ascii_text, count, dollars, duration, interval, percent, plus_minus, points, signed
from heldout.report.queries import LedgerRow
from heldout.report.skill_terminal import learning_view, skills_view
from heldout.report.summary import RunSummary
from heldout.report.tables import plain_table
from heldout.report.training_terminal import training_view
from heldout.report.untrusted import one_line
from heldout.report.verdict import Verdict, verdict
from heldout.store.events import AuditResult, NoiseMeasured

__all__ = ["audit_view", "gains_view", "ledger_view", "noise_view", "print_summary", "run_view", "show"]

_WIDTH = 100
"""Columns that a summary uses at most; wider tables are harder to read, not easier."""

_LONG_NAME = 20
"""A gate's name that is longer leaves no room beside it."""

_ROOM = (0, 2, 1, 1)
"""Around sentences with one `±`, which is two columns wider in ASCII, after lines were broken."""


def show(console: Console, *views: RenderableType) -> None:
    """Print the views: in full on a terminal, else in ASCII (pipes, logs, CI)."""
    options = console.options.update(max_width=min(console.width, _WIDTH))
    if console.is_terminal:
        for view in views:
            console.print(view, width=options.max_width, crop=False)
        return
    options.encoding = "ascii"
    for view in views:
        text = "".join(segment.text for segment in console.render(view, options) if not segment.control)
        console.file.write("".join(f"{line.rstrip()}\n" for line in ascii_text(text).splitlines()))


def print_summary(summary: RunSummary, *, report: Path | None = None, console: Console | None = None) -> None:
    """Put the summary of a run on standard output, or on `console`."""
    show(console or Console(), run_view(summary, report=report))


def run_view(summary: RunSummary, *, report: Path | None = None) -> RenderableType:
    """The summary of a run: verdict, three gains, noise, cost, and where the report lies."""
    parts: list[RenderableType] = [Text()]
    if summary.started.simulated:
        parts.append(Text.assemble(("SIMULATION", "bold reverse"), "  no language model solved a task"))
    skills = summary.skills
    parts += [_verdict(verdict(summary)), gains_view(summary) if skills is None else learning_view(summary, skills)]
    parts += [Text(f"Note: {one_line(note, 400)}", style="yellow") for note in summary.notes]
    training = summary.training
    told = summary.agents is not None or skills is not None or training is not None
    audited = (summary.audit,) if told and summary.audit is not None else ()
    if audited or summary.reports:
        opened = training is not None and training.floor is not None
        sealed = _SEALED.partition(",")[0] if opened else _SEALED
        title = sealed if audited else _REPORT_ROLES
        parts.append(reports_view((*audited, *summary.reports), title=title))
    if summary.agents is not None:
        parts.append(agents_view(summary.agents))
    if skills is not None:
        parts.append(skills_view(summary, skills))
    if training is not None:
        parts.append(training_view(summary, training, folder=None if report is None else report.parent))
    if summary.noise is not None:
        parts.append(noise_view(summary.noise, gate=summary.gate))
    parts.append(ledger_view(summary.ledger, elapsed_s=summary.elapsed_s))
    if report is not None:
        # A path that is broken over two lines can be neither clicked nor copied.
        parts.append(Text.assemble(("Report ", "bold"), str(report), no_wrap=True, overflow="ignore", end="\n"))
    return Group(*parts)


def gains_view(summary: RunSummary) -> RenderableType:
    """Believed, corrected and audited gain side by side, and the overstatement.

    A loop over agents or weights has no model of its overstatement: there stands what was recorded before a fresh
    sweep, where there was one.
    """
    gains, audit = summary.gains, summary.audit
    ends = f"{percent(summary.start.select.value)} to {percent(summary.final.select.value)}"
    measured = f"{interval(audit.interval)} ({audit.confidence * 100:.0f} %)" if audit else "heldout audit opens it"
    measured = _STILL if audit and audit.verdict == _UNCHANGED else measured
    modelled = signed(gains.modelled_overstatement).lstrip("+")
    expected = f"minus {modelled} by the model" if gains.corrected is not None else ""
    if summary.agents is None and summary.training is None:
        columns = [
            ("Believed", "what the loop saw", gains.believed, ends),
            ("Corrected", "model", gains.corrected, expected),
        ]
    else:
        columns = [("Believed", "what the loop reports", gains.believed, ends)]
        if gains.recorded is not None:
            columns.insert(0, ("Recorded", "when it was kept", gains.recorded, "before the fresh sweep"))
    table = plain_table()
    for name, kind, _, _ in (*columns, ("Audited", "measured", None, "")):
        table.add_column(Text.assemble((name, "bold"), f"\n{kind}"), ratio=1)
    table.add_row(*(Text(points(gain), style="bold") for gain in (*(one[2] for one in columns), gains.audited)))
    table.add_row(*(one[3] for one in columns), measured, style="dim")
    if gains.overstatement is None:
        return table
    line = Text.assemble("Overstatement ", (points(gains.overstatement), "bold"), " (believed minus audited)")
    return Group(table, Padding(line, (0, 0, 1, 1)))


def noise_view(noise: NoiseMeasured, *, gate: str = "") -> RenderableType:
    """The noise floor, and how often each gate accepts a candidate that is no better; `gate` is the run's own."""
    table = plain_table(title="Noise: the start against itself")
    table.add_column("gate", no_wrap=True)
    table.add_column("false accepts", justify="right")
    table.add_column("std. error", justify="right")
    table.add_column("smallest tables that commit")
    for one in noise.gates:
        rate, error = percent(one.false_accept_rate), percent(one.standard_error)
        style = "bold" if one.gate == gate else ""
        own = "\n(this run)" if len(one.gate) > _LONG_NAME else " (this run)"
        name = f"{one.gate}{own}" if one.gate == gate else one.gate
        table.add_row(name, rate, error, one.smallest_table or "depends on more", style=style)
    flips = f"Flip rate {percent(noise.flip_rate)} on {count(noise.n_tasks)} tasks"
    flips += f" ({count(noise.missing)} not measured)" if noise.missing else ""
    text = (
        f"{flips}; expected flips with no change: {count(noise.expected_flips)} of {count(noise.select_tasks)}. "
        f"Audit standard error {plus_minus(noise.audit_standard_error)} points. "
        f"False accepts: how often the gate takes one of {count(noise.candidates)} candidates that are no better but "
        f"answer {percent(noise.disagreement)} of the tasks otherwise ({noise.disagreement_source}; a solver that "
        "repeats itself exactly never flips)."
    )
    return Group(table, Padding(Text(text), _ROOM))


def ledger_view(ledger: Sequence[LedgerRow], *, elapsed_s: float | None = None) -> RenderableType:
    """What was paid for, by purpose."""
    table = plain_table(
        title="Cost" if elapsed_s is None else f"Cost (the search took {duration(elapsed_s)})", show_footer=True
    )
    total = LedgerRow("total", sum((row.spend for row in ledger[1:]), start=ledger[0].spend)) if ledger else None
    foot = _cells(total) if total else [""] * 6
    for name, end in zip(("purpose", "evaluations", "calls", "tokens", "dollars", "work"), foot, strict=True):
        table.add_column(name, end, justify="left" if name == "purpose" else "right")
    for row in ledger:
        table.add_row(*_cells(row))
    return table


def audit_view(audit: AuditResult) -> RenderableType:
    """One audit: the paired table and the gain, in plain words."""
    table = plain_table(title=f"Audit on the role {audit.role}")
    for name in ("", "final right", "final wrong"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row("start right", count(audit.both), f"{count(audit.broken)} broken")
    table.add_row("start wrong", f"{count(audit.fixed)} fixed", count(audit.neither))
    gain = f"Gain {points(audit.gain)}, {plus_minus(audit.standard_error)} standard error, "
    gain += f"{audit.confidence * 100:.0f} % interval {interval(audit.interval)}, on {count(audit.n_tasks)} tasks"
    gain += f" ({count(audit.missing)} not measured)" if audit.missing else ""
    notes = [Text(f"Note: {note}", style="yellow") for note in audit.notes]
    return Group(Text(audit.sentence, style="bold"), *notes, table, Padding(Text(gain + "."), _ROOM))


_UNCHANGED = "unchanged"
_STILL = "the final is the start: nothing was measured"

_REPORT_ROLES = "Report roles: start against final"
_SEALED = "Start against final, on tasks that no decision saw"


def reports_view(reports: Sequence[AuditResult], *, title: str = _REPORT_ROLES) -> RenderableType:
    """Start against final on each role; like the audit's, these tasks were seen by no decision. A gain of 0 over 0
    tasks is one by identity, and the line below says so."""
    table = plain_table(title=title)
    for name in ("role", "tasks", "start", "final", "gain", "95 % interval", "missing"):
        table.add_column(name, justify="left" if name == "role" else "right")
    if reports:
        table.columns[5].header = f"{reports[0].confidence * 100:.0f} % interval"
    for one in reports:
        table.add_row(
            one.role,
            count(one.n_tasks),
            percent(one.start_mean),
            percent(one.final_mean),
            signed(one.gain),
            interval(one.interval),
            count(one.missing),
        )
    still = [one.role for one in reports if one.verdict == _UNCHANGED]
    if not still:
        return table
    line = f"On {one_line(', '.join(still), 200)} {_STILL}, and 0 is the gain of a model over itself."
    return Group(table, Padding(Text(line), _ROOM))


def _verdict(found: Verdict) -> RenderableType:
    style = {"better": "bold cyan", "worse": "bold red", "unclear": "bold yellow"}.get(found.tone, "bold")
    return Group(Text(found.headline, style=style), Text(found.detail), Text())


def _cells(row: LedgerRow) -> list[str]:
    spend = row.spend
    return [
        row.purpose,
        count(spend.evaluations),
        count(spend.calls),
        count(spend.tokens_in + spend.tokens_out),
        dollars(spend.cost_usd),
        duration(spend.wall_s),
    ]
