"""One run of the real loop in the shadow world, and what is read from it; nothing of its folder is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from heldout.audit import Opener, open_sealed_role
from heldout.config import ExecutorConfig, RunConfig, config_digest
from heldout.loops.session import Session
from heldout.loops.verse import Verse
from heldout.records import Evidence, Record
from heldout.rollouts import make_executor
from heldout.store import RunFolder, read_events
from heldout.store.agent_events import FinalSelected, FlipsConfirmed, MethodEdited
from heldout.store.events import AuditResult, CandidateAdded, Decided
from heldout.studies.verse.truths import Truth, Verdicts, count_verdicts, wrong_readings
from heldout.workbench import Opening, open_run

__all__ = ["Result", "executions_of", "run_once", "run_seeds"]

_MEMORY = Path("/dev/shm")
"""A folder in memory, where there is one: a run forces its decisions to the disk, which is most of its time."""

_MOST_S = 7200.0


class Result(Record):
    """What one run left. Scores and gains are fractions of one; `true` is exact, see `truths`."""

    seed: int
    config_digest: str
    start_true: float
    """Of the start harness on the audit tasks."""
    heads_true: tuple[float, ...]
    """The head after each round, on the audit tasks."""
    final_true: float
    ood_true: float
    """Gain of the final over the start on the `ood` tasks."""
    audited: float
    """Gain by the audit; 0 by identity where the final is the start."""
    ood_audited: float
    believed: float
    """Gain by the fresh sweeps that the final was chosen by, which is what the run itself reports."""
    select_score: float
    """Of the final: the score that it was chosen by."""
    recorded_score: float
    """Of the final: what its own round recorded, flips confirmed."""
    is_start: bool
    beliefs: int
    """Signatures of the start's failures on train."""
    wrong_before: int
    """Of those, under the start method."""
    wrong_after: int
    verdicts: Verdicts
    units: int
    """Of the probe pools."""
    executions: int
    """Evaluations and replays up to the final selection; neither audits nor the method audit."""
    edited_method: bool
    method_true: float | None
    """Method audit: exact gain of one round under the final method over one under the start method, same head and
    seeds; None where the method is the start's or was not edited."""

    @property
    def true(self) -> float:
        """Gain on the audit tasks."""
        return self.final_true - self.start_true

    @property
    def overstated(self) -> float:
        """The final's select score minus what an audit of it expects."""
        return self.select_score - self.final_true


def run_seeds(jobs: Iterable[Sequence[RunConfig]], *, workers: int) -> list[list[Result]]:
    """The results of each job's configs, in order. A job is one process, so configs of one world belong together."""
    several = ExecutorConfig(kind="process", workers=workers, timeout_s=_MOST_S)
    executor = make_executor(several if workers > 1 else ExecutorConfig(kind="inline"))
    try:
        waiting = [executor.submit(_run_all, tuple(configs)) for configs in jobs]
        return [future.result() for future in waiting]
    finally:
        executor.close()


def _run_all(configs: Sequence[RunConfig]) -> list[Result]:
    return [run_once(config) for config in configs]


def run_once(config: RunConfig) -> Result:
    """Search, final selection, method audit, both sealed roles; then the truth."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as place:
        folder = Path(place) / "run"
        with open_run(config, Opening(folder, command="heldout bench verse")) as opened:
            session = opened.session
            found = Verse(session).run(opened.start)
            opener = Opener("heldout bench verse")
            start, final = found.start.candidate, found.final.candidate
            audits = [open_sealed_role(session, role, start, final, opener=opener) for role in ("audit", "ood")]
            believed = (found.final.mean or 0.0) - (found.start.mean or 0.0)
            return _read(session, opened.folder, audits, believed=believed)


def _read(session: Session, folder: RunFolder, audits: Sequence[AuditResult], *, believed: float) -> Result:
    recorder, truth = session.recorder, Truth.of(session)
    evidence = recorder.every("probe", Evidence)
    edited = recorder.every("method.edited", MethodEdited)
    selected = recorder.every("selected", FinalSelected)[0]
    first, last = audits[0].start, audits[0].final
    winner = next(one for one in selected.finalists if one.digest == last)
    search = [one for one in evidence if one.round <= session.config.search.generations]
    method = [one.digest for one in recorder.every("candidate", CandidateAdded) if one.track == "method"]
    before, after, beliefs = wrong_readings(session, method[0], edited[-1].target if edited else method[0])
    return Result(
        seed=session.config.seed,
        config_digest=config_digest(session.config),
        start_true=truth.rate(first, "audit"),
        heads_true=tuple(truth.rate(head, "audit") for head in _heads(session)),
        final_true=truth.rate(last, "audit"),
        ood_true=truth.rate(last, "ood") - truth.rate(first, "ood"),
        audited=audits[0].gain or 0.0,
        ood_audited=audits[1].gain or 0.0,
        believed=believed,
        select_score=winner.score or 0.0,
        recorded_score=winner.journaled or 0.0,
        is_start=first == last,
        beliefs=beliefs,
        wrong_before=before,
        wrong_after=after,
        verdicts=count_verdicts(session, search),
        units=sum(one.units for one in search),
        executions=executions_of(folder),
        edited_method=any(one.target != one.origin for one in edited),
        method_true=_method_gain(session, truth, edited),
    )


def _heads(session: Session) -> list[str]:
    """Digest of the head after each round."""
    head = session.start.candidate.digest if session.start is not None else ""
    heads = []
    for one in session.recorder.every("decision", Decided):
        head = one.winner if one.decision.verdict == "accept" and one.winner is not None else head
        heads.append(head)
    return heads


def executions_of(folder: RunFolder) -> int:
    """What was run until the final selection: every outcome, and the replays of probes and attribution."""
    total = 0
    for event in read_events(folder.events):
        if event.kind == "selected":
            break
        if event.kind in ("outcome", "probe", "replay"):
            total += event.data.get("spend", {}).get("evaluations", 0)
    return total


def _method_gain(session: Session, truth: Truth, edited: Sequence[MethodEdited]) -> float | None:
    """From the two rounds of the method audit; a round without a measured candidate gains nothing."""
    if not edited or edited[-1].target == edited[0].origin:
        return None
    last = session.config.search.generations
    flips = {one.round: one for one in session.recorder.every("flips", FlipsConfirmed) if one.round > last}
    gains = [
        truth.rate(flips[number].candidate, "audit") - truth.rate(flips[number].base, "audit")
        if number in flips
        else 0.0
        for number in (last + 1, last + 2)
    ]
    return gains[1] - gains[0]
