"""Run a loop from its config to its report; the one place where a spent budget becomes a stop reason."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from heldout.audit import Opener, last_result, measure_retention, open_sealed_role, score_every_candidate
from heldout.config import RunConfig, load_config
from heldout.errors import BudgetExhausted, SetupError, StoreError
from heldout.loops import Loop, check_loop, gain_over, load_loop, preset
from heldout.report import RunSummary, summary, write_report
from heldout.store import Index, RunFolder, list_runs
from heldout.store.events import AuditResult, RunFinished
from heldout.store.skill_events import Retention
from heldout.workbench.judging import judge_finished
from heldout.workbench.opening import Opening, OpenRun, open_run
from heldout.workbench.plan import plan

__all__ = ["audit", "improve", "resume", "run"]


def run(config: RunConfig, opening: Opening) -> RunFolder:
    """Search, audit, score the report roles and the oracle, write index and report. Returns the run's folder.

    A budget that runs out ends the search, not the run: the audit uses what was held for it.
    """
    loop_class = load_loop(config.loop)
    check_loop(loop_class, config)
    opening.progress.expect(plan(config).total)
    with open_run(config, opening) as opened:
        _search(opened, loop_class(opened.session))
        if config.audit.auto:
            _open_sealed_roles(opened, by=opening.command)
            _retain_within_budget(opened)
            _score_oracle(opened)
            judge_finished(opened.session, _finished(opened))
        folder = opened.folder
    _write_views(folder)
    return folder


def improve(settings: Mapping[str, Any], *, out: str | Path, command: str = "heldout.workbench.improve") -> RunSummary:
    """The Python door: settings as in a TOML file, a new run in `out`, and what came of it."""
    chosen = dict(settings)
    layer = preset(str(chosen.get("loop", "winners_curse")), str(chosen.pop("preset", "default")), chosen)
    folder = run(load_config([layer, chosen]), Opening(Path(out), command=command))
    with Index.open(folder.path) as index:
        return summary(index.connection)


def resume(opening: Opening, *, config: RunConfig | None = None) -> RunFolder:
    """Continue a run with the config that it was started with, or with the same one under other limits."""
    folder = RunFolder.find(opening.folder)
    return run(config or folder.load_config(), opening)


def audit(opening: Opening, *, again: bool = False, config: RunConfig | None = None) -> AuditResult:
    """Open the audit role of a finished run, once: start against final. Report roles and the oracle follow it.

    Where it was opened before, and a budget ended before the retention was measured, it measures that alone, and
    `BudgetExhausted` says that it ended again; `config` is the run's own under other limits.
    """
    folder = RunFolder.find(opening.folder)
    with open_run(config or folder.load_config(), opening) as opened:
        finished = _finished(opened)
        if finished is None:
            raise SetupError(
                f"{str(folder.path)!r} has not finished its search; resume it first: "
                f"heldout run --resume --out {folder.path}"
            )
        start, final = (opened.session.store.load(digest) for digest in (finished.start, finished.final))
        owed = None if again else _owed_retention(opened, finished)
        if owed is None:
            opener = Opener(opening.command, again, partial(_opened_elsewhere, folder))
            result = open_sealed_role(opened.session, "audit", start, final, opener=opener)
            _open_sealed_roles(opened, by=opening.command)
            _retain_within_budget(opened, again=again)
        else:
            result = owed
            _measure_retention(opened)
        judge_finished(opened.session, finished)
        _score_oracle(opened)
    _write_views(folder)
    return result


def _finished(opened: OpenRun) -> RunFinished | None:
    return opened.session.recorder.last("run.finished", RunFinished)


def _search(opened: OpenRun, loop: Loop) -> None:
    session = opened.session
    finished = _finished(opened)
    if finished is not None and not _may_continue(opened, finished):
        return
    stop_reason = ""
    try:
        found = loop.run(opened.start)
    except BudgetExhausted as exhausted:
        stop_reason = str(exhausted)
        found = loop.found(opened.start)
    session.ledger.release("audit")
    status = "unchanged" if found.final.candidate.digest == found.start.candidate.digest else "improved"
    session.recorder.add(
        "run.finished",
        RunFinished(
            status="stopped" if stop_reason else status,
            stop_reason=stop_reason or found.ended,
            start=found.start.candidate.digest,
            final=found.final.candidate.digest,
            start_select=found.start.mean,
            final_select=found.final.mean,
            select_gain=gain_over(found.start, found.final),
            elapsed_s=session.ledger.elapsed_s(),
        ),
    )


def _may_continue(opened: OpenRun, finished: RunFinished) -> bool:
    """Whether a finished search goes on: only one that its budget stopped, under new limits, before any audit."""
    if finished.status != "stopped" or opened.session.config.budget == opened.folder.load_config().budget:
        return False
    if opened.session.recorder.trail.get("audit.opened"):
        raise SetupError(
            "the audit was opened when the budget of this run ran out; a search that went on now would be a search "
            "that has seen it. Start a new run with the larger budget."
        )
    return True


def _open_sealed_roles(opened: OpenRun, *, by: str) -> None:
    session, finished = opened.session, _finished(opened)
    if finished is None:
        return
    if not session.known(finished.start):
        return  # the budget ended before the start was scored: nothing to audit
    start, final = session.store.load(finished.start), session.store.load(finished.final)
    opener = Opener(by, elsewhere=partial(_opened_elsewhere, opened.folder))
    for role in ("audit", *session.config.tasks.reports):
        result = last_result(session, role)
        if result is None or (result.start, result.final) != (start.digest, final.digest):
            open_sealed_role(session, role, start, final, opener=opener)


def _retain_within_budget(opened: OpenRun, *, again: bool = False) -> None:
    """What a budget does not reach is left to a later audit."""
    with suppress(BudgetExhausted):
        _measure_retention(opened, again=again)


def _measure_retention(opened: OpenRun, *, again: bool = False) -> None:
    """Loops over skills: what is kept of the gain over no skill."""
    session, finished = opened.session, _finished(opened)
    if finished is None or not _wants_retention(opened) or not session.known(finished.start):
        return
    if finished.status == "stopped" and finished.start == finished.final:
        return  # under a larger budget the search may go on, and find another final
    start, final = session.store.load(finished.start), session.store.load(finished.final)
    measure_retention(session, start, final, again=again)


def _wants_retention(opened: OpenRun) -> bool:
    return opened.session.skills is not None and bool(opened.session.config.options.get("retention", True))


def _owed_retention(opened: OpenRun, finished: RunFinished) -> AuditResult | None:
    """The recorded result of an opened audit that lacks its retention; None where there is nothing to make up for."""
    session, result = opened.session, last_result(opened.session, "audit")
    measured = session.recorder.find("retention", "audit", Retention) is not None
    if result is None or measured or finished.start == finished.final or not _wants_retention(opened):
        return None
    return result


def _opened_elsewhere(folder: RunFolder, tasks_digest: str) -> int:
    """Runs in the same folder that have opened these tasks; their journals are searched as text, which is quick."""
    here = folder.path.resolve()
    beside = [run for run in list_runs(here.parent) if run.path.resolve() != here and run.events.is_file()]
    wanted = f'"tasks_digest":"{tasks_digest}"'.encode()
    return sum(wanted in run.events.read_bytes() for run in beside)


def _score_oracle(opened: OpenRun) -> None:
    role = opened.session.config.audit.oracle
    if role is not None:
        score_every_candidate(opened.session, role, opened.session.candidates())


def _write_views(folder: RunFolder) -> None:
    """The index and the report, which can be rebuilt at any time."""
    with Index.open(folder.path):
        try:
            write_report(folder.path)
        except StoreError as cause:
            path = folder.path
            raise StoreError(f"{cause} (the run itself is complete; its report: heldout report {path})") from cause
