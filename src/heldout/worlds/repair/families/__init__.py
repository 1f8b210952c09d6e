"""Bug templates by family. The ordinary roles have eight families; three more are only in the report role `ood`."""

from __future__ import annotations

from collections.abc import Mapping

from heldout.worlds.repair.draft import Mechanism
from heldout.worlds.repair.families import (
    empty_input,
    encoding,
    mutable_default,
    off_by_one,
    precedence,
    rounding,
    sort_order,
    stale_cache,
    swapped_arguments,
    wrong_default,
    wrong_import,
)

__all__ = ["FAMILIES", "OOD_FAMILIES"]

FAMILIES: Mapping[str, tuple[Mechanism, ...]] = {
    "off-by-one": (off_by_one.pages, off_by_one.covered_days, off_by_one.tiers),
    "wrong-default": (wrong_default.fees, wrong_default.house_rules, wrong_default.incomplete_entries),
    "swapped-arguments": (swapped_arguments.percentages, swapped_arguments.rounds, swapped_arguments.replacements),
    "empty-input": (empty_input.best_group, empty_input.titles, empty_input.extremes),
    "wrong-import": (wrong_import.middles, wrong_import.boxes, wrong_import.styles),
    "stale-cache": (stale_cache.totals, stale_cache.prices, stale_cache.summaries),
    "encoding": (encoding.spreadsheets, encoding.cut_labels, encoding.same_names),
    "rounding": (rounding.cents, rounding.shares, rounding.steps),
}
"""Of train, select, spare and audit."""

OOD_FAMILIES: Mapping[str, tuple[Mechanism, ...]] = {
    "mutable-default": (mutable_default.shared_lists, mutable_default.shared_attributes),
    "precedence": (precedence.surcharges, precedence.admissions),
    "sort-order": (sort_order.natural_order, sort_order.ranking),
}
"""Of no other role than `ood`."""
