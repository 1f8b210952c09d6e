"""A run of a loop over skills, written by hand through the real journal and folders: five rounds, audit, retention.

Round 1 is accepted (R = 3, B = 1, one flip not confirmed), round 2 rejected (R = 1, B = 1, one task missing), the edit
of round 3 is refused before it is run, of round 4 nothing can be learned, and in round 5 nothing failed. Where one
skill is evolved, a draft comes before round 1. Ten select tasks, of which the start solves 4; eight train tasks, of
which no skill solves 1, the start 4 and the final 6; of twenty audit tasks they solve 2, 6 and 9. The gate accepts an
edit without any effect with 25 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heldout.records import (
    Candidate,
    Decision,
    Edit,
    EditProposal,
    Outcome,
    OutcomeStatus,
    Record,
    Spend,
    Verdict,
    apply_edits,
)
from heldout.skills.modules import MODULES, NO_SKILL_FILE, SKILL_FILE
from heldout.store import Journal, RunFolder
from heldout.store.agent_events import Finalist, FinalSelected
from heldout.store.events import (
    AuditOpened,
    AuditResult,
    CandidateAdded,
    Decided,
    GateCalibration,
    NoiseMeasured,
    RunFinished,
    RunStarted,
    SplitMade,
    TrackMoved,
)
from heldout.store.skill_events import (
    ArmRetention,
    Cell,
    FaultAttributed,
    Judged,
    ModuleEdited,
    Retention,
    SelectTable,
    SkillRoundStarted,
)

GATE = "repairs_over_regressions"
EPISODE = Spend(evaluations=1, calls=3, tokens_in=900, tokens_out=100, wall_s=0.5, cpu_s=0.25)
ASKED = Spend(calls=1, tokens_in=4000, tokens_out=500, cost_usd=0.01, wall_s=2.0)

START = Candidate(
    files={
        name: f"# {title}\n\n## Inputs\nThe task.\n\n## State\n-\n\n## Policy\n- Look first.\n\n## Output\nA plan.\n"
        for name, title in MODULES.items()
    }
)
NONE = Candidate(files={NO_SKILL_FILE: "No skill.\n"})
ACCEPTED = (Edit(path="m2_sources.md", content=START.files["m2_sources.md"] + "- Name the source of each binding.\n"),)
REJECTED = (Edit(path="m1_task.md", content="# Task classification\n\n## Policy\n- Guess.\n"),)
LITERAL = (Edit(path="m3_skill.md", content="Use the column Umsatz.\n"),)
FINAL = apply_edits(START, ACCEPTED)
TRANSIENT = '---\nname: one-task\ndescription: For one task.\n---\nBIND column "Umsatz" SOURCE guess\n'
DRAFT = Candidate(files={SKILL_FILE: TRANSIENT}, parent=NONE.digest)

CELLS_1: dict[str, Cell] = {
    **{f"select-{number}": "both" for number in (1, 2, 3)},
    "select-0": "regression",
    **{f"select-{number}": "repair" for number in (4, 5, 6)},
    **{f"select-{number}": "neither" for number in (7, 8, 9)},
}
CELLS_2: dict[str, Cell] = {**dict.fromkeys((f"select-{n}" for n in range(10)), "both"),
                            "select-7": "repair", "select-2": "regression", "select-9": "missing"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Told:
    """What may differ between runs of the story."""

    rounds: int = 5
    finished: bool = True
    audited: bool = True
    moved: bool = True
    """The final is round 1's guide; else the start."""
    refused: str = ""
    """Why there is no retention."""
    judged: bool = True
    target: Literal["guide", "skill"] = "guide"
    simulated: bool = True
    says: str = ""
    """What every free text says; empty for sensible ones."""
    outcomes: int = 0
    """Further select outcomes, of other candidates."""


@dataclass(frozen=True, slots=True)
class _Ran:
    """What was run, on which task and why; the key follows from it where none is given."""

    purpose: str
    digest: str
    task: str
    repeat: int = 0
    key: str = ""


def skill_run(path: Path, told: Told | None = None) -> RunFolder:
    """Write the whole run."""
    return _Writer(RunFolder.create(path), told or Told()).write()


class _Writer:
    def __init__(self, folder: RunFolder, told: Told) -> None:
        self.folder, self.told = folder, told
        self.journal = Journal.open(folder.events, clock=lambda: 1.8e9)
        self.start, self.head, self.accepted = START, START, ACCEPTED
        if told.target == "skill":
            self.start, self.head = NONE, DRAFT
            self.accepted = (Edit(path=SKILL_FILE, content=TRANSIENT + "CHECK rule.\n"),)
        self.kept = apply_edits(self.head, self.accepted)
        self.final = self.kept if told.moved else self.start
        folder.config.write_text('loop = "gso"\n')

    def write(self) -> RunFolder:
        with self.journal:
            self._begin()
            if self.told.target == "skill":
                self._draft()
            for step in (self._first, self._second, self._third, self._fourth, self._fifth)[: self.told.rounds]:
                step()
            if self.told.finished:
                self._end()
            for number in range(self.told.outcomes):
                ran = _Ran("select", f"{number // 250:064d}", f"select-{number % 250}", key=f"more-{number}")
                self._outcome(ran, 1.0, recoveries=number % 3 == 0)
        return self.folder

    def append(self, kind: str, payload: Record) -> None:
        self.journal.append(kind, payload)

    def text(self, words: str) -> str:
        return self.told.says or words

    def _begin(self) -> None:
        self.append(
            "run.started",
            RunStarted(
                run="guided", loop="gso", config_digest="9f" * 32, heldout="0.1.0", command="heldout run gso",
                simulated=self.told.simulated, solver="simulated_worker", improver="skill_catalog",
                description="Change workbooks.", source="tables",
            ),
        )  # fmt: skip
        self.append("split", SplitMade(roles={"train": 8, "select": 10, "audit": 20}, digest="5b" * 32))
        self._add(self.start, 0, 0)
        self._sweep("noise", self.start, [1, 1, 1, 0, 1, 0, 0, 0, 0, 0], repeat=1)
        self.append(
            "noise.measured",
            NoiseMeasured(
                n_tasks=10, flip_rate=0.1, expected_flips=1.0, disagreement=0.1, disagreement_source="measured",
                select_tasks=10, candidates=1, audit_standard_error=0.1,
                gates=(
                    GateCalibration(gate="mcnemar", false_accept_rate=0.02, standard_error=0.01),
                    GateCalibration(gate=GATE, false_accept_rate=0.25, standard_error=0.01, smallest_table="1-0"),
                ),
            ),
        )  # fmt: skip

    def _draft(self) -> None:
        edits = (Edit(path=SKILL_FILE, content=TRANSIENT),)
        proposal = EditProposal(edits=edits, note=self.text("a first skill"), spend=ASKED)
        edited = ModuleEdited(
            round=0, target="skill", head=NONE.digest, edited=(NO_SKILL_FILE, SKILL_FILE), proposal=proposal,
            digest=DRAFT.digest,
        )  # fmt: skip
        self.append("skill.edit", edited)
        self._add(DRAFT, 0, 0)
        self._sweep("select", NONE, [1, 1, 1, *[0] * 7])
        self._sweep("select", DRAFT, [1, 1, 1, 1, *[0] * 6])
        self._table(0, DRAFT, {"select-3": "repair"}, n=10, repairs=1, regressions=0)
        self._decide(0, DRAFT, Verdict.ACCEPT, before=0.3, after=0.4, reason="the draft is the head", gate="draft")
        self._move(0, NONE, DRAFT)

    def _first(self) -> None:
        self._batch(1, self.head, failed=("train-0", "train-1"), missing=("train-3",))
        self._fault(1, "train-0", "source selection", "m2_sources.md")
        self._edit(1, self.head, self.accepted, attributed="m2_sources.md")
        self._sweep("select", self.head, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0], repeat=1)
        self._sweep("select", self.kept, [0, 1, 1, 1, 1, 1, 1, 1, 0, 0])
        self._sweep("confirm", self.kept, [0, 1, 1, 1, 0], repeat=1)
        self._table(1, self.kept, CELLS_1, unconfirmed=("select-7",), n=10, repairs=3, regressions=1)
        self._decide(1, self.kept, Verdict.ACCEPT, before=0.4, after=0.6, reason="3 repaired, 1 broken: u = +1")
        self._move(1, self.head, self.kept)

    def _second(self) -> None:
        self._batch(2, self.kept, failed=("train-4",))
        self._fault(2, "train-4", "contract parsing", "m1_task.md")
        candidate = apply_edits(self.kept, REJECTED)
        self._edit(2, self.kept, REJECTED, attributed="m1_task.md")
        self._sweep("select", candidate, [1, 1, 0, 1, 1, 1, 1, 1, 0, None])
        self._table(2, candidate, CELLS_2, n=9, repairs=1, regressions=1)
        self._decide(2, candidate, Verdict.REJECT, before=0.6, after=0.6, reason="1 repaired, 1 broken: u = -1")

    def _third(self) -> None:
        self._batch(3, self.kept, failed=("train-0", "train-5"))
        self._fault(3, "train-0", "skill compilation", "m3_skill.md")
        fault = self.text("the module names the train literal 'Umsatz'")
        self._edit(3, self.kept, LITERAL, attributed="m3_skill.md", fault=fault)
        self._decide(3, None, Verdict.UNDECIDED, before=0.6, after=None, reason="round refused: a train literal")

    def _fourth(self) -> None:
        self._batch(4, self.kept, failed=("train-6",))
        self._fault(4, "train-6", "", None)
        self._decide(4, None, Verdict.UNDECIDED, before=0.6, after=None, reason="no failure could be learned from")

    def _fifth(self) -> None:
        self._batch(5, self.kept, failed=())
        self._decide(5, None, Verdict.UNDECIDED, before=0.6, after=None, reason="no failure could be learned from")

    def _end(self) -> None:
        self._sweep("final", self.start, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0], repeat=1_000_000)
        self._sweep("final", self.kept, [1, 1, 1, 1, 1, 0, 0, 0, 0, 0], repeat=1_000_000)
        finalists = (
            Finalist(round=0, digest=self.start.digest, journaled=0.4, fresh=0.4, score=0.4),
            Finalist(round=1, digest=self.kept.digest, journaled=0.6, fresh=0.5, score=0.5),
        )
        rule = self.text("highest fresh score; of equals the start")
        self.append("selected", FinalSelected(finalists=finalists, final=self.final.digest, rule=rule))
        finished = RunFinished(
            status="improved" if self.told.moved else "unchanged", stop_reason="every round was run",
            start=self.start.digest, final=self.final.digest, start_select=0.4,
            final_select=0.5 if self.told.moved else 0.4, select_gain=0.1 if self.told.moved else 0.0, elapsed_s=42.0,
        )  # fmt: skip
        self.append("run.finished", finished)
        if self.told.audited:
            self._audit()
            self._retention()
        if self.told.judged:
            self._judge()

    def _audit(self) -> None:
        opened = AuditOpened(by="heldout run", start=self.start.digest, final=self.final.digest)
        self.append("audit.opened", opened)
        self._sweep("audit", self.start, [1] * 6 + [0] * 14)
        if self.told.moved:
            self._sweep("audit", self.kept, [0, *[1] * 9, *[0] * 10])
        self._sweep("audit", NONE, [1, 1, *[0] * 18])
        gain = 0.15 if self.told.moved else 0.0
        self.append(
            "audit",
            AuditResult(
                role="audit", start=self.start.digest, final=self.final.digest, n_tasks=20, missing=0, start_mean=0.3,
                final_mean=0.3 + gain, gain=gain, standard_error=0.1, interval=(gain - 0.2, gain + 0.2),
                confidence=0.95, fixed=4, broken=1, both=5, neither=10, p_value=0.375,
                verdict="undecided" if self.told.moved else "unchanged", sentence="Undecided on 20 tasks.",
            ),
        )  # fmt: skip

    def _retention(self) -> None:
        for candidate, solved in ((NONE, 1), (self.start, 4), (self.final, 6)):
            self._sweep("retention", candidate, [1] * solved + [0] * (8 - solved))
        arms = (
            _arm("start", self.start, (0.375, 0.1, 0.6), (0.2, 0.05, 0.35), (-0.175, -0.4, 0.1), "undecided"),
            _arm("final", self.final, (0.625, 0.3, 0.9), (0.35, 0.1, 0.55), (-0.275, -0.5, -0.05), "partly kept"),
            _arm(self.text("one_shot"), ONE_SHOT, (0.5, 0.2, 0.8), (-0.05, -0.2, 0.1), (-0.55, -0.8, -0.2), "harmful"),
        )
        arms = tuple(arm for arm in arms if arm.candidate != NONE.digest)
        arms = arms if self.told.moved else (arms[0], arms[-1])
        found = Retention(
            none=NONE.digest, n_train=8, n_audit=20, none_train=None if self.told.refused else 0.125,
            none_audit=None if self.told.refused else 0.1, arms=() if self.told.refused else arms,
            refused=self.told.refused,
        )  # fmt: skip
        self.append("retention", found)

    def _judge(self) -> None:
        names = ("generalizability", "applicability", "executability", "robustness", "clarity")
        for candidate, score in {self.start.digest: 3.0, self.final.digest: 4.0}.items():
            judged = Judged(
                candidate=candidate, judge="rules", scores=dict.fromkeys(names, score), total=score,
                excerpts={"clarity": self.text("Look first.")}, reasons={"clarity": self.text("It is short.")},
                capped=self.text("a fixed name") if score == 3.0 else "", spend=ASKED,
            )  # fmt: skip
            self.append("judge", judged)

    def _add(self, candidate: Candidate, number: int, index: int) -> None:
        self.folder.save(candidate)
        added = CandidateAdded(
            digest=candidate.digest, parent=candidate.parent, track=self.told.target, generation=number, index=index,
            note=self.told.says,
        )  # fmt: skip
        self.append("candidate", added)

    def _batch(self, number: int, head: Candidate, *, failed: tuple[str, ...], missing: tuple[str, ...] = ()) -> None:
        """Four tasks: the failed and the missing ones, then others that passed."""
        batch = (*failed, *missing, *(f"train-{task}" for task in (2, 5, 7, 4)))
        batch = tuple(dict.fromkeys(batch))[:4]
        for task in batch:
            score = None if task in missing else float(task not in failed)
            skill = self._skill(TRANSIENT) if (number, task) == (1, "train-0") else self._skill(f"{number}/{task}\n")
            self._outcome(_Ran("train", head.digest, task, repeat=number), score, skill=skill)
        started = SkillRoundStarted(round=number, head=head.digest, batch=batch, failed=failed, missing=missing)
        self.append("skill.round", started)

    def _skill(self, text: str) -> str:
        """A transient skill lies in the folder of its digest and enters no lineage."""
        kept = Candidate(files={SKILL_FILE: self.text(text)})
        self.folder.save(kept)
        return kept.digest

    def _fault(self, number: int, task: str, stage: str, module: str | None) -> None:
        attributed = FaultAttributed(
            round=number, task=task, step=1 if stage else None, stage=stage, module=module,
            mechanism=self.text("the wrong column was bound") if stage else "",
            evidence=self.text("step 1 names Umsatz") if stage else "", preserve=self.text("the output contract"),
            spend=ASKED,
        )  # fmt: skip
        self.append("fault.attributed", attributed)

    def _edit(self, number: int, head: Candidate, edits: tuple[Edit, ...], *, attributed: str, fault: str = "") -> None:
        candidate = None if fault else apply_edits(head, edits)
        proposal = EditProposal(edits=edits, note=self.text(f"edit of round {number}"), spend=ASKED)
        digest = None if candidate is None else candidate.digest
        edited = ModuleEdited(
            round=number, target=self.told.target, head=head.digest,
            attributed=attributed if self.told.target == "guide" else None, edited=tuple(edit.path for edit in edits),
            proposal=proposal, digest=digest, fault=fault,
        )  # fmt: skip
        self.append("skill.edit", edited)
        self._add(apply_edits(head, edits), number, 0)

    def _table(self, number: int, candidate: Candidate, cells: dict[str, Cell], *, n: int, repairs: float,
               regressions: float, unconfirmed: tuple[str, ...] = ()) -> None:  # fmt: skip
        table = SelectTable(
            round=number, parent=self._parent(number).digest, candidate=candidate.digest,
            cells=cells, unconfirmed=unconfirmed, n=n, coverage=n / 10, repairs=repairs, regressions=regressions,
            utility=repairs - 2 * regressions, families={self.text("filter"): 0.2, "join": -0.1},
        )  # fmt: skip
        self.append("skill.table", table)

    def _decide(self, number: int, candidate: Candidate | None, verdict: Verdict, *, before: float,
                after: float | None, reason: str, gate: str = GATE) -> None:  # fmt: skip
        decision = Decision(gate=gate, verdict=verdict, winner=None if candidate is None else 0,
                            reason=self.text(reason))  # fmt: skip
        digests = () if candidate is None else (candidate.digest,)
        decided = Decided(
            generation=number, incumbent=self._parent(number).digest, candidates=digests,
            incumbent_score=before, scores=() if candidate is None else (after,),
            winner=None if candidate is None else candidate.digest, decision=decision,
        )  # fmt: skip
        self.append("decision", decided)

    def _move(self, number: int, origin: Candidate, target: Candidate) -> None:
        moved = TrackMoved(
            track=self.told.target, origin=origin.digest, target=target.digest, generation=number, why="it moved"
        )
        self.append("track.moved", moved)

    def _parent(self, number: int) -> Candidate:
        return (self.start, self.head, self.kept)[min(number, 2)]

    def _sweep(self, purpose: str, candidate: Candidate, scores: list[int | None], *, repeat: int = 0) -> None:
        role = {"retention": "train", "audit": "audit"}.get(purpose, "select")
        for place, score in enumerate(scores):
            ran = _Ran(purpose, candidate.digest, f"{role}-{place}", repeat=repeat)
            self._outcome(ran, score, recoveries=place == 0)

    def _outcome(self, ran: _Ran, score: float | None, *, recoveries: bool = False, skill: str = "") -> None:
        status = OutcomeStatus.NOT_MEASURED if score is None else OutcomeStatus("passed" if score else "failed")
        fresh = self.told.target == "guide" and ran.digest != NONE.digest
        measures = {"skill_calls": float(fresh), "recoveries": float(recoveries), "faults_declared": float(recoveries)}
        outcome = Outcome(
            key=ran.key or f"{ran.digest[:8]}-{ran.purpose}-{ran.task}-{ran.repeat}", purpose=ran.purpose,
            candidate=ran.digest, task=ran.task, repeat=ran.repeat, score=score, status=status, measures=measures,
            spend=EPISODE, artifacts={SKILL_FILE: skill} if skill and fresh else {},
        )  # fmt: skip
        self.append("outcome", outcome)


def _arm(name: str, candidate: Candidate, train: tuple[float, float, float], audit: tuple[float, float, float],
         retention: tuple[float, float, float], verdict: str) -> ArmRetention:  # fmt: skip
    return ArmRetention(
        arm=name, candidate=candidate.digest, train_gain=train[0], train_interval=train[1:], audit_gain=audit[0],
        audit_interval=audit[1:], retention=retention[0], retention_interval=retention[1:], verdict=verdict,
    )  # fmt: skip


ONE_SHOT = Candidate(files={SKILL_FILE: TRANSIENT + "One shot.\n"})
