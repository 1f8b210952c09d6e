"""What the simulated worker of the world `tables` is worth under guides and skills, exactly, and how fast it is drawn.

python bench/table_worker.py [--worlds N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Mapping, Sequence

from heldout.skills.guide import NO_SKILL, start_guide
from heldout.worlds.tables.catalogue import CATALOGUE
from heldout.worlds.tables.generator import job_of
from heldout.worlds.tables.grading import read_origin
from heldout.worlds.tables.job import Job
from heldout.worlds.tables.parts import RULES, Part
from heldout.worlds.tables.source import TablesSource
from heldout.worlds.tables.symbolic import play
from heldout.worlds.tables.truth import disagreement, mean_rate

Files = Mapping[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=3, help="worlds of the default size")
    sources = [TablesSource(seed=seed) for seed in range(parser.parse_args().worlds)]
    jobs = [job_of(read_origin(item.reference)) for source in sources for item in source.items()]
    print(f"{len(jobs)} tasks; share that has to decide a part:")
    print("  " + ", ".join(f"{part} {sum(part in job.parts for job in jobs) / len(jobs):.2f}" for part in Part))
    show_rates(jobs)
    show_slips(jobs)
    show_edits(jobs)
    show_speed(jobs)


def show_rates(jobs: Sequence[Job]) -> None:
    """True pass rate and disagreement of two runs, of candidates of every kind."""
    every = [rule.name for rule in RULES]
    start = [rule.name for rule in RULES if rule.start]
    rows: Mapping[str, Files] = {
        "no skill": NO_SKILL,
        "start guide": start_guide(),
        "full guide": guide_of(every),
        "empty guide": guide_of(()),
        "skill of the start's rules": skill_of(start),
        "skill of every rule": skill_of(every),
    }
    print(f"{'':28} {'pass':>6} {'A/A':>6}   without recovery")
    for name, files in rows.items():
        bare = mean_rate(files, jobs, recovery=False), disagreement(files, jobs, recovery=False)
        rates = (mean_rate(files, jobs), disagreement(files, jobs), *bare)
        print(f"{name:28} {rates[0]:6.3f} {rates[1]:6.3f}   {rates[2]:6.3f} {rates[3]:6.3f}")


def show_slips(jobs: Sequence[Job]) -> None:
    """The start guide at other rates of slips."""
    for slip in (0.0, 0.02, 0.10):
        rate, noise = mean_rate(start_guide(), jobs, slip=slip), disagreement(start_guide(), jobs, slip=slip)
        print(f"start guide, slip {slip:.2f}: pass {rate:.3f}, A/A {noise:.3f}")


def show_edits(jobs: Sequence[Job]) -> None:
    """Points that each edit of the catalogue adds to the start guide."""
    start = mean_rate(start_guide(), jobs)
    for edit in CATALOGUE:
        text = edit.text.format(name="Elsewhere") if edit.kind == "literal" else edit.text
        points = 100.0 * (mean_rate(with_sentence(start_guide(), edit.module, text), jobs) - start)
        print(f"{edit.module:22} {edit.kind:8} {edit.name:16} {points:+6.1f} points")


def with_sentence(files: Files, module: str, text: str) -> Files:
    """A guide with one more sentence in a module's policy."""
    head, policy, rest = files[module].partition("## Policy\n\n")
    return {**files, module: f"{head}{policy}- {text}\n{rest}"}


def guide_of(names: Collection[str]) -> Files:
    """The start guide with exactly these rules."""
    files = dict(start_guide())
    for rule in RULES:
        files[rule.module] = files[rule.module].replace(f"- {rule.text}\n", "")
    for rule in RULES:
        if rule.name in names:
            files = dict(with_sentence(files, rule.module, rule.text))
    return files


def skill_of(names: Collection[str]) -> Files:
    """One skill for all tasks with exactly these rules."""
    lines = "".join(f"- {rule.text}\n" for rule in RULES if rule.name in names)
    return {"SKILL.md": f"---\nname: tables\ndescription: How to work on tables.\n---\n\n{lines}"}


def show_speed(jobs: Sequence[Job]) -> None:
    """Episodes without a sandbox, a second of this process."""
    plays_per_s(NO_SKILL, jobs, seed=0)
    edited = with_sentence(start_guide(), "m1_task.md", "Read the request twice before classifying it.")
    new, known = plays_per_s(edited, jobs, seed=0), plays_per_s(edited, jobs, seed=1)
    print(f"episodes a second without a sandbox: {new:.0f} of a new text, {known:.0f} of one that was played before")


def plays_per_s(files: Files, jobs: Sequence[Job], *, seed: int) -> float:
    """Each task once."""
    begun = time.process_time()
    for job in jobs:
        play(files, job, seed=seed)
    return len(jobs) / (time.process_time() - begun)


if __name__ == "__main__":
    main()
