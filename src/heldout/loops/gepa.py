"""The real package `gepa` (reflective prompt evolution, arXiv 2507.19457) on our tasks, episodes and audit.

GEPA keeps a pool of candidates, draws parents from its Pareto frontier over select tasks, edits one component after a
train minibatch, and scores a child on select where it does better on the minibatch. All of that is the package's own.
Ours are the evaluations (through the engine, with its seeds, cache and budget), the new texts (the attributor and the
editor of the other loops on the first learnable failure of the minibatch, so that proposals are the same), the final
selection, and the audit. Select traces are never handed out. What GEPA believes of its best candidate is its recorded
select score. Components are the files of the candidate: a drafted skill's, or the six modules of a guide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from heldout.config import RunConfig
from heldout.errors import need
from heldout.loops.base import Edits, Found
from heldout.loops.session import Session
from heldout.loops.skills.beginning import begin
from heldout.loops.skills.drafting import draft
from heldout.loops.skills.gepa_adapter import GepaAdapter
from heldout.loops.skills.options import GepaOptions
from heldout.loops.skills.selecting import best_so_far, select_final
from heldout.loops.skills.state import SkillSearch
from heldout.options import read_options
from heldout.records import Candidate
from heldout.skills.guide import kind_of

__all__ = ["GepaLoop", "metric_calls"]


class Silent:
    """GEPA's log goes nowhere: what counts is in the journal."""

    def log(self, message: str) -> None:
        """Say nothing."""


@dataclass(slots=True)
class GepaLoop:
    """One track, GEPA's best candidate so far."""

    session: Session
    options_model: ClassVar[type[GepaOptions]] = GepaOptions
    edits: ClassVar[Edits] = "skills"
    _found: Found | None = None

    def run(self, start: Candidate) -> Found:
        """Measure the start, draft the seed where it is a skill, let GEPA search, and the final selection."""
        package, options = need("gepa", extra="gepa"), self._options()
        search = begin(self.session, start, options, target=options.target)
        if options.target == "skill":
            draft(search, tasks=options.drafted_from)
        if kind_of(search.head.candidate) != "none":
            adapter = GepaAdapter(search, batch_of=package.EvaluationBatch)
            _optimize(package.optimize, search, adapter, calls=metric_calls(self.session.config, options))
        self._found = Found(
            *select_final(search), ended=search.ended if search.gives_up else "GEPA used its budget of calls"
        )
        return self._found

    def found(self, start: Candidate) -> Found:
        """The final selection, or for a run that stopped early GEPA's best, if it beats the start on select."""
        return self._found or Found(*best_so_far(self.session, start, track=self._options().target))

    def _options(self) -> GepaOptions:
        return read_options(GepaOptions, self.session.config.options, where="the loop 'gepa'")


def metric_calls(config: RunConfig, options: GepaOptions) -> int:
    """GEPA's budget: evaluations of train minibatches and of select, the seed's included; what `gso` runs in as many
    rounds. The last iteration may pass it by what one iteration takes."""
    return config.search.generations * (min(options.batch, config.tasks.train) + 2 * config.tasks.select)


def _optimize(optimize: Callable[..., object], search: SkillSearch, adapter: GepaAdapter, *, calls: int) -> None:
    """One search of the package: seeded, silent, and without a file or a folder of its own."""
    tasks = search.session.tasks
    optimize(
        seed_candidate=dict(sorted(search.head.candidate.files.items())),
        trainset=[task.id for task in tasks.train],
        valset=[task.id for task in tasks.select],
        adapter=adapter,
        reflection_minibatch_size=min(search.options.batch, len(tasks.train)),
        max_metric_calls=calls,
        stop_callbacks=[adapter.stops],
        logger=Silent(),
        seed=search.session.config.seed,
        track_best_outputs=False,
    )
