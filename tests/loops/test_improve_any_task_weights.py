"""The loop over weights: which weights a run keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
import weights_world as world
from weights_world import attempts, finished, of_kind, play, rounds, start_weights

from heldout.store.weights import WeightsStore


def test_the_store_holds_what_the_lineage_names(tmp_path: Path) -> None:
    folder = play(tmp_path, "mixture", "end", over=(rounds(2), {"options": {"training_noise": True}}))
    store = WeightsStore(folder.weights)
    named = {folder.load(data["digest"]).weights for data in of_kind(folder, "candidate")}
    for weights in named:
        assert weights is not None
        assert store.check(weights).is_dir()
        assert store.ancestry(weights)[-1] == start_weights(folder)
    on_disk = {path.name for path in folder.weights.iterdir() if path.is_dir()}
    assert on_disk == named, "weights of short runs were left behind"


@pytest.mark.parametrize("keep", ["all", "finalists"])
def test_weights_of_models_that_lost_may_be_deleted_and_stay_on_record(tmp_path: Path, keep: str) -> None:
    over = ({"gate": {"kind": "weights_world:Never"}, "options": {"keep_weights": keep}}, rounds(2))
    folder = play(tmp_path, "end", "mixture", over=over)
    children = [one["weights"] for one in of_kind(folder, "training")]
    store = WeightsStore(folder.weights)
    there = [(store.root / digest).is_dir() for digest in (start_weights(folder), *children)]
    assert there == [True, *[keep == "all"] * 2]
    assert {store.ancestry(digest)[-1] for digest in children} == {start_weights(folder)}
    assert finished(world.finish_again(folder))["final"] == finished(folder)["start"]


def test_weights_that_a_final_descends_from_are_not_deleted(tmp_path: Path) -> None:
    """Adapters stand on them: the head of round 1 is no finalist once round 2 was accepted."""
    folder = play(tmp_path, "end", "mixture", over=(rounds(2), {"options": {"keep_weights": "finalists"}}))
    assert [one["status"] for one in attempts(folder)] == ["accepted", "accepted"]
    first, second = (one["weights"] for one in of_kind(folder, "training"))
    store = WeightsStore(folder.weights)
    assert store.ancestry(second) == (second, first, start_weights(folder))
    assert all((store.root / digest).is_dir() for digest in store.ancestry(second))
