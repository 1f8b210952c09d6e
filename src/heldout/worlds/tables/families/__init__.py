"""The operation families: twelve ordinary ones, and two that are only in the pool `ood`."""

from __future__ import annotations

from collections.abc import Mapping

from heldout.worlds.tables.families.columns import fill, formula, join, recode, running, split
from heldout.worlds.tables.families.draw import Draw, Family, Operation
from heldout.worlds.tables.families.rows import deduplicate, keep, reconcile, sort, top
from heldout.worlds.tables.families.shapes import aggregate, pivot, unpivot

__all__ = ["FAMILIES", "OOD_FAMILIES", "Draw", "Family", "Operation"]

FAMILIES: Mapping[str, Family] = {
    "filter": keep,
    "aggregate": aggregate,
    "join": join,
    "fill": fill,
    "deduplicate": deduplicate,
    "sort": sort,
    "pivot": pivot,
    "unpivot": unpivot,
    "recode": recode,
    "split": split,
    "top": top,
    "formula": formula,
}

OOD_FAMILIES: Mapping[str, Family] = {"running": running, "reconcile": reconcile}
