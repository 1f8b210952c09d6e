"""`gso` over a served model: outages, budgets, and folders and files that are not as they should be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gso_parts import ledger_of, only
from run_events import of_kind
from scripted_solver import DOWN
from sheet_players import LESSON, asked_for
from sheet_runs import command, place, searched, words

from heldout.records import Spend
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.skills import MODULES
from heldout.store import RunFolder
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer, SeenRequest

FAULT = Bubblewrap().fault()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(FAULT is not None, reason=str(FAULT))]


class TestOutages:
    """Missing, never zero; nothing is decided from what was not measured."""

    def test_an_outage_in_the_select_sweep_of_a_candidate_decides_nothing(self, tmp_path: Path) -> None:
        here = place(tmp_path)

        def fault(role: str, request: SeenRequest) -> ScriptedReply | None:
            edited = role == "writer" and LESSON in str(request.body["messages"][0]["content"])
            return DOWN if edited else None

        here.players.fault = fault
        folder, found = searched(here)
        (table,) = of_kind(folder, "skill.table")
        assert set(table["cells"].values()) == {"missing"}
        assert (table["n"], table["coverage"], table["repairs"], table["regressions"]) == (0, 0.0, 0.0, 0.0)
        decided = of_kind(folder, "decision")[0]["decision"]
        assert decided["verdict"] == "undecided"
        assert "0 of 5 select tasks were measured on both sides" in decided["reason"]
        gone = [data for data in of_kind(folder, "outcome") if data["candidate"] == table["candidate"]]
        assert {data["status"] for data in gone} == {"not_measured"}
        assert not any("score" in data for data in gone)
        assert all("HTTP 500" in data["error"] for data in gone)
        assert (found["status"], found["final"]["digest"]) == ("unchanged", found["start"]["digest"])

    def test_an_outage_in_the_middle_of_an_episode_keeps_its_price_and_has_no_score(self, tmp_path: Path) -> None:
        here = place(tmp_path)
        lost = here.tasks.train[4].input

        def fault(role: str, request: SeenRequest) -> ScriptedReply | None:
            second = role == "solver" and len(request.body["messages"]) == 4
            return DOWN if second and asked_for(request) == lost else None

        here.players.fault = fault
        folder, _ = searched(here, "search.generations=1")
        (started,) = of_kind(folder, "skill.round")
        assert started["missing"] == [here.tasks.train[4].id]
        assert here.tasks.train[4].id not in started["failed"]
        (data,) = [one for one in of_kind(folder, "outcome") if one["task"] == here.tasks.train[4].id]
        assert "score" not in data
        assert data["spend"]["calls"] == 3, "the writer's call, a turn, and the one that was not answered"

    @pytest.mark.parametrize("role", ["attributor", "editor"])
    def test_an_improver_that_is_not_answered_ends_the_round_and_is_told(self, tmp_path: Path, role: str) -> None:
        here = place(tmp_path)
        here.players.fault = lambda asked, _request: DOWN if asked == role else None
        folder, found = searched(here, "search.generations=1")
        assert of_kind(folder, "skill.table") == []
        assert of_kind(folder, "decision")[0]["decision"]["verdict"] == "undecided"
        kind = "fault.attributed" if role == "attributor" else "skill.edit"
        assert any(data.get("unanswered") for data in of_kind(folder, kind))
        assert found["final"]["digest"] == found["start"]["digest"]
        assert sum(ledger_of(folder).values(), start=Spend()).calls == sum(here.players.counted.values())


class TestBudgets:
    def test_a_budget_of_calls_that_ends_in_the_second_round_leaves_a_usable_run_and_room_for_its_audit(
        self, tmp_path: Path
    ) -> None:
        here = place(tmp_path)
        given = ("budget.calls=200", "solver.options.max_turns=4")
        with ScriptedServer(here.players) as server:
            code, out, err = command(here.folder, *words(server.url, "--out", "r", "--json", *given))
            folder, found = RunFolder(here.folder / "r"), json.loads(out)
            assert (code, err, found["status"]) == (3, "", "stopped")
            assert found["stop_reason"].startswith("budget.calls = 200 leaves no room for ")
            assert found["spend"]["calls"] == len(server.requests) <= 200
            assert LESSON in str(folder.load(found["final"]["digest"]).files)
            assert (found["audit"]["n"], found["audit"]["gain"]) == (5, 1.0)
            assert found["skills"]["retention"] == []
            code, out, err = command(here.folder, "audit", "r", "budget.calls=600", "--json")
            assert (code, err) == (0, "")
            assert json.loads(out)["gain"] == 1.0
        assert [arm["arm"] for arm in only(folder, "retention")["arms"]] == ["start", "final"]
        assert len(of_kind(folder, "audit.opened")) == 1
        assert sum(ledger_of(folder).values(), start=Spend()).calls == len(server.requests)


class TestBadFolders:
    def test_a_task_that_lacks_its_answer_is_named_before_anything_is_asked(self, tmp_path: Path) -> None:
        here = place(tmp_path)
        gone = next((tmp_path / "data").rglob("*_answer.xlsx"))
        gone.unlink()
        code, _, err = command(
            tmp_path, "tasks", "check", "spreadsheetbench", "path=data", "train=8", "select=5", "audit=5"
        )
        assert code == 2
        assert f"{gone.name.replace('answer', 'input')}' has no answer workbook beside it" in err
        assert "leave the task out with tasks.options.exclude=" in err
        with ScriptedServer(here.players) as server:
            code, _, err = command(tmp_path, *words(server.url, "--out", "r"))
            assert server.requests == ()
        assert (code, "has no answer workbook beside it" in err, "Traceback" in err) == (2, True, False)
        assert not (tmp_path / "r").exists()

    def test_a_guide_that_lacks_a_module_is_named(self, tmp_path: Path) -> None:
        place(tmp_path)
        guide = tmp_path / "guide"
        guide.mkdir()
        for name in list(MODULES)[:5]:
            (guide / name).write_text("## Inputs\n\n## State\n\n## Policy\n\n## Output\n")
        code, _, err = command(tmp_path, *words("http://127.0.0.1:9/v1", "solver.start=guide", "--out", "r"))
        assert code == 2
        assert "the start candidate is not usable: the guide has no module m6_repair.md" in err
        assert not (tmp_path / "r").exists()

    def test_a_start_skill_without_a_description_is_named(self, tmp_path: Path) -> None:
        place(tmp_path)
        (tmp_path / "skill").mkdir()
        (tmp_path / "skill/SKILL.md").write_text("---\nname: skill\n---\n\nDo it.\n")
        given = words("http://127.0.0.1:9/v1", "solver.start=skill", "--out", "r")
        given[1] = "persistent_skill"
        code, _, err = command(tmp_path, *given)
        assert code == 2
        assert "description" in err
        assert not (tmp_path / "r").exists()

    def test_an_input_that_does_not_open_is_still_a_task(self, tmp_path: Path) -> None:
        """It is shown as unreadable, and whoever cannot work with it has failed."""
        here = place(tmp_path)
        task = here.tasks.train[6]
        name = next((tmp_path / "data").rglob(f"1_{task.id}_input.xlsx"))
        name.write_text("no workbook")
        folder, _ = searched(here, "search.generations=1")
        (data,) = [one for one in of_kind(folder, "outcome") if one["task"] == task.id]
        assert (data["score"], data["status"]) == (0.0, "failed")
        assert here.players.unreadable >= 1
