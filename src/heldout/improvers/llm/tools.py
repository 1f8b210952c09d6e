"""A tool of the improver: its words for the model, its checked arguments, and its answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from heldout.models import ToolSpec
from heldout.records import EditProposal, Record

__all__ = ["Answer", "Tool", "plain_schema"]

_SHOWN_FAULTS = 6
_INPUT_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool call gave."""

    text: str
    fault: bool = False
    """Counted as an error of the caller."""
    ends: EditProposal | None = None
    """The submission with which the episode ends."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `run` is called with checked arguments of the class `arguments`."""

    name: str
    description: str
    arguments: type[Record]
    run: Callable[[Any], Answer]

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is told of it."""
        return ToolSpec(name=self.name, description=self.description, parameters=plain_schema(self.arguments))

    def call(self, written: str) -> Answer:
        """Answer a call with these arguments, as the model wrote them."""
        try:
            given = json.loads(written or "{}", strict=False)
            json.dumps(given, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as fault:
            words = f"The arguments of {self.name} are no JSON text ({fault}). Nothing was done; call again."
            return Answer(words, fault=True)
        try:
            arguments = self.arguments.model_validate(given)
        except ValidationError as fault:
            return Answer(self._explain(fault, given), fault=True)
        return self.run(arguments)

    def _explain(self, fault: ValidationError, given: Any) -> str:
        if not isinstance(given, dict):
            return f"The arguments of {self.name} are to be one JSON object, and were {type(given).__name__}."
        lines = []
        for error in fault.errors(include_url=False)[:_SHOWN_FAULTS]:
            where = ".".join(str(part) for part in error["loc"]) or "arguments"
            lines.append(f"- {where}: {error['msg'].removeprefix('Value error, ')}, got {_short(error['input'])}")
        known = ", ".join(self.arguments.model_fields)
        return f"{self.name} was not run; its arguments ({known}) do not fit:\n" + "\n".join(lines)


def plain_schema(model: type[Record]) -> dict[str, Any]:
    """The JSON schema of a record without references and titles, which not every server reads."""
    schema = model.model_json_schema()
    found = _inlined(schema, schema.get("$defs", {}))
    assert isinstance(found, dict)
    return found


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    kept = {key: value for key, value in node.items() if key != "$defs" and not _is_title(key, value)}
    return {key: _inlined(value, definitions) for key, value in kept.items()}


def _is_title(key: str, value: Any) -> bool:
    return key == "title" and isinstance(value, str)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _INPUT_SHOWN else f"{text[:_INPUT_SHOWN]}…"
