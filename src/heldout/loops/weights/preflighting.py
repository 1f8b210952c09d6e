"""Step 5 of a round: from tiny data to a short run, with repairs; nothing larger is paid for before both passed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heldout.errors import BoundaryError, BudgetExhausted, ModelError, SetupError, TrainingError
from heldout.improvers.training_roles import Recipe
from heldout.loops.proposing import step_seed
from heldout.loops.trainings import CAREFUL, Fit, thinned
from heldout.loops.weights.building import Asked, build, load_dataset
from heldout.loops.weights.directing import recipe_of
from heldout.loops.weights.state import Direction, Grounded, Prepared, WeightsSearch, instruction_of, weights_of
from heldout.models.base import Reply
from heldout.records import Candidate, Spend
from heldout.rollouts import Sweep
from heldout.store.training_events import Check, DatasetBuilt, Preflighted, StrategiesWeighed
from heldout.store.weights import WeightsOrigin
from heldout.training import Example, Fitted, TrainConfig
from heldout.training.metering import is_accident
from heldout.training.preflight import Limits, projected_s, stage_a, stage_b, template_digest

__all__ = ["prepare"]


@dataclass(frozen=True, slots=True)
class _Attempt:
    number: int
    repair: int
    dataset: DatasetBuilt
    examples: tuple[Example, ...]
    config: TrainConfig


def prepare(search: WeightsSearch, direction: Direction) -> Prepared | Grounded:
    """Build, check, and repair what can be repaired: data and config that a full training may begin with."""
    weighed = direction.weighed
    recipe = None if weighed is None else recipe_of(weighed)
    if weighed is None or weighed.chosen is None or recipe is None:
        return _without_recipe(weighed)
    checks: tuple[Check, ...] = ()
    errors: tuple[str, ...] = ()
    failed = Grounded("no_data", "no data was built")
    for repair in range(search.options.preflight.repairs + 1):
        failures = direction.attributed.failures
        asked = Asked(direction.number, weighed.chosen, weighed.focal, recipe, failures, repair, checks, errors)
        built = build(search, asked)
        if not built.recipe:  # the builder gave up: what was wrong before stays the reason
            status = "not_measured" if built.missing else "no_data"
            return failed if repair else Grounded(status, built.error or failed.reason)
        recipe = Recipe.model_validate(built.recipe)
        ended = _unusable(search, built, repair)
        if ended is not None:
            return ended
        if built.error is not None and built.missing:
            return Grounded("not_measured", built.error, built, repair)
        if built.error is not None:
            checks, errors = (), (built.error,)
            failed = Grounded("no_data", built.error, built, repair)
            continue
        attempt = _Attempt(direction.number, repair, built, *load_dataset(search, built))
        try:
            climbed = _climb(search, attempt)
        except TrainingError as accident:  # of the machine; any other is a failed check
            return Grounded("not_measured", str(accident), built, repair)
        checks, errors = tuple(check for check in climbed if not check.passed), ()
        if not checks:
            return Prepared(built, attempt.examples, attempt.config, repair, _projected(search, attempt))
        reason = "; ".join(f"{check.name}: {check.found}, wanted {check.wanted}" for check in checks)
        failed = Grounded("preflight_failed", reason, built, repair)
    return failed


def _without_recipe(weighed: StrategiesWeighed | None) -> Grounded:
    """An improver that failed says nothing about what could be tried; one that has nothing left ends the search."""
    if weighed is not None and weighed.error is not None:
        return Grounded("not_measured", weighed.error)
    return Grounded("no_strategy", (weighed.why if weighed is not None else "") or "no strategy was chosen")


def _unusable(search: WeightsSearch, built: DatasetBuilt, repair: int) -> Grounded | None:
    """Data that no repair is tried on: void, or trained on before."""
    if built.voided:
        status = "contaminated" if built.hits > 0 else "no_data"
        return Grounded(status, built.voided, built, repair)
    if (built.digest, built.config) in search.tried:
        reason = "the same data and config were tried before: only a changed recipe is tried again"
        return Grounded("repeated", reason, built, repair)
    return None


def _climb(search: WeightsSearch, attempt: _Attempt) -> tuple[Check, ...]:
    """Stages a and b; the first that fails ends the climb."""
    if not search.options.preflight.enabled:
        return ()
    first = _stage_a(search, attempt)
    if not first.passed:
        return first.checks
    return (*first.checks, *_stage_b(search, attempt).checks)


def _stage_a(search: WeightsSearch, attempt: _Attempt) -> Preflighted:
    session, head = search.session, search.head.candidate
    recorded = session.recorder.find("preflight", f"{attempt.number}/{attempt.repair}/a", Preflighted)
    if recorded is not None:
        return recorded
    begun, cpu = time.perf_counter(), time.process_time()
    checks = stage_a(
        search.ground.store.path(weights_of(head)),
        attempt.examples,
        attempt.config,
        instruction=instruction_of(search.head.candidate),
        options=search.options.preflight,
    )
    spend = Spend(wall_s=time.perf_counter() - begun, cpu_s=time.process_time() - cpu)
    session.ledger.record("preflight", spend)
    return session.recorder.record("preflight", _preflighted(search, attempt, "a", checks, spend=spend))


def _stage_b(search: WeightsSearch, attempt: _Attempt) -> Preflighted:
    """A short run, whose checkpoint the evaluator loads and asks."""
    session, ground = search.session, search.ground
    recorded = session.recorder.find("preflight", f"{attempt.number}/{attempt.repair}/b", Preflighted)
    if recorded is not None:
        return recorded
    options = search.options.preflight
    answers = min(options.answers, len(session.tasks.train))  # of a small task set all are asked
    options = options.model_copy(update={"answers": answers})
    work = ground.work / f"round-{attempt.number}-{attempt.repair}-short"
    seed = step_seed(session.config.seed, attempt.number, 100)
    steps = min(options.steps, attempt.config.steps)
    wanted = Fit(
        parent=weights_of(search.head.candidate),
        examples=attempt.examples,
        config=attempt.config,
        seed=seed,
        work=work,
        purpose="preflight",
        steps=steps,
        endless=True,
    )
    spend = Spend()
    try:
        run, spend = _short_run(search, wanted)
        checks = stage_b(
            run,
            lambda folder, count: _answers(search, attempt, folder, count),
            attempt.config,
            limits=Limits(seconds=_seconds_left(search, attempt.config, spend), memory_mb=options.memory_mb),
            options=options,
        )
    except (BoundaryError, BudgetExhausted) as fault:
        lost = search.trainings.lost(work) or spend
        if lost != Spend():
            search.trainings.keep_stopped(wanted, lost)
        if isinstance(fault, TrainingError):  # the attempt is over; after a budget it goes on from here
            shutil.rmtree(work, ignore_errors=True)
        raise
    fitted = run if isinstance(run, Fitted) else None
    done = _preflighted(search, attempt, "b", checks, spend=spend, fitted=fitted)
    session.recorder.record("preflight", done)
    shutil.rmtree(work, ignore_errors=True)
    return done


def _short_run(search: WeightsSearch, wanted: Fit) -> tuple[Fitted | TrainingError | SetupError, Spend]:
    """The run, or what it died of. An accident of the machine says nothing about the recipe, and is passed on."""
    try:
        fitted = search.trainings.run(wanted)
    except (TrainingError, SetupError) as fault:
        if isinstance(fault, TrainingError) and fault.missing:
            raise
        return fault, search.trainings.lost(wanted.work) or Spend()
    return fitted, fitted.spend


def _answers(search: WeightsSearch, attempt: _Attempt, folder: Path, count: int) -> Sequence[Reply]:
    """What the short run's weights answer in the evaluator itself, to train tasks."""
    session, store = search.session, search.ground.store
    origin = WeightsOrigin(parent=weights_of(search.head.candidate), data=attempt.dataset.digest or "")
    weights = store.add(folder, origin)
    candidate = Candidate(files=search.head.candidate.files, weights=weights)
    search.answered_by[attempt.number, attempt.repair] = candidate.digest
    sweep = Sweep(candidate, session.tasks.train[:count], "preflight", traced=True)
    try:
        outcomes = session.engine.evaluate(sweep, grade=session.tasks.grade)
    finally:
        if weights not in {weights_of(scored.candidate) for _, scored in search.pool}:
            store.prune(weights)
    missing = next((outcome.error or "" for outcome in outcomes if outcome.score is None), None)
    if missing is not None:
        raise TrainingError(missing, missing=True) if is_accident(missing) else ModelError(missing)
    return [
        Reply(text=one.answer or "", finish_reason="stop" if one.measures.get("stopped", 1.0) >= 1.0 else "length")
        for one in outcomes
    ]


def _preflighted(
    search: WeightsSearch,
    attempt: _Attempt,
    stage: str,
    checks: tuple[Check, ...],
    *,
    spend: Spend,
    fitted: Fitted | None = None,
) -> Preflighted:
    parent = search.ground.store.path(weights_of(search.head.candidate))
    return Preflighted(
        round=attempt.number,
        attempt=attempt.repair,
        stage="a" if stage == "a" else "b",
        checks=checks,
        passed=all(check.passed for check in checks),
        data=attempt.dataset.digest or "",
        template=template_digest(parent, attempt.config, instruction=instruction_of(search.head.candidate)),
        config=attempt.dataset.config,
        losses=() if fitted is None else thinned(fitted.losses),
        seconds_per_step=None if fitted is None else fitted.seconds_per_step,
        peak_memory_mb=None if fitted is None else fitted.peak_memory_mb,
        projected_s=None if fitted is None else projected_s(fitted, attempt.config),
        answered_by=search.answered_by.get((attempt.number, attempt.repair), "") if stage == "b" else "",
        spend=spend,
    )


def _seconds_left(search: WeightsSearch, config: TrainConfig, short: Spend) -> float | None:
    """What the projected seconds of a training may reach at most: it is reserved at somewhat more, with a processor
    for each of its processes and as many accelerators as the short run used."""
    rates: tuple[tuple[Literal["wall_s", "cpu_s", "gpu_s"], float], ...] = (
        ("wall_s", 1.0),
        ("cpu_s", config.processes),
        ("gpu_s", _accelerators(short)),
    )
    lefts = [(search.session.ledger.left(name), rate) for name, rate in rates]
    seconds = [left / rate for left, rate in lefts if left is not None and rate > 0.0]
    return min(seconds) / CAREFUL if seconds else None


def _accelerators(short: Spend) -> float:
    return short.gpu_s / short.wall_s if short.wall_s else 0.0


def _projected(search: WeightsSearch, attempt: _Attempt) -> Spend:
    """Seconds that the full run should take, as stage b measured; none where it was not run."""
    found = search.session.recorder.find("preflight", f"{attempt.number}/{attempt.repair}/b", Preflighted)
    if found is None or found.projected_s is None:
        return Spend()
    return Spend(
        wall_s=found.projected_s,
        cpu_s=found.projected_s * attempt.config.processes,
        gpu_s=found.projected_s * _accelerators(found.spend),
    )
