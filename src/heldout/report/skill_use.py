"""What the index says of episodes that solve with a skill: calls, recoveries, the texts that they left, and costs."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pydantic_core import from_json

from heldout.records import Spend
from heldout.skills.modules import SKILL_FILE

__all__ = ["Episode", "SkillUse", "left_texts", "round_windows", "skill_use", "spend_by_round", "total_use"]

Window = tuple[int, int]
"""(exclusive, inclusive) sequence numbers of events."""

_STEPS = ("skill.round", "fault.attributed", "skill.edit", "skill.table", "decision")
"""Kinds of event that belong to a round; the last of them is its end."""

_BEFORE = ("run.started", "split", "candidate", "noise.measured")
"""Kinds of event that come before the first round's own work."""

_SPENT = ", ".join(f"TOTAL({name})" for name in Spend.model_fields)


@dataclass(frozen=True, slots=True)
class Episode:
    """The last time that a candidate was run on a task before the end of a round."""

    round: int
    candidate: str
    task: str


@dataclass(frozen=True, slots=True)
class SkillUse:
    """Episodes of one purpose that said what they counted."""

    purpose: str
    episodes: int
    skill_calls: int
    """Model calls that wrote a skill for one task."""
    skills: int
    """Different skills among them; each is a record, and no later task reads it."""
    faults_declared: int
    """Faults that a solver's own checks found, and that it said so of."""
    recoveries: int
    recovered: int
    """Episodes that passed after a recovery."""


def skill_use(connection: sqlite3.Connection) -> tuple[SkillUse, ...]:
    """By purpose, the most episodes first; without purposes whose episodes counted nothing of skills."""
    rows = connection.execute(
        """
        SELECT purpose, COUNT(*), TOTAL(calls), COUNT(DISTINCT skill), TOTAL(faults), TOTAL(recoveries),
               TOTAL(recoveries > 0 AND status = 'passed')
        FROM (SELECT purpose, status, json_extract(measures, '$.skill_calls') AS calls,
                     json_extract(measures, '$.faults_declared') AS faults,
                     json_extract(measures, '$.recoveries') AS recoveries, json_extract(artifacts, ?) AS skill
              FROM outcomes WHERE measures IS NOT NULL)
        WHERE calls IS NOT NULL OR recoveries IS NOT NULL GROUP BY purpose ORDER BY 2 DESC, 1
        """,
        (f'$."{SKILL_FILE}"',),
    )
    return tuple(SkillUse(row[0], *(int(value) for value in row[1:])) for row in rows)


def total_use(rows: Iterable[SkillUse]) -> SkillUse:
    """The sum over purposes; a skill that two purposes share counts for each."""
    found = list(rows)
    names = ("episodes", "skill_calls", "skills", "faults_declared", "recoveries", "recovered")
    return SkillUse("total", **{name: sum(getattr(one, name) for one in found) for name in names})


def round_windows(connection: sqlite3.Connection) -> Mapping[int, Window]:
    """Which events belong to each round: those after the end of the round before, up to its own last step."""
    marks = ", ".join("?" * len(_STEPS))
    rounds = connection.execute(
        f"""
        SELECT COALESCE(json_extract(data, '$.round'), json_extract(data, '$.generation')), MIN(seq), MAX(seq)
        FROM events WHERE kind IN ({marks}) GROUP BY 1 ORDER BY 2
        """,
        _STEPS,
    ).fetchall()
    found: dict[int, Window] = {}
    after = _beginning(connection, rounds[0][1]) if rounds else 0
    for number, _, last in rounds:
        found[number] = (after, last)
        after = max(after, last)
    return found


def spend_by_round(connection: sqlite3.Connection) -> Mapping[int, Spend]:
    """What the episodes of each round cost: the batch, both sides of the select table, second runs; not what
    attributors and editors cost."""
    return {number: _spent(connection, window) for number, window in round_windows(connection).items()}


def left_texts(connection: sqlite3.Connection, episodes: Collection[Episode]) -> Mapping[Episode, Mapping[str, str]]:
    """Digest of each text that an episode left, by name; of a task that was run again in a later round, the texts of
    that time are another episode's. Absent where it left none."""
    ends = {number: last for number, (_, last) in round_windows(connection).items()}
    wanted: defaultdict[tuple[str, str], list[Episode]] = defaultdict(list)
    for one in episodes:
        wanted[one.candidate, one.task].append(one)
    tasks = sorted({one.task for one in episodes})
    rows = connection.execute(
        f"""
        SELECT seq, candidate, task, artifacts FROM outcomes
        WHERE artifacts IS NOT NULL AND task IN ({", ".join("?" * len(tasks))}) ORDER BY seq
        """,
        tasks,
    )
    found: dict[Episode, Mapping[str, str]] = {}
    for seq, candidate, task, artifacts in rows:
        found |= {one: from_json(artifacts) for one in wanted[candidate, task] if seq <= ends.get(one.round, -1)}
    return found


def _beginning(connection: sqlite3.Connection, first: int) -> int:
    marks = ", ".join("?" * len(_BEFORE))
    query = f"SELECT COALESCE(MAX(seq), 0) FROM events WHERE seq < ? AND kind IN ({marks})"
    return int(connection.execute(query, (first, *_BEFORE)).fetchone()[0])


def _spent(connection: sqlite3.Connection, window: Window) -> Spend:
    row = connection.execute(f"SELECT {_SPENT} FROM outcomes WHERE seq > ? AND seq <= ?", window).fetchone()
    fields = zip(Spend.model_fields.items(), row, strict=True)
    return Spend(**{name: int(value) if field.annotation is int else value for (name, field), value in fields})
