"""`gso` over a served model on tasks in SpreadsheetBench's layout: every role, real workbooks."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gso_parts import blobs, ledger_of, only, transient_skills
from run_events import of_kind
from scripted_solver import DOWN, SECRET
from sheet_players import CANARY, LESSON, MARK, asked_for, role_of
from sheet_runs import Place, command, place, words

from heldout.records import Spend
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.skills import MODULES, changed_modules, read_skill_folder
from heldout.store import RunFolder, read_events
from heldout.testing.scripted_server import ScriptedServer, SeenRequest

FAULT = Bubblewrap().fault()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(FAULT is not None, reason=str(FAULT))]

HIDES_A_NAME = "Where the sheet is called Counts, add up its second column."
"""A policy with a name of the train tasks in it."""


@dataclass(frozen=True)
class Ran:
    """A run of the command line, and what its server saw."""

    place: Place
    folder: RunFolder
    found: Mapping[str, Any]
    """Of `--json`."""
    requests: tuple[SeenRequest, ...]
    counted: Counter[str]
    sealed: Mapping[str, Mapping[str, str]]
    """Everything that the run had kept when its search was over and its audit still closed."""
    server: ScriptedServer


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """The search, and then the audit as a command of its own; the server stays up."""
    here = place(tmp_path_factory.mktemp("sheets"), edits=[LESSON, HIDES_A_NAME])
    texts = [task.input for task in here.tasks.train]
    here.players.blames = {
        **here.players.blames,
        texts[0]: {"stage": "execution", "module": "m4_validation.md", "mechanism": "it removes what it works on"},
    }
    with ScriptedServer(here.players) as server:
        code, out, err = command(here.folder, *words(server.url, "audit.auto=false", "--out", "r", "--json"))
        assert (code, err) == (0, "")
        sealed = blobs(RunFolder(here.folder / "r"))
        assert json.loads(out)["audit"] is None
        code, out, err = command(here.folder, "audit", "r", "--json")
        assert (code, err) == (0, "")
        code, out, err = command(here.folder, "show", "r", "--json")
        folder, counted = RunFolder(here.folder / "r"), Counter(here.players.counted)
        yield Ran(here, folder, json.loads(out), server.requests, counted, sealed, server)


def outcomes(ran: Ran, purpose: str, candidate: str | None = None) -> dict[str, Mapping[str, Any]]:
    """By task."""
    found = [data for data in of_kind(ran.folder, "outcome") if data["purpose"] == purpose]
    return {data["task"]: data for data in found if candidate in (None, data["candidate"])}


class TestTheRun:
    def test_a_failure_is_attributed_and_its_module_edited_and_the_edit_accepted(self, ran: Ran) -> None:
        start, final = (ran.folder.load(ran.found[name]["digest"]) for name in ("start", "final"))
        assert changed_modules(start.files, final.files) == ("m2_sources.md",)
        assert LESSON in final.files["m2_sources.md"]
        first = ran.found["skills"]["rounds"][0]
        unlearnable, blamed = first["faults"]
        assert (unlearnable["stage"], unlearnable["module"]) == ("", None)
        assert (blamed["stage"], blamed["module"]) == ("source selection", "m2_sources.md")
        assert (first["verdict"], first["edits"][0]["regressions"]) == ("accepted", 0.0)
        assert first["edits"][0]["repairs"] == len(first["edits"][0]["repaired"]) >= 1

    def test_its_gain_is_there_on_tasks_that_no_decision_saw(self, ran: Ran) -> None:
        learning = ran.found["skills"]["learning"]
        assert learning["what"] == "learning: final − start guide"
        assert learning["gain"] > 0

    def test_the_bold_gain_is_the_paired_mean_of_final_minus_start_on_audit(self, ran: Ran) -> None:
        """Invariant 12, computed here from the outcomes alone."""
        start, final = (outcomes(ran, "audit", ran.found[name]["digest"]) for name in ("start", "final"))
        gain = np.mean([final[task]["score"] - start[task]["score"] for task in start])
        assert ran.found["skills"]["learning"]["gain"] == pytest.approx(gain)
        assert ran.found["audit"]["gain"] == pytest.approx(gain)
        assert ran.found["start"]["digest"] in {one["digest"] for one in ran.found["skills"]["finalists"]}
        page = ran.folder.report.read_text()
        assert "final − start guide" in page
        assert f"+{100 * gain:.1f}" in page

    def test_the_retention_is_that_of_the_outcomes(self, ran: Ran) -> None:
        found = only(ran.folder, "retention")
        arms = {"none": found["none"], **{arm["arm"]: arm["candidate"] for arm in found["arms"]}}
        means = {
            (role, name): np.mean([data["score"] for data in outcomes(ran, purpose, digest).values()])
            for role, purpose in (("train", "retention"), ("audit", "audit"))
            for name, digest in arms.items()
        }
        for arm in found["arms"]:
            name = arm["arm"]
            assert arm["train_gain"] == pytest.approx(means["train", name] - means["train", "none"])
            assert arm["audit_gain"] == pytest.approx(means["audit", name] - means["audit", "none"])
            assert arm["retention"] == pytest.approx(arm["audit_gain"] - arm["train_gain"])

    def test_an_edit_that_holds_a_train_name_is_asked_for_twice_and_refused_unrun(self, ran: Ran) -> None:
        edited = of_kind(ran.folder, "skill.edit")[1]
        assert "names of train tasks" in edited["fault"]
        assert "'Counts'" in edited["fault"]
        assert edited.get("digest") is None
        assert edited["proposal"]["spend"]["calls"] == 2
        assert not any("Counts, add up" in str(seen.body) for seen in ran.requests if role_of(seen) == "writer")

    def test_calls_tokens_and_dollars_are_what_the_server_counted(self, ran: Ran) -> None:
        total = sum(ledger_of(ran.folder).values(), start=Spend())
        assert total.calls == len(ran.requests) == ran.found["spend"]["calls"]
        assert (total.tokens_in, total.tokens_out) == (7 * total.calls, 3 * total.calls)
        assert total.cost_usd == pytest.approx((7 * 1.0 + 3 * 2.0) * total.calls / 1e6)

    def test_every_role_is_on_the_ledger(self, ran: Ran) -> None:
        rows, counted = ledger_of(ran.folder), ran.counted
        assert rows["attribute"].calls == counted["attributor"]
        assert rows["edit"].calls == counted["editor"]
        rest = sum(row.calls for name, row in rows.items() if name not in ("attribute", "edit", "check", "judge"))
        assert rest == counted["writer"] + counted["solver"]
        assert counted["writer"] == sum(data["measures"]["skill_calls"] for data in of_kind(ran.folder, "outcome"))

    def test_invariant_11_a_recovery_runs_at_most_once_and_its_turns_are_paid_for(self, ran: Ran) -> None:
        recovered = [data for data in of_kind(ran.folder, "outcome") if data["measures"]["recoveries"]]
        assert recovered
        for data in recovered:
            measures = data["measures"]
            assert (measures["recoveries"], measures["faults_declared"]) == (1.0, 1.0)
            assert data["spend"]["calls"] == measures["skill_calls"] + measures["turns"] == measures["skill_calls"] + 4
            assert ran.folder.load(data["artifacts"]["first_fault.md"]).files["first_fault.md"].startswith("execution")

    def test_the_key_went_to_the_server_and_nowhere_else(self, ran: Ran) -> None:
        assert {seen.headers["authorization"] for seen in ran.requests} == {f"Bearer {SECRET}"}
        files = [path for path in ran.folder.path.rglob("*") if path.is_file()]
        assert not [path for path in files if SECRET.encode() in path.read_bytes()]


class TestWhatNobodyMaySee:
    def test_invariant_3_no_transient_skill_reaches_the_context_of_another_task(self, ran: Ran) -> None:
        """Every transient skill names its own request; no request to the solver holds the name of another one."""
        seen = 0
        for request in ran.requests:
            if role_of(request) not in ("solver", "writer"):
                continue
            marks = {part.partition("\n")[0] for part in str(request.body).replace("\\n", "\n").split(MARK)[1:]}
            own = asked_for(request).partition("\n")[0]
            assert marks <= {own}
            seen += bool(marks)
        assert seen > 20, "nothing was searched"

    def test_each_transient_skill_is_kept_as_a_record_of_its_own_outcome(self, ran: Ran) -> None:
        texts = {task.id: task.input for task in (*ran.place.tasks.train, *ran.place.tasks.select)}
        texts |= {task.id: task.input for task in ran.place.tasks.open_role("audit").tasks}
        tasks = {data["key"]: data["task"] for data in of_kind(ran.folder, "outcome")}
        kept = transient_skills(ran.folder)
        assert len(kept) == ran.counted["writer"] - unwritten(ran)
        for key, digest in kept.items():
            skill = ran.folder.load(digest).files["SKILL.md"]
            assert f"{MARK}{texts[tasks[key]]}" in skill
            assert digest not in {data["digest"] for data in of_kind(ran.folder, "candidate")}

    def test_invariant_4_nothing_that_was_sent_holds_the_canary_beside_the_answers(self, ran: Ran) -> None:
        assert not [seen for seen in ran.requests if CANARY in str(seen.body)]
        assert not [digest for digest, files in blobs(ran.folder).items() if CANARY in str(files)]

    def test_a_solver_that_looks_for_answers_keys_and_other_skills_finds_none(self, ran: Ran) -> None:
        text = ran.place.tasks.train[5].input
        looked = [seen for seen in ran.requests if role_of(seen) == "solver" and asked_for(seen) == text]
        shown = [str(seen.body["messages"][-1]["content"]) for seen in looked if len(seen.body["messages"]) == 4]
        assert len(shown) >= 5
        for one in shown:
            assert "END OF THE SEARCH" in one, "the search ran to its end"
            assert "workbook.xlsx" in one, "it finds what it may find"
            for hidden in ("_answer.xlsx", "dataset.json", "events.jsonl", SECRET, "OPENAI_API_KEY", CANARY, MARK):
                assert hidden not in one

    def test_attributor_and_editor_are_shown_train_tasks_and_no_other(self, ran: Ran) -> None:
        tasks = ran.place.tasks
        others = [task.input for task in (*tasks.select, *tasks.open_role("audit").tasks)]
        told = [json.dumps(seen.body) for seen in ran.requests if role_of(seen) in ("attributor", "editor")]
        assert any(quoted(tasks.train[2].input) in text for text in told), "nothing was searched"
        assert not [text for text in others if any(quoted(text) in one for one in told)]


def quoted(text: str) -> str:
    """As it stands in JSON."""
    return json.dumps(text)[1:-1]


def unwritten(ran: Ran) -> int:
    return sum(data["measures"].get("unusable_skills", 0.0) == 1.0 for data in of_kind(ran.folder, "outcome"))


class TestWhatGoesWrongInATask:
    """A failed outcome, in words; never a crash, never missing."""

    @pytest.mark.parametrize(
        ("way", "told"),
        [
            ("deletes", "workbook.xlsx: the input workbook was deleted"),
            ("garbage", "workbook.xlsx: it cannot be read"),
            ("errs", "#DIV/0!"),
        ],
    )
    def test_a_solver_that_spoils_its_workbook_has_failed(self, ran: Ran, way: str, told: str) -> None:
        task = next(task for task, what in ran.place.mischief.items() if what == way)
        found = [data for data in of_kind(ran.folder, "outcome") if data["task"] == task]
        assert {(data["score"], data["status"]) for data in found} == {(0.0, "failed")}
        text = next(one.input for one in ran.place.tasks.train if one.id == task)
        shown = [json.dumps(seen.body) for seen in ran.requests if role_of(seen) == "attributor"]
        assert any(quoted(text) in one and told in one for one in shown), "the attributor is told what the grader found"

    def test_a_writer_that_forgets_the_description_has_failed_and_the_solver_is_not_asked(self, ran: Ran) -> None:
        task = next(task for task, what in ran.place.mischief.items() if what == "undescribed")
        guided = [
            data
            for data in of_kind(ran.folder, "outcome")
            if data["task"] == task and data["measures"]["skill_calls"] == 1.0
        ]
        assert guided
        for data in guided:
            assert (data["score"], data["spend"]["calls"], data["measures"]["turns"]) == (0.0, 1, 0.0)
            assert data["measures"]["unusable_skills"] == 1.0
        told = [str(seen.body) for seen in ran.requests if role_of(seen) == "attributor"]
        assert any("description" in one and "is no skill" in one for one in told)


class TestTheAudit:
    def test_invariant_9_the_guide_is_the_same_before_and_after_the_audit(self, ran: Ran) -> None:
        digest = ran.found["final"]["digest"]
        assert ran.folder.load(digest).digest == digest
        now = blobs(ran.folder)
        assert now[digest] == ran.sealed[digest]
        assert ran.sealed.keys() < now.keys(), "the audit kept its transient skills"
        assert all(now[known] == files for known, files in ran.sealed.items())
        kinds = [event.kind for event in read_events(ran.folder.events)]
        assert not {"track.moved", "decision", "skill.edit"} & set(kinds[kinds.index("audit.opened") :])

    def test_invariant_10_without_the_arm_of_no_skill_the_retention_is_refused_and_the_audit_stands(
        self, ran: Ran, tmp_path: Path
    ) -> None:
        """The server is out for a solver without a skill; then the audit is opened again with it."""
        copy = before_the_audit(ran, tmp_path)
        ran.place.players.fault = lambda role, request: DOWN if role == "solver" and not skilled(request) else None
        try:
            code, out, err = command(tmp_path, "audit", "r", "--json")
            assert (code, err) == (0, "")
        finally:
            ran.place.players.fault = lambda _role, _request: None
        assert json.loads(out)["gain"] == pytest.approx(ran.found["audit"]["gain"])
        refused = only(copy, "retention")
        assert refused["refused"] == "no skill was not measured on train; no skill was not measured on audit"
        assert refused["arms"] == []
        missing = [data for data in of_kind(copy, "outcome") if data["candidate"] == refused["none"]]
        assert {data["status"] for data in missing} == {"not_measured"}
        assert not any("score" in data for data in missing)
        code, _, err = command(tmp_path, "audit", "r", "--again", "--json")
        assert (code, err) == (0, "")
        assert of_kind(copy, "retention")[-1] == only(ran.folder, "retention")
        assert json.loads(command(tmp_path, "show", "r", "--json")[1])["skills"]["retention"][0]["refused"] == ""


def skilled(request: SeenRequest) -> bool:
    return "\n\n# Skill\n\n" in str(request.body["messages"][0]["content"])


def before_the_audit(ran: Ran, folder: Path) -> RunFolder:
    """A copy of the run as its search left it, beside its tasks."""
    shutil.copytree(ran.place.folder / "data", folder / "data")
    copy = RunFolder(folder / "r")
    shutil.copytree(ran.folder.path, copy.path, ignore=shutil.ignore_patterns("index.sqlite*", "report.html"))
    lines = ran.folder.events.read_bytes().splitlines(keepends=True)
    end = next(at for at, line in enumerate(lines) if b'"kind":"run.finished"' in line)
    copy.events.write_bytes(b"".join(lines[: end + 1]))
    return copy


class TestWhatIsLeft:
    def test_export_writes_a_valid_skill_for_any_agent(self, ran: Ran, tmp_path: Path) -> None:
        code, _, err = command(
            ran.place.folder, "export", "r", "--to", "skill", "--out", str(tmp_path / "write-skills")
        )
        assert (code, err) == (0, "")
        found = read_skill_folder(tmp_path / "write-skills")
        assert found.head.name == "write-skills"
        assert {path for path in found.further if path.startswith("references/")} >= {
            f"references/{m}" for m in MODULES
        }
        assert LESSON in str(found.further)

    def test_compile_skill_writes_one_for_a_persons_own_folder(self, ran: Ran, tmp_path: Path) -> None:
        task = tmp_path / "orders"
        task.mkdir()
        (task / "instruction.txt").write_text("Add up the column 'owls' and write the total into cell D1.")
        inputs = next((ran.place.folder / "data").rglob("*_input.xlsx"))
        shutil.copy(inputs, task / "owls.xlsx")
        (task / "broken.xlsx").write_text("no workbook")
        out = tmp_path / "tidy-orders"
        code, text, err = command(ran.place.folder, "compile-skill", "r", str(task), "--out", str(out), "--json")
        assert (code, err) == (0, "")
        said = json.loads(text)
        assert (said["name"], said["guide"], said["simulated"]) == ("tidy-orders", ran.found["final"]["digest"], False)
        assert LESSON in read_skill_folder(out).body
        asked = str(ran.server.requests[-1].body["messages"][1]["content"])
        assert "Headers: day | " in asked
        assert "## broken.xlsx\nUnreadable" in asked

    def test_a_resumed_run_asks_its_first_question_and_nothing_else(self, ran: Ran, tmp_path: Path) -> None:
        shutil.copytree(ran.place.folder / "data", tmp_path / "data")
        copy = RunFolder(shutil.copytree(ran.folder.path, tmp_path / "r"))
        before = len(ran.server.requests)
        code, out, err = command(tmp_path, "run", "--resume", "--out", "r", "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["final"] == ran.found["final"]
        assert len(ran.server.requests) == before + 1
        assert len(of_kind(copy, "outcome")) == len(of_kind(ran.folder, "outcome"))
