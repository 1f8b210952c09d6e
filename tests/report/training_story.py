"""A run of a loop over model weights, written by hand through the real journal and folders: six rounds and an audit.

Twenty diagnosis tasks, ten select tasks. Round 1 cures `stop` and is accepted (2 to 6 of 10). Of the same head then:
round 2 fails preflight a, is repaired, and fails b; round 3's data meets select tasks and is void; round 4's child is
rejected (5 of 10); the training of round 5 dies; the diagnostician of round 6 does not answer. Their attempts cost 10,
2, 28, 6 and 1 seconds. Of twenty audit tasks start and final solve 2 and 10. On `retain` copying stays at 6 of 6, and
sorting falls from 6 to 1 of 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.records import Candidate, Decision, Outcome, OutcomeStatus, Record, Spend, Verdict
from heldout.store import Journal, RunFolder
from heldout.store.agent_events import Finalist, FinalSelected
from heldout.store.events import (
    AuditOpened,
    AuditResult,
    CandidateAdded,
    Decided,
    FamilyResult,
    GateCalibration,
    NoiseMeasured,
    Prepared,
    RunFinished,
    RunStarted,
    SplitMade,
    TrackMoved,
)
from heldout.store.training_events import (
    AbilitiesMeasured,
    AssetAdded,
    AttemptEnded,
    Check,
    Cluster,
    DatasetBuilt,
    Diagnosed,
    Preflighted,
    StrategiesWeighed,
    TrainingEnded,
    TrainingNoise,
    TrustedHash,
    WeighedStrategy,
)

FILES = {"instruction.md": "Answer with the list and nothing else.\n"}
W0, W1, W1_AGAIN, W4 = ("0a" * 32, "1b" * 32, "1c" * 32, "4d" * 32)
START = Candidate(files=FILES, weights=W0)
FINAL = Candidate(files=FILES, weights=W1, parent=START.digest)
AGAIN = Candidate(files=FILES, weights=W1_AGAIN, parent=START.digest)
REJECTED = Candidate(files=FILES, weights=W4, parent=FINAL.digest)

EPISODE = Spend(evaluations=1, calls=1, tokens_in=30, tokens_out=10, wall_s=0.1, cpu_s=0.1)
LEDGER = {"diagnose": 0.5, "research": 0.25, "build": 1.0, "a": 0.5, "b": 3.0, "training": 20.0}
"""Seconds of one event of each kind."""

_FAULTS = {1: {"stop": 12, "wrapper": 4, "carry": 2}, 2: {"wrapper": 7, "carry": 5, "stop": 1}}


@dataclass(frozen=True, slots=True)
class Told:
    """What may differ between runs of the story."""

    rounds: int = 6
    finished: bool = True
    audited: bool = True
    moved: bool = True
    """The final is round 1's child; else round 1 was rejected, and the start is the final."""
    floor: bool = False
    decide_on: str = "select"
    method: str = "full"
    simulated: bool = True
    changed: bool = False
    """A trusted part differs after round 1."""
    stopped: str = ""
    """The budget ended the run, for this reason, in a round 7 that was begun: in its diagnosis sweep, or where it says
    `select`, in the sweep of its child."""
    fresh: bool = False
    """The finalists were measured anew."""
    doubted: bool = False
    """The verdict on a report role is `undecided`, though its interval leaves out zero."""
    says: str = ""
    """What every free text and name says; empty for sensible ones."""
    outcomes: int = 0
    """Further select outcomes, of other candidates."""


def training_run(path: Path, told: Told | None = None) -> RunFolder:
    """Write the whole run."""
    return _Writer(RunFolder.create(path), told or Told()).write()


class _Writer:
    def __init__(self, folder: RunFolder, told: Told) -> None:
        self.folder, self.told = folder, told
        self.journal = Journal.open(folder.events, clock=lambda: 1.8e9)
        self.head = START
        self.final = FINAL if told.moved else START
        folder.config.write_text('loop = "improve_any_task"\n')
        for weights in (W0, W1):
            (folder.weights / weights).mkdir(parents=True)

    def write(self) -> RunFolder:
        with self.journal:
            self._begin()
            rounds = (self._first, self._second, self._third, self._fourth, self._fifth, self._sixth)
            for number, step in enumerate(rounds[: self.told.rounds], start=1):
                self._trusted(number, "before")
                step()
                self._trusted(number, "after")
            if self.told.stopped:
                self._seventh()
            if self.told.finished:
                self._end()
            for number in range(self.told.outcomes):
                self._outcome("select", f"{number // 250:064d}", f"select-{number % 250}", 1.0, key=f"more-{number}")
        return self.folder

    def append(self, kind: str, payload: Record) -> None:
        self.journal.append(kind, payload)

    def text(self, words: str) -> str:
        return self.told.says or words

    def _begin(self) -> None:
        self.append(
            "run.started",
            RunStarted(
                run="trained", loop="improve_any_task", config_digest="9f" * 32, heldout="0.1.0",
                command="heldout run improve_any_task", simulated=self.told.simulated,
                solver="simulated_formats" if self.told.simulated else "pocket:base", improver="training_catalog",
                description="Lists.", source="formats",
            ),
        )  # fmt: skip
        roles = {"train": 20, "select": 10, "audit": 20, "retain": 12}
        self.append("split", SplitMade(roles=roles, digest="5b" * 32))
        self._add(START, 0, 0, "")
        self._sweep("select", START, [1, 1, *[0] * 8])
        self.append(
            "noise.measured",
            NoiseMeasured(
                n_tasks=10, flip_rate=0.0, expected_flips=0.0, disagreement=0.2, disagreement_source="assumed",
                select_tasks=10, candidates=1, audit_standard_error=0.1,
                gates=(GateCalibration(gate="net", false_accept_rate=0.45, standard_error=0.01),),
            ),
        )  # fmt: skip

    def _first(self) -> None:
        self._diagnose(1, "stop")
        self._weigh(1, "stop", "end_token")
        self._data(1, removed={"13-gram": 2, "duplicate": 1}, hits=0.02, size=97)
        self._climb(1, a="", b="")
        self._train(1, W1)
        self._asset(1, "data_builder")
        self._asset(1, "config")
        self._child(1, FINAL, [1, 1, 1, 1, 1, 1, 0, 0, 0, 0])
        self._train(1, W1_AGAIN, repeat=1)
        self._child(1, AGAIN, [1, 1, 1, 1, 1, 1, 1, 0, 0, 0], index=1)
        noise = TrainingNoise(
            round=1, first=FINAL.digest, second=AGAIN.digest, n=10, difference=0.1, flips=0.1, standard_error=0.0707
        )
        self.append("training.noise", noise)
        accepted = Verdict.ACCEPT if self.told.moved else Verdict.REJECT
        self._floor(FINAL)
        self._decide(1, FINAL, accepted, before=0.2, after=0.6, gain=0.4, ends=(0.05, 0.75))
        if self.told.moved:
            self.append(
                "track.moved",
                TrackMoved(track="model", origin=START.digest, target=FINAL.digest, generation=1, why="net +4 > 0"),
            )
            self.head = FINAL
        status = "accepted" if self.told.moved else "rejected"
        self._attempt(1, "stop", "end_token", status, "4 wins, 0 losses", 40.0, child=FINAL, gain=0.4)

    def _second(self) -> None:
        self._diagnose(2, "wrapper")
        self._weigh(2, "wrapper", "wrong_template")
        self._data(2)
        self._climb(2, a="template")
        self._data(2, attempt=1)
        self._climb(2, attempt=1, a="", b="stops")
        reason = "stops: 3 of 32 answers stop by themselves, wanted at least 95%"
        self._attempt(2, "wrapper", "wrong_template", "preflight_failed", reason, 10.0, repairs=1)

    def _third(self) -> None:
        self._diagnose(3, "wrapper")
        self._weigh(3, "wrapper", "leak_select")
        self._data(3, removed={"text": 40}, hits=0.4, size=60, voided="40% of the examples meet select or sealed tasks")
        self._attempt(3, "wrapper", "leak_select", "contaminated", "40% of the examples meet", 2.0)

    def _fourth(self) -> None:
        self._diagnose(4, "wrapper")
        self._weigh(4, "wrapper", "wrapper_data")
        self._data(4)
        self._climb(4, a="", b="")
        self._train(4, W4)
        self._child(4, REJECTED, [0, 1, 1, 1, 1, 1, 0, 0, 0, 0])
        self._decide(4, REJECTED, Verdict.REJECT, before=0.6, after=0.5, gain=-0.1, ends=(-0.33, 0.13))
        self._attempt(4, "wrapper", "wrapper_data", "rejected", "0 wins, 1 losses", 28.0, child=REJECTED, gain=-0.1)

    def _fifth(self) -> None:
        self._diagnose(5, "wrapper")
        self._weigh(5, "wrapper", "huge_rate")
        self._data(5)
        self._climb(5, a="", b="")
        self._train(5, None, error=self.text("the loss is not finite at step 7 of 100"))
        self._attempt(5, "wrapper", "huge_rate", "training_failed", "the loss is not finite at step 7 of 100", 6.0)

    def _sixth(self) -> None:
        head, error = self.head.digest, self.text("the model did not answer")
        self.append("diagnosis", Diagnosed(round=6, head=head, n=20, score=0.35, error=error, unanswered=True))
        self._attempt(6, "", "", "not_measured", "the model did not answer", 1.0)

    def _seventh(self) -> None:
        """Four outcomes of the diagnosis; then the diagnosis, a build, both stages, a training and three outcomes."""
        self._trusted(7, "before")
        for number in range(4):
            self._outcome("train", AGAIN.digest, f"train-{number}", 0.0)
        if "select" not in self.told.stopped:
            return
        diagnosed = Diagnosed(round=7, head=AGAIN.digest, n=20, score=0.35, spend=_seconds("diagnose"))
        self.append("diagnosis", diagnosed)
        self._data(7)
        self._climb(7, a="", b="")
        stopped = Prepared(key="stopped/training/round-7-0-0/0", purpose="training", values={}, spend=Spend(wall_s=5.0))
        self.append("prepared", stopped)
        for number in range(3):
            self._outcome("select", "7e" * 32, f"select-{number}", 0.0)

    def _end(self) -> None:
        chosen = ((0, START, 0.2), (1, FINAL, 0.6)) if self.told.moved else ((0, START, 0.2),)
        again = {0: 0.3, 1: 0.5} if self.told.fresh else {}
        finalists = tuple(
            Finalist(
                round=number,
                digest=one.digest,
                journaled=score,
                fresh=again.get(number),
                score=again.get(number, score),
            )
            for number, one, score in chosen
        )
        self.append("selected", FinalSelected(finalists=finalists, final=self.final.digest, rule="highest score"))
        self.append(
            "run.finished",
            RunFinished(
                status="stopped" if self.told.stopped else "improved" if self.told.moved else "unchanged",
                stop_reason=self.told.stopped or "every generation was run",
                start=START.digest, final=self.final.digest, start_select=finalists[0].score,
                final_select=finalists[-1].score, elapsed_s=99.0,
            ),
        )  # fmt: skip
        if self.told.audited:
            self._open("audit", [1, 1, *[0] * 18], [*[1] * 10, *[0] * 10])
            self._open("retain", [1] * 12, [*[1] * 7, *[0] * 5], families=("copy", "sort"))

    def _open(self, role: str, start: list[int], final: list[int], *, families: tuple[str, ...] = ()) -> None:
        if not self.told.moved:
            final = start
        if not (role == "retain" and self.told.floor):
            opened = AuditOpened(role=role, by="heldout run", start=START.digest, final=self.final.digest)
            self.append("audit.opened", opened)
        self._sweep(role, START, start)
        self._sweep(role, self.final, final)
        half = len(start) // 2
        parts = (
            ((families[0], start[:half], final[:half]), (families[1], start[half:], final[half:])) if families else ()
        )
        gain = (sum(final) - sum(start)) / len(start)
        fixed, broken = (sum(b > a for a, b in zip(*pair, strict=True)) for pair in ((start, final), (final, start)))
        told = "improved" if gain > 0 else "worse" if gain < 0 else "unchanged"
        self.append(
            "audit",
            AuditResult(
                role=role, start=START.digest, final=self.final.digest, n_tasks=len(start), missing=0,
                start_mean=sum(start) / len(start), final_mean=sum(final) / len(final), gain=gain, standard_error=0.1,
                interval=(gain - 0.2, gain + 0.2), confidence=0.95, fixed=fixed, broken=broken, both=0, neither=0,
                p_value=0.01, verdict="undecided" if self.told.doubted and role == "retain" else told,
                sentence="A sentence.", families=tuple(_family(self.text(name), a, b) for name, a, b in parts),
            ),
        )  # fmt: skip

    def _trusted(self, number: int, moment: Any) -> None:
        changed = ("grader",) if self.told.changed and (number, moment) == (1, "after") else ()
        digests = {"grader": "aa", "template": "bb"}
        self.append("trusted.hash", TrustedHash(round=number, moment=moment, digests=digests, changed=changed))

    def _diagnose(self, number: int, focal: str) -> None:
        faults = _FAULTS[1 if self.head is START else 2]
        points = sorted(faults.items(), key=lambda one: one[0] != focal)
        clusters = tuple(
            Cluster(
                code=self.text(code) if code == "carry" else code, count=tasks, share=tasks / 20, also=1, fix_rate=0.5,
                recoverable=tasks * 2.5, examples=("train-1",),
            )
            for code, tasks in points
        )  # fmt: skip
        right = 20 - sum(faults.values())
        self._sweep("train", self.head, [*[1] * right, *[0] * (20 - right)], repeat=number)
        diagnosed = Diagnosed(
            round=number, head=self.head.digest, n=20, score=right / 20, stopped=0.4, answer_tokens=17.5,
            clusters=clusters, focal=focal, cited=tuple(f"train-{n}" for n in range(5)),
            why=self.text(f"{focal} hides the others"), spend=_seconds("diagnose"),
        )  # fmt: skip
        self.append("diagnosis", diagnosed)

    def _weigh(self, number: int, focal: str, chosen: str) -> None:
        names = (chosen, "mixture_all", "null_paraphrase")
        table = tuple(
            WeighedStrategy(
                id=name, source=self.text("a catalogue"), mechanism=self.text("Train on it."),
                reported_gain=10.0 - place, reported_on="invented", fits=1.0 - place / 4, reproduces=0.5,
                data="generated", cost_s=20.0,
                risk=self.text("forgets"), score=None if place == 2 else 900.0 - 100 * place,
                lost="" if place == 0 else self.text("fewer points per hour"),
            )
            for place, name in enumerate(names)
        )  # fmt: skip
        weighed = StrategiesWeighed(
            round=number, focal=focal, table=table, chosen=chosen, recipe={"builder": "formats:end"},
            rule="the most points per hour", why=self.text("the best"), spend=_seconds("research"),
        )  # fmt: skip
        self.append("strategies", weighed)

    def _data(self, number: int, *, attempt: int = 0, size: int = 100, **more: Any) -> None:
        settings = {"method": self.told.method, "steps": 100, "batch": 32, "optimiser": {"learning_rate": 0.001}}
        built = DatasetBuilt(
            round=number, attempt=attempt, digest=f"{number}{attempt}" * 32, blob="b0" * 32, built=100, size=size,
            recipe={"builder": "formats:end", "script": self.told.says}, builders={self.text("formats:end"): size},
            roles={"built": size}, config="c0" * 32, settings=settings, spend=_seconds("build"), **more,
        )  # fmt: skip
        self.append("dataset", built)

    def _climb(self, number: int, *, attempt: int = 0, a: str, b: str | None = None) -> None:
        for stage, fault in (("a", a), ("b", b)):
            if fault is None:
                continue
            names = ("schema", "template") if stage == "a" else ("loss falls", "stops")
            checks = tuple(
                Check(name=name, passed=name != fault, found=self.text(f"found by {name}"), wanted="more")
                for name in names
            )
            passed = not fault
            self.append(
                "preflight",
                Preflighted(
                    round=number, attempt=attempt, stage=stage, checks=checks, passed=passed, data="d0" * 32,
                    template="e0" * 32, config="c0" * 32, losses=(2.0, 1.5, 1.0) if stage == "b" else (),
                    seconds_per_step=0.1 if stage == "b" else None, projected_s=10.0 if stage == "b" else None,
                    spend=_seconds(stage),
                ),
            )  # fmt: skip

    def _train(self, number: int, weights: str | None, *, repeat: int = 0, error: str | None = None) -> None:
        losses = () if weights is None else (2.0, 1.5, 1.0, 0.75, 0.5)
        parent = W0 if self.head is START else W1
        trained = TrainingEnded(
            round=number, repeat=repeat, parent=parent, weights=weights, data=f"{number}0" * 32, config="c0" * 32,
            seed=7 + repeat, losses=losses, steps=len(losses), tokens=1000, trained_tokens=300, error=error,
            spend=_seconds("training"),
        )  # fmt: skip
        self.append("training", trained)

    def _asset(self, number: int, kind: Any) -> None:
        name = f"{self.text('end_token')}-{kind}"
        self.append("asset.added", AssetAdded(round=number, name=name, kind=kind, blob="f0" * 32, validated_on=W1))

    def _child(self, number: int, child: Candidate, scores: list[int], *, index: int = 0) -> None:
        self._add(child, number, index, self.text("end_token for stop"))
        self._sweep(self.told.decide_on, child, scores)

    def _add(self, candidate: Candidate, number: int, index: int, note: str) -> None:
        self.folder.save(candidate)
        added = CandidateAdded(
            digest=candidate.digest, parent=candidate.parent, track="model", generation=number, index=index, note=note
        )
        self.append("candidate", added)

    def _decide(
        self, number: int, child: Candidate, verdict: Verdict, *, before: float, after: float, gain: float, ends: Any
    ) -> None:
        reason = self.text("net +4 > 0" if verdict is Verdict.ACCEPT else "net -1 <= 0")
        decision = Decision(
            gate="net", verdict=verdict, winner=0, n=10, effect=gain, standard_error=0.1, interval=ends, wins=4,
            losses=0, reason=reason,
        )  # fmt: skip
        decided = Decided(
            generation=number, incumbent=self.head.digest, candidates=(child.digest,), incumbent_score=before,
            scores=(after,), winner=child.digest, decision=decision,
        )  # fmt: skip
        self.append("decision", decided)

    def _floor(self, child: Candidate) -> None:
        if not self.told.floor:
            return
        by = "options.retain.floor, which decides with it"
        self.append("audit.opened", AuditOpened(role="retain", by=by, start=START.digest, final=child.digest))
        families = {"copy": 1.0, self.text("sort"): 1 / 6}
        measured = AbilitiesMeasured(
            candidate=child.digest, n=12, missing=0, mean=7 / 12, families=families, gain=-5 / 12
        )
        self.append("abilities", measured)

    def _attempt(
        self, number: int, focal: str, strategy: str, status: Any, reason: str, seconds: float, **more: Any
    ) -> None:
        child, gain = more.pop("child", None), more.pop("gain", None)
        ended = AttemptEnded(
            round=number, focal=focal, strategy=strategy, status=status, reason=self.text(reason),
            candidate=None if child is None else child.digest, select_gain=gain,
            spend=Spend(evaluations=30, wall_s=seconds, cpu_s=seconds), **more,
        )  # fmt: skip
        self.append("attempt", ended)

    def _sweep(self, purpose: str, candidate: Candidate, scores: list[int], *, repeat: int = 0) -> None:
        if purpose == "train" and repeat > 2:
            return  # the head of round 2 was swept then
        for number, score in enumerate(scores):
            self._outcome(purpose, candidate.digest, f"{purpose}-{number}", float(score))

    def _outcome(self, purpose: str, digest: str, task: str, score: float, *, key: str = "") -> None:
        status = OutcomeStatus.PASSED if score >= 0.5 else OutcomeStatus.FAILED
        outcome = Outcome(
            key=key or f"{purpose}-{digest[:8]}-{task}", purpose=purpose, candidate=digest, task=task, score=score,
            status=status, answer=self.told.says or "a, b", spend=EPISODE,
        )  # fmt: skip
        self.append("outcome", outcome)


def _family(name: str, start: list[int], final: list[int]) -> FamilyResult:
    gain = (sum(final) - sum(start)) / len(start)
    ends = (gain - 0.3, gain + 0.3)
    return FamilyResult(
        family=name, n_tasks=len(start), start_mean=sum(start) / len(start), final_mean=sum(final) / len(final),
        gain=gain, interval=ends,
    )  # fmt: skip


def _seconds(kind: str) -> Spend:
    return Spend(wall_s=LEDGER[kind], cpu_s=LEDGER[kind])
