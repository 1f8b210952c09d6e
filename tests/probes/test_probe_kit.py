"""The probe kit on a real engine: train ids only, units, confirmation, canaries, bindings, resume."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from probe_parts import HEAD, TRACES, USEFUL, Bench, Clock, JournalBook, ScriptedWorld, bench, grade, trace

from heldout.config import BudgetConfig
from heldout.errors import BudgetExhausted, SandboxError, SetupError, TaskError
from heldout.loops.recorder import Recorder
from heldout.probes import ProbeSettings, ReplayRunner
from heldout.probes.kit import canary_for
from heldout.probes.replays import ATTEMPTS, REQUESTS, attribution_repeat, probe_repeat
from heldout.probes.requests import ProbeRequest
from heldout.records import (
    Candidate,
    Edit,
    Evidence,
    EvidenceVerdict,
    ProbeKind,
    Spend,
    Task,
    apply_edits,
    edits_digest,
)
from heldout.rollouts import paired_seed
from heldout.testing import MemoryJournal

REPLAY, ABLATE, SUBSTITUTE = ProbeKind.REPLAY, ProbeKind.ABLATE, ProbeKind.SUBSTITUTE
FIX, RUN = ProbeKind.FIX_PROBE, ProbeKind.RUN_EPISODE


def ask(made: Bench, kind: ProbeKind, *tasks: str, episode: int = 0, **rest: object) -> Evidence:
    return made.kit.execute(episode, ProbeRequest(kind=kind, tasks=tasks, **rest))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", list(ProbeKind))
@pytest.mark.parametrize("name", ["select-7", "audit-3", "ood-1", "nobody"])
def test_a_probe_on_a_select_audit_or_ood_id_is_refused_and_spends_nothing(kind: ProbeKind, name: str) -> None:
    made = bench()
    found = ask(made, kind, name, step=0, command="fix", edits=USEFUL)
    assert found.refused == f"{name!r} is no train task of this run, and probes take train tasks only"
    assert (found.units, found.verdict) == (0, EvidenceVerdict.NONE)
    assert made.pool.spent == 0
    assert made.ledger.total.evaluations == 0
    assert made.world.ran == made.world.replayed == []


def test_one_sealed_id_among_train_ids_refuses_the_whole_probe() -> None:
    made = bench()
    found = ask(made, FIX, "f1", "select-7", edits=USEFUL)
    assert "select-7" in found.refused
    assert made.pool.spent == 0


def test_a_replay_takes_one_unit_and_reproduces() -> None:
    made = bench()
    found = ask(made, REPLAY, "f1")
    assert (found.verdict, found.units, found.refused) == (EvidenceVerdict.INCONCLUSIVE, 1, "")
    assert found.detail == "the trace failed, its replay failed; reproduced"
    assert (found.base, found.edits, found.id) == (HEAD.digest, "", "1/0/0")
    assert made.world.replayed == [("f1", ("look", "fix", "undo"), made.world.replayed[0][2])]
    assert found.spend.evaluations == 1
    assert made.ledger.spent["probe"].evaluations == 1


def test_a_replay_of_a_flaky_world_refutes() -> None:
    made = bench(ScriptedWorld(replays=lambda task, commands, seed: "ok"))  # noqa: ARG005 - always mended
    found = ask(made, REPLAY, "f1")
    assert found.verdict is EvidenceVerdict.REFUTES
    assert found.detail == "the trace failed, its replay passed; not reproduced"
    assert ask(made, REPLAY, "p1").verdict is EvidenceVerdict.INCONCLUSIVE


def test_an_ablation_replays_the_whole_first_at_the_same_seed_for_one_unit() -> None:
    made = bench()
    found = ask(made, ABLATE, "f1", step=2)
    assert (found.verdict, found.units, found.step) == (EvidenceVerdict.SUPPORTS, 1, 2)
    assert [commands for _, commands, _ in made.world.replayed] == [("look", "fix", "undo"), ("look", "fix")]
    assert len({seed for _, _, seed in made.world.replayed}) == 1
    assert found.spend.evaluations == made.ledger.spent["probe"].evaluations == 2
    assert ask(made, ABLATE, "f1", step=0).verdict is EvidenceVerdict.INCONCLUSIVE
    necessary = ask(made, ABLATE, "p1", step=1)
    assert necessary.verdict is EvidenceVerdict.INCONCLUSIVE, "p1 passes without its fix too"


def test_a_whole_that_does_not_reproduce_is_not_ablated() -> None:
    made = bench(ScriptedWorld(replays=lambda task, commands, seed: "ok"))  # noqa: ARG005 - always mended
    found = ask(made, ABLATE, "f1", step=2)
    assert found.verdict is EvidenceVerdict.INCONCLUSIVE
    assert len(made.world.replayed) == 1


def test_a_substitution_replaces_one_command_and_keeps_it_on_record() -> None:
    made = bench()
    found = ask(made, SUBSTITUTE, "f1", step=2, command="look again")
    assert (found.verdict, found.command, found.step) == (EvidenceVerdict.SUPPORTS, "look again", 2)
    assert made.world.replayed[0][1] == ("look", "fix", "look again")
    assert ask(made, SUBSTITUTE, "f1", step=0, command="cat").verdict is EvidenceVerdict.INCONCLUSIVE


def test_a_draft_is_bound_to_its_base_and_edits_and_confirmed_by_a_run_at_another_seed() -> None:
    made = bench()
    found = ask(made, FIX, "f1", "f2", edits=USEFUL)
    draft = apply_edits(HEAD, USEFUL)
    assert (found.verdict, found.flips, found.units) == (EvidenceVerdict.SUPPORTS, ("f1", "f2"), 2)
    assert (found.base, found.edits) == (HEAD.digest, edits_digest(USEFUL))
    ran = [(task, seed) for digest, task, seed in made.world.ran if digest == draft.digest]
    assert len(made.world.ran) == 5, "two targets, a canary, two second runs"
    first, second = (paired_seed(0, "f1", probe_repeat(1, 0, 0, confirm=confirm)) for confirm in (False, True))
    assert [seed for task, seed in ran if task == "f1"] == [first, second]
    assert first != second
    assert made.ledger.spent["probe"].evaluations == 5, "second runs take no unit and are in the cost ledger"
    assert made.pool.spent == 2


def test_a_pass_that_a_second_run_does_not_confirm_is_unconfirmed() -> None:
    seen: set[str] = set()

    def once(candidate: Candidate, task: Task, seed: int) -> str:  # noqa: ARG001 - the first run of each task passes
        first = task.id not in seen
        seen.add(task.id)
        return "ok" if first else "bad"

    found = ask(bench(ScriptedWorld(plays=once)), FIX, "f1", "f2", edits=USEFUL)
    assert (found.verdict, found.flips) == (EvidenceVerdict.INCONCLUSIVE, ())
    assert found.unconfirmed == ("f1", "f2")
    assert found.detail.startswith("of 2 failing tasks 0 passed twice, 2 once and not again; the canary p")


def test_a_draft_that_mends_nothing_is_refuted_and_its_canary_shows_what_it_broke() -> None:
    made = bench(ScriptedWorld(plays=lambda candidate, task, seed: "bad"))  # noqa: ARG005 - everything fails
    found = ask(made, FIX, "f1", "f2", "f3", edits=USEFUL)
    assert (found.verdict, found.units) == (EvidenceVerdict.REFUTES, 3)
    (broken,) = found.broken
    assert broken in ("p1", "p2", "p3")
    assert len(made.world.ran) == 4


def test_infrastructure_failures_make_a_draft_inconclusive_and_never_refuted() -> None:
    def down(candidate: Candidate, task: Task, seed: int) -> str:  # noqa: ARG001 - a sandbox that fails on some tasks
        if task.id in ("f2", "p1", "p2", "p3"):
            raise SandboxError("no namespace")
        return "bad"

    found = ask(bench(ScriptedWorld(plays=down)), FIX, "f1", "f2", edits=USEFUL)
    assert (found.verdict, found.unmeasured, found.broken) == (EvidenceVerdict.INCONCLUSIVE, ("f2",), ())


def test_a_replay_that_cannot_run_is_inconclusive_and_counted() -> None:
    def down(*_: object) -> str:
        raise SandboxError("no namespace")

    made = bench(ScriptedWorld(replays=down))
    found = ask(made, REPLAY, "f1")
    assert (found.verdict, found.unmeasured, found.units) == (EvidenceVerdict.INCONCLUSIVE, ("f1",), 1)
    assert found.detail == "the trace failed, its replay not measured (no namespace)"
    assert made.ledger.spent["probe"].evaluations == 1
    assert ask(made, ABLATE, "f1", step=0).verdict is EvidenceVerdict.INCONCLUSIVE
    assert ask(made, SUBSTITUTE, "f1", step=0, command="x").verdict is EvidenceVerdict.INCONCLUSIVE


def test_a_draft_that_does_not_apply_costs_none() -> None:
    made = bench(check=lambda draft: "memory.md is too large" if "memory.md" in draft.files else None)
    found = ask(made, FIX, "f1", "f2", edits=USEFUL)
    assert found.refused == "the draft does not apply: memory.md is too large"
    nothing = ask(made, FIX, "f1", edits=(Edit(path="gone.md", content=None),))
    assert nothing.refused == "the draft changes nothing in its base"
    assert (found.units, nothing.units, made.pool.spent, made.ledger.total.evaluations) == (0, 0, 0, 0)


def test_a_plain_run_has_no_verdict_and_says_what_it_saw() -> None:
    made = bench()
    head = ask(made, RUN, "f1")
    assert (head.verdict, head.passed, head.units, head.base) == (EvidenceVerdict.NONE, (), 1, HEAD.digest)
    assert len(made.world.ran) == 1, "without a draft there is nothing that a canary could show"
    draft = ask(made, RUN, "f1", edits=USEFUL)
    assert (draft.passed, draft.flips, draft.edits) == (("f1",), (), edits_digest(USEFUL))
    assert draft.detail.startswith("one run passed; the trace failed; the canary p")
    assert len(made.world.ran) == 3, "one run and a canary; no second run"


def test_a_draft_runs_on_the_base_that_it_declares_unless_the_run_says_on_the_head() -> None:
    older = Candidate(files={"workflow.md": "Old."})
    made = bench(bases={0: older, 2: HEAD})
    found = ask(made, FIX, "f1", edits=USEFUL, base_round=0)
    assert found.base == older.digest
    assert made.world.ran[0][0] == apply_edits(older, USEFUL).digest
    assert ask(made, FIX, "f1", edits=USEFUL, base_round=1).refused == "base_round 1 is no kept round; there is 0, 2"
    on_head = bench(bases={0: older}, settings=ProbeSettings(on="head"))
    assert ask(on_head, FIX, "f1", edits=USEFUL, base_round=0).base == HEAD.digest


@pytest.mark.parametrize(
    ("kind", "tasks", "rest", "reason"),
    [
        (REPLAY, ("f1", "f2"), {}, "replay takes one task, got ['f1', 'f2']"),
        (REPLAY, (), {}, "replay takes one task, got []"),
        (FIX, ("f1", "f2", "f3", "f4"), {"edits": USEFUL}, "one to 3 different tasks"),
        (FIX, ("f1", "f1"), {"edits": USEFUL}, "one to 3 different tasks"),
        (FIX, ("f1",), {}, "fix_probe takes edits, got none"),
        (FIX, ("p1",), {"edits": USEFUL}, "fix_probe takes tasks that fail now, and 'p1' passes"),
        (SUBSTITUTE, ("p1",), {"step": 0, "command": "x"}, "substitute takes tasks that fail now, and 'p1' passes"),
        (ABLATE, ("f1",), {}, "ablate takes a step from 0 to 2 of the trace of 'f1', got None"),
        (ABLATE, ("f1",), {"step": 3}, "got 3"),
        (ABLATE, ("f1",), {"step": -1}, "got -1"),
        (SUBSTITUTE, ("f1",), {"step": 0}, "substitute takes a command that a shell can run, got None"),
        (SUBSTITUTE, ("f1",), {"step": 0, "command": "a\0b"}, "substitute takes a command that a shell can run"),
        (REPLAY, ("u1",), {}, "'u1' was not measured in the last sweep"),
        (REPLAY, ("e1",), {}, "the trace of 'e1' holds no command to run again"),
    ],
)
def test_a_refused_request_names_the_rule_and_spends_nothing(
    kind: ProbeKind, tasks: tuple[str, ...], rest: dict[str, object], reason: str
) -> None:
    made = bench(traces={**TRACES, "u1": trace("u1", "look", passed=None), "e1": trace("e1")})
    found = ask(made, kind, *tasks, **rest)
    assert reason in found.refused
    assert made.pool.spent == made.ledger.total.evaluations == 0


def test_a_kind_that_is_not_offered_is_refused_and_a_harness_that_cannot_replay_has_no_trace_probes() -> None:
    only = bench(settings=ProbeSettings(kinds=(RUN,)))
    assert only.kit.available == {RUN}
    assert ask(only, FIX, "f1", edits=USEFUL).refused == "fix_probe is not offered in this run; there is run_episode"
    plain = bench(ScriptedWorld(replayable=False))
    assert plain.kit.available == {FIX, RUN}
    assert "replay is not offered" in ask(plain, REPLAY, "f1").refused
    none = bench(settings=ProbeSettings(kinds=()))
    assert none.kit.available == frozenset()
    assert ask(none, RUN, "f1").refused == "run_episode is not offered in this run; there is no probe"


def test_what_the_pool_refuses_is_not_run_and_named() -> None:
    clock = Clock()
    made = bench(units=2, clock=clock)
    made.kit.begin(0)
    assert ask(made, FIX, "f1", "f2", "f3", edits=USEFUL).refused.startswith(
        "the count: this probe takes 3 units, 2 of"
    )
    clock.now = 4000.0
    assert ask(made, REPLAY, "f1").refused.startswith("the clock: 4000 s")
    assert (made.pool.spent, made.world.ran, made.world.replayed) == (0, [], [])


def test_a_budget_that_ends_gives_the_units_back_and_leaves_no_evidence() -> None:
    journal = MemoryJournal()
    made = bench(journal=journal, budget=BudgetConfig(evaluations=2))
    with pytest.raises(BudgetExhausted):
        ask(made, FIX, "f1", "f2", "f3", edits=USEFUL)
    assert made.pool.spent == 0
    assert made.book.all("probe", Evidence) == []
    again = bench(journal=journal)
    found = ask(again, FIX, "f1", "f2", "f3", edits=USEFUL)
    assert found.flips == ("f1", "f2", "f3")
    assert len(again.world.ran) == 5, "of seven runs two were paid before"


def test_a_grader_that_raises_leaves_the_kit_with_what_was_run_counted() -> None:
    def broken(task: str, answer: str | None) -> float:
        raise TaskError(f"grader raised on {task!r} {answer!r}")

    made = bench(grade=broken)
    with pytest.raises(TaskError, match="'f1'"):
        ask(made, REPLAY, "f1")
    assert made.pool.spent == 0
    assert made.ledger.spent["probe"].evaluations == 1


def test_an_unforeseen_error_gives_the_units_back() -> None:
    def bug(*_: object) -> str:
        raise IndexError("a bug")

    made = bench(ScriptedWorld(replays=bug))
    with pytest.raises(IndexError):
        ask(made, REPLAY, "f1")
    assert made.pool.spent == 0


def test_canaries_pass_now_rotate_and_depend_on_the_seed() -> None:
    names = [f"p{number}" for number in range(7)]
    drawn = [canary_for(names, seed=3, place=(1, 0, ordinal)) for ordinal in range(7)]
    assert sorted(map(str, drawn)) == names, "no one twice before all were drawn"
    assert drawn == [canary_for(reversed(names), seed=3, place=(1, 0, ordinal)) for ordinal in range(7)]
    assert drawn != [canary_for(names, seed=4, place=(1, 0, ordinal)) for ordinal in range(7)]
    starts = {canary_for(names, seed=3, place=(round, episode, 0)) for round in range(9) for episode in range(3)}
    assert len(starts) > 3, "not the first in sorted order every time"
    assert canary_for([], seed=3, place=(1, 0, 0)) is None


def test_no_canary_runs_where_nothing_passes() -> None:
    made = bench(traces={name: found for name, found in TRACES.items() if name.startswith("f")})
    found = ask(made, FIX, "f1", edits=USEFUL)
    assert found.verdict is EvidenceVerdict.SUPPORTS
    assert {task for _, task, _ in made.world.ran} == {"f1"}


def test_repeats_are_unique_so_that_no_outcome_is_a_cached_one_of_another_probe() -> None:
    places = [(r, e, o) for r in range(4) for e in (-1, 0, 1, 1021) for o in (0, 1, 255, 256, ATTEMPTS * REQUESTS - 1)]
    repeats = [probe_repeat(*place, confirm=confirm) for place in places for confirm in (False, True)]
    repeats += [attribution_repeat(round) for round in range(4)]
    assert len(set(repeats)) == len(repeats)
    assert min(repeats) > 1_000_000, "far from the repeats of sweeps"
    with pytest.raises(ValueError, match="no probe"):
        probe_repeat(1, 0, ATTEMPTS * REQUESTS)
    made = bench()
    for _ in range(2):
        ask(made, RUN, "f1")
    ask(made, RUN, "f1", episode=1)
    assert len(made.world.ran) == len({seed for _, _, seed in made.world.ran}) == 3


REQUESTED = (
    ProbeRequest(kind=REPLAY, tasks=("f1",)),
    ProbeRequest(kind=FIX, tasks=("f1", "select-7"), edits=USEFUL),
    ProbeRequest(kind=ABLATE, tasks=("f1",), step=2),
    ProbeRequest(kind=FIX, tasks=("f1", "f2"), edits=USEFUL),
    ProbeRequest(kind=RUN, tasks=("f3",), edits=USEFUL),
)


def told(made: Bench, requests: Sequence[ProbeRequest] = REQUESTED) -> list[tuple[Evidence, int]]:
    """What an episode is told, with the units left after each probe."""
    made.kit.begin(0)
    return [(without_time(made.kit.execute(0, request)), made.kit.units_left(0)) for request in requests]


def without_time(evidence: Evidence) -> Evidence:
    spend = evidence.spend.model_copy(update={"wall_s": 0.0, "cpu_s": 0.0})
    return evidence.model_copy(update={"spend": spend})


def test_killing_after_any_event_and_resuming_gives_the_same_evidence_and_spend() -> None:
    whole = MemoryJournal()
    uninterrupted = bench(journal=whole)
    expected = told(uninterrupted)
    for count in range(len(whole.events) + 1):
        part = MemoryJournal()
        part.events.extend(whole.events[:count])
        resumed = bench(journal=part)
        assert told(resumed) == expected
        assert resumed.pool.spent == uninterrupted.pool.spent
        assert [event.kind for event in part.events] == [event.kind for event in whole.events]
        ran = len(resumed.world.ran)
        assert ran == sum(event.kind == "outcome" for event in whole.events[count:]), "nothing is paid twice"


def test_recorded_evidence_of_a_finished_episode_is_spent_when_the_pool_starts() -> None:
    journal = MemoryJournal()
    told(bench(journal=journal, units=6))
    resumed = bench(journal=journal, units=6)
    assert resumed.pool.spent == 5
    assert "1 of the round's pool of 6" in ask(resumed, FIX, "f1", "f2", edits=USEFUL, episode=1).refused


def test_an_improver_that_asks_something_else_on_resume_gets_its_own_answer_and_pays_for_it() -> None:
    journal = MemoryJournal()
    ask(bench(journal=journal), REPLAY, "f1")
    resumed = bench(journal=journal)
    found = ask(resumed, REPLAY, "f2")
    assert (found.tasks, found.ordinal) == (("f2",), 1)
    assert resumed.pool.spent == 2, "what was recorded stays paid"


def test_a_repair_has_ordinals_of_its_own_on_resume_too() -> None:
    journal = MemoryJournal()
    made = bench(journal=journal)
    ask(made, REPLAY, "f1")
    made.kit.begin(0, attempt=1)
    first = ask(made, REPLAY, "f1")
    left = made.kit.units_left(0)
    assert first.ordinal == REQUESTS
    resumed = bench(journal=journal)
    resumed.kit.begin(0, attempt=1)
    assert ask(resumed, REPLAY, "f1") == first
    assert resumed.kit.units_left(0) == left
    assert resumed.world.replayed == []
    with pytest.raises(ValueError, match="at most 16 phases"):
        made.kit.begin(0, attempt=16)


def test_a_phase_may_not_ask_without_end() -> None:
    made = bench(units=1)
    ask(made, REPLAY, "f1")
    for _ in range(REQUESTS - 1):
        assert "the count: this probe" in ask(made, REPLAY, "f1").refused
    last = ask(made, REPLAY, "f1")
    assert last.refused == "the count: one phase may ask for at most 256 probes"
    assert len(made.book.all("probe", Evidence)) == REQUESTS


@pytest.mark.parametrize("schedule", ["random", "fixed"])
def test_a_schedule_without_agency_puts_its_own_request_in_place_at_the_same_prices(schedule: str) -> None:
    settings = ProbeSettings(schedule=schedule, seed=5)  # type: ignore[arg-type]
    made = bench(settings=settings)
    asked = [ask(made, FIX, "f1", edits=USEFUL) for _ in range(12)]
    assert all(not found.refused and found.units == 1 for found in asked)
    assert made.pool.spent == 12
    assert SUBSTITUTE not in {found.kind for found in asked}, "nobody lent a command"
    assert {found.kind for found in asked} == {REPLAY, ABLATE, FIX, RUN}
    assert {task for found in asked for task in found.tasks} == {"f1", "f2", "f3", "f4"}
    drafts = [found for found in asked if found.kind is FIX]
    assert {found.edits for found in drafts} == {edits_digest(USEFUL)}
    again = bench(settings=settings)
    repeated = [ask(again, FIX, "f4", edits=USEFUL) for _ in range(12)]
    assert [(found.kind, found.tasks, found.step) for found in repeated] == [
        (found.kind, found.tasks, found.step) for found in asked
    ], "whatever task the improver asked for"


def test_the_fixed_rule_takes_kinds_and_tasks_in_turn_and_the_random_one_follows_its_seed() -> None:
    made = bench(settings=ProbeSettings(schedule="fixed"))
    asked = [ask(made, RUN, "p1", command="fix") for _ in range(4)]
    assert [(found.kind, found.tasks, found.step) for found in asked] == [
        (REPLAY, ("f1",), None),
        (ABLATE, ("f2",), 2),
        (SUBSTITUTE, ("f3",), 2),
        (RUN, ("f4",), None),
    ]
    orders = [
        [ask(one, REPLAY, "f1").tasks for _ in range(10)]
        for one in (bench(settings=ProbeSettings(schedule="random", seed=seed)) for seed in (1, 2))
    ]
    assert orders[0] != orders[1]
    refused = ask(made, REPLAY, "select-7")
    assert "no train task" in refused.refused, "a schedule does not wash a sealed id"


def test_the_book_holds_one_event_for_each_probe_in_the_order_of_the_ordinals() -> None:
    journal = MemoryJournal()
    made = bench(journal=journal)
    told(made)
    recorded = JournalBook(journal).all("probe", Evidence)
    assert [found.ordinal for found in recorded] == [0, 1, 2, 3, 4]
    assert sum(found.units for found in recorded) == made.pool.spent


def test_a_runs_recorder_is_a_book() -> None:
    journal = MemoryJournal()
    expected = told(bench(journal=journal, book=Recorder(journal)))
    recorder = Recorder.replay(journal, journal.read_from(0))
    resumed = bench(journal=journal, book=recorder)
    assert told(resumed) == expected
    assert resumed.world.ran == resumed.world.replayed == []


def test_a_replay_is_reserved_before_it_runs() -> None:
    made = bench(budget=BudgetConfig(evaluations=1))
    made.ledger.record("select", Spend(evaluations=1))
    runner = ReplayRunner(made.world, made.ledger, grade)
    with pytest.raises(BudgetExhausted):
        runner.run(TRACES["f1"], ("look",), seed=1)
    assert made.world.replayed == []


def test_a_replay_that_was_never_set_up_is_not_counted() -> None:
    def absent(*_: object) -> str:
        raise SetupError("bubblewrap is not installed")

    made = bench(ScriptedWorld(replays=absent), budget=BudgetConfig(evaluations=1))
    for _ in range(2):
        with pytest.raises(SetupError, match="bubblewrap"):
            ask(made, REPLAY, "f1")
    assert made.ledger.total.evaluations == 0
