"""The simulated improver: what it proposes under each switch, and that it knows nothing but its view."""

from __future__ import annotations

from dataclasses import replace

import pytest
from catalog_world import (
    CATALOGUE,
    CAUSE_OF,
    FULL,
    HEAD,
    NOTHING,
    SIGNATURE,
    SIMPLE,
    TRACES,
    USEFUL,
    Bench,
    Entry,
    make_improver,
    make_trace,
    make_view,
    names_in,
)

from heldout.config import ImproverConfig
from heldout.errors import SetupError
from heldout.improvers import AGENT_IMPROVERS, IMPROVERS, is_agent, make_agent_improver
from heldout.improvers import make_improver as make_any
from heldout.improvers.agent import RoundNote
from heldout.improvers.beliefs import CLASS_TABLE, EDIT_TABLE, Beliefs
from heldout.improvers.catalog_choice import CLASS_CAUSES, focus_of, read_cases
from heldout.improvers.catalog_notes import LabNote, read_note
from heldout.improvers.catalog_trials import suspect_step
from heldout.improvers.guidance import DEFAULT_BLOCKS
from heldout.improvers.method import NOTES_FILE, method_candidate
from heldout.probes.base import Attribution, SignatureEntry
from heldout.probes.claims import inconsistencies
from heldout.records import Candidate, ProbeKind, apply_edits, edits_digest
from heldout.testing.object_graph import reached


def attribution(task: str, cause: str) -> Attribution:
    return Attribution(
        task=task, signature=SIGNATURE[CAUSE_OF[task]], passed=False, keep=(3,), commands=("c",), cause=cause, replays=1
    )


def entry(cause: str, status: str) -> SignatureEntry:
    return SignatureEntry(signature=SIGNATURE[cause], first_round=0, example="task-00", status=status)


@pytest.mark.parametrize("available", [FULL, SIMPLE, NOTHING], ids=["full", "simple", "none"])
def test_the_same_view_gives_the_same_proposal(available: frozenset[ProbeKind]) -> None:
    improver, other = make_improver(error=0.4), make_improver(error=0.4)
    first = improver.propose(make_view(improver), Bench(available))
    assert first == improver.propose(make_view(improver), Bench(available))
    assert first == other.propose(make_view(other), Bench(available))
    drawn = {improver.propose(make_view(improver, seed=seed), Bench(available)).edits for seed in range(12)}
    assert len(drawn) > 1


def test_it_is_labelled_a_simulation_and_calls_no_model() -> None:
    improver = make_improver()
    assert (improver.simulated, improver.uses_model, improver.agent) == (True, False, True)
    assert improver.propose(make_view(improver), Bench()).note.startswith("simulation of an improver")
    assert "simulation" in improver.start_method["prompt.md"]


def test_without_probes_it_asks_nothing_and_submits_its_best_belief() -> None:
    improver = make_improver(trust=50.0)
    bench = Bench(NOTHING)
    proposal = improver.propose(make_view(improver), bench)
    assert bench.asked == []
    (name,) = names_in(proposal)
    believed = next(one.edit_class for one in CATALOGUE if one.name == name)
    assert {CAUSE_OF[task] for task in proposal.predicted_fixes} == {believed}
    assert len(proposal.predicted_fixes) == 3
    assert [claim.task for claim in proposal.claims] == list(proposal.predicted_fixes)
    assert all(claim.evidence == () and claim.diagnosis.startswith(believed) for claim in proposal.claims)


def test_simple_verification_trusts_one_plain_run_a_target() -> None:
    improver = make_improver(trust=50.0, probes=24)
    bench = Bench(SIMPLE, weak=tuple(CAUSE_OF))  # no pass would stand a second run, and nobody makes one
    proposal = improver.propose(make_view(improver), bench)
    assert {found.kind for found in bench.asked} == {ProbeKind.RUN_EPISODE}
    passed = [task for found in bench.asked for task in found.passed]
    assert passed
    assert set(proposal.predicted_fixes) == set(passed)
    assert names_in(proposal)[0] in USEFUL.values()
    last = bench.asked[-1]
    claims = {claim.task: claim.evidence for claim in proposal.claims}
    assert claims[last.tasks[0]] == (last.id,)


def test_full_verification_replays_first_and_submits_what_was_confirmed() -> None:
    improver = make_improver(trust=50.0, probes=24)
    bench = Bench()
    proposal = improver.propose(make_view(improver), bench)
    kinds = [found.kind for found in bench.asked]
    assert kinds[0] is ProbeKind.REPLAY
    supporting = [found for found in bench.asked if found.flips]
    assert len(supporting) == 1
    assert supporting[0].edits == edits_digest(proposal.edits)
    assert proposal.predicted_fixes == supporting[0].flips
    assert all(supporting[0].id in claim.evidence for claim in proposal.claims)
    assert names_in(proposal)[0] in USEFUL.values()
    assert proposal.measures["units"] == sum(found.units for found in bench.asked)


def test_a_trace_that_does_not_reproduce_is_dropped_and_never_predicted() -> None:
    improver = make_improver(trust=50.0, probes=24)
    for seed in range(8):
        bench = Bench(flaky=[task for task, cause in CAUSE_OF.items() if cause != "shell"])
        proposal = improver.propose(make_view(improver, seed=seed), bench)
        gone = {found.tasks[0] for found in bench.asked if found.verdict == "refutes" and found.kind == "replay"}
        assert not gone & set(proposal.predicted_fixes)
        dropped = [claim for claim in proposal.claims if claim.diagnosis == "the failure does not reproduce"]
        assert {claim.task for claim in dropped} == gone
        assert all(claim.evidence for claim in dropped)


def test_a_minimised_failure_needs_no_replay() -> None:
    improver = make_improver(trust=50.0)
    minimised = tuple(attribution(task, "unknown") for task in CAUSE_OF)
    bench = Bench()
    improver.propose(make_view(improver, attributions=minimised), bench)
    assert ProbeKind.REPLAY not in {found.kind for found in bench.asked}
    assert bench.asked


def test_a_suspected_commission_is_ablated_and_the_step_is_claimed() -> None:
    improver = make_improver(trust=50.0, probes=24)
    only = {task: trace for task, trace in TRACES.items() if CAUSE_OF.get(task, "keep_mend") == "keep_mend"}
    view = make_view(improver, traces=only, guidance="Focus: keep_mend")
    bench = Bench()
    proposal = improver.propose(view, bench)
    ablated = [found for found in bench.asked if found.kind is ProbeKind.ABLATE]
    assert ablated
    assert all(found.step == 3 for found in ablated)
    blamed = [claim for claim in proposal.claims if claim.step == 3]
    assert blamed
    assert {claim.task for claim in blamed} <= {found.tasks[0] for found in ablated}
    assert all(any(found.id in claim.evidence for found in ablated) for claim in blamed)


def test_every_proposal_is_consistent_with_the_evidence_that_it_caused() -> None:
    improver = make_improver(error=0.4, probes=24)
    for seed in range(25):
        bench = Bench(flaky=list(CAUSE_OF)[::4], weak=list(CAUSE_OF)[1::4], units=24 - seed % 20)
        proposal = improver.propose(make_view(improver, seed=seed), bench)
        digest = edits_digest(proposal.edits)
        assert inconsistencies(proposal, bench.asked, edits_digest=digest, base="") == ()


def test_refuted_drafts_are_not_submitted_while_another_is_left() -> None:
    improver = make_improver(error=0.4, probes=24)
    for seed in range(25):
        bench = Bench()
        proposal = improver.propose(make_view(improver, seed=seed), bench)
        refuted = {found.edits for found in bench.asked if found.kind == "fix_probe" and found.verdict == "refutes"}
        assert edits_digest(proposal.edits) not in refuted


def test_it_spends_no_more_than_its_policy_and_stops_where_a_limit_refuses() -> None:
    for units in (0, 1, 4, 8):
        improver = make_improver(error=1.0, probes=units)
        bench = Bench()
        proposal = improver.propose(make_view(improver), bench)
        assert sum(found.units for found in bench.asked) <= units
        assert proposal.edits
    improver = make_improver()
    bench = Bench(refusal="the clock: 3600 s of this phase have passed, the limit is 3600 s")
    assert improver.propose(make_view(improver), bench).edits
    assert len(bench.asked) == 1


def test_a_draft_that_is_refused_for_itself_gives_way_to_another() -> None:
    improver = make_improver()
    bench = Bench(refusal="the draft does not apply: workflow.md is too large")
    minimised = tuple(attribution(task, "unknown") for task in CAUSE_OF)
    proposal = improver.propose(make_view(improver, attributions=minimised), bench)
    assert len({found.edits for found in bench.asked if found.edits}) == len(CATALOGUE)
    assert proposal.edits == ()
    assert "nothing left to try" in proposal.note


def test_under_a_schedule_without_agency_another_experiment_decides_nothing_about_the_draft() -> None:
    improver = make_improver(probes=8)
    bench = Bench(instead=ProbeKind.ABLATE)
    proposal = improver.propose(make_view(improver), bench)
    assert proposal.edits
    assert sum(found.units for found in bench.asked) == 8
    assert all(found.kind is ProbeKind.ABLATE for found in bench.asked)
    assert read_note(proposal.note).tried == {}


def test_canaries_of_the_policy_run_before_submission_and_broken_ones_are_declared() -> None:
    improver = make_improver(trust=50.0, probes=24, canaries=3)
    fragile = dict.fromkeys(USEFUL.values(), ("task-90",))
    bench = Bench(fragile=fragile)
    only = {task: trace for task, trace in TRACES.items() if CAUSE_OF.get(task, "shell") == "shell"}
    proposal = improver.propose(make_view(improver, traces=only), bench)
    runs = [found for found in bench.asked if found.kind is ProbeKind.RUN_EPISODE]
    assert {found.tasks[0] for found in runs} == {"task-90", "task-91", "task-92"}
    assert proposal.at_risk == ("task-90",)
    assert improver.propose(make_view(improver, traces=only), Bench()).at_risk == ()


def test_entries_that_are_applied_dead_or_rejected_are_not_proposed_again() -> None:
    improver = make_improver()
    seen: set[str] = set()
    head = HEAD
    for _ in range(len(CATALOGUE)):
        proposal = improver.propose(make_view(improver, head=head), Bench(NOTHING))
        (name,) = [name for name in names_in(proposal) if name not in seen]
        seen.add(name)
        head = apply_edits(head, proposal.edits)
    assert improver.propose(make_view(improver, head=head), Bench(NOTHING)).edits == ()

    first = improver.propose(make_view(improver), Bench(NOTHING))
    dead = frozenset({edits_digest(first.edits)})
    assert improver.propose(make_view(improver, dead_edits=dead), Bench(NOTHING)).edits != first.edits
    rejected = RoundNote(round=1, verdict="reject", note=first.note)
    assert improver.propose(make_view(improver, history=(rejected,)), Bench(NOTHING)).edits != first.edits


def test_edit_size_adds_entries_that_have_helped_and_no_others() -> None:
    improver = make_improver(edit_size=3)
    assert len(names_in(improver.propose(make_view(improver), Bench(NOTHING)))) == 1
    helped = {(SIGNATURE[cause], name): (3, 1) for cause, name in USEFUL.items()}
    refuted = {(SIGNATURE[cause], f"{cause}_null"): (1, 2) for cause in USEFUL}
    notes = Beliefs(helped | refuted).written(improver.start_method[NOTES_FILE], EDIT_TABLE, limit_bytes=10_000)
    view = make_view(improver, method=method_candidate({**improver.start_method, NOTES_FILE: notes}))
    proposal = improver.propose(view, Bench(NOTHING))
    assert len(names_in(proposal)) == 3
    assert len(proposal.edits) == 1  # they share a file, which is written once
    submitted = read_note(proposal.note).submitted
    assert set(submitted) == set(names_in(proposal))
    assert set(submitted[1:]) <= set(USEFUL.values())


def test_an_entry_that_helped_before_is_taken_up_again() -> None:
    improver = make_improver(trust=0.0)
    helped = {(SIGNATURE["shell"], "shell_good"): (9, 1)}
    notes = Beliefs(helped).written(improver.start_method[NOTES_FILE], EDIT_TABLE, limit_bytes=10_000)
    method = method_candidate({**improver.start_method, NOTES_FILE: notes})

    def taken(method: Candidate, head: Candidate = HEAD) -> int:
        views = [make_view(improver, method=method, head=head, seed=seed) for seed in range(40)]
        return sum("shell_good" in read_note(improver.propose(view, Bench(NOTHING)).note).submitted for view in views)

    assert taken(method) > 2 * taken(method_candidate(improver.start_method))
    there = apply_edits(HEAD, next(one for one in CATALOGUE if one.name == "shell_good").apply({}))
    assert taken(method, there) == 0


def test_one_confirmed_flip_of_three_is_not_the_end_of_the_search() -> None:
    improver = make_improver(trust=50.0, probes=24)
    only = {task: trace for task, trace in TRACES.items() if CAUSE_OF.get(task, "shell") == "shell"}
    view = make_view(improver, traces=only)
    strong, weak = Bench(), Bench(weak=[task for task, cause in CAUSE_OF.items() if cause == "shell"][1:])
    assert len(improver.propose(view, strong).predicted_fixes) == 3
    proposal = improver.propose(view, weak)  # half or more of the targets never flip
    supporting = [found.edits for found in weak.asked if found.verdict == "supports"]
    assert [found.verdict for found in strong.asked][-1] == "supports"
    assert len(weak.asked) > len(strong.asked)
    assert edits_digest(proposal.edits) in supporting


def test_after_a_harmful_round_it_branches_from_the_state_before() -> None:
    improver = make_improver()
    kept = Candidate(files={**HEAD.files, "workflow.md": "[tests_bad]\n"})
    harmful = RoundNote(round=2, verdict="accept", label="HARMFUL", note=LabNote(submitted=("tests_bad",)).text())
    view = make_view(improver, head=kept, bases={0: HEAD, 2: kept}, history=(harmful,))
    bench = Bench()
    proposal = improver.propose(view, bench)
    assert proposal.base_round == 0
    assert "tests_bad" not in names_in(proposal)
    assert {found.base for found in bench.asked if found.edits} == {"base 0"}
    effective = harmful.model_copy(update={"label": "EFFECTIVE"})
    assert improver.propose(replace(view, history=(effective,)), Bench()).base_round is None
    assert make_improver(branch=False).propose(view, Bench()).base_round is None


def test_extinct_signatures_are_skipped_and_growing_ones_preferred() -> None:
    improver = make_improver(trust=50.0)
    extinct = tuple(entry(cause, "EXTINCT") for cause in ("tests", "shell"))
    growing = (entry("shell", "GROWING"),)

    def causes(ledger: tuple[SignatureEntry, ...]) -> list[str]:
        seeds = range(40)
        found = [improver.propose(make_view(improver, ledger=ledger, seed=seed), Bench(NOTHING)) for seed in seeds]
        return [CAUSE_OF[proposal.predicted_fixes[0]] for proposal in found]

    assert set(causes(extinct)) == {"keep_mend"}
    assert causes(growing).count("shell") > 30 > causes(()).count("shell")


def test_attribution_restricts_the_reading_and_guidance_the_choice() -> None:
    improver = make_improver(error=0.0)
    reader = improver._reader(TRACES)
    told = tuple(attribution(task, "commission") for task, cause in CAUSE_OF.items() if cause == "tests")
    free = {case.signature: case.reading for case in read_cases(TRACES, (), (), reader)}
    bound = {case.signature: case.reading for case in read_cases(TRACES, told, (), reader)}
    assert free[SIGNATURE["tests"]] == "tests"
    assert bound[SIGNATURE["tests"]] == "keep_mend"
    assert {case.tasks[0] for case in read_cases(TRACES, told[2:3], (), reader)} >= {told[2].task}

    classes = tuple(CLASS_CAUSES)
    focused = [focus_of(block, classes, CLASS_CAUSES) for block in DEFAULT_BLOCKS]
    assert focused == [{"tests", "locate"}, {"keep_mend", "locate"}, {"shell", "traceback"}]
    assert focus_of("Read.\nFocus: shell, unknown", classes, CLASS_CAUSES) == {"shell"}
    assert focus_of("Find what most failures share.", classes, CLASS_CAUSES) == frozenset()


def test_readings_are_wrong_as_often_as_the_option_says_and_the_same_in_a_whole_run() -> None:
    improver = make_improver(error=0.4)
    view = make_view(improver)
    readings = [
        {
            case.signature: case.reading
            for case in read_cases(view.traces, (), (), make_improver(error=0.4, seed=s)._reader(()))
        }
        for s in range(400)
    ]
    truth = {SIGNATURE[cause]: cause for cause in SIGNATURE}
    wrong = sum(one[failure] != truth[failure] for one in readings for failure in truth) / (3 * 400)
    assert wrong == pytest.approx(0.4, abs=4 * (0.24 / 1200) ** 0.5)
    derived = make_improver(error=0.4, seed=None)
    assert derived._reader(TRACES).seed == derived._reader(sorted(TRACES, reverse=True)).seed
    assert derived._reader(TRACES).seed != derived._reader(list(TRACES)[1:]).seed


def test_beliefs_outweigh_a_reading_once_they_are_counted() -> None:
    improver = make_improver(error=0.0)
    beliefs = Beliefs({(SIGNATURE["tests"], "tests"): (1, 30), (SIGNATURE["tests"], "shell"): (30, 1)})
    notes = beliefs.written(improver.start_method[NOTES_FILE], CLASS_TABLE, limit_bytes=10_000)
    method = method_candidate({**improver.start_method, NOTES_FILE: notes})
    only = {task: trace for task, trace in TRACES.items() if CAUSE_OF.get(task, "tests") == "tests"}
    chosen = [
        names_in(improver.propose(make_view(improver, traces=only, method=method, seed=seed), Bench(NOTHING)))[0]
        for seed in range(20)
    ]
    assert sum(name.startswith("shell") for name in chosen) >= 18
    believed = improver.believed(method.files, list(SIGNATURE.values()), tasks=TRACES)
    assert believed == {SIGNATURE["tests"]: "shell", SIGNATURE["shell"]: "shell", SIGNATURE["keep_mend"]: "keep_mend"}


def test_repair_drops_the_predictions_that_the_fault_names() -> None:
    improver = make_improver(trust=50.0)
    view = make_view(improver)
    proposal = improver.propose(view, Bench(NOTHING))
    faulty, *others = proposal.predicted_fixes
    fault = f"predicted_fixes holds {faulty!r}, which did not pass under exactly these edits"
    repaired = improver.repair(view, proposal, fault, Bench(NOTHING))
    assert repaired.edits == proposal.edits
    assert repaired.predicted_fixes == tuple(others)
    assert [claim.task for claim in repaired.claims] == others


def test_repair_takes_another_edit_for_any_other_fault_and_forgets_no_evidence() -> None:
    improver = make_improver(probes=24)
    view = make_view(improver)
    bench = Bench()
    proposal = improver.propose(view, bench)
    given = [proposal.edits]
    for _ in range(3):
        proposal = improver.repair(view, proposal, "the edits repeat a dead edit", bench)
        assert proposal.edits not in given
        given.append(proposal.edits)
    tried = read_note(proposal.note).tried
    assert set(tried) == {found.id for found in bench.asked if found.edits}
    assert read_note(proposal.note).aside


def test_with_nothing_left_to_repair_to_it_says_so() -> None:
    improver = make_improver()
    head = HEAD
    for one in CATALOGUE[1:]:
        head = apply_edits(head, one.apply(head.files))
    view = make_view(improver, head=head)
    proposal = improver.propose(view, Bench(NOTHING))
    assert names_in(proposal)[0] == CATALOGUE[0].name
    assert improver.repair(view, proposal, "leak: overlap with a patch", Bench(NOTHING)).edits == ()


def test_suggestions_for_the_minimiser_are_in_range_deterministic_and_wrong_at_the_stated_rate() -> None:
    sure, unsure = make_improver(error=0.0), make_improver(error=0.4)
    trace = make_trace("task-00", "tests")
    assert sure.suggest(trace, "") == (4,)
    assert sure.suggest(trace, "another error class") == (0, 1, 2, 3)
    assert sure.suggest(replace(trace, steps=()), "") is None
    traces = [make_trace(f"task-{number}", "shell") for number in range(600)]
    found = [unsure.suggest(one, "") for one in traces]
    assert found == [make_improver(error=0.4).suggest(one, "") for one in traces]
    assert all(keep is not None and set(keep) <= set(range(5)) for keep in found)
    other = sum(keep != (4,) for keep in found) / 600  # a wrong guess is one of five, so the right one by luck too
    assert other == pytest.approx(0.4 * 4 / 5, abs=4 * (0.32 * 0.68 / 600) ** 0.5)


def test_the_suspect_is_the_last_command_that_may_undo_another() -> None:
    assert suspect_step(make_trace("t", "tests")) == 3
    assert suspect_step(replace(make_trace("t", "tests"), steps=())) is None


def test_nothing_is_reachable_from_the_improver_but_its_options_and_its_catalogue() -> None:
    improver = make_improver()
    view = make_view(improver)
    improver.propose(view, Bench())
    assert reached(improver, ["mend task-00", "task-00", "Mend it."]) == set()


def test_notes_are_read_back_whatever_the_reason_says() -> None:
    note = LabNote(
        "x; submitted evil; tried 1/0/0=evil", ("a", "b-c"), {"1/0/2": ("a", "b-c"), "1/-1/0": ("d",)}, ("e",)
    )
    found = read_note(note.text())
    assert found == LabNote("", ("a", "b-c"), {"1/0/2": ("a", "b-c"), "1/-1/0": ("d",)}, ("e",))
    assert read_note("a person's words") == LabNote()
    assert "\n" not in note.text()


def test_agent_improvers_have_a_door_of_their_own() -> None:
    assert set(AGENT_IMPROVERS) == {"catalog", "llm"}
    assert not set(AGENT_IMPROVERS) & set(IMPROVERS)
    made = make_agent_improver(ImproverConfig(kind="catalog", options={"diagnosis": "catalog_world:diagnose"}))
    assert is_agent(made)
    assert not is_agent(make_any(ImproverConfig()))
    with pytest.raises(SetupError, match=r"'catalog' edits agent harnesses.*demonstrations, rewrite, simulated"):
        make_any(ImproverConfig(kind="catalog", options={"diagnosis": "catalog_world:diagnose"}))
    with pytest.raises(SetupError, match=r"'demonstrations' edits prompts.*catalog, llm.*agent = True"):
        make_agent_improver(ImproverConfig())
    with pytest.raises(SetupError, match="no improver 'catalogue'; there is catalog, demonstrations"):
        make_agent_improver(ImproverConfig(kind="catalogue"))


def test_options_and_catalogues_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SetupError, match="allowed are catalogue, diagnosis, error"):
        make_improver(epsilon=0.4)
    with pytest.raises(SetupError, match="error"):
        make_improver(error=1.5)
    with pytest.raises(SetupError, match="no catalogue 'nothing'; there is repair"):
        make_improver(catalogue="nothing")
    with pytest.raises(SetupError, match=r"a name of its own.*'double'"):
        make_improver(catalogue="test_catalog_improver:DOUBLED")


DOUBLED = (Entry("double", "tests", True), Entry("double", "shell", True))


def test_the_catalogue_of_repair_fits() -> None:
    improver = make_agent_improver(ImproverConfig(kind="catalog"))
    proposal = improver.propose(make_view(improver), Bench(NOTHING))  # type: ignore[arg-type]
    assert proposal.edits
    assert proposal.predicted_fixes
