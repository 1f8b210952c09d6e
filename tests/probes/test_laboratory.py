"""The laboratory: nothing but queues, every error returned, nothing that hangs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

import pytest
from probe_parts import HEAD, USEFUL, Bench, ScriptedWorld, bench
from pydantic import ValidationError

from heldout.config import BudgetConfig
from heldout.errors import BudgetExhausted, ImproverError, ModelError, TaskError
from heldout.probes import Laboratory, QueueLaboratory, Trace, run_episodes
from heldout.records import Evidence, ProbeKind, Task, TrainTask
from heldout.testing.object_graph import reached

REPLAY, FIX = ProbeKind.REPLAY, ProbeKind.FIX_PROBE


def within(seconds: float, call: Callable[[], object]) -> object:
    """What `call` returns; a test that hangs fails instead."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return found[0]


def replays(*tasks: str) -> Callable[[Laboratory], list[Evidence]]:
    return lambda laboratory: [laboratory.probe(REPLAY, [task]) for task in tasks]


def test_no_engine_grader_task_or_model_is_reachable_from_a_laboratory() -> None:
    secret = "the sealed words"
    traces = {"f1": Trace(TrainTask(id="f1", input="body of f1"), False, (), "")}
    made = bench(
        ScriptedWorld(fingerprint=f"harness {secret}"),
        traces=traces,
        grade=lambda task, answer, _key=f"key {secret}": 0.0,  # noqa: ARG005 - a grader that holds an answer
    )
    assert reached(made.kit, [secret, "body of f1", HEAD.files["workflow.md"]]) == {
        secret,
        "body of f1",
        HEAD.files["workflow.md"],
    }, "the kit holds them all"
    kept: list[Laboratory] = []

    def job(laboratory: Laboratory) -> None:
        kept.append(laboratory)
        laboratory.probe(ProbeKind.RUN_EPISODE, ["f1"])
        assert reached(laboratory, [secret, "body of f1", HEAD.files["workflow.md"]]) == set()

    assert run_episodes([job], made.kit, workers=1) == [None]
    assert reached(kept, [secret, "body of f1", HEAD.files["workflow.md"]]) == set()


def test_an_error_of_the_kit_brings_no_traceback_with_it() -> None:
    secret = "the sealed words"
    caught: list[BaseException] = []

    def broken(task: str, answer: str | None) -> float:
        answers = {task: secret, "given": answer}
        raise TaskError(f"grader raised on {task!r} with {len(answers)} answers")

    def job(laboratory: Laboratory) -> str:
        try:
            laboratory.probe(REPLAY, ["f1"])
        except TaskError as error:
            caught.append(error)
        return "swallowed"

    (found,) = run_episodes([job], bench(grade=broken).kit, workers=1)
    assert isinstance(found, TaskError), "what stops the run is returned whatever the episode made of it"
    assert "grader raised on 'f1'" in str(caught[0])
    assert reached(caught[0].__traceback__, [secret]) == set()
    assert caught[0].__cause__ is caught[0].__context__ is None


def test_one_worker_runs_the_episodes_one_after_another_in_the_calling_thread() -> None:
    made = bench()
    served: set[int] = set()
    original = made.world.replays

    def watching(task: Task, commands: Sequence[str], seed: int) -> str | None:
        served.add(threading.get_ident())
        return original(task, commands, seed)

    made.world.replays = watching
    found = run_episodes([replays("f1", "f2"), replays("f3"), replays("f4")], made.kit, workers=1)
    assert [[evidence.id for evidence in episode] for episode in found] == [["1/0/0", "1/0/1"], ["1/1/0"], ["1/2/0"]]
    assert [task for task, _, _ in made.world.replayed] == ["f1", "f2", "f3", "f4"]
    assert served == {threading.get_ident()}


def test_several_workers_give_every_episode_the_same_evidence_as_one() -> None:
    jobs = [replays("f1", "f2", "f3"), replays("f4", "f1"), replays("p1")]
    stripped = [
        [
            [
                evidence.model_copy(update={"spend": evidence.spend.model_copy(update={"wall_s": 0, "cpu_s": 0})})
                for evidence in episode
            ]
            for episode in run_episodes(jobs, bench().kit, workers=workers)
        ]
        for workers in (1, 3)
    ]
    assert stripped[0] == stripped[1]


def test_units_spent_never_exceed_the_pool_under_any_interleaving_of_concurrent_probes() -> None:
    def job(laboratory: Laboratory) -> list[Evidence]:
        found = []
        for turn in range(12):
            targets = ["f1", "f2", "f3"][: 1 + turn % 3]
            found.append(laboratory.probe(FIX, targets, edits=USEFUL))
            assert laboratory.units_left() >= 0
        return found

    made = bench(units=24)
    episodes = run_episodes([job, job, job], made.kit, workers=3)
    paid = sum(evidence.units for episode in episodes for evidence in episode)
    assert paid == made.pool.spent <= 24
    assert paid > 21, "no probe of three fits any more, and one of one may"
    refused = [evidence for episode in episodes for evidence in episode if evidence.refused]
    assert refused
    assert all(evidence.units == 0 and evidence.refused.startswith("the count") for evidence in refused)


def test_several_episodes_overlap() -> None:
    barrier = threading.Barrier(3, timeout=10)
    found = within(10, lambda: run_episodes([lambda _: barrier.wait()] * 3, bench().kit, workers=3))
    assert sorted(found) == [0, 1, 2]  # type: ignore[call-overload]


@pytest.mark.parametrize("workers", [1, 3])
def test_an_episodes_exception_is_returned_and_stops_no_other(workers: int) -> None:
    def raising(laboratory: Laboratory) -> None:
        laboratory.probe(REPLAY, ["f1"])
        raise ZeroDivisionError("the improver's own")

    def silent(_: Laboratory) -> None:
        raise ModelError("no answer")

    found = run_episodes([raising, silent, replays("f2")], bench().kit, workers=workers)
    assert [type(item) for item in found] == [ZeroDivisionError, ModelError, list]
    assert str(found[0]) == "the improver's own"


def test_a_request_that_is_none_is_the_improvers_own_error_and_spends_nothing() -> None:
    made = bench()
    jobs = [
        lambda laboratory: laboratory.probe("no_such_kind", ["f1"]),
        lambda laboratory: laboratory.probe(REPLAY, ["f1"], step="last"),
        lambda laboratory: laboratory.probe(REPLAY, [7]),
    ]
    found = run_episodes(jobs, made.kit, workers=1)
    assert [type(item) for item in found] == [ValidationError] * 3
    assert made.pool.spent == 0


def test_a_budget_that_ends_reaches_the_episode_and_the_caller_and_no_further_episode_begins() -> None:
    made = bench(budget=BudgetConfig(evaluations=1))
    told: list[BaseException] = []

    def job(laboratory: Laboratory) -> None:
        laboratory.probe(REPLAY, ["f1"])
        for _ in range(2):
            try:
                laboratory.probe(REPLAY, ["f2"])
            except BudgetExhausted as error:
                told.append(error)

    found = within(10, lambda: run_episodes([job, job], made.kit, workers=1))
    assert [type(item) for item in found] == [BudgetExhausted, BudgetExhausted]  # type: ignore[attr-defined]
    assert len(told) == 2, "of the first episode; the second never began"
    assert len(made.world.replayed) == 1


def test_nothing_more_is_run_for_an_episode_once_an_experiment_stopped_the_run() -> None:
    def picky(task: str, answer: str | None) -> float:
        if task == "f2":
            raise TaskError("grader raised on 'f2'")
        return float(answer == "ok")

    def job(laboratory: Laboratory) -> None:
        for task in ("f1", "f2", "f3"):
            with contextlib.suppress(ImproverError):
                laboratory.probe(REPLAY, [task])

    made = bench(grade=picky)
    (found,) = run_episodes([job], made.kit, workers=1)
    assert isinstance(found, TaskError)
    assert [task for task, _, _ in made.world.replayed] == ["f1", "f2"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_dies_does_not_hang_an_episode(workers: int) -> None:
    def bug(*_: object) -> str:
        raise IndexError("a bug of ours")

    ended = threading.Event()
    told: list[BaseException] = []

    def job(laboratory: Laboratory) -> None:
        try:
            laboratory.probe(REPLAY, ["f1"])
        except ImproverError as error:
            told.append(error)
        ended.set()

    def run() -> str:
        with pytest.raises(IndexError, match="a bug of ours"):
            run_episodes([job], bench(ScriptedWorld(replays=bug)).kit, workers=workers)
        return "crashed"

    assert within(10, run) == "crashed", "a programming error is a crash"
    assert ended.wait(10)
    assert "over" in str(told[0])


def test_a_laboratory_is_closed_when_its_episode_is_over() -> None:
    kept: list[Laboratory] = []
    made = bench()
    run_episodes([kept.append], made.kit, workers=1)
    for _ in range(2):
        with pytest.raises(ImproverError, match="the episode is over"):
            within_raising(lambda: kept[0].probe(REPLAY, ["f1"]))
        with pytest.raises(ImproverError, match="the episode is over"):
            within_raising(kept[0].units_left)
    assert made.pool.spent == 0


def within_raising(call: Callable[[], object]) -> object:
    """As `within`, for a call that raises."""

    def attempt() -> object:
        try:
            return call()
        except ImproverError as error:
            return error

    found = within(10, attempt)
    if isinstance(found, ImproverError):
        raise found
    return found


def test_no_thread_is_left_when_the_episodes_are_done() -> None:
    before = threading.active_count()
    run_episodes([replays("f1")] * 3, bench().kit, workers=3)
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_what_a_laboratory_offers_and_the_units_left_follow_the_kit() -> None:
    def job(laboratory: Laboratory) -> tuple[bool, list[int]]:
        left = [laboratory.units_left()]
        laboratory.probe(FIX, ["f1", "f2"], edits=USEFUL)
        left.append(laboratory.units_left())
        return laboratory.available == frozenset(ProbeKind), left

    assert run_episodes([job], bench(units=8).kit, workers=1) == [(True, [8, 6])]


def test_the_meta_episode_and_repairs_have_numbers_of_their_own() -> None:
    made = bench()
    (proposal,) = run_episodes([replays("f1")], made.kit, workers=1)
    (repair,) = run_episodes([replays("f1")], made.kit, workers=1, episodes=[0], attempt=2)
    (meta,) = run_episodes([replays("f1")], made.kit, workers=1, episodes=[-1])
    assert [found[0].id for found in (proposal, repair, meta)] == ["1/0/0", "1/0/512", "1/-1/0"]


def test_a_laboratory_is_one_of_the_protocol() -> None:
    laboratory: Laboratory
    made: Bench = bench()

    def job(given: Laboratory) -> type:
        nonlocal laboratory
        laboratory = given
        return type(given)

    assert run_episodes([job], made.kit, workers=1) == [QueueLaboratory]
