"""What keeps a training honest: clean data, trusted files, ancestry, a closed audit (invariants 1, 2, 5, 9, 11)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import weights_world as world
from weights_world import DOCTORED, attempts, finished, of_kind, play, rounds, start_weights

from heldout.config import TasksConfig
from heldout.errors import SetupError, StoreError
from heldout.loops.weights.beginning import begin
from heldout.loops.weights.fitting import fit
from heldout.loops.weights.options import ImproveOptions
from heldout.loops.weights.state import Prepared, WeightsSearch
from heldout.store import RunFolder
from heldout.store.training_events import DatasetBuilt
from heldout.store.weights import WeightsStore
from heldout.tasks import load_tasks
from heldout.tasks.duplicates import normalise_text
from heldout.tasks.examples import BuildRequest, Pair
from heldout.testing.object_graph import reached
from heldout.training import Fitted, TrainConfig, TrainingJob
from heldout.training.data import EXAMPLES_FILE, read_examples
from heldout.workbench import Opening
from heldout.workbench.opening import open_run
from heldout.worlds.formats.builders import leak, mixture
from heldout.worlds.formats.skills import START_SKILLS, SimulatedCheckpoint, write_checkpoint

GRADER = """from heldout.worlds.formats.grading import grade as right


def grade(answer, reference):
    return right(answer, reference)
"""


def slightly_leaky(request: BuildRequest) -> Sequence[Pair]:
    """Fresh tasks, and a few of the run's own source in another spelling."""
    own = leak(request.model_copy(update={"count": 4, "source_options": world.TINY["tasks"]["options"]}))
    shouted = [pair.model_copy(update={"prompt": f"  {pair.prompt.upper()}\n"}) for pair in own]
    inside = [pair.model_copy(update={"prompt": f"Please do this. {pair.prompt} Thank you."}) for pair in own]
    return (*mixture(request), *shouted, *inside)


LEAKY = {"leaky": {"builder": "test_improve_any_task_guards:slightly_leaky", "count": 160}}


def closed_texts(config: TasksConfig) -> dict[str, list[str]]:
    """Every task text of select and of the sealed roles."""
    tasks = load_tasks(config)
    sealed = {role: [task.input for task in tasks.open_role(role).tasks] for role in ("audit", "retain")}
    return {"select": [task.input for task in tasks.select], **sealed}


def grams(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[at : at + 13]) for at in range(len(words) - 12)}


class TestData:
    def test_invariant_1_no_example_shares_id_text_or_a_13_gram_with_select_audit_or_retain(
        self, tmp_path: Path
    ) -> None:
        config = world.start(tmp_path, "leaky", recipes=LEAKY)
        folder = world.finish(config, tmp_path / "run")
        (built,) = of_kind(folder, "dataset")
        assert sum(built["removed"].values()) >= 1, "nothing leaked, so this shows nothing"
        assert attempts(folder)[0]["status"] == "accepted"
        examples = read_examples(folder.load(built["blob"]).files[EXAMPLES_FILE])
        texts = {normalise_text(text) for role in closed_texts(config.tasks).values() for text in role}
        long = set().union(*map(grams, texts))
        ids = {item.id for item in _items(config.tasks) if item.id not in _train_ids(config.tasks)}
        for example in examples:
            turns = [normalise_text(turn) for turn in (example.prompt, example.completion)]
            assert not texts & set(turns)
            assert not long & grams(" ".join(turns))
            assert example.provenance.task not in ids
            assert example.provenance.role in ("train", "built")

    def test_a_builder_is_handed_nothing_of_a_closed_role(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "seen")
        world.finish(config, tmp_path / "run")
        (request,) = world.REQUESTS
        secret = {text for role in closed_texts(config.tasks).values() for text in role}
        assert request.failures
        assert reached(request, {task.input for task in request.failures})
        assert reached(request, secret) == set()

    def test_an_improver_is_told_the_settings_that_its_recipes_change(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end", over=(world.SEEING, {"options": {"train": {"batch": 24}}}))
        world.finish(config, tmp_path / "run")
        settings = [view.settings for view in world.VIEWS if not isinstance(view, world.DiagnosisView)]
        assert {(one.batch, one.steps) for one in settings} == {(24, 60)}
        assert len(settings) == 2


def _items(config: TasksConfig) -> Sequence[object]:
    from heldout.tasks.sources import load_source

    return load_source(config).items()


def _train_ids(config: TasksConfig) -> set[str]:
    return {task.id for task in load_tasks(config).train}


class TestTrustedFiles:
    @pytest.fixture
    def own_grader(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        file = tmp_path / "own_formats_grader.py"
        file.write_text(GRADER)
        monkeypatch.syspath_prepend(str(tmp_path))
        yield file
        sys.modules.pop("own_formats_grader", None)

    def test_invariant_2_a_grader_that_a_training_wrote_to_voids_the_run(
        self, tmp_path: Path, own_grader: Path
    ) -> None:
        over = (DOCTORED, rounds(2), {"tasks": {"grader": "own_formats_grader:grade"}})
        config = world.start(tmp_path, "end", over=over)

        def tamper(_: TrainingJob, fitted: Fitted | None) -> None:
            if fitted is not None:
                own_grader.write_text(GRADER + "\n# easier\n")

        world.DOINGS.append(tamper)
        with pytest.raises(SetupError, match=r"the trusted parts grader changed during round 1"):
            world.finish(config, tmp_path / "run")
        folder = RunFolder(tmp_path / "run")
        assert of_kind(folder, "run.finished") == []
        assert of_kind(folder, "audit.opened") == []
        with pytest.raises(SetupError, match="the run is void"):
            world.finish_again(folder)

    @pytest.mark.parametrize("twice", [False, True])
    def test_invariant_2_weights_that_bring_another_chat_template_void_the_run(
        self, tmp_path: Path, twice: bool
    ) -> None:
        """Also where the same recipe's second training, which never becomes the head, brings its own."""
        config = world.start(tmp_path, "end", over=(DOCTORED, {"options": {"training_noise": twice}}))
        full: list[TrainingJob] = []

        def template(job: TrainingJob, fitted: Fitted | None) -> None:
            if fitted is not None and job.steps is None:
                full.append(job)
            if fitted is not None and job.steps is None and len(full) == 1:
                (Path(fitted.folder) / "chat_template.jinja").write_text("{{ messages[-1]['content'] }}")

        world.DOINGS.append(template)
        with pytest.raises(SetupError, match=r"the trusted parts template changed during round 1"):
            world.finish(config, tmp_path / "run")

    def test_the_parts_are_hashed_before_and_after_every_round(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "leak_select", "end", over=(rounds(2),))
        hashes = [(data["round"], data["moment"]) for data in of_kind(folder, "trusted.hash")]
        assert hashes == [(1, "before"), (1, "after"), (2, "before"), (2, "after")]
        kinds = [event.kind for event in world.events(folder) if event.kind in ("trusted.hash", "attempt")]
        assert kinds == ["trusted.hash", "attempt", "trusted.hash"] * 2


class TestAncestry:
    def test_invariant_5_foreign_weights_never_become_a_candidate(self, tmp_path: Path) -> None:
        """A trainer that submits an instruct model as its own work."""
        config = world.start(tmp_path, "end", over=(DOCTORED,))
        write_checkpoint(tmp_path / "instruct", SimulatedCheckpoint(skills=START_SKILLS["instruct"]))

        def swap(job: TrainingJob, fitted: Fitted | None) -> None:
            if fitted is not None and job.steps is None:
                WeightsStore(job.parent.parent).adopt(tmp_path / "instruct", source="somebody's instruct model")
                shutil.rmtree(fitted.folder)
                shutil.copytree(tmp_path / "instruct", fitted.folder)

        world.DOINGS.append(swap)
        folder = world.finish(config, tmp_path / "run")
        (attempt,) = attempts(folder)
        assert attempt["status"] == "training_failed"
        assert "which is no allowed base" in attempt["reason"]
        assert len(of_kind(folder, "candidate")) == 1
        assert finished(folder)["final"] == finished(folder)["start"]

    def test_invariant_5_the_ancestry_of_every_candidate_ends_in_an_allowed_base(self, tmp_path: Path) -> None:
        base = start_weights(play(tmp_path, "leak_select", name="first"))
        over = (rounds(3), {"options": {"allowed_bases": [base], "training_noise": True}})
        folder = play(tmp_path, "mixture", "end", over=over)
        store = WeightsStore(folder.weights)
        weights = [folder.load(data["digest"]).weights or "" for data in of_kind(folder, "candidate")]
        assert len(weights) >= 3
        assert {store.ancestry(one)[-1] for one in weights} == {base}

    def test_a_training_that_changes_nothing_leaves_its_parent_on_disk(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end", over=(DOCTORED,))

        def nothing(job: TrainingJob, fitted: Fitted | None) -> None:
            if fitted is not None:
                shutil.rmtree(fitted.folder)
                shutil.copytree(job.parent, fitted.folder)

        world.DOINGS.append(nothing)
        config = config.model_copy(update={"options": {**config.options, "preflight": {"enabled": True, **CHEAP}}})
        folder = world.finish(config, tmp_path / "run")
        (attempt,) = attempts(folder)
        assert attempt["status"] == "rejected"
        assert WeightsStore(folder.weights).check(start_weights(folder)).is_dir()


CHEAP = {"steps": 15, "answers": 8, "examples": 8, "stop_rate": 0.0}


class TestAudit:
    def test_invariant_11_the_audit_is_read_once_and_after_the_search(self, tmp_path: Path) -> None:
        folder = play(tmp_path, "mixture", "end", over=(rounds(2),))
        kinds = [(event.kind, event.data.get("role", "audit")) for event in world.events(folder)]
        assert kinds.count(("audit.opened", "audit")) == 1
        at = kinds.index(("audit.opened", "audit"))
        purposes = [event.data["purpose"] for event in world.events(folder)[:at] if event.kind == "outcome"]
        assert not {"audit", "retain"} & set(purposes)
        assert ("run.finished", "audit") in kinds[:at]
        audited = [data for data in of_kind(folder, "outcome") if data["purpose"] == "audit"]
        assert len(audited) == 24 * 2

    def test_invariant_11_no_view_reaches_a_closed_body_an_answer_or_the_weights(self, tmp_path: Path) -> None:
        over = (world.SEEING, rounds(3), {"options": {"retain": {"floor": -50.0}}})
        config = world.start(tmp_path, "other_template", "mixture", "end", over=over)
        folder = world.finish(config, tmp_path / "run")
        kinds = {type(view).__name__ for view in world.VIEWS}
        assert kinds == {"DiagnosisView", "ResearchView", "BuildView"}
        assert max(view.repair for view in world.VIEWS if isinstance(view, world.BuildView)) >= 1
        assert world.VIEWS[-1].round == 3
        tasks = load_tasks(config.tasks)
        shown = {failed.task.input for view in world.VIEWS for failed in getattr(view, "failures", ())}
        assert len(shown) > 10
        assert reached(world.VIEWS, shown) == shown, "what may be seen is seen, so that the next lines can fail"
        secret = {text for role in closed_texts(config.tasks).values() for text in role}
        assert len(secret) == 32 + 24 + 12
        assert reached(world.VIEWS, secret) == set()
        closed = {task.id for task in tasks.select}
        closed |= {task.id for role in ("audit", "retain") for task in tasks.open_role(role).tasks}
        assert reached(world.VIEWS, closed) == set()
        assert reached(world.VIEWS, {str(folder.path), "weights/", "safetensors", "skills.json"}) == set()
        assert reached(world.IMPROVERS, secret | {str(folder.path)}) == set()


class TestLadder:
    def test_invariant_3_a_full_training_of_data_that_never_passed_is_refused(self, tmp_path: Path) -> None:
        config = world.start(tmp_path, "end")
        with open_run(config, Opening(tmp_path / "run", command="test")) as opened:
            search = begin(opened.session, opened.start, ImproveOptions.model_validate(config.options))
            with pytest.raises(StoreError, match="never passed preflight"):
                fit(search, unclimbed(search), 1)
        assert of_kind(RunFolder(tmp_path / "run"), "training") == []


def unclimbed(search: WeightsSearch) -> Prepared:
    """Data that no stage has seen."""
    dataset = DatasetBuilt(round=1, digest="d" * 64, config="c" * 64)
    return Prepared(dataset, (), TrainConfig(steps=search.options.train.steps))


class TestDeterminism:
    def test_invariant_9_equal_data_config_parent_and_seed_give_equal_weights(self, tmp_path: Path) -> None:
        noisy = {"solver": {"model": {"options": {"learning": {"speed": 40.0, "noise": 1.0}}}}}
        runs = [play(tmp_path, "end", over=(noisy, {"seed": seed}), name=f"r{n}") for n, seed in enumerate((0, 0, 1))]
        trained = [of_kind(folder, "training")[0] for folder in runs]
        assert trained[0]["weights"] == trained[1]["weights"]
        assert trained[0]["losses"] == trained[1]["losses"]
        assert trained[0]["weights"] != trained[2]["weights"], "another seed is another training"
