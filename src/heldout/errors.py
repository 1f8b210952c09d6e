"""Every error that Heldout raises on purpose.

HeldoutError
├── SetupError           the user can mend it: config, files, keys, missing extras (exit code 2)
├── BudgetExhausted      a limit of the ledger would be passed (exit code 3, in one place)
└── BoundaryError        third-party or user code failed; the subclass names the boundary
    ├── ModelError       a model did not answer
    ├── SandboxError     a sandbox did not run
    ├── HarnessError     a harness raised
    ├── TaskError        a task source or a grader raised, or graded outside [0, 1]
    ├── ImproverError    an improver raised or returned nothing usable
    ├── TrainingError    a training ended without weights
    ├── GateError        an acceptance rule raised or returned no decision
    └── StoreError       the journal, a folder or the index is damaged or cannot be written
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

__all__ = [
    "BoundaryError",
    "BudgetExhausted",
    "GateError",
    "HarnessError",
    "HeldoutError",
    "ImproverError",
    "ModelError",
    "SandboxError",
    "SetupError",
    "StoreError",
    "TaskError",
    "TrainingError",
    "boundary",
    "need",
]


class HeldoutError(Exception):
    """Base of every deliberate error."""

    calls: int = 0
    """Requests that were sent to a model in the work that ended so; the ledger counts them all the same."""
    tokens_in: int = 0
    """Of those that were answered."""
    tokens_out: int = 0


class SetupError(HeldoutError):
    """Wrong use that the user can mend; shown without a traceback, exit code 2."""


class BudgetExhausted(HeldoutError):
    """Reserving this work would pass a limit; the run stops and stays usable."""


class BoundaryError(HeldoutError):
    """Code that is not ours failed; the subclass names where."""


class ModelError(BoundaryError):
    """A model did not answer (after its retries)."""

    def __init__(self, message: str = "", *, calls: int = 0) -> None:
        super().__init__(message)
        self.calls = calls


class SandboxError(BoundaryError):
    """A sandbox could not start or was refused."""


class HarnessError(BoundaryError):
    """A harness raised while it ran a task."""


class TaskError(BoundaryError):
    """A task source or a grader failed."""


class ImproverError(BoundaryError):
    """An improver raised, or what it returned cannot be used."""


class GateError(BoundaryError):
    """An acceptance rule raised, or what it returned is no decision."""


class TrainingError(BoundaryError):
    """A training ended without weights: out of memory, a lost process, a loss that is not finite."""

    def __init__(self, message: str = "", *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        """An accident of the machine, which says nothing about the recipe."""


class StoreError(BoundaryError):
    """What is on disk is damaged, or the disk refused a write."""


@contextmanager
def boundary(error: type[HeldoutError], what: str) -> Iterator[None]:
    """Run code that is not ours; whatever it raises becomes `error`, chained, a wish to end the process too.

    `HeldoutError` passes through unchanged, so an inner boundary keeps its name.
    """
    try:
        yield
    except HeldoutError:
        raise
    except (Exception, SystemExit) as cause:
        raise error(f"{what}: {type(cause).__name__}: {cause}") from cause


def need(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency, or say which command installs it, or why the one that is there does not load."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as cause:
        raise SetupError(
            f"{module!r} is not installed; it belongs to the extra {extra!r}: pip install 'heldout[{extra}]'"
        ) from cause
    except (ImportError, OSError) as cause:
        raise SetupError(
            f"{module!r} is installed and cannot be loaded ({cause}); it belongs to the extra {extra!r}: "
            f"pip install --force-reinstall 'heldout[{extra}]'"
        ) from cause
