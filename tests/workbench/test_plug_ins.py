"""Sources, gates and models from the user's own folder, and what is said when they raise."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from run_events import of_kind, paid, written

from heldout.config import RunConfig, load_config
from heldout.store import RunFolder

Config = Callable[..., RunConfig]
Finish = Callable[[RunConfig], RunFolder]
Command = Callable[..., tuple[int, str, str]]


SOURCE = """
from heldout.tasks import Item
import json
from pathlib import Path

class Source:
    description = "Say big or small."
    instruction = "Answer the question."
    labels = ("big", "small")
    grader = "label"
    def __init__(self, *, path=None, seed=0):
        self.path = path
    def items(self):
        if Path("source-is-broken").exists():
            raise OSError("the data base is down")
        rows = map(json.loads, Path(self.path).read_text().splitlines())
        return [Item(id=row["id"], input=row["input"], reference=row["reference"]) for row in rows]
"""

GATE = """
from pathlib import Path
from heldout.records import Decision, Verdict

class Gate:
    name = "mine"
    repeats = 1
    fresh_tasks = 0
    def __init__(self, config):
        self.config = config
    def decide(self, table):
        real = (table.edit_sizes != 1).any()
        if real and Path("gate-is-broken").exists():
            raise ZeroDivisionError("of my gate")
        if real and Path("gate-is-odd").exists():
            return {"verdict": "accept"}
        if real and Path("gate-is-out-of-range").exists():
            return Decision(gate=self.name, verdict=Verdict.ACCEPT, winner=99)
        if not real and Path("calibration-is-broken").exists():
            raise ZeroDivisionError("of my gate")
        return Decision(gate=self.name, verdict=Verdict.ACCEPT, winner=0, n=len(table.incumbent), reason="always")
"""

MODEL = """
from pathlib import Path
from heldout.models import Reply

class Model:
    name = "mine"
    fingerprint = "mine-1"
    deterministic = True
    can_choose = False
    simulated = False
    def __init__(self, config):
        self.config = config
    def complete(self, request):
        text = request.messages[-1].content
        if Path("model-is-broken").exists():
            raise RuntimeError("out of memory")
        if Path("model-is-odd").exists():
            return text
        if Path("model-is-flaky").exists() and sum(text.encode()) % 8 == 0:
            raise RuntimeError("out of memory")
        return Reply(text="big" if len(request.messages) > 2 else "?", tokens_in=5, tokens_out=1)
    def close(self):
        Path("closed").touch()
"""

PLUGINS = (
    *("tasks.source=my_source:Source", "tasks.grader=label"),
    *("gate.kind=my_gate:Gate", "solver.model.name=my_model:Model", "solver.answer=generate"),
)


class TestPlugIns:
    """A person's own source, gate and model, from the folder in which the command is typed."""

    @pytest.fixture(autouse=True)
    def _plug_ins(self, tmp_path: Path) -> None:
        for name in ("my_source", "my_gate", "my_model"):
            sys.modules.pop(name, None)
        (tmp_path / "my_source.py").write_text(SOURCE)
        (tmp_path / "my_gate.py").write_text(GATE)
        (tmp_path / "my_model.py").write_text(MODEL)

    @pytest.fixture
    def words(self, tiny: Config, tmp_path: Path) -> tuple[str, ...]:
        settings = tiny().model_dump(mode="json")
        settings["tasks"]["options"] = {}
        return ("run", written(load_config([settings]), tmp_path / "c.toml"), *PLUGINS, "--out", "r")

    def test_work_by_their_dotted_paths(self, heldout: Command, words: tuple[str, ...], tmp_path: Path) -> None:
        code, out, err = heldout(*words, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["status"] == "improved"
        folder = RunFolder(tmp_path / "r")
        assert of_kind(folder, "decision")[0]["decision"]["reason"] == "always"
        assert of_kind(folder, "run.started")[0]["solver"] == "mine"
        assert of_kind(folder, "run.started")[0]["source"] == "my_source:Source"
        assert (tmp_path / "closed").exists()

    @pytest.mark.parametrize(
        ("flag", "message"),
        [
            ("source-is-broken", "the task source 'my_source:Source': OSError: the data base is down"),
            ("model-is-broken", "the model 'mine' raised: RuntimeError: out of memory"),
            ("model-is-odd", "the model 'mine' returned 'Answer yes or no.', not a heldout.models.Reply"),
        ],
    )
    def test_that_are_broken_from_the_start_are_named_before_anything_is_written(
        self, heldout: Command, words: tuple[str, ...], tmp_path: Path, flag: str, message: str
    ) -> None:
        (tmp_path / flag).touch()
        code, _, err = heldout(*words)
        assert code == 2
        assert message in err
        assert "Traceback" not in err
        assert not (tmp_path / "r").exists()

    @pytest.mark.parametrize("part", ["source", "gate", "model"])
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("def (:", "cannot be imported: SyntaxError"),
            ("1 / 0", "cannot be imported: ZeroDivisionError"),
            ("import no_such_package", "cannot import 'no_such_package'"),
            ("class Other: pass", "has no '"),
        ],
    )
    def test_that_cannot_be_imported_are_named(
        self, heldout: Command, words: tuple[str, ...], tmp_path: Path, part: str, text: str, message: str
    ) -> None:
        (tmp_path / f"my_{part}.py").write_text(text)
        code, _, err = heldout(*words)
        assert code == 2
        assert f"'my_{part}:{part.title()}'" in err
        assert message in err
        assert "Traceback" not in err
        assert not (tmp_path / "r").exists()

    @pytest.mark.parametrize("part", ["source", "gate", "model"])
    def test_that_cannot_be_made_are_named(
        self, heldout: Command, words: tuple[str, ...], tmp_path: Path, part: str
    ) -> None:
        (tmp_path / f"my_{part}.py").write_text(
            f"class {part.title()}:\n    def __init__(self, *a, **k):\n        raise ValueError('no luck')\n"
        )
        code, _, err = heldout(*words)
        assert code == 2
        assert f"'my_{part}:{part.title()}'" in err
        assert "ValueError: no luck" in err
        assert not (tmp_path / "r").exists()

    @pytest.mark.parametrize(
        ("flag", "message"),
        [
            ("gate-is-broken", "the gate 'my_gate:Gate' raised: ZeroDivisionError: of my gate"),
            ("gate-is-odd", "the gate 'my_gate:Gate' returned {'verdict': 'accept'}, not a heldout.records.Decision"),
            ("gate-is-out-of-range", "the gate 'my_gate:Gate' named candidate 99 the winner; there are 2"),
            ("calibration-is-broken", "the gate 'my_gate:Gate' raised while it was calibrated: ZeroDivisionError"),
        ],
    )
    def test_a_gate_that_breaks_stops_the_run_which_goes_on_once_it_is_mended(
        self, heldout: Command, words: tuple[str, ...], tmp_path: Path, flag: str, message: str
    ) -> None:
        (tmp_path / flag).touch()
        code, _, err = heldout(*words)
        assert code == 2
        assert message in err
        assert "Traceback" not in err
        (tmp_path / flag).unlink()
        assert heldout(*words, "--resume")[0] == 0
        assert heldout(*words[:-1], "whole")[0] == 0
        broken, whole = RunFolder(tmp_path / "r"), RunFolder(tmp_path / "whole")
        assert of_kind(broken, "decision") == of_kind(whole, "decision")
        assert paid(broken) == paid(whole)

    def test_a_model_that_raises_on_some_tasks_leaves_them_not_measured(
        self, heldout: Command, words: tuple[str, ...], tmp_path: Path
    ) -> None:
        (tmp_path / "model-is-flaky").touch()
        assert heldout(*words)[0] == 0
        missing = [data for data in of_kind(RunFolder(tmp_path / "r"), "outcome") if data["status"] == "not_measured"]
        assert missing
        assert {data["error"] for data in missing} == {"the model 'mine' raised: RuntimeError: out of memory"}

    def test_a_source_that_breaks_when_the_audit_opens_is_named_and_the_run_can_be_resumed(
        self, heldout: Command, words: tuple[str, ...], tmp_path: Path
    ) -> None:
        assert heldout(*words, "audit.auto=false")[0] == 0
        (tmp_path / "source-is-broken").touch()
        code, _, err = heldout("audit", "r")
        assert (code, "the data base is down" in err) == (2, True)
        (tmp_path / "source-is-broken").unlink()
        assert heldout("audit", "r")[0] == 0
