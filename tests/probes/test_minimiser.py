"""Attribution: which traces, the smallest part that shows the failure, classes, time, resume."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from probe_parts import Clock, JournalBook, ScriptedWorld, failed_trace, grade, trace

from heldout.config import BudgetConfig
from heldout.errors import BudgetExhausted, ModelError, SandboxError
from heldout.ledger import Ledger
from heldout.loops.recorder import Recorder
from heldout.probes import Attribution, Book, Minimiser, MinimiserSettings, ReplayRunner, Trace
from heldout.probes.minimise import chosen_traces
from heldout.records import Spend, Task
from heldout.store.agent_events import CommandsReplayed, TraceMinimised
from heldout.testing import MemoryJournal

Named = Callable[[Trace, str], Sequence[int] | None]


def nothing(trace: Trace, fault: str) -> None:  # noqa: ARG001 - an improver without an idea
    return None


def always(*keep: int) -> Named:
    return lambda trace, fault: keep  # noqa: ARG005 - whatever it is told


def minimiser(
    world: ScriptedWorld,
    suggest: Named,
    *,
    journal: MemoryJournal | None = None,
    book: Book | None = None,
    clock: Clock | None = None,
    budget: BudgetConfig | None = None,
    **settings: object,
) -> Minimiser:
    return Minimiser(
        replays=ReplayRunner(world, Ledger(budget or BudgetConfig()), grade, purpose="attribution"),
        book=book or JournalBook(MemoryJournal() if journal is None else journal),
        suggest=suggest,
        clock=clock or Clock(),
        seed=3,
        settings=MinimiserSettings(**{"workers": 1, **settings}),  # type: ignore[arg-type]
    )


def shows_check(needs: str | None) -> Callable[[Sequence[str]], list[tuple[str, int]]]:
    """A world in which `check` fails with a KeyError, if `needs` ran before it."""

    def shows(commands: Sequence[str]) -> list[tuple[str, int]]:
        shown = []
        for index, command in enumerate(commands):
            broken = command == "check" and (needs is None or needs in commands[:index])
            shown.append(("KeyError: 'a'", 1) if broken else ("", 0))
        return shown

    return shows


def world(needs: str | None = None) -> ScriptedWorld:
    return ScriptedWorld(shows=shows_check(needs))


CHECKED = failed_trace("f1", ("look", "", 0), ("edit", "", 0), ("ls", "", 0), ("check", "KeyError: 'b'", 1))
UNDONE = trace("f1", "look", "fix", "read", "undo", feedback="wrong state")
LONG = failed_trace("f1", *[(f"c{number}", "", 0) for number in range(20)], ("check", "KeyError: 'b'", 1))


def only(found: tuple[Attribution, ...]) -> Attribution:
    (one,) = found
    return one


def test_one_trigger_that_suffices_is_an_omission() -> None:
    found = only(minimiser(world(), always(3)).minimise(1, [CHECKED]))
    assert (found.keep, found.commands, found.cause, found.replays) == ((3,), ("check",), "omission", 1)
    assert (found.signature, found.passed) == ("KeyError: <str>", False)


def test_a_trigger_that_needs_earlier_steps_is_a_commission() -> None:
    found = only(minimiser(world("edit"), always(1, 3)).minimise(1, [CHECKED]))
    assert (found.keep, found.cause, found.replays) == ((1, 3), "commission", 2)


def test_a_part_that_holds_more_than_the_trigger_needs_is_still_an_omission() -> None:
    found = only(minimiser(world(), always(1, 3)).minimise(1, [CHECKED]))
    assert (found.keep, found.cause) == ((3,), "omission")


def test_a_failure_that_only_the_whole_list_shows_is_unknown() -> None:
    def needs_all(commands: Sequence[str]) -> list[tuple[str, int]]:
        return [("KeyError: 1", 1) if c == "check" and len(commands) == 4 else ("", 0) for c in commands]

    found = only(minimiser(ScriptedWorld(shows=needs_all), always(3)).minimise(1, [CHECKED]))
    assert (found.keep, found.cause) == ((0, 1, 2, 3), "unknown")


def test_only_the_same_error_class_is_accepted() -> None:
    other = ScriptedWorld(shows=lambda commands: [("TypeError: no", 1)] * len(commands))
    assert minimiser(other, always(3)).minimise(1, [CHECKED]) == ()


def test_one_correction_round_is_told_what_the_replay_showed() -> None:
    told: list[str] = []

    def suggest(trace: Trace, fault: str) -> Sequence[int]:  # noqa: ARG001 - one trace
        told.append(fault)
        return (0, 3) if len(told) == 1 else (1, 3)

    found = only(minimiser(world("edit"), suggest).minimise(1, [CHECKED]))
    assert (found.keep, found.cause) == ((1, 3), "commission")
    assert told == ["", "the replay of commands [0, 3] does not show 'KeyError'; it shows no failing command"]


@pytest.mark.parametrize(
    ("named", "fault"),
    [
        ((), "name at least one command, by its index from 0 to 3; got []"),
        ((4,), "got [4]"),
        ((-1, 2), "got [-1, 2]"),
        ((0, 1, 2, 3), "these are all 4 commands; name fewer"),
        (("first",), "invalid literal"),
        (None, "got []"),
    ],
)
def test_a_suggestion_that_cannot_be_replayed_is_told_why(named: object, fault: str) -> None:
    told: list[str] = []

    def suggest(trace: Trace, said: str) -> object:  # noqa: ARG001 - one trace
        told.append(said)
        return named

    found = only(minimiser(world(), suggest).minimise(1, [CHECKED]))  # type: ignore[arg-type]
    assert len(told) == 2, "one correction and no more"
    assert fault in told[1]
    assert found.keep == (3,), "the shortest ending"


def test_suffixes_of_1_4_and_16_commands_come_before_the_whole_list() -> None:
    tried: list[int] = []

    def never(commands: Sequence[str]) -> list[tuple[str, int]]:
        tried.append(len(commands))
        return [("", 0)] * len(commands)

    assert minimiser(ScriptedWorld(shows=never), nothing).minimise(1, [LONG]) == ()
    assert tried == [1, 4, 16, 21]
    found = only(minimiser(world("c18"), nothing).minimise(1, [LONG]))
    assert (found.keep, found.cause) == ((17, 18, 19, 20), "commission")
    found = only(minimiser(world("c6"), nothing).minimise(1, [LONG]))
    assert (found.keep, found.cause) == (tuple(range(5, 21)), "commission")
    found = only(minimiser(world("c2"), nothing).minimise(1, [LONG]))
    assert (len(found.keep), found.cause) == (21, "unknown")


def test_what_nothing_reproduces_is_discarded_and_on_record() -> None:
    journal = MemoryJournal()
    silent = ScriptedWorld(shows=lambda commands: [("", 0)] * len(commands))
    assert minimiser(silent, always(3), journal=journal).minimise(1, [CHECKED]) == ()
    (event,) = JournalBook(journal).all("attribution", TraceMinimised)
    assert (event.discarded, event.keep, event.cause) == (True, (), "unknown")


def test_a_state_that_still_fails_without_the_rest_is_an_omission() -> None:
    found = only(minimiser(ScriptedWorld(), always(0, 2)).minimise(1, [UNDONE]))
    assert (found.keep, found.cause, found.signature) == ((0, 2), "omission", "wrong state")


def test_the_complement_of_a_part_that_passes_while_the_whole_fails_is_the_commission_core() -> None:
    found = only(minimiser(ScriptedWorld(), always(0, 1)).minimise(1, [UNDONE]))
    assert (found.keep, found.commands, found.cause) == ((2, 3), ("read", "undo"), "commission")
    assert found.replays == 2, "the part, and the whole"


def test_a_failure_whose_whole_replay_passes_is_an_accident_and_discarded() -> None:
    mended = ScriptedWorld(replays=lambda task, commands, seed: "ok")  # noqa: ARG005 - always mended
    assert minimiser(mended, always(0, 1)).minimise(1, [UNDONE]) == ()


def test_a_step_limit_is_judged_by_what_a_replay_can_show() -> None:
    ran = [("edit", "", 0), ("check", "KeyError: 'b'", 1)]
    stopped = failed_trace("f1", *ran, error="step limit: 30 turns")
    found = only(minimiser(world(), always(1)).minimise(1, [stopped]))
    assert (found.signature, found.keep, found.cause) == ("step limit: <n> turns", (1,), "omission")


def test_a_success_is_reduced_to_a_part_that_still_passes() -> None:
    passing = trace("s1", "look", "fix", "ls", passed=True)
    found = only(minimiser(ScriptedWorld(), always(1)).minimise(1, [passing]))
    assert (found.keep, found.cause, found.signature, found.passed) == ((1,), "success", "", True)
    wrong = only(minimiser(ScriptedWorld(), always(0)).minimise(1, [passing]))
    assert (wrong.keep, wrong.cause) == ((0, 1, 2), "success"), "the whole where no part passes"


def test_a_trace_of_one_command_needs_no_suggestion() -> None:
    one = failed_trace("f1", ("check", "KeyError: 'b'", 1))
    asked: list[str] = []
    found = only(minimiser(world(), lambda trace, fault: asked.append(fault)).minimise(1, [one]))  # noqa: ARG005
    assert (found.keep, found.cause, asked) == ((0,), "omission", [])


@pytest.mark.parametrize("error", [ModelError("no answer"), ZeroDivisionError("its own bug")])
def test_a_suggestion_that_fails_costs_only_itself(error: Exception) -> None:
    def down(*_: object) -> Sequence[int]:
        raise error

    assert only(minimiser(world(), down).minimise(1, [CHECKED])).keep == (3,)


def test_a_replay_that_cannot_run_reproduces_nothing() -> None:
    def down(*_: object) -> str:
        raise SandboxError("no namespace")

    journal = MemoryJournal()
    assert minimiser(ScriptedWorld(replays=down), always(0, 2), journal=journal).minimise(1, [UNDONE]) == ()
    replays = JournalBook(journal).all("replay", CommandsReplayed)
    assert replays
    assert {event.score for event in replays} == {None}


def test_all_replays_of_a_trace_run_at_one_seed_and_rounds_differ() -> None:
    made = ScriptedWorld(shows=shows_check("edit"))
    minimiser(made, always(0, 3)).minimise(1, [CHECKED])
    first = {seed for _, _, seed in made.replayed}
    made.replayed.clear()
    minimiser(made, always(0, 3)).minimise(2, [CHECKED])
    assert len(first) == 1
    assert first != {seed for _, _, seed in made.replayed}


def test_failures_are_chosen_by_cluster_unseen_signatures_first_then_by_size() -> None:
    def failing(name: str, kind: str, count: int = 1) -> Trace:
        return failed_trace(name, *[("ls", "", 0)] * (count - 1), ("check", f"{kind}Error: no", 1))

    traces = [
        *[failing(f"k{number}", "Key") for number in range(4)],
        *[failing(f"t{number}", "Type") for number in range(2)],
        failing("v0", "Value", 3),
        failing("v1", "Value", 2),
        failing("v2", "Value", 2),
        failed_trace("empty", feedback="OSError: no"),
        trace("p1", "a", "b"),
        trace("p2", "a"),
        trace("p3", "a", "b", "c"),
        trace("n1", "a", passed=None),
    ]
    known = {"KeyError: no"}
    chosen = chosen_traces(traces, failures=6, successes=2, known=known)
    assert [found.task.id for found in chosen] == ["v1", "t0", "k0", "v2", "t1", "k1", "p2", "p1"]
    fewer = chosen_traces(traces, failures=2, successes=0, known={*known, "ValueError: no"})
    assert [found.task.id for found in fewer] == ["t0", "k0"]


def test_when_the_time_is_up_no_further_replay_begins_and_what_is_unfinished_is_discarded() -> None:
    clock = Clock()
    journal = MemoryJournal()
    slow = world()
    original = slow.replays

    def slowly(task: Task, commands: Sequence[str], seed: int) -> str | None:
        clock.now += 1500.0
        return original(task, commands, seed)

    slow.replays = slowly
    traces = [failed_trace(name, ("ls", "", 0), ("check", "KeyError: 'b'", 1)) for name in ("f1", "f2", "f3")]
    asked: list[str] = []

    def suggest(trace: Trace, _: str) -> Sequence[int]:
        asked.append(trace.task.id)
        return (1,)

    found = minimiser(slow, suggest, journal=journal, clock=clock).minimise(1, traces)
    assert [one.task for one in found] == ["f1", "f2"], "the second began before 2400 s had passed"
    assert len(slow.replayed) == 2
    assert asked == ["f1", "f2"], "nor is the improver asked"
    events = JournalBook(journal).all("attribution", TraceMinimised)
    assert [(event.task, event.discarded, event.replays) for event in events] == [
        ("f1", False, 1),
        ("f2", False, 1),
        ("f3", True, 0),
    ]


def test_a_search_ends_where_the_time_is_up_in_the_middle_of_it() -> None:
    clock = Clock()
    slow = world("edit")
    original = slow.replays

    def slowly(task: Task, commands: Sequence[str], seed: int) -> str | None:
        clock.now += 3000.0
        return original(task, commands, seed)

    slow.replays = slowly
    assert minimiser(slow, always(3), clock=clock).minimise(1, [CHECKED]) == ()
    assert len(slow.replayed) == 1


def test_killing_after_any_event_and_resuming_pays_no_replay_twice() -> None:
    traces = [CHECKED, trace("s1", "look", "fix", "ls", passed=True)]
    whole = MemoryJournal()
    expected = minimiser(world("edit"), always(0, 3), journal=whole).minimise(1, traces)
    assert len(expected) == 2
    total = sum(event.kind == "replay" for event in whole.events)
    for count in range(len(whole.events) + 1):
        part = MemoryJournal()
        part.events.extend(whole.events[:count])
        resumed = world("edit")
        assert minimiser(resumed, always(0, 3), journal=part).minimise(1, traces) == expected
        assert len(resumed.replayed) == total - sum(event.kind == "replay" for event in whole.events[:count])
        assert [event.kind for event in part.events] == [event.kind for event in whole.events]


def test_a_runs_recorder_is_a_book_of_replays() -> None:
    journal = MemoryJournal()
    expected = minimiser(world("edit"), always(0, 3), book=Recorder(journal)).minimise(1, [CHECKED])
    recorder = Recorder.replay(journal, journal.read_from(0))
    resumed = world("edit")
    assert minimiser(resumed, always(0, 3), book=recorder).minimise(1, [CHECKED]) == expected
    assert resumed.replayed == []


def test_three_workers_find_what_one_finds() -> None:
    traces = [failed_trace(f"f{n}", ("edit", "", 0), ("ls", "", 0), ("check", "KeyError: 1", 1)) for n in range(6)]
    found = [minimiser(world("edit"), always(0, 2), workers=workers).minimise(1, traces) for workers in (1, 3)]
    assert found[0] == found[1]
    assert len(found[0]) == 6


@pytest.mark.parametrize("workers", [1, 3])
def test_attribution_is_paid_under_its_own_purpose_and_stops_at_the_budget(workers: int) -> None:
    paid = minimiser(world(), always(3))
    paid.minimise(1, [CHECKED])
    assert paid.replays.ledger.spent["attribution"].evaluations == 1
    poor = minimiser(world(), always(3), budget=BudgetConfig(evaluations=1), workers=workers)
    poor.replays.ledger.record("select", Spend(evaluations=1))
    with pytest.raises(BudgetExhausted):
        poor.minimise(1, [CHECKED])
