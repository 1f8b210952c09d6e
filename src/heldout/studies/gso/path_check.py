"""Part (e): a real, very small model writes skills and follows them in the real sandbox; a path check, no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heldout.config import ModelConfig, SolverConfig, TasksConfig, config_digest, load_config
from heldout.harness import Step, ended_by
from heldout.models import Model, make_model
from heldout.records import Candidate, Outcome, Trajectory
from heldout.skills.guide import NO_SKILL, start_guide
from heldout.skills.modules import SKILL_FILE
from heldout.studies.few_tasks import few_tasks
from heldout.studies.results import Part
from heldout.studies.tables import Cell, Table
from heldout.tasks.sources import load_source

__all__ = ["PathPlan", "path_check"]


@dataclass(frozen=True, slots=True)
class PathPlan:
    """What is run."""

    model: ModelConfig = field(
        default_factory=lambda: ModelConfig(name="smollm2", max_tokens=256, timeout_s=600.0, options={"n_ctx": 8192})
    )
    tasks: int = 10
    max_turns: int = 3
    writer_tokens: int = 512
    bare: int = 2
    """Tasks that are run without a skill besides: a writer that fails keeps the solver from being asked."""
    seed: int = 0

    @property
    def solver(self) -> SolverConfig:
        options = {"max_turns": self.max_turns, "obs_cap": 1024, "writer_tokens": self.writer_tokens}
        return SolverConfig(model=self.model, harness="skilled", options=options)


def path_check(plan: PathPlan | None = None) -> Part:
    """The start guide, one episode on each of a few tasks: writer, solver, sandbox, grader."""
    chosen = plan or PathPlan()
    model = make_model(chosen.model)
    traces: dict[str, Trajectory] = {}
    try:
        outcomes = _outcomes(chosen, model, traces)
    finally:
        model.close()
    unmeasured = sum(one.score is None for one in outcomes)
    written = sum(SKILL_FILE in one.artifacts for one in outcomes)
    asked = sum(one.measures.get("skill_calls", 0.0) > 0.0 for one in outcomes)
    return Part(
        id="e",
        title="Path check",
        simulated=model.simulated,
        quick=False,
        intro=(
            f"**Path check.** {model.name} as writer and solver in the real harness and sandbox: one episode under the "
            f"start guide on each of {asked} tasks of the world `tables`, and {len(outcomes) - asked} without a skill. "
            f"Of {asked} skills that it wrote, {written} could be used; an episode without a usable one has failed. "
            f"{len(outcomes) - unmeasured} episodes came to a graded end, {unmeasured} did not. This shows that "
            "writer, harness, sandbox and grader work together on real text. No claim is attached to it: a model of "
            "this size does not do these tasks."
        ),
        tables=(_table(outcomes, traces),),
        config_digests={"run": config_digest(load_config([{"loop": "gso", "solver": chosen.solver.model_dump()}]))},
    )


def _outcomes(plan: PathPlan, model: Model, traces: dict[str, Trajectory]) -> Sequence[Outcome]:
    source = load_source(TasksConfig(source="tables", seed=plan.seed))
    few = few_tasks(source, plan.solver, model, count=plan.tasks, seed=plan.seed, keep_trace=traces.__setitem__)
    guided = few.outcomes(Candidate(files=start_guide()), traced=True)
    bare = few.outcomes(Candidate(files=NO_SKILL), first=plan.bare, traced=True)
    return [*guided, *bare]


def _table(outcomes: Sequence[Outcome], traces: Mapping[str, Trajectory]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            *(one.task, _its_skill(one, traces.get(one.key))),
            *(int(one.measures.get(name, 0.0)) for name in ("turns", "commands", "format_errors")),
            one.error or ended_by(one.measures) or ("submitted" if one.measures.get("submitted") else "–"),
            one.spend.tokens_in + one.spend.tokens_out,
            one.score,
        )
        for one in outcomes
    ]
    return Table(
        name="path_check",
        title="Path check, episode by episode",
        note="Not evidence: whether a model of this size does anything with tables is not the question.",
        columns=("task", "its skill", "turns", "commands", "format errors", "ended by", "tokens", "score"),
        rows=tuple(rows),
    )


def _its_skill(outcome: Outcome, trace: Trajectory | None) -> str:
    """Whether the writer's reply was used, or why it is no skill, in its first words."""
    if SKILL_FILE in outcome.artifacts:
        return "used"
    if not outcome.measures.get("skill_calls") or trace is None or not trace.steps:
        return "none was asked for"
    return f"refused: {Step.model_validate(trace.steps[0]).output.splitlines()[0][:120]}"
