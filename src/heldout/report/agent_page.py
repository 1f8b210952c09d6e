"""What the HTML page shows of a loop over agents, gathered once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from heldout.errors import SetupError
from heldout.improvers.method import MANIFEST_FILE
from heldout.loops.agents.options import VerseOptions
from heldout.options import read_options
from heldout.report.candidate_files import CandidateFiles
from heldout.report.diffs import FileDiff
from heldout.report.failures import Failures, PredictionRow, failures, predictions
from heldout.report.probe_use import ProbeUse, Refusal, probe_use, probes_by_kind, probes_by_round, refusals
from heldout.report.rounds import AgentHistory
from heldout.store import RunFolder

__all__ = ["AgentPage", "MethodStep", "gather_agents"]


@dataclass(frozen=True, slots=True)
class MethodStep:
    """What the improver did to its own method after a round."""

    round: int
    note: str
    faults: tuple[str, ...]
    """Why its edits were refused; the folder then stayed as it was."""
    diff: tuple[FileDiff, ...] | None
    """What changed, or what would have changed where it was refused; None where a folder cannot be read."""

    @property
    def state(self) -> str:
        """`refused`, `edited` or `unchanged`."""
        return "refused" if self.faults else "edited" if self.diff is None or self.diff else "unchanged"


@dataclass(frozen=True, slots=True)
class AgentPage:
    """Rounds, probes, method, failures."""

    history: AgentHistory
    pool: int | None
    """Units that the probes of one round may spend; None where the config does not say."""
    probes: ProbeUse
    by_kind: tuple[ProbeUse, ...]
    by_round: tuple[ProbeUse, ...]
    refusals: tuple[Refusal, ...]
    supported: float | None
    """Drafts that `fix_probe` would have supported if none had any effect."""
    method: tuple[MethodStep, ...]
    failures: Failures
    predictions: tuple[PredictionRow, ...]


def gather_agents(
    connection: sqlite3.Connection, run: RunFolder, *, agents: AgentHistory, files: CandidateFiles
) -> AgentPage:
    """Read what the history alone does not hold: folders, failures, the size of the pool."""
    evidence = agents.evidence
    return AgentPage(
        history=agents,
        pool=_pool(run),
        probes=probe_use(evidence),
        by_kind=probes_by_kind(evidence),
        by_round=probes_by_round(agents),
        refusals=refusals(evidence),
        supported=None if agents.no_effect is None else agents.no_effect.supported(evidence),
        method=tuple(_method(agents, files)),
        failures=failures(connection),
        predictions=predictions(agents),
    )


def _method(agents: AgentHistory, files: CandidateFiles) -> Iterator[MethodStep]:
    """The manifest is left out: a machine writes it after every edit."""
    for one in agents.rounds:
        edited = one.edited
        if edited is None:
            continue
        if edited.faults:
            diff = files.edited(edited.origin, edited.proposal.edits)
        else:
            diff = files.diff(edited.origin, edited.target, without=(MANIFEST_FILE,))
        yield MethodStep(one.number, edited.proposal.note or edited.proposal.error or "", edited.faults, diff)


def _pool(run: RunFolder) -> int | None:
    try:
        config = run.load_config()
        options = read_options(VerseOptions, config.options, where=f"the loop {config.loop!r}")
    except SetupError:
        return None
    return options.probe.units * config.search.candidates if options.probe.verify != "none" else 0
