"""Evidence styles: what each shows, that every text is bounded, and that nothing sealed can be in one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from catalog_world import CAUSE_OF, PASSING, SIGNATURE, TRACES, make_trace

from heldout.errors import SetupError
from heldout.harness.steps import Step
from heldout.improvers.agent import RoundNote
from heldout.improvers.evidence import EVIDENCE, Materials, make_evidence, mean_turns, trace_text
from heldout.improvers.evidence.base import REPORT_BYTES, TRACE_BYTES, clipped, listed, trace_path
from heldout.probes.base import Attribution, SignatureEntry
from heldout.records import TrainTask
from heldout.testing.object_graph import reached

NOTES = (
    RoundNote(
        round=1,
        verdict="accept",
        label="MIXED",
        note="run the checks",
        edited=("workflow.md",),
        select_before=0.4,
        select_after=0.45,
        fixed=("select-3", "select-5"),
        broken=("select-8",),
        predictions={"task-00": "flipped"},
    ),
    RoundNote(round=2, verdict="reject", fixed=("select-9",)),
)
MATERIALS = Materials(
    round=3,
    traces=TRACES,
    attributions=(
        Attribution(
            task="task-03",
            signature=SIGNATURE["tests"],
            passed=False,
            keep=(1, 4),
            commands=("cp a.py a.bak && edit a.py", "finish"),
            cause="omission",
            replays=4,
        ),
    ),
    ledger=(
        SignatureEntry(
            signature=SIGNATURE["tests"],
            first_round=1,
            example="task-00",
            cause="omission",
            hits={1: ("task-00",), 2: ("task-00", "task-03")},
            status="GROWING",
        ),
    ),
    history=NOTES,
    turns_passed=5.0,
    turns_failed=7.25,
    source={"tool_loop.py": "def run(): ..."},
)


def big() -> Materials:
    """More of everything than any text may hold."""
    step = Step(kind="command", command="cat " + "é" * 9000, output="ö" * 20_000, exit_code=1)
    trace = replace(make_trace("x", "tests"), steps=(step,) * 30, feedback="ü" * 60_000)
    traces = {
        f"train-{number:04d}": replace(trace, task=TrainTask(id=f"train-{number:04d}", input="i" * 60_000))
        for number in range(24)
    }
    entry = MATERIALS.ledger[0].model_copy(update={"hits": {number: tuple(traces) for number in range(200)}})
    note = NOTES[0].model_copy(update={"note": "n" * 9000, "fixed": tuple(f"select-{i}" for i in range(500))})
    one = MATERIALS.attributions[0].model_copy(update={"commands": ("c" * 5000,) * 20, "task": "train-0000"})
    return replace(
        MATERIALS,
        traces=traces,
        ledger=(entry,) * 300,
        history=(note,) * 30,
        attributions=(one,) * 30,
        source={"a.py": "x" * 200_000},
    )


@pytest.mark.parametrize("name", sorted(EVIDENCE))
def test_every_text_is_bounded_whatever_there_is_to_show(name: str) -> None:
    report = make_evidence(name).report(big())
    assert len(report.text.encode()) <= REPORT_BYTES
    assert all(len(text.encode()) <= TRACE_BYTES for text in report.files.values())
    assert "bytes left out" in report.files["traces/train-0000.md"]
    assert all(f"traces/train-{number:04d}.md" in report.files for number in range(24))


@pytest.mark.parametrize("name", sorted(EVIDENCE))
def test_a_report_is_a_pure_function_with_safe_paths_and_ids_only_of_select(name: str) -> None:
    source = make_evidence(name)
    report = source.report(MATERIALS)
    assert report == source.report(MATERIALS)
    assert source.name == name
    assert all(not path.startswith("/") and ".." not in path.split("/") for path in report.files)
    assert "select-3" in report.files["frontier.md"]


def test_invariant_7_no_reference_answer_and_no_sealed_body_is_reachable_from_a_report() -> None:
    sealed = ["the reference patch", "the body of a select task"]
    graded = {  # what a task set holds beside the traces: the answer of a train task is cut off before a trace is made
        "task-00": TrainTask(id="task-00", input="mend task-00", reference=sealed[0]),
        "select-3": TrainTask(id="select-3", input=sealed[1]),
    }
    assert reached(graded, sealed) == set(sealed)
    for name in EVIDENCE:
        assert reached((MATERIALS, make_evidence(name), make_evidence(name).report(MATERIALS)), sealed) == set()
        assert reached(make_evidence(name), ["mend task-00"]) == set()


@pytest.mark.parametrize("name", sorted(EVIDENCE))
def test_an_empty_round_reports_too(name: str) -> None:
    report = make_evidence(name).report(Materials(round=1, traces={}))
    assert "Round 1" in report.text
    assert "No round was kept." in report.files["frontier.md"]


def test_pull_is_an_index_with_failures_first_and_shows_no_content() -> None:
    report = make_evidence("pull").report(MATERIALS)
    lines = report.text.splitlines()
    traces = [line for line in lines if line.startswith("- traces/")]
    assert len(traces) == len(TRACES)
    assert traces[0].startswith("- traces/task-00.md: failed, 5 turns, ")
    assert all(": passed" in line for line in traces[-len(PASSING) :])
    assert "- source/tool_loop.py: 14 bytes" in lines
    assert "edit a.py" not in report.text
    assert "edit a.py" in report.files["traces/task-00.md"]


def test_digest_has_numbers_failures_and_files_to_drill_into() -> None:
    report = make_evidence("digest").report(MATERIALS)
    assert "- passed: 3 (task-90, task-91, task-92)" in report.text
    assert "- failed: 12 (" in report.text
    assert "mean turns: 5.0 where it passed, 7.2 where it failed" in report.text
    assert f"- task-00: `{SIGNATURE['tests']}` (more in tasks/task-00.md)" in report.text
    assert "The whole trace: traces/task-00.md" in report.files["tasks/task-00.md"]
    assert "tasks/task-90.md" not in report.files
    for section in ("## Minimised traces", "## Failure ledger", "## Frontier of select tasks", "## Earlier rounds"):
        assert section in report.text


def test_clusters_group_by_signature_with_the_minimised_trace_as_representative() -> None:
    fewer = {task: trace for task, trace in TRACES.items() if task != "task-02"}
    report = make_evidence("clusters").report(replace(MATERIALS, traces=fewer))
    heads = [line for line in report.text.splitlines() if line.startswith("## ") and "failing" in line]
    assert [head.split()[1] for head in heads] == ["4", "4", "3"]  # largest first
    assert f"## 4 failing: `{SIGNATURE['tests']}`" in heads
    assert "Representative: task-03 (traces/task-03.md)" in report.text
    assert "Cause, from task-03: omission" in report.text
    assert "Ledger: GROWING, since round 1, cause omission" in report.text
    assert "Representative: task-01" in report.text  # no minimised trace: the fewest turns, then the first id
    assert "Tasks: task-00, task-03, task-06, task-09" in report.files["clusters/1.md"]


def test_frontier_and_history_tell_facts_of_the_rounds() -> None:
    files = make_evidence("pull").report(MATERIALS).files
    assert "- round 1: FIXED select-3, select-5; LOST select-8" in files["frontier.md"]
    assert "select-9" not in files["frontier.md"]  # that round was not kept
    assert (
        "- round 1: accept, MIXED; select 40.0 % to 45.0 %; edited workflow.md; predictions: task-00 flipped; "
        "run the checks" in files["history.md"]
    )
    assert "- round 2: reject; select not measured to not measured; edited nothing" in files["history.md"]
    assert "- GROWING `" in files["ledger.md"]
    assert "hits 1: 1, 2: 2" in files["ledger.md"]


def test_a_trace_is_told_in_full_with_its_commands_counted_as_probes_count_them() -> None:
    blocked = Step(kind="blocked", command="rm -rf .", output="not allowed")
    trace = make_trace("task-00", "tests")
    text = trace_text(replace(trace, steps=(blocked, *trace.steps), error="step limit"))
    assert text.startswith("# task-00\n\nResult: failed\nEnded by: step limit\nCounted: turns 5\n")
    assert "command, not run, exit None:\nrm -rf ." in text
    assert "command 0, exit 0:\ncat a.py" in text
    assert "command 4, exit 1:\nfinish" in text
    assert text.rstrip().endswith("wrong")


def test_paths_of_odd_ids_are_safe_and_differ() -> None:
    assert trace_path("repair-rounding-0017") == "traces/repair-rounding-0017.md"
    odd = [trace_path(name) for name in ("a/b", "a_b", "../etc/passwd", "a b", "", "x" * 300, "é")]
    assert len(set(odd)) == len(odd)
    assert all(path.count("/") == 1 and ".." not in path and len(path) < 140 for path in odd)


def test_mean_turns_leave_out_what_was_not_measured() -> None:
    unmeasured = replace(make_trace("c", "tests"), passed=None, measures={"turns": 99.0})
    uncounted = replace(make_trace("b", "tests"), measures=None)
    traces = [make_trace("a", None), uncounted, replace(uncounted, steps=uncounted.steps[:2]), unmeasured]
    assert mean_turns(traces) == (5.0, 3.5)
    assert mean_turns([unmeasured]) == (None, None)


def test_clipping_keeps_head_and_tail_and_counts_what_is_missing() -> None:
    assert clipped("short", 120) == "short"
    text = clipped("a" * 500 + "z" * 500, 380)
    assert text == "a" * 200 + "\n[… 700 bytes left out …]\n" + "z" * 100
    assert len(clipped("é" * 5000, 1000).encode()) <= 1000
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed([]) == "none"


def test_styles_are_plug_ins() -> None:
    assert make_evidence("test_evidence_styles:Own").report(MATERIALS).text == "own"
    with pytest.raises(SetupError, match="no evidence style 'rag'; there is clusters, digest, pull"):
        make_evidence("rag")
    assert len(CAUSE_OF) == 12


class Own:
    name = "own"

    def report(self, materials: Materials) -> object:
        return replace(make_evidence("pull").report(materials), text="own")
