"""Queries against an index of two tables, filled by hand, with answers worked out by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.records import Spend
from heldout.report import audits, flickering, flips, ledger_rows, means, missing_reasons, role_scores
from heldout.store import Index, RunFolder, payload_json
from heldout.store.events import AuditResult, Prepared, Proposed

_TABLES = """
CREATE TABLE events (seq INTEGER PRIMARY KEY, at REAL, kind TEXT, data TEXT);
CREATE TABLE outcomes (
    seq INTEGER PRIMARY KEY, key TEXT, purpose TEXT, candidate TEXT, task TEXT, repeat INTEGER, seed INTEGER,
    score REAL, status TEXT, answer TEXT, error TEXT, evaluations INTEGER, calls INTEGER, tokens_in INTEGER,
    tokens_out INTEGER, cost_usd REAL, wall_s REAL, cpu_s REAL, gpu_s REAL, measures TEXT, artifacts TEXT
);
"""


def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    connection.executescript(_TABLES)
    return connection


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    opened = database()
    yield opened
    opened.close()


def outcome(
    connection: sqlite3.Connection, task: str, score: float | None, *, candidate: str = "a", purpose: str = "select"
) -> None:
    status = "not_measured" if score is None else "passed" if score == 1 else "failed"
    connection.execute(
        "INSERT INTO outcomes VALUES "
        "(NULL, hex(randomblob(8)), ?, ?, ?, 0, 0, ?, ?, '', ?, 1, 2, 10, 3, 0.5, 0.25, 0.125, 0.0, NULL, NULL)",
        (purpose, candidate, task, score, status, "429 <b>" if score is None else None),
    )


def test_a_mean_is_the_mean_of_its_rows_with_missing_ones_excluded_and_counted(
    connection: sqlite3.Connection,
) -> None:
    for task, score in (("t1", 1.0), ("t2", 0.0), ("t3", None), ("t4", 1.0)):
        outcome(connection, task, score)
    outcome(connection, "t1", 0.0, purpose="audit")
    found = means(connection)
    assert found["select", "a"].value == pytest.approx(2 / 3)
    assert (found["select", "a"].n, found["select", "a"].missing) == (3, 1)
    assert found["audit", "a"].value == 0.0


def test_what_was_measured_again_after_a_resume_is_not_missing(connection: sqlite3.Connection) -> None:
    outcome(connection, "t1", None)
    outcome(connection, "t1", 1.0)
    connection.execute("UPDATE outcomes SET key = 'the same'")
    found = means(connection)["select", "a"]
    assert (found.n, found.missing, found.value) == (1, 0, 1.0)


def test_a_candidate_without_any_score_has_no_mean(connection: sqlite3.Connection) -> None:
    outcome(connection, "t1", None)
    found = means(connection)["select", "a"]
    assert (found.n, found.missing, found.value, found.standard_error) == (0, 1, None, None)


def test_repeats_do_not_count_as_new_tasks_in_the_standard_error(connection: sqlite3.Connection) -> None:
    for _ in range(10):
        outcome(connection, "t1", 1.0)
        outcome(connection, "t2", 0.0)
    found = means(connection)["select", "a"]
    assert found.value == 0.5
    # two tasks with means 1 and 0: variance (n - 1) is 0.5, divided by 2 tasks, square root 0.5
    assert found.standard_error == pytest.approx(0.5)


@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.floats(0, 1))), max_size=40))
def test_means_agree_with_plain_arithmetic(rows: list[tuple[int, float | None]]) -> None:
    connection = database()
    for task, score in rows:
        outcome(connection, f"t{task}", score)
    scores = [score for _, score in rows if score is not None]
    found = means(connection).get(("select", "a"))
    assert (found is None) == (not rows)
    if found is not None:
        assert (found.n, found.missing) == (len(scores), len(rows) - len(scores))
        assert found.value == (pytest.approx(sum(scores) / len(scores)) if scores else None)
    connection.close()


def test_the_ledger_adds_proposals_and_preparations_to_outcomes(connection: sqlite3.Connection) -> None:
    outcome(connection, "t1", 1.0)
    outcome(connection, "t2", None)
    proposed = Proposed(generation=1, index=0, digest=None, error="no", spend=Spend(calls=1, tokens_in=100))
    prepared = Prepared(key="k", purpose="select", values={}, spend=Spend(calls=5, cost_usd=0.25))
    for kind, payload in (("proposal", proposed), ("prepared", prepared)):
        connection.execute("INSERT INTO events VALUES (NULL, 0, ?, ?)", (kind, payload_json(kind, payload)))
    rows = {row.purpose: row for row in ledger_rows(connection)}
    assert rows["select"].missing == 1
    assert rows["select"].spend == Spend(
        evaluations=2, calls=9, tokens_in=20, tokens_out=6, cost_usd=1.25, wall_s=0.5, cpu_s=0.25
    )
    assert rows["propose"].spend == Spend(calls=1, tokens_in=100)


def test_an_empty_ledger_is_empty(connection: sqlite3.Connection) -> None:
    assert ledger_rows(connection) == ()


def audit_of(start: str, final: str) -> AuditResult:
    return AuditResult(
        role="audit", start=start, final=final, n_tasks=3, missing=1, start_mean=0, final_mean=0, gain=0,
        standard_error=0, interval=(0, 0), confidence=0.95, fixed=1, broken=1, both=1, neither=0, p_value=1,
        verdict="undecided", sentence="",
    )  # fmt: skip


def test_flips_name_tasks_of_the_audited_pair_only(connection: sqlite3.Connection) -> None:
    for task, start, final in (("t1", 0.0, 1.0), ("t2", 1.0, 0.0), ("t3", 1.0, 1.0), ("t4", 1.0, None)):
        outcome(connection, task, start, candidate="a", purpose="audit")
        outcome(connection, task, final, candidate="b", purpose="audit")
        outcome(connection, task, 0.5, candidate="c", purpose="audit")
    found = flips(connection, audit_of("a", "b"))
    assert (found.fixed, found.broken, found.missing) == (("t1",), ("t2",), ("t4",))


def test_flips_compare_means_over_repeats(connection: sqlite3.Connection) -> None:
    for start, final in ((0.0, 1.0), (1.0, 0.0)):
        outcome(connection, "same", start, candidate="a", purpose="audit")
        outcome(connection, "same", final, candidate="b", purpose="audit")
    assert flips(connection, audit_of("a", "b")) == flips(connection, audit_of("a", "a"))


def test_flickering_needs_the_same_candidate_measured_again(connection: sqlite3.Connection) -> None:
    outcome(connection, "t1", 1.0)
    outcome(connection, "t1", 0.0, purpose="noise")
    outcome(connection, "t2", 1.0)
    outcome(connection, "t2", 0.0, candidate="b")
    outcome(connection, "t3", 1.0)
    outcome(connection, "t3", None, purpose="noise")
    assert [(flicker.task, flicker.differed, flicker.repeated) for flicker in flickering(connection)] == [("t1", 1, 1)]


def test_reasons_for_missing_outcomes_are_counted(connection: sqlite3.Connection) -> None:
    for task in ("t1", "t2"):
        outcome(connection, task, None)
    assert [(reason.error, reason.n) for reason in missing_reasons(connection)] == [("429 <b>", 2)]


def test_every_recorded_role_score_equals_the_mean_of_its_rows(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(generations=2)) as index:
        found = means(index.connection)
        scored = role_scores(index.connection)
        assert scored
        for score in scored:
            assert found[score.role, score.candidate].value == pytest.approx(score.mean)
        audit = audits(index.connection)[0]
        flipped = flips(index.connection, audit)
        assert (len(flipped.fixed), len(flipped.broken), len(flipped.missing)) == (audit.fixed, audit.broken, 5)
