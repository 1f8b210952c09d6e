"""Whole runs: what they leave behind, and the invariants of the loop's specification (section 9)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from run_events import of_kind, paid, rows_file

from heldout.config import RunConfig, load_config
from heldout.errors import SetupError, StoreError, TaskError
from heldout.gates import GATES
from heldout.report import Fate, candidates, summary
from heldout.store import Index, RunFolder, RunLock
from heldout.store.events import AuditResult
from heldout.tasks import load_source
from heldout.testing.object_graph import reached
from heldout.workbench import Opening, audit, improve, resume, run

Config = Callable[..., RunConfig]
Finish = Callable[[RunConfig], RunFolder]

SPY = """
from heldout.improvers import make_improver
from heldout.config import ImproverConfig

SEEN = []

class Spy:
    uses_model = False
    def __init__(self, config, model):
        self.inner = make_improver(ImproverConfig(kind="demonstrations"), model=model)
        self.model = model
    def propose(self, view):
        SEEN.append((self, view))
        return self.inner.propose(view)
"""


GOLD: Mapping[str, Any] = {"tasks": {"reports": {"gold": 20}}, "audit": {"oracle": "gold"}}


def test_a_run_leaves_a_complete_folder(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny())
    left = {entry.name for entry in folder.path.iterdir()}
    assert left >= {"config.toml", "events.jsonl", "index.sqlite", "report.html", "blobs"}
    (finished,) = of_kind(folder, "run.finished")
    assert finished["status"] in ("improved", "unchanged")
    for candidate in of_kind(folder, "candidate"):
        assert folder.load(candidate["digest"]).digest == candidate["digest"]


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tiny: Config, finish: Finish) -> None:
    first, second, third = (finish(tiny({"seed": seed})) for seed in (1, 1, 2))
    assert of_kind(first, "decision") == of_kind(second, "decision")
    assert of_kind(first, "candidate") == of_kind(second, "candidate")
    assert of_kind(first, "candidate") != of_kind(third, "candidate")


def test_executors_change_no_result(tiny: Config, finish: Finish) -> None:
    runs = [finish(tiny({"executor": {"kind": kind, "workers": 3}})) for kind in ("inline", "threads")]
    assert of_kind(runs[0], "decision") == of_kind(runs[1], "decision")


def test_no_select_audit_or_gold_body_is_reachable_from_what_an_improver_is_handed(
    tiny: Config, finish: Finish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spy_improver_of_the_test.py").write_text(SPY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = tiny({"improver": {"kind": "spy_improver_of_the_test:Spy"}}).model_dump(mode="json")
    reports = {"gold": 20, "ood": 10}
    settings["tasks"] = {"source": "questions", "train": 24, "select": 12, "audit": 20, "reports": reports}
    config = load_config([settings])
    folder = finish(config)
    import spy_improver_of_the_test as spy

    assert len(spy.SEEN) == 4
    bodies = {item.id: item.input for item in load_source(config.tasks).items()}
    split_ids = {data["task"] for data in of_kind(folder, "outcome")}
    train = {task.id for _, view in spy.SEEN for task in view.train}
    secret = [bodies[task] for task in split_ids - train]
    assert len(secret) >= 12 + 20
    everything_else = [text for task, text in bodies.items() if task not in train]
    assert reached(spy.SEEN, everything_else) == set()
    assert reached(spy.SEEN, [bodies[task] for task in train]) == {bodies[task] for task in train}


def test_the_task_set_that_a_loop_holds_reaches_no_sealed_body(tiny: Config) -> None:
    from heldout.tasks import load_tasks

    config = tiny({"tasks": {"reports": {"gold": 20}}}).tasks
    tasks = load_tasks(config)
    sealed = {task for role in tasks.sealed.values() for task in role.ids}
    bodies = [item.input for item in load_source(config).items() if item.id in sealed]
    assert len(bodies) == 40
    assert reached(tasks, bodies) == set()


def test_changing_any_gold_or_audit_label_changes_no_decision(tiny: Config, finish: Finish, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    first = finish(tiny(GOLD))
    opened = [data for data in of_kind(first, "outcome") if data["purpose"] in ("audit", "gold")]
    assert opened
    # Another answer of the same closed set: the set itself is known to everybody.
    flipped = {data["task"]: "small" if int(data["task"].split("-")[1]) % 2 else "big" for data in opened}
    rows_file(path, labels=flipped)
    second = finish(tiny(GOLD))
    assert of_kind(first, "decision") == of_kind(second, "decision")
    assert of_kind(first, "track.moved") == of_kind(second, "track.moved")
    assert of_kind(first, "role.scored") != of_kind(second, "role.scored")


def test_the_oracle_scores_every_candidate_and_only_after_the_audit(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny(GOLD))
    scored = of_kind(folder, "role.scored")
    assert [one["candidate"] for one in scored] == [one["digest"] for one in of_kind(folder, "candidate")]
    from heldout.store import read_events

    events = list(read_events(folder.events))
    finished = next(event.seq for event in events if event.kind == "run.finished")
    gold = [event.seq for event in events if event.kind == "outcome" and event.data["purpose"] == "gold"]
    assert gold
    assert min(gold) > finished


def test_report_roles_are_measured_and_shown(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny({"seed": 3, "tasks": {"reports": {"gold": 20, "test": 10}}}))
    with Index.open(folder.path) as index:
        found = summary(index.connection)
    assert [(one.role, one.n_tasks) for one in found.reports] == [("gold", 20), ("test", 10)]
    assert "Report roles" in folder.report.read_text()


def test_the_audit_opens_once_and_a_second_opening_is_recorded(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny({"audit": {"auto": False}, "seed": 3}))
    assert of_kind(folder, "audit") == []
    opening = Opening(folder.path, command="heldout audit", resume=True)
    result = audit(opening)
    assert result.verdict != "unchanged", "the test needs a seed under which something is accepted"
    before = paid(folder, "audit")
    with pytest.raises(SetupError, match=r"was opened before.*points on 20 tasks.*--again"):
        audit(opening)
    assert audit(opening, again=True).gain == result.gain
    assert paid(folder, "audit") == before
    assert [data.get("again", False) for data in of_kind(folder, "audit.opened")] == [False, True]


def test_an_audit_equals_the_difference_of_its_outcomes(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny({"seed": 3}))
    result = AuditResult.model_validate(of_kind(folder, "audit")[-1])
    rows = [data for data in of_kind(folder, "outcome") if data["purpose"] == "audit"]
    scores = {(data["candidate"], data["task"]): data["score"] for data in rows}
    tasks = {task for _, task in scores}
    gains = [scores[result.final, task] - scores[result.start, task] for task in tasks]
    assert result.gain == pytest.approx(sum(gains) / len(gains))
    assert result.n_tasks == len(tasks) == 20
    assert (result.fixed, result.broken) == (gains.count(1.0), gains.count(-1.0))


def test_start_equal_to_final_is_nothing_improved_and_leaves_the_audit_sealed(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny({"gate": {"kind": "pace"}}))  # PACE cannot commit on so few tasks
    (finished,) = of_kind(folder, "run.finished")
    assert (finished["status"], finished["start"]) == ("unchanged", finished["final"])
    assert of_kind(folder, "audit.opened") == []
    (result,) = of_kind(folder, "audit")
    assert (result["gain"], result["verdict"]) == (0.0, "unchanged")


def test_a_budget_is_a_hard_stop_that_leaves_an_audited_run(tiny: Config, finish: Finish) -> None:
    limit = 95
    folder = finish(tiny({"budget": {"evaluations": limit}, "seed": 3}))
    (finished,) = of_kind(folder, "run.finished")
    assert finished["status"] == "stopped"
    assert "budget.evaluations = 95 leaves no room" in finished["stop_reason"]
    assert paid(folder) <= limit
    assert folder.report.is_file()
    with Index.open(folder.path) as index:
        found = summary(index.connection)
    assert found.status == "stopped"
    assert found.audit is not None
    assert found.audit.n_tasks in (0, 20)


def test_a_budget_below_the_audit_stops_before_the_search(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny({"budget": {"evaluations": 15}}))
    (finished,) = of_kind(folder, "run.finished")
    assert finished["status"] == "stopped"
    assert "audit" in finished["stop_reason"]
    assert paid(folder) <= 15
    assert folder.report.is_file()


def test_a_stopped_run_goes_on_under_a_larger_budget_unless_its_audit_was_opened(tiny: Config, finish: Finish) -> None:
    closed = {"audit": {"auto": False}, "seed": 3}
    folder = finish(tiny(closed, {"budget": {"evaluations": 95}}))
    whole = finish(tiny(closed))
    resume(Opening(folder.path, command="again", resume=True), config=tiny(closed, {"budget": {"evaluations": 10000}}))
    assert of_kind(folder, "run.finished")[-1]["final"] == of_kind(whole, "run.finished")[-1]["final"]
    assert paid(folder) == paid(whole)
    opened = finish(tiny({"seed": 3, "budget": {"evaluations": 95}}))
    if of_kind(opened, "audit.opened"):
        with pytest.raises(SetupError, match="a search that has seen it"):
            resume(Opening(opened.path, command="again", resume=True), config=tiny({"seed": 3}))


@pytest.mark.parametrize("kind", sorted(set(GATES) - {"bayes_pilot"}))
def test_every_gate_runs_a_whole_loop(tiny: Config, finish: Finish, kind: str) -> None:
    folder = finish(tiny({"gate": {"kind": kind, "fresh": 6, "repeats": 2}}))
    assert [data["decision"]["gate"] for data in of_kind(folder, "decision")] == [kind, kind]


def test_a_pilot_gives_the_bayes_gate_its_prior(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny({"gate": {"kind": "bayes_pilot", "pilot_tasks": 30, "pilot_candidates": 4}}))
    assert next(data["generation"] for data in of_kind(folder, "noise.estimated")) == 0
    assert paid(folder, "pilot") <= 30 * 5
    assert paid(folder, "pilot") > 30
    with Index.open(folder.path) as index:
        rows = candidates(index.connection)
    assert [row.fate for row in rows[:3]] == [Fate.START, Fate.PENDING, Fate.PENDING]
    assert rows[0].digest == of_kind(folder, "run.finished")[0]["start"]


def test_fresh_tasks_are_used_once(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny({"gate": {"kind": "fresh", "fresh": 5}, "search": {"generations": 4}, "seed": 3}))
    rows = [data for data in of_kind(folder, "outcome") if data["purpose"] == "fresh"]
    assert rows
    used: dict[str, set[str]] = {}
    for data in rows:
        used.setdefault(data["task"], set()).add(data["candidate"])
    assert all(len(candidates) <= 2 for candidates in used.values())


def test_best_of_n_proposes_everything_from_the_start(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny({"search": {"iterate": False, "generations": 3}}))
    start = of_kind(folder, "candidate")[0]["digest"]
    assert {data["parent"] for data in of_kind(folder, "candidate")[1:]} == {start}
    (decision,) = of_kind(folder, "decision")
    assert decision["generation"] == 3
    assert len(decision["candidates"]) == len(of_kind(folder, "candidate")) - 1


def test_a_rerun_incumbent_is_measured_anew_in_each_generation(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny({"search": {"rerun_incumbent": True}}))
    start = of_kind(folder, "candidate")[0]["digest"]
    repeats = {data.get("repeat", 0) for data in of_kind(folder, "outcome")
               if data["purpose"] == "select" and data["candidate"] == start}  # fmt: skip
    assert {0, 1} <= repeats


def test_resume_refuses_another_config_and_names_the_keys(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny())
    with pytest.raises(SetupError, match=r"another config.*Changed:\n  tasks\.select: 12 -> 13") as caught:
        resume(Opening(folder.path, command="again", resume=True), config=tiny({"tasks": {"select": 13}}))
    assert "executor" not in str(caught.value)


def test_resume_stops_where_the_tasks_changed_under_the_run(tiny: Config, finish: Finish, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    folder = finish(tiny())
    rows_file(path, labels={f"task-{number}": "big" for number in range(120)})
    with pytest.raises((StoreError, TaskError, SetupError)):
        resume(Opening(folder.path, command="again", resume=True))


def test_the_division_is_on_disk_without_a_body(tiny: Config, finish: Finish) -> None:
    config = tiny()
    folder = finish(config)
    text = (folder.blobs / "splits.json").read_text()
    plan = json.loads(text)
    assert {role: len(tasks) for role, tasks in plan.items()} == {"train": 24, "select": 12, "audit": 20}
    opened = {data["task"] for data in of_kind(folder, "outcome") if data["purpose"] == "select"}
    assert opened == {task for task, _ in plan["select"]}
    assert not any(item.input in text for item in load_source(config.tasks).items())


def test_a_second_writer_is_refused_by_name(tiny: Config, finish: Finish) -> None:
    import os

    folder = finish(tiny())
    with RunLock.acquire(folder.lock), pytest.raises(SetupError, match=f"process {os.getpid()}"):
        resume(Opening(folder.path, command="again", resume=True))


def test_a_finished_run_is_resumed_without_paying_anything(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny())
    before = (paid(folder), of_kind(folder, "audit"), of_kind(folder, "run.finished"))
    resume(Opening(folder.path, command="again", resume=True))
    assert (paid(folder), of_kind(folder, "audit"), of_kind(folder, "run.finished")) == before


def test_an_invalid_improver_costs_proposals_and_not_the_run(
    tiny: Config, finish: Finish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad_improver_of_the_test.py").write_text(
        "class Bad:\n"
        "    uses_model = False\n"
        "    def __init__(self, config, model): pass\n"
        "    def propose(self, view):\n"
        "        if view.index == 0: raise ValueError('broken')\n"
        "        return {'not': 'a proposal'} if view.generation == 1 else None\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = finish(tiny({"improver": {"kind": "bad_improver_of_the_test:Bad"}}))
    errors = [data["error"] for data in of_kind(folder, "proposal")]
    assert "ValueError: broken" in errors[0]
    assert "returned dict, not a Proposal" in errors[1]
    assert "nothing left to try" in errors[3]
    assert of_kind(folder, "run.finished")[0]["status"] == "unchanged"


def test_a_copy_of_the_incumbent_is_recorded_as_a_duplicate_and_never_scored(
    tiny: Config, finish: Finish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copying_improver_of_the_test.py").write_text(
        "from heldout.records import Proposal\n"
        "class Copy:\n"
        "    uses_model = False\n"
        "    def __init__(self, config, model): pass\n"
        "    def propose(self, view): return Proposal(files=view.incumbent.files, note='copy')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = finish(tiny({"improver": {"kind": "copying_improver_of_the_test:Copy"}}))
    assert len(of_kind(folder, "candidate")) == 1
    assert all(data["duplicate_of"] == data["digest"] for data in of_kind(folder, "proposal"))
    assert [data["decision"]["verdict"] for data in of_kind(folder, "decision")] == ["reject", "reject"]


def test_the_python_door(tiny: Config, tmp_path: Path) -> None:
    found = improve(tiny().model_dump(mode="json"), out=tmp_path / "mine")
    assert found.status in ("improved", "unchanged")
    assert (tmp_path / "mine" / "report.html").is_file()


def test_a_run_folder_that_is_taken_is_refused(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny())
    with pytest.raises(SetupError, match="holds a run already; continue it with --resume"):
        run(tiny(), Opening(folder.path, command="again"))


def test_an_edited_config_is_noticed(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny({"audit": {"auto": False}, "seed": 3}))
    text = folder.config.read_text()
    assert "confidence = 0.95" in text
    folder.config.write_text(text.replace("confidence = 0.95", "confidence = 0.51"))
    with pytest.raises(SetupError, match=r"config\.toml' was changed since the run began"):
        audit(Opening(folder.path, command="heldout audit", resume=True))


def test_another_run_that_opened_the_same_audit_tasks_is_named(tiny: Config, finish: Finish) -> None:
    first, second = finish(tiny({"seed": 3})), finish(tiny({"seed": 4}))
    assert of_kind(first, "audit")[-1].get("notes", []) == []
    if of_kind(second, "audit.opened"):
        assert "Another run has opened the same tasks before" in of_kind(second, "audit")[-1]["notes"][0]
        assert "opened the same tasks before" in second.report.read_text()


def test_audit_tasks_that_stand_in_the_candidate_are_counted(tiny: Config, finish: Finish) -> None:
    plain = finish(tiny({"seed": 3}))
    opened = [data["task"] for data in of_kind(plain, "outcome") if data["purpose"] == "audit"][:3]
    bodies = {item.id: item.input for item in load_source(tiny().tasks).items()}
    leak = "Say big or small. " + " ".join(bodies[task] for task in opened)
    folder = finish(tiny({"seed": 3, "solver": {"instruction": leak}}))
    notes = [note for data in of_kind(folder, "audit") for note in data.get("notes", [])]
    assert any("3 of the 20 tasks stand word for word in the start or the final candidate" in note for note in notes)


def test_an_audit_by_command_opens_the_report_roles_and_the_oracle_too(tiny: Config, finish: Finish) -> None:
    folder = finish(tiny(GOLD, {"audit": {"auto": False}, "seed": 3}))
    assert {data["purpose"] for data in of_kind(folder, "outcome")}.isdisjoint({"audit", "gold"})
    audit(Opening(folder.path, command="heldout audit", resume=True))
    assert {data["role"] for data in of_kind(folder, "audit")} == {"audit", "gold"}
    assert len(of_kind(folder, "role.scored")) == len(of_kind(folder, "candidate"))


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ("{'../../out.md': 'x'}", "not a safe path"),
        ("{'n' * 300: 'x'}", "longer than 200 bytes"),
        ("{'instruction.md': chr(0xD800)}", "no UTF-8"),
        ("{'instruction.md': 'x' * 3_000_000}", "3000000 bytes"),
    ],
)
def test_a_folder_that_cannot_be_kept_is_an_invalid_proposal(
    tiny: Config, finish: Finish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str, fault: str
) -> None:
    name = f"odd_improver_{fault.split()[-2].strip('.')}"
    (tmp_path / f"{name}.py").write_text(
        "from heldout.records import Proposal\n"
        "class Odd:\n"
        "    uses_model = False\n"
        "    def __init__(self, config, model): pass\n"
        f"    def propose(self, view): return Proposal.model_construct(files={files}, note='', error=None)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = finish(tiny({"improver": {"kind": f"{name}:Odd"}}))
    assert all(fault in data["error"] for data in of_kind(folder, "proposal"))
    assert of_kind(folder, "run.finished")[0]["status"] == "unchanged"


def test_an_improver_that_edits_its_view_changes_nobodys_head(
    tiny: Config, finish: Finish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "editing_improver_of_the_test.py").write_text(
        "from heldout.records import Proposal\n"
        "class Editor:\n"
        "    uses_model = False\n"
        "    def __init__(self, config, model): pass\n"
        "    def propose(self, view):\n"
        "        view.incumbent.files['instruction.md'] += f'line {view.index}\\n'\n"
        "        return Proposal(files=dict(view.incumbent.files))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = finish(tiny({"improver": {"kind": "editing_improver_of_the_test:Editor"}, "gate": {"kind": "pace"}}))
    texts = [folder.load(data["digest"]).files["instruction.md"] for data in of_kind(folder, "candidate")]
    assert [text.count("line") for text in texts] == [0, 1, 1]


def test_the_start_competes_in_the_final_selection(
    tiny: Config, finish: Finish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "[[simulated skill={} salts={} redraw=1.000000]]"
    (tmp_path / "worsening_improver_of_the_test.py").write_text(
        "from heldout.records import Proposal\n"
        "class Worse:\n"
        "    uses_model = False\n"
        "    def __init__(self, config, model): pass\n"
        "    def propose(self, view):\n"
        f"        text = {line!r}.format('0.100000', f'worse{{view.generation}}{{view.index}}')\n"
        "        return Proposal(files={**view.incumbent.files, 'instruction.md': text})\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    layer = {
        "solver": {"instruction": line.format("0.950000", "start")},
        "improver": {"kind": "worsening_improver_of_the_test:Worse"},
        "gate": {"kind": "tolerance", "tolerance": 1.0},
    }
    folder = finish(tiny(layer))
    assert of_kind(folder, "track.moved"), "the gate lets a worse candidate through"
    (finished,) = of_kind(folder, "run.finished")
    assert (finished["status"], finished["final"]) == ("unchanged", finished["start"])
    assert of_kind(folder, "audit.opened") == []
