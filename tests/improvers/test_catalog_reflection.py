"""The meta-episode: counts by hand, policy and guidance, and that beliefs move towards the truth only with evidence."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from catalog_world import (
    CAUSE_OF,
    FULL,
    HEAD,
    NOTHING,
    SIGNATURE,
    SIMPLE,
    TRACES,
    Bench,
    after,
    make_improver,
    make_meta_view,
    make_view,
    mended,
    true_class,
)

from heldout.improvers.agent import RoundNote
from heldout.improvers.beliefs import CLASS_TABLE, EDIT_TABLE, Beliefs, believed_classes, wrong_beliefs
from heldout.improvers.catalog_learning import Ground, Learned, next_guidance, next_policy
from heldout.improvers.catalog_notes import LabNote
from heldout.improvers.guidance import guidance_blocks
from heldout.improvers.method import NOTES_FILE, check_method, check_method_edits, method_candidate
from heldout.improvers.policy import POLICY_FILE, Policy
from heldout.probes.base import Trace
from heldout.records import Claim, EditProposal, Evidence, EvidenceVerdict, ProbeKind, apply_edits

TESTS, SHELL, MEND = SIGNATURE["tests"], SIGNATURE["shell"], SIGNATURE["keep_mend"]


def evidence(ordinal: int, kind: ProbeKind, *tasks: str, **found: object) -> Evidence:
    return Evidence(round=1, episode=0, ordinal=ordinal, kind=kind, tasks=tasks, units=1, **found)  # type: ignore[arg-type]


def fix(ordinal: int, *tasks: str, verdict: str = "refutes", flips: tuple[str, ...] = ()) -> Evidence:
    return evidence(ordinal, ProbeKind.FIX_PROBE, *tasks, verdict=EvidenceVerdict(verdict), flips=flips, edits="x")


def tried(*drafts: tuple[int, str], submitted: str = "") -> EditProposal:
    note = LabNote("why", tuple(filter(None, [submitted])), {f"1/0/{place}": (name,) for place, name in drafts})
    return EditProposal(note=note.text())


def tables(files: Mapping[str, str]) -> Learned:
    notes = files[NOTES_FILE]
    return Learned(Beliefs.read(notes, CLASS_TABLE), Beliefs.read(notes, EDIT_TABLE))


def learned(bench: Bench, **view: object) -> Learned:
    improver = make_improver()
    meta = make_meta_view(improver, **view)
    return tables(after(meta.method, improver.reflect(meta, bench)).files)


def test_a_supported_draft_is_one_success_for_each_signature_that_it_mended() -> None:
    supported = fix(0, "task-00", "task-03", "task-02", verdict="supports", flips=("task-00", "task-03"))
    found = learned(Bench(), evidence=(supported,), proposals=(tried((0, "tests_good")),))
    assert found.classes.counts == {(TESTS, "tests"): (2, 1)}
    assert found.edits.counts == {(TESTS, "tests_good"): (2, 1)}


def test_a_refuted_draft_is_one_failure_for_each_signature_that_it_was_tried_on() -> None:
    refuted = (fix(0, "task-00", "task-03", "task-02"), fix(1, "task-00"))
    proposals = (tried((0, "shell_null")), tried((1, "tests_bad")))
    found = learned(Bench(units=0), evidence=refuted, proposals=proposals)
    assert found.classes.counts == {(TESTS, "shell"): (1, 2), (SHELL, "shell"): (1, 2), (TESTS, "tests"): (1, 2)}
    assert found.edits.counts == {
        (TESTS, "shell_null"): (1, 2),
        (SHELL, "shell_null"): (1, 2),
        (TESTS, "tests_bad"): (1, 2),
    }


def test_an_inconclusive_or_refused_draft_counts_nothing() -> None:
    undecided = fix(0, "task-00", verdict="inconclusive")
    refused = fix(1, "task-00").model_copy(update={"refused": "the count: nothing is left"})
    unknown = fix(2, "task-00")  # of a draft that no note speaks of
    proposals = (tried((0, "tests_good"), (1, "tests_good")),)
    assert learned(Bench(units=0), evidence=(undecided, refused, unknown), proposals=proposals).classes.counts == {}


def test_a_supported_ablation_speaks_for_the_classes_of_commission() -> None:
    ablated = evidence(0, ProbeKind.ABLATE, "task-01", step=3, verdict=EvidenceVerdict.SUPPORTS)
    found = learned(Bench(), evidence=(ablated,))
    assert found.classes.counts == {(MEND, "keep_mend"): (2, 1)}
    assert found.edits.counts == {}


def test_with_probes_a_kept_reading_counts_nothing() -> None:
    kept = tried(submitted="tests_good").model_copy(update={"claims": (Claim(task="task-00", diagnosis="tests: x"),)})
    assert learned(Bench(FULL), proposals=(kept,)).classes.counts == {}


def test_without_probes_each_diagnosis_behind_a_kept_edit_counts_as_a_success() -> None:
    claims = tuple(Claim(task=task, diagnosis="shell: x") for task in ("task-00", "task-03", "task-01"))
    kept = tried(submitted="shell_null").model_copy(update={"claims": claims})
    other = tried(submitted="tests_good").model_copy(update={"claims": claims})
    found = learned(Bench(NOTHING), proposals=(kept, other))
    assert found.classes.counts == {(TESTS, "shell"): (2, 1), (MEND, "shell"): (2, 1)}  # it knows of no other verdict
    assert found.edits.counts == {(TESTS, "shell_null"): (2, 1), (MEND, "shell_null"): (2, 1)}
    for verdict in ("reject", "void", "invalid", "error"):
        note = RoundNote(round=1, verdict=verdict)
        assert learned(Bench(NOTHING), proposals=(kept,), note=note).classes.counts == {}


def test_plain_runs_are_taken_at_their_word_once_for_each_draft() -> None:
    runs = (
        evidence(0, ProbeKind.RUN_EPISODE, "task-00", edits="a"),
        evidence(1, ProbeKind.RUN_EPISODE, "task-03", edits="a", passed=("task-03",)),
        evidence(2, ProbeKind.RUN_EPISODE, "task-02", edits="b"),
        evidence(3, ProbeKind.RUN_EPISODE, "task-05", edits="b"),
        evidence(4, ProbeKind.RUN_EPISODE, "task-01", edits="c", unmeasured=("task-01",)),
    )
    names = ((0, "tests_good"), (1, "tests_good"), (2, "shell_bad"), (3, "shell_bad"), (4, "keep_mend_good"))
    found = learned(Bench(SIMPLE), evidence=runs, proposals=(tried(*names),))
    assert found.classes.counts == {(TESTS, "tests"): (2, 1), (SHELL, "shell"): (1, 2)}


def test_under_full_verification_a_plain_run_counts_nothing() -> None:
    run = evidence(0, ProbeKind.RUN_EPISODE, "task-00", edits="a", passed=("task-00",))
    assert learned(Bench(FULL), evidence=(run,), proposals=(tried((0, "tests_good")),)).classes.counts == {}


def test_left_over_units_replay_what_was_refuted_and_an_accident_teaches_nothing() -> None:
    refuted = (fix(0, "task-00"), fix(1, "task-02"), fix(2, "task-01"))
    proposals = (tried((0, "tests_null"), (1, "shell_null"), (2, "keep_mend_null")),)
    bench = Bench(flaky=("task-00",), units=9)
    found = learned(bench, evidence=refuted, proposals=proposals)
    assert [(one.kind, one.tasks) for one in bench.asked] == [
        (ProbeKind.REPLAY, ("task-00",)),
        (ProbeKind.REPLAY, ("task-02",)),
    ]
    assert found.classes.counts == {(SHELL, "shell"): (1, 2), (MEND, "keep_mend"): (1, 2)}
    known = evidence(3, ProbeKind.REPLAY, "task-02", verdict=EvidenceVerdict.REFUTES)
    bench = Bench(units=0)
    found = learned(bench, evidence=(*refuted, known), proposals=proposals)
    assert bench.asked == []
    assert found.classes.counts == {(TESTS, "tests"): (1, 2), (MEND, "keep_mend"): (1, 2)}


def test_the_policy_follows_what_the_round_showed() -> None:
    policy = Policy(probes=8, canaries=1, edit_size=2)
    refuted, supported = fix(0, "task-00"), fix(1, "task-00", verdict="supports", flips=("task-00",))
    assert next_policy(policy, "HARMFUL", ()) == Policy(8, 2, 1)
    assert next_policy(policy, "MIXED", (supported,)) == Policy(8, 2, 1)
    assert next_policy(policy, "EFFECTIVE", (refuted, supported)) == Policy(8, 0, 3)
    assert next_policy(policy, "INERT", (refuted,)) == Policy(10, 1, 2)
    assert next_policy(Policy(24, 3, 1), "HARMFUL", (refuted,)) == Policy(24, 3, 1)


def test_guidance_names_the_two_most_promising_classes_and_the_least_tried() -> None:
    beliefs = Beliefs({("s", "tests"): (4, 1), ("s", "shell"): (1, 4), ("s", "keep_mend"): (2, 2)})
    text = next_guidance(Learned(beliefs, Beliefs()), {"s": 3}, ("keep_mend", "locate", "shell", "tests"))
    assert text is not None
    first, second, third = guidance_blocks({"search.md": text}, 3)
    assert "`tests`" in first
    assert "3 of 3 counted" in first
    assert first.endswith("Focus: tests")
    assert second.endswith("Focus: keep_mend")  # 1/2, as `locate`, and first in the alphabet
    assert third.endswith("Focus: locate")
    assert next_guidance(Learned(Beliefs(), Beliefs()), {"s": 3}, ("tests",)) is None


def test_each_signature_counts_once_in_the_ground() -> None:
    ground = Ground({"a": "s", "b": "s", "c": "t"}, {"x": "tests", "y": "tests"}, {}, frozenset())
    assert ground.signatures(["a", "b", "c", "unknown"]) == ("s", "t")
    assert ground.classes(["x", "y", "unknown"]) == ("tests",)


def test_the_edits_pass_every_check_and_name_no_task() -> None:
    improver = make_improver()
    supported = fix(0, *list(CAUSE_OF)[:3], verdict="supports", flips=tuple(CAUSE_OF))
    meta = make_meta_view(improver, evidence=(supported,), proposals=(tried((0, "tests_good")),))
    proposal = improver.reflect(meta, Bench())
    assert {edit.path for edit in proposal.edits} == {NOTES_FILE, "search.md", POLICY_FILE}
    assert check_method_edits(meta.method, proposal.edits, task_ids=TRACES) == ()
    assert proposal == improver.reflect(meta, Bench())
    assert proposal.predicted_fixes == ()
    assert proposal.note.startswith("simulation of an improver")


def test_a_file_that_was_refused_is_left_alone_in_the_next_answer() -> None:
    improver = make_improver()
    note = RoundNote(round=1, verdict="accept", label="HARMFUL")
    meta = make_meta_view(
        improver, note=note, faults=("skills/policy.md has 9000 bytes, and at most 8192 are allowed",)
    )
    assert improver.reflect(meta, Bench()).edits == ()
    assert [edit.path for edit in improver.reflect(make_meta_view(improver, note=note), Bench()).edits] == [POLICY_FILE]


def test_notes_that_leave_no_room_lose_their_free_text_and_keep_their_counts() -> None:
    improver = make_improver()
    counts = {(f"signature {number} {'x' * 90}", "tests"): (2, 1) for number in range(400)}
    full = Beliefs(counts).written("words " * 4000, CLASS_TABLE, limit_bytes=14_000)
    method = method_candidate({**improver.start_method, NOTES_FILE: full[:32_000]})
    supported = fix(0, "task-00", verdict="supports", flips=("task-00",))
    meta = make_meta_view(improver, method=method, evidence=(supported,), proposals=(tried((0, "tests_good")),))
    folder = after(method, improver.reflect(meta, Bench()))
    assert check_method(folder.files) == ()
    assert len(tables(folder.files).classes.counts) > 50


def rounds(available: frozenset[ProbeKind], *, error: float, seed: int, count: int = 6) -> tuple[dict[str, str], int]:
    """A small loop in which every edit is kept: the beliefs that remain, and the tasks that the harness solves."""
    improver = make_improver(error=error, seed=seed)
    method, head = method_candidate(improver.start_method), HEAD
    for number in range(1, count + 1):
        traces: dict[str, Trace] = {
            task: trace for task, trace in TRACES.items() if task not in CAUSE_OF or not mended(head.files, task)
        }
        blocks = guidance_blocks(method.files, 3)
        proposals, found, units = [], [], 24
        for episode, block in enumerate(blocks):
            bench = Bench(available, units=units, round=number, episode=episode)
            changes = {"round": number, "episode": episode, "seed": 1000 * seed + 10 * number + episode}
            view = make_view(improver, head=head, method=method, guidance=block, traces=traces, **changes)
            proposals.append(improver.propose(view, bench))
            found += bench.asked
            units = bench.units
        head = apply_edits(head, proposals[0].edits)
        note = RoundNote(round=number, verdict="accept")
        meta = make_meta_view(
            improver, method=method, note=note, proposals=tuple(proposals), evidence=tuple(found), traces=traces
        )
        method = after(method, improver.reflect(meta, Bench(available, units=units, round=number, episode=-1)))
        assert check_method(method.files, task_ids=TRACES) == ()
    return believed_classes(method.files[NOTES_FILE]), sum(mended(head.files, task) for task in CAUSE_OF)


def wrong_share(available: frozenset[ProbeKind]) -> tuple[int, int]:
    """Wrong and all beliefs at the end of eight runs in which every reading is wrong."""
    pairs = [wrong_beliefs(rounds(available, error=1.0, seed=seed)[0], true_class) for seed in range(8)]
    return sum(wrong for wrong, _ in pairs), sum(total for _, total in pairs)


@pytest.mark.parametrize("available", [FULL, SIMPLE], ids=["full", "simple"])
def test_beliefs_move_to_the_truth_with_evidence_even_where_every_reading_is_wrong(
    available: frozenset[ProbeKind],
) -> None:
    wrong, total = wrong_share(available)
    assert (wrong, total >= 12) == (0, True)


def test_beliefs_harden_on_the_improvers_own_readings_without_evidence() -> None:
    wrong, total = wrong_share(NOTHING)
    assert total >= 8
    assert wrong > total / 2


def test_evidence_solves_more_than_wrong_readings_do() -> None:
    verified = sum(rounds(FULL, error=1.0, seed=seed, count=3)[1] for seed in range(6))
    believed = sum(rounds(NOTHING, error=1.0, seed=seed, count=3)[1] for seed in range(6))
    assert verified > believed
