"""What a loop over weights knows between its rounds; all of it follows from the journal."""

from __future__ import annotations

from dataclasses import dataclass, field

from heldout.errors import StoreError
from heldout.harness.prompt_files import INSTRUCTION_FILE
from heldout.improvers.training_roles import Asset, Failed, TrainingImprover
from heldout.loops.session import Scored, Session, TrainingGround
from heldout.loops.trainings import Trainings
from heldout.loops.weights.options import ImproveOptions
from heldout.records import Candidate, Spend
from heldout.sandbox import Sandboxes, make_sandboxes
from heldout.store.training_events import AttemptEnded, DatasetBuilt, Diagnosed, StrategiesWeighed
from heldout.tasks.overlap import OverlapIndex, overlap_index
from heldout.training import Example, TrainConfig

__all__ = ["TRACK", "Attributed", "Direction", "Grounded", "Prepared", "WeightsSearch", "instruction_of", "weights_of"]

TRACK = "model"


@dataclass(frozen=True, slots=True)
class Attributed:
    """A diagnosis, with the failures that it was made from."""

    diagnosed: Diagnosed
    failures: tuple[Failed, ...]


@dataclass(frozen=True, slots=True)
class Direction:
    """What a round works on: a diagnosis, and the strategies that were weighed for it."""

    number: int
    attributed: Attributed
    weighed: StrategiesWeighed | None = None
    """None where there was nothing to weigh strategies for."""


@dataclass(frozen=True, slots=True)
class Grounded:
    """An attempt that ends before its full training."""

    status: str
    reason: str
    dataset: DatasetBuilt | None = None
    repairs: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a full training begins with: data and config that passed the ladder."""

    dataset: DatasetBuilt
    examples: tuple[Example, ...]
    config: TrainConfig
    repairs: int = 0
    projected: Spend = field(default_factory=Spend)
    """Seconds that the full training should take; none where no short run measured it."""


@dataclass(slots=True)
class WeightsSearch:
    """The state of one run."""

    session: Session
    options: ImproveOptions
    improver: TrainingImprover
    ground: TrainingGround
    start: Scored
    head: Scored
    """With its scores on the deciding tasks."""
    head_round: int = 0
    pool: list[tuple[int, Scored]] = field(default_factory=list)
    """Every model that was measured, with its round: what the final selection chooses from."""
    vetoed: set[str] = field(default_factory=set)
    """Digests of candidates that lost too much elsewhere."""
    history: list[AttemptEnded] = field(default_factory=list)
    tried: list[tuple[str, str]] = field(default_factory=list)
    """(data digest, config digest) of every attempt."""
    assets: list[Asset] = field(default_factory=list)
    training_se: float = 0.0
    """Standard error of a gain from training noise alone, once it was measured."""
    noise_known: bool = False
    """Whether a recipe was trained twice, or died of itself the second time and no gate asks for it."""
    answered_by: dict[tuple[int, int], str] = field(default_factory=dict)
    """Candidates with the weights of short runs, by round and repair."""
    ended: str = "every generation was run"
    _overlap: OverlapIndex | None = None
    _trainings: Trainings | None = None

    @property
    def overlap(self) -> OverlapIndex:
        """What no training example may share with select and sealed tasks; hashes, made when first asked for."""
        if self._overlap is None:
            tasks = self.session.tasks
            self._overlap = overlap_index(tasks.config, tasks.plan)
        return self._overlap

    @property
    def trainings(self) -> Trainings:
        """Short and full ones."""
        if self._trainings is None:
            self._trainings = Trainings(self.session, self.ground, self.options.backend)
        return self._trainings

    def check_ancestry(self, weights: str) -> None:
        """`StoreError` for weights that do not descend from an allowed base."""
        allowed = self.options.allowed_bases or (weights_of(self.start.candidate),)
        ancestry = self.ground.store.ancestry(weights)
        if not any(digest in allowed for digest in ancestry):
            raise StoreError(
                f"weights {weights[:12]} descend from {ancestry[-1][:12]}, which is no allowed base "
                f"({', '.join(digest[:12] for digest in allowed)}): they cannot become a candidate"
            )

    def sandboxes(self) -> Sandboxes:
        """Where a data builder's script runs; it fails closed where this machine has none."""
        return make_sandboxes("bubblewrap")


def instruction_of(candidate: Candidate) -> str:
    """The system turn of evaluation, which training uses too; empty where there is none."""
    return candidate.files.get(INSTRUCTION_FILE, "").strip()


def weights_of(candidate: Candidate) -> str:
    """Digest of a candidate's weights; every candidate of these loops has some."""
    if candidate.weights is None:
        raise StoreError(f"candidate {candidate.digest[:12]} names no weights")
    return candidate.weights
