"""The weights of a run: named by content, kept whole, with their ancestry."""

from __future__ import annotations

from pathlib import Path

import pytest

from heldout.errors import SetupError, StoreError
from heldout.store import WeightsOrigin, WeightsStore, weights_digest


def folder(path: Path, **files: str) -> Path:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def test_the_digest_is_of_names_and_contents_and_of_nothing_else(tmp_path: Path) -> None:
    first = folder(tmp_path / "a", config="1", model="2")
    second = folder(tmp_path / "b", model="2", config="1")
    third = folder(tmp_path / "c", config="1", model2="2")
    assert weights_digest(first) == weights_digest(second)
    assert weights_digest(first) != weights_digest(third)
    (second / ".hidden").write_text("not content")
    assert weights_digest(first) == weights_digest(second)


def test_added_weights_are_moved_and_the_same_content_is_kept_once_with_its_first_origin(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path / "weights")
    digest = store.add(folder(tmp_path / "a", model="1"), WeightsOrigin(seed=1))
    again = store.add(folder(tmp_path / "b", model="1"), WeightsOrigin(seed=2))
    assert digest == again
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()
    assert (store.path(digest) / "model").read_text() == "1"
    assert store.origin(digest).seed == 1


def test_adopted_weights_stay_where_they_were_too(tmp_path: Path) -> None:
    store, brought = WeightsStore(tmp_path / "weights"), folder(tmp_path / "a", model="1")
    digest = store.adopt(brought, source="local:a")
    assert store.adopt(brought, source="local:a") == digest
    assert (brought / "model").read_text() == (store.path(digest) / "model").read_text() == "1"
    assert store.origin(digest) == WeightsOrigin(source="local:a")
    with (store.path(digest) / "model").open("a") as file:
        file.write("spoilt")
    assert (brought / "model").read_text() == "1", "the original is no link of the copy"


def test_changed_weights_are_found(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path / "weights")
    digest = store.add(folder(tmp_path / "a", model="1"), WeightsOrigin())
    assert store.check(digest) == store.path(digest)
    (store.path(digest) / "model").write_text("2")
    with pytest.raises(StoreError, match="were changed"):
        store.check(digest)


def test_ancestry_leads_to_what_was_brought_also_past_pruned_weights(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path / "weights")
    base = store.adopt(folder(tmp_path / "a", model="1"), source="local:a")
    child = store.add(folder(tmp_path / "b", model="2"), WeightsOrigin(parent=base))
    grandchild = store.add(folder(tmp_path / "c", model="3"), WeightsOrigin(parent=child))
    store.prune(child)
    assert store.ancestry(grandchild) == (grandchild, child, base)
    with pytest.raises(StoreError, match="no weights"):
        store.path(child)


def test_empty_and_absent_folders_are_no_weights(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no folder"):
        weights_digest(tmp_path / "nothing")
    with pytest.raises(SetupError, match="holds no files"):
        weights_digest(folder(tmp_path / "a"))
