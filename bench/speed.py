"""The speed bars, each side by side with a baseline or a peer in one run. Ratios count; seconds are this machine's.

python bench/speed.py [--quick]
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

from heldout.ledger import Ledger
from heldout.loops import Recorder
from heldout.models import Request
from heldout.records import Candidate, Outcome, OutcomeStatus, SelectTask, Spend
from heldout.rollouts import Engine, InlineExecutor, Sweep, ThreadExecutor
from heldout.store import Journal
from heldout.testing import FunctionModel, PlainHarness

CANDIDATE = Candidate(files={"instruction.md": "Repeat what you are told."})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    quick = parser.parse_args().quick
    rows = [
        engine_overhead(2_000 if quick else 20_000),
        endpoint(640 if quick else 3200),
        resume(10_000 if quick else 100_000),
    ]
    if importlib.util.find_spec("gepa"):
        rows.append(gepa_overhead(300 if quick else 3_000))
    print(json.dumps(rows, indent=2))


def engine_overhead(evaluations: int) -> dict[str, Any]:
    """Journaled evaluations a second with a solver that costs nothing; the bar is 5,000."""
    tasks = _tasks(evaluations)
    seconds = _median(lambda: _evaluate(FunctionModel(_nothing), tasks, InlineExecutor()))
    rate = evaluations / seconds
    return {"what": "journaled evaluations a second", "value": round(rate), "bar": 5000, "met": rate >= 5000}


def endpoint(evaluations: int) -> dict[str, Any]:
    """A 100 ms endpoint with 64 in flight, as a share of what a bare thread pool reaches with the same sleeps."""
    tasks, latency_s, workers = _tasks(evaluations), 0.1, 64
    ideal = evaluations / workers * latency_s
    executor = ThreadExecutor(workers)
    ours = _median(lambda: _evaluate(FunctionModel(_nothing, latency_s=latency_s), tasks, executor))
    executor.close()
    with ThreadPoolExecutor(workers) as pool:
        bare = _median(lambda: list(pool.map(lambda _: time.sleep(latency_s), tasks)))
    share = ideal / ours
    return {
        "what": "share of ideal throughput, 64 in flight at 100 ms",
        "value": round(share, 3),
        "bare_thread_pool": round(ideal / bare, 3),
        "bar": 0.95,
        "met": share >= 0.95,
    }


def resume(events: int) -> dict[str, Any]:
    """Seconds to open, verify and replay a journal of outcomes, beside reading it as plain JSON lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        with Journal.open(path) as journal:
            for number in range(events):
                journal.append("outcome", _outcome(number))

        def replay() -> None:
            with Journal.open(path) as journal:
                recorder = Recorder.replay(journal, journal.read_from(0))
            assert len(recorder.outcomes) == events

        seconds = _median(replay)
        plain = _median(lambda: [json.loads(line) for line in path.open("rb")])
    bar = 2.0 if events == 100_000 else None
    return {
        "what": f"seconds to resume {events} events",
        "value": round(seconds, 2),
        "times_plain_json": round(seconds / plain, 1),
        "bar": bar,
        "met": None if bar is None else seconds <= bar,
    }


def gepa_overhead(evaluations: int) -> dict[str, Any]:
    """GEPA's evaluations a second where scoring and proposing cost nothing, beside ours; both keep a record on disk."""
    import gepa

    data = [{"input": str(number)} for number in range(50)]
    texts = itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        gepa.optimize(
            seed_candidate={"instruction": "Repeat."},
            trainset=data,
            valset=data,
            adapter=_GepaStub(),
            reflection_lm=lambda prompt: f"```{len(prompt)} {next(texts)}```",
            max_metric_calls=evaluations,
            run_dir=folder,
            logger=_Quiet(),
        )
        theirs = evaluations / (time.perf_counter() - begun)
    tasks = _tasks(evaluations)
    ours = evaluations / _median(lambda: _evaluate(FunctionModel(_nothing), tasks, InlineExecutor()))
    return {
        "what": f"recorded evaluations a second, times those of GEPA {version('gepa')}",
        "value": round(ours / theirs, 1),
        "ours_a_second": round(ours),
        "gepa_a_second": round(theirs),
        "bar": 1.0,
        "met": ours >= theirs,
    }


class _Quiet:
    def log(self, message: str) -> None:
        """Say nothing."""


class _GepaStub:
    """Scores by a hash of text and task, so that some proposals are accepted and the whole set is evaluated."""

    propose_new_texts = None

    def evaluate(self, batch: list[Any], candidate: Any, capture_traces: bool = False) -> Any:
        from gepa import EvaluationBatch

        words = [f"{candidate['instruction']}{one['input']}".encode() for one in batch]
        scores = [hashlib.blake2b(word, digest_size=1).digest()[0] / 255 for word in words]
        return EvaluationBatch(outputs=batch, scores=scores, trajectories=batch if capture_traces else None)

    def make_reflective_dataset(self, _candidate: Any, _batch: Any, components_to_update: list[str]) -> Any:
        return {name: [{"Feedback": "x"}] for name in components_to_update}


def _evaluate(model: FunctionModel, tasks: tuple[SelectTask, ...], executor: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, Journal.open(Path(folder) / "events.jsonl") as journal:
        engine = Engine(PlainHarness(), model, executor, Ledger(), journal.append)
        engine.evaluate(Sweep(CANDIDATE, tasks, "select"), grade=_right)
        assert len(journal) == len(tasks) + 1


def _nothing(request: Request) -> str:
    return request.messages[-1].role


def _right(task: str, answer: str | None) -> float:
    return float(bool(task) and answer is not None)


def _reflection(prompt: str) -> str:
    return f"```{len(prompt)} {time.perf_counter()}```"


def _tasks(count: int) -> tuple[SelectTask, ...]:
    return tuple(SelectTask(id=f"t{number}", input=f"say {number}") for number in range(count))


def _outcome(number: int) -> Outcome:
    return Outcome(
        key=f"{number:032x}",
        purpose="select",
        candidate=CANDIDATE.digest,
        task=f"t{number}",
        seed=number,
        score=float(number % 2),
        status=OutcomeStatus.PASSED if number % 2 else OutcomeStatus.FAILED,
        answer="location",
        spend=Spend(evaluations=1, calls=1, tokens_in=120, tokens_out=1, wall_s=0.031, cpu_s=0.002),
    )


def _median(work: Callable[[], object], *, times: int = 3) -> float:
    seconds = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
