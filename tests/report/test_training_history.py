"""What the index says of a loop over model weights, with answers worked out by hand from the story."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from training_story import AGAIN, EPISODE, FINAL, LEDGER, REJECTED, START, W0, W1, W1_AGAIN, W4, Told, training_run

from heldout.records import Record
from heldout.report import (
    Fate,
    RunSummary,
    TrainingHistory,
    budget_of,
    candidates,
    ledger_rows,
    means,
    run_json,
    summary,
    training_history,
    verdict,
)
from heldout.report.training_history import trusted_of
from heldout.report.training_page import gather_training
from heldout.store import Index, Journal, RunFolder
from heldout.store.events import CandidateAdded, RunFinished
from heldout.store.training_events import AttemptEnded, Cluster, DatasetBuilt, Diagnosed, TrustedHash


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return training_run(tmp_path_factory.mktemp("told") / "run")


def whole(run: RunFolder) -> tuple[RunSummary, TrainingHistory]:
    with Index.open(run) as index:
        found = summary(index.connection)
    assert found.training is not None
    return found, found.training


def test_every_round_says_how_its_attempt_ended(run: RunFolder) -> None:
    _, training = whole(run)
    assert [(one.number, one.state, one.focal, one.strategy) for one in training.rounds] == [
        (1, "accepted", "stop", "end_token"),
        (2, "failed preflight", "wrapper", "wrong_template"),
        (3, "contaminated data", "wrapper", "leak_select"),
        (4, "rejected", "wrapper", "wrapper_data"),
        (5, "training died", "wrapper", "huge_rate"),
        (6, "not measured", "", ""),
    ]
    assert [one.gain for one in training.rounds] == [0.4, None, None, -0.1, None, None]
    assert [one.repairs for one in training.rounds] == [0, 1, 0, 0, 0, 0]
    assert [one.passed_preflight for one in training.rounds] == [True, False, None, True, True, None]


def test_a_round_that_the_run_did_not_finish_is_open(tmp_path: Path) -> None:
    run = training_run(tmp_path / "run", Told(rounds=1, finished=False))
    with Journal.open(run.events) as journal:
        journal.append("diagnosis", Diagnosed(round=2, head=FINAL.digest, n=20, score=0.5, focal="wrapper"))
    _, training = whole(run)
    assert [one.state for one in training.rounds] == ["accepted", "open"]
    assert training.rounds[1].spend is None


def test_the_dominant_error_is_the_most_frequent_first_fault_and_what_stays_stands_once(run: RunFolder) -> None:
    _, training = whole(run)
    assert training.dominant == ("stop", "wrapper")
    assert training.dominant_line == "The dominant error went stop → wrapper."
    assert training.codes == ("wrapper", "carry", "stop")


def test_the_dominant_error_is_not_the_focal_one_where_another_is_more_frequent(tmp_path: Path) -> None:
    run = training_run(tmp_path / "run", Told(rounds=0, finished=False))
    clusters = (Cluster(code="case", count=3, share=0.3, recoverable=9.0), Cluster(code="word", count=5, share=0.5))
    with Journal.open(run.events) as journal:
        diagnosed = Diagnosed(round=1, head=START.digest, n=10, score=0.2, clusters=clusters, focal="case")
        journal.append("diagnosis", diagnosed)
    _, training = whole(run)
    assert training.dominant_line == "The dominant error was word throughout."
    assert training.rounds[0].focal_cluster == clusters[0]


def test_the_wasted_share_is_of_the_search_and_counts_every_attempt_in_vain(run: RunFolder) -> None:
    found, training = whole(run)
    budget = budget_of(found, training)
    told = [(one.where, one.attempts, one.spend.wall_s) for one in budget.wasted]
    assert told == [
        ("before the full training", 2, 12.0),
        ("in the full training", 1, 6.0),
        ("after the full training, not kept", 1, 28.0),
        ("by an accident", 1, 1.0),
    ]
    sweeps = (40 + 40) * EPISODE.wall_s
    events = 5 * LEDGER["diagnose"] + 5 * LEDGER["research"] + 6 * LEDGER["build"] + 4 * LEDGER["training"]
    climbed = 5 * LEDGER["a"] + 4 * LEDGER["b"]
    assert budget.search.wall_s == pytest.approx(sweeps + events + climbed)
    assert budget.wasted_share == pytest.approx(47.0 / (sweeps + events + climbed))
    assert {one.purpose for one in budget.purposes if one.after} == {"audit", "retain"}


BUDGET = "budget.evaluations = 500 leaves no room for"


@pytest.mark.parametrize(("purpose", "events"), [("train", 4 * 0.1), ("select", 0.5 + 1.0 + 0.5 + 3.0 + 5.0 + 7 * 0.1)])
def test_the_round_that_the_budget_ended_has_its_own_place_and_cost(
    purpose: str, events: float, tmp_path: Path
) -> None:
    found, training = whole(training_run(tmp_path / "run", Told(stopped=f"{BUDGET} {purpose}")))
    last, budget = training.rounds[-1], budget_of(found, training)
    assert (last.number, last.status, last.state) == (7, "cut", "cut by the budget")
    assert last.reason == f"{BUDGET} {purpose}"
    assert last.spend is not None
    assert last.spend.wall_s == pytest.approx(events)  # of the audit and the report role, which follow, nothing
    assert [(one.where, one.attempts) for one in budget.wasted][-1] == ("cut by the budget", 1)
    assert budget.lost.wall_s == pytest.approx(47.0 + events)
    told = json.loads(run_json(found).model_dump_json())["training"]
    assert told["rounds"][-1]["status"] == "cut"
    assert told["rounds"][-1]["spend"]["wall_s"] == pytest.approx(events)
    assert told["budget"]["wasted_s"] == pytest.approx(47.0 + events)


def test_only_a_run_that_its_budget_ended_has_a_round_that_was_cut(tmp_path: Path) -> None:
    _, running = whole(training_run(tmp_path / "running", Told(stopped=BUDGET, finished=False)))
    assert [one.number for one in running.rounds] == [1, 2, 3, 4, 5, 6]
    resumed = training_run(tmp_path / "resumed", Told(stopped=BUDGET))
    with Journal.open(resumed.events) as journal:
        journal.append("diagnosis", Diagnosed(round=7, head=FINAL.digest, n=20, score=0.5))
    assert whole(resumed)[1].rounds[-1].status == "open"
    _finish(resumed, "improved")
    assert whole(resumed)[1].rounds[-1].status == "open"
    _finish(resumed, "stopped")
    assert whole(resumed)[1].rounds[-1].status == "cut"
    with Journal.open(resumed.events) as journal:
        journal.append("attempt", AttemptEnded(round=7, status="no_strategy", reason="nothing is left"))
    _finish(resumed, "stopped")
    ended = whole(resumed)[1].rounds[-1]
    assert (ended.status, ended.cut) == ("no_strategy", None)


def _finish(run: RunFolder, status: str) -> None:
    done = RunFinished(
        status=status, stop_reason="", start=START.digest, final=FINAL.digest, start_select=0.2,
        final_select=0.6, elapsed_s=1.0,
    )  # fmt: skip
    with Journal.open(run.events) as journal:
        journal.append("run.finished", done)


def test_a_builder_that_gave_up_repaired_nothing(tmp_path: Path) -> None:
    run = training_run(tmp_path / "run", Told(rounds=0, finished=False))
    with Journal.open(run.events) as journal:
        journal.append("dataset", DatasetBuilt(round=1, size=9, recipe={"builder": "formats:end"}))
        journal.append("dataset", DatasetBuilt(round=1, attempt=1, error="no rule mends that"))
        journal.append("attempt", AttemptEnded(round=1, status="preflight_failed", reason="template"))
    found, training = whole(run)
    assert training.rounds[0].repairs == 0
    assert json.loads(run_json(found).model_dump_json())["training"]["rounds"][0]["repairs"] == 0
    with Journal.open(run.events) as journal:
        journal.append("dataset", DatasetBuilt(round=1, attempt=1, size=9, recipe={"builder": "formats:end"}))
    assert whole(run)[1].rounds[0].repairs == 1


def test_seconds_by_purpose_add_up_to_the_ledger(run: RunFolder) -> None:
    found, training = whole(run)
    with Index.open(run) as index:
        total = sum(row.spend.wall_s for row in ledger_rows(index.connection))
    assert sum(one.spend.wall_s for one in budget_of(found, training).purposes) == pytest.approx(total)


def test_no_attempt_in_vain_wastes_nothing(tmp_path: Path) -> None:
    found, training = whole(training_run(tmp_path / "run", Told(rounds=1)))
    assert budget_of(found, training).wasted_share == 0.0


def test_the_lineage_names_weights_parents_and_fates(run: RunFolder) -> None:
    _, training = whole(run)
    rows = [(one.round, one.kind, one.candidate, one.weights, one.parent, one.fate) for one in training.models]
    assert rows == [
        (0, "start", START.digest, W0, None, "start"),
        (1, "child", FINAL.digest, W1, W0, "accepted"),
        (1, "second seed", AGAIN.digest, W1_AGAIN, W0, "not weighed"),
        (4, "child", REJECTED.digest, W4, W1, "rejected"),
    ]
    assert [one.score for one in training.models] == [0.2, 0.6, 0.7, 0.5]
    assert [one.gain for one in training.models] == [None, 0.4, None, -0.1]
    assert training.weights_of(FINAL.digest) == W1


@pytest.mark.parametrize(("finished", "fate"), [(True, "cut by the budget"), (False, "open")])
def test_a_child_has_the_state_of_its_round_where_no_attempt_ended(tmp_path: Path, finished: bool, fate: str) -> None:
    run = training_run(tmp_path / "run", Told(stopped=f"{BUDGET} select", finished=finished))
    with Journal.open(run.events) as journal:
        child = CandidateAdded(digest="7e" * 32, parent=FINAL.digest, track="model", generation=7, index=0)
        journal.append("candidate", child)
    assert whole(run)[1].models[-1].fate == fate


def test_every_model_has_a_fate_and_a_second_seed_is_weighed_by_no_gate(run: RunFolder) -> None:
    with Index.open(run) as index:
        known = means(index.connection)
        training = training_history(index.connection, known=known)
        rows = candidates(index.connection, known=known, training=training)
    assert [(row.generation, row.index, row.fate) for row in rows] == [
        (0, 0, Fate.START),
        (1, 0, Fate.ACCEPTED),
        (1, 1, Fate.PENDING),
        (4, 0, Fate.REJECTED),
    ]
    assert "another seed" in rows[2].reason


def test_a_floor_opens_its_role_and_every_view_is_told(tmp_path: Path) -> None:
    found, training = whole(training_run(tmp_path / "run", Told(floor=True)))
    assert training.floor is not None
    assert training.floor.role == "retain"
    assert [one.candidate for one in training.floor.measured] == [FINAL.digest]
    assert training.floor.sentence in found.notes
    assert "retain" not in {one.purpose for one in budget_of(found, training).purposes if one.after}
    assert whole(training_run(tmp_path / "without"))[1].floor is None


def test_where_the_diagnosed_tasks_decide_scores_are_those_and_a_note_says_so(tmp_path: Path) -> None:
    found, training = whole(training_run(tmp_path / "run", Told(decide_on="train")))
    assert training.decides_on == "train"
    assert found.final.select.value == 0.6
    assert any("options.decide_on" in note for note in found.notes)
    assert whole(training_run(tmp_path / "plain"))[1].decides_on == "select"


def test_a_recorded_gain_stands_beside_the_believed_one_only_where_finalists_were_measured_anew(tmp_path: Path) -> None:
    anew, _ = whole(training_run(tmp_path / "fresh", Told(fresh=True)))
    assert (anew.gains.recorded, anew.gains.believed) == pytest.approx((0.4, 0.2))
    plain, _ = whole(training_run(tmp_path / "plain"))
    assert (plain.gains.recorded, plain.gains.believed) == (None, pytest.approx(0.4))
    assert plain.gains.corrected is None


def test_a_final_that_is_the_start_is_no_gain_and_its_weights_are_the_parents(tmp_path: Path) -> None:
    found, training = whole(training_run(tmp_path / "run", Told(moved=False)))
    assert found.status == "unchanged"
    assert verdict(found).tone == "same"
    assert training.weights_of(found.final.digest) == W0


def test_trusted_parts_are_unchanged_or_the_change_is_named(tmp_path: Path, run: RunFolder) -> None:
    trusted = whole(run)[1].trusted
    assert trusted is not None
    assert trusted.sentence.endswith("before and after each of 6 rounds: unchanged.")
    found, training = whole(training_run(tmp_path / "run", Told(changed=True, rounds=1, finished=False)))
    assert training.trusted is not None
    assert training.trusted.sentence == "Trusted parts CHANGED (round 1: grader): the run is void from there on."
    assert training.trusted.sentence in found.notes


def test_a_change_between_two_rounds_is_named_too() -> None:
    digests = {"grader": "a"}
    hashes = [
        TrustedHash(round=1, moment="before", digests=digests),
        TrustedHash(round=1, moment="after", digests=digests),
        TrustedHash(round=2, moment="before", digests={"grader": "b"}, changed=("grader",)),
    ]
    trusted = trusted_of(hashes)
    assert trusted is not None
    assert trusted.sentence == "Trusted parts CHANGED (between rounds 1 and 2: grader): the run is void from there on."
    assert (trusted.changed, trusted.between) == ({2: ("grader",)}, (2,))
    during = trusted_of([*hashes[:1], hashes[1].model_copy(update={"changed": ("grader",)})])
    assert during is not None
    assert (during.changed, during.between) == ({1: ("grader",)}, ())


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("diagnosis", Diagnosed(round=7, head=FINAL.digest, n=20, score=0.5)),
        ("attempt", AttemptEnded(round=7, status="no_strategy", reason="nothing is left")),
    ],
)
def test_work_after_the_end_of_a_search_makes_a_run_unfinished_again(
    run: RunFolder, tmp_path: Path, kind: str, payload: Record
) -> None:
    assert whole(run)[0].status == "improved"
    resumed = training_run(tmp_path / "run")
    with Journal.open(resumed.events) as journal:
        journal.append(kind, payload)
    assert whole(resumed)[0].finished is None
    _finish(resumed, "improved")
    assert whole(resumed)[0].status == "improved"


def test_the_json_object_has_rounds_models_abilities_and_the_wasted_share(run: RunFolder) -> None:
    found, _ = whole(run)
    told = json.loads(run_json(found).model_dump_json())
    assert told["skills"] is None
    assert told["agents"] is None
    training = told["training"]
    assert [one["status"] for one in training["rounds"]] == [
        *("accepted", "preflight_failed", "contaminated", "rejected", "training_failed", "not_measured"),
    ]
    first, second, third = training["rounds"][:3]
    assert first["faults"] == {"stop": 12, "wrapper": 4, "carry": 2}
    assert [one["id"] for one in first["strategies"]] == ["end_token", "mixture_all", "null_paraphrase"]
    assert first["datasets"][0]["removed"] == {"13-gram": 2, "duplicate": 1}
    assert [(one["attempt"], one["stage"], one["passed"]) for one in second["preflight"]] == [
        *((0, "a", False), (1, "a", True), (1, "b", False)),
    ]
    assert third["datasets"][0]["voided"].startswith("40%")
    assert training["dominant_errors"] == ["stop", "wrapper"]
    assert (training["start_weights"], training["final_weights"]) == (W0, W1)
    assert {one["family"]: one["gain"] for one in training["families"]["retain"]} == {"copy": 0.0, "sort": -5 / 6}
    assert training["budget"]["wasted_s"] == 47.0
    assert [one["validated_on"] for one in training["assets"]] == [W1, W1]
    assert training["noise"]["standard_error"] == 0.0707


def test_the_page_knows_which_weights_are_still_on_disk(run: RunFolder) -> None:
    found, training = whole(run)
    with Index.open(run) as index:
        shown = gather_training(found, means(index.connection), training=training, run=run)
    assert [one.on_disk for one in shown.models] == [True, True, False, False]
    assert [one.is_final for one in shown.models] == [False, True, False, False]
    assert (shown.final_on_disk, shown.final_is_adapters) == (True, False)


def test_a_loop_that_trains_nothing_has_no_training_history(tmp_path: Path) -> None:
    from skill_story import skill_run

    with Index.open(skill_run(tmp_path / "run")) as index:
        assert training_history(index.connection) is None
        assert summary(index.connection).skills is not None
