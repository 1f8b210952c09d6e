"""The simulated worker: a writer and a solver in one model, whose real episodes go as the symbolic ones say."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from table_texts import ALWAYS, EVERY_RULE, NONE, START_RULES, full_guide, guide_with, skill

from heldout.config import ModelConfig
from heldout.errors import SetupError
from heldout.harness import Episode, Preparation
from heldout.harness.protocol import read_command, rules
from heldout.harness.steps import Step, steps_of
from heldout.models import make_model
from heldout.models.base import Message, Request
from heldout.models.factory import SIMULATIONS
from heldout.models.simulated import answer_key
from heldout.records import Candidate, Task, Trajectory
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.skills.faults import declared_fault
from heldout.skills.folder import read_skill, skill_faults
from heldout.skills.guide import start_guide
from heldout.skills.harness import SkilledHarness
from heldout.skills.modules import Stage
from heldout.skills.solver import RECOVERY_NOTE, skill_section, solver_system
from heldout.skills.writer import WriterTask, read_reply, writer_messages
from heldout.tasks.base import Item
from heldout.tasks.graders import load_grader
from heldout.testing.model_contract import ModelContract
from heldout.worlds.tables.generator import job_of
from heldout.worlds.tables.grading import read_origin
from heldout.worlds.tables.levels import read_text
from heldout.worlds.tables.parts import CHANCE, Part
from heldout.worlds.tables.source import TablesSource
from heldout.worlds.tables.symbolic import Played, play
from heldout.worlds.tables.truth import PART_STAGE, disagreement, mean_rate, wrong_parts
from heldout.worlds.tables.worker import TableWorker

SOURCE = TablesSource(seed=5)
ITEMS = SOURCE.items()[:60]
KEY = answer_key(ITEMS)
NEEDS_SANDBOX = pytest.mark.skipif(Bubblewrap().fault() is not None, reason="needs bubblewrap")
PROTOCOL = rules(max_turns=12, command_timeout_s=30.0)
LITERAL = 'The sheet to work on is "Elsewhere".'
CANDIDATES: Mapping[str, Mapping[str, str]] = {
    "start": start_guide(),
    "full": full_guide(),
    "traps": guide_with(ALWAYS, LITERAL),
    "none": NONE,
    "skill": skill(START_RULES, LITERAL),
    "planted": {
        "SKILL.md": skill(START_RULES)["SKILL.md"].replace("\n---\n\n", '\nmetadata:\n  guide: "00ff"\n---\n\n')
    },
    "of_one_task": {"SKILL.md": play(full_guide(), job_of(read_origin(ITEMS[0].reference)), seed=0).skill()},
}


def _worker(**options: float) -> TableWorker:
    return TableWorker(ModelConfig(name="simulated_tables", options=options), answer_key=KEY)


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation without a sandbox: what was run, in order, and what was declared."""

    skill: str
    steps: tuple[Step, ...]
    faults: tuple[str, ...]
    calls: int


def _ask(*messages: Message, seed: int) -> str:
    """Of a worker that is made anew for every turn."""
    return _worker().complete(Request(messages=messages, seed=seed)).text


def _written(files: Mapping[str, str], item: Item, *, seed: int) -> str:
    """The section of the system message that a candidate becomes."""
    if "NO_SKILL.md" in files:
        return ""
    if "SKILL.md" in files:
        return skill_section(read_skill(files))
    return skill_section(read_reply(_ask(*writer_messages(files, WriterTask(item.input, "Files: a.xlsx")), seed=seed)))


def _converse(files: Mapping[str, str], item: Item, *, seed: int, recovery: bool = True) -> Talk:
    """As the harness `skilled` leads it, with commands that all succeed."""
    section = _written(files, item, seed=seed)
    messages = [
        Message(role="system", content=solver_system(section, PROTOCOL)),
        Message(role="user", content=item.input),
    ]
    steps: list[Step] = []
    faults: list[str] = []
    recovered = False
    while True:
        assert len(steps) < 6
        said = _ask(*messages, seed=seed)
        command = read_command(said).command
        assert command is not None
        output = "\n".join(line.removeprefix("echo ").strip("'") for line in command.split("; "))
        ended = command.endswith("echo HELDOUT_SUBMIT")
        steps.append(Step(kind="command", text=said, command=command, output=output if ended else "files: a.xlsx"))
        note = ""
        if ended:
            fault = declared_fault(steps)
            faults += [] if fault is None else [fault.stage]
            if fault is None or recovered or not recovery:
                fresh = 1 if section and "SKILL.md" not in files else 0
                return Talk(section, tuple(steps), tuple(faults), fresh + len(steps))
            recovered, note = True, f"\n\n{RECOVERY_NOTE}"
        messages += [
            Message(role="assistant", content=said),
            Message(role="user", content=f"exit code 0\n{output}{note}"),
        ]


class TestTheModelContract(ModelContract):
    @pytest.fixture
    def make_model(self) -> Callable[[], TableWorker]:
        return _worker


class TestTheModel:
    def test_the_factory_makes_it_by_name_and_it_is_labelled_a_simulation(self) -> None:
        made = make_model(ModelConfig(name="simulated_tables"), answer_key=KEY)
        assert isinstance(made, TableWorker)
        assert made.simulated
        assert "simulated_tables" in SIMULATIONS
        assert made.fingerprint == _worker().fingerprint == pickle.loads(pickle.dumps(made)).fingerprint
        assert len({made.fingerprint, _worker(slip=0.1).fingerprint, make_fresh().fingerprint}) == 3

    @pytest.mark.parametrize("options", [{"skill": 0.5}, {"slip": 0.9}, {"slip": -0.1}])
    def test_an_option_that_it_does_not_have_is_refused(self, options: dict[str, float]) -> None:
        with pytest.raises(SetupError, match="model 'simulated_tables'"):
            _worker(**options)

    def test_to_a_request_that_it_does_not_know_it_submits_and_writes_nothing(self) -> None:
        stranger = Message(role="user", content="What is the capital of France?")
        assert read_command(_ask(stranger, seed=0)).command == "echo HELDOUT_SUBMIT"
        assert read_command(_ask(seed=0)).command == "echo HELDOUT_SUBMIT"
        asked = writer_messages(start_guide(), WriterTask("What is the capital of France?", "no files"))
        assert "---" not in _ask(*asked, seed=0)

    def test_it_knows_the_job_of_every_request_of_its_world(self) -> None:
        for item in ITEMS:
            found = _worker().job(item.input)
            assert found is not None
            assert (found.id, found.request) == (item.id, item.input)

    def test_tokens_are_bytes_over_four(self) -> None:
        asked = (Message(role="system", content="x" * 40), Message(role="user", content=ITEMS[0].input))
        reply = _worker().complete(Request(messages=asked, seed=1))
        assert reply.tokens_in == 10 + len(ITEMS[0].input.encode()) // 4
        assert reply.tokens_out == len(reply.text.encode()) // 4


def make_fresh() -> TableWorker:
    """One that knows nothing."""
    return TableWorker(ModelConfig(name="simulated_tables"))


class TestTheWriter:
    def test_every_skill_is_a_valid_agent_skill_of_this_task(self) -> None:
        bound = names = 0
        for item in ITEMS:
            made, written = job_of(read_origin(item.reference)), _written(full_guide(), item, seed=2)
            assert skill_faults({"SKILL.md": f"{written}\n"}) == ()
            bound += sum(f'BIND {part} "{name}"' in written for part, name in made.names.items())
            names += len(made.names)
            assert (made.summary is not None) == ("OUTPUT summary" in written) or "OUTPUT" not in written
        assert 0.9 * names < bound < names, "the writer leaves out three lines in a hundred"

    def test_it_copies_traps_and_leaves_sentences_without_effect_behind(self) -> None:
        written = _written(
            guide_with(ALWAYS, LITERAL, "Read the request twice before classifying it."), ITEMS[0], seed=1
        )
        reading = read_text(written)
        assert reading.always_summary
        assert reading.literals == ((Part.SHEET, "Elsewhere"),)
        assert "twice" not in written
        assert reading.rules == frozenset()

    def test_what_the_task_shows_does_not_change_it(self) -> None:
        """A simulation knows the task; nothing but the request and the guide decides."""
        texts = {
            _ask(*writer_messages(start_guide(), WriterTask(ITEMS[0].input, shown)), seed=1)
            for shown in ("", "Files: a.xlsx", "# Request\n\nanother")
        }
        assert len(texts) == 1

    def test_two_seeds_and_two_guides_write_two_skills_of_which_some_lines_are_missing(self) -> None:
        first = [_written(full_guide(), item, seed=1) for item in ITEMS]
        assert first == [_written(full_guide(), item, seed=1) for item in ITEMS]
        assert first != [_written(full_guide(), item, seed=2) for item in ITEMS]


class TestTheSolver:
    @pytest.mark.parametrize("name", list(CANDIDATES))
    @pytest.mark.parametrize("recovery", [True, False])
    def test_its_conversations_go_as_the_symbolic_episodes(self, name: str, recovery: bool) -> None:
        for seed, item in enumerate(ITEMS):
            talk = _converse(CANDIDATES[name], item, seed=seed, recovery=recovery)
            played = play(CANDIDATES[name], job_of(read_origin(item.reference)), seed=seed, recovery=recovery)
            assert wrong_parts(talk.steps, which="first") == played.wrong_first
            assert wrong_parts(talk.steps) == played.wrong
            assert talk.faults[:1] == (() if played.declared is None else (PART_STAGE[played.declared],))
            assert (len(talk.faults), talk.calls) == (played.faults, played.calls)
            if played.outlook.writes:
                assert talk.skill == played.skill().strip()

    def test_it_declares_faults_in_the_words_of_the_protocol(self) -> None:
        talks = [_converse(start_guide(), item, seed=3) for item in ITEMS]
        declared = {stage for talk in talks for stage in talk.faults}
        assert declared <= {stage.value for stage in Stage}
        assert len(declared) >= 3

    def test_a_failed_repair_is_declared_as_such(self) -> None:
        faults = [_converse(full_guide(), item, seed=seed).faults for item in ITEMS for seed in range(4)]
        assert {second for _, second in (two for two in faults if len(two) == 2)} == {Stage.BOUNDED_RECOVERY.value}

    def test_without_a_note_after_its_fault_it_repairs_nothing(self) -> None:
        talk = next(t for t in (_converse(start_guide(), item, seed=3, recovery=False) for item in ITEMS) if t.faults)
        assert len(talk.steps) == 2

    def test_a_skill_of_another_task_is_worse_than_none_of_its_names(self) -> None:
        jobs = [job_of(read_origin(item.reference)) for item in ITEMS]
        strange = {"SKILL.md": play(full_guide(), jobs[0], seed=0).skill()}
        others = [made for made in jobs[1:] if made.summary is None]
        assert mean_rate(strange, [jobs[0]]) > mean_rate(strange, others)

    def test_no_command_is_longer_than_a_shell_takes(self) -> None:
        for item in ITEMS:
            talk = _converse(start_guide(), item, seed=0)
            assert all(read_command(step.text).command == step.command for step in talk.steps)


def _run(files: Mapping[str, str], item: Item, *, seed: int) -> tuple[Trajectory, Played]:
    harness = SkilledHarness(environment=SOURCE.environment)
    task = Task(id=item.id, input=item.input)
    told = harness.run(Candidate(files=files), task, Episode(_worker(), seed, Preparation()))
    return told, play(files, job_of(read_origin(item.reference)), seed=seed)


def _compare(name: str, item: Item, *, seed: int) -> tuple[bool, bool]:
    """A real episode against the symbolic one; whether it was recovered, and whether it passed."""
    told, played = _run(CANDIDATES[name], item, seed=seed)
    assert wrong_parts(steps_of(told)) == played.wrong
    assert told.measures["recoveries"] == played.recovered
    assert told.measures["faults_declared"] == played.faults
    assert told.measures["skill_calls"] == played.outlook.writes
    assert told.spend.calls == played.calls
    assert told.artifacts.get("SKILL.md", "") == played.skill()
    stage = "" if played.declared is None else PART_STAGE[played.declared]
    assert told.artifacts.get("first_fault.md", "").partition(":")[0] == stage
    assert told.spend.tokens_in == pytest.approx(played.tokens_in, rel=0.2)
    assert told.spend.tokens_out == pytest.approx(played.tokens_out, rel=0.3)
    assert load_grader(SOURCE.grader)(told.answer, item.reference) == float(played.passed)
    return played.recovered, played.passed


@NEEDS_SANDBOX
@pytest.mark.parametrize(("name", "seed"), [("start", 0), ("full", 1), ("traps", 2), ("none", 3), ("skill", 4)])
def test_a_real_episode_ends_and_costs_as_the_symbolic_one(name: str, seed: int) -> None:
    _compare(name, ITEMS[seed], seed=seed)


@NEEDS_SANDBOX
@pytest.mark.slow
@pytest.mark.parametrize("name", list(CANDIDATES))
def test_real_episodes_end_and_cost_as_the_symbolic_ones(name: str) -> None:
    ended = [_compare(name, item, seed=at % 3) for at, item in enumerate(ITEMS[:24])]
    assert len(set(ended)) >= 2


class TestCalibration:
    """What `python bench/table_worker.py` prints, as bounds."""

    JOBS = tuple(job_of(read_origin(item.reference)) for item in SOURCE.items())

    @pytest.mark.parametrize(
        ("files", "low", "high"),
        [(NONE, 0.2, 0.35), (start_guide(), 0.45, 0.65), (full_guide(), 0.8, 0.95)],
        ids=["none", "start", "full"],
    )
    def test_pass_rates(self, files: Mapping[str, str], low: float, high: float) -> None:
        assert low < mean_rate(files, self.JOBS) < high

    def test_two_runs_of_the_start_guide_differ_on_a_tenth_of_the_tasks(self) -> None:
        assert 0.08 < disagreement(start_guide(), self.JOBS) < 0.18

    def test_the_recovery_carries_a_part_of_it(self) -> None:
        assert mean_rate(start_guide(), self.JOBS, recovery=False) < mean_rate(start_guide(), self.JOBS) - 0.05

    def test_rules_for_all_tasks_help_less_than_lines_of_this_task(self) -> None:
        shared = mean_rate(skill(EVERY_RULE), self.JOBS)
        assert mean_rate(NONE, self.JOBS) + 0.05 < shared < mean_rate(full_guide(), self.JOBS) - 0.05
        assert all(0.0 < chance < 1.0 for chance in CHANCE.values())
