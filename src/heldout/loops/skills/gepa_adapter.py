"""Our tasks, engine and improver behind the interface of the package `gepa`: a `GEPAAdapter` and a stopper in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from heldout.loops.agents.sweeping import measured_sweep
from heldout.loops.session import Scored, score_column, unscored
from heldout.loops.skills.attributing import attribute, told
from heldout.loops.skills.deciding import decision_of, move, no_proposal, settle
from heldout.loops.skills.editing import ask_for_edit
from heldout.loops.skills.solving import retries, run_batch
from heldout.loops.skills.state import Batch, SkillSearch
from heldout.loops.skills.tabling import compare_once, on_select, record_table
from heldout.records import Candidate, Decision, Verdict
from heldout.rollouts import Sweep
from heldout.stats import EQUAL_WITHIN
from heldout.store.skill_events import ModuleEdited

__all__ = ["GepaAdapter", "Watch"]

GATE = "gepa"

Texts = Mapping[str, str]
"""A candidate as GEPA knows it: component to text; here, file to text."""


class Watch:
    """Remembers the error that left a block, and refuses every block after it.

    GEPA takes an error in a reflection for no proposal, and goes on; a spent budget or a damaged journal must not.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        self.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, trace
        self.error = self.error or error

    def check(self) -> None:
        """Raise what is remembered."""
        if self.error is not None:
            raise self.error


@dataclass(slots=True)
class Turn:
    """One of GEPA's iterations, as far as it has come."""

    number: int
    """From 1; a round of ours."""
    batch: Batch | None = None
    """The minibatch under the parent."""
    before: Mapping[str, float] = field(default_factory=dict)
    """Its scores by train id, NaN where not measured."""
    edit: ModuleEdited | None = None
    after: Mapping[str, float] | None = None
    """The minibatch under the child; None where there is none."""
    why: str = ""
    """Why there is no child."""


@dataclass(slots=True)
class GepaAdapter:
    """What GEPA calls. It is handed ids of tasks, and never a body: select tasks give it scores, and train tasks give
    our attributor and editor their traces.

    GEPA knows no missing scores. Of a minibatch, a task that is missing on one side counts alike on both; of select, it
    counts as the candidate's mean, and a candidate that was hardly measured scores 0.
    """

    search: SkillSearch
    batch_of: Callable[..., Any]
    """GEPA's record of an evaluated batch."""
    watch: Watch = field(default_factory=Watch)
    turn: Turn | None = None
    pool: int = 1
    """Candidates that GEPA holds."""

    def stops(self, state: Any) -> bool:
        """Between two iterations: what became of the last one goes on record, and the next one begins."""
        self.watch.check()
        if self.turn is not None:
            self._conclude(self.turn, state)
        self.turn = Turn(int(state.i) + 2)
        return self.search.gives_up

    def evaluate(self, batch: list[str], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        """Scores of these tasks, at the seeds of the iteration (train) or of the start (select)."""
        del capture_traces
        self.watch.check()
        train = {task.id: task for task in self.search.session.tasks.train}
        made = Candidate(files=dict(candidate))
        if batch[0] not in train:
            scores = self._select_scores(made)
            return self._batch(batch, scores)
        turn = self._turn()
        tasks = [train[name] for name in dict.fromkeys(batch)]  # GEPA fills a last minibatch up with repeats
        if turn.batch is not None:
            turn.after = self._train_scores(made, tasks, number=turn.number)
            return self._batch(batch, _against(turn.before, turn.after))
        turn.batch = run_batch(self.search, made, tasks, number=turn.number)
        measured = {trace.task.id: trace.score for trace in turn.batch.traces}
        turn.before = {task.id: measured.get(task.id, np.nan) for task in tasks}
        shown = {trace.task.id: trace for trace in turn.batch.traces}
        traces = [shown.get(name) for name in batch] if shown else []
        return self._batch(batch, {name: np.nan_to_num(score) for name, score in turn.before.items()}, traces)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Which train tasks were run; the traces themselves go to our own improver in `propose_new_texts`."""
        del candidate
        run = [{"task": trace.task.id, "score": trace.score} for trace in eval_batch.trajectories if trace is not None]
        return dict.fromkeys(components_to_update, run)

    def propose_new_texts(
        self, candidate: dict[str, str], reflective_dataset: Mapping[str, Any], components_to_update: list[str]
    ) -> dict[str, str]:
        """Our attributor and editor on the first learnable failure of the minibatch; nothing where there is none."""
        del reflective_dataset
        with self.watch:
            turn = self._turn()
            learnable = None if turn.batch is None else attribute(self.search, turn.batch)
            if learnable is None:
                turn.why = "no failure of the minibatch could be learned from"
                return {}
            component = components_to_update[0] if self.search.target == "guide" else None
            turn.edit = ask_for_edit(
                self.search,
                learnable.head,
                (learnable.trace,),
                (told(learnable),),
                number=turn.number,
                module=component,
            )
            return self._new_texts(turn, turn.edit, candidate)

    def _new_texts(self, turn: Turn, edit: ModuleEdited, candidate: Texts) -> dict[str, str]:
        if edit.digest is None:
            turn.why = f"no candidate: {edit.fault}"
            return {}
        files = self.search.session.store.load(edit.digest).files
        if files.keys() != candidate.keys():
            odd = ", ".join(sorted(files.keys() ^ candidate.keys()))
            turn.why = f"no candidate: GEPA's components are fixed, and the edit adds or deletes {odd}"
            return {}
        return {path: text for path, text in files.items() if text != candidate[path]}

    def _turn(self) -> Turn:
        if self.turn is None:
            raise RuntimeError("GEPA ran a train task before its first iteration began")
        return self.turn

    def _batch(self, ids: Sequence[str], scores: Mapping[str, float], traces: Sequence[Any] | None = None) -> Any:
        values = [float(scores[name]) for name in ids]
        return self.batch_of(outputs=[None] * len(ids), scores=values, trajectories=traces)

    def _train_scores(self, made: Candidate, tasks: Sequence[Any], *, number: int) -> Mapping[str, float]:
        sweep = Sweep(made, tasks, "train", number, traced=True)
        scores = score_column(measured_sweep(self.search.session, sweep, retries(self.search.options.sweep)))
        return {task.id: float(score) for task, score in zip(tasks, scores, strict=True)}

    def _select_scores(self, made: Candidate) -> Mapping[str, float]:
        scores = on_select(self.search, made, repeat=0)
        there = ~np.isnan(scores)
        enough = bool(there.any()) and there.mean() >= self.search.options.sweep.coverage
        filled = np.where(there, scores, scores[there].mean()) if enough else np.zeros_like(scores)
        tasks = self.search.session.tasks.select
        return {task.id: float(score) for task, score in zip(tasks, filled, strict=True)}

    def _conclude(self, turn: Turn, state: Any) -> None:
        """The decision of an iteration, as GEPA made it, and the head where GEPA has a new best."""
        entered, self.pool = len(state.program_candidates) > self.pool, len(state.program_candidates)
        if turn.batch is None:
            return
        parent = self._scored(turn.batch.candidate)
        if turn.edit is None or turn.edit.digest is None or turn.after is None:
            no_proposal(self.search, turn.number, turn.why or _nothing(turn.batch), edit=turn.edit, parent=parent)
            return
        child = self.search.session.store.load(turn.edit.digest)
        on_batch = _on_minibatch(turn, floor=self.search.options.sweep.coverage)
        if not entered:
            settle(self.search, turn.edit, on_batch, parent=parent, candidate=unscored(child), table=None)
            return
        values = list(state.program_full_scores_val_set)
        self._enter(turn, turn.edit, child, on_batch, best=values.index(max(values)) == len(values) - 1)

    def _enter(self, turn: Turn, edit: ModuleEdited, child: Candidate, on_batch: Decision, *, best: bool) -> None:
        measured = compare_once(self.search, self._turn_parent(turn), child)
        table = record_table(self.search, measured, number=turn.number)
        parent, scored = measured.sides
        enough = table.coverage >= self.search.options.sweep.coverage
        reason = f"{on_batch.reason}; {'the best on select so far' if best else 'not the best on select'}"
        verdict = Verdict.ACCEPT if enough else Verdict.UNDECIDED
        decision = decision_of(table, gate=GATE, verdict=verdict, reason=reason)
        settle(self.search, edit, decision, parent=parent, candidate=scored, table=table)
        if best and enough:
            move(self.search, scored, number=turn.number, why=reason)

    def _turn_parent(self, turn: Turn) -> Candidate:
        return self.search.head.candidate if turn.batch is None else turn.batch.candidate

    def _scored(self, candidate: Candidate) -> Scored:
        return Scored(candidate, on_select(self.search, candidate, repeat=0)[:, None])


def _against(before: Mapping[str, float], after: Mapping[str, float]) -> Mapping[str, float]:
    """The child's scores as GEPA sums them up: what is missing on a side is as the parent's was told."""
    return {
        name: float(np.nan_to_num(before[name])) if np.isnan(before[name]) or np.isnan(score) else score
        for name, score in after.items()
    }


def _nothing(batch: Batch) -> str:
    return "every task of the minibatch passed" if batch.traces else "no task of the minibatch could be measured"


def _on_minibatch(turn: Turn, *, floor: float) -> Decision:
    """What the minibatch says of the child: GEPA lets it go on to select where its sum rises."""
    after = turn.after or {}
    gained = np.array([after[name] - score for name, score in turn.before.items()])
    pairs = gained[~np.isnan(gained)]
    rose, fell = int((pairs > EQUAL_WITHIN).sum()), int((pairs < -EQUAL_WITHIN).sum())
    enough = len(pairs) / max(1, len(gained)) >= floor
    return Decision(
        gate=GATE,
        verdict=Verdict.REJECT if enough else Verdict.UNDECIDED,
        winner=0,
        n=len(pairs),
        effect=float(pairs.mean()) if len(pairs) else None,
        wins=rose,
        losses=fell,
        reason=f"{rose} rose and {fell} fell on {len(pairs)} of {len(gained)} tasks of the minibatch",
    )
