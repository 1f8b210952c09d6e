"""`compile-skill` and `export --to skill`: what they write, and every way in which they refuse."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from heldout.cli import main
from heldout.config import config_digest, load_config
from heldout.records import Candidate
from heldout.skills import NO_SKILL, read_skill_folder, start_guide
from heldout.store import Journal, RunFolder
from heldout.store.events import CandidateAdded, RunFinished, RunStarted
from heldout.tasks import load_source

Run = Callable[..., tuple[int, str, str]]
MakeRun = Callable[..., RunFolder]

GUIDE = Candidate(files={**start_guide(), "m1_task.md": start_guide()["m1_task.md"] + "\nLEARNED-LINE\n"})
SKILL = Candidate(files={"SKILL.md": "---\nname: all-tasks\ndescription: d\n---\n\nDo it.\n"})

WRITER = """
from pathlib import Path
from heldout.models import Reply
class Writer:
    name, fingerprint, deterministic, can_choose, simulated = "own", "own", True, False, False
    def __init__(self, config):
        self.config = config
    def complete(self, request):
        Path("asked.json").write_text(request.model_dump_json())
        return Reply(text=Path("reply.txt").read_text(), tokens_in=70, tokens_out=30)
    def close(self):
        Path("closed").touch()
class Pretender(Writer):
    simulated = True
"""
REPLY = '```markdown\n---\nname: count-rows\ndescription: "Counts rows."\n---\n\n1. Count.\n```\n'


@pytest.fixture
def heldout(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command in a temporary folder with a plug-in writer; exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("own_writer", None)
    Path("own_writer.py").write_text(WRITER)
    Path("reply.txt").write_text(REPLY)
    task = Path("task")
    task.mkdir()
    (task / "request.md").write_text("Count the rows.\n")
    (task / "in.csv").write_text("alpha,beta\n1,2\n")

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(words)
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A run's folder with its first events and, unless it is unfinished, its last."""

    def make(final: Candidate, *, finished: bool = True, **layer: Any) -> RunFolder:
        folder = RunFolder.create(tmp_path / "r")
        settings: Mapping[str, Any] = {
            "seed": 7,
            "solver": {
                "harness": "skilled",
                "model": {"name": "own_writer:Writer", "max_tokens": 1000},
                "options": {"writer_tokens": 777},
            },
        }
        config = load_config([settings, layer])
        folder.save_config(config)
        folder.save(final)
        journal = Journal.open(folder.events)
        journal.append("run.started", started(config_digest(config)))
        added = CandidateAdded(digest=final.digest, parent=None, track="guide", generation=0, index=0)
        journal.append("candidate", added)
        if finished:
            journal.append("run.finished", done(final.digest))
        journal.close()
        return folder

    return make


def started(digest: str) -> RunStarted:
    return RunStarted(
        run="r",
        loop="gso",
        config_digest=digest,
        heldout="0",
        command="heldout run gso",
        simulated=False,
        solver="own",
        improver="skill_catalog",
        description="d",
        source="tables",
    )


def done(digest: str) -> RunFinished:
    return RunFinished(
        status="improved",
        stop_reason="every round was run",
        start=digest,
        final=digest,
        start_select=None,
        final_select=None,
        elapsed_s=1.0,
    )


class TestCompileSkill:
    def test_it_writes_a_valid_skill_for_the_task_with_one_call(self, heldout: Run, make_run: MakeRun) -> None:
        make_run(GUIDE)
        assert heldout("compile-skill", "r", "task") == (0, "count-rows\n", "")
        found = read_skill_folder(Path("count-rows"))
        assert found.body.strip() == "1. Count."
        asked = json.loads(Path("asked.json").read_text())
        assert (asked["max_tokens"], asked["seed"]) == (777, 7)
        assert "LEARNED-LINE" in asked["messages"][0]["content"]
        assert asked["messages"][1]["content"].startswith("# Request\n\nCount the rows.\n\n# What the task shows\n\n")
        assert "Headers: alpha | beta" in asked["messages"][1]["content"]
        assert "request.md" not in asked["messages"][1]["content"]
        assert Path("closed").exists()

    def test_json_says_what_it_cost_and_out_names_the_skill(self, heldout: Run, make_run: MakeRun) -> None:
        make_run(GUIDE)
        code, out, _ = heldout("compile-skill", "r", "task", "--out", "skills/mine", "--json")
        assert code == 0
        assert json.loads(out) == {
            "path": "skills/mine",
            "name": "mine",
            "guide": GUIDE.digest,
            "model": "own",
            "simulated": False,
            "spend": {"calls": 1, "tokens_in": 70, "tokens_out": 30},
        }
        assert read_skill_folder(Path("skills/mine")).head.name == "mine"

    def test_a_second_skill_of_the_same_name_is_written_beside_the_first(self, heldout: Run, make_run: MakeRun) -> None:
        make_run(GUIDE)
        assert heldout("compile-skill", "r", "task")[1] == "count-rows\n"
        assert heldout("compile-skill", "r", "task")[1] == "count-rows-2\n"
        assert read_skill_folder(Path("count-rows-2")).head.name == "count-rows-2"

    def test_a_text_file_is_a_task(self, heldout: Run, make_run: MakeRun) -> None:
        make_run(GUIDE)
        assert heldout("compile-skill", "r", "task/request.md")[0] == 0
        assert "The task gives no files." in Path("asked.json").read_text()

    def test_another_model_may_write(self, heldout: Run, make_run: MakeRun) -> None:
        make_run(GUIDE)
        code, out, err = heldout("compile-skill", "r", "task", "--model", "own_writer:Pretender", "--json")
        assert code == 0
        assert json.loads(out)["simulated"] is True
        assert "SIMULATION: 'own' is a simulated writer, and no language model" in err
        code, _, err = heldout("compile-skill", "r", "task", "--model", "gpt9")
        assert (code, "no model 'gpt9'; there is" in err) == (2, True)

    def test_answers_beside_the_inputs_are_not_shown_and_that_is_said(self, heldout: Run, make_run: MakeRun) -> None:
        make_run(GUIDE)
        Path("task/1_golden.csv").write_text("CANARY")
        code, _, err = heldout("compile-skill", "r", "task")
        assert code == 0
        assert "not shown to the writer, since they look like answers: 1_golden.csv" in err
        assert "CANARY" not in Path("asked.json").read_text()
        assert "golden" not in Path("asked.json").read_text()

    def test_garbage_is_a_message_with_the_reply_and_no_folder(self, heldout: Run, make_run: MakeRun) -> None:
        make_run(GUIDE)
        Path("reply.txt").write_text("I would rather not.")
        code, out, err = heldout("compile-skill", "r", "task", "--out", "mine", "--json")
        assert code == 1
        assert "the writer's reply is no skill: it holds no front matter" in json.loads(out)["error"]
        assert "'own' replied: 'I would rather not.'" in err
        assert not Path("mine").exists()

    @pytest.mark.parametrize(
        ("final", "message"),
        [
            (
                SKILL,
                "is no guide: it is one skill for all tasks (SKILL.md); take it as it is: heldout export r --to skill",
            ),
            (Candidate(files=dict(NO_SKILL)), "is no guide: it has no skill (NO_SKILL.md)"),
            (Candidate(files={"system_prompt.md": "x"}), "is no guide: 'system_prompt.md' is no module of a guide"),
        ],
    )
    def test_a_run_that_ended_without_a_guide_is_refused(
        self, heldout: Run, make_run: MakeRun, final: Candidate, message: str
    ) -> None:
        make_run(final)
        code, _, err = heldout("compile-skill", "r", "task")
        assert code == 2
        assert f"the final candidate of r {message}" in err
        assert not Path("asked.json").exists()

    def test_what_cannot_work_is_refused_before_anything_is_asked(self, heldout: Run, make_run: MakeRun) -> None:
        assert "does not exist" in heldout("compile-skill", "nowhere", "task")[2]
        make_run(GUIDE)
        Path("empty").mkdir()
        for words, message in (
            (("empty",), "holds no request: put it into instruction.txt, request.md or prompt.txt; there is nothing"),
            (("nothing",), "no task at 'nothing'"),
            (("task", "--out", "task"), "'task' exists; name a folder that does not"),
            (("task", "--out", "My Skill"), "'My Skill' cannot be the name of a skill"),
        ):
            code, _, err = heldout("compile-skill", "r", *words)
            assert (code, message in err) == (2, True), err
        assert not Path("asked.json").exists()

    def test_an_unfinished_run_is_refused_with_the_command_that_finishes_it(
        self, heldout: Run, make_run: MakeRun
    ) -> None:
        make_run(GUIDE, finished=False)
        code, _, err = heldout("compile-skill", "r", "task")
        assert code == 2
        assert "'r' has not finished; resume it first: heldout run --resume --out r" in err

    def test_a_guide_that_was_changed_on_disk_is_refused(self, heldout: Run, make_run: MakeRun) -> None:
        folder = make_run(GUIDE)
        (folder.blobs / GUIDE.digest / "m1_task.md").write_text("## Inputs\n## State\n## Policy\n## Output\n")
        code, _, err = heldout("compile-skill", "r", "task")
        assert code == 1
        assert "was changed: its digest is now" in err


class TestSimulatedWorker:
    """It plays the writer on the tasks of its own world, and says that it is a simulation."""

    @pytest.fixture
    def world(self, heldout: Run, make_run: MakeRun) -> RunFolder:
        del heldout
        model = {"name": "simulated_tables", "max_tokens": 2048}
        return make_run(GUIDE, solver={"model": model}, tasks={"source": "tables"})

    def test_it_writes_the_skill_of_one_of_its_own_tasks(self, heldout: Run, world: RunFolder) -> None:
        item = next(iter(load_source(world.load_config().tasks).items()))
        Path("own").mkdir()
        Path("own/instruction.txt").write_text(item.input + "\n")
        code, out, err = heldout("compile-skill", "r", "own", "--out", "mine", "--json")
        assert code == 0, err
        assert json.loads(out)["simulated"] is True
        assert "SIMULATION: 'simulated_tables' is a simulated writer" in err
        assert len(read_skill_folder(Path("mine")).head.metadata["guide"]) >= 8

    @pytest.mark.parametrize("name", ["simulated_tables:again", "simulated_tables:"])
    def test_a_name_with_a_suffix_is_the_simulation_all_the_same(
        self, heldout: Run, world: RunFolder, name: str
    ) -> None:
        """It is handed the answer key, as in a run, without which it would know no task."""
        item = next(iter(load_source(world.load_config().tasks).items()))
        Path("own.txt").write_text(item.input + "\n")
        code, out, err = heldout("compile-skill", "r", "own.txt", "--out", "mine", "--model", name, "--json")
        assert code == 0, err
        assert json.loads(out)["simulated"] is True
        assert "SIMULATION: 'simulated_tables' is a simulated writer" in err

    def test_of_any_other_task_it_knows_nothing_and_says_so(self, heldout: Run, world: RunFolder) -> None:
        del world
        code, _, err = heldout("compile-skill", "r", "task")
        assert code == 1
        assert "a simulation knows only the tasks of the run's own source" in err


class TestExport:
    def test_a_guide_becomes_a_skill_folder(self, heldout: Run, make_run: MakeRun) -> None:
        make_run(GUIDE)
        code, out, _ = heldout("export", "r", "--to", "skill", "--out", "writer", "--json")
        assert code == 0
        assert json.loads(out) == {"digest": GUIDE.digest, "to": "skill", "path": "writer"}
        found = read_skill_folder(Path("writer"))
        assert "LEARNED-LINE" in found.further["references/m1_task.md"]
        assert heldout("export", "r", "--to", "skill")[1] == "task-skill-writer\n"

    def test_a_skill_is_exported_as_itself(self, heldout: Run, make_run: MakeRun) -> None:
        make_run(SKILL)
        assert heldout("export", "r", "--to", "skill")[:2] == (0, "all-tasks\n")
        assert read_skill_folder(Path("all-tasks")).files == dict(SKILL.files)

    def test_what_cannot_be_exported_is_refused(self, heldout: Run, make_run: MakeRun) -> None:
        make_run(Candidate(files=dict(NO_SKILL)))
        code, _, err = heldout("export", "r", "--to", "skill", "--out", "x")
        assert (code, "there is no skill to export: the final candidate is NO_SKILL.md" in err) == (2, True)
        code, _, err = heldout("export", "r", "--to", "folder")
        assert (code, "name the folder to write to, which must not exist: --out best" in err) == (2, True)
        assert heldout("export", "r", "--to", "folder", "--out", "plain")[0] == 0
        assert Path("plain/NO_SKILL.md").read_text() == NO_SKILL["NO_SKILL.md"]
