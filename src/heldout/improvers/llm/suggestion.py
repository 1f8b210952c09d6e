"""One question for the trace minimiser: which commands of a trace may suffice for its outcome?"""

from __future__ import annotations

import re

from heldout.models import Message, Reply, Request
from heldout.probes.base import Suggestion, Trace
from heldout.records import Spend

__all__ = ["read_suggestion", "suggestion_request"]

_SYSTEM = (
    "You reduce a recorded shell session to the fewest commands that still end in the same outcome when they are run "
    "again, in order, in a fresh copy of its folder. Reply with a JSON array of the numbers of the commands to keep, "
    "such as [0, 3], and nothing else."
)
_OUTPUT_SHOWN = 300
_COMMANDS_SHOWN = 100
_ARRAY = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]")


def suggestion_request(trace: Trace, fault: str, *, limit: int) -> Request:
    """The commands of a trace, with the end of their outputs; `fault` is what was wrong with an earlier answer."""
    ran = [step for step in trace.steps if step.kind == "command" and step.command is not None]
    outcome = "passed" if trace.passed else "failed"
    parts = [f"The task:\n{trace.task.input}", f"The session {outcome}. {trace.feedback}".strip()]
    for number, step in enumerate(ran[:_COMMANDS_SHOWN]):
        output = " ".join(step.output.split())[-_OUTPUT_SHOWN:]
        parts.append(f"[{number}] $ {step.command}\n(exit code {step.exit_code}) {output}".rstrip())
    asked = "\n\n".join(parts)[:limit]
    if fault:
        asked += f"\n\nAn earlier answer did not do: {fault}"
    return Request(messages=(Message(role="system", content=_SYSTEM), Message(role="user", content=asked)))


def read_suggestion(reply: Reply, trace: Trace) -> Suggestion:
    """The last array of numbers in a reply, those of them that name a command."""
    spend = Spend(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
    arrays = _ARRAY.findall(reply.text)
    named = {int(number) for number in re.findall(r"\d+", arrays[-1])} if arrays else set()
    return Suggestion(tuple(sorted(number for number in named if number < len(trace.commands))) or None, spend)
