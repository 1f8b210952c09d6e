"""What the simulated coder of the world `repair` is worth, exactly, and what an episode of the shadow world costs.

python bench/repair_coder.py [--worlds N]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

from heldout.config import ModelConfig
from heldout.harness import Episode, Preparation
from heldout.harness.loop_settings import ToolLoopOptions
from heldout.models.simulated import answer_key
from heldout.records import Candidate, Task
from heldout.studies.verse.calibration import calibrate
from heldout.studies.verse.shadow import ShadowHarness
from heldout.worlds.repair import RepairSource
from heldout.worlds.repair.coder import SimulatedCoder, package_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=2, help="worlds of 320 tasks of the ordinary families")
    sources = [RepairSource(seed=seed, count=320, ood=0) for seed in range(parser.parse_args().worlds)]
    start = Candidate(files={"system_prompt.md": sources[0].instruction})
    packages = [package_of(item.reference) for source in sources for item in source.items()]
    found = calibrate(start, packages, ToolLoopOptions())
    print(f"{found.tasks} tasks: start {found.start:.3f}, two runs disagree on {found.disagreement:.3f}")
    for edit in found.edits:
        print(
            f"{edit.edit_class:10} {edit.name:22} {edit.effect:8} {edit.points:+6.1f} points"
            f" (+{edit.up:.1f} −{edit.down:.1f})"
        )
    print(f"all useful: {found.all_useful:.3f}")
    print(f"a shadow episode: {episode_us(sources[0], start):.0f} µs once its script is known")


def episode_us(source: RepairSource, start: Candidate) -> float:
    """Median over the tasks of a world, in microseconds."""
    items = source.items()
    coder = SimulatedCoder(ModelConfig(name="simulated_coder"), answer_key=answer_key(items))
    harness = ShadowHarness(environment=source.environment)
    tasks = [Task(id=item.id, input=item.input) for item in items]
    return 1e6 * statistics.median(_seconds(harness, start, tasks, Episode(coder, 1, Preparation())))


def _seconds(harness: ShadowHarness, start: Candidate, tasks: Sequence[Task], episode: Episode) -> list[float]:
    spent = []
    for task in tasks:
        harness.run(start, task, episode)
        begun = time.perf_counter()
        harness.run(start, task, episode)
        spent.append(time.perf_counter() - begun)
    return spent


if __name__ == "__main__":
    main()
