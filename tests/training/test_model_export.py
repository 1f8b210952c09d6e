"""`export --to model`: a folder that transformers loads, with a card that says where it comes from."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra train")

from tiny_parents import job, tiny_parent  # noqa: E402 (it imports torch)
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from heldout.cli import main  # noqa: E402
from heldout.config import config_digest, load_config  # noqa: E402
from heldout.records import Candidate, Decision, Verdict  # noqa: E402
from heldout.store import Journal, RunFolder  # noqa: E402
from heldout.store.events import (  # noqa: E402
    AuditResult,
    CandidateAdded,
    Decided,
    FamilyResult,
    RunFinished,
    RunStarted,
    SplitMade,
)
from heldout.store.training_events import AttemptEnded, DatasetBuilt, Diagnosed, TrainingEnded  # noqa: E402
from heldout.store.weights import WeightsOrigin, WeightsStore  # noqa: E402
from heldout.training import Watch  # noqa: E402
from heldout.training.trainer import TransformersTrainer  # noqa: E402

Heldout = Callable[..., tuple[int, str, str]]
INSTRUCTION = {"instruction.md": "Write the letter.\n"}


@dataclass(frozen=True, slots=True)
class Trained:
    """A run of one real training of a tiny model."""

    folder: RunFolder
    start: str
    final: str
    """Digests of weights."""

    @property
    def store(self) -> WeightsStore:
        return WeightsStore(self.folder.weights)


@pytest.fixture
def heldout(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Heldout:
    """A command in a temporary folder; exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(words)
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trained]:
    """By method, each trained once."""
    made: dict[str, Trained] = {}

    def trained(method: str) -> Trained:
        if method not in made:
            made[method] = _trained(tmp_path_factory.mktemp(method), method)
        return made[method]

    return trained


@pytest.fixture
def copied(trainings: Callable[[str], Trained], tmp_path: Path) -> Callable[[str], Trained]:
    """A copy of the run as `r` in the working folder."""

    def copy(method: str) -> Trained:
        one = trainings(method)
        shutil.copytree(one.folder.path, tmp_path / "r")
        return Trained(RunFolder(tmp_path / "r"), one.start, one.final)

    return copy


def _trained(tmp: Path, method: str) -> Trained:
    folder = RunFolder.create(tmp / "r")
    model = {"name": "local:tiny", "max_tokens": 48}
    config = load_config([{"loop": "improve_any_task", "solver": {"harness": "completion", "model": model}}])
    folder.save_config(config)
    store = WeightsStore(folder.weights)
    parent = tiny_parent(tmp / "tiny")
    (parent / "README.md").write_text("The base's own card.\n")
    start = store.adopt(parent, source="local:tiny")
    fitted = TransformersTrainer().fit(job(tmp, store.path(start), steps=2, method=method), Watch())
    origin = WeightsOrigin(parent=start, data="da" * 32, config="c0" * 32, seed=1)
    final = store.add(Path(fitted.folder), origin)
    before = Candidate(files=INSTRUCTION, weights=start)
    after = Candidate(files=INSTRUCTION, weights=final, parent=before.digest)
    for one in (before, after):
        folder.save(one)
    with Journal.open(folder.events) as journal:
        _begin(journal, config_digest(config), before)
        _round(journal, before, after, method)
        _end(journal, before, after)
    return Trained(folder, start, final)


def _begin(journal: Journal, digest: str, before: Candidate, *, simulated: bool = False) -> None:
    started = RunStarted(
        run="tiny-run", loop="improve_any_task", config_digest=digest, heldout="0.1.0",
        command="heldout run improve_any_task solver.model.name=local:tiny", simulated=simulated, solver="local:tiny",
        improver="training_catalog", description="Letters.", source="letters",
    )  # fmt: skip
    journal.append("run.started", started)
    roles = {"train": 4, "select": 4, "audit": 8, "retain": 4}
    journal.append("split", SplitMade(roles=roles, digest="5b" * 32))
    track = "model" if before.weights else "skill"
    journal.append("candidate", CandidateAdded(digest=before.digest, parent=None, track=track, generation=0, index=0))


def _round(journal: Journal, before: Candidate, after: Candidate, method: str) -> None:
    journal.append("diagnosis", Diagnosed(round=1, head=before.digest, n=4, score=0.0, focal="stop"))
    built = DatasetBuilt(round=1, digest="da" * 32, built=9, size=8, config="c0" * 32, settings={"method": method})
    journal.append("dataset", built)
    journal.append(
        "training",
        TrainingEnded(
            round=1, parent=before.weights or "", weights=after.weights, data="da" * 32, config="c0" * 32, seed=1
        ),
    )
    added = CandidateAdded(
        digest=after.digest, parent=before.digest, track="model", generation=1, index=0, note="end_token for stop"
    )
    journal.append("candidate", added)
    decision = Decision(
        gate="net", verdict=Verdict.ACCEPT, winner=0, n=4, effect=0.75, standard_error=0.2, interval=(0.3, 1.0), wins=3,
        losses=0, reason="net +3 > 0",
    )  # fmt: skip
    decided = Decided(
        generation=1, incumbent=before.digest, candidates=(after.digest,), incumbent_score=0.0, scores=(0.75,),
        winner=after.digest, decision=decision,
    )  # fmt: skip
    journal.append("decision", decided)
    journal.append("attempt", AttemptEnded(round=1, focal="stop", strategy="end_token", status="accepted", reason="+"))


def _end(journal: Journal, before: Candidate, after: Candidate) -> None:
    finished = RunFinished(
        status="improved", stop_reason="", start=before.digest, final=after.digest, start_select=0.0, final_select=0.75,
        select_gain=0.75, elapsed_s=1.0,
    )  # fmt: skip
    journal.append("run.finished", finished)
    sort = FamilyResult(family="sort", n_tasks=4, start_mean=1.0, final_mean=0.5, gain=-0.5, interval=(-0.9, -0.1))
    for role, gain, families in (("audit", 0.5, ()), ("retain", -0.5, (sort,))):
        result = AuditResult(
            role=role, start=before.digest, final=after.digest, n_tasks=8, missing=0, start_mean=0.5 - gain / 2,
            final_mean=0.5 + gain / 2, gain=gain, standard_error=0.1, interval=(gain - 0.2, gain + 0.2),
            confidence=0.95, fixed=4, broken=0, both=0, neither=4, p_value=0.1, verdict="improved", sentence="s",
            families=families,
        )  # fmt: skip
        journal.append("audit", result)


def test_full_weights_are_copied_and_transformers_loads_them(
    heldout: Heldout, copied: Callable[[str], Trained]
) -> None:
    run = copied("full")
    code, out, err = heldout("export", "r", "--to", "model", "--out", "best", "--json")
    assert code == 0, err
    assert json.loads(out) | {"digest": ""} == {"digest": "", "to": "model", "path": "best"}
    weights = run.store.path(run.final) / "model.safetensors"
    assert Path("best/model.safetensors").read_bytes() == weights.read_bytes()
    AutoTokenizer.from_pretrained("best")
    AutoModelForCausalLM.from_pretrained("best")


def test_adapters_are_merged_on_their_base(heldout: Heldout, copied: Callable[[str], Trained]) -> None:
    run = copied("lora")
    assert heldout("export", "r", "--to", "model", "--out", "best")[0] == 0
    assert not Path("best/adapter_config.json").exists()
    merged, base = (AutoModelForCausalLM.from_pretrained(path) for path in ("best", run.store.path(run.start)))
    name = "model.layers.0.self_attn.q_proj.weight"
    assert not torch.equal(merged.state_dict()[name], base.state_dict()[name])
    assert torch.equal(merged.get_input_embeddings().weight, base.get_input_embeddings().weight)
    assert "Adapters, merged on their base for this folder." in Path("best/README.md").read_text()


def test_the_card_has_provenance_the_audited_gain_and_what_was_measured_elsewhere(
    heldout: Heldout, copied: Callable[[str], Trained]
) -> None:
    run = copied("full")
    heldout("export", "r", "--to", "model", "--out", "best")
    card = Path("best/README.md").read_text()
    assert "# tiny-run" in card
    assert "Trained from `local:tiny` by the loop `improve_any_task`" in card
    assert "Audited gain over the start: **+50.0 points** (95 % interval +30.0 to +70.0) on 8 tasks" in card
    assert "The search itself saw +75.0 points on the tasks that it chose by, 25.0 more than the audit found." in card
    assert "| retain | 8 | 75.0 % | 25.0 % | −50.0 | −70.0 to −30.0 |" in card
    assert "| retain: sort | 4 | 100.0 % | 50.0 % | −50.0 | −90.0 to −10.0 |" in card
    assert f"`{run.start}`: the checkpoint that was brought, `local:tiny`." in card
    assert f"`{run.final}`: end_token for stop, round 1 (accepted), data `{'da' * 32}`, config `{'c0' * 32}`" in card
    assert "the harness completion, temperature 0 and at most 48 tokens" in card
    assert "Write the letter." in card
    assert "heldout run improve_any_task solver.model.name=local:tiny" in card
    assert Path("best/BASE_README.md").read_text() == "The base's own card.\n"


@pytest.mark.slow
def test_it_loads_where_heldout_is_not_installed(heldout: Heldout, copied: Callable[[str], Trained]) -> None:
    copied("lora")
    heldout("export", "r", "--to", "model", "--out", "best")
    program = """
import sys
sys.modules["heldout"] = sys.modules["peft"] = None
from transformers import AutoModelForCausalLM, AutoTokenizer
words = AutoTokenizer.from_pretrained("best")
model = AutoModelForCausalLM.from_pretrained("best")
asked = words.apply_chat_template([{"role": "user", "content": "a"}], add_generation_prompt=True, return_tensors="pt",
                                  return_dict=True)
assert model.generate(**asked, max_new_tokens=3, do_sample=False).shape[1] > asked["input_ids"].shape[1]
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_changed_and_pruned_weights_are_refused_and_nothing_is_written(
    heldout: Heldout, copied: Callable[[str], Trained]
) -> None:
    run = copied("full")
    (run.folder.weights / run.final / "config.json").write_text("{}")
    code, _, err = heldout("export", "r", "--to", "model", "--out", "best")
    assert (code, "were changed: their digest is now" in err) == (1, True)
    run.store.prune(run.final)
    code, _, err = heldout("export", "r", "--to", "model", "--out", "best")
    assert (code, "pruned, or never kept" in err) == (1, True)
    assert not [path for path in Path().iterdir() if "best" in path.name]


def test_adapters_whose_base_was_pruned_are_refused_and_nothing_is_left(
    heldout: Heldout, copied: Callable[[str], Trained]
) -> None:
    run = copied("lora")
    run.store.prune(run.start)
    code, _, err = heldout("export", "r", "--to", "model", "--out", "best")
    assert (code, "which were not given" in err) == (2, True)
    assert not [path for path in Path().iterdir() if "best" in path.name]


def test_a_folder_that_exists_is_not_touched(heldout: Heldout, copied: Callable[[str], Trained]) -> None:
    copied("full")
    Path("best").mkdir()
    code, _, err = heldout("export", "r", "--to", "model", "--out", "best")
    assert (code, "'best' exists; name a folder that does not" in err) == (2, True)
    assert "--out best" in heldout("export", "r", "--to", "model")[2]
    assert not list(Path("best").iterdir())


@pytest.mark.parametrize(
    ("name", "final", "message"),
    [
        ("simulated_formats", Candidate(files={}, weights="ab" * 32), "trained simulated weights"),
        ("simulated_tables", Candidate(files={"SKILL.md": "x"}), "trained no weights: its result is a folder of text"),
    ],
)
def test_runs_without_a_model_are_refused_with_the_way_out(
    heldout: Heldout, name: str, final: Candidate, message: str
) -> None:
    folder = RunFolder.create("r")
    config = load_config([{"loop": "improve_any_task", "solver": {"model": {"name": name}}}])
    folder.save_config(config)
    folder.save(final)
    with Journal.open(folder.events) as journal:
        _begin(journal, config_digest(config), final, simulated=True)
        _end(journal, final, final)
    code, _, err = heldout("export", "r", "--to", "model", "--out", "best")
    assert (code, message in err) == (2, True), err
    assert "Traceback" not in err
    assert not Path("best").exists()
