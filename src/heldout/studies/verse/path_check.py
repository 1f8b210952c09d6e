"""Part (d): a real, very small model in the real tool loop and sandbox; it shows that the path works, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from heldout.config import ModelConfig, SolverConfig, TasksConfig, config_digest, load_config
from heldout.harness import ended_by
from heldout.harness.workspace import PROMPT_FILE
from heldout.models import Model, make_model
from heldout.records import Candidate, Outcome
from heldout.studies.few_tasks import few_tasks
from heldout.studies.results import Part
from heldout.studies.tables import Cell, Table
from heldout.tasks.sources import load_source

__all__ = ["PathPlan", "path_check"]


@dataclass(frozen=True, slots=True)
class PathPlan:
    """What is run."""

    model: ModelConfig = field(default_factory=lambda: ModelConfig(name="smollm2", max_tokens=256))
    tasks: int = 12
    max_turns: int = 4
    obs_cap: int = 1024
    """So little, that the small model's context holds the episode."""
    seed: int = 0

    @property
    def solver(self) -> SolverConfig:
        options = {"max_turns": self.max_turns, "obs_cap": self.obs_cap}
        return SolverConfig(model=self.model, harness="tool_loop", options=options)


def path_check(plan: PathPlan | None = None) -> Part:
    """One episode on each of a few tasks: model, tool loop, sandbox, grader."""
    chosen = plan or PathPlan()
    model = make_model(chosen.model)
    try:
        outcomes = _outcomes(chosen, model)
    finally:
        model.close()
    unmeasured = sum(one.score is None for one in outcomes)
    return Part(
        id="d",
        title="Path check",
        simulated=model.simulated,
        quick=False,
        intro=(
            f"**Path check.** {model.name} as the executor in the real tool loop and sandbox, one episode on each of "
            f"{len(outcomes)} tasks of the world `repair`: {len(outcomes) - unmeasured} came to a graded end, "
            f"{unmeasured} did not. This shows that model, tool loop, sandbox and grader work together. The numbers "
            "are not evidence of anything else: a model of this size does not mend packages."
        ),
        tables=(_table(outcomes),),
        config_digests={"run": config_digest(load_config([{"loop": "verse", "solver": chosen.solver.model_dump()}]))},
    )


def _outcomes(plan: PathPlan, model: Model) -> Sequence[Outcome]:
    source = load_source(TasksConfig(source="repair", seed=plan.seed))
    few = few_tasks(source, plan.solver, model, count=plan.tasks, seed=plan.seed)
    return few.outcomes(Candidate(files={PROMPT_FILE: source.instruction}))


def _table(outcomes: Sequence[Outcome]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            one.task,
            *(int(one.measures.get(name, 0.0)) for name in ("turns", "commands", "format_errors")),
            one.error or ended_by(one.measures) or "submitted",
            one.spend.tokens_in + one.spend.tokens_out,
            one.score,
        )
        for one in outcomes
    ]
    return Table(
        name="path_check",
        title="Path check, episode by episode",
        note="Not evidence: whether a model of this size mends anything is not the question.",
        columns=("task", "turns", "commands", "format errors", "ended by", "tokens", "score"),
        rows=tuple(rows),
    )
