"""Data builders by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from heldout.errors import ImproverError, SetupError
from heldout.registry import load
from heldout.tasks.examples import Builder

__all__ = ["BUILDERS", "load_builder", "replay_builder"]

_FORMATS = ("end", "wrapper", "count", "case", "word", "carry", "hard", "paraphrase", "mixture", "replay", "narrow")

BUILDERS: Mapping[str, str] = MappingProxyType(
    {f"formats:{name}": f"heldout.worlds.formats.builders:{name}" for name in (*_FORMATS, "leak")}
    | {
        "train:references": "heldout.training.builders_train:references",
        "train:failures": "heldout.training.builders_train:failures",
        "train:combined": "heldout.training.builders_train:combined",
    }
)
"""Short name to dotted path of a function (BuildRequest) -> Sequence[Pair]."""

_REPLAYS: Mapping[str, str] = MappingProxyType({"formats": "formats:replay"})


def load_builder(name: str) -> Builder:
    """The builder of this name, or `package.module:function`. `ImproverError` where there is none: an improver named
    it."""
    known = {one.partition(":")[0] for one in BUILDERS}
    if name not in BUILDERS and (":" not in name or name.partition(":")[0] in known):
        raise ImproverError(f"no data builder {name!r}; there is {', '.join(BUILDERS)}, or package.module:function")
    try:
        builder: Builder = load(name, among=BUILDERS, what="data builder")
    except SetupError as fault:
        raise ImproverError(str(fault)) from fault
    if not callable(builder):
        raise ImproverError(f"the data builder {name!r} is not a function (BuildRequest) -> pairs, it is {builder!r}")
    return builder


def replay_builder(source: str) -> str:
    """Name of the builder that draws what is replayed against forgetting, for the tasks of this source."""
    return _REPLAYS.get(source, "train:references")
