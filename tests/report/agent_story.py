"""A run of a loop over agents, written by hand through the real journal and folders: three rounds and a method audit.

Round 1 is kept (two files changed, one added, one deleted), round 2 never passes the mechanical checks, round 3 is
reverted. Ten select tasks, of which the start solves 4 and round 1 solves 6, one flip was flaky and one had no second
run; of eight train tasks four fail under the start; the flip rate is 20 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.records import (
    Candidate,
    Decision,
    Edit,
    EditProposal,
    Evidence,
    EvidenceVerdict,
    Outcome,
    OutcomeStatus,
    ProbeKind,
    Spend,
    Verdict,
    apply_edits,
    edits_digest,
)
from heldout.store import Journal, RunFolder
from heldout.store.agent_events import (
    CardWritten,
    CommandsReplayed,
    Finalist,
    FinalSelected,
    FlipsConfirmed,
    MethodAudited,
    MethodEdited,
    PredictionScored,
    RoundStarted,
    Screened,
    SignatureSeen,
    Smoked,
    Submitted,
    TraceMinimised,
)
from heldout.store.events import (
    AuditOpened,
    AuditResult,
    CandidateAdded,
    Decided,
    NoiseMeasured,
    Prepared,
    Proposed,
    RunFinished,
    RunStarted,
    SplitMade,
    TrackMoved,
)

SPEND = Spend(evaluations=1, calls=3, tokens_in=900, tokens_out=40, wall_s=0.5, cpu_s=0.25)
ASKED = Spend(calls=2, tokens_in=4000, tokens_out=300, cost_usd=0.01, wall_s=2.0)
REPLAYED = Spend(evaluations=1, wall_s=0.25)

HOOKS = "def before_tool(call):\n    return call\n"

START = Candidate(
    files={
        "system_prompt.md": "You mend packages.\n",
        "workflow.md": "Read the issue.\nMend the code.\n",
        "tool_notes/shell.md": "Use the shell.\n",
    }
)
METHOD = Candidate(
    files={"prompt.md": "Look at failures.\n", "notes.md": "Nothing is known.\n", "MANIFEST.json": "[]\n"}
)

KEPT_EDITS = (
    Edit(path="workflow.md", content="Read the issue.\nMend the code.\nRun python check.py.\n"),
    Edit(path="harness_code/hooks.py", content=HOOKS),
    Edit(path="tool_notes/shell.md", content=None),
)
REVERTED_EDITS = (Edit(path="system_prompt.md", content="You mend packages quickly.\n"),)


@dataclass(frozen=True, slots=True)
class Told:
    """What may differ between runs of the story."""

    rounds: int = 3
    audited: bool = True
    finished: bool = True
    void: bool = False
    """Round 3 is void instead of reverted."""
    says: str = ""
    """What every free text says; empty for sensible ones."""
    outcomes: int = 0
    """Further select outcomes, of other candidates."""


def agent_run(path: Path, told: Told | None = None) -> RunFolder:
    """Write the whole run."""
    return _Writer(RunFolder.create(path), told or Told()).write()


class _Writer:
    def __init__(self, folder: RunFolder, told: Told) -> None:
        self.folder, self.told = folder, told
        self.journal = Journal.open(folder.events, clock=lambda: 1.8e9)
        self.kept = apply_edits(START, KEPT_EDITS)
        self.method = apply_edits(METHOD, (Edit(path="notes.md", content="Checks help.\n"),))
        folder.config.write_text(
            'loop = "verse"\n[search]\ngenerations = 3\ncandidates = 2\n[options.probe]\nunits = 4\n'
        )

    def write(self) -> RunFolder:
        with self.journal:
            self._begin()
            steps = (self._first, self._second, self._third)
            for step in steps[: self.told.rounds]:
                step()
            if self.told.finished:
                self._end()
            for number in range(self.told.outcomes):
                self._outcome("select", f"{number // 250:064d}", f"select-{number % 250}", 1.0, key=f"more-{number}")
        return self.folder

    def text(self, words: str) -> str:
        return self.told.says or words

    def _begin(self) -> None:
        self.journal.append(
            "run.started",
            RunStarted(
                run="mended", loop="verse", config_digest="9f" * 32, heldout="0.1.0", command="heldout run verse",
                simulated=True, solver="simulated_coder", improver="catalog", description="Mend packages.",
                source="repair",
            ),
        )  # fmt: skip
        self.journal.append(
            "split", SplitMade(roles={"train": 8, "select": 10, "audit": 20, "ood": 8}, digest="5b" * 32)
        )
        self._add(START, "harness", 0, 0)
        self._sweep("select", START, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
        self._add(METHOD, "method", 0, 0)
        self._sweep("noise", START, [1, 1, 1, 0, 1, 0, 0, 0, 0, 0], role="select", repeat=1)
        self.journal.append(
            "noise.measured",
            NoiseMeasured(
                n_tasks=10, flip_rate=0.2, expected_flips=2.0, disagreement=0.2, disagreement_source="measured",
                select_tasks=10, candidates=2, audit_standard_error=0.1,
            ),
        )  # fmt: skip
        self.journal.append("round.started", RoundStarted(round=0, head=START.digest, method=METHOD.digest, swept=True))
        self._sweep("train", START, [0, 0, 0, 0, 1, 1, 1, 1])
        self.journal.append("prepared", Prepared(key="p", purpose="check", values={}, spend=Spend(calls=1)))

    def _first(self) -> None:
        self._start(1, START, METHOD, swept=False)
        self._replays()
        self._signatures(1, {"AssertionError: <n>": ("train-0", "train-1"), "cat: <path>": ("train-2", "train-3")})
        probes = (
            self._probe(
                (1, 0, 0), "supports", tasks=("train-0", "train-1"), flips=("train-0",), unconfirmed=("train-1",)
            ),
            self._probe((1, 0, 1), "refutes", tasks=("train-2", "train-3"), broken=("train-5",)),
            self._probe((1, 1, 0), "inconclusive", tasks=("train-2",), unconfirmed=("train-2",)),
            self._probe((1, 1, 1), "none", tasks=("select-1",), refused=self.text("'select-1' is no train task")),
            self._probe((1, -1, 0), "inconclusive", tasks=("train-0",), kind=ProbeKind.REPLAY, spend=REPLAYED),
        )
        for probe in probes:
            self.journal.append("probe", probe)
        lost = (Edit(path="workflow.md", content="Hurry.\n"),)
        self._submit(1, 0, KEPT_EDITS, fixes=("train-0", "train-1"))
        self._submit(1, 1, lost)
        self._screen(1, (self.kept, apply_edits(START, lost)), fixed=(2, 1), broken=(0, 1), winner=0)
        self._smoke(1, 0, self.kept)
        self._sweep("select", self.kept, [1, 1, 1, 1, 1, 1, 1, 1, 0, 0])
        self._sweep("confirm", self.kept, [1, 1, 0, None], role="select", repeat=1)
        self._flips(1, self.kept, fixed=(4, 5), flaky=(6,), infra=(7,), after=0.6, label="EFFECTIVE")
        self._decide(1, self.kept, 0.4, 0.6, Verdict.ACCEPT)
        moved = TrackMoved(track="harness", origin=START.digest, target=self.kept.digest, generation=1, why="kept")
        self.journal.append("track.moved", moved)
        self._card(1)
        self._reflect(1, METHOD, self.method)

    def _second(self) -> None:
        self._start(2, self.kept, self.method, swept=True)
        self._sweep("train", self.kept, [1, 0, 1, 0, 1, 1, 1, 1])
        scored = PredictionScored(round=1, outcomes={"train-0": "flipped", "train-1": "still_F"})
        self.journal.append("prediction.scored", scored)
        self._signatures(2, {"AssertionError: <n>": ("train-1", "train-2", "train-3")})
        broken = (Edit(path="harness_code/hooks.py", content="import os\n"),)
        self._submit(2, 0, broken, base=self.kept)
        self._submit(2, 1, (), fault=self.text("the improver submitted no edits"))
        candidate = apply_edits(self.kept, broken)
        self._screen(2, (candidate, None), fixed=(1, 0), broken=(0, 0), winner=0, disqualified=("", "no edits"))
        self._smoke(2, 0, candidate, "hooks", self.text("line 1: import os is not allowed"))
        self._submit(2, 0, broken, base=self.kept, attempt=1)
        self._smoke(2, 1, candidate, "hooks", self.text("line 1: import os is still not allowed"))
        self._decide(2, None, 0.6, None, Verdict.UNDECIDED)
        self._card(2)

    def _third(self) -> None:
        self._start(3, self.kept, self.method, swept=False)
        self._submit(3, 0, REVERTED_EDITS, base=self.kept)
        candidate = apply_edits(self.kept, REVERTED_EDITS)
        self._screen(3, (candidate,), fixed=(0,), broken=(1,), winner=0, disqualified=("",))
        self._smoke(3, 0, candidate)
        if self.told.void:
            self._sweep("select", candidate, [1, None, None, None, 1, 1, 1, 1, 0, 0])
            self._flips(3, candidate, before=0.6, after=0.6, label="void", n=7)
            self._decide(3, candidate, 0.6, None, Verdict.UNDECIDED, name=None)
        else:
            self._sweep("select", candidate, [0, 1, 1, 1, 1, 1, 0, 0, 0, 0])
            self._flips(3, candidate, broken=(0,), before=0.6, after=0.5, label="HARMFUL")
            self._decide(3, candidate, 0.6, 0.5, Verdict.REJECT)
        self._card(3)
        self._reflect(3, self.method, self.method, faults=(self.text("search.md names the task 'train-3'"),))

    def _end(self) -> None:
        self._sweep("final", START, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0], role="select", repeat=1_000_000)
        self._sweep("final", self.kept, [1, 1, 1, 1, 1, 0, 0, 0, 0, 0], role="select", repeat=1_000_000)
        finalists = (
            Finalist(round=0, digest=START.digest, journaled=0.4, fresh=0.4, score=0.4),
            Finalist(round=1, digest=self.kept.digest, journaled=0.6, fresh=0.5, score=0.5),
        )
        selected = FinalSelected(finalists=finalists, final=self.kept.digest, rule=self.text("highest fresh score"))
        self.journal.append("selected", selected)
        for number in (4, 5):
            edits = (Edit(path=f"skills/audit-{number}.md", content="Try.\n"),)
            self._submit(number, 0, edits, base=self.kept)
            candidate = apply_edits(self.kept, edits)
            self._screen(number, (candidate,), fixed=(1,), broken=(0,), winner=0, disqualified=("",))
            self._flips(number, candidate, before=0.6, after=0.6, label="INERT")
        audited = MethodAudited(
            head=self.kept.digest, start_method=METHOD.digest, final_method=self.method.digest, start_gain=0.0,
            final_gain=0.1, n=10, difference=0.1, interval=(-0.05, 0.25), sentence=self.text("It is undecided."),
        )  # fmt: skip
        self.journal.append("meta_audit", audited)
        finished = RunFinished(
            status="improved", stop_reason="every generation was run", start=START.digest, final=self.kept.digest,
            start_select=0.4, final_select=0.5, select_gain=0.1, elapsed_s=42.0,
        )  # fmt: skip
        self.journal.append("run.finished", finished)
        for role, n in (("audit", 20), ("ood", 8)) if self.told.audited else ():
            self._audit(role, n)

    def _audit(self, role: str, n: int) -> None:
        self.journal.append(
            "audit.opened", AuditOpened(role=role, by="heldout run", start=START.digest, final=self.kept.digest)
        )
        self._sweep(role, START, [1, 1, *[0] * (n - 2)])
        self._sweep(role, self.kept, [1, 0, 1, 1, *[0] * (n - 4)])
        gain = 1 / n
        self.journal.append(
            "audit",
            AuditResult(
                role=role, start=START.digest, final=self.kept.digest, n_tasks=n, missing=0, start_mean=2 / n,
                final_mean=3 / n, gain=gain, standard_error=0.08, interval=(gain - 0.16, gain + 0.16), confidence=0.95,
                fixed=2, broken=1, both=1, neither=n - 4, p_value=1.0, verdict="undecided",
                sentence=f"Undecided on {n} tasks.",
            ),
        )  # fmt: skip

    def _start(self, number: int, head: Candidate, method: Candidate, *, swept: bool) -> None:
        started = RoundStarted(round=number, head=head.digest, method=method.digest, swept=swept)
        self.journal.append("round.started", started)

    def _add(self, candidate: Candidate, track: str, number: int, index: int) -> None:
        self.folder.save(candidate)
        added = CandidateAdded(
            digest=candidate.digest, parent=candidate.parent, track=track, generation=number, index=index,
            note=self.told.says,
        )  # fmt: skip
        self.journal.append("candidate", added)

    def _submit(
        self, number: int, episode: int, edits: tuple[Edit, ...], *, fixes: tuple[str, ...] = (), fault: str = "",
        attempt: int = 0, base: Candidate = START,
    ) -> None:  # fmt: skip
        candidate = apply_edits(base, edits) if edits else None
        proposal = EditProposal(
            edits=edits, predicted_fixes=fixes, note=self.text(f"edit {number}/{episode}"), error=fault or None,
            spend=ASKED,
        )  # fmt: skip
        digest = None if candidate is None else candidate.digest
        submitted = Submitted(
            round=number, episode=episode, attempt=attempt, proposal=proposal, digest=digest,
            edits=edits_digest(edits), fault=fault,
        )  # fmt: skip
        self.journal.append("submission", submitted)
        if not attempt:
            proposed = Proposed(
                generation=number, index=episode, digest=digest, note=proposal.note, error=fault or None
            )
            self.journal.append("proposal", proposed)
            if candidate is not None:
                self._add(candidate, "harness", number, episode)

    def _screen(
        self, number: int, candidates: tuple[Candidate | None, ...], *, fixed: tuple[int, ...],
        broken: tuple[int, ...], winner: int, disqualified: tuple[str, ...] = ("", ""),
    ) -> None:  # fmt: skip
        screened = Screened(
            round=number, tasks=("train-0", "train-1", "train-2", "train-3", "train-4"), canaries=("train-4",),
            candidates=tuple(one and one.digest for one in candidates), fixed=fixed, broken=broken,
            missing=(0,) * len(candidates), confirmed=(0,) * len(candidates), disqualified=disqualified, winner=winner,
        )  # fmt: skip
        self.journal.append("screen", screened)

    def _smoke(self, number: int, attempt: int, candidate: Candidate, check: str = "", fault: str = "") -> None:
        smoked = Smoked(round=number, attempt=attempt, candidate=candidate.digest, check=check, fault=fault)
        self.journal.append("smoke", smoked)

    def _flips(self, number: int, candidate: Candidate, *, label: str, before: float = 0.4, after: float,
               n: int = 10, **flips: tuple[int, ...]) -> None:  # fmt: skip
        named = {name: tuple(f"select-{task}" for task in flips.get(name, ())) for name in _FLIPS}
        self.journal.append(
            "flips",
            FlipsConfirmed(
                round=number, base=START.digest, candidate=candidate.digest, n=n, coverage=n / 10, score_before=before,
                score_after=after, hook_error_rate=0.25, hooks_broken=False, label=label, **named,
            ),
        )  # fmt: skip

    def _decide(
        self, number: int, candidate: Candidate | None, before: float, after: float | None, verdict: Verdict,
        name: str | None = "",
    ) -> None:  # fmt: skip
        decision = Decision(gate="net", verdict=verdict, winner=None if candidate is None else 0,
                            reason=self.text(f"because {number}"))  # fmt: skip
        digests = () if candidate is None else (candidate.digest,)
        decided = Decided(
            generation=number, incumbent=(START if number == 1 else self.kept).digest, candidates=digests,
            incumbent_score=before, scores=() if candidate is None else (after,),
            winner=None if candidate is None or name is None else candidate.digest, decision=decision,
        )  # fmt: skip
        self.journal.append("decision", decided)

    def _reflect(self, number: int, origin: Candidate, target: Candidate, faults: tuple[str, ...] = ()) -> None:
        wrong = (Edit(path="search.md", content=self.text("Look at train-3 first.\n")),)
        right = (Edit(path="notes.md", content="Checks help.\n"),)
        self.folder.save(target)
        edited = MethodEdited(
            round=number, origin=origin.digest, target=target.digest, faults=faults, spend=ASKED,
            proposal=EditProposal(edits=wrong if faults else right, note=self.text("what helped"), spend=ASKED),
        )  # fmt: skip
        self.journal.append("method.edited", edited)
        if target.digest != origin.digest:
            moved = TrackMoved(
                track="method", origin=origin.digest, target=target.digest, generation=number, why="edited"
            )
            self.journal.append("track.moved", moved)

    def _card(self, number: int) -> None:
        self.journal.append("card", CardWritten(round=number, text=self.text(f"# Round {number}\nfacts\n")))

    def _signatures(self, number: int, seen: Mapping[str, tuple[str, ...]]) -> None:
        for name, tasks in seen.items():
            core = (self.text("python check.py"),) if name.startswith("Assert") else ()
            seen_now = SignatureSeen(
                round=number, signature=self.told.says + name, tasks=tasks, cause="omission" if core else "unknown",
                core=core,
            )  # fmt: skip
            self.journal.append("ledger.signature", seen_now)

    def _replays(self) -> None:
        replayed = CommandsReplayed(
            round=1, key="k", answer=None, outputs=("no",), exit_codes=(1,), score=0.0, spend=REPLAYED
        )
        self.journal.append("replay", replayed)
        for task, passed in (("train-0", False), ("train-4", True)):
            minimised = TraceMinimised(
                round=1, task=task, signature="" if passed else self.told.says + "AssertionError: <n>", passed=passed,
                keep=(1,), commands=(self.text("python check.py"),), cause="success" if passed else "omission",
                replays=2,
            )  # fmt: skip
            self.journal.append("attribution", minimised)

    def _probe(self, place: tuple[int, int, int], verdict: str, *, tasks: tuple[str, ...], **told: Any) -> Evidence:
        """`place`: round, episode and ordinal; `told`: further fields of the evidence."""
        number, episode, ordinal = place
        fields = {"kind": ProbeKind.FIX_PROBE, "units": 0 if "refused" in told else len(tasks), **told}
        return Evidence(
            round=number, episode=episode, ordinal=ordinal, tasks=tasks, base=START.digest,
            verdict=EvidenceVerdict(verdict), detail=self.text("one sentence"), **fields,
        )  # fmt: skip

    def _sweep(
        self, purpose: str, candidate: Candidate, scores: list[int | None], *, role: str = "", repeat: int = 0
    ) -> None:
        for place, score in enumerate(scores):
            self._outcome(purpose, candidate.digest, f"{role or purpose}-{place}", score, repeat=repeat)

    def _outcome(
        self, purpose: str, digest: str, task: str, score: float | None, *, repeat: int = 0, key: str = ""
    ) -> None:
        status = OutcomeStatus.NOT_MEASURED if score is None else OutcomeStatus("passed" if score else "failed")
        outcome = Outcome(
            key=key or f"{digest[:8]}-{purpose}-{task}-{repeat}", purpose=purpose, candidate=digest, task=task,
            repeat=repeat, score=score, status=status, spend=SPEND,
        )  # fmt: skip
        self.journal.append("outcome", outcome)


_FLIPS = ("fixed", "broken", "flaky", "infra")
