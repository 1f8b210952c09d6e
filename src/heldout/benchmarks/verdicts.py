"""Tests run in a sandbox over what an agent left there, with a verdict that its program cannot simply print."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from heldout.errors import SandboxError, need
from heldout.sandbox import Completed, Sandbox

__all__ = ["HIDDEN", "RUNNER", "Verdict", "hidden_files", "nonce_of", "pytest_mounts", "run_pytest", "runner_text"]

HIDDEN = "/hidden"
"""Where our own files are mounted, read-only."""

_LIBRARY = "/hidden-library"
RUNNER = "pytest_verdict.py"
_PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which tests passed, by the name that the test runner gives them."""

    outcomes: Mapping[str, str] = field(default_factory=dict)
    """`passed`, `failed`, `skipped`, or `was not run` for a test that was found and left out."""
    messages: Mapping[str, str] = field(default_factory=dict)
    """Of failures: the assertion, never the test's source."""
    fault: str = ""
    """Why nothing of it counts; empty where it does."""


def nonce_of(*words: str) -> str:
    """A word that who does not know the reference cannot know: the mark of a genuine verdict, and a pure function."""
    return hashlib.sha256("\n".join(("verdict", *words)).encode()).hexdigest()


@lru_cache(maxsize=1)
def pytest_mounts() -> Mapping[str, str]:
    """Host folder to place inside of each package that pytest needs; for sandboxes that have none of their own."""
    need("pytest", extra="repair")
    found = {}
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            found[str(Path(next(iter(spec.submodule_search_locations))))] = f"{_LIBRARY}/{name}"
    return MappingProxyType(found)


@contextmanager
def hidden_files(files: Mapping[str, str]) -> Iterator[Path]:
    """A temporary host folder with these files, to be mounted; gone at the end."""
    with tempfile.TemporaryDirectory(prefix="heldout-") as name:
        folder = Path(name)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8", newline="")
        for made in (folder, *folder.rglob("*")):  # the user inside is another one
            made.chmod(0o755)
        yield folder


def runner_text() -> str:
    """The script that runs inside."""
    return resources.files("heldout.benchmarks").joinpath(RUNNER).read_text(encoding="utf-8")


def run_pytest(
    box: Sandbox,
    arguments: Sequence[str],
    *,
    nonce: str,
    paths: Sequence[str] = (),
    shell: str = "",
    own: bool = False,
) -> Verdict:
    """Run pytest in `box`, whose scene mounts `hidden_files` with the runner at `HIDDEN`.

    `paths` is where the tested code lies; `shell` is run first, in the same shell; `own` takes the sandbox's own pytest
    instead of `pytest_mounts`. `SandboxError` where pytest could not even be started, which says nothing about the
    answer; whatever happens later is the answer's doing, and no way for it to go missing.
    """
    request = {"nonce": nonce, "library": [] if own else [_LIBRARY], "paths": list(paths), "arguments": list(arguments)}
    command = f"python3 -I {HIDDEN}/{RUNNER}"
    argv = ["bash", "-c", f"{shell}\n{command}"] if shell else command.split()
    return _read(box.run(argv, stdin=json.dumps(request) + "\n"), nonce)


def _read(done: Completed, nonce: str) -> Verdict:
    if f"{nonce}ready" not in done.output:
        why = f"{done.killed or 'exit code'} {done.exit_code}: {done.output.strip()[-300:]!r}"
        raise SandboxError(f"pytest could not be started in the sandbox ({why})")
    last = next((line for line in reversed(done.output.splitlines()) if line.startswith(nonce + "{")), None)
    if last is None and done.killed:
        return Verdict(fault=f"the tests were ended by a limit ({done.killed})")
    if last is None:
        return Verdict(fault=f"the program ended before its tests (exit code {done.exit_code})")
    said = json.loads(last[len(nonce) :])
    if said["tampered"]:
        return Verdict(fault=f"the program changed the test runner ({said['tampered'][0]})")
    return Verdict({**dict.fromkeys(said["collected"], "was not run"), **said["outcomes"]}, said["messages"])
