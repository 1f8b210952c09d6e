"""The front matter of a `SKILL.md`: a small YAML mapping with a name, a description, and little else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from heldout.errors import HarnessError

__all__ = [
    "DESCRIPTION_CHARACTERS",
    "NAME_CHARACTERS",
    "Head",
    "SkillHead",
    "head_faults",
    "is_skill_name",
    "read_head",
    "renamed",
    "skill_text",
    "split",
]

NAME_CHARACTERS = 64
DESCRIPTION_CHARACTERS = 1024
COMPATIBILITY_CHARACTERS = 500

Head = Mapping[str, "str | Mapping[str, str]"]
"""Key to text, and to a map of texts for `metadata`."""

_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(?P<front>.*?)^---[ \t]*\r?(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_SHOWN = 80
"""Characters of a value in a message."""


@dataclass(frozen=True, slots=True)
class SkillHead:
    """What the front matter says."""

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: str = ""

    @classmethod
    def of(cls, head: Head) -> SkillHead:
        """From front matter without faults."""
        metadata = head.get("metadata", {})
        name, description, rights, compatibility, tools = (_text(head, key) for key in _KEYS if key != "metadata")
        return cls(name, description, rights, compatibility, {} if isinstance(metadata, str) else metadata, tools)


def split(text: str) -> tuple[str, str]:
    """Front matter and body; `HarnessError` where the text does not begin with front matter."""
    found = _FRONT.match(text)
    if found is None:
        what = "has no closing line ---" if re.match(r"\ufeff?---[ \t]*\r?\n", text) else "does not begin with ---"
        raise HarnessError(f"SKILL.md {what}: it begins with front matter between two lines of three hyphens")
    return found["front"], text[found.end() :]


def read_head(front: str) -> Head:
    """The mapping in the front matter; `HarnessError` for what is none.

    Nothing is constructed from the YAML: every value is the text that stands there, so that `1.0` stays `1.0` and
    aliases unfold nothing.
    """
    import yaml

    try:
        node = yaml.compose(front, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as cause:
        raise HarnessError(f"the front matter is no YAML: {_in_a_line(str(cause))}") from cause
    if not isinstance(node, yaml.MappingNode):
        raise HarnessError("the front matter is no mapping; it has a line for name and a line for description")
    return dict(_entries(node, inner=True))


def head_faults(head: Head) -> Iterator[str]:
    """Every rule that the front matter breaks."""
    for key in head:
        if key not in _KEYS:
            yield f"unknown key {key[:_SHOWN]!r}; allowed are {', '.join(_KEYS)}"
    for key in ("name", "description"):
        if key not in head:
            yield f"{key} is missing"
    for key, value in head.items():
        if key in _KEYS and isinstance(value, str) == (key == "metadata"):
            yield f"{key}: must be {'a map of texts' if key == 'metadata' else 'a text'}"
        elif isinstance(value, str):
            yield from _text_faults(key, value)


def is_skill_name(name: str) -> bool:
    """Whether a skill, and its folder, may have this name."""
    return len(name) <= NAME_CHARACTERS and _NAME.fullmatch(name) is not None


def skill_text(name: str, description: str, body: str, *, metadata: Mapping[str, str] | None = None) -> str:
    """A `SKILL.md`. Texts are quoted as JSON, which YAML reads as the same text."""
    lines = [f"name: {name}", f"description: {_quoted(description)}"]
    if metadata:
        lines += ["metadata:", *(f"  {_quoted(key)}: {_quoted(value)}" for key, value in metadata.items())]
    return "\n".join(["---", *lines, "---", "", body.strip(), ""])


def renamed(text: str, name: str) -> str:
    """The `SKILL.md` under another name; all else stays as it is."""
    front, body = split(text)
    return f"---\n{re.sub(r'^name[ ]*:.*$', f'name: {name}', front, count=1, flags=re.MULTILINE)}---\n{body}"


def _text(head: Head, key: str) -> str:
    value = head.get(key, "")
    return value if isinstance(value, str) else ""


def _entries(node: object, *, inner: bool) -> Iterator[tuple[str, str | dict[str, str]]]:
    import yaml

    assert isinstance(node, yaml.MappingNode)
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise HarnessError(f"the front matter has a key that is a {key.id}, not a text")
        if key.value in seen:
            raise HarnessError(f"the front matter has the key {key.value[:_SHOWN]!r} twice")
        seen.add(key.value)
        if isinstance(value, yaml.ScalarNode):
            yield key.value, value.value
        elif inner and isinstance(value, yaml.MappingNode):
            yield key.value, {k: v for k, v in _entries(value, inner=False) if isinstance(v, str)}
        else:
            raise HarnessError(f"the front matter's {key.value[:_SHOWN]!r} holds a {value.id}, not a text")


def _text_faults(key: str, value: str) -> Iterator[str]:
    shown, size = value[:_SHOWN], len(value)
    if key == "name" and not is_skill_name(value):
        yield (
            f"name: {shown!r} must have 1 to {NAME_CHARACTERS} characters (it has {size}): lower-case letters, digits, "
            "and single hyphens between them"
        )
    if key == "description" and not value.strip():
        yield "description: it is blank; it says what the skill does and when to use it"
    if key == "description" and size > DESCRIPTION_CHARACTERS:
        yield f"description: it has {size} characters; at most {DESCRIPTION_CHARACTERS} are allowed: {shown!r}…"
    if key == "compatibility" and not 1 <= size <= COMPATIBILITY_CHARACTERS:
        yield f"compatibility: it has {size} characters; 1 to {COMPATIBILITY_CHARACTERS} are allowed"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _in_a_line(text: str) -> str:
    return " ".join(text.split())[:300]
