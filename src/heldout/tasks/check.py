"""What `heldout tasks check` and `heldout tasks list` show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from heldout.config import TasksConfig
from heldout.errors import BoundaryError, SetupError, TaskError, boundary
from heldout.records import Record, digest_of
from heldout.registry import load
from heldout.tasks.base import Item, TaskSource
from heldout.tasks.duplicates import DuplicatePair, clusters, find_duplicates
from heldout.tasks.graders import CheckedGrader, last_number, load_grader, normalise_label
from heldout.tasks.sources import SOURCES, environment_of, has_solutions, load_source, read_items, solution_of
from heldout.tasks.splitting import divide

__all__ = ["DuplicateExample", "SourceEntry", "SourceReport", "check_source", "list_sources"]

_EXAMPLES = 5
_FAILURES = 10
_SAMPLE = 24
"""Items that are graded where grading runs code, unless another number is asked for."""
_NO_CHANGE = "{}"


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
    graded: int
    """Items whose right and wrong answers were graded: all, or a sample of each stratum where grading runs code."""
    gold_known: bool = True
    """Whether the source knows right answers; where it does not, none is graded."""
    gold_right: int
    """Graded items whose own reference scores 1."""
    wrong_refused: int
    """Graded items for which a wrong answer scores 0."""
    exclude: tuple[str, ...]
    """Graded items whose own reference does not score 1: they are to be left out of the source before a run."""
    failures: tuple[str, ...]
    """What must be mended before a run; empty when all is well."""

    @property
    def ok(self) -> bool:
        return not self.failures


def check_source(config: TasksConfig, *, sample: int | None = None) -> SourceReport:
    """Read a source, look for duplicates, divide it, and try the grader with right and wrong answers.

    Grading what was left in a work folder runs code, so of such sources only `sample` items are graded (None is 24, 0
    is all), spread over the strata. Faults of the division, the texts and the grader are listed in `failures`; a
    source that cannot be read at all is a `SetupError`.
    """
    source = load_source(config)
    items = read_items(source, name=config.source)
    grader = load_grader(config.grader or source.grader)
    pairs = find_duplicates(items)
    tried = (
        items if environment_of(source) is None else _spread(items, _SAMPLE if sample is None else sample, config.seed)
    )
    told = tried if has_solutions(source) else []
    gold = _grade_all(grader, told, {item.id: _right_answer(source, item) for item in told}, want=1.0)
    wrong = _grade_all(grader, tried, {item.id: _wrong_answer(source, item, grader) for item in tried}, want=0.0)
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
        graded=len(tried),
        gold_known=has_solutions(source),
        gold_right=len(told) - len(gold),
        wrong_refused=len(tried) - len(wrong),
        exclude=tuple(gold),
        failures=(
            *division_faults,
            *_same_labels(source.labels, grader),
            *_every_label(items, source.labels, grader),
            *_shown(gold.values()),
            *_shown(wrong.values()),
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
    fooled = len(tried) - len(_grade_all(grader, tried, {item.id: answer for item in tried}, want=1.0))
    return [f"an answer that lists every label scores 1 on {fooled} tasks; use the grader 'label'"] if fooled else []


def _spread(items: Sequence[Item], size: int, seed: int) -> list[Item]:
    """`size` items (0 is all), the strata in turn, which of each the seed says; in the order of the source."""
    turns: Counter[str] = Counter()
    ranked: list[tuple[int, str, str]] = []
    for item in sorted(items, key=lambda item: digest_of([seed, item.id])):
        ranked.append((turns[item.stratum], item.stratum, item.id))
        turns[item.stratum] += 1
    chosen = {name for _, _, name in sorted(ranked)[: size or len(ranked)]}
    return [item for item in items if item.id in chosen]


def _right_answer(source: TaskSource, item: Item) -> str:
    with boundary(TaskError, f"the task source could not make a solution of {item.id!r}"):
        return solution_of(source, item)


def _wrong_answer(source: TaskSource, item: Item, grader: CheckedGrader) -> str:
    """In a work folder no change, nothing where only rules are known; else another label, for numbers one more, or a
    text that answers nothing."""
    if environment_of(source) is not None:
        return _NO_CHANGE
    if not has_solutions(source):
        return ""
    own = normalise_label(item.reference)
    others = [label for label in source.labels if normalise_label(label) != own]
    if others:
        return others[0]
    value = last_number(item.reference) if grader.name == "number" else None
    return str(value + 1) if value is not None else "(this is no answer)"


def _grade_all(
    grader: CheckedGrader, items: Sequence[Item], answers: Mapping[str, str], *, want: float
) -> dict[str, str]:
    """The items whose answer does not score `want`, and why."""
    faults: dict[str, str] = {}
    for item in items:
        answer = answers[item.id]
        try:
            score = grader(answer, item.reference, task=item.id)
        except BoundaryError as fault:
            faults[item.id] = str(fault)
            continue
        if score != want:
            kind = "its own reference" if want else "a wrong answer"
            faults[item.id] = f"task {item.id!r}: {kind} {answer[:60]!r} scores {score:g}, expected {want:g}"
    return faults


def _shown(faults: Collection[str]) -> list[str]:
    """The first few faults in words."""
    more = len(faults) - _FAILURES
    return [*list(faults)[:_FAILURES], *([f"… and {more} more"] if more > 0 else [])]
