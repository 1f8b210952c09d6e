"""Whole runs of `gso` on generated workbooks in the real sandbox: as a user has them, and killed with -9 on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gso_parts import SPOILT, STEPS, blobs, ledger_of, only, same_run, shadow, tiny, transient_skills
from run_events import of_kind, paid, written

from heldout.records import Spend
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.skills import MODULES, guide_text, read_skill_folder
from heldout.store import RunFolder, read_events
from heldout.tasks import load_tasks
from heldout.workbench import Opening, plan, run

FAULT = Bubblewrap().fault()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(FAULT is not None, reason=str(FAULT))]

SIMULATION = "SIMULATION"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1", "COLUMNS": "300"}


def command(folder: Path, *given: str) -> tuple[int, str, str]:
    """`heldout` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "heldout", *given],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@dataclass(frozen=True)
class Ran:
    """A finished run, and what its command printed."""

    base: Path
    folder: RunFolder
    out: str

    @property
    def found(self) -> Mapping[str, Any]:
        """Of `heldout show --json`."""
        answer: dict[str, Any] = json.loads(command(self.base, "show", "runs/tiny", "--json")[1])
        return answer


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    base = tmp_path_factory.mktemp("real")
    written(tiny(base / "start"), base / "run.toml")
    code, out, err = command(base, "run", "run.toml", "--out", "runs/tiny")
    assert (code, "Traceback" in err) == (0, False)
    return Ran(base, RunFolder(base / "runs" / "tiny"), out)


@pytest.fixture(scope="module")
def found(ran: Ran) -> Mapping[str, Any]:
    return ran.found


class TestAsAUser:
    def test_the_run_has_every_kind_of_step_and_moves_the_guide(self, ran: Ran) -> None:
        kinds = {event.kind for event in read_events(ran.folder.events)}
        assert not set(STEPS) - kinds
        verdicts = [data["decision"]["verdict"] for data in of_kind(ran.folder, "decision")]
        assert verdicts == ["undecided", "reject", "accept"]

    def test_it_decides_as_the_shadow_world_does(self, ran: Ran, tmp_path: Path) -> None:
        """Whatever is shown in the shadow world (kills, budgets, plans) is therefore shown of this."""
        other = run(shadow(ran.base / "start"), Opening(tmp_path / "shadow", command="heldout run test"))
        for kind in ("skill.round", "skill.table"):
            assert of_kind(other, kind) == of_kind(ran.folder, kind)
        assert only(other, "run.finished")["final"] == only(ran.folder, "run.finished")["final"]
        assert only(other, "retention") == only(ran.folder, "retention")

    def test_files_on_disk_are_what_the_page_says_they_are(self, ran: Ran) -> None:
        names = {path.name for path in ran.folder.path.iterdir()}
        assert {"blobs", "config.toml", "events.jsonl", "index.sqlite", "report.html", "traces"} <= names
        lines = ran.folder.events.read_text().splitlines()
        assert [json.loads(line)["seq"] for line in lines] == list(range(len(lines)))
        kept = blobs(ran.folder)
        assert set(kept[only(ran.folder, "run.finished")["final"]]) == set(MODULES)

    def test_every_transient_skill_lies_in_blobs_as_a_valid_skill(self, ran: Ran, tmp_path: Path) -> None:
        kept = transient_skills(ran.folder)
        guided = [data for data in of_kind(ran.folder, "outcome") if data["measures"]["skill_calls"]]
        assert len(kept) == len(guided)
        for digest in set(kept.values()):
            folder = tmp_path / digest / only_name(ran.folder, digest)
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(ran.folder.load(digest).files["SKILL.md"])
            assert read_skill_folder(folder).head.description

    def test_terminal_json_and_page_agree(self, ran: Ran, found: Mapping[str, Any]) -> None:
        skills, page = found["skills"], ran.folder.report.read_text()
        gain = f"{100 * skills['learning']['gain']:+.1f}"
        assert gain in ran.out
        assert gain.replace("-", "−") in page
        for text in (ran.out, page):
            assert SIMULATION in text.upper()
        assert "learning: final" in ran.out
        assert "learning: final" in page
        for arm in skills["retention"][0]["arms"]:
            assert arm["verdict"] in ran.out
            assert arm["verdict"] in page
            assert f"{100 * arm['retention']:+.1f}" in ran.out
            assert f"{100 * arm['retention']:+.1f}".replace("-", "−") in page
        for one in skills["rounds"]:
            for edit in one["edits"]:
                for task in (*edit["repaired"], *edit["broken"]):
                    assert task in page
        assert MODULES[SPOILT] in page

    def test_the_arms_in_json_are_the_means_of_the_outcomes(self, ran: Ran, found: Mapping[str, Any]) -> None:
        finished, none = only(ran.folder, "run.finished"), only(ran.folder, "retention")["none"]
        names = {"no skill": none, "start guide": finished["start"], "final guide": finished["final"]}
        assert [arm["name"] for arm in found["skills"]["arms"]] == list(names)
        for arm in found["skills"]["arms"]:
            scores = [
                data["score"]
                for data in of_kind(ran.folder, "outcome")
                if (data["purpose"], data["candidate"]) == ("audit", names[arm["name"]])
            ]
            assert arm["audit"] == pytest.approx(sum(scores) / len(scores))

    def test_skill_calls_and_recoveries_are_those_of_the_outcomes(self, ran: Ran, found: Mapping[str, Any]) -> None:
        outcomes = of_kind(ran.folder, "outcome")
        use = found["skills"]["use"]
        for name in ("skill_calls", "recoveries", "faults_declared"):
            assert use[name] == sum(data["measures"][name] for data in outcomes)
        assert {data["measures"]["recoveries"] for data in outcomes} == {0.0, 1.0}
        total = sum(ledger_of(ran.folder).values(), start=Spend())
        assert total.calls == sum(data["measures"]["turns"] + data["measures"]["skill_calls"] for data in outcomes)

    def test_it_paid_for_no_more_than_the_dry_run_said(self, ran: Ran) -> None:
        code, out, _ = command(ran.base, "run", "run.toml", "--dry-run", "--json")
        assert code == 0
        assert json.loads(out)["plan"]["total"] == plan(ran.folder.load_config()).total >= paid(ran.folder)

    def test_show_report_runs_and_audit_know_it(self, ran: Ran, found: Mapping[str, Any]) -> None:
        code, out, _ = command(ran.base, "runs", "--json")
        (listed,) = json.loads(out)["runs"]
        assert (code, listed["run"], listed["loop"]) == (0, "tiny", "gso")
        before = ran.folder.report.read_text()
        assert command(ran.base, "report", "tiny")[:2] == (0, "runs/tiny/report.html\n")
        assert ran.folder.report.read_text() == before
        code, _, err = command(ran.base, "audit", "runs/tiny")
        assert code == 2
        assert "opened once means once" in err
        assert command(ran.base, "show", "runs/tiny")[1] in ran.out
        assert found["status"] == "improved"

    def test_a_resumed_run_pays_nothing(self, ran: Ran, tmp_path: Path) -> None:
        copy = RunFolder(shutil.copytree(ran.folder.path, tmp_path / "r"))
        code, _, _ = command(tmp_path, "run", "--resume", "--out", "r")
        assert code == 0
        assert [event.kind for event in read_events(copy.events)] == [
            *(event.kind for event in read_events(ran.folder.events)),
            "run.resumed",
        ]

    def test_export_gives_a_skill_that_any_agent_can_use(self, ran: Ran, tmp_path: Path) -> None:
        out = tmp_path / "write-skills"
        assert command(ran.base, "export", "runs/tiny", "--to", "skill", "--out", str(out))[0] == 0
        skill = read_skill_folder(out)
        final = ran.folder.load(only(ran.folder, "run.finished")["final"]).files
        for name, text in final.items():
            assert skill.further[f"references/{name}"].strip().endswith(text.strip())
        assert guide_text(final).count("## Policy") == 6
        assert "heldout" not in skill.body.lower()

    def test_compile_skill_writes_one_for_a_task_of_the_world(self, ran: Ran, tmp_path: Path) -> None:
        config = ran.folder.load_config().tasks
        task = load_tasks(config).open_role("audit").tasks[0]
        environment = load_tasks(config).environment
        assert environment is not None
        folder = tmp_path / "task"
        write_scene(folder, environment.scene(task, seed=0), task.input)
        code, out, err = command(ran.base, "compile-skill", "runs/tiny", str(folder), "--out", str(tmp_path / "mine"))
        assert (code, out) == (0, f"{tmp_path / 'mine'}\n")
        assert "SIMULATION: 'simulated_tables' is a simulated writer" in err
        assert read_skill_folder(tmp_path / "mine").head.name == "mine"

    def test_of_a_persons_own_task_the_simulation_knows_nothing_and_says_so(self, ran: Ran, tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine/request.md").write_text("Sort my table by date.\n")
        code, _, err = command(ran.base, "compile-skill", "runs/tiny", str(tmp_path / "mine"))
        assert code == 1
        assert "a simulation knows only the tasks of the run's own source" in err

    def test_noise_measures_the_start_against_itself(self, ran: Ran) -> None:
        code, out, _ = command(ran.base, "noise", "run.toml", "--json")
        assert code == 0
        gates = {gate["gate"]: gate for gate in json.loads(out)["calibration"]}
        assert 0.0 <= gates["repairs_over_regressions"]["false_accept_rate"] <= gates["net"]["false_accept_rate"] + 0.2

    def test_a_limit_of_seconds_leaves_a_usable_run_and_exit_3(self, ran: Ran, tmp_path: Path) -> None:
        shutil.copytree(ran.base / "start", tmp_path / "start")
        written(tiny(tmp_path / "start", {"budget": {"wall_s": 6.0}}), tmp_path / "run.toml")
        code, out, err = command(tmp_path, "run", "run.toml", "--out", "r", "--json")
        assert (code, err) == (3, "")
        answer = json.loads(out)
        assert answer["status"] == "stopped"
        assert "budget.wall_s = 6" in answer["stop_reason"]
        assert (tmp_path / "r/report.html").is_file()
        assert command(tmp_path, "show", "r")[0] == 0


def only_name(folder: RunFolder, digest: str) -> str:
    text = folder.load(digest).files["SKILL.md"]
    return next(line.partition(":")[2].strip().strip('"') for line in text.splitlines() if line.startswith("name:"))


def write_scene(folder: Path, scene: Any, request: str) -> None:
    """A task's folder as a person would have it."""
    from heldout.sandbox.encoding import as_bytes

    folder.mkdir()
    (folder / "instruction.txt").write_text(request)
    for name, text in scene.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(as_bytes(name, text, scene.encoded))


PHASES: Mapping[str, tuple[bytes, int]] = {
    "the start on select": (b'"purpose":"select"', 2),
    "the noise": (b'"purpose":"noise"', 1),
    "the first batch": (b'"purpose":"train"', 2),
    "a refused edit": (b'"kind":"skill.edit"', 1),
    "a select sweep": (b'"purpose":"select"', 7),
    "a table before its decision": (b'"kind":"skill.table"', 1),
    "an acceptance": (b'"kind":"track.moved"', 1),
    "the final selection": (b'"purpose":"final"', 3),
    "the audit": (b'"purpose":"audit"', 3),
    "the retention on train": (b'"purpose":"retention"', 4),
    "no skill on audit": (b'"purpose":"audit"', 10),
}
"""What a journal holds, and how often, once a moment has come."""


def test_a_run_that_is_killed_with_9_at_eleven_moments_is_the_same_run(ran: Ran, tmp_path: Path) -> None:
    """One journey: each start goes on where the one before was killed, and the last one reaches the end."""
    written(tiny(tmp_path / "start"), tmp_path / "run.toml")
    folder, killed = RunFolder(tmp_path / "killed"), []
    for phase, (mark, times) in PHASES.items():
        process = launched(folder)
        while process.poll() is None and journal(folder).count(mark) < times:
            time.sleep(0.002)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed.append(phase)
        process.wait()
    assert len(killed) >= len(PHASES) - 2, f"the run was over before {set(PHASES) - set(killed)}"
    assert launched(folder).wait(timeout=600) == 0
    same_run(ran.folder, folder)
    assert [event.kind for event in read_events(folder.events)].count("run.resumed") >= len(killed) - 1


def launched(folder: RunFolder) -> subprocess.Popen[bytes]:
    """A process of its own that begins the run, or goes on with it."""
    given = [sys.executable, "-m", "heldout", "run", "run.toml", "--out", str(folder.path), "--json"]
    given += ["--resume"] if folder.is_run else []
    return subprocess.Popen(given, cwd=folder.path.parent, env=environment(), stdout=subprocess.DEVNULL)


def journal(folder: RunFolder) -> bytes:
    return folder.events.read_bytes() if folder.events.exists() else b""
