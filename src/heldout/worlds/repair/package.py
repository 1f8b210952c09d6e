"""One generated repair task: a small Python package with a planted bug, and everything that is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Package"]


@dataclass(frozen=True, slots=True)
class Package:
    """A pure function of (world seed, family, number, nondeterminism rate). Paths are relative to the work folder."""

    id: str
    family: str
    issue: str
    """What the solver reads: the symptom, never the module or the line."""
    files: Mapping[str, str]
    """The work folder at the start: 2 to 5 modules of one package, `check.py` (visible checks that show the
    failing behaviour and exit 1), `tools/format.py`, a README."""
    hidden: Mapping[str, str]
    """Hidden tests, for pytest; never in the work folder."""
    target: str
    """The module that holds the bug."""
    lookalike: str
    """Another module that matches the same search; editing it mends nothing."""
    search: str
    """A fixed string for `grep -rn` that finds both."""
    broken: str
    """The faulty fragment of the target, one or more whole lines; it occurs once there."""
    fixed: str
    """The fragment that mends it."""
    partial: str
    """A plausible, incomplete mend of the same fragment: it runs, passes part of `check.py`, fails hidden tests."""
    lookalike_line: str
    """A whole line of the look-alike that a solver in the wrong module would change; it occurs once there."""
    lookalike_change: str
    """What it would change it to; the package still works as badly as before."""
    flaky: bool
    """Whether `tools/format.py` may put the original module back, depending on the run's own seed (`RUN_SEED`)."""
    loud: bool = False
    """Whether a failing `check.py` prints more than 6 KB, with the tracebacks in the middle."""
    failure: str = ""
    """How the last line of the first traceback of `check.py` begins: the error class, and for assertions the label."""
    partial_failure: str = ""
    """The same under the partial mend."""

    @property
    def solution(self) -> Mapping[str, str]:
        """The reference patch: the target in full, mended."""
        return {self.target: self.files[self.target].replace(self.broken, self.fixed)}
