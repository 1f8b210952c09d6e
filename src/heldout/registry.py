"""Short names to dotted paths; built-ins and plug-ins use the same door."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heldout.errors import SetupError, boundary

__all__ = ["load"]


def load(name: str, *, among: Mapping[str, str], what: str) -> Any:
    """The object that `name` means: a key of `among`, or `package.module:Name` from the user's own folder.

    The working folder is put last on the import path, so a plug-in needs no packaging and hides no library.
    """
    path = among.get(name, name)
    module_name, colon, attribute = path.partition(":")
    if not colon:
        raise SetupError(f"no {what} {name!r}; there is {', '.join(sorted(among))}, or a path package.module:Name")
    here = str(Path.cwd())
    if path is name and here not in sys.path:
        sys.path.append(here)
    with boundary(SetupError, f"{what} {name!r} cannot be imported"):
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as cause:
            raise SetupError(f"{what} {name!r}: cannot import {cause.name!r}; looked in {here!r} too") from cause
    if not hasattr(module, attribute):
        raise SetupError(f"{what} {name!r}: module {module_name!r} has no {attribute!r}")
    return getattr(module, attribute)
