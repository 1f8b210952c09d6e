"""The mechanical checks of a round's winner; no score is returned from them (spec §4, step 7)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from heldout.harness import dry_run_hooks, shortened
from heldout.loops.agents.state import Agents
from heldout.probes import inconsistencies
from heldout.records import Candidate, Evidence
from heldout.rollouts import Sweep
from heldout.store.agent_events import Smoked, Submitted

__all__ = ["smoke", "words_shared"]

WINDOW = 13
"""Words in a row that are a quotation."""


@dataclass(frozen=True, slots=True)
class _Found:
    check: str
    fault: str


def smoke(agents: Agents, number: int, attempt: int, submission: Submitted, evidence: Sequence[Evidence]) -> Smoked:
    """The first fault of a submission, or none; recorded."""
    recorder = agents.session.recorder
    known = recorder.find("smoke", f"{number}/{attempt}", Smoked)
    if known is not None:
        return known
    found = next(_faults(agents, submission, evidence), _Found("", ""))
    return recorder.record(
        "smoke",
        Smoked(round=number, attempt=attempt, candidate=submission.digest, check=found.check, fault=found.fault),
    )


def _faults(agents: Agents, submission: Submitted, evidence: Sequence[Evidence]) -> Iterator[_Found]:
    """Each check in turn, the cheap ones first."""
    if agents.options.smoke.leak_check and (leak := _leak(agents, submission)):
        yield _Found("leak", leak)
    base = agents.tried_on(submission.proposal).digest
    for contradiction in inconsistencies(submission.proposal, evidence, edits_digest=submission.edits, base=base):
        yield _Found("claims", contradiction)
    if submission.digest is None or submission.fault:
        yield _Found("apply", submission.fault or "the proposal makes no candidate")
        return
    candidate = agents.session.store.load(submission.digest)
    if refused := agents.session.check(candidate):
        yield _Found("apply", refused)
        return
    for fault in dry_run_hooks(candidate, agents.session.engine.harness):
        yield _Found("hooks", fault)
    if crash := _trial_episode(agents, candidate):
        yield _Found("episode", crash)


def _leak(agents: Agents, submission: Submitted) -> str:
    """A task id, or a piece of a reference solution, in what the edits add."""
    tasks = agents.session.tasks
    added = "\n".join(edit.content or "" for edit in submission.proposal.edits)
    ids = {task for members in tasks.plan.values() for task, _ in members}
    named = next((task for task in sorted(ids) if re.search(rf"(?<!\w){re.escape(task)}(?!\w)", added)), None)
    if named is not None:
        return "the edits name a task by its id; a harness must serve tasks that it has not seen"
    if agents.solutions is None:
        agents.solutions = tasks.solution_texts()
    if words_shared(added, agents.solutions):
        return f"the edits quote {WINDOW} words in a row of a task's reference solution"
    return ""


def words_shared(text: str, others: Iterable[str]) -> bool:
    """Whether `text` shares a run of 13 words with any of the others; words are runs of letters, digits and _."""
    windows = set(_windows(text))
    return bool(windows) and any(not windows.isdisjoint(_windows(other)) for other in others)


def _windows(text: str) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return (tuple(words[i : i + WINDOW]) for i in range(len(words) - WINDOW + 1))


def _trial_episode(agents: Agents, candidate: Candidate) -> str:
    """One short episode on a train task; it may fail the task, and must not crash."""
    session = agents.session
    harness = shortened(session.engine.harness, agents.options.smoke.turns)
    engine = replace(session.engine, harness=harness)
    outcome = engine.evaluate(Sweep(candidate, session.tasks.train[:1], "smoke"), grade=session.tasks.grade)[0]
    return outcome.error or "" if outcome.score is not None else ""
