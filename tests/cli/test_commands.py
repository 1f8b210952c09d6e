"""Every command as a person types it: exit codes, JSON, and messages that say what mends it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from heldout.cli import main

Run = Callable[..., tuple[int, str, str]]

FAST = ("solver.answer=choose", "tasks.train=24", "tasks.select=12", "tasks.audit=20", "search.generations=2",
        "search.candidates=2", "noise.tasks=4", "noise.simulations=100", "gate.kind=greedy")  # fmt: skip


@pytest.fixture
def heldout(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a temporary folder; gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(words)
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Eighty tasks of the user's own."""
    path = tmp_path / "mine.jsonl"
    write_rows(path, [row(number) for number in range(80)])
    return path


def row(number: int) -> dict[str, Any]:
    text = f"case {number * 7919 % 1009}: {'north' if number % 3 else 'south'} {number * 104729 % 997}"
    return {"id": f"t{number}", "input": text, "reference": "yes" if number % 2 else "no"}


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))


def own(path: Path, *more: str) -> tuple[str, ...]:
    words = ("tasks.source=jsonl", f"tasks.path={path}", 'tasks.options={labels = "references"}',
             "tasks.duplicates=drop", "tasks.stratify=false")  # fmt: skip
    return ("run", "winners_curse", *FAST, *words, *more)


class TestRun:
    def test_json_is_one_object_with_the_promised_keys_and_nothing_else(self, heldout: Run, rows: Path) -> None:
        code, out, _ = heldout(*own(rows), "--json", "--out", "r")
        assert code == 0
        answer = json.loads(out)
        assert {"run", "loop", "status", "stop_reason", "start", "final", "select_gain", "audit", "overstatement",
                "spend"} <= answer.keys()  # fmt: skip
        assert answer["status"] in ("improved", "unchanged")
        assert set(answer["start"]) == set(answer["final"]) == {"digest", "select"}
        assert set(answer["audit"]) == {"n", "gain", "standard_error", "interval"}
        assert answer["simulated"] is True
        if answer["status"] == "improved":
            assert answer["overstatement"] == pytest.approx(answer["select_gain"] - answer["audit"]["gain"])
            assert answer["select_gain"] == pytest.approx(answer["final"]["select"] - answer["start"]["select"])

    def test_a_budget_stop_is_exit_code_3_with_a_readable_run(self, heldout: Run, rows: Path) -> None:
        code, out, _ = heldout(*own(rows, "budget.evaluations=70"), "--json", "--out", "r")
        assert code == 3
        assert json.loads(out)["status"] == "stopped"
        assert "budget.evaluations = 70" in json.loads(out)["stop_reason"]
        assert json.loads(out)["spend"]["evaluations"] <= 70
        assert heldout("show", "r", "--json")[0] == 0

    def test_dry_run_prints_config_and_plan_and_writes_nothing(self, heldout: Run, tmp_path: Path) -> None:
        code, out, _ = heldout("run", "winners_curse", "preset=small", "budget.evaluations=500", "--dry-run", "--json")
        assert code == 0
        answer = json.loads(out)
        assert answer["config"]["tasks"]["select"] == 32
        assert answer["plan"]["proposals"] == 12
        # 32 start + 16 noise + 200 audit + 48 train = 296 beside the proposals; (500 - 296) // 32 = 6
        assert answer["plan"]["affordable_proposals"] == 6
        assert list(tmp_path.iterdir()) == []

    def test_a_config_file_and_the_command_line(self, heldout: Run, tmp_path: Path) -> None:
        (tmp_path / "c.toml").write_text('loop = "winners_curse"\npreset = "small"\n[tasks]\nselect = 20\n')
        code, out, _ = heldout("run", "c.toml", "tasks.audit=30", "--dry-run", "--json")
        assert code == 0
        tasks = json.loads(out)["config"]["tasks"]
        assert (tasks["select"], tasks["audit"], tasks["train"]) == (20, 30, 48)

    def test_resume_takes_new_limits_without_a_config(self, heldout: Run, rows: Path) -> None:
        heldout(*own(rows, "budget.evaluations=40", "audit.auto=false"), "--out", "r", "--json")
        code, out, _ = heldout("run", "budget.evaluations=100000", "--resume", "--out", "r", "--json")
        assert code == 0
        assert json.loads(out)["status"] != "stopped"

    def test_resume_needs_no_config(self, heldout: Run, rows: Path) -> None:
        first = json.loads(heldout(*own(rows), "--json", "--out", "r")[1])
        code, out, _ = heldout("run", "--resume", "--out", "r", "--json")
        assert code == 0
        assert json.loads(out)["final"] == first["final"]


class TestBadInput:
    """Each a clear message and exit code 2, and nothing lost."""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("run", "winners_cruse"), "no loop 'winners_cruse'; there is gepa, gso, improve_any_task, "),
            (("run", "winners_curse", "tasks.selct=3"), "tasks.selct: unknown key; allowed here"),
            (("run", "winners_curse", "preset=huge"), "no preset 'huge'; there is small, default, paper"),
            (("run", "winners_curse", "tasks.select=0"), "tasks.select"),
            (("run", "absent.toml"), "cannot read the config 'absent.toml'"),
            (("run", "winners_curse", "tasks.source=nowhere"), "no task source 'nowhere'; there is aime, amc23, "),
            (("run", "winners_curse", "tasks.source=jsonl", "tasks.path=absent.jsonl"), "absent.jsonl"),
            (("run", "winners_curse", "tasks.select=100000"), "100000"),
            (("run", "winners_curse", "solver.model.name=gpt9"), "no model 'gpt9'; there is"),
            (("run", "winners_curse", "gate.kind=magic"), "no gate 'magic'; there is"),
            (("run", "winners_curse", "improver.kind=magic"), "no improver 'magic'; there is"),
            (("run",), "name a loop or a config"),
            (("run", "--resume", "--out", "nothing-here"), "does not exist"),
            (("show", "nothing-here"), "does not exist"),
            (("quickstart", "--model", "gpt9"), "quickstart has no model 'gpt9'"),
            (("bench", "nothing"), "nothing"),
            (("compare", "a.json", "b.json"), "a.json"),
            (("no-such-command",), "no-such-command"),
            (("run", "winners_curse", "--no-such-option"), "--no-such-option"),
        ],
    )
    def test_wrong_use(self, heldout: Run, words: tuple[str, ...], message: str) -> None:
        code, _, err = heldout(*words)
        assert code == 2
        assert message in err
        assert "Traceback" not in err

    def test_a_row_without_a_field_names_the_row(self, heldout: Run, tmp_path: Path) -> None:
        broken = [row(0), {"id": "t1", "input": "no reference here"}, row(2)]
        write_rows(tmp_path / "bad.jsonl", broken)
        code, _, err = heldout(*own(tmp_path / "bad.jsonl"))
        assert code == 2
        assert "bad.jsonl" in err
        assert "reference" in err
        assert "2" in err

    def test_a_duplicate_id_is_refused(self, heldout: Run, tmp_path: Path) -> None:
        write_rows(tmp_path / "bad.jsonl", [row(0), row(1), {**row(2), "id": "t0"}])
        code, _, err = heldout(*own(tmp_path / "bad.jsonl"))
        assert (code, "t0" in err) == (2, True)

    @pytest.mark.parametrize(
        ("body", "message"),
        [("raise RuntimeError('broken')", "RuntimeError: broken"), ("return 2", "2"), ("return None", "None")],
    )
    def test_a_grader_that_raises_or_leaves_its_range(
        self, heldout: Run, rows: Path, tmp_path: Path, body: str, message: str
    ) -> None:
        name = f"grader_that_does_{body.split()[0]}_{len(body)}"
        (tmp_path / f"{name}.py").write_text(f"def grade(answer, reference):\n    {body}\n")
        code, _, err = heldout(*own(rows, f"tasks.grader={name}:grade"), "--out", "r")
        assert code == 2
        assert message in err
        assert (tmp_path / "r" / "events.jsonl").exists()

    def test_a_folder_that_is_not_a_run(self, heldout: Run, tmp_path: Path) -> None:
        (tmp_path / "notarun").mkdir()
        code, _, err = heldout("show", "notarun")
        assert code == 2
        assert "is not the folder of a run" in err

    def test_a_run_of_another_config_is_not_resumed(self, heldout: Run, rows: Path) -> None:
        heldout(*own(rows), "--out", "r")
        code, _, err = heldout(*own(rows, "tasks.select=13"), "--out", "r", "--resume")
        assert code == 2
        assert "tasks.select: 12 -> 13" in err

    def test_an_existing_run_is_not_overwritten(self, heldout: Run, rows: Path, tmp_path: Path) -> None:
        heldout(*own(rows), "--out", "r")
        before = (tmp_path / "r" / "events.jsonl").read_bytes()
        code, _, err = heldout(*own(rows), "--out", "r")
        assert code == 2
        assert "--resume" in err
        assert (tmp_path / "r" / "events.jsonl").read_bytes() == before

    def test_json_errors_are_one_object_too(self, heldout: Run) -> None:
        code, out, err = heldout("show", "nothing-here", "--json")
        assert code == 2
        assert "does not exist" in json.loads(out)["error"]
        assert err


class TestCompare:
    def test_the_published_verse_files(self, heldout: Run, shared_data: Path) -> None:
        files = [str(shared_data / "verse_outcomes" / name) for name in ("meta_harness_id.json", "verse_mh_id.json")]
        code, out, _ = heldout("compare", *files, "--json")
        assert code == 0
        answer = json.loads(out)
        assert answer["n_tasks"] == 108
        assert 100 * answer["mean_difference"] == pytest.approx(3.09, abs=0.005)
        assert 100 * answer["standard_error"] == pytest.approx(2.65, abs=0.005)
        assert answer["interval"][0] < 0 < answer["interval"][1]
        assert {"a_mean", "b_mean", "confidence", "fixed", "broken", "both", "neither", "missing", "p_value",
                "flip_rate_a", "flip_rate_b", "test"} <= answer.keys()  # fmt: skip
        code, out, _ = heldout("compare", *files)
        assert "includes zero" in " ".join(out.split())

    def test_missing_is_counted_and_never_zero(self, heldout: Run, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text(json.dumps({"x": 1, "y": 0, "z": None}))
        (tmp_path / "b.json").write_text(json.dumps({"x": 1, "y": 1, "w": 1}))
        answer = json.loads(heldout("compare", "a.json", "b.json", "--json")[1])
        assert (answer["n_tasks"], answer["missing"], answer["mean_difference"]) == (2, 2, 0.5)
        assert (answer["fixed"], answer["broken"], answer["test"]) == (1, 0, "mcnemar_exact")


class TestNoise:
    def test_json_keys(self, heldout: Run, rows: Path) -> None:
        code, out, _ = heldout("noise", *own(rows)[1:], "--json")
        assert code == 0
        answer = json.loads(out)
        assert answer["n_tasks"] == 12
        assert answer["flip_rate"] == 0.0
        assert answer["expected_flips"] == 0.0
        assert {"greedy", "mcnemar", "pace", "select_confirm", "bayes_pilot", "ladder"} <= answer["gates"].keys()
        assert all(0.0 <= rate <= 1.0 for rate in answer["gates"].values())
        assert answer["gates"]["pace"] <= answer["gates"]["mcnemar"] <= answer["gates"]["greedy"]


class TestLooking:
    def test_runs_show_report_and_export(self, heldout: Run, rows: Path, tmp_path: Path) -> None:
        assert "No runs" in heldout("runs")[1]
        first = json.loads(heldout(*own(rows), "--json", "--out", "runs/one")[1])
        assert "one" in heldout("runs")[1]
        assert json.loads(heldout("runs", "--json")[1])["runs"][0]["run"] == "one"
        assert json.loads(heldout("show", "one", "--json")[1])["final"] == first["final"]
        assert "SIMULATION" in heldout("show", "one")[1]
        (tmp_path / "runs" / "one" / "report.html").unlink()
        code, out, _ = heldout("report", "one")
        assert code == 0
        assert Path(out.strip()).is_file()
        code, out, _ = heldout("export", "one", "--to", "folder", "--out", "best")
        assert code == 0
        assert (tmp_path / "best" / "instruction.md").is_file()
        assert heldout("export", "one", "--to", "folder", "--out", "best")[0] == 2

    def test_one_damaged_run_hides_no_other(self, heldout: Run, rows: Path, tmp_path: Path) -> None:
        heldout(*own(rows), "--out", "runs/good")
        heldout(*own(rows), "--out", "runs/bad")
        journal = tmp_path / "runs" / "bad" / "events.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        lines[30] = lines[30].replace(b'"seq":30', b'"seq":31')
        journal.write_bytes(b"".join(lines))
        code, out, err = heldout("runs", "--json")
        assert code == 0
        assert [one["run"] for one in json.loads(out)["runs"]] == ["good"]
        assert "line 31" in err
        assert heldout("show", "bad")[0] == 1, "an index from before the damage must not hide it"

    def test_the_version(self, heldout: Run) -> None:
        assert heldout("--version")[:2] == (0, "heldout 0.1.0\n")

    def test_audit_refuses_a_second_opening(self, heldout: Run, rows: Path) -> None:
        heldout(*own(rows, "audit.auto=false", "seed=3"), "--out", "r")
        code, out, _ = heldout("audit", "r", "--json")
        assert code == 0
        if json.loads(out)["verdict"] != "unchanged":
            code, _, err = heldout("audit", "r")
            assert code == 2
            assert "--again" in err
            assert heldout("audit", "r", "--again")[0] == 0

    def test_tasks_list_and_check(self, heldout: Run, rows: Path) -> None:
        assert "trec:6" in heldout("tasks", "list")[1]
        words = ("train=24", "select=12", "audit=20", f"path={rows}", 'options={labels = "references"}')
        code, out, _ = heldout("tasks", "check", "jsonl", *words, "--json")
        assert code == 0
        answer = json.loads(out)
        assert answer["gold_right"] == answer["wrong_refused"] == answer["items"] == 80

    def test_doctor_names_what_mends(self, heldout: Run) -> None:
        code, out, _ = heldout("doctor", "--json")
        assert code == 0
        assert all(check["works"] or check["mend"] for check in json.loads(out)["checks"])

    def test_every_command_has_help(self, heldout: Run) -> None:
        names = (
            "quickstart",
            "run",
            "runs",
            "show",
            "report",
            "audit",
            "compare",
            "noise",
            "tasks",
            "export",
            "bench",
            "doctor",
        )
        code, out, _ = heldout("--help")
        assert code == 0
        for name in names:
            assert name in out
            assert heldout(name, "--help")[0] == 0


@pytest.mark.slow
def test_the_simulated_quickstart_is_quick_and_says_what_it_is(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "heldout", "quickstart", "--model", "simulated"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "SIMULATION" in done.stdout
    assert "report.html" in done.stdout
    assert done.stderr == ""
