"""The questions that every view asks of a run's index; the only place where reports read SQL.

Means come from outcome rows and nothing else: rows without a score are excluded and counted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from heldout.records import OutcomeStatus, Record, Spend
from heldout.store.events import PAYLOADS, AuditResult, NoiseMeasured, RoleScored, RunFinished

__all__ = [
    "PROPOSING",
    "SELECT",
    "Flicker",
    "Flips",
    "LedgerRow",
    "Mean",
    "Means",
    "MissingReason",
    "audits",
    "finished",
    "first_event",
    "flickering",
    "flips",
    "ledger_rows",
    "means",
    "missing_reasons",
    "noise",
    "payloads",
    "role_scores",
]

R = TypeVar("R", bound=Record)

SELECT = "select"
"""Purpose of the outcomes that gates decided on."""

PROPOSING = "propose"
"""The ledger's name for what improvers spent."""

_KINDS: Mapping[type[Record], str] = {record: kind for kind, record in PAYLOADS.items()}


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of one candidate's outcome rows under one purpose, a fraction of one."""

    n: int
    """Rows that have a score."""
    missing: int
    """Rows that have none."""
    value: float | None
    standard_error: float | None = None
    """Over tasks, so that repeats of a task do not count as new tasks; None below two tasks."""


Means = Mapping[tuple[str, str], Mean]
"""(purpose, candidate digest) to its mean."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What one purpose cost."""

    purpose: str
    spend: Spend
    missing: int = 0
    """Evaluations that were paid for and gave no score."""


@dataclass(frozen=True, slots=True)
class Flips:
    """Ids of the tasks whose mean score differs between start and final."""

    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    missing: tuple[str, ...]
    """Measured on one side at most."""


@dataclass(frozen=True, slots=True)
class Flicker:
    """A task that the same candidate both solved and failed, when it was measured more than once."""

    task: str
    differed: int
    """Candidates whose repeated scores differ."""
    repeated: int
    """Candidates that were measured more than once on it."""


@dataclass(frozen=True, slots=True)
class MissingReason:
    """Why outcomes are not measured."""

    purpose: str
    error: str
    n: int


def payloads(connection: sqlite3.Connection, record: type[R]) -> tuple[R, ...]:
    """Every event whose data is a `record`, in the order of the journal."""
    rows = connection.execute("SELECT data FROM events WHERE kind = ? ORDER BY seq", (_KINDS[record],))
    return tuple(record.model_validate_json(row[0]) for row in rows)


def means(connection: sqlite3.Connection) -> Means:
    """Every mean of the run in one pass; hand the result to the queries that accept it."""
    # A missing outcome may have been measured again after a resume: one key, and only the later row has a score.
    rows = connection.execute(
        """
        SELECT purpose, candidate, COUNT(DISTINCT key), COUNT(score), TOTAL(score), TOTAL(score * score),
               COUNT(DISTINCT CASE WHEN score IS NOT NULL THEN task END)
        FROM outcomes GROUP BY purpose, candidate
        """
    ).fetchall()
    found = {}
    for purpose, candidate, count, n, total, squares, tasks in rows:
        if n == tasks:
            error = _standard_error(tasks, total=total, squares=squares)
        else:
            error = _error_over_tasks(connection, purpose, candidate=candidate)
        found[purpose, candidate] = Mean(n, count - n, total / n if n else None, error)
    return found


def _error_over_tasks(connection: sqlite3.Connection, purpose: str, *, candidate: str) -> float | None:
    """Standard error where tasks were measured more than once: of the tasks' own means."""
    row = connection.execute(
        """
        SELECT COUNT(mean), TOTAL(mean), TOTAL(mean * mean)
        FROM (SELECT AVG(score) AS mean FROM outcomes WHERE purpose = ? AND candidate = ? GROUP BY task)
        """,
        (purpose, candidate),
    ).fetchone()
    return _standard_error(row[0], total=row[1], squares=row[2])


def _standard_error(tasks: int, *, total: float, squares: float) -> float | None:
    if tasks < 2:
        return None
    spread = squares - total * total / tasks
    return float((max(0.0, spread) / (tasks - 1) / tasks) ** 0.5)


def noise(connection: sqlite3.Connection) -> NoiseMeasured | None:
    """The A/A check of the run, or None where it was not made."""
    found = payloads(connection, NoiseMeasured)
    return found[-1] if found else None


def audits(connection: sqlite3.Connection) -> tuple[AuditResult, ...]:
    """Every audit result, first opening first; further roles (`test`, `ood`) are among them."""
    return payloads(connection, AuditResult)


def role_scores(connection: sqlite3.Connection) -> tuple[RoleScored, ...]:
    """Scores on report roles, such as `gold`."""
    return payloads(connection, RoleScored)


def finished(connection: sqlite3.Connection) -> RunFinished | None:
    """The end of the search, unless a resumed run has gone on since."""
    row = connection.execute(
        """
        SELECT data FROM events WHERE kind = 'run.finished' AND seq > COALESCE(
            (SELECT MAX(seq) FROM events WHERE kind IN ('generation.started', 'decision', 'track.moved',
             'round.started', 'submission', 'probe', 'screen', 'flips', 'selected', 'meta_audit', 'skill.round',
             'fault.attributed', 'skill.edit', 'skill.table', 'diagnosis', 'strategies', 'dataset', 'preflight',
             'training', 'attempt')), -1)
        ORDER BY seq DESC LIMIT 1
        """
    ).fetchone()
    return RunFinished.model_validate_json(row[0]) if row else None


def first_event(connection: sqlite3.Connection, record: type[Record], **fields: int | str) -> int | None:
    """Number of the first event whose data is a `record` with these fields; None where there is none."""
    asked = "".join(f" AND json_extract(data, '$.{name}') = ?" for name in fields)
    query = f"SELECT MIN(seq) FROM events WHERE kind = ?{asked}"
    found: int | None = connection.execute(query, (_KINDS[record], *fields.values())).fetchone()[0]
    return found


def ledger_rows(connection: sqlite3.Connection, *, since: int = 0) -> tuple[LedgerRow, ...]:
    """Everything that was paid for, by purpose, the most evaluations first; `since` is the first event that counts."""
    spent: dict[str, Spend] = {}
    missing: dict[str, int] = {}
    for row in connection.execute(
        """
        SELECT purpose, COUNT(*) - COUNT(score), SUM(evaluations), SUM(calls), SUM(tokens_in), SUM(tokens_out),
               SUM(cost_usd), SUM(wall_s), SUM(cpu_s), SUM(gpu_s)
        FROM outcomes WHERE seq >= ? GROUP BY purpose
        """,
        (since,),
    ):
        missing[row[0]] = row[1]
        spent[row[0]] = Spend(**dict(zip(Spend.model_fields, row[2:], strict=True)))
    for purpose, spend in _outside_outcomes(connection, since=since):
        if purpose in spent or spend != Spend():
            spent[purpose] = spent.get(purpose, Spend()) + spend
    ordered = sorted(spent.items(), key=lambda item: (-item[1].evaluations, -item[1].calls, item[0]))
    return tuple(LedgerRow(purpose, spend, missing.get(purpose, 0)) for purpose, spend in ordered)


_SUBMITTED = f"CASE WHEN json_extract(data, '$.attempt') > 0 THEN 'repair' ELSE '{PROPOSING}' END"
_PAID: Mapping[str, tuple[str, str]] = {
    "prepared": ("json_extract(data, '$.purpose')", "$.spend"),
    "proposal": (f"'{PROPOSING}'", "$.spend"),
    "submission": (_SUBMITTED, "$.proposal.spend"),
    "method.edited": ("'reflect'", "$.spend"),
    "probe": ("'probe'", "$.spend"),
    "attribution": ("'attribute'", "$.spend"),
    "replay": ("'attribute'", "$.spend"),
    "fault.attributed": ("'attribute'", "$.spend"),
    "skill.edit": ("'edit'", "$.proposal.spend"),
    "judge": ("'judge'", "$.spend"),
    "diagnosis": ("'diagnose'", "$.spend"),
    "strategies": ("'research'", "$.spend"),
    "dataset": ("'build'", "$.spend"),
    "preflight": ("'preflight'", "$.spend"),
    "training": ("'training'", "$.spend"),
}
"""Kind of event, other than outcomes, to the purpose that it was paid for and where its spend is."""


def _outside_outcomes(connection: sqlite3.Connection, *, since: int) -> Iterator[tuple[str, Spend]]:
    """What each event of other kinds cost. Only the spend is read: edits and outputs of commands can be large."""
    for kind, (purpose, place) in _PAID.items():
        query = f"SELECT {purpose}, json_extract(data, '{place}') FROM events WHERE kind = ? AND seq >= ? ORDER BY seq"
        for name, spend in connection.execute(query, (kind, since)):
            yield name, Spend() if spend is None else Spend.model_validate_json(spend)


def flips(connection: sqlite3.Connection, audit: AuditResult) -> Flips:
    """Which tasks of the audited role start and final differ on; ids only."""
    rows = connection.execute(
        """
        SELECT task, AVG(CASE WHEN candidate = ?1 THEN score END), AVG(CASE WHEN candidate = ?2 THEN score END)
        FROM outcomes WHERE purpose = ?3 AND candidate IN (?1, ?2) GROUP BY task ORDER BY task
        """,
        (audit.start, audit.final, audit.role),
    ).fetchall()
    measured = [(task, start, final) for task, start, final in rows if start is not None and final is not None]
    return Flips(
        fixed=tuple(task for task, start, final in measured if final > start),
        broken=tuple(task for task, start, final in measured if final < start),
        missing=tuple(task for task, start, final in rows if start is None or final is None),
    )


def flickering(connection: sqlite3.Connection) -> tuple[Flicker, ...]:
    """Tasks on which one and the same candidate got different scores, the worst first."""
    rows = connection.execute(
        """
        SELECT task, SUM(low < high), COUNT(*)
        FROM (SELECT task, MIN(score) AS low, MAX(score) AS high
              FROM outcomes WHERE score IS NOT NULL GROUP BY candidate, task HAVING COUNT(*) > 1)
        GROUP BY task HAVING SUM(low < high) > 0 ORDER BY 2 DESC, task
        """
    )
    return tuple(Flicker(*row) for row in rows)


def missing_reasons(connection: sqlite3.Connection) -> tuple[MissingReason, ...]:
    """What the errors behind *not measured* were, the most frequent first."""
    rows = connection.execute(
        """
        SELECT purpose, COALESCE(error, ''), COUNT(*)
        FROM outcomes WHERE status = ? GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2
        """,
        (OutcomeStatus.NOT_MEASURED.value,),
    )
    return tuple(MissingReason(*row) for row in rows)
