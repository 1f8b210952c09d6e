"""The tool loop: turns, limits, hooks in their places, what is counted, and that a replay repeats an episode."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from agent_parts import (
    HOOKS,
    LOCAL,
    SUBMIT,
    TASK,
    OneFile,
    ScriptedAgent,
    agent,
    folder,
    loop,
    run,
    says,
)

from heldout.errors import HarnessError, ModelError, SandboxError, SetupError, TaskError
from heldout.harness import Episode, Preparation, ToolLoopHarness, commands_of, ended_by
from heldout.harness.hook_surface import GROWTH_BYTES
from heldout.models import Reply, Request
from heldout.records import Candidate, Task
from heldout.sandbox import make_sandboxes
from heldout.tasks.environment import read_changes

STILL = "agent_parts:StillSandboxes"
LOOP = "harness_code/loop.toml"


@pytest.fixture(params=[LOCAL, "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap":
        try:
            fault = make_sandboxes("bubblewrap").fault()
        except SetupError as cause:
            fault = str(cause)
        if fault is not None:
            pytest.skip(fault)
    return str(request.param)


class TestEpisode:
    def test_commands_run_in_the_scene_and_the_answer_is_what_changed(self, sandbox: str) -> None:
        model = agent("cat a.txt", "mkdir d\necho $RUN_SEED > d/b.txt", "rm a.txt; exit 3", SUBMIT)
        ran = run(loop(sandbox=sandbox), model, seed=17)
        assert ran.kinds == ["command", "command", "command", "submit"]
        assert [step.output for step in ran.steps] == [
            "exit code 0\none\n",
            "exit code 0\n(no output)",
            "exit code 3\n(no output)",
            "exit code 0\nHELDOUT_SUBMIT\n",
        ]
        assert read_changes(ran.trajectory.answer) == {"a.txt": None, "d/b.txt": "17\n"}
        assert ran.measures["submitted"] == 1.0
        assert (ran.measures["turns"], ran.measures["commands"]) == (4.0, 4.0)
        assert ended_by(ran.measures) == ""

    def test_the_model_is_asked_with_workspace_rules_task_and_the_whole_conversation(self) -> None:
        model = agent("echo hi", SUBMIT)
        harness = loop(sandbox=STILL, max_turns=9)
        ran = run(harness, model, folder(memory="Mind the tests."), seed=23)
        system = model.asked[0].messages[0].content
        assert system.startswith(
            "# System prompt\n\nYou are an engineer.\n\n# Memory\n\nMind the tests.\n\n# How you work"
        )
        assert "at most 9 turns" in system
        assert [(message.role, message.content) for message in model.asked[1].messages[1:]] == [
            ("user", "Make it work."),
            ("assistant", says("echo hi")),
            ("user", "exit code 0\nhi\n"),
        ]
        assert [(request.seed, request.max_tokens) for request in model.asked] == [(23, 2048), (23, 2048)]
        trajectory = ran.trajectory
        assert (trajectory.harness, trajectory.model, trajectory.seed) == (harness.fingerprint, "scripted", 23)
        assert set(trajectory.components) == {"prompt", "tools", "handlers"}

    def test_everything_is_counted_and_paid(self) -> None:
        model = ScriptedAgent([says("echo a"), "no command", says("echo b"), says(SUBMIT)])
        ran = run(loop(sandbox=STILL), model)
        spend = ran.trajectory.spend
        assert (spend.calls, spend.tokens_in, spend.tokens_out, spend.cpu_s) == (4, 44, 12, 0.75)
        assert ran.measures == {
            **{"turns": 4.0, "commands": 3.0, "blocked": 0.0, "format_errors": 1.0, "timeouts": 0.0, "truncated": 0.0},
            **{"hook_calls": 0.0, "hook_errors": 0.0},
            **{"submitted": 1.0, "turn_limit": 0.0, "wall_limit": 0.0, "format_limit": 0.0},
        }

    def test_a_trajectory_is_plain_data(self) -> None:
        ran = run(loop(sandbox=STILL), agent("echo a", SUBMIT))
        trajectory = ran.trajectory
        assert type(trajectory).model_validate_json(trajectory.model_dump_json()) == trajectory

    def test_a_submission_within_a_command_is_that_command_and_then_the_end(self) -> None:
        ran = run(loop(), agent(f"echo two > a.txt && {SUBMIT}"))
        assert ran.kinds == ["command", "submit"]
        assert commands_of(ran.trajectory) == (f"echo two > a.txt && {SUBMIT}",)
        assert ran.steps[1].command is None
        assert ran.measures["submitted"] == 1.0

    def test_half_a_surrogate_pair_in_a_reply_breaks_nothing(self) -> None:
        ran = run(loop(), ScriptedAgent([says("echo \ud800"), says(SUBMIT)]))
        ran.trajectory.model_dump_json()  # or its trace could not be kept
        assert ran.steps[0].output == "exit code 0\n?\n"

    def test_a_harness_travels_to_a_worker(self) -> None:
        harness = pickle.loads(pickle.dumps(loop(sandbox=STILL)))
        assert run(harness, agent(SUBMIT)).measures["submitted"] == 1.0


class TestLimits:
    def test_turns_and_the_work_done_until_then_is_an_answer(self) -> None:
        model = agent("echo two > a.txt", "ls")
        ran = run(loop(max_turns=3), model)
        assert len(model.asked) == 3
        assert read_changes(ran.trajectory.answer) == {"a.txt": "two\n"}
        assert (ran.measures["turn_limit"], ran.measures["submitted"]) == (1.0, 0.0)
        assert ended_by(ran.measures) == "the episode reached its limit of turns"

    def test_a_candidate_may_shrink_its_turns(self) -> None:
        model = agent("ls")
        candidate = Candidate(files={**folder().files, LOOP: "max_turns = 2"})
        assert run(loop(max_turns=5, sandbox=STILL), model, candidate).measures["turns"] == 2.0
        assert "at most 2 turns" in model.asked[0].messages[0].content

    def test_a_short_harness_for_smoke(self) -> None:
        harness = loop(max_turns=30, sandbox=STILL)
        short = harness.short(8)
        assert run(short, agent("ls")).measures["turns"] == 8.0
        assert short.fingerprint != harness.fingerprint
        assert harness.short(99).fingerprint == harness.fingerprint

    def test_time_of_the_episode(self) -> None:
        ticks = iter(range(0, 1000, 10))
        ran = run(loop(wall_s=45, clock=lambda: float(next(ticks)), sandbox=STILL), agent("echo a"))
        # The clock is read once at the start, and before and within each turn: at 10 and 20, then 30 and 40, then 50.
        assert ran.measures["turns"] == 2.0
        assert ended_by(ran.measures) == "the episode reached its limit of time"
        assert ran.trajectory.answer == "{}"

    def test_time_of_a_command(self, sandbox: str) -> None:
        ran = run(loop(command_timeout_s=0.3, sandbox=sandbox), agent("echo begun; sleep 30", SUBMIT))
        assert ran.steps[0].killed == "time"
        assert ran.steps[0].output.startswith("exit code 137 (killed: it passed the limit of time)\nbegun")
        assert ran.measures["timeouts"] == 1.0

    def test_a_command_does_not_outlast_the_episode(self) -> None:
        begun = time.perf_counter()
        ran = run(loop(command_timeout_s=30, wall_s=0.4), agent("sleep 30"))
        assert time.perf_counter() - begun < 10.0
        assert (ran.steps[0].killed, len(ran.steps)) == ("time", 1)
        assert ran.measures["wall_limit"] == 1.0

    def test_format_errors_in_a_row(self) -> None:
        model = ScriptedAgent(["Hm.", "Hm.", says("echo a"), "Hm.", "Hm.", "Hm.", says(SUBMIT)])
        ran = run(loop(max_format_errors=3, sandbox=STILL), model)
        assert ran.kinds == ["format_error"] * 2 + ["command"] + ["format_error"] * 3
        assert ran.steps[0].output.startswith("Your reply holds no command block. Give exactly one command")
        assert model.asked[1].messages[-1].content == ran.steps[0].output
        assert (ran.measures["format_errors"], ran.measures["format_limit"]) == (5.0, 1.0)
        assert ran.trajectory.answer == "{}"

    def test_a_reply_that_was_cut_off_is_told_so(self) -> None:
        model = ScriptedAgent(["```bash\necho a very long"], finish_reason="length")
        ran = run(loop(max_format_errors=1, sandbox=STILL), model)
        assert "was cut off" in ran.steps[0].output

    def test_output_beyond_the_cap_loses_its_middle(self) -> None:
        ran = run(loop(obs_cap=1024), agent("seq 1000 1999", "seq 1 3", SUBMIT))
        # 1000 lines of 5 bytes; 480 bytes of each end stay.
        assert "[... 4040 of 5000 bytes left out ...]" in ran.steps[0].output
        assert ran.steps[0].output.startswith("exit code 0\n1000\n")
        assert ran.steps[0].output.endswith("1999\n")
        assert ran.measures["truncated"] == 1.0
        candidate = Candidate(files={**folder().files, LOOP: "obs_cap = 8192"})
        assert run(loop(obs_cap=1024), agent("seq 1000 1999", SUBMIT), candidate).measures["truncated"] == 0.0

    def test_older_output_shrinks_to_a_line(self) -> None:
        model = agent(*(f"echo output number {number}" for number in range(6)), SUBMIT)
        run(loop(keep_full_turns=4, sandbox=STILL), model)
        shown = [message.content for message in model.asked[-1].messages if message.role == "user"][1:]
        assert shown[:2] == ["exit code 0 [... 17 bytes of an older turn left out ...]"] * 2
        assert shown[2:] == [f"exit code 0\noutput number {number}\n" for number in range(2, 6)]


class TestHooksInTheLoop:
    def test_the_system_prompt_is_rewritten_and_the_rules_stay(self) -> None:
        hooks = "def system_prompt(text, task):\n    return f'{sorted(task)} {task[\"input\"]}'\n"
        model = agent(SUBMIT)
        run(loop(), model, folder(hooks))
        assert model.asked[0].messages[0].content.startswith("['input'] Make it work.\n\n# How you work")

    def test_before_llm_changes_a_request_and_not_the_conversation(self) -> None:
        hooks = """
def before_llm(messages):
    return messages[:1] + [{"role": "user", "content": f"{len(messages)} messages"}]
"""
        model = agent("echo a", "echo b", SUBMIT)
        run(loop(), model, folder(hooks))
        assert [request.messages[1].content for request in model.asked] == ["2 messages", "4 messages", "6 messages"]
        assert [len(request.messages) for request in model.asked] == [2, 2, 2]

    def test_after_llm_rewrites_a_reply_before_it_is_read(self) -> None:
        hooks = "def after_llm(text):\n    return text.replace('ruin', 'echo mended')\n"
        model = agent("ruin", SUBMIT)
        ran = run(loop(), model, folder(hooks))
        assert (ran.steps[0].command, ran.steps[0].text) == ("echo mended", says("ruin"))
        assert model.asked[1].messages[2].content == says("echo mended")

    def test_before_tool_rewrites_blocks_or_answers(self) -> None:
        hooks = """
def before_tool(command):
    if command.startswith("rm"):
        return {"block": "nothing is removed here"}
    if command == "date":
        return {"answer": "never\\n"}
    return command.replace("-bad", "")
"""
        ran = run(loop(), agent("rm a.txt", "date", "echo -bad a", SUBMIT), folder(hooks))
        assert ran.kinds == ["blocked", "blocked", "command", "submit"]
        assert [step.output for step in ran.steps[:3]] == [
            "nothing is removed here",
            "exit code 0\nnever\n",
            "exit code 0\na\n",
        ]
        assert [step.command for step in ran.steps[:3]] == ["rm a.txt", "date", "echo  a"]
        assert commands_of(ran.trajectory) == ("echo  a",)
        assert (ran.measures["blocked"], ran.measures["commands"]) == (2.0, 2.0)
        assert ran.trajectory.answer == "{}"

    def test_a_submission_can_be_blocked_and_cannot_be_answered(self) -> None:
        hooks = """
asked = 0
def before_tool(command):
    global asked
    asked += "SUBMIT" in command
    return {"answer": "HELDOUT_SUBMIT"} if asked == 1 else command
"""
        ran = run(loop(), agent(SUBMIT), folder(hooks))
        assert ran.kinds == ["blocked", "submit"]

    def test_after_tool_sees_the_whole_output_and_the_cap_holds_for_what_it_returns(self) -> None:
        hooks = """
def after_tool(command, output, exit_code):
    return f"{len(output)} {exit_code} {command[:3]}" if "tail" not in command else "x" * 5000
"""
        ran = run(loop(obs_cap=1024), agent("seq 1000 1999; exit 4", "echo tail", SUBMIT), folder(hooks))
        assert ran.steps[0].output == "exit code 4\n5000 4 seq"
        assert "[... 4040 of 5000 bytes left out ...]" in ran.steps[1].output
        assert ran.measures["truncated"] == 1.0

    def test_after_tool_cannot_undo_a_submission(self) -> None:
        ran = run(
            loop(), agent(SUBMIT), folder("def after_tool(command, output, exit_code):\n    return 'on you go'\n")
        )
        assert (ran.kinds, ran.measures["submitted"]) == (["submit"], 1.0)

    def test_a_note_is_added_to_what_the_model_is_shown(self) -> None:
        hooks = """
def on_turn_end(turn, messages):
    return f"{turn} of 3, {len(messages)} messages" if turn == 2 else None
"""
        model = agent("echo a", "echo b", SUBMIT)
        ran = run(loop(), model, folder(hooks))
        assert [step.output for step in ran.steps[:2]] == ["exit code 0\na\n", "exit code 0\nb\n\n\n2 of 3, 6 messages"]
        assert model.asked[2].messages[-1].content == ran.steps[1].output
        assert [message.role for message in model.asked[2].messages[-2:]] == ["assistant", "user"]

    def test_extra_tools_are_told_and_become_shell_commands(self) -> None:
        hooks = """
EXTRA_TOOLS = [{"name": "peek", "description": "Shows a file."}]
def run_tool(name, argument):
    return f"cat {argument}" if argument else 3
"""
        model = agent("peek a.txt", "peek", "peeks", SUBMIT)
        ran = run(loop(), model, folder(hooks))
        assert "- `peek ARGUMENT`: Shows a file." in model.asked[0].messages[0].content
        assert [step.command for step in ran.steps[:3]] == ["cat a.txt", "peek", "peeks"]
        assert ran.steps[0].output == "exit code 0\none\n"
        assert ran.steps[1].exit_code == 127
        assert ran.steps[1].hook_faults == ("run_tool: the command is a int, not a text",)
        assert (ran.measures["hook_calls"], ran.measures["hook_errors"]) == (2.0, 1.0)

    def test_invariant_5_raising_hooks_leave_the_episodes_messages_unchanged_and_are_counted_one_by_one(self) -> None:
        raising = "".join(
            f"def {name}({args}):\n    raise ValueError('no')\n"
            for name, args in {
                "system_prompt": "text, task",
                "before_llm": "messages",
                "after_llm": "text",
                "before_tool": "command",
                "after_tool": "command, output, exit_code",
                "on_turn_end": "turn, messages",
            }.items()
        )
        plain, hooked = agent("cat a.txt", "rm a.txt", SUBMIT), agent("cat a.txt", "rm a.txt", SUBMIT)
        without = run(loop(), plain)
        ran = run(loop(), hooked, folder(raising))
        assert [request.messages for request in hooked.asked] == [request.messages for request in plain.asked]
        assert ran.trajectory.answer == without.trajectory.answer
        # Once at the start, five in each of two turns, four in the last, which has no end to note.
        assert (ran.measures["hook_calls"], ran.measures["hook_errors"]) == (15.0, 15.0)
        faults = [fault for step in ran.steps for fault in step.hook_faults]
        assert len(faults) == 8
        assert [fault.partition(":")[0] for fault in ran.steps[0].hook_faults] == [
            *("system_prompt", "before_llm", "after_llm", "before_tool", "after_tool", "on_turn_end")
        ]

    def test_hooks_cannot_see_or_touch_the_tasks_work_folder(self, sandbox: str) -> None:
        ran = run(loop(sandbox=sandbox), agent("ls", SUBMIT), folder("def after_llm(text):\n    return text\n"))
        assert ran.steps[0].output == "exit code 0\na.txt\n"

    def test_a_dry_run_tells_the_faults(self) -> None:
        harness = loop()
        assert harness.dry_run(folder()) == []
        assert harness.dry_run(folder("def after_llm(text):\n    return text + 1\n")) == [
            'after_llm: line 2: TypeError: can only concatenate str (not "int") to str'
        ]


class TestWhatIsNotTheCandidatesFault:
    def test_a_model_that_fails_passes_through_with_the_calls_of_the_whole_episode(self) -> None:
        @dataclass
        class Failing(ScriptedAgent):
            def complete(self, request: Request) -> Reply:
                if len(self.asked) == 2:
                    raise ModelError("the server is gone", calls=3)
                return super().complete(request)

        with pytest.raises(ModelError, match="the server is gone") as caught:
            run(loop(sandbox=STILL), Failing([says("echo a")]))
        assert caught.value.calls == 5

    def test_a_sandbox_that_fails_passes_through(self) -> None:
        with pytest.raises(SandboxError, match="no room for 1 files"):
            run(loop(sandbox="agent_parts:ClosedSandboxes"), agent(SUBMIT))

    def test_a_task_of_another_source_passes_through(self) -> None:
        harness, episode = loop(sandbox=STILL), Episode(agent(SUBMIT), 0, Preparation())
        with pytest.raises(TaskError, match="no such task"):
            harness.run(folder(), Task(id="unknown", input=""), episode)


class TestReplay:
    COMMANDS = ("cat a.txt", "echo $RUN_SEED > b.txt", "seq 1000 1999", "false", "cat b.txt")

    def test_equals_the_episode_of_the_same_seed(self, sandbox: str) -> None:
        harness = loop(sandbox=sandbox, obs_cap=1024)
        ran = run(harness, agent(*self.COMMANDS, SUBMIT), seed=31)
        replayed = harness.replay(TASK, commands_of(ran.trajectory), seed=31)
        assert replayed.answer == ran.trajectory.answer
        assert replayed.outputs == tuple(step.output for step in ran.steps[:-1])
        assert replayed.exit_codes == (0, 0, 0, 1, 0)
        assert replayed.spend.calls == 0
        assert replayed.spend.wall_s > 0.0

    def test_begins_anew_with_its_own_seed(self) -> None:
        harness = loop()
        answers = [harness.replay(TASK, self.COMMANDS, seed=seed).answer or "" for seed in (1, 2, 1)]
        assert [json.loads(answer) for answer in answers] == [{"b.txt": "1\n"}, {"b.txt": "2\n"}, {"b.txt": "1\n"}]

    def test_of_nothing_changes_nothing(self) -> None:
        replayed = loop().replay(TASK, (), seed=0)
        assert (replayed.answer, replayed.outputs, replayed.exit_codes) == ("{}", (), ())

    def test_runs_the_commands_as_hooks_had_left_them_and_no_hook(self) -> None:
        hooks = "def before_tool(command):\n    return command.replace('gone', 'a.txt')\n"
        ran = run(loop(), agent("cat gone", SUBMIT), folder(hooks))
        assert loop().replay(TASK, commands_of(ran.trajectory), seed=5).outputs == ("exit code 0\none\n",)


class TestBound:
    def test_adds_up_every_turn_by_hand(self) -> None:
        harness = ToolLoopHarness(
            options={"sandbox": STILL, "max_turns": 6, "obs_cap": 1024, "keep_full_turns": 4},
            environment=OneFile(),
            max_tokens=300,
        )
        model = agent("ls")
        bound = harness.bound(folder(), TASK, model)
        run(harness, model)
        system = len(model.asked[0].messages[0].content.encode())
        first, full, line = system + 13 + 32, 300 + 32 + 128 + 1024, 300 + 32 + 512
        # Earlier turns in the six requests: 0, 1, 2, 3 and 4 in full, then 4 in full and one as a line.
        assert bound.tokens_in == 6 * first + (1 + 2 + 3 + 4 + 4) * full + line
        assert (bound.calls, bound.tokens_out) == (6, 1800)

    @pytest.fixture
    def growing(self) -> Iterator[Candidate]:
        hooks = f"""
def system_prompt(text, task): return text + "s" * {GROWTH_BYTES}
def before_llm(messages):
    return messages[:-1] + [dict(messages[-1], content=messages[-1]["content"] + "m" * {GROWTH_BYTES})]
def after_llm(text): return "l" * {GROWTH_BYTES} + text
def after_tool(command, output, exit_code): return "t" * {GROWTH_BYTES}
def on_turn_end(turn, messages): return "n" * 4096
"""
        return folder(hooks)

    def test_covers_hooks_that_add_all_they_may(self, growing: Candidate) -> None:
        harness = loop(max_turns=7, keep_full_turns=4, obs_cap=1024)
        model = ScriptedAgent([says(f": {'x' * 2000}")])
        ran = run(harness, model, growing)
        assert ran.measures["hook_errors"] == 0.0
        sent = sum(len(message.content.encode()) for request in model.asked for message in request.messages)
        assert sent > 7 * 7 * 8192
        assert sent <= harness.bound(growing, TASK, model).tokens_in

    def test_names_the_fault_of_a_folder_that_cannot_be_run(self) -> None:
        harness = loop(sandbox=STILL)
        for files, words in (({}, "no text for the model"), ({**folder().files, HOOKS: "import os"}, "may not import")):
            with pytest.raises(HarnessError, match=words):
                harness.bound(Candidate(files=files), TASK, agent())
