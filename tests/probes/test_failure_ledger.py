"""The failure ledger: statuses from the last two sweeps, and what a replay of its events gives."""

from __future__ import annotations

import inspect

from probe_parts import failed_trace, trace

from heldout import gates
from heldout.probes import Attribution, FailureLedger, seen_in_sweep
from heldout.store.agent_events import SignatureSeen


def seen(round: int, signature: str, *tasks: str, cause: str = "unknown", core: tuple[str, ...] = ()) -> SignatureSeen:
    return SignatureSeen(round=round, signature=signature, tasks=tasks, cause=cause, core=core)


EVENTS = (
    seen(0, "KeyError: <str>", "t1", "t2", cause="omission", core=("check",)),
    seen(0, "TypeError", "t3"),
    seen(2, "KeyError: <str>", "t2", "t4", "t5"),
    seen(2, "ValueError", "t6"),
)


def statuses(ledger: FailureLedger) -> dict[str, str]:
    return {entry.signature: entry.status for entry in ledger.entries()}


def test_a_status_compares_the_last_two_sweeps() -> None:
    ledger = FailureLedger.replay(EVENTS)
    assert statuses(ledger) == {"KeyError: <str>": "GROWING", "TypeError": "EXTINCT", "ValueError": "GROWING"}
    ledger.see(seen(3, "KeyError: <str>", "t1", "t2"))
    assert statuses(ledger) == {"KeyError: <str>": "ALIVE", "TypeError": "EXTINCT", "ValueError": "EXTINCT"}
    ledger.see(seen(4, "TypeError", "t3"))
    ledger.see(seen(5, "TypeError", "t9"))
    assert statuses(ledger)["TypeError"] == "ALIVE", "as many as before"
    ledger = FailureLedger.replay((*EVENTS, seen(4, "TypeError", "t3")))
    assert statuses(ledger)["TypeError"] == "GROWING", "what comes back has more hits than in the sweep before"


def test_after_one_sweep_everything_is_alive() -> None:
    assert set(statuses(FailureLedger.replay(EVENTS[:2])).values()) == {"ALIVE"}


def test_a_sweep_without_any_failure_makes_everything_extinct() -> None:
    ledger = FailureLedger.replay(EVENTS, sweeps=(0, 2, 3))
    assert set(statuses(ledger).values()) == {"EXTINCT"}


def test_an_entry_holds_its_first_round_example_hits_and_the_newest_explained_cause() -> None:
    first = FailureLedger.replay(EVENTS).entries()[0]
    assert (first.signature, first.first_round, first.example) == ("KeyError: <str>", 0, "t1")
    assert first.hits == {0: ("t1", "t2"), 2: ("t2", "t4", "t5")}
    assert (first.cause, first.core) == ("omission", ("check",)), "a later sweep that explains nothing keeps it"
    newer = (*EVENTS, seen(3, "KeyError: <str>", "t2", cause="commission", core=("undo",)))
    assert FailureLedger.replay(newer).entries()[0].cause == "commission"


def test_replaying_the_events_twice_or_in_another_order_gives_the_same_ledger() -> None:
    once = FailureLedger.replay(EVENTS).entries()
    assert FailureLedger.replay((*EVENTS, *EVENTS)).entries() == once
    assert FailureLedger.replay(reversed(EVENTS)).entries() == once


def test_the_events_of_a_sweep_cluster_its_failures_and_take_over_attributions() -> None:
    traces = [
        failed_trace("t1", ("check", "KeyError: 'a'", 1)),
        failed_trace("t2", ("check", "KeyError: 'b'", 1)),
        failed_trace("t3", feedback="TypeError: no"),
        trace("p1", "ls"),
        trace("t4", passed=None),
    ]
    found = Attribution(
        task="t2",
        signature="KeyError: <str>",
        passed=False,
        keep=(0,),
        commands=("check",),
        cause="omission",
        replays=1,
    )
    events = seen_in_sweep(5, traces, attributions=[found])
    assert [(event.signature, event.tasks) for event in events] == [
        ("KeyError: <str>", ("t1", "t2")),
        ("TypeError: no", ("t3",)),
    ]
    assert (events[0].cause, events[0].core, events[0].round) == ("omission", ("check",), 5)
    assert events[1].cause == "unknown"
    assert FailureLedger.replay(events).known == {"KeyError: <str>", "TypeError: no"}


def test_the_ledger_feeds_no_gate() -> None:
    import pathlib

    folder = pathlib.Path(inspect.getfile(gates)).parent
    sources = [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]
    assert sources
    assert not any("heldout.probes" in source for source in sources)
