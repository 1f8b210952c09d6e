"""The `llm` improver over real HTTP: whole episodes, and everything that a model may do wrong in one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from llm_views import EDIT, HEAD, START, call, calling, make_view, serving, submitting

from heldout.config import ImproverConfig, load_config, read_toml
from heldout.errors import ModelError, SetupError
from heldout.improvers import is_agent, make_agent_improver
from heldout.improvers.llm import LlmImprover
from heldout.models import make_model
from heldout.records import Edit, EvidenceVerdict, ProbeKind, Spend, edits_digest
from heldout.testing.fakes import FunctionModel
from heldout.testing.scripted_laboratory import ScriptedLaboratory
from heldout.testing.scripted_server import ScriptedReply, SeenRequest

both = pytest.mark.parametrize("kind", ["openai", "anthropic"])
DRAFT = (Edit(path=EDIT["path"], content=EDIT["content"]),)


def no_probes() -> ScriptedLaboratory:
    return ScriptedLaboratory(available=frozenset())


@both
def test_a_whole_proposal_reads_experiments_and_submits_with_its_evidence(kind: str) -> None:
    laboratory = ScriptedLaboratory(
        {ProbeKind.REPLAY: EvidenceVerdict.INCONCLUSIVE, ProbeKind.FIX_PROBE: EvidenceVerdict.SUPPORTS},
        base=HEAD.digest,
    )
    claim = {"task": "fails-1", "diagnosis": "It never ran the checks.", "step": 1, "evidence": ["1/0/0", "1/0/1"]}
    script = [
        calling(call("list_files"), call("read_file", path="evidence/traces/fails-1.txt"), text="I look."),
        calling(call("replay", task="fails-1")),
        calling(call("fix_probe", edits=[EDIT], tasks=["fails-1", "fails-2"])),
        submitting(predicted_fixes=["fails-1"], at_risk=["s9"], claims=[claim]),
    ]
    with serving(script, kind=kind) as served:
        proposal = served.improver.propose(make_view(), laboratory)
        bodies = served.bodies()
    assert proposal.error is None
    assert proposal.edits == DRAFT
    assert (proposal.predicted_fixes, proposal.at_risk) == (("fails-1",), ("s9",))
    assert proposal.claims[0].evidence == tuple(item.id for item in laboratory.made) == ("1/0/0", "1/0/1")
    assert laboratory.made[1].edits == edits_digest(proposal.edits)
    assert [proposal.measures[name] for name in ("turns", "tool_calls", "tool_errors")] == [4, 5, 0]
    assert proposal.spend == Spend(calls=4, tokens_in=28, tokens_out=12)
    assert len(bodies) == 4
    told = json.dumps(bodies[-1], ensure_ascii=False)
    assert "[command 1] $ sed -i s/a/b/ a.py" in told
    assert "evidence 1/0/1: fix_probe of fails-1, fails-2: supports" in told
    assert "5 units are left" in told


def test_the_model_is_asked_greedily_with_the_views_seed_and_the_tools_that_there_are() -> None:
    laboratory = ScriptedLaboratory(available=frozenset({ProbeKind.RUN_EPISODE}))
    with serving([submitting()], options={"reply_tokens": 999}) as served:
        served.improver.propose(make_view(), laboratory)
        (body,) = served.bodies()
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 77, 999)
    names = [tool["function"]["name"] for tool in body["tools"]]
    assert names == ["list_files", "read_file", "search", "run_episode", "submit_proposal"]
    assert "$ref" not in json.dumps(body["tools"])


def test_the_model_is_told_the_round_its_method_its_guidance_and_the_noise() -> None:
    with serving([submitting()]) as served:
        served.improver.propose(make_view(), ScriptedLaboratory())
        system, opening = (message["content"] for message in served.bodies()[0]["messages"])
    assert "# How I improve a harness" in system
    assert "# Reading evidence" in system
    assert "Look for what was left out." in system
    assert "Two of three fail." in opening
    assert "fails-1: omission; commands [1] of its trace suffice" in opening
    assert "round 1: accept EFFECTIVE" in opening
    assert "differ on 16% of the tasks" in opening
    assert "once with 13.8% and twice with 7.5%" in opening
    assert "supports it with 21%" in opening
    assert "+1.05 tasks on average, and the best of the round's proposals +2.10" in opening
    assert "8 units are left" in opening
    assert "base_round may name 0" in opening


def test_without_experiments_none_is_offered_or_spoken_of() -> None:
    with serving([submitting()]) as served:
        served.improver.propose(make_view(), no_probes())
        body = served.bodies()[0]
    assert [tool["function"]["name"] for tool in body["tools"]] == [
        "list_files", "read_file", "search", "submit_proposal",
    ]  # fmt: skip
    assert "units are left" not in body["messages"][1]["content"]
    assert "fix_probe of three" not in body["messages"][1]["content"]


WRONG_CALLS: list[tuple[tuple[str, str], str]] = [
    (("read_file", '{"path": '), "no JSON"),
    (("read_file", '["evidence/report.md"]'), "one JSON object"),
    (("read_file", '{"path": 7}'), "path: Input should be a valid string, got 7"),
    (("read_file", "{}"), "path: Field required"),
    (("read_file", '{"path": "x", "depth": 1}'), "depth: Extra inputs are not permitted"),
    (("read_file", '{"path": "evidence/reprot.md"}'), "did you mean evidence/report.md"),
    (("read_file", '{"path": "evidence/report.md", "offset": 5000}'), "past its end"),
    (("list_files", '{"folder": "secrets"}'), "no folder 'secrets'"),
    (("delete_everything", "{}"), "no tool 'delete_everything'"),
    (("", ""), "no tool ''"),
    (("ablate", '{"task": "fails-1", "step": -1}'), "step: Input should be greater than or equal to 0"),
    (("fix_probe", '{"edits": [], "tasks": ["fails-1"]}'), "at least 1 item"),
    (("fix_probe", json.dumps({"edits": [EDIT], "tasks": ["a", "b", "c", "d"]})), "at most 3 items"),
    (("fix_probe", json.dumps({"edits": [{"path": "x.py", "content": ""}], "tasks": ["fails-1"]})), "Not run"),
    (("submit_proposal", '{"edits": [{"path": "a.md"}], "note": "x"}'), "content of the whole file or delete"),
    (("submit_proposal", '{"edits": [{"path": "workflow.md", "content": "\\ud800"}], "note": "x"}'), "no JSON text"),
    (("submit_proposal", "[" * 5000), "no JSON"),
]


@pytest.mark.parametrize(
    ("wrong", "told"), WRONG_CALLS, ids=[f"{name}-{i}" for i, ((name, _), _) in enumerate(WRONG_CALLS)]
)
def test_a_wrong_call_is_answered_in_words_counted_and_costs_no_unit(wrong: tuple[str, str], told: str) -> None:
    laboratory = ScriptedLaboratory()
    with serving([calling(wrong), submitting()]) as served:
        proposal = served.improver.propose(make_view(), laboratory)
        answer = served.bodies()[1]["messages"][-1]
    assert (answer["role"], answer["tool_call_id"]) == ("tool", "call-0")
    assert told in answer["content"]
    assert (proposal.error, proposal.measures["tool_errors"], proposal.measures["tool_calls"]) == (None, 1, 2)
    assert (laboratory.units, laboratory.made) == (8, [])


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"edits": [{"path": "../grader.py", "content": "x"}]}, "'../grader.py' is not a safe path"),
    ({"edits": [{"path": "/etc/passwd", "content": "x"}]}, "not a safe path"),
    ({"edits": [{"path": "notes.txt", "content": "x"}]}, "notes.txt"),
    ({"edits": [{"path": "workflow.md", "content": "x" * 70_000}]}, "workflow.md"),
    ({"edits": [{"path": "harness_code/hooks.py", "content": "import os\n"}]}, "hooks.py, line 1"),
    ({"edits": [EDIT, EDIT]}, "workflow.md is edited more than once"),
    ({"edits": [{"path": "memory.md", "delete": True}]}, "memory.md cannot be deleted"),
    ({"edits": [{"path": "workflow.md", "content": HEAD.files["workflow.md"]}]}, "leave every file as it is"),
    ({"base_round": 5}, "base_round 5 is no kept round; there is 0, 1"),
    ({"predicted_fixes": ["passes"]}, "'passes' does not fail now"),
    ({"predicted_fixes": ["lost"]}, "'lost' does not fail now"),
    ({"predicted_fixes": ["s9"]}, "'s9' is no train task"),
    ({"claims": [{"task": "s9", "diagnosis": "x"}]}, "'s9' is no train task"),
    ({"claims": [{"task": "fails-1", "diagnosis": "x", "step": 2}]}, "commands 0 to 1, and no command 2"),
    ({"claims": [{"task": "fails-1", "diagnosis": "x", "evidence": ["9/9/9"]}]}, "no evidence 9/9/9"),
]


@pytest.mark.parametrize(("changes", "told"), UNFIT, ids=[told[:24] for _, told in UNFIT])
def test_a_submission_that_does_not_fit_is_checked_in_the_episode_and_may_be_mended(
    changes: dict[str, Any], told: str
) -> None:
    with serving([submitting(**changes), submitting()]) as served:
        proposal = served.improver.propose(make_view(), ScriptedLaboratory())
        answer = served.bodies()[1]["messages"][-1]["content"]
    assert "Not accepted" in answer
    assert told in answer
    assert (proposal.edits, proposal.error, proposal.measures["tool_errors"]) == (DRAFT, None, 1)


def test_edits_that_were_taken_back_before_are_refused_by_their_digest() -> None:
    view = make_view(dead_edits=frozenset({edits_digest(DRAFT)}))
    other = [{"path": "workflow.md", "content": "Something else.\n"}]
    with serving([submitting(), submitting(edits=other)]) as served:
        proposal = served.improver.propose(view, no_probes())
        assert "taken back" in served.sent(1)
    assert proposal.edits[0].content == "Something else.\n"


def test_edits_of_an_earlier_base_are_checked_on_that_base() -> None:
    again = [{"path": "workflow.md", "content": HEAD.files["workflow.md"]}]
    with serving([submitting(edits=again, base_round=0)]) as served:
        proposal = served.improver.propose(make_view(), no_probes())
    assert (proposal.base_round, proposal.error) == (0, None)
    assert "workflow.md" not in START.files


def test_a_prediction_that_fix_probe_refuted_for_exactly_these_edits_is_refused_and_for_others_it_is_not() -> None:
    laboratory = ScriptedLaboratory({ProbeKind.FIX_PROBE: EvidenceVerdict.REFUTES}, base=HEAD.digest)
    other = [{"path": "workflow.md", "content": "Run them twice.\n"}]
    script = [
        calling(call("fix_probe", edits=[EDIT], tasks=["fails-1"])),
        submitting(predicted_fixes=["fails-1"]),
        submitting(predicted_fixes=["fails-1"], edits=other),
    ]
    with serving(script) as served:
        proposal = served.improver.propose(make_view(), laboratory)
        assert "did not pass under exactly these edits (evidence 1/0/0)" in served.sent(2)
    assert proposal.error is None
    assert proposal.edits[0].content == "Run them twice.\n"


def test_nothing_worth_trying_is_a_submission_with_a_reason() -> None:
    with serving([submitting(edits=[], note="All failures are chance.")]) as served:
        proposal = served.improver.propose(make_view(), no_probes())
    assert (proposal.edits, proposal.error) == ((), "nothing: All failures are chance.")
    assert proposal.spend.calls == 1


@both
@pytest.mark.parametrize(
    ("reply", "told", "count"),
    [
        (ScriptedReply("I think the agent is careless."), "It calls no tool.", {}),
        (ScriptedReply(""), "It is empty.", {}),
        (ScriptedReply("", refusal="I will not do that."), "It declines.", {"refusals": 1}),
    ],
)
def test_a_reply_without_a_call_is_reminded(kind: str, reply: ScriptedReply, told: str, count: dict[str, int]) -> None:
    with serving([reply, submitting()], kind=kind) as served:
        proposal = served.improver.propose(make_view(), no_probes())
        sent = served.sent(1)
    assert told in sent
    assert "submit_proposal ends the episode. [59 turns are left]" in sent
    assert (proposal.error, proposal.measures["reminders"]) == (None, 1)
    assert proposal.measures["refusals"] == count.get("refusals", 0)


@both
def test_a_reply_cut_at_its_longest_length_is_told_so_with_and_without_a_call(kind: str) -> None:
    finish = {"openai": "length", "anthropic": "max_tokens"}[kind]
    script = [
        ScriptedReply("Let me think", finish_reason=finish),
        calling(call("list_files"), ("submit_proposal", '{"edits": []}'), finish_reason=finish),
        submitting(),
    ]
    with serving(script, kind=kind, options={"reply_tokens": 100}) as served:
        proposal = served.improver.propose(make_view(), no_probes())
        first, second = served.sent(1), served.sent(2)
    assert "It was cut off at 100 tokens, before any call." in first
    assert "Not run: your reply was cut off at 100 tokens." in second
    assert "evidence/report.md (18 characters)" in second
    assert (proposal.error, proposal.measures["cut_replies"], proposal.measures["tool_errors"]) == (None, 2, 1)


def test_a_model_that_never_calls_a_tool_ends_with_an_error_and_its_bill() -> None:
    with serving([ScriptedReply("Hm.", usage=(11, 2))]) as served:
        proposal = served.improver.propose(make_view(), no_probes())
    assert proposal.error == "nothing was submitted: 4 replies in a row called no tool"
    assert (proposal.edits, proposal.unanswered) == ((), False)
    assert proposal.spend == Spend(calls=4, tokens_in=44, tokens_out=8)


@both
def test_many_calls_in_a_reply_are_answered_each_and_at_most_eight_are_run(kind: str) -> None:
    with serving([calling(*[call("list_files")] * 10), submitting()], kind=kind) as served:
        proposal = served.improver.propose(make_view(), no_probes())
        sent = served.sent(1)
    assert sent.count("evidence/report.md (18 characters)") == 8
    assert sent.count("Not run: at most 8 calls in one reply.") == 2
    assert (proposal.measures["tool_calls"], proposal.measures["tool_errors"]) == (11, 2)


def test_what_follows_an_accepted_submission_in_the_same_reply_is_not_run() -> None:
    laboratory = ScriptedLaboratory()
    submit = call("submit_proposal", edits=[EDIT], note="x")
    with serving([calling(submit, call("replay", task="fails-1"))]) as served:
        proposal = served.improver.propose(make_view(), laboratory)
    assert (proposal.error, laboratory.made, proposal.measures["tool_calls"]) == (None, [], 1)


@pytest.mark.parametrize("turns", [1, 5])
def test_the_turns_are_bounded_and_the_last_ones_are_announced(turns: int) -> None:
    with serving([calling(call("list_files"))], options={"max_turns": turns}) as served:
        proposal = served.improver.propose(make_view(), no_probes())
        requests = len(served.server.requests)
        last = served.sent()
    assert (requests, proposal.measures["turns"]) == (turns, turns)
    assert proposal.error == f"nothing was submitted: all {turns} turns were used"
    assert ("1 turn is left: submit now" in last) is (turns == 5)
    assert proposal.spend == Spend(calls=turns, tokens_in=7 * turns, tokens_out=3 * turns)


def test_no_episode_may_be_set_longer_than_the_specification_allows() -> None:
    for option, limit in (("max_turns", 60), ("meta_turns", 30), ("meta_calls", 30)):
        with pytest.raises(SetupError, match=f"{option}: .*less than or equal to {limit}"):
            LlmImprover(ImproverConfig(kind="llm", options={option: limit + 1}), FunctionModel(answer=lambda _: ""))


@both
def test_a_429_is_waited_out_and_its_attempts_are_on_the_bill(kind: str) -> None:
    script = [ScriptedReply("slow down", status=429, headers={"Retry-After": "9"}), submitting()]
    with serving(script, kind=kind) as served:
        proposal = served.improver.propose(make_view(), no_probes())
        assert served.slept == [9.0]
    assert (proposal.error, proposal.measures["turns"]) == (None, 1)
    assert proposal.spend == Spend(calls=2, tokens_in=7, tokens_out=3)


@both
def test_an_outage_in_the_middle_passes_as_a_model_error_with_the_bill_of_the_whole_episode(kind: str) -> None:
    looking = calling(call("list_files"), usage=(100, 20))
    down = ScriptedReply("down", status=503)
    with serving([looking, looking, down], kind=kind, retries=1) as served:
        with pytest.raises(ModelError, match=r"HTTP 503.*attempt 2 of 2") as caught:
            served.improver.propose(make_view(), no_probes())
        assert len(served.server.requests) == 4
    assert (caught.value.calls, caught.value.tokens_in, caught.value.tokens_out) == (4, 200, 40)


def test_the_input_tokens_of_an_episode_are_bounded_before_the_turn_that_might_pass_them() -> None:
    looking = calling(call("list_files"), usage=(9_000, 10))
    with serving([looking], options={"episode_tokens": 40_000}) as served:
        proposal = served.improver.propose(make_view(), no_probes())
        bound = served.improver.bound
    assert proposal.error == "nothing was submitted: the next turn might pass episode_tokens = 40000"
    assert 9_000 < proposal.spend.tokens_in <= bound.tokens_in == 40_000
    assert bound == Spend(calls=60 * 3, tokens_in=40_000, tokens_out=60 * 8192)


def test_a_long_conversation_loses_its_oldest_results_and_stays_within_its_length() -> None:
    report = "".join(f"line {number}\n" for number in range(2000))
    script = [calling(call("read_file", path="evidence/report.md", offset=20 * turn)) for turn in range(24)]
    with serving([*script, submitting()], options={"context_chars": 24_000}) as served:
        proposal = served.improver.propose(make_view(report=report), no_probes())
        lengths = [sum(len(message["content"]) for message in body["messages"]) for body in served.bodies()]
        last = served.bodies()[-1]["messages"]
    assert proposal.error is None
    assert proposal.measures["elided"] > 0
    assert max(lengths) <= 24_000
    results = [message["content"] for message in last if message["role"] == "tool"]
    assert "left out here; call it again if you need it" in results[0]
    assert results[-1].startswith("[evidence/report.md, characters 460 to ")
    assert last[0] == served.bodies()[0]["messages"][0]
    assert last[1] == served.bodies()[0]["messages"][1]


def test_repair_is_shorter_knows_the_fault_and_may_cite_what_the_proposal_cited() -> None:
    claim = {"task": "fails-1", "diagnosis": "It never ran the checks.", "evidence": ["1/0/0"]}
    laboratory = ScriptedLaboratory()
    with serving([calling(call("replay", task="fails-1")), submitting(claims=[claim])]) as served:
        proposal = served.improver.propose(make_view(), laboratory)
    mended = submitting(claims=[claim], edits=[{"path": "workflow.md", "content": "Run the checks.\n"}])
    with serving([mended]) as served:
        repaired = served.improver.repair(make_view(), proposal, "leak: names the task fails-1", no_probes())
        sent = served.sent()
    assert "leak: names the task fails-1" in sent
    assert "It never ran the checks." in sent
    assert (repaired.error, repaired.claims[0].evidence) == (None, ("1/0/0",))
    with serving([calling(call("list_files"))], options={"repair_turns": 3}) as served:
        failed = served.improver.repair(make_view(), proposal, "x", no_probes())
    assert (failed.error, failed.spend.calls) == ("nothing was submitted: all 3 turns were used", 3)


class TestTextProtocol:
    def block(self, tool: str, **arguments: Any) -> str:
        return f"I go on.\n```json\n{json.dumps({'tool': tool, 'arguments': arguments})}\n```\n"

    def test_a_whole_proposal_for_a_server_that_knows_no_tools(self) -> None:
        laboratory = ScriptedLaboratory({ProbeKind.FIX_PROBE: EvidenceVerdict.SUPPORTS}, base=HEAD.digest)
        script = [
            self.block("read_file", path="evidence/report.md"),
            self.block("fix_probe", edits=[EDIT], tasks=["fails-1"]),
            self.block("submit_proposal", edits=[EDIT], note="Run the checks.", predicted_fixes=["fails-1"]),
        ]
        with serving(script, options={"protocol": "text"}) as served:
            proposal = served.improver.propose(make_view(), laboratory)
            bodies = served.bodies()
        assert (proposal.error, proposal.edits, proposal.measures["tool_calls"]) == (None, DRAFT, 3)
        assert all("tools" not in body for body in bodies)
        assert all({*message} == {"role", "content"} for body in bodies for message in body["messages"])
        assert "- submit_proposal: End this episode" in bodies[0]["messages"][0]["content"]
        result = bodies[1]["messages"][-1]
        assert result["role"] == "user"
        assert result["content"].startswith("Result of read_file:\n[evidence/report.md, characters 0 to 18 of 18]")

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("I would read the report.", "It holds no block of JSON"),
            ('```json\n{"tool": "list_files", \n```', "Its block is no JSON"),
            ('```json\n{"name": "list_files"}\n```', "Its block names no tool"),
            ('```json\n{"tool": "list_files"}\n```\n```json\n{"tool": "list_files"}\n```', "more than one block"),
        ],
    )
    def test_a_block_that_is_none_is_reminded(self, text: str, told: str) -> None:
        submit = self.block("submit_proposal", edits=[EDIT], note="x")
        with serving([text, submit], options={"protocol": "text"}) as served:
            proposal = served.improver.propose(make_view(), no_probes())
            assert told in served.bodies()[1]["messages"][-1]["content"]
        assert (proposal.error, proposal.measures["reminders"], proposal.measures["tool_calls"]) == (None, 1, 1)

    def test_fences_and_line_breaks_inside_a_files_text_and_reasoning_before_it_are_forgiven(self) -> None:
        content = "Run this:\n```bash\npython check.py\n```\n```json\n{}\n```\n"
        raw = json.dumps(
            {
                "tool": "submit_proposal",
                "arguments": {"edits": [{"path": "workflow.md", "content": content}], "note": "x"},
            }
        )
        text = f"<think>```json\n{{not this}}\n```</think>\n```json\n{raw.replace(chr(92) + 'n', chr(10))}\n```"
        with serving([text], options={"protocol": "text"}) as served:
            proposal = served.improver.propose(make_view(), no_probes())
        assert proposal.error is None
        assert proposal.edits == (Edit(path="workflow.md", content=content),)


def test_the_same_view_gives_the_same_requests() -> None:
    def script(request: SeenRequest) -> ScriptedReply:
        return calling(call("list_files")) if len(request.body["messages"]) < 4 else submitting()

    found = []
    for _ in range(2):
        with serving(script) as served:
            served.improver.propose(make_view(), no_probes())
            found.append(served.bodies())
    assert found[0] == found[1]


def test_it_is_an_agent_improver_by_its_short_name_and_needs_a_model() -> None:
    model = FunctionModel(answer=lambda _: "")
    made = make_agent_improver(ImproverConfig(kind="llm"), model=model)
    assert isinstance(made, LlmImprover)
    assert is_agent(made)
    assert made.uses_model
    with pytest.raises(SetupError, match="needs a model"):
        make_agent_improver(ImproverConfig(kind="llm"))
    with pytest.raises(SetupError, match="allowed are protocol, max_turns"):
        make_agent_improver(ImproverConfig(kind="llm", options={"turns": 3}), model=model)


def test_the_example_is_a_config_for_it() -> None:
    config = load_config([read_toml(Path(__file__).resolve().parents[2] / "examples" / "verse_llm.toml")])
    assert (config.loop, config.tasks.source, config.solver.harness) == ("verse", "repair", "tool_loop")
    assert config.improver.model is not None
    made = make_agent_improver(config.improver, model=make_model(config.improver.model))
    assert isinstance(made, LlmImprover)
    assert made.bound == Spend(calls=60 * 5, tokens_in=2_000_000, tokens_out=60 * 8192)
    assert set(config.budget.prices) == {config.solver.model.name, config.improver.model.name}
