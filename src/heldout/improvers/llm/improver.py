"""The `llm` improver: any chat model reads, experiments and edits, in episodes that always end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar

from heldout.config import ImproverConfig, ModelConfig
from heldout.errors import SetupError
from heldout.improvers.agent import MetaView, RoundView
from heldout.improvers.llm.dialogue import Bounds, Dialogue
from heldout.improvers.llm.evidence import meta_files, proposal_files
from heldout.improvers.llm.experiments import Analysis, DraftCheck, Probes
from heldout.improvers.llm.files import ReadOnlyFiles
from heldout.improvers.llm.method_hooks import MethodHooks, method_hook_faults
from heldout.improvers.llm.prompts import (
    meta_opening,
    meta_system,
    proposal_opening,
    proposal_system,
    repair_opening,
    seed_method,
)
from heldout.improvers.llm.protocols import PROTOCOLS
from heldout.improvers.llm.settings import LlmOptions
from heldout.improvers.llm.submissions import (
    Check,
    draft_faults,
    submit_method,
    submit_proposal,
    workspace_fault,
)
from heldout.improvers.llm.suggestion import read_suggestion, suggestion_request
from heldout.improvers.llm.tools import Tool
from heldout.models import Model
from heldout.options import read_options
from heldout.probes.base import Laboratory, Suggestion, Trace
from heldout.records import EditProposal, Spend
from heldout.sandbox import Sandboxes, make_sandboxes

__all__ = ["LlmImprover"]

_METHOD_SHARE = 4
_OPENING_SHARE = 4
_RESULT_SHARE = 8
"""Parts of `context_chars`: one for the method, one for the opening, and the longest result is one of these."""
_UNKNOWN_RETRIES = 20
"""The most that a model may be set to, where the solver's own model is used and its setting is not known here."""


class LlmImprover:
    """An `AgentImprover` over a chat model. Holds no state between episodes, so several may run at once.

    `check` says why a harness may not be run; the default knows the tool loop's workspace. `sandboxes` is where
    analyses and the method's hooks run, instead of the kind that `options.sandbox` names. The hooks are mounted in
    `propose` and `repair` and never in `reflect`, so a method that broke itself can always mend itself.
    """

    agent: ClassVar[bool] = True
    uses_model = True

    def __init__(
        self,
        config: ImproverConfig,
        model: Model | None,
        *,
        check: Check = workspace_fault,
        sandboxes: Sandboxes | None = None,
    ) -> None:
        if model is None:
            raise SetupError("improver.kind = 'llm' needs a model: set improver.model")
        self.options = read_options(LlmOptions, config.options, where=f"improver {config.kind!r}")
        self.start_method = seed_method()
        self.bound = self._bound(config.model)
        self._model = model
        self._check = check
        self._sandboxes = sandboxes

    def propose(self, view: RoundView, laboratory: Laboratory) -> EditProposal:
        """One episode of at most `max_turns`; see `AgentImprover`."""
        opening, files = self._opened(view, laboratory)
        return self._edit(view, laboratory, opening, files, turns=self.options.max_turns)

    def repair(self, view: RoundView, proposal: EditProposal, fault: str, laboratory: Laboratory) -> EditProposal:
        """A short episode about one fault. It knows what the proposal cited, and no other evidence of before."""
        opening, files = self._opened(view, laboratory)
        opening = repair_opening(opening, proposal, fault, limit=self.options.context_chars // _OPENING_SHARE)
        cited = [item for claim in proposal.claims for item in claim.evidence]
        return self._edit(view, laboratory, opening, files, turns=self.options.repair_turns, cited=cited)

    def reflect(self, view: MetaView, laboratory: Laboratory) -> EditProposal:
        """An episode on the method itself, without its hooks."""
        files = self._files(meta_files(view))
        limit = self.options.context_chars
        opening = meta_opening(view, index=files.index(), units=_units(laboratory), limit=limit // _OPENING_SHARE)
        with ExitStack() as until:
            probes = Probes(laboratory, check=lambda _edits, _base: ())
            tools = [
                *files.tools(),
                *self._analysis(files, until),
                *probes.tools(),
                submit_method(view, hook_faults=self._hook_faults),
            ]
            system = meta_system(view.method.files, limit=limit // _METHOD_SHARE)
            bounds = self._bounds(self.options.meta_turns, calls=self.options.meta_calls)
            hooks = MethodHooks(None, None, until=until)
            return self._dialogue(tools, bounds, hooks, seed=view.seed).run(system, opening)

    def suggest(self, trace: Trace, fault: str) -> tuple[int, ...] | None:
        """Which commands of a trace may suffice for its outcome; None for no idea. One call; `suggestion` tells what
        it cost."""
        return self.suggestion(trace, fault).keep

    def suggestion(self, trace: Trace, fault: str) -> Suggestion:
        """As `suggest`, with its spend."""
        request = suggestion_request(trace, fault, limit=self.options.context_chars)
        sampled = {"max_tokens": self.options.reply_tokens, "temperature": self.options.temperature}
        return read_suggestion(self._model.complete(request.model_copy(update=sampled)), trace)

    def _edit(
        self,
        view: RoundView,
        laboratory: Laboratory,
        opening: str,
        files: ReadOnlyFiles,
        *,
        turns: int,
        cited: Sequence[str] = (),
    ) -> EditProposal:
        """An episode on the harness, with the method's hooks."""
        with ExitStack() as until:
            probes = Probes(laboratory, check=self._draft_check(view))
            submit = submit_proposal(view, probes.evidence, check=self._check, cited=cited)
            tools = [*files.tools(), *self._analysis(files, until), *probes.tools(), submit]
            hooks = MethodHooks(view.method, self._sandboxed(), until=until)
            system = proposal_system(
                view.method.files, view.guidance, limit=self.options.context_chars // _METHOD_SHARE
            )
            system = hooks.system_prompt(system, task=view.description)
            return self._dialogue(tools, self._bounds(turns), hooks, seed=view.seed).run(system, opening)

    def _opened(self, view: RoundView, laboratory: Laboratory) -> tuple[str, ReadOnlyFiles]:
        files = self._files(proposal_files(view))
        limit = self.options.context_chars // _OPENING_SHARE
        return proposal_opening(view, index=files.index(), units=_units(laboratory), limit=limit), files

    def _draft_check(self, view: RoundView) -> DraftCheck:
        return lambda edits, base_round: draft_faults(view, edits, base_round=base_round, check=self._check)

    def _dialogue(self, tools: Sequence[Tool], bounds: Bounds, hooks: MethodHooks, *, seed: int) -> Dialogue:
        protocol = PROTOCOLS[self.options.protocol]
        return Dialogue(self._model, tools, protocol=protocol, bounds=bounds, hooks=hooks, seed=seed)

    def _bounds(self, turns: int, *, calls: int | None = None) -> Bounds:
        options = self.options
        return Bounds(
            turns=turns,
            calls=calls,
            reply_tokens=options.reply_tokens,
            episode_tokens=options.episode_tokens,
            context_chars=options.context_chars,
            temperature=options.temperature,
        )

    def _bound(self, model: ModelConfig | None) -> Spend:
        retries = _UNKNOWN_RETRIES if model is None else model.retries
        turns = max(self.options.max_turns, self.options.repair_turns, self.options.meta_turns)
        return Spend(
            calls=turns * (1 + retries),
            tokens_in=self.options.episode_tokens,
            tokens_out=turns * self.options.reply_tokens,
        )

    def _files(self, tree: dict[str, str]) -> ReadOnlyFiles:
        return ReadOnlyFiles(tree, result_chars=self._result_chars)

    @property
    def _result_chars(self) -> int:
        return min(self.options.result_chars, self.options.context_chars // _RESULT_SHARE)

    def _analysis(self, files: ReadOnlyFiles, until: ExitStack) -> list[Tool]:
        """The analysis tool, where there is a sandbox that works."""
        sandboxes = self._sandboxed()
        if sandboxes is None or sandboxes.fault() is not None:
            return []
        return [Analysis(sandboxes, files.tree, until=until, result_chars=self._result_chars).tool()]

    def _hook_faults(self, source: str) -> tuple[str, ...]:
        return method_hook_faults(source, self._sandboxed())

    def _sandboxed(self) -> Sandboxes | None:
        if self._sandboxes is not None or self.options.sandbox is None:
            return self._sandboxes
        return make_sandboxes(self.options.sandbox)


def _units(laboratory: Laboratory) -> int | None:
    return laboratory.units_left() if laboratory.available else None
