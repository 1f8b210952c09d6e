"""What `doctor` says of sandboxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.workbench import MachineCheck, check_machine


def sandbox_check() -> MachineCheck:
    (check,) = [check for check in check_machine() if check.name == "sandbox"]
    return check


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_it_works_where_bubblewrap_does() -> None:
    fault = Bubblewrap().fault()
    if fault is not None:
        pytest.skip(fault)
    check = sandbox_check()
    assert check.works
    assert check.detail.startswith("bubblewrap works; docker ")
    assert check.mend == ""


def test_without_both_the_command_that_mends_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check = sandbox_check()
    assert not check.works
    assert "never run unprotected" in check.detail
    assert "'bwrap' of the package bubblewrap is not on the PATH" in check.detail
    assert check.mend.startswith("apt-get install bubblewrap")


def test_docker_alone_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "docker", "echo 27.1")
    monkeypatch.setenv("PATH", str(tmp_path))
    check = sandbox_check()
    assert check.works
    assert check.detail.startswith('only sandbox = "docker" works')
