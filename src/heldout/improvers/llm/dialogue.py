"""A bounded conversation of a model with tools: whatever it says is answered, counted, and comes to an end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from heldout.improvers.llm.method_hooks import MethodHooks
from heldout.improvers.llm.protocols import CallProtocol
from heldout.improvers.llm.tools import Answer, Tool
from heldout.improvers.llm.transcript import Transcript
from heldout.ledger import paid_until_now
from heldout.models import Message, Model, Reply, Request, ToolCall, ToolSpec
from heldout.records import EditProposal, Spend

__all__ = ["Bounds", "Dialogue"]

_MOST_IN_A_TURN = 8
"""Calls of one reply that are run."""
_MOST_SILENT = 4
"""Replies in a row without a call, after which nothing more is expected."""
_LAST_TURNS = 3
"""From here on the model is told how many turns are left."""
_MESSAGE_TOKENS = 16
"""Allowance for what a chat template adds to a message."""
_REFUSALS = ("refusal", "content_filter")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one episode may use."""

    turns: int
    calls: int | None
    """Tool calls; None: as many as fit in the turns."""
    reply_tokens: int
    episode_tokens: int
    context_chars: int
    temperature: float


@dataclass(slots=True)
class _Tally:
    """What was counted; names are those of `EditProposal.measures`."""

    turns: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    reminders: int = 0
    refusals: int = 0
    cut_replies: int = 0
    spend: Spend = field(default_factory=Spend)

    def measures(self) -> dict[str, float]:
        names = ("turns", "tool_calls", "tool_errors", "reminders", "refusals", "cut_replies")
        return {name: getattr(self, name) for name in names}


class Dialogue:
    """Used once. The model is asked until a tool ends the episode or a bound does."""

    def __init__(
        self,
        model: Model,
        tools: Sequence[Tool],
        *,
        protocol: CallProtocol,
        bounds: Bounds,
        hooks: MethodHooks,
        seed: int,
    ) -> None:
        self._model = model
        self._tools = {tool.name: tool for tool in tools}
        self._offered = protocol.offered(tools)
        self._protocol = protocol
        self._bounds = bounds
        self._hooks = hooks
        self._seed = seed
        self._tally = _Tally()
        self._silent = 0

    def run(self, system: str, opening: str) -> EditProposal:
        """The submission, or a proposal whose `error` says how the episode ended without one. All that was spent is in
        it; where the model does not answer or the run stops, in the error."""
        system = f"{system}\n\n{self._protocol.rules(list(self._tools.values()))}"
        transcript = Transcript(system, opening, context_chars=self._bounds.context_chars)
        with paid_until_now(lambda: self._tally.spend):
            found = self._converse(transcript)
        if isinstance(found, str):
            found = EditProposal(error=f"nothing was submitted: {found}")
        measures = {**self._tally.measures(), **self._hooks.measures(), "elided": transcript.elided}
        return found.model_copy(update={"measures": measures, "spend": self._tally.spend})

    def _converse(self, transcript: Transcript) -> EditProposal | str:
        """The submission, or why there is none."""
        for left in range(self._bounds.turns - 1, -1, -1):
            if not transcript.fit():
                return f"the conversation is longer than context_chars = {self._bounds.context_chars}"
            messages = self._hooks.messages(transcript.messages())
            tokens = self._tally.spend.tokens_in + _most_tokens(messages, self._offered)
            if tokens > self._bounds.episode_tokens:
                return f"the next turn might pass episode_tokens = {self._bounds.episode_tokens}"
            reply = self._ask(messages)
            ending = self._answer(reply, transcript, left=left)
            if ending is not None:
                return ending
            if self._silent >= _MOST_SILENT:
                return f"{self._silent} replies in a row called no tool"
        return f"all {self._bounds.turns} turns were used"

    def _ask(self, messages: tuple[Message, ...]) -> Reply:
        request = Request(
            messages=messages,
            max_tokens=self._bounds.reply_tokens,
            temperature=self._bounds.temperature,
            seed=self._seed,
            tools=self._offered,
        )
        reply = self._model.complete(request)
        used = Spend(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
        self._tally.spend = self._tally.spend + used
        self._tally.turns += 1
        self._tally.cut_replies += reply.finish_reason == "length"
        text = self._hooks.reply(reply.text)
        return reply if text == reply.text else reply.model_copy(update={"text": text, "blocks": ()})

    def _answer(self, reply: Reply, transcript: Transcript, *, left: int) -> EditProposal | None:
        """Put the reply and what it brought into the transcript; the submission, where there is one."""
        reading = self._protocol.read(reply, turn=self._tally.turns)
        transcript.add(self._protocol.said(reply))
        if not reading.calls:
            self._silent += 1
            transcript.add(Message(role="user", content=self._reminder(reply, reading.fault, left=left)))
            return None
        self._silent = 0
        cut = reply.finish_reason == "length"
        for number, call in enumerate(reading.calls):
            last = number == len(reading.calls) - 1
            answer = self._run(call, number=number, cut=cut and last)
            if answer.ends is not None:
                return answer.ends
            text = answer.text
            if last and left <= _LAST_TURNS:
                text = f"{text}\n\n[{_left(left)}]"
            transcript.add(self._protocol.result(call, text), result_of=call.name)
        return None

    def _run(self, call: ToolCall, *, number: int, cut: bool) -> Answer:
        """Answer one call, whatever it is."""
        self._tally.tool_calls += 1
        answer = self._answered(call, number=number, cut=cut)
        self._tally.tool_errors += answer.fault
        return answer

    def _answered(self, call: ToolCall, *, number: int, cut: bool) -> Answer:
        limit = self._bounds.calls
        if limit is not None and self._tally.tool_calls > limit and not _ends(call.name):
            return Answer(f"Not run: all {limit} tool calls of this episode are used. Submit now.", fault=True)
        if number >= _MOST_IN_A_TURN:
            return Answer(f"Not run: at most {_MOST_IN_A_TURN} calls in one reply.", fault=True)
        if cut:
            words = f"Not run: your reply was cut off at {self._bounds.reply_tokens} tokens. {_SHORTER}"
            return Answer(words, fault=True)
        made = self._hooks.before(call)
        if isinstance(made, Answer):
            return made
        tool = self._tools.get(made.name)
        if tool is None:
            return Answer(f"There is no tool {made.name!r}; there is {', '.join(self._tools)}.", fault=True)
        answer = tool.call(made.arguments)
        if answer.ends is not None:
            return answer
        return Answer(self._hooks.after(made, answer), fault=answer.fault)

    def _reminder(self, reply: Reply, fault: str, *, left: int) -> str:
        """What a reply without a call is answered with."""
        self._tally.reminders += 1
        if reply.finish_reason in _REFUSALS:
            self._tally.refusals += 1
            fault = "It declines. If you will not take one step, take another, or submit without edits and say why."
        elif reply.finish_reason == "length":
            fault = f"It was cut off at {self._bounds.reply_tokens} tokens, before any call. {_SHORTER}"
        elif not reply.text.strip():
            fault = "It is empty."
        submit = next((name for name in self._tools if _ends(name)), "")
        return f"Your last reply could not be used. {fault} Call a tool; {submit} ends the episode. [{_left(left)}]"


_SHORTER = "Say less before the call, and write fewer or shorter files in one call."


def _ends(tool: str) -> bool:
    """Whether a tool is the one that ends an episode, which is taken however little is left."""
    return tool.startswith("submit_")


def _left(turns: int) -> str:
    return f"{turns} turns are left" if turns != 1 else "1 turn is left: submit now"


def _most_tokens(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
    """No tokenizer makes more tokens than there are bytes."""
    total = sum(len(tool.model_dump_json()) for tool in tools)
    for message in messages:
        total += _MESSAGE_TOKENS + len(message.content.encode())
        total += sum(len(call.name.encode()) + len(call.arguments.encode()) for call in message.tool_calls)
        total += len(json.dumps(list(map(dict, message.blocks)), ensure_ascii=False).encode())
    return total
