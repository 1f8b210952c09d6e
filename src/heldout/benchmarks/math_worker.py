"""Runs as a process of its own, without Heldout: says whether two answers in LaTeX are equal, with math-verify.

One JSON line in for each question: `gold`, `given` and `cpu_s`. Lines out: `ready` at the start; then for each question
`gold` once the right answer is read, and `same` or `different`. What takes more than `cpu_s` of the processor before or
after that ends the process, also within one long operation: SIGPROF is left to the kernel.
"""

from __future__ import annotations

import json
import logging
import resource
import signal
import sys
import warnings
from typing import Any

__all__ = ["main"]

_MEMORY_BYTES = 2 << 30


def main() -> None:
    """Answer until there is no further question."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    from math_verify import verify

    _say("ready")
    for line in sys.stdin:
        question = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, question["cpu_s"])
        gold = _read(question["gold"])
        _say("gold")
        signal.setitimer(signal.ITIMER_PROF, question["cpu_s"])
        same = verify(gold, _read(question["given"]), timeout_seconds=None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _say("same" if same else "different")


def _read(latex: str) -> list[Any]:
    """Only as LaTeX: the library's reading of plain expressions evaluates them as Python."""
    from math_verify import LatexExtractionConfig, parse

    return list(parse(f"${latex}$", extraction_config=[LatexExtractionConfig()], parsing_timeout=None))


def _say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
