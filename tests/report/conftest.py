"""A realistic run for reports: eight generations of four rewrites, written through the real journal and folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from heldout.records import Candidate, Decision, Outcome, OutcomeStatus, Spend, Verdict
from heldout.stats import selection_overstatement, variance_components
from heldout.store import Journal, RunFolder
from heldout.store.events import (
    AuditOpened,
    AuditResult,
    CandidateAdded,
    Decided,
    GateCalibration,
    GenerationStarted,
    NoiseEstimated,
    NoiseMeasured,
    Prepared,
    Proposed,
    RoleScored,
    RunFinished,
    RunStarted,
    SplitMade,
    TrackMoved,
)

START_TEXT = """Classify the question by the kind of answer it asks for.
Answer with one word: abbreviation, entity, description, person, place or number.
"""

EDITS = (
    (
        "say that only the label may be written",
        "Answer with one word:",
        "Write one of these words only:",
    ),
    (
        "explain what a description is",
        "it asks for.",
        "it asks for.\nDefinitions and reasons are descriptions.",
    ),
    ("tell apart persons and groups", "or number.", "or number.\nA company is a person when the question asks who."),
    ("name dates as numbers", "or number.", "or number.\nDates, counts, prices and distances are numbers."),
    ("ask for step by step thought", "Classify the question", "Think step by step, then classify the question"),
    ("be polite", "Classify the question", "Please classify the question carefully"),
    ("shorten the list", "abbreviation, entity, description,", "abbreviation, thing, description,"),
    ("look at the first word", "Answer with", "Look at the question word first (who, where, when).\nAnswer with"),
)

SPEND = Spend(evaluations=1, calls=1, tokens_in=142, tokens_out=2, wall_s=0.041, cpu_s=0.08)


@dataclass
class Story:
    """What the run should be like."""

    simulated: bool = False
    audited: bool = True
    gold: bool = True
    finished: bool = True
    improves: bool = True
    generations: int = 8
    k: int = 4
    select: int = 64
    note: str = ""
    seed: int = 5


@dataclass
class Writer:
    """Appends events of a made-up run; truth of a candidate is its skill."""

    folder: RunFolder
    journal: Journal
    story: Story
    rng: np.random.Generator
    difficulty: dict[str, np.ndarray] = field(default_factory=dict)

    def measure(self, digest: str, skill: float, purpose: str, n: int, *, repeat: int = 0) -> np.ndarray:
        """Journal n outcomes; every 40th of the audit is not measured."""
        hard = self.difficulty.setdefault("select" if purpose == "noise" else purpose, self.rng.normal(0, 1, 1000))
        own = np.random.default_rng(int(digest[:8], 16) + (5 if purpose == "noise" else 0))
        luck = 0.75 * hard[:n] + 0.66 * own.normal(0, 1, n)
        if purpose == "noise":
            base = np.random.default_rng(int(digest[:8], 16)).normal(0, 1, n)
            luck = 0.75 * hard[:n] + 0.66 * np.where(own.random(n) < 0.1, own.normal(0, 1, n), base)
        score = (luck < _threshold(skill)).astype(float)
        if purpose == "audit":
            score[::40] = np.nan
        for task, value in enumerate(score):
            missing = bool(np.isnan(value))
            self.journal.append(
                "outcome",
                Outcome(
                    key=f"{digest[:8]}-{purpose}-{task}-{repeat}",
                    purpose=purpose,
                    candidate=digest,
                    task=f"{'select' if purpose == 'noise' else purpose}-{task:03d}",
                    repeat=repeat,
                    score=None if missing else float(value),
                    status=OutcomeStatus.NOT_MEASURED if missing else OutcomeStatus("passed" if value else "failed"),
                    answer=None if missing else "<i>number</i>",
                    error="timed out after 60 s <script>alert(3)</script>" if missing else None,
                    spend=SPEND,
                ),
            )
        return score

    def add(self, candidate: Candidate, generation: int, index: int, note: str) -> None:
        self.folder.save(candidate)
        self.journal.append(
            "candidate",
            CandidateAdded(
                digest=candidate.digest, parent=candidate.parent, generation=generation, index=index, note=note
            ),
        )


def _threshold(skill: float) -> float:
    return float(np.quantile(np.random.default_rng(0).normal(0, 1, 20000), skill))


def build_run(path: Path, story: Story) -> RunFolder:
    """Write the whole run that the story tells."""
    folder = RunFolder.create(path)
    folder.config.write_text('loop = "winners_curse"\nseed = 7\n\n[tasks]\nsource = "questions"\nselect = 64\n')
    with Journal.open(folder.events, clock=lambda: 1.8e9) as journal:
        writer = Writer(folder, journal, story, np.random.default_rng(story.seed))
        _begin(writer)
        start = Candidate(files={"instruction.md": START_TEXT, "demonstrations.jsonl": ""})
        skills = {start.digest: 0.46}
        writer.add(start, 0, 0, "the start")
        scores = {start.digest: writer.measure(start.digest, 0.46, "select", story.select)}
        _noise(writer, start.digest)
        head = start
        for generation in range(1, story.generations + 1):
            head = _generation(writer, generation, head, skills, scores)
        if story.finished:
            _end(writer, start, head, skills, scores)
    return folder


def _begin(writer: Writer) -> None:
    story = writer.story
    writer.journal.append(
        "run.started",
        RunStarted(
            run="autumn-questions",
            loop="winners_curse",
            config_digest="9f2c41aa0be1" * 5 + "abcd",
            heldout="0.1.0",
            command="heldout run winners_curse tasks.source=questions solver.model.name=smollm2 seed=7",
            simulated=story.simulated,
            solver="simulated" if story.simulated else "smollm2",
            improver="demonstrations",
            description="Classify questions by the kind of answer they ask for.",
            source="questions",
        ),
    )
    roles = {"train": 64, "select": story.select, "audit": 200, "gold": 300}
    writer.journal.append("split", SplitMade(roles=roles, digest="5be0cd19137e" * 5 + "2179", dropped=3))


def _noise(writer: Writer, start: str) -> None:
    writer.measure(start, 0.46, "noise", 32, repeat=1)
    rates = {"greedy": 0.71, "ladder": 0.42, "select_confirm": 0.19, "mcnemar": 0.09, "pace": 0.031}
    tables = {"greedy": "1-0", "select_confirm": "1-0 on each half", "mcnemar": "5-0, 7-1, 9-2", "pace": "8-0, 10-1"}
    gates = tuple(
        GateCalibration(gate=gate, false_accept_rate=rate, standard_error=0.009, smallest_table=tables.get(gate, ""))
        for gate, rate in rates.items()
    )
    writer.journal.append(
        "noise.measured",
        NoiseMeasured(
            n_tasks=32,
            flip_rate=0.0625,
            expected_flips=4.0,
            disagreement=0.2,
            disagreement_source="assumed",
            select_tasks=writer.story.select,
            candidates=4,
            gates=gates,
            audit_standard_error=0.0316,
        ),
    )


def _generation(
    writer: Writer, generation: int, head: Candidate, skills: dict[str, float], scores: dict[str, np.ndarray]
) -> Candidate:
    story, journal = writer.story, writer.journal
    journal.append("generation.started", GenerationStarted(generation=generation, incumbent=head.digest))
    made = []
    for index in range(story.k):
        if generation == 3 and index == 2:
            journal.append(
                "proposal", Proposed(generation=3, index=2, digest=None, error="the reply was not an instruction")
            )
            continue
        candidate, note = _rewrite(writer, head, generation, index)
        lift = writer.rng.normal(0.1 if generation == 1 else -0.03, 0.03) if story.improves else -0.3
        skills[candidate.digest] = float(np.clip(skills[head.digest] + lift, 0.05, 0.95))
        spend = Spend(calls=1, tokens_in=611, tokens_out=88, wall_s=1.9, cpu_s=3.1)
        journal.append(
            "proposal", Proposed(generation=generation, index=index, digest=candidate.digest, note=note, spend=spend)
        )
        writer.add(candidate, generation, index, note)
        journal.append(
            "prepared",
            Prepared(
                key=candidate.digest[:8], purpose="calibrate", values={"number": 0.1}, spend=Spend(calls=3, wall_s=0.2)
            ),
        )
        scores[candidate.digest] = writer.measure(candidate.digest, skills[candidate.digest], "select", story.select)
        made.append(candidate)
    return _decide(writer, generation, head, made, scores)


def _rewrite(writer: Writer, head: Candidate, generation: int, index: int) -> tuple[Candidate, str]:
    note, old, new = EDITS[int(writer.rng.integers(len(EDITS)))]
    text = head.files["instruction.md"].replace(old, new, 1)
    shots = head.files["demonstrations.jsonl"]
    shot = {"input": f"What is the height of tower {generation}{index}?", "label": "number"}
    demonstrations = shots + json.dumps(shot) + "\n"
    files = {"instruction.md": text, "demonstrations.jsonl": demonstrations}
    return Candidate(files=files, parent=head.digest), writer.story.note or f"{note}; add one example"


def _decide(
    writer: Writer, generation: int, head: Candidate, made: list[Candidate], scores: dict[str, np.ndarray]
) -> Candidate:
    gains = [float((scores[one.digest] - scores[head.digest]).mean()) for one in made]
    best = int(np.argmax(gains))
    difference = scores[made[best].digest] - scores[head.digest]
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    accepted = gains[best] > 0
    error = float(difference.std(ddof=1) / len(difference) ** 0.5)
    decision = Decision(
        gate="greedy",
        verdict=Verdict.ACCEPT if accepted else Verdict.REJECT,
        winner=best,
        n=len(difference),
        effect=gains[best],
        standard_error=error,
        interval=(gains[best] - 2 * error, gains[best] + 2 * error),
        wins=wins,
        losses=losses,
        reason=f"{wins} wins, {losses} losses on {len(difference)} tasks: the best gain is "
        f"{'above' if accepted else 'not above'} zero.",
    )
    parts = variance_components(scores[head.digest], np.stack([scores[one.digest] for one in made]))
    assert parts is not None
    writer.journal.append(
        "noise.estimated",
        NoiseEstimated(
            generation=generation,
            n=parts.n,
            mu=parts.mu,
            s=parts.s,
            sigma=parts.sigma,
            sigma0=parts.sigma0,
            lam=parts.lam,
            expected_overstatement=selection_overstatement(len(made), parts.s, parts.sigma),
        ),
    )
    writer.journal.append(
        "decision",
        Decided(
            generation=generation,
            incumbent=head.digest,
            candidates=tuple(one.digest for one in made),
            incumbent_score=float(scores[head.digest].mean()),
            scores=tuple(float(scores[one.digest].mean()) for one in made),
            winner=made[best].digest,
            decision=decision,
        ),
    )
    if not accepted:
        return head
    moved = TrackMoved(
        track="instruction", origin=head.digest, target=made[best].digest, generation=generation, why=decision.reason
    )
    writer.journal.append("track.moved", moved)
    return made[best]


def _end(
    writer: Writer, start: Candidate, final: Candidate, skills: dict[str, float], scores: dict[str, np.ndarray]
) -> None:
    writer.journal.append(
        "run.finished",
        RunFinished(
            status="unchanged" if start.digest == final.digest else "improved",
            stop_reason="all generations were run",
            start=start.digest,
            final=final.digest,
            start_select=float(scores[start.digest].mean()),
            final_select=float(scores[final.digest].mean()),
            elapsed_s=131.4,
        ),
    )
    if writer.story.audited:
        _audit(writer, start.digest, final.digest, skills)
    if writer.story.gold:
        for digest, skill in skills.items():
            gold = writer.measure(digest, skill, "gold", 300)
            scored = RoleScored(role="gold", candidate=digest, n_tasks=300, missing=0, mean=float(gold.mean()))
            writer.journal.append("role.scored", scored)


def _audit(writer: Writer, start: str, final: str, skills: dict[str, float]) -> None:
    writer.journal.append("audit.opened", AuditOpened(by="heldout run", start=start, final=final))
    a = writer.measure(start, skills[start], "audit", 200)
    b = writer.measure(final, skills[final], "audit", 200) if final != start else a
    measured = ~np.isnan(a) & ~np.isnan(b)
    a, b = a[measured], b[measured]
    gain, error = float((b - a).mean()), float((b - a).std(ddof=1) / len(a) ** 0.5)
    low, high = gain - 1.97 * error, gain + 1.97 * error
    verdict = "unchanged" if start == final else "improved" if low > 0 else "worse" if high < 0 else "undecided"
    writer.journal.append(
        "audit",
        AuditResult(
            role="audit", start=start, final=final, n_tasks=len(a), missing=int((~measured).sum()),
            start_mean=float(a.mean()), final_mean=float(b.mean()), gain=gain, standard_error=error,
            interval=(low, high), confidence=0.95, fixed=float(((b > a)).sum()), broken=float((b < a).sum()),
            both=float(((a == 1) & (b == 1)).sum()), neither=float(((a == 0) & (b == 0)).sum()), p_value=0.0124,
            verdict=verdict, sentence=f"On {len(a)} audit tasks the final candidate is {verdict} against the start.",
            tasks_to_decide=640 if verdict == "undecided" else None,
        ),
    )  # fmt: skip


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunFolder]:
    """Build a run in a temporary folder; keywords are fields of `Story`."""

    def make(**story: object) -> RunFolder:
        return build_run(tmp_path / f"run-{len(list(tmp_path.iterdir()))}", Story(**story))  # type: ignore[arg-type]

    return make
