"""The terminal summary at 80 columns, and in plain ASCII elsewhere."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from heldout.report import audit_view, audits, ledger_view, noise, noise_view, print_summary, run_view, show, summary
from heldout.store import Index, RunFolder


def shown(view: RenderableType, *, terminal: bool, width: int = 80) -> str:
    stream = io.StringIO()
    show(Console(file=stream, width=width, force_terminal=terminal, color_system=None), view)
    return stream.getvalue()


@pytest.fixture
def view(make_run: Callable[..., RunFolder]) -> RenderableType:
    with Index.open(make_run(simulated=True)) as index:
        whole = summary(index.connection)
        return run_view(whole, report=Path("runs/autumn-questions/report.html"))


@pytest.mark.parametrize("terminal", [True, False])
def test_it_fits_into_eighty_columns(view: RenderableType, terminal: bool) -> None:
    assert max(len(line) for line in shown(view, terminal=terminal).splitlines()) <= 80


def test_what_is_no_terminal_gets_ascii_without_escapes_and_straight_columns(view: RenderableType) -> None:
    text = shown(view, terminal=False)
    assert text.isascii()
    assert "\x1b" not in text
    assert "?" not in text
    table: set[int] = set()
    for line in text.splitlines():
        if line.startswith(("|", "+-")):
            table.add(len(line))
        else:
            assert len(table) <= 1
            table = set()


def test_the_gains_stand_side_by_side_with_their_kinds_and_a_simulation_is_named(view: RenderableType) -> None:
    text = shown(view, terminal=True)
    kinds = next(line for line in text.splitlines() if "what the loop saw" in line)
    assert kinds.index("what the loop saw") < kinds.index("model") < kinds.index("measured")
    gains = next(line for line in text.splitlines() if line.count(" points ") == 3)
    assert gains.split()[0][0] in "+−"
    assert "SIMULATION" in text
    assert "Overstatement" in text
    assert "runs/autumn-questions/report.html" in text
    assert "greedy (this run)" in text


def test_a_real_run_is_not_called_a_simulation(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(generations=1, audited=False)) as index:
        text = shown(run_view(summary(index.connection)), terminal=True)
    assert "SIMULATION" not in text
    assert "not measured" in text
    assert "Overstatement" not in text


def test_a_long_path_is_not_broken(make_run: Callable[..., RunFolder]) -> None:
    path = Path("runs") / ("x" * 100) / "report.html"
    with Index.open(make_run(generations=1)) as index:
        for terminal in (True, False):
            assert str(path) in shown(run_view(summary(index.connection), report=path), terminal=terminal)


def test_the_ledger_adds_up(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(generations=1)) as index:
        whole = summary(index.connection)
    text = shown(ledger_view(whole.ledger), terminal=False)
    total = next(line for line in text.splitlines() if "total" in line)
    assert f" {whole.total.evaluations:,} " in total


def test_an_empty_ledger_and_a_noise_check_without_gates(make_run: Callable[..., RunFolder]) -> None:
    assert "Cost" in shown(ledger_view(()), terminal=True)
    with Index.open(make_run(generations=1)) as index:
        measured = noise(index.connection)
    assert measured is not None
    text = shown(noise_view(measured.model_copy(update={"gates": (), "flip_rate": None})), terminal=True)
    assert "not measured" in text


def test_printing_a_summary_shows_the_same_view(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(generations=1)) as index:
        whole = summary(index.connection)
    stream = io.StringIO()
    print_summary(whole, console=Console(file=stream, width=80))
    assert stream.getvalue() == shown(run_view(whole), terminal=False)


def test_an_audit_names_every_cell_of_the_table(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(generations=1)) as index:
        audit = audits(index.connection)[0]
    text = shown(audit_view(audit), terminal=False)
    for words in (f"{audit.fixed:.0f} fixed", f"{audit.broken:.0f} broken", "5 not measured", "95 % interval"):
        assert words in text
