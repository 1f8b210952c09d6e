"""What `heldout tasks check` and `heldout tasks list` show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from heldout.config import TasksConfig
from heldout.errors import SetupError, TaskError
from heldout.records import Record
from heldout.registry import load
from heldout.tasks.base import Item
from heldout.tasks.duplicates import DuplicatePair, clusters, find_duplicates
from heldout.tasks.graders import CheckedGrader, last_number, load_grader, normalise_label
from heldout.tasks.sources import SOURCES, load_source, read_items
from heldout.tasks.splitting import divide

__all__ = ["DuplicateExample", "SourceEntry", "SourceReport", "check_source", "list_sources"]

_EXAMPLES = 5
_FAILURES = 10


class SourceEntry(Record):
    """A source that `tasks.source` may name."""

    name: str
    summary: str
    """First line of its docstring."""


class DuplicateExample(Record):
    """A pair of tasks with the same or nearly the same text."""

    a: str
    b: str
    similarity: float
    exact: bool
    a_text: str
    """Cut to 120 characters."""
    b_text: str


class SourceReport(Record):
    """What a task source holds, and whether a run on it can be trusted."""

    source: str
    items: int
    strata: Mapping[str, int]
    pools: Mapping[str, int]
    """Items that may only enter the report role of that name."""
    roles: Mapping[str, Mapping[str, int]]
    """Role to stratum to number of tasks; empty where the division is refused."""
    exact_duplicates: int
    """Copies of a text that came before, in the whole source."""
    near_duplicates: int
    """Near pairs among the different texts."""
    copies: int
    """Items that `tasks.duplicates = "drop"` leaves out."""
    examples: tuple[DuplicateExample, ...]
    grader: str
    gold_right: int
    """Items whose own reference scores 1."""
    wrong_refused: int
    """Items for which a wrong answer scores 0."""
    failures: tuple[str, ...]
    """What must be mended before a run; empty when all is well."""

    @property
    def ok(self) -> bool:
        return not self.failures


def check_source(config: TasksConfig) -> SourceReport:
    """Read a source, look for duplicates, divide it, and try the grader with right and wrong answers.

    Faults of the division, the texts and the grader are listed in `failures`; a source that cannot be
    read at all is a `SetupError`.
    """
    source = load_source(config)
    items = read_items(source, name=config.source)
    grader = load_grader(config.grader or source.grader)
    pairs = find_duplicates(items)
    gold, gold_faults = _grade_all(grader, items, {item.id: item.reference for item in items}, want=1.0)
    wrong_answers = {item.id: _wrong_answer(item, source.labels, grader) for item in items}
    wrong, wrong_faults = _grade_all(grader, items, wrong_answers, want=0.0)
    roles, division_faults = _try_division(items, config)
    return SourceReport(
        source=config.source,
        items=len(items),
        strata=_counts(item.stratum for item in items),
        pools=_counts(item.pool for item in items if item.pool),
        roles=roles,
        exact_duplicates=sum(pair.exact for pair in pairs),
        near_duplicates=sum(not pair.exact for pair in pairs),
        copies=sum(len(cluster) - 1 for cluster in clusters(pairs)),
        examples=_examples(items, pairs),
        grader=grader.name,
        gold_right=gold,
        wrong_refused=wrong,
        failures=(
            *division_faults,
            *_same_labels(source.labels, grader),
            *_every_label(items, source.labels, grader),
            *gold_faults,
            *wrong_faults,
        ),
    )


def list_sources() -> tuple[SourceEntry, ...]:
    """Every named source with a one-line summary."""
    entries = []
    for name in SOURCES:
        text = (load(name, among=SOURCES, what="task source").__doc__ or "").strip()
        entries.append(SourceEntry(name=name, summary=text.split("\n", 1)[0]))
    return tuple(entries)


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _examples(items: Sequence[Item], pairs: Sequence[DuplicatePair]) -> tuple[DuplicateExample, ...]:
    text_of = {item.id: " ".join(item.input.split())[:120] for item in items}
    exact = [pair for pair in pairs if pair.exact][:_EXAMPLES]
    near = [pair for pair in pairs if not pair.exact][:_EXAMPLES]
    return tuple(
        DuplicateExample(
            a=pair.a,
            b=pair.b,
            similarity=pair.similarity,
            exact=pair.exact,
            a_text=text_of[pair.a],
            b_text=text_of[pair.b],
        )
        for pair in (*exact, *near)
    )


def _try_division(items: Sequence[Item], config: TasksConfig) -> tuple[dict[str, dict[str, int]], list[str]]:
    try:
        division = divide(items, config)
    except SetupError as fault:
        return {}, [str(fault)]
    return {role: _counts(item.stratum for item in members) for role, members in division.roles.items()}, []


def _same_labels(labels: Sequence[str], grader: CheckedGrader) -> list[str]:
    """Labels that `label` cannot tell apart."""
    seen: dict[str, str] = {}
    faults = []
    for label in labels if grader.name == "label" else ():
        other = seen.setdefault(normalise_label(label), label)
        if other != label:
            faults.append(f"the labels {other!r} and {label!r} are the same answer to the grader 'label'")
    return faults


def _every_label(items: Sequence[Item], labels: Sequence[str], grader: CheckedGrader) -> list[str]:
    """An answer that names every label commits to none; a solver that may score by it will learn to give it."""
    answer = ", ".join(labels)
    tried = items if len(labels) > 1 else ()
    fooled, _ = _grade_all(grader, tried, {item.id: answer for item in tried}, want=1.0)
    return [f"an answer that lists every label scores 1 on {fooled} tasks; use the grader 'label'"] if fooled else []


def _wrong_answer(item: Item, labels: Sequence[str], grader: CheckedGrader) -> str:
    """Another label; for numbers one more than the reference; else a text that answers nothing."""
    own = normalise_label(item.reference)
    others = [label for label in labels if normalise_label(label) != own]
    if others:
        return others[0]
    value = last_number(item.reference) if grader.name == "number" else None
    return str(value + 1) if value is not None else "(this is no answer)"


def _grade_all(
    grader: CheckedGrader, items: Sequence[Item], answers: Mapping[str, str], *, want: float
) -> tuple[int, list[str]]:
    """How many answers score `want`, and the faults, the first few in words."""
    faults: list[str] = []
    for item in items:
        answer = answers[item.id]
        try:
            score = grader(answer, item.reference, task=item.id)
        except TaskError as fault:
            faults.append(str(fault))
            continue
        if score != want:
            kind = "its own reference" if want else "a wrong answer"
            faults.append(f"task {item.id!r}: {kind} {answer[:60]!r} scores {score:g}, expected {want:g}")
    shown = faults[:_FAILURES] + ([f"… and {len(faults) - _FAILURES} more"] if len(faults) > _FAILURES else [])
    return len(items) - len(faults), shown
