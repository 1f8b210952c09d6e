"""From what builders and rollouts give to examples that may be trained on: provenance, contamination, caps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from heldout.errors import SetupError
from heldout.records import OutcomeStatus, Record, TrainTask, Trajectory
from heldout.tasks.examples import Pair
from heldout.tasks.graders import CUT
from heldout.tasks.overlap import Overlap, OverlapIndex
from heldout.training.data_files import EXAMPLES_FILE, read_examples, write_examples
from heldout.training.examples import TRAINABLE_ROLES, Example, Provenance, examples_digest

__all__ = [
    "EXAMPLES_FILE",
    "Admission",
    "AdmissionPolicy",
    "Rollout",
    "admit",
    "check_batch",
    "check_rollouts",
    "examples_of_pairs",
    "examples_of_rollouts",
    "origin_fault",
    "read_examples",
    "write_examples",
]

_PASSES = 0.5
"""Score from which a verifier's verdict is `passed`, as in every outcome."""

_NONE = "none"
"""Stands for a component that a harness does not have."""


class AdmissionPolicy(Record):
    """What training data must be like. Every default is the strict one."""

    max_hits: float = Field(default=0.05, ge=0.0, le=1.0)
    """Share of examples that may meet a select or sealed task; they are removed, and a larger share voids the data."""
    match: tuple[str, ...] = ()
    """Components of the harness (prompt, tools, …) that must be the same over all examples; empty: every one. A name
    that no harness has is a fault."""
    mixed_harness: bool = False
    """Let examples of several harnesses be mixed."""
    harness: Mapping[str, str] | None = None
    """Fingerprint by component that whatever a model wrote must have been made in, in the components of `match`; it
    holds where mixtures are let through too. None asks for none in particular."""
    model: str | None = None
    """Digest of the weights, or name of the model, that whatever a model wrote must come from; None asks for none."""
    mixed_models: bool = False
    """Let examples that several models wrote be mixed."""
    failed: bool = False
    """Train on completions that their verifier failed."""
    duplicates: bool = False
    """Keep examples, and episodes, that repeat another one."""
    max_per_task: int | None = Field(default=None, ge=1)
    """Examples of one task at most, the first ones, where an episode counts once; None is no limit."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What may be trained on, and what became of the rest."""

    kept: tuple[Example, ...]
    """In the order in which they came; none where the data set is voided."""
    removed: Mapping[str, int]
    """Examples removed, by reason: `id`, `text`, `near`, `13-gram`, `cut`, `failed`, `episode` (another turn of it was
    removed for one of these), `duplicate`, `per task`."""
    hits: float
    """Share of all examples that met a select or sealed task."""
    voided: str
    """Why nothing of it may be trained on; empty where it may."""

    @property
    def digest(self) -> str:
        """Identity of the examples that are kept, in their order."""
        return examples_digest(self.kept)


@dataclass(frozen=True, slots=True)
class Rollout:
    """An episode on a train task, with what the verifier says."""

    task: TrainTask
    trajectory: Trajectory
    score: float | None
    """None where it was not measured."""
    weights: str = ""
    """Digest of the weights that answered."""


def examples_of_pairs(
    pairs: Iterable[Pair], *, builder: str, train: Collection[str], system: str = "", verifier: str = ""
) -> tuple[Example, ...]:
    """What a data builder made, as examples; `train` holds the ids of train tasks, `system` the turn of evaluation.

    A pair that names a task which is not in `train` gets the role `unknown`, which is never admitted: a builder's word
    is not enough.
    """
    return tuple(
        Example(
            prompt=pair.prompt,
            completion=pair.completion,
            system=system,
            provenance=Provenance(
                task=pair.task or f"{builder}/{number}",
                role="built" if not pair.task else "train" if pair.task in train else "unknown",
                builder=builder,
                verifier=verifier if pair.score is not None else "",
                status=_status(pair.score),
                score=pair.score,
            ),
        )
        for number, pair in enumerate(pairs)
    )


def examples_of_rollouts(rollouts: Iterable[Rollout], *, verifier: str, system: str = "") -> tuple[Example, ...]:
    """A model's own answers to train tasks, as examples; episodes without an answer give none.

    `SetupError` for an episode of several steps, whose answer is no completion of its task alone: `Example.turns`
    takes what was said in between.
    """
    rollouts = tuple(rollouts)
    if long := next((one for one in rollouts if len(one.trajectory.steps) > 1), None):
        raise SetupError(
            f"the episode on {long.task.id!r} has {len(long.trajectory.steps)} steps, and its answer alone is no "
            "completion of the task: make one example of each of the model's turns, with all that it read before "
            "(Example.turns)"
        )
    return tuple(
        Example(
            prompt=rollout.task.input,
            completion=rollout.trajectory.answer,
            system=system,
            provenance=Provenance(
                task=rollout.task.id,
                role="train",
                model=rollout.weights or rollout.trajectory.model,
                harness=_fingerprint(rollout.trajectory),
                verifier=verifier,
                status=_status(rollout.score),
                score=rollout.score,
            ),
        )
        for rollout in rollouts
        if rollout.trajectory.answer is not None
    )


def admit(examples: Sequence[Example], index: OverlapIndex, policy: AdmissionPolicy | None = None) -> Admission:
    """Remove what may not be trained on; void the whole where the rest cannot be trusted either.

    Voided: more than `max_hits` meet a select or sealed task; a role other than `train` or `built`; a provenance
    without a task; completions that come from more than one harness or model, or from another harness than the one
    that is asked for. What no model wrote was made in no harness, and mixes with everything.
    """
    policy = policy or AdmissionPolicy()
    removed: Counter[str] = Counter()
    clean: list[Example] = []
    broken: set[tuple[str, str]] = set()  # episodes that lack a turn
    known: dict[str, Overlap | None] = {}
    for example in examples:
        reason = _overlap(example, index, known)
        if reason is None:
            clean.append(example)
        else:
            removed[reason] += 1
            broken.add(_episode(example))
    hits = (len(examples) - len(clean)) / max(1, len(examples))
    if hits > policy.max_hits:
        why = (
            f"{len(examples) - len(clean)} of {len(examples)} examples ({hits:.1%}) meet a task of select or of a "
            f"sealed role ({_counts(removed)}); at most {policy.max_hits:.0%} may"
        )
        return Admission((), dict(removed), hits, voided=why)
    kept = _kept(clean, policy, removed, broken)
    voided = _role_fault(one.provenance for one in clean) or _mixture([one.provenance for one in kept], policy)
    return Admission(() if voided else tuple(kept), dict(removed), hits, voided)


def check_batch(examples: Sequence[Example], index: OverlapIndex, policy: AdmissionPolicy | None = None) -> None:
    """`SetupError` where anything of a batch may not be trained on: the last look before a step is made on it."""
    admission = admit(examples, index, policy)
    if admission.voided:
        raise SetupError(f"the batch is refused: {admission.voided}")
    if admission.removed:
        raise SetupError(
            f"the batch is refused: {sum(admission.removed.values())} of {len(examples)} examples may not be trained "
            f"on ({_counts(admission.removed)}); admit the data first (heldout.training.data.admit)"
        )


def check_rollouts(
    origins: Sequence[Provenance], texts: Iterable[str], index: OverlapIndex, policy: AdmissionPolicy | None = None
) -> None:
    """`SetupError` where rollouts may not be learned from by their rewards: `check_batch` for a policy gradient.

    `texts` is what stands in their prompts and responses. What failed, was cut or repeats another one is no fault
    here: its reward says so.
    """
    ids = [index.hits("", id=task) for task in dict.fromkeys(origin.task for origin in origins)]
    met = Counter[str](found for found in (*ids, *map(index.hits, dict.fromkeys(texts))) if found is not None)
    if met:
        raise SetupError(f"the rollouts are refused: they meet tasks of select or of a sealed role ({_counts(met)})")
    if fault := origin_fault(origins, policy or AdmissionPolicy()):
        raise SetupError(f"the rollouts are refused: {fault}")


def origin_fault(origins: Sequence[Provenance], policy: AdmissionPolicy) -> str:
    """Why rollouts that come from here are not learned from together: a task, its role, the model or the harness."""
    if any(not origin.model for origin in origins):
        return "a rollout has a provenance without a model, and some model wrote it"
    return _role_fault(origins) or _mixture(origins, policy)


def _overlap(example: Example, index: OverlapIndex, known: dict[str, Overlap | None]) -> Overlap | None:
    """How an example meets a task: by its id, by one of its turns, or by a text that runs over several of them.

    `known` remembers turns that many examples share.
    """
    turns = [text for turn in example.conversation if (text := turn["content"]).strip()]
    for turn in turns:
        if turn not in known:
            known[turn] = index.hits(turn)
    parts = (index.hits("", id=example.provenance.task), *map(known.__getitem__, turns))
    return next((part for part in parts if part is not None), None) or index.hits(" ".join(turns))


def _kept(
    examples: Iterable[Example], policy: AdmissionPolicy, removed: Counter[str], broken: set[tuple[str, str]]
) -> list[Example]:
    """Those that pass on their own; counts in `removed` why the others do not. `broken`: episodes that lack a turn."""
    seen: set[str] = set()
    of_task: Counter[str] = Counter()
    kept: list[tuple[int, Example]] = []
    for episode, whole in _episodes(_sound(examples, policy, removed, broken), policy, removed).items():
        task, digest = whole[0][1].provenance.task, examples_digest(example for _, example in whole)
        if episode in broken:
            removed["episode"] += len(whole)
        elif digest in seen and not policy.duplicates:
            removed["duplicate"] += len(whole)
        elif policy.max_per_task is not None and of_task[task] >= policy.max_per_task:
            removed["per task"] += len(whole)
        else:
            seen.add(digest)
            of_task[task] += 1
            kept += whole
    return [example for _, example in sorted(kept, key=lambda one: one[0])]


def _sound(
    examples: Iterable[Example], policy: AdmissionPolicy, removed: Counter[str], broken: set[tuple[str, str]]
) -> list[Example]:
    sound = []
    for example in examples:
        if example.completion.endswith(CUT.strip()):
            reason = "cut"
        elif example.provenance.status is OutcomeStatus.FAILED and not policy.failed:
            reason = "failed"
        else:
            sound.append(example)
            continue
        removed[reason] += 1
        broken.add(_episode(example))
    return sound


def _episode(example: Example) -> tuple[str, str]:
    """An example without an episode is in none that another could break."""
    origin = example.provenance
    return (origin.task, origin.episode) if origin.episode else ("", "")


def _episodes(
    examples: Sequence[Example], policy: AdmissionPolicy, removed: Counter[str]
) -> Mapping[object, list[tuple[int, Example]]]:
    """Examples that are turns of one episode together, with their places; an example without one is one of its own. A
    turn that is there twice counts once."""
    found: dict[object, list[tuple[int, Example]]] = {}
    for number, example in enumerate(examples):
        whole = found.setdefault(_episode(example) if example.provenance.episode else number, [])
        if any(one.digest == example.digest for _, one in whole) and not policy.duplicates:
            removed["duplicate"] += 1
        else:
            whole.append((number, example))
    return found


def _role_fault(origins: Iterable[Provenance]) -> str:
    for origin in origins:
        if not origin.task:
            maker = origin.builder or origin.model
            return f"an example{f' of {maker[:40]!r}' if maker else ''} has a provenance without a task"
        if origin.role not in TRAINABLE_ROLES:
            return (
                f"an example comes from the task {origin.task!r} of the role {origin.role!r}; only "
                f"{' and '.join(TRAINABLE_ROLES)} may be trained on"
            )
    return ""


def _mixture(origins: Sequence[Provenance], policy: AdmissionPolicy) -> str:
    """Why completions of these models and harnesses are not learnt together; empty where they may be."""
    models = [origin.model for origin in origins if origin.model]
    if policy.model is not None and set(models) - {policy.model}:
        return f"the examples were not all written by {policy.model[:12]!r} ({_shares(models)})"
    if len(set(models)) > 1 and not policy.mixed_models:
        return f"the examples were written by several models ({_shares(models)}); mixed_models lets them be mixed"
    harnesses = [origin.harness for origin in origins if origin.model or origin.harness]
    if not harnesses:
        return ""
    known = _components(harnesses if policy.harness is None else [policy.harness])
    if unknown := [name for name in policy.match if name not in known]:
        return f"match names {', '.join(map(repr, unknown))}; the components of the harness are {', '.join(known)}"
    return _foreign(harnesses, policy) or ("" if policy.mixed_harness else _mixed(harnesses, policy.match))


def _foreign(harnesses: Sequence[Mapping[str, str]], policy: AdmissionPolicy) -> str:
    """Which component is not that of the harness that is asked for."""
    if policy.harness is None:
        return ""
    for component in policy.match or _components([*harnesses, policy.harness]):
        wanted = policy.harness.get(component, _NONE)
        found = [harness.get(component, _NONE) for harness in harnesses]
        if any(fingerprint != wanted for fingerprint in found):
            return f"the examples were made in a harness whose {component!r} is not {wanted[:12]!r} ({_shares(found)})"
    return ""


def _mixed(harnesses: Sequence[Mapping[str, str]], match: Sequence[str]) -> str:
    """Which component differs between them; a harness that nobody recorded differs from one that is known."""
    for component in match or _components(harnesses):
        found = [harness.get(component, _NONE) for harness in harnesses]
        if len(set(found)) > 1:
            return (
                f"the examples were made in harnesses that differ in {component!r} ({_shares(found)}): what succeeded "
                "in one teaches calls that another does not take"
            )
    return ""


def _components(harnesses: Iterable[Mapping[str, str]]) -> list[str]:
    return sorted({name for harness in harnesses for name in harness})


def _shares(found: Iterable[str]) -> str:
    """How often each occurs."""
    return ", ".join(f"{count} of {one[:12]!r}" for one, count in Counter(found).most_common())


def _fingerprint(trajectory: Trajectory) -> Mapping[str, str]:
    """By component, where the harness has them."""
    return trajectory.components or ({"harness": trajectory.harness} if trajectory.harness else {})


def _status(score: float | None) -> OutcomeStatus:
    if score is None:
        return OutcomeStatus.NOT_MEASURED
    return OutcomeStatus.PASSED if score >= _PASSES else OutcomeStatus.FAILED


def _counts(removed: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in removed.items())
