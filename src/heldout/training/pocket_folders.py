"""Where the checkpoint of a pocket model lies: shipped with the package, or made once in the cache."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from heldout.errors import SetupError
from heldout.models.smollm2_folder import cache_folder
from heldout.records import Record
from heldout.training.pocket_pretraining import pretrain
from heldout.training.pocket_recipe import PocketRecipe
from heldout.training.pocket_recipes import RECIPES, pocket_recipe, recipe_digest

__all__ = ["SHIPPED", "Made", "pocket_folder", "read_made", "write_checkpoint"]

SHIPPED = Path(__file__).parent / "checkpoints"
"""Holds `pocket-base`, `pocket-instruct` and `recipe.json`, which `bench/pocket.py` wrote."""

_EVERY = 500
"""Steps between two lines about progress."""


class Made(Record):
    """What `recipe.json` says of a checkpoint."""

    digest: str
    """Of the recipe that it was made from."""
    recipe: PocketRecipe
    parameters: int
    accuracy: Mapping[str, float]
    """Share of fresh tasks of the world that are answered right (`all`), that end by themselves (`stop`), that keep to
    each constraint among those that have it, and of each plain skill."""
    tasks: int
    """That this was measured on; of each plain skill a quarter."""
    seconds: float
    """CPU time of the training, one thread."""
    versions: Mapping[str, str]


def pocket_folder(
    name: str, *, tell: Callable[[str], object] | None = None, recipes: Mapping[str, PocketRecipe] = RECIPES
) -> Path:
    """The checkpoint folder of `base`, `instruct`, `base-m` and so on, which is made first where it is not there yet.

    `tell` is given lines about progress; they go to standard error without it. `SetupError` where the name is unknown,
    torch is missing, or the cache cannot be written.
    """
    recipe = pocket_recipe(name, recipes)
    digest = recipe_digest(recipe, recipes)
    shipped = SHIPPED / f"pocket-{name}"
    if (made := read_made().get(name)) is not None and made.digest == digest and shipped.is_dir():
        return shipped
    target = cache_folder() / "pocket" / digest
    if not target.is_dir():
        told = tell or _to_stderr
        start = None if recipe.start is None else pocket_folder(recipe.start, tell=told, recipes=recipes)
        told(f"pocket:{name} is made once, which takes minutes, and kept in {str(target)!r}")
        _make(target, lambda folder: write_checkpoint(recipe, folder, start=start, tell=told, name=name), name)
    return target


def read_made(folder: Path = SHIPPED) -> Mapping[str, Made]:
    """What is known of the checkpoints in `folder`, by name."""
    file = folder / "recipe.json"
    if not file.is_file():
        return {}
    try:
        return TypeAdapter(dict[str, Made]).validate_json(file.read_bytes())
    except ValidationError as cause:
        raise SetupError(f"{str(file)!r} cannot be read: {cause}; make it again with python bench/pocket.py") from cause


def write_checkpoint(
    recipe: PocketRecipe, folder: Path, *, start: Path | None, tell: Callable[[str], object], name: str
) -> float:
    """Train into `folder`; returns the seconds of CPU time."""
    begun = time.process_time()

    def watch(step: int, loss: float) -> None:
        if step % _EVERY == 0 or step == recipe.steps:
            spent = time.process_time() - begun
            tell(f"pocket:{name}: step {step} of {recipe.steps}, loss {loss:.2f}, {spent:.0f} s")

    pretrain(recipe, folder, start=start, watch=watch)
    return time.process_time() - begun


def _make(target: Path, write: Callable[[Path], object], name: str) -> None:
    """Write the folder beside its place and rename it, so that it appears whole."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=target.parent))
        try:
            write(partial)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as cause:
        if not target.is_dir():
            raise SetupError(
                f"cannot keep pocket:{name} in {str(target)!r}: {cause}; name another cache with HELDOUT_CACHE=DIR"
            ) from cause


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
