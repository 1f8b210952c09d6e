"""What a training costs, and which of its failures are accidents of the machine."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from heldout.errors import TrainingError
from heldout.records import Spend

__all__ = ["Meter", "accidents", "is_accident", "peak_memory_mb"]

_MB = 1 << 20

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory", "bad_alloc")
_LOST_PEER = ("gloo", "nccl", "connection closed by peer", "connection reset by peer", "broken pipe")


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True, slots=True)
class Meter:
    """Seconds since it was made: elapsed, of this process, and of the children that it waited for since."""

    accelerators: int = 0
    """How many are in use all the time."""
    wall_s: float = field(default_factory=time.perf_counter)
    own_s: float = field(default_factory=time.process_time)
    children_s: float = field(default_factory=_children_s)

    def spend(self, *, children: bool = False) -> Spend:
        """What was spent until now; processor seconds of this process, or with `children` of its children alone."""
        wall_s = time.perf_counter() - self.wall_s
        cpu_s = _children_s() - self.children_s if children else time.process_time() - self.own_s
        return Spend(wall_s=wall_s, cpu_s=cpu_s, gpu_s=wall_s * self.accelerators)


def peak_memory_mb() -> float:
    """Most memory (MiB) that this process has held since it began; earlier work in it counts too."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Bytes on macOS, KiB elsewhere.
    return peak / _MB if sys.platform == "darwin" else peak / 1024


@contextmanager
def accidents(what: str) -> Iterator[None]:
    """Memory that is not there, a process that was lost and a time-out become a `TrainingError` that is missing.

    Every other error passes. `torch` has no type for a failed allocation on the CPU, so the message is read.
    """
    try:
        yield
    except MemoryError as cause:
        raise TrainingError(f"{what}: out of memory", missing=True) from cause
    except (TimeoutError, ConnectionError) as cause:
        raise TrainingError(f"{what}: {type(cause).__name__}: {_first_line(cause)}", missing=True) from cause
    except RuntimeError as cause:
        if is_accident(str(cause)):
            raise TrainingError(f"{what}: out of memory: {_first_line(cause)}", missing=True) from cause
        if any(mark in str(cause).lower() for mark in _LOST_PEER):
            raise TrainingError(f"{what}: another process was lost: {_first_line(cause)}", missing=True) from cause
        raise


def is_accident(words: str) -> bool:
    """Whether an error tells of memory that was not there."""
    return "memoryerror" in words.lower() or any(mark in words.lower() for mark in _OUT_OF_MEMORY)


def _first_line(cause: BaseException) -> str:
    return str(cause).strip().partition("\n")[0][:200]
