"""Step 4 of a round: what the recipe trains on, checked against every task that decides or is sealed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from heldout.config import merge
from heldout.errors import ImproverError, SandboxError, boundary
from heldout.improvers.training_roles import BuildView, Failed, Recipe, RecipePlan
from heldout.loops.paying import Answered, paid_call
from heldout.loops.proposing import step_seed
from heldout.loops.weights.state import WeightsSearch, instruction_of
from heldout.records import Candidate, Spend, digest_of
from heldout.store.training_events import Check, DatasetBuilt
from heldout.tasks.examples import BuildRequest, Pair
from heldout.training import Example, TrainConfig
from heldout.training.builders import load_builder, replay_builder
from heldout.training.data import (
    EXAMPLES_FILE,
    AdmissionPolicy,
    admit,
    examples_of_pairs,
    read_examples,
    write_examples,
)
from heldout.training.data_script import run_data_script
from heldout.training.metering import Meter

__all__ = ["Asked", "build", "load_dataset"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the builder is asked for in one attempt of a round."""

    round: int
    strategy: str
    focal: str
    recipe: Recipe
    failures: tuple[Failed, ...]
    repair: int = 0
    failed_checks: tuple[Check, ...] = ()
    errors: tuple[str, ...] = ()


def build(search: WeightsSearch, asked: Asked) -> DatasetBuilt:
    """Ask the builder for a recipe, run it, and admit what may be trained on; the whole of it goes on record."""
    session = search.session
    recorded = session.recorder.find("dataset", f"{asked.round}/{asked.repair}", DatasetBuilt)
    if recorded is not None:
        return recorded
    view = _view(search, asked)
    answered = paid_call(
        session, lambda: search.improver.build(view), RecipePlan, bound=search.improver.bound, purpose="build"
    )
    meter = Meter()
    built = _built(search, asked, answered)
    used = meter.spend() + Spend(cpu_s=meter.spend(children=True).cpu_s)
    session.ledger.record("build", used)
    return session.recorder.record("dataset", built.model_copy(update={"spend": built.spend + used}))


def load_dataset(search: WeightsSearch, dataset: DatasetBuilt) -> tuple[tuple[Example, ...], TrainConfig]:
    """The recorded examples and training config."""
    text = search.session.store.load(dataset.blob).files[EXAMPLES_FILE]
    return read_examples(text), TrainConfig.model_validate(dataset.settings)


def _view(search: WeightsSearch, asked: Asked) -> BuildView:
    return BuildView(
        round=asked.round,
        seed=step_seed(search.session.config.seed, asked.round, 2 + asked.repair),
        strategy=asked.strategy,
        focal=asked.focal,
        recipe=asked.recipe,
        repair=asked.repair,
        failed_checks=asked.failed_checks,
        errors=asked.errors,
        failures=asked.failures,
        assets=tuple(search.assets) if search.options.assets else (),
        settings=search.options.train,
    )


def _built(search: WeightsSearch, asked: Asked, answered: Answered[RecipePlan]) -> DatasetBuilt:
    unbuilt = DatasetBuilt(round=asked.round, attempt=asked.repair, spend=answered.spend)
    plan = answered.value
    if plan is None:
        told = {"error": answered.error, "missing": answered.unanswered, "unanswered": answered.unanswered}
        return unbuilt.model_copy(update=told)
    if plan.recipe is None:
        return unbuilt.model_copy(update={"error": plan.note or "the builder has no recipe left for it"})
    unbuilt = unbuilt.model_copy(update={"recipe": plan.recipe.model_dump(mode="json")})
    try:
        config = _config(search, plan.recipe)
        examples = _examples(search, asked, plan.recipe)
    except (ImproverError, SandboxError) as fault:
        return unbuilt.model_copy(update={"error": str(fault), "missing": isinstance(fault, SandboxError)})
    admission = admit(examples, search.overlap, AdmissionPolicy(max_hits=search.options.max_hits))
    kept, settings = admission.kept, config.model_dump(mode="json")
    return unbuilt.model_copy(
        update={
            "digest": admission.digest if kept else None,
            "blob": _keep(search, {EXAMPLES_FILE: write_examples(kept)}) if kept else "",
            "built": len(examples),
            "size": len(kept),
            "removed": dict(admission.removed),
            "hits": admission.hits,
            "voided": admission.voided or ("" if kept else "no example is left"),
            "builders": dict(Counter(example.provenance.builder for example in kept)),
            "roles": dict(Counter(example.provenance.role for example in kept)),
            "config": digest_of(settings),
            "settings": settings,
        }
    )


def _keep(search: WeightsSearch, files: Mapping[str, str]) -> str:
    blob = Candidate(files=files)
    search.session.store.save(blob)
    return blob.digest


def _config(search: WeightsSearch, recipe: Recipe) -> TrainConfig:
    """The run's training config with the recipe's changes."""
    try:
        return TrainConfig.model_validate(merge(search.options.train.model_dump(mode="json"), recipe.train))
    except ValidationError as cause:
        faults = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in cause.errors())
        raise ImproverError(f"the recipe's training settings are not valid: {faults}") from cause


def _examples(search: WeightsSearch, asked: Asked, recipe: Recipe) -> list[Example]:
    """The recipe's own examples, then what is replayed against forgetting."""
    seed = step_seed(search.session.config.seed, asked.round, 1000)
    failures = tuple(failed.task for failed in asked.failures)
    solutions = {failed.task.id: failed.solution for failed in asked.failures if failed.solution}
    replayed = round(recipe.count * recipe.replay)
    source = search.session.config.tasks
    request = BuildRequest(
        count=recipe.count - replayed,
        seed=seed,
        failures=failures,
        solutions=solutions,
        params=recipe.params,
        source_seed=source.seed,
        source_options=source.options,
    )
    if recipe.script:
        sandboxes = search.sandboxes()
        pairs = run_data_script(
            recipe.script, failures, solutions=solutions, sandbox=sandboxes, count=request.count, seed=seed
        )
        found = _with_provenance(search, "script", pairs)
    else:
        found = _with_provenance(search, recipe.builder, _run(recipe.builder, request))
    if replayed:
        plain = replay_builder(source.source)
        again = BuildRequest(count=replayed, seed=seed + 1, failures=failures, solutions=solutions)
        found += _with_provenance(search, plain, _run(plain, again))
    return found


def _run(name: str, request: BuildRequest) -> Sequence[Pair]:
    with boundary(ImproverError, f"the data builder {name!r} raised"):
        return _checked(list(load_builder(name)(request)), name)


def _checked(pairs: Sequence[object], name: str) -> Sequence[Pair]:
    wrong = next((pair for pair in pairs if not isinstance(pair, Pair)), None)
    if wrong is not None:
        raise ImproverError(f"the data builder {name!r} returned {wrong!r:.80}, not a heldout.tasks.examples.Pair")
    return pairs  # type: ignore[return-value]


def _with_provenance(search: WeightsSearch, builder: str, pairs: Sequence[Pair]) -> list[Example]:
    """Under the system turn that evaluation uses."""
    return list(
        examples_of_pairs(
            pairs,
            builder=builder,
            train={task.id for task in search.session.tasks.train},
            system=instruction_of(search.head.candidate),
            verifier=builder,  # the score is the builder's own word: no grader was asked
        )
    )
