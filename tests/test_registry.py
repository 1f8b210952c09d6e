"""Short names, dotted names, and plug-ins from the user's own folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from heldout.errors import SetupError, need
from heldout.registry import load

AMONG = {"counter": "collections:Counter"}


def test_a_short_name_loads_its_dotted_path() -> None:
    assert load("counter", among=AMONG, what="thing").__name__ == "Counter"


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(SetupError, match=r"no thing 'count'; there is counter, or a path package\.module:Name"):
        load("count", among=AMONG, what="thing")


def test_a_plug_in_is_found_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_plugin_of_the_test.py").write_text("class Mine:\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load("my_plugin_of_the_test:Mine", among=AMONG, what="thing").__name__ == "Mine"
    with pytest.raises(SetupError, match="has no 'Yours'"):
        load("my_plugin_of_the_test:Yours", among=AMONG, what="thing")


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(SetupError, match="cannot import 'no_such_module_at_all'"):
        load("no_such_module_at_all:Thing", among=AMONG, what="thing")


def test_a_missing_extra_names_the_command_that_installs_it() -> None:
    with pytest.raises(SetupError, match=r"pip install 'heldout\[train\]'"):
        need("no_such_module_at_all", extra="train")


@pytest.mark.parametrize("error", ["ImportError", "OSError"])
def test_a_dependency_that_does_not_load_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    (tmp_path / "broken_on_load.py").write_text(f"raise {error}('libcudart.so.12: cannot open shared object file')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SetupError, match=r"cannot be loaded \(libcudart.*--force-reinstall 'heldout\[train\]'"):
        need("broken_on_load", extra="train")
