"""Why a request is not carried out, in words that name the rule; nothing is run or paid for to find out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heldout.probes.base import Trace
from heldout.probes.requests import TARGETS, ProbeRequest
from heldout.records import ProbeKind

__all__ = ["not_train", "request_fault"]


def not_train(request: ProbeRequest, traces: Mapping[str, Trace]) -> str:
    """The refusal of an id that is no train task's; empty where all are.

    One reason for select, audit, ood and unknown ids, so that nobody learns from it which role an id has.
    """
    unknown = [task for task in request.tasks if task not in traces]
    return f"{unknown[0]!r} is no train task of this run, and probes take train tasks only" if unknown else ""


def request_fault(asked: ProbeRequest, traces: Mapping[str, Trace], *, kinds: Sequence[ProbeKind]) -> str:
    """Why a request on train tasks cannot be carried out, whatever it costs; empty where it can."""
    if asked.kind not in kinds:
        return f"{asked.kind} is not offered in this run; there is {', '.join(kinds) or 'no probe'}"
    most = TARGETS if asked.kind is ProbeKind.FIX_PROBE else 1
    if not 1 <= len(asked.tasks) <= most or len(set(asked.tasks)) < len(asked.tasks):
        number = "one task" if most == 1 else f"one to {most} different tasks"
        return f"{asked.kind} takes {number}, got {list(asked.tasks)!r}"
    faults = (_trace_fault(asked, traces[task]) for task in asked.tasks)
    return next((fault for fault in faults if fault), "")


def _trace_fault(asked: ProbeRequest, trace: Trace) -> str:
    kind, name = asked.kind, trace.task.id
    if kind is ProbeKind.RUN_EPISODE:
        return ""
    if trace.passed is None:
        return f"{name!r} was not measured in the last sweep, so there is nothing to compare with"
    if kind in (ProbeKind.FIX_PROBE, ProbeKind.SUBSTITUTE) and trace.passed:
        return f"{kind} takes tasks that fail now, and {name!r} passes"
    return "" if kind is ProbeKind.FIX_PROBE else _command_fault(asked, trace)


def _command_fault(asked: ProbeRequest, trace: Trace) -> str:
    kind, name, count = asked.kind, trace.task.id, len(trace.commands)
    if not count:
        return f"the trace of {name!r} holds no command to run again"
    if kind is not ProbeKind.REPLAY and (asked.step is None or not 0 <= asked.step < count):
        return f"{kind} takes a step from 0 to {count - 1} of the trace of {name!r}, got {asked.step!r}"
    if kind is ProbeKind.SUBSTITUTE and (asked.command is None or "\0" in asked.command):
        return f"substitute takes a command that a shell can run, got {asked.command!r}"
    return ""
