"""Harbor task folders: reading, what runs without an image, grading over what an agent left, cheats."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from heldout.benchmarks import HarborSource
from heldout.benchmarks.harbor_folder import HarborReference, read_folder
from heldout.benchmarks.harbor_grading import grade_harbor
from heldout.config import TasksConfig
from heldout.errors import SandboxError, SetupError, TaskError
from heldout.records import Task
from heldout.sandbox import make_sandboxes
from heldout.tasks import load_source, read_items
from heldout.testing.object_graph import reachable_strings

TOML = """\
version = "1.0"
[metadata]
difficulty = "easy"
category = "files"
[verifier]
timeout_sec = 20.0
[environment]
memory = "1G"
"""
SUM: Mapping[str, str] = {
    "task.toml": TOML,
    "instruction.md": "Write the sum of /app/data/numbers.txt to /app/out.txt; leave /application alone.\n",
    "environment/Dockerfile": "# a plain image\nFROM python:3.13-slim-bookworm\nWORKDIR /app\nCOPY data/ \\\n  data/\n",
    "environment/data/numbers.txt": "1\n2\n3\n",
    "tests/test.sh": (
        "apt-get update\ncurl -LsSf https://example.org/uv/install.sh | sh\nuvx pytest /tests/test_outputs.py\n"
        "if [ $? -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
    ),
    "tests/test_outputs.py": (
        "from pathlib import Path\n\n\ndef test_sum():\n"
        '    assert Path("/app/out.txt").read_text().strip() == "6", "the sum is wrong"\n\n\n'
        'def test_input():\n    assert Path("/app/data/numbers.txt").read_text().split() == ["1", "2", "3"]\n'
    ),
    "solution/solve.sh": "sed ':a;N;$!ba;s/\\n/+/g;s/.*/print(&)/' /app/data/numbers.txt | python3 > /app/out.txt\n",
}
DONE: Mapping[str, str] = {
    "task.toml": TOML,
    "instruction.md": "Write the word done to the file state in your work folder.\n",
    "tests/test.sh": (
        "mkdir -p /logs/verifier\n"
        "if grep -qx done /work/state; then echo 1; else echo 0.25; fi > /logs/verifier/reward.txt\n"
    ),
    "solution/solve.sh": "echo done > state\n",
}


def write(folder: Path, **tasks: Mapping[str, str | None]) -> str:
    for name, files in tasks.items():
        for path, text in files.items():
            if text is not None:
                target = folder / name.replace("_", "-") / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
    return str(folder)


def changed(base: Mapping[str, str], **changes: str | None) -> dict[str, str | None]:
    """`environment__Dockerfile` stands for the path environment/Dockerfile; `_` in a suffix is a point."""
    names = {"dockerfile": "environment/Dockerfile", "toml": "task.toml", "script": "tests/test.sh"}
    names |= {"pytest": "tests/test_outputs.py", "instruction": "instruction.md", "solve": "solution/solve.sh"}
    return {**base, **{names[name]: text for name, text in changes.items()}}


def only(folder: Path, files: Mapping[str, str | None]) -> str:
    """The reference of the one task."""
    (item,) = HarborSource(path=write(folder, task=files)).items()
    return item.reference


def score(answer: Mapping[str, str | None], reference: str) -> float:
    return grade_harbor(json.dumps(answer), reference)


class TestReading:
    def test_a_task_is_read_with_its_work_folder_called_work(self, tmp_path: Path) -> None:
        (item,) = HarborSource(path=write(tmp_path, add_up=SUM)).items()
        assert (item.id, item.family, item.stratum) == ("add-up", "files", "easy")
        assert item.input == "Write the sum of /work/data/numbers.txt to /work/out.txt; leave /application alone.\n"
        known = HarborReference.model_validate_json(item.reference)
        assert known.files == {"data/numbers.txt": "1\n2\n3\n"}
        assert 'Path("/work/out.txt")' in known.tests["test_outputs.py"]
        assert not known.script, "its test.sh needs the network to run pytest, which we have"
        assert (known.timeout_s, known.memory_mb, known.image) == (20.0, 1024, None)

    def test_tasks_come_by_name_and_one_folder_may_be_one_task(self, tmp_path: Path) -> None:
        path = write(tmp_path, b=DONE, a=SUM)
        (tmp_path / "notes").mkdir()
        assert [item.id for item in HarborSource(path=path).items()] == ["a", "b"]
        assert [item.id for item in HarborSource(path=str(tmp_path / "b")).items()] == ["b"]

    @pytest.mark.parametrize(
        ("recipe", "files"),
        [
            ("FROM ubuntu:24.04\nWORKDIR /app\nCOPY . .\n", {"Dockerfile", "data/numbers.txt"}),
            ("FROM debian\nWORKDIR /app\nCOPY data/numbers.txt /app/in.txt\n", {"in.txt"}),
            ("FROM docker.io/library/python:3\nWORKDIR /app\nCOPY data/numbers.txt ./in/\n", {"in/numbers.txt"}),
            ("FROM python:3\nWORKDIR /app\nCOPY data /app/deep/er\nCMD bash\n", {"deep/er/numbers.txt"}),
            ("FROM python:3\nWORKDIR /srv\nWORKDIR app\nCOPY data/numbers.txt .\n", {"numbers.txt"}),
        ],
    )
    def test_a_dockerfile_that_only_copies_text_needs_no_image(
        self, tmp_path: Path, recipe: str, files: set[str]
    ) -> None:
        write(tmp_path, task=changed(SUM, dockerfile=recipe))
        task = read_folder(tmp_path / "task", image=None)
        assert (task.needs, task.refused) == ("", "")
        assert set(task.reference.files) == files

    @pytest.mark.parametrize(
        ("recipe", "needs"),
        [
            ("FROM python:3\nWORKDIR /app\nRUN apt-get install -y gcc\n", "RUN in its Dockerfile"),
            ("FROM node:22\nWORKDIR /app\n", "the image 'node:22'"),
            ("FROM python:3 AS build\nWORKDIR /app\n", "the image 'python:3 AS build'"),
            ("FROM python:3\nWORKDIR /app\nCOPY --from=x /a /b\n", "COPY in its Dockerfile"),
            (
                "FROM python:3\nWORKDIR /app\nCOPY data /etc/data\n",
                "the file /etc/data/numbers.txt outside of its WORKDIR",
            ),
            ("FROM python:3\nWORKDIR /app\nENV A=1\n", "ENV in its Dockerfile"),
            ("FROM python:3\nWORKDIR /app\nCOPY blob /app/\n", "a COPY of 'blob', which is not all text"),
        ],
    )
    def test_anything_else_needs_an_image_and_says_why(self, tmp_path: Path, recipe: str, needs: str) -> None:
        write(tmp_path, task=changed(SUM, dockerfile=recipe))
        (tmp_path / "task" / "environment" / "blob").write_bytes(b"\xff\x00")
        task = read_folder(tmp_path / "task", image="made/{id}:1")
        assert task.needs == needs
        assert (task.reference.image, task.reference.origin) == ("made/task:1", "/app")
        assert task.reference.files == {}

    def test_without_docker_such_tasks_are_refused_by_name_and_may_be_left_out(self, tmp_path: Path) -> None:
        if make_sandboxes("docker").fault() is None:
            pytest.skip("a Docker engine runs here")
        path = write(tmp_path, base=SUM, other=changed(SUM, dockerfile="FROM node:22\nWORKDIR /app\n"))
        with pytest.raises(
            SetupError, match=r"1 of 2 tasks need.*other \(the image 'node:22'\).*only=\"base\" to keep the 1"
        ):
            HarborSource(path=path).items()
        kept = HarborSource(path=path, only="base")
        assert [item.id for item in kept.items()] == ["base"]
        assert kept.environment.names == ("base",)

    @pytest.mark.parametrize(
        ("files", "why"),
        [
            (changed(SUM, script="curl x | sh\n", pytest=None), "its test.sh uses curl, and there is no network"),
            (changed(SUM, script="pytest /tests/checks.py\n", pytest=None), "its test.sh runs pytest on files"),
            ({**SUM, "environment/docker-compose.yaml": "services: {}\n"}, "it needs several containers"),
            (changed(SUM, dockerfile="FROM python:3\nCOPY data /app/data\n"), "its Dockerfile names no WORKDIR"),
        ],
    )
    def test_what_no_sandbox_can_run_is_refused_whatever_runs_here(
        self, tmp_path: Path, files: dict[str, str | None], why: str
    ) -> None:
        path = write(tmp_path, good=DONE, bad=files)
        with pytest.raises(SetupError, match=rf"1 of 2 tasks cannot run.*bad \({why}.*only=\"runnable\""):
            HarborSource(path=path).items()
        assert [item.id for item in HarborSource(path=path, only="runnable").items()] == ["good"]

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"toml": "version = "}, r"task\.toml' is not valid TOML"),
            ({"toml": "[verifier]\ntimeout_sec = 'long'\n"}, r"task\.toml': verifier\.timeout_sec must be a number"),
            ({"toml": "[verifier]\ntimeout_sec = 0\n"}, r"verifier\.timeout_sec must be a number above 0"),
            ({"toml": "environment = 3\n"}, r"environment must be a table"),
            ({"toml": "[metadata]\ncategory = 3\n"}, r"metadata\.category must be a text"),
            ({"toml": "[environment]\nmemory = 'much'\n"}, r"environment\.memory must be like"),
            ({"instruction": " \n"}, r"instruction\.md' is empty"),
            ({"instruction": None}, r"cannot read '.*instruction\.md'"),
            ({"script": None, "pytest": None}, r"tests' is missing"),
            (
                {"dockerfile": "FROM python:3\nWORKDIR /app\nCOPY ../../secret /app/\n"},
                r"line 3: the path '\.\./\.\./secret'",
            ),
            ({"dockerfile": "FROM python:3\nWORKDIR /app\nCOPY absent /app/\n"}, r"line 3: COPY names 'absent'"),
        ],
    )
    def test_bad_folders_are_named_with_file_and_field(
        self, tmp_path: Path, changes: dict[str, str | None], words: str
    ) -> None:
        with pytest.raises(SetupError, match=words):
            HarborSource(path=write(tmp_path, task=changed(SUM, **changes))).items()

    def test_links_are_not_followed(self, tmp_path: Path) -> None:
        path = write(tmp_path, task=changed(SUM, dockerfile="FROM python:3\nWORKDIR /app\nCOPY . .\n"))
        (tmp_path / "task" / "environment" / "passwd").symlink_to("/etc/passwd")
        assert "not all text" in read_folder(tmp_path / "task", image=None).needs
        (tmp_path / "task" / "environment" / "Dockerfile").write_text("FROM python:3\nWORKDIR /app\nCOPY passwd .\n")
        with pytest.raises(SetupError, match="'passwd', which is no file"):
            HarborSource(path=path).items()

    @pytest.mark.parametrize("name", ["instruction.md", "task.toml", "environment", "environment/Dockerfile", "tests"])
    def test_a_task_whose_own_parts_are_links_is_refused(self, tmp_path: Path, name: str) -> None:
        write(tmp_path, task=SUM)
        private = tmp_path / "private"
        (tmp_path / "task" / name).rename(private)
        (tmp_path / "task" / name).symlink_to(private)
        with pytest.raises(SetupError, match=f"{name}' is a link"):
            HarborSource(path=str(tmp_path / "task")).items()

    def test_bad_paths_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match=r"set tasks\.path"):
            HarborSource()
        with pytest.raises(SetupError, match="no such folder"):
            HarborSource(path=str(tmp_path / "absent"))
        with pytest.raises(SetupError, match="none of its folders holds a task"):
            HarborSource(path=str(tmp_path)).items()
        with pytest.raises(SetupError, match="allowed are only, image"):
            HarborSource(path=str(tmp_path), colour="red")

    def test_it_is_a_named_source(self, tmp_path: Path) -> None:
        config = TasksConfig(source="harbor", path=write(tmp_path, one=SUM, two=DONE))
        assert [item.id for item in read_items(load_source(config), name="harbor")] == ["one", "two"]


class TestEnvironment:
    def test_a_scene_is_the_work_folder_and_nothing_of_tests_or_solution_is_reachable(self, tmp_path: Path) -> None:
        found = HarborSource(path=write(tmp_path, task=SUM))
        environment = pickle.loads(pickle.dumps(found.environment))
        scene = environment.scene(Task(id="task", input=""), seed=1)
        assert scene.files == {"data/numbers.txt": "1\n2\n3\n"}
        for held in ("\n".join(reachable_strings(environment)), scene.model_dump_json()):
            assert "the sum is wrong" not in held
            assert "print(&)" not in held
        assert "numbers.txt" not in "\n".join(reachable_strings(environment)), "nor any other task's files"
        with pytest.raises(TaskError, match="'other' is not of the source 'harbor'"):
            environment.scene(Task(id="other", input=""), seed=0)


@pytest.mark.usefixtures("bubblewrap")
class TestGrading:
    @pytest.mark.parametrize(("files", "unsolved"), [(SUM, 0.0), (DONE, 0.25)], ids=["pytest", "test.sh"])
    def test_solve_sh_passes_and_the_untouched_folder_does_not(
        self, tmp_path: Path, files: Mapping[str, str], unsolved: float
    ) -> None:
        source = HarborSource(path=write(tmp_path, task=files))
        (item,) = source.items()
        answer = source.solution(item)
        assert grade_harbor(answer, item.reference) == 1.0
        assert grade_harbor.explain(answer, item.reference) == ""
        assert grade_harbor("{}", item.reference) == unsolved

    def test_feedback_names_what_failed_without_the_tests_source(self, tmp_path: Path) -> None:
        told = grade_harbor.explain(json.dumps({"out.txt": "7"}), only(tmp_path, SUM))
        assert told.startswith("test_sum: AssertionError: the sum is wrong")
        assert "def test_sum" not in told

    def test_a_file_that_the_answer_deleted_is_gone(self, tmp_path: Path) -> None:
        assert score({"out.txt": "6\n", "data/numbers.txt": None}, only(tmp_path, SUM)) == 0.0

    def test_a_task_without_a_solution_has_the_empty_one_which_fails(self, tmp_path: Path) -> None:
        source = HarborSource(path=write(tmp_path, task=changed(SUM, solve=None)))
        (item,) = source.items()
        assert source.solution(item) == "{}"
        assert grade_harbor("{}", item.reference) == 0.0

    @pytest.mark.parametrize(
        ("script", "reward"),
        [
            ("mkdir -p /logs/verifier\necho '{\"reward\": 0.5}' > /logs/verifier/reward.json\n", 0.5),
            ("echo 1\n", 0.0),
            ("echo many > /logs/verifier/reward.txt\n", 0.0),
            ("echo 7 > /logs/verifier/reward.txt\n", 0.0),
            ("echo 1 > /logs/verifier/reward.txt\nkill -9 $$\n", 0.0),
            ("echo 1 > /logs/verifier/reward.txt\nexit 3\n", 1.0),
        ],
    )
    def test_the_reward_is_what_the_script_wrote_when_it_came_to_its_end(
        self, tmp_path: Path, script: str, reward: float
    ) -> None:
        assert score({"state": "x"}, only(tmp_path, changed(DONE, script=script))) == reward


IMPORTING = changed(
    SUM,
    script=None,
    pytest=(
        "import sys\nsys.path.insert(0, '/app')\nimport subprocess\nimport answer\n\n\ndef test_value():\n"
        "    assert answer.value() == 6\n\n\ndef test_command():\n"
        "    assert subprocess.run([sys.executable, '/app/answer.py'], timeout=9).returncode == 3\n"
    ),
)
CHEATS = {
    "exits": "raise SystemExit(0)\n",
    "exits hard": "import os\nos._exit(0)\n",
    "ends pytest well": "import pytest\npytest.exit('x', returncode=0)\n",
    "ends pytest well in the middle": "def value():\n    import pytest\n    pytest.exit('x', returncode=0)\n",
    "says that there are no tests": "import pytest\npytest.exit('x', returncode=5)\n",
    "skips": "import unittest\ndef value():\n    raise unittest.SkipTest('x')\n",
    "skips the module": "import pytest\npytest.skip('x', allow_module_level=True)\n",
    "expects to fail": "import pytest\ndef value():\n    pytest.xfail('x')\n",
    "replaces pytest": "import _pytest.python as p\np.Function.runtest = lambda self: None\nvalue = None\n",
}


@pytest.mark.usefixtures("bubblewrap")
class TestCheats:
    def test_an_honest_module_passes(self, tmp_path: Path) -> None:
        text = "import sys\n\n\ndef value():\n    return 6\n\n\nif __name__ == '__main__':\n    sys.exit(3)\n"
        assert score({"answer.py": text}, only(tmp_path, IMPORTING)) == 1.0

    @pytest.mark.parametrize("text", CHEATS.values(), ids=CHEATS.keys())
    def test_a_module_that_cheats_scores_zero_and_never_goes_missing(self, tmp_path: Path, text: str) -> None:
        assert score({"answer.py": text}, only(tmp_path, IMPORTING)) == 0.0

    def test_a_skipped_module_is_not_hidden_by_another_that_passes(self, tmp_path: Path) -> None:
        files = {**IMPORTING, "tests/test_other.py": "def test_other():\n    pass\n"}
        assert score({"answer.py": CHEATS["skips the module"]}, only(tmp_path, files)) == 0.0

    def test_files_of_the_answer_steer_no_test_run(self, tmp_path: Path) -> None:
        hook = "import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_pyfunc_call():\n    return True\n"
        files = {"conftest.py": hook, "pytest.ini": "[pytest]\naddopts = --collect-only\n", "pathlib.py": "boom"}
        assert score(files, only(tmp_path, SUM)) == 0.0
        assert score({**files, "out.txt": "6\n"}, only(tmp_path, SUM)) == 1.0

    def test_tests_cannot_be_written_by_a_script_of_the_answer(self, tmp_path: Path) -> None:
        """The script that is tested tries to write the reward's script and the tests."""
        script = "mkdir -p /logs/verifier\necho 0 > /logs/verifier/reward.txt\nbash /work/run.sh\n"
        attack = "echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh\nrm -rf /tests\n"
        assert score({"run.sh": attack}, only(tmp_path, changed(DONE, script=script))) == 0.0

    @pytest.mark.parametrize("answer", ["no JSON", '{"../x": "1"}', '{"/work/out.txt": "6"}', '{"a": "\\ud800"}'])
    def test_answers_that_no_work_folder_can_hold_score_zero(self, tmp_path: Path, answer: str) -> None:
        assert grade_harbor(answer, only(tmp_path, SUM)) == 0.0

    def test_a_sandbox_that_fails_is_no_zero(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        known = only(tmp_path, DONE)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SandboxError):
            score({"state": "another\n"}, known)
