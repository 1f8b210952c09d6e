"""The harness `skilled`: the protocol word for word, both roles, one recovery, what is counted, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from skill_parts import (
    FAULT,
    GUIDE,
    LOCAL,
    NONE,
    SUBMIT,
    TASK,
    Player,
    Tables,
    harness,
    lasting,
    run,
    skill,
)

from heldout.config import ModelConfig, SolverConfig
from heldout.errors import HarnessError, ModelError, SandboxError, SetupError, TaskError
from heldout.harness import make_harness, start_files
from heldout.harness.protocol import rules
from heldout.models import Reply, Request
from heldout.records import Candidate, Task, Trajectory
from heldout.sandbox import Scene
from heldout.skills import SkilledHarness, start_guide, visible
from heldout.skills.folder import SKILL_BYTES
from heldout.skills.solver import RECOVERY_NOTE, SOLVER_RULES
from heldout.tasks.environment import read_changes

PROTOCOL = rules(max_turns=30, command_timeout_s=30.0)


class TestProtocol:
    def test_a_guide_asks_the_writer_once_and_gives_its_skill_to_the_solver(self) -> None:
        model = Player(commands=("sed s/10/20/ in.csv > out.csv", SUBMIT))
        trajectory, steps = run(harness(), model)
        (asked,) = model.written_for
        scene = Tables().scene(TASK, seed=5)
        assert asked.messages[1].content == (f"# Request\n\n{TASK.input}\n\n# What the task shows\n\n{visible(scene)}")
        system, first = model.solved_with[0].messages
        assert system.content == f"# Solve one task\n\n{SOLVER_RULES}\n\n# Skill\n\n{skill().strip()}\n\n{PROTOCOL}"
        assert (first.role, first.content) == ("user", TASK.input)
        assert [step.kind for step in steps] == ["command", "submit"]
        assert read_changes(trajectory.answer) == {"out.csv": "id,amount\n1,20\n2,20\n"}
        assert trajectory.artifacts == {"SKILL.md": skill()}
        assert set(trajectory.components) == {"guide"}

    def test_one_skill_for_all_tasks_asks_no_writer_and_leaves_no_artifact(self) -> None:
        model = Player()
        trajectory, _ = run(harness(), model, lasting("Be quick."))
        assert model.written_for == []
        assert "# Skill\n\n---\nname: double-amounts\n" in model.asked[0].messages[0].content
        assert trajectory.artifacts == {}
        assert trajectory.measures["skill_calls"] == 0.0

    def test_further_files_of_a_lasting_skill_are_shown_under_their_names(self) -> None:
        model = Player()
        run(harness(), model, Candidate(files={**lasting().files, "references/more.md": "More words.\n"}))
        assert "\n\n## File of the skill: references/more.md\n\nMore words.\n\n# How you work" in (
            model.asked[0].messages[0].content
        )

    def test_without_a_skill_there_is_no_word_of_one(self) -> None:
        model = Player()
        run(harness(), model, NONE)
        system = model.asked[0].messages[0].content
        assert system == f"# Solve one task\n\n{SOLVER_RULES}\n\n{PROTOCOL}"

    def test_seed_and_lengths_reach_both_roles(self) -> None:
        model = Player()
        made = SkilledHarness(max_tokens=999, options={"sandbox": LOCAL, "writer_tokens": 1234}, environment=Tables())
        run(made, model, seed=41)
        assert [(one.seed, one.max_tokens) for one in model.asked] == [(41, 1234), (41, 999)]

    def test_everything_is_counted_and_paid(self) -> None:
        trajectory, _ = run(harness(), Player(commands=("ls", SUBMIT)))
        spend = trajectory.spend
        assert (spend.calls, spend.tokens_in, spend.tokens_out) == (3, 100 + 22, 40 + 6)
        assert trajectory.measures["skill_calls"] == 1.0
        assert trajectory.measures["recoveries"] == trajectory.measures["faults_declared"] == 0.0
        assert trajectory.measures["turns"] == 2.0
        assert trajectory.measures["submitted"] == 1.0
        assert Trajectory.model_validate_json(trajectory.model_dump_json()) == trajectory


class TestRecovery:
    def test_a_declared_fault_is_followed_by_one_recovery_in_the_same_work_folder(self) -> None:
        model = Player(commands=("echo 1 > out.csv", FAULT, "echo 2 >> out.csv", SUBMIT))
        trajectory, steps = run(harness(), model)
        last = model.asked[3].messages[-1]
        assert (last.role, last.content) == (
            "user",
            f"exit code 0\nHELDOUT_FAULT execution: the sum is wrong\nHELDOUT_SUBMIT\n\n\n{RECOVERY_NOTE}",
        )
        assert RECOVERY_NOTE.startswith("# One recovery")
        assert [step.kind for step in steps] == ["command", "command", "submit", "command", "submit"]
        assert steps[2].output == RECOVERY_NOTE
        assert read_changes(trajectory.answer) == {"out.csv": "1\n2\n"}
        assert trajectory.artifacts["first_fault.md"] == "execution: the sum is wrong\n"
        assert (trajectory.measures["recoveries"], trajectory.measures["faults_declared"]) == (1.0, 1.0)

    def test_a_recovery_runs_at_most_once_per_task_and_its_cost_is_in_the_spend(self) -> None:
        """Invariant 11."""
        second = FAULT.replace("sum", "count")
        model = Player(commands=(FAULT, second, "echo never > out.csv", SUBMIT))
        trajectory, _ = run(harness(), model)
        assert len(model.solved_with) == 2
        assert (trajectory.measures["recoveries"], trajectory.measures["faults_declared"]) == (1.0, 2.0)
        assert trajectory.artifacts["first_fault.md"] == "execution: the sum is wrong\n"
        assert trajectory.spend.calls == len(model.asked) == 3
        assert read_changes(trajectory.answer) == {}

    @pytest.mark.parametrize("candidate", [GUIDE, lasting(), NONE], ids=["guide", "skill", "none"])
    def test_every_kind_of_candidate_may_recover(self, candidate: Candidate) -> None:
        trajectory, _ = run(harness(), Player(commands=(FAULT, SUBMIT)), candidate)
        assert trajectory.measures["recoveries"] == 1.0

    def test_without_the_option_there_is_none_and_the_fault_is_kept(self) -> None:
        model = Player(commands=(FAULT, "echo never > out.csv"))
        trajectory, _ = run(harness(recovery=False), model)
        assert len(model.solved_with) == 1
        assert (trajectory.measures["recoveries"], trajectory.measures["faults_declared"]) == (0.0, 1.0)
        assert "first_fault.md" in trajectory.artifacts

    def test_a_recovery_takes_from_the_same_turns_and_does_not_begin_without_one(self) -> None:
        model = Player(commands=(FAULT, "ls", "ls", "ls"))
        trajectory, _ = run(harness(max_turns=3), model)
        assert trajectory.measures["turns"] == 3.0
        assert (trajectory.measures["recoveries"], trajectory.measures["turn_limit"]) == (1.0, 1.0)
        trajectory, _ = run(harness(max_turns=1), Player(commands=(FAULT,)))
        assert (trajectory.measures["recoveries"], trajectory.measures["faults_declared"]) == (0.0, 1.0)
        assert trajectory.measures["submitted"] == 1.0

    def test_a_fault_that_is_not_submitted_is_none(self) -> None:
        commands = ("echo 'HELDOUT_FAULT execution: just looking'", SUBMIT)
        trajectory, _ = run(harness(), Player(commands=commands))
        assert trajectory.measures["faults_declared"] == 0.0
        assert "first_fault.md" not in trajectory.artifacts

    def test_nor_is_one_in_the_last_turn_of_an_episode_that_ran_out_of_them(self) -> None:
        commands = ("echo 'HELDOUT_FAULT execution: just looking'",)
        trajectory, _ = run(harness(max_turns=1), Player(commands=commands))
        assert (trajectory.measures["submitted"], trajectory.measures["turn_limit"]) == (0.0, 1.0)
        assert (trajectory.measures["recoveries"], trajectory.measures["faults_declared"]) == (0.0, 0.0)
        assert "first_fault.md" not in trajectory.artifacts

    @pytest.mark.parametrize(
        ("said", "kept"),
        [
            ("HELDOUT_FAULT Source  selection: two files", "source selection: two files\n"),
            ("HELDOUT_FAULT arithmetic: off by one", "arithmetic: off by one\n"),
            ("HELDOUT_FAULT execution:", "execution: \n"),
        ],
    )
    def test_stages_are_read_in_any_case_and_others_are_kept_in_their_words(self, said: str, kept: str) -> None:
        trajectory, _ = run(harness(recovery=False), Player(commands=(f"echo '{said}'; {SUBMIT}",)))
        assert trajectory.artifacts["first_fault.md"] == kept


class TestBadInput:
    @pytest.mark.parametrize("reply", ["", "I will not.", "---\nname: a\n---\nDo it.", "```markdown\n---\n"])
    def test_a_writer_that_answers_garbage_is_a_failed_episode_that_names_the_fault(self, reply: str) -> None:
        model = Player(writes=reply)
        trajectory, steps = run(harness(), model)
        assert model.solved_with == []
        assert trajectory.answer is None
        assert [step.kind for step in steps] == ["format_error"]
        assert steps[0].text == reply
        assert steps[0].output.startswith("the writer's reply is no skill: ")
        assert (trajectory.spend.calls, trajectory.spend.tokens_in) == (1, 100)
        assert (trajectory.measures["skill_calls"], trajectory.measures["unusable_skills"]) == (1.0, 1.0)
        assert trajectory.artifacts == {}

    def test_a_cut_skill_is_a_failed_episode_too(self) -> None:
        _, steps = run(harness(), Player(cut=True))
        assert "raise solver.options.writer_tokens" in steps[0].output

    def test_a_solver_that_deletes_its_input_has_an_answer_that_says_so(self) -> None:
        trajectory, _ = run(harness(), Player(commands=(f"rm in.csv; {SUBMIT}",)))
        assert read_changes(trajectory.answer) == {"in.csv": None}

    @pytest.mark.parametrize(
        ("files", "fault"),
        [
            ({k: v for k, v in start_guide().items() if k != "m4_validation.md"}, "no module m4_validation.md"),
            ({"SKILL.md": "---\nname: a\n---\nDo it."}, "description is missing"),
            ({"SKILL.md": "Do it."}, "does not begin with ---"),
            ({"NO_SKILL.md": "", "x.md": ""}, "stands alone"),
            ({}, "no module m1_task.md"),
            ({"system_prompt.md": "x"}, "'system_prompt.md' is no module"),
        ],
    )
    def test_a_broken_candidate_is_refused_before_it_runs(self, files: dict[str, str], fault: str) -> None:
        made, broken = harness(), Candidate(files=files)
        model = Player()
        with pytest.raises(HarnessError, match=fault):
            made.bound(broken, TASK, model)
        with pytest.raises(HarnessError, match=fault):
            run(made, model, broken)
        assert model.asked == []

    def test_a_task_of_another_source_is_named(self) -> None:
        with pytest.raises(TaskError, match="no such task"):
            run(harness(), Player(), task=Task(id="unknown", input="x"))

    def test_what_was_paid_stays_counted_when_something_breaks(self) -> None:
        class Failing(Player):
            def complete(self, request: Request) -> Reply:
                if len(self.asked) == 2:
                    raise ModelError("down", calls=1)
                return super().complete(request)

        with pytest.raises(ModelError) as raised:
            run(harness(), Failing(commands=("ls", SUBMIT)))
        assert (raised.value.calls, raised.value.tokens_in, raised.value.tokens_out) == (3, 111, 43)

        made = harness(sandbox="skill_sandboxes:ClosedSandboxes")
        with pytest.raises(SandboxError) as closed:
            run(made, Player())
        assert (closed.value.calls, closed.value.tokens_in) == (1, 100)

    def test_settings_with_which_no_agent_works_are_refused(self) -> None:
        with pytest.raises(SetupError, match=r"'skilled' needs tasks that begin in a work folder.*source = 'tables'"):
            SkilledHarness()
        with pytest.raises(SetupError, match="'choose' is not for agents"):
            SkilledHarness(answer="choose", environment=Tables())
        with pytest.raises(SetupError, match="max_tokens = 64 is too short"):
            SkilledHarness(max_tokens=64, environment=Tables())
        with pytest.raises(SetupError, match=r"options of the harness 'skilled': start: .*allowed are sandbox"):
            harness(start="skill")


class TestBound:
    @pytest.mark.parametrize("candidate", [GUIDE, lasting("x" * 2000), NONE], ids=["guide", "skill", "none"])
    def test_no_episode_costs_more_even_with_a_recovery(self, candidate: Candidate) -> None:
        class Counting(Player):
            def complete(self, request: Request) -> Reply:
                sent = sum(len(message.content.encode()) + 16 for message in request.messages)
                assert request.max_tokens is not None
                return (
                    super().complete(request).model_copy(update={"tokens_in": sent, "tokens_out": request.max_tokens})
                )

        long = skill(body="word " * 4000)
        commands = ("seq 1 3000", FAULT, *["seq 1 3000"] * 20)
        made = harness(max_turns=8)
        model = Counting(writes=long, commands=commands)
        trajectory, _ = run(made, model, candidate)
        bound = made.bound(candidate, TASK, model)
        assert trajectory.measures["recoveries"] == 1.0
        assert trajectory.measures["turn_limit"] == 1.0
        for name in ("calls", "tokens_in", "tokens_out"):
            assert getattr(trajectory.spend, name) <= getattr(bound, name), name
        assert trajectory.spend.calls == bound.calls

    def test_a_guide_costs_the_writers_call_besides(self) -> None:
        made = harness()
        none, guide = (made.bound(one, TASK, Player()) for one in (NONE, GUIDE))
        assert guide.calls == none.calls + 1 == 31
        assert guide.tokens_out == none.tokens_out + made.options.writer_tokens
        assert guide.tokens_in > none.tokens_in + 30 * SKILL_BYTES


class TestIdentity:
    def test_the_fingerprint_holds_all_that_an_episode_depends_on(self) -> None:
        variants = [
            *(harness(), harness(recovery=False), harness(writer_tokens=512), harness(max_turns=9)),
            *(harness(environment=Tables("other")), harness(sandbox="skill_sandboxes:ClosedSandboxes")),
        ]
        assert len({one.fingerprint for one in variants}) == len(variants)
        assert harness().fingerprint == harness(start="none").fingerprint == variants[0].fingerprint
        assert not SkilledHarness.prepares
        assert not SkilledHarness.replayable

    def test_it_travels_to_a_worker(self) -> None:
        made = pickle.loads(pickle.dumps(harness()))
        assert run(made, Player())[0].measures["submitted"] == 1.0

    def test_it_is_made_by_name_and_brings_its_own_start(self) -> None:
        def config(**options: object) -> SolverConfig:
            return SolverConfig(
                harness="skilled", model=ModelConfig(max_tokens=1000), options={"sandbox": LOCAL, **options}
            )

        assert isinstance(make_harness(config(), labels=(), environment=Tables()), SkilledHarness)
        assert start_files(config(), "Unused.") == dict(start_guide())
        assert list(start_files(config(start="none"), "Unused.")) == ["NO_SKILL.md"]
        with pytest.raises(SetupError, match="options of the harness 'skilled'"):
            start_files(config(strat="none"), "Unused.")


def test_bytes_pass_through_a_real_sandbox(bubblewrap: None, make_book: Callable[[], str]) -> None:
    """A workbook goes in as base64, is changed there, and comes back."""
    del bubblewrap
    book = make_book()

    class Books:
        fingerprint = "books"

        def scene(self, task: Task, *, seed: int) -> Scene:
            del task, seed
            return Scene(files={"in.xlsx": book}, encoded=(".xlsx",))

    made = harness(environment=Books(), sandbox="bubblewrap")
    model = Player(commands=("head -c 2 in.xlsx; cp in.xlsx out.xlsx; rm in.xlsx", SUBMIT))
    trajectory, steps = run(made, model)
    assert "PK" in steps[0].output
    assert 'Sheet "Data"' in model.written_for[0].messages[1].content
    assert read_changes(trajectory.answer) == {"in.xlsx": None, "out.xlsx": book}


def test_any_reply_of_the_solver_without_a_command_is_counted_as_in_the_tool_loop() -> None:
    class Mute(Player):
        def complete(self, request: Request) -> Reply:
            reply = super().complete(request)
            return reply if request in self.written_for else reply.model_copy(update={"text": "Hm."})

    trajectory, steps = run(harness(), Mute())
    assert [step.kind for step in steps] == ["format_error"] * 3
    assert (trajectory.measures["format_limit"], trajectory.measures["recoveries"]) == (1.0, 0.0)
    assert read_changes(trajectory.answer) == {}
