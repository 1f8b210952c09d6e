"""What a sandboxed command costs beside a bare bubblewrap with the same mounts, in turns in one run.

python bench/sandbox.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from heldout.sandbox import Scene
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.sandbox.system import INNER_ID, WORK, layout

BAR = 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    rounds = 40 if parser.parse_args().quick else 400
    print(
        json.dumps(
            [one_command(["true"], rounds), one_command(["python3", "-c", "pass"], rounds), opening(rounds)], indent=2
        )
    )


def one_command(argv: Sequence[str], rounds: int) -> dict[str, Any]:
    """The median over rounds of the ratio within a round, in which both run once, in random order.

    Ours takes more turns on the processor, so the ratio grows with what else runs on the machine; the ratio of the
    fastest tenths depends on that less. The bar is meant for a machine that does nothing else.
    """
    with tempfile.TemporaryDirectory() as folder, Bubblewrap().open(Scene()) as sandbox:
        bare = [*bare_bubblewrap(Path(folder)), *argv]

        def run_bare() -> None:
            subprocess.run(bare, stdin=subprocess.DEVNULL, capture_output=True, check=True)

        def run_ours() -> None:
            assert sandbox.run(argv).exit_code == 0

        ours, theirs = in_turns(run_ours, run_bare, rounds)
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    quiet = statistics.quantiles(ours, n=10)[0] / statistics.quantiles(theirs, n=10)[0]
    return {
        "what": f"times a bare bubblewrap: {' '.join(argv)!r} in a sandbox",
        "value": round(ratio, 3),
        "of_the_fastest_tenth": round(quiet, 3),
        "ours_ms": round(statistics.median(ours) * 1e3, 2),
        "bare_ms": round(statistics.median(theirs) * 1e3, 2),
        "rounds": rounds,
        "bar": BAR,
        "met": ratio <= BAR,
    }


def opening(rounds: int) -> dict[str, Any]:
    """A sandbox with one file, opened and closed; no bar, it is paid once per task."""
    seconds = []
    for _ in range(rounds // 4):
        begun = time.perf_counter()
        with Bubblewrap().open(Scene(files={"a.py": ""})):
            pass
        seconds.append(time.perf_counter() - begun)
    return {
        "what": "ms to open and close a sandbox",
        "value": round(statistics.median(seconds) * 1e3, 2),
        "bar": None,
        "met": None,
    }


def bare_bubblewrap(folder: Path) -> list[str]:
    """The same system folders, work folders and namespaces, without limits, filter, watching and accounting."""
    plan = layout({}, {})
    words = [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--hostname",
        "sandbox",
    ]
    words += ["--uid", str(INNER_ID), "--gid", str(INNER_ID), "--clearenv"]
    for path, source in plan.binds.items():
        words += ["--ro-bind", source, path]
    for path, target in plan.links.items():
        words += ["--symlink", target, path]
    for path, data in plan.files.items():
        copy = folder / Path(path).name
        copy.write_bytes(data)
        words += ["--ro-bind", str(copy), path]
    for name, path in (("work", WORK), ("tmp", "/tmp")):
        (folder / name).mkdir(exist_ok=True)
        words += ["--bind", str(folder / name), path]
    for name, value in plan.env.items():
        words += ["--setenv", name, value]
    return [*words, "--proc", "/proc", "--dev", "/dev", "--chdir", WORK]


def in_turns(first: Callable[[], None], second: Callable[[], None], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of each per round; who begins a round is drawn, and one round warms up."""
    draw, seconds = random.Random(0), ([], [])
    for number in range(rounds + 1):
        for index in draw.sample((0, 1), 2):
            begun = time.perf_counter()
            (first, second)[index]()
            if number:
                seconds[index].append(time.perf_counter() - begun)
    return seconds


if __name__ == "__main__":
    main()
