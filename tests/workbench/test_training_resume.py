"""A run over weights that is killed anywhere and resumed is the same run, to the digest of its weights."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from training_parts import (
    STEPS,
    cut,
    environment,
    events,
    of_kind,
    only,
    same_run,
    tiny_run,
    written,
)

import weights_world as world  # isort: skip
from heldout.store import RunFolder
from heldout.store.weights import weights_digest
from heldout.workbench import Opening, resume, run

PHASES = (
    world.DOCTORED,
    world.rounds(4),
    {"options": {"training_noise": True, "retain": {"floor": -60.0}}},
)
"""A contaminated set, one that is repaired in vain, and two that are accepted, the first of which is trained twice."""

IDS = ("leak_select", "huge_rate", "mixture", "end")


def ends_of(lines: list[bytes], *, every: bool) -> list[int]:
    """Numbers of events to keep: after the first of each kind, or after every one that is no outcome."""
    kinds = [line.partition(b'"kind":"')[2].partition(b'"')[0].decode() for line in lines]
    missing = set(STEPS) - set(kinds)
    assert not missing, f"the run has no {missing}, so killing it shows nothing of them"
    steps = [(at + 1, kind) for at, kind in enumerate(kinds)]
    ends = set(dict(reversed([(kind, at) for at, kind in steps])).values()) | {0}
    if every:
        ends |= {at for at, kind in steps if kind != "outcome"} | {at for at, _ in steps[1::60]}
    return sorted(ends - {len(lines)})


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_kill_after_any_event_and_a_resume_give_the_same_run_and_the_same_weights(
    tmp_path: Path, every: bool
) -> None:
    whole = world.play(tmp_path, *IDS, over=PHASES, name="whole")
    statuses = [data["status"] for data in of_kind(whole, "attempt")]
    assert statuses == ["contaminated", "preflight_failed", "accepted", "accepted"]
    for kept in ends_of(whole.events.read_bytes().splitlines(keepends=True), every=every):
        copy = cut(whole, kept, tmp_path / f"killed-{kept}")
        done = trainings_in(copy)
        world.JOBS.clear()
        resume(Opening(copy.path, command="again", resume=True))
        same_run(whole, copy)
        assert len(world.JOBS) == trainings_in(whole) - done, "a training was done twice"
        shutil.rmtree(copy.path)


def trainings_in(folder: RunFolder) -> int:
    """Full trainings and short ones on record."""
    return len(of_kind(folder, "training")) + sum(data["stage"] == "b" for data in of_kind(folder, "preflight"))


@pytest.mark.slow
def test_kill_9_at_random_moments_of_a_real_process(tmp_path: Path) -> None:
    config = world.start(tmp_path, *IDS, over=PHASES)
    whole = world.finish(config, tmp_path / "whole")
    file, killed = written(config, tmp_path / "config.toml"), RunFolder(tmp_path / "killed")
    total, kills = len(events(whole)), 0
    for moment in sorted(random.Random(3).sample(range(1, total), 6)):
        process = start(file, killed)
        while process.poll() is None and lines_of(killed) < moment:
            time.sleep(0.0005)
        kills += kill(process)
    assert kills >= 4, "the run ended before it could be killed"
    assert start(file, killed).wait(timeout=300) == 0
    same_run(whole, killed)


@pytest.mark.slow
@pytest.mark.parametrize("purpose", ["short", "full"])
def test_kill_9_in_the_middle_of_a_real_training(tmp_path: Path, purpose: str) -> None:
    """Gradients on a real checkpoint: the training goes on from its own, and the weights are equal to the byte."""
    pytest.importorskip("torch")
    steps = {"options": {"train": {"steps": 120}, "preflight": {"steps": 60}}}
    config = tiny_run(tmp_path, steps, {"seed": 2})
    whole = run(config, Opening(tmp_path / "whole", command="test"))
    before = weights_digest(tmp_path / "parent")
    file, killed = written(config, tmp_path / "config.toml"), RunFolder(tmp_path / "killed")
    work = killed.work / ("round-1-0-short" if purpose == "short" else "round-1-0-0")
    process = start(file, killed)
    while process.poll() is None and not any(work.glob("checkpoint-*")):
        time.sleep(0.001)
    assert kill(process), "the run ended before it could be killed"
    assert not of_kind(killed, "training")
    assert len(of_kind(killed, "preflight")) == (1 if purpose == "short" else 2)
    assert start(file, killed).wait(timeout=300) == 0
    same_run(whole, killed)
    assert only(whole, "training")["weights"] == only(killed, "training")["weights"]
    assert weights_digest(tmp_path / "parent") == before
    assert not any(killed.work.glob("*")), "work in progress was left behind"


@pytest.mark.slow
def test_two_processes_of_accelerate_give_the_losses_of_one_through_the_loop(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    one, two = (shared(tmp_path, count) for count in (1, 2))
    losses = [only(folder, "training")["losses"] for folder in (one, two)]
    assert len(losses[0]) == 40
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert only(two, "training")["spend"]["cpu_s"] > 0.0
    assert [data["passed"] for data in of_kind(two, "preflight")] == [True, True]


def shared(tmp_path: Path, processes: int) -> RunFolder:
    """The tiny run with so many processes."""
    config = tiny_run(tmp_path, {"options": {"train": {"processes": processes}}})
    return run(config, Opening(tmp_path / f"processes-{processes}", command="test"))


@pytest.mark.slow
def test_invariant_9_a_real_training_gives_equal_weights_in_two_runs_and_others_with_another_seed(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    seeds = (1, 1, 2)
    runs = [
        run(tiny_run(tmp_path, {"seed": seed}), Opening(tmp_path / f"run-{n}", command="test"))
        for n, seed in enumerate(seeds)
    ]
    digests = [only(folder, "training")["weights"] for folder in runs]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.slow
def test_a_real_training_that_a_budget_stopped_goes_on_from_its_checkpoint_and_is_counted_once(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    long = {"options": {"train": {"steps": 400}}, "audit": {"auto": False}}
    config = tiny_run(tmp_path, long)
    whole = run(config, Opening(tmp_path / "whole", command="test"))
    cost = only(whole, "training")["spend"]["cpu_s"]
    before = sum(event.data.get("spend", {}).get("cpu_s", 0.0) for event in until_training(whole))
    limit = before + 0.5 * cost
    tight = tiny_run(tmp_path, long, {"budget": {"cpu_s": limit}, "options": {"preflight": {"enabled": False}}})
    folder = run(tight, Opening(tmp_path / "tight", command="test"))
    assert of_kind(folder, "run.finished")[-1]["status"] == "stopped"
    stopped = [data for data in of_kind(folder, "prepared") if data["purpose"] == "training"]
    assert len(stopped) == 1
    larger = tight.model_copy(update={"budget": tight.budget.model_copy(update={"cpu_s": 100_000.0})})
    resume(Opening(folder.path, command="again", resume=True), config=larger)
    ended = only(folder, "training")
    unladdered = run(
        tiny_run(tmp_path, long, {"options": {"preflight": {"enabled": False}}}),
        Opening(tmp_path / "unladdered", command="test"),
    )
    assert ended["weights"] == only(unladdered, "training")["weights"]
    both = stopped[0]["spend"]["cpu_s"] + ended["spend"]["cpu_s"]
    assert both < 2.0 * cost + 2.0, "the stopped part was counted twice"
    assert ended["spend"]["cpu_s"] < both


def until_training(folder: RunFolder) -> list[object]:
    """Events before the full training, but for what the ladder cost."""
    found = []
    for event in events(folder):
        if event.kind == "training":
            break
        if event.kind != "preflight":
            found.append(event)
    return found


def start(config: Path, folder: RunFolder) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "heldout", "run", str(config), "--out", str(folder.path), "--json"]
    command += ["--resume"] if folder.is_run else []
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment())


def kill(process: subprocess.Popen[bytes]) -> bool:
    """Kill it, if it still runs, and say whether it did."""
    alive = process.poll() is None
    if alive:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return alive


def lines_of(folder: RunFolder) -> int:
    return folder.events.read_bytes().count(b"\n") if folder.events.exists() else 0
