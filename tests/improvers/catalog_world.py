"""A world of nine edits and three causes for the catalogue improver's tests: what mends what is known exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from heldout.config import ImproverConfig
from heldout.harness.steps import Step
from heldout.improvers.agent import MetaView, RoundNote, RoundView
from heldout.improvers.catalog import CatalogImprover
from heldout.improvers.method import apply_method_edits, method_candidate
from heldout.probes.base import ProbeNoise, Trace
from heldout.probes.signatures import signature
from heldout.records import (
    Candidate,
    Edit,
    EditProposal,
    Evidence,
    EvidenceVerdict,
    ProbeKind,
    TrainTask,
    edits_digest,
)

FULL = frozenset(ProbeKind)
SIMPLE = frozenset({ProbeKind.RUN_EPISODE})
NOTHING: frozenset[ProbeKind] = frozenset()

ERRORS = {
    "tests": "ModuleNotFoundError: No module named lint",
    "keep_mend": "rm: cannot remove the backup",
    "shell": "grep: unrecognized option",
}
"""Class of edits to the error that its failures end with."""

NOISE = ProbeNoise(
    disagreement=0.16, false_flip=0.14, false_confirmed=0.075, false_support=0.21, screen_net=1.05, screen_best=2.1
)


@dataclass(frozen=True)
class Entry:
    """Appends one line to the workflow."""

    name: str
    edit_class: str
    useful: bool

    @property
    def text(self) -> str:
        return f"What {self.name} does."

    def apply(self, folder: Mapping[str, str]) -> tuple[Edit, ...]:
        old = folder.get("workflow.md", "")
        return () if f"[{self.name}]" in old else (Edit(path="workflow.md", content=f"{old}[{self.name}]\n"),)


CATALOGUE = tuple(
    Entry(f"{edit_class}_{kind}", edit_class, kind == "good")
    for edit_class in ERRORS
    for kind in ("good", "null", "bad")
)
USEFUL = {entry.edit_class: entry.name for entry in CATALOGUE if entry.useful}


def true_class(failure: str) -> str | None:
    """By the whole text, masked or not."""
    return next((name for name, error in ERRORS.items() if failure.startswith(error[:8])), None)


def diagnose(failure: str, *, error: float, seed: int, allowed: Collection[str] | None = None) -> str:
    """The truth with probability 1 − error, else the next class in the alphabet that is allowed."""
    drawn = int.from_bytes(hashlib.blake2b(f"{seed} {failure}".encode(), digest_size=4).digest()) / 2**32
    classes = sorted(name for name in ERRORS if allowed is None or name in allowed)
    true = true_class(failure) or classes[0]
    if true in classes and drawn >= error:
        return true
    others = [name for name in classes if name != true] or classes
    return others[0]


def make_trace(task: str, cause: str | None) -> Trace:
    """A trace of five commands that ends with its cause's error, or a pass."""
    commands = ["cat a.py", "cp a.py a.bak && edit a.py", "python check.py", "cp a.bak a.py", "finish"]
    steps = [Step(kind="command", command=command, output="fine", exit_code=0) for command in commands]
    if cause is not None:
        steps[-1] = steps[-1].model_copy(update={"output": ERRORS[cause], "exit_code": 1})
    train = TrainTask(id=task, input=f"mend {task}")
    return Trace(train, cause is None, tuple(steps), "" if cause is None else "wrong", measures={"turns": 5.0})


CAUSE_OF = {f"task-{number:02d}": list(ERRORS)[number % 3] for number in range(12)}
"""Failing tasks, four of each cause."""

PASSING = ("task-90", "task-91", "task-92")

TRACES = {task: make_trace(task, cause) for task, cause in CAUSE_OF.items()} | {
    task: make_trace(task, None) for task in PASSING
}


def mended(files: Mapping[str, str], task: str) -> bool:
    """Whether a harness solves a failing task: the good edit of its cause is in place."""
    return f"[{USEFUL[CAUSE_OF[task]]}]" in files.get("workflow.md", "")


@dataclass
class Bench:
    """A laboratory over this world, with a pool of units; it keeps what it was asked."""

    available: frozenset[ProbeKind] = FULL
    units: int = 24
    flaky: Collection[str] = ()
    """Tasks whose failure does not reproduce."""
    fragile: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Entry to passing tasks that it breaks."""
    weak: Collection[str] = ()
    """Tasks on which a pass is never confirmed."""
    refusal: str = ""
    instead: ProbeKind | None = None
    """What a schedule without agency runs whatever is asked."""
    round: int = 1
    episode: int = 0
    asked: list[Evidence] = field(default_factory=list)

    def units_left(self) -> int:
        return self.units

    def probe(
        self,
        kind: ProbeKind,
        tasks: Sequence[str],
        *,
        step: int | None = None,
        command: str | None = None,
        edits: Iterable[Edit] = (),
        base_round: int | None = None,
    ) -> Evidence:
        del command
        given = tuple(edits)
        kind = kind if self.instead is None else self.instead
        files = {edit.path: edit.content or "" for edit in given}
        blank = Evidence(
            round=self.round,
            episode=self.episode,
            ordinal=len(self.asked),
            kind=kind,
            tasks=tuple(tasks) if kind is ProbeKind.FIX_PROBE else tuple(tasks)[:1],
            step=step,
            base="" if base_round is None else f"base {base_round}",
            edits=edits_digest(given) if given else "",
        )
        units = len(tasks) if kind is ProbeKind.FIX_PROBE else 1
        if self.refusal or kind not in self.available or units > self.units:
            found = blank.model_copy(update={"refused": self.refusal or "the count: nothing is left"})
        else:
            self.units -= units
            found = blank.model_copy(update={"units": units, **self._found(kind, blank.tasks, files)})
        self.asked.append(found)
        return found

    def _found(self, kind: ProbeKind, tasks: Sequence[str], files: Mapping[str, str]) -> dict[str, object]:
        if kind is ProbeKind.REPLAY:
            refuted = tasks[0] in self.flaky
            return {"verdict": EvidenceVerdict.REFUTES if refuted else EvidenceVerdict.INCONCLUSIVE}
        if kind is ProbeKind.ABLATE:
            caused = CAUSE_OF.get(tasks[0]) == "keep_mend"
            return {"verdict": EvidenceVerdict.SUPPORTS if caused else EvidenceVerdict.INCONCLUSIVE}
        lost = [
            task
            for name, broken in self.fragile.items()
            if f"[{name}]" in files.get("workflow.md", "")
            for task in broken
        ]
        passed = [task for task in tasks if (mended(files, task) if task in CAUSE_OF else task not in lost)]
        if kind is ProbeKind.RUN_EPISODE:
            return {"passed": tuple(passed)}
        flips = tuple(task for task in passed if task not in self.weak)
        verdict = EvidenceVerdict.INCONCLUSIVE if passed else EvidenceVerdict.REFUTES
        return {
            "verdict": EvidenceVerdict.SUPPORTS if flips else verdict,
            "flips": flips,
            "unconfirmed": tuple(task for task in passed if task in self.weak),
        }


HEAD = Candidate(files={"system_prompt.md": "Mend it.\n"})


def make_improver(**options: object) -> CatalogImprover:
    """On this world, reading without error unless told otherwise."""
    given = {"catalogue": "catalog_world:CATALOGUE", "diagnosis": "catalog_world:diagnose", "error": 0.0, "seed": 7}
    return CatalogImprover(ImproverConfig(kind="catalog", options=given | options))


def make_view(improver: CatalogImprover, **changes: object) -> RoundView:
    """The first episode of the first round."""
    view = RoundView(
        round=1,
        episode=0,
        seed=11,
        head=HEAD,
        bases={0: HEAD},
        method=method_candidate(improver.start_method),
        guidance="",
        description="",
        report="",
        traces=TRACES,
        attributions=(),
        ledger=(),
        history=(),
        noise=NOISE,
    )
    return replace(view, **changes)  # type: ignore[arg-type]


def make_meta_view(improver: CatalogImprover, **changes: object) -> MetaView:
    """After a first round that was kept."""
    view = MetaView(
        round=1,
        seed=5,
        method=method_candidate(improver.start_method),
        card="",
        note=RoundNote(round=1, verdict="accept", label="EFFECTIVE"),
        proposals=(),
        evidence=(),
        traces=TRACES,
        ledger=(),
    )
    return replace(view, **changes)  # type: ignore[arg-type]


def names_in(proposal: EditProposal) -> list[str]:
    """Entries that the proposal's files hold."""
    text = "".join(edit.content or "" for edit in proposal.edits)
    return [entry.name for entry in CATALOGUE if f"[{entry.name}]" in text]


def after(method: Candidate, proposal: EditProposal) -> Candidate:
    """The method folder with a meta-episode's edits."""
    return apply_method_edits(method, proposal.edits)


SIGNATURE = {cause: signature(make_trace("any", cause)) for cause in ERRORS}
