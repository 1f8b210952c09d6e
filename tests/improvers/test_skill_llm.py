"""The `skill_llm` improver: what it asks, what it takes for an answer, and what a bad answer costs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from skill_views import (
    FAULT,
    GUIDE,
    NONE,
    SKILL,
    blaming,
    draft_view,
    edit_view,
    fault_view,
    note,
    program,
    trace,
    writing,
)

from heldout.config import ImproverConfig, ModelConfig
from heldout.errors import HeldoutError, ImproverError, ModelError, SetupError
from heldout.harness.steps import Step
from heldout.improvers import edits_skills, make_agent_improver, make_improver, make_skill_improver
from heldout.improvers.skill_llm import SkillLlm, SkillLlmOptions
from heldout.improvers.skill_llm.digest import clipped, trace_text
from heldout.improvers.skill_llm.replies import attribution_schema, read_attribution, read_written
from heldout.improvers.skill_roles import Attribution, EditView, SkillTrace
from heldout.improvers.skill_texts import with_policy
from heldout.models.base import Request
from heldout.records import Edit, EditProposal, Spend, TrainTask, apply_edits
from heldout.skills.folder import read_skill
from heldout.skills.guide import MODULE_BYTES, check_guide, kind_of
from heldout.skills.modules import MODULES, NO_SKILL_FILE, SKILL_FILE, Stage
from heldout.testing.fakes import FunctionModel
from heldout.testing.object_graph import reached

M2 = with_policy(GUIDE.files["m2_sources.md"], "Look at types before summing.", file="m2_sources.md")
"""The second module with one rule more."""
NEW_SKILL = "---\nname: tables\ndescription: Work on tables.\n---\n\n# Tables\n\n- Look at types first.\n"


@dataclass
class Told:
    """A model that answers from a list, and what it was asked."""

    replies: Sequence[str | HeldoutError]
    seen: list[Request] = field(default_factory=list)

    def answer(self, request: Request) -> str:
        self.seen.append(request)
        reply = self.replies[len(self.seen) - 1]
        if isinstance(reply, HeldoutError):
            raise reply
        return reply

    def question(self, number: int = 0) -> str:
        return self.seen[number].messages[1].content


def told(*replies: str | HeldoutError, **options: Any) -> tuple[SkillLlm, Told]:
    """The improver over such a model; each reply costs 10 and 2 tokens."""
    script = Told(replies)
    config = ImproverConfig(kind="skill_llm", options=options)
    made = make_skill_improver(config, model=FunctionModel(script.answer))
    assert isinstance(made, SkillLlm)
    return made, script


def test_an_attribution_is_read_with_what_it_cost() -> None:
    improver, script = told(blaming())
    assert improver.attribute(fault_view()) == Attribution(
        step=0,
        stage="source selection",
        module="m2_sources.md",
        mechanism="It took a text column for numbers.",
        evidence="turn 0 printed done",
        preserve="the bindings to headers",
        spend=Spend(calls=1, tokens_in=10, tokens_out=2),
    )
    (request,) = script.seen
    assert (request.seed, request.temperature, request.max_tokens) == (11, 0.0, 8192)
    assert request.json_schema == attribution_schema()


def test_the_attributor_is_shown_stages_guide_episode_and_the_skill_that_was_used() -> None:
    improver, script = told(blaming())
    improver.attribute(fault_view(trace(first_fault="artifact validation: B9 is off", measures={"recoveries": 1.0})))
    system, question = (message.content for message in script.seen[0].messages)
    assert all(stage in system for stage in Stage)
    assert "m5_attribution.md is to blame only where" in system
    for part in (
        "Bind every column to a header that was read from the file.",
        "Sum the amounts of t-1.",
        "headers Item, Amount",
        "name: once",
        "artifact validation: B9 is off",
        "cell B9 is 12 and should be 15",
        "recoveries 1",
        "[turn 0] command",
        "# simulated decisions: outputs ok, columns wrong, steps ok",
        "Changed files: in.xlsx (8 characters)",
    ):
        assert part in question, part
    assert "UEsDBB==" not in question, "a workbook's bytes say nothing to a model"
    assert question.count("# simulated decisions") == 1


def test_a_skills_attributor_is_shown_no_guide() -> None:
    improver, script = told(blaming())
    improver.attribute(fault_view(target="skill", head=SKILL))
    assert "## The guide" not in script.question()


READABLE: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "fenced": (f"```json\n{blaming()}\n```", {}),
    "prose around": (f"I looked at it {{carefully}}.\n{blaming()}\nThat is all.", {}),
    "after reasoning": (f'<think>{{"stage": "execution"}} no</think>{blaming()}', {}),
    "stage in capitals and with a line": (blaming(stage="Source_Selection"), {}),
    "stage with a hyphen": (blaming(stage="source-selection"), {}),
    "module by its number": (blaming(module="m2"), {}),
    "module by its digit": (blaming(module=2), {}),
    "module by its title": (blaming(module="Sources and tools"), {}),
    "step as a text": (blaming(step="0"), {}),
    "no step": (blaming(step=-1), {"step": None}),
    "null step": (blaming(step=None), {"step": None}),
    "no module": (blaming(module=""), {"module": None}),
    "line breaks in a text": (blaming().replace("It took", "It\ntook"), {}),
    "evidence as a list": (blaming(evidence=["a", "b"]), {"evidence": '["a", "b"]'}),
    "half a character": (blaming(evidence="\ud800x"), {"evidence": "?x"}),
}


@pytest.mark.parametrize("kind", READABLE)
def test_an_attribution_is_read_with_patience(kind: str) -> None:
    text, expected = READABLE[kind]
    found = read_attribution(text, turns=2)
    assert found.fault == ""
    assert found.value is not None
    wanted = {"step": 0, "stage": "source selection", "module": "m2_sources.md", **expected}
    assert {name: getattr(found.value, name) for name in wanted} == wanted


def test_what_nothing_can_be_learned_from_names_no_stage_and_no_module() -> None:
    improver, _ = told(blaming(learnable=False, evidence="the disk was full"))
    found = improver.attribute(fault_view())
    assert (found.stage, found.module, found.step) == ("", None, None)
    assert found.evidence == "the disk was full"


UNREADABLE: Mapping[str, tuple[str, str]] = {
    "nothing": ("", "It is empty."),
    "prose": ("The second module is to blame.", "It holds no JSON object with the fields step, stage, module"),
    "another object": ('{"verdict": 1}', "It holds no JSON object"),
    "broken": (blaming()[:-20], "It holds no JSON object"),
    "deep": ("[" * 5000 + '{"a":' * 5000, "It holds no JSON object"),
    "unknown stage": (blaming(stage="magic"), "stage is one of contract parsing, source selection"),
    "no stage": (blaming(stage=""), "stage is one of"),
    "unknown module": (blaming(module="m7_luck.md"), "module is one of m1_task.md"),
    "a step past the end": (blaming(step=2), "step is a turn from 0 to 1, or -1 for none, and was 2"),
    "no number": (blaming(step="the first"), "and was 'the first'"),
    "learnable in words": (blaming(learnable="yes"), "learnable is true or false, and was 'yes'"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_unreadable_attribution_is_asked_for_once_more_with_its_fault(kind: str) -> None:
    bad, fault = UNREADABLE[kind]
    improver, script = told(bad, blaming())
    found = improver.attribute(fault_view())
    assert found.stage == "source selection"
    assert found.spend == Spend(calls=2, tokens_in=20, tokens_out=4)
    roles = [message.role for message in script.seen[1].messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert script.seen[1].messages[2].content == bad
    assert fault in script.seen[1].messages[3].content
    assert script.seen[1].json_schema == attribution_schema()


def test_two_unreadable_replies_are_an_improver_error_that_names_both_and_is_paid() -> None:
    improver, script = told("nonsense", blaming(stage="magic"), blaming())
    with pytest.raises(ImproverError, match=r"attribution: stage is one of .* at first: It holds no JSON") as caught:
        improver.attribute(fault_view())
    assert len(script.seen) == 2
    assert (caught.value.calls, caught.value.tokens_in, caught.value.tokens_out) == (2, 20, 4)


def test_a_model_error_passes_with_what_was_paid_before_it() -> None:
    improver, _ = told("nonsense", ModelError("no answer", calls=3))
    with pytest.raises(ModelError, match="no answer") as caught:
        improver.attribute(fault_view())
    assert (caught.value.calls, caught.value.tokens_in) == (4, 10)


def test_an_edit_writes_the_module_whole_and_no_other() -> None:
    improver, _ = told(writing(M2))
    proposal = improver.edit(edit_view())
    assert proposal == EditProposal(
        edits=(Edit(path="m2_sources.md", content=M2),),
        note="says how values are looked at",
        measures={"turns": 1.0},
        spend=Spend(calls=1, tokens_in=10, tokens_out=2),
    )
    check_guide(apply_edits(GUIDE, proposal.edits).files)


def test_the_editor_is_shown_module_fault_episode_and_history_and_told_to_name_no_literal() -> None:
    improver, script = told(writing(M2))
    improver.edit(edit_view(history=(note("adds newest: Take the file that was changed last."),)))
    system, question = (message.content for message in script.seen[0].messages)
    assert "rewrite m2_sources.md (Sources and tools)" in system
    assert "Never name a task, its id, a benchmark, a grader, a file, a sheet, a column" in system
    assert "MODULE:" not in system
    assert GUIDE.files["m2_sources.md"].strip() in question
    assert GUIDE.files["m1_task.md"].strip() not in question
    for part in (
        "- stage: source selection",
        "- mechanism: columns: decided wrongly",
        "- must be preserved: the bindings to headers",
        "name: once",
        "[turn 0] command",
        "round 1: reject; edited m2_sources.md; adds newest: Take the file that was changed last.; because u = −1; "
        "broke s-4",
    ):
        assert part in question, part
    assert script.seen[0].json_schema is None
    assert script.seen[0].seed == 12


UNFIT: Mapping[str, tuple[str, str]] = {
    "no text": ("NOTE: I would look at types.", "It holds no text in a fence."),
    "an empty fence": ("````markdown\n\n````", "It holds no text in a fence."),
    "an open fence": (f"````markdown\n{M2}", "Its fence is never closed."),
    "two texts": (f"{writing(M2)}\n{writing(M2)}", "It holds 2 fenced blocks"),
    "no change": (writing(GUIDE.files["m2_sources.md"]), "It leaves m2_sources.md as it is."),
    "a lost section": (writing(M2.replace("## State", "State")), "m2_sources.md has no section '## State'"),
    "too long": (writing(f"{M2}{'x' * MODULE_BYTES}\n"), f"at most {MODULE_BYTES} are allowed"),
    "a literal": (writing(M2.replace("types", "the sheet Stock")), "single tasks: 'Stock'. Say it without them."),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_an_unfit_module_is_asked_for_once_more_with_its_fault(kind: str) -> None:
    bad, fault = UNFIT[kind]
    improver, script = told(bad, writing(M2))
    proposal = improver.edit(edit_view(forbidden=("Stock", "Item", "t-1")))
    assert proposal.edits == (Edit(path="m2_sources.md", content=M2),)
    assert proposal.measures == {"turns": 2.0}
    assert fault in script.seen[1].messages[-1].content


def test_a_literal_that_stays_goes_to_the_loop_which_refuses_it_with_its_own_words() -> None:
    literal = M2.replace("types", "the sheet Stock")
    improver, _ = told(writing(literal), writing(literal))
    assert improver.edit(edit_view(forbidden=("Stock",))).edits == (Edit(path="m2_sources.md", content=literal),)
    improver, _ = told(writing(literal), "I will not.")
    assert improver.edit(edit_view(forbidden=("Stock",))).edits == (Edit(path="m2_sources.md", content=literal),)


def test_a_name_that_the_head_holds_already_is_no_literal() -> None:
    improver, script = told(writing(M2))
    improver.edit(edit_view(forbidden=("header", "ledger")))
    assert len(script.seen) == 1


def test_an_editor_who_would_change_nothing_may_say_so() -> None:
    improver, _ = told("NOTHING: the guide says this already.")
    proposal = improver.edit(edit_view())
    assert (proposal.edits, proposal.note) == ((), "the guide says this already.")


def test_where_any_module_may_be_edited_the_reply_says_which() -> None:
    improver, script = told(writing(M2), writing(M2, head="NOTE: looks first\nMODULE: `m2_sources.md`"))
    proposal = improver.edit(edit_view(module=None))
    assert proposal.edits == (Edit(path="m2_sources.md", content=M2),)
    assert proposal.note == "looks first"
    assert all(text.strip() in script.question() for text in GUIDE.files.values())
    assert "It does not say MODULE: and one of m1_task.md" in script.seen[1].messages[-1].content


def test_a_guide_without_the_module_is_an_improver_error_before_anything_is_asked() -> None:
    broken = apply_edits(GUIDE, [Edit(path="m2_sources.md", content=None)])
    improver, script = told()
    for module in ("m2_sources.md", None):
        with pytest.raises(ImproverError, match=r"no module m2_sources\.md; it needs m1_task\.md"):
            improver.edit(edit_view(head=broken, module=module))
    assert script.seen == []


def skill_view(*traces: SkillTrace, **changes: Any) -> EditView:
    """A merge of patches for one skill."""
    faults = tuple(Attribution() if one.score == 1.0 else FAULT for one in traces)
    return edit_view(
        **{"head": SKILL, "target": "skill", "module": None, "traces": traces, "faults": faults, **changes}
    )


def test_a_skill_is_rewritten_whole_from_all_traces() -> None:
    improver, script = told(writing(NEW_SKILL))
    proposal = improver.edit(skill_view(trace("t-1"), trace("t-2", score=1.0)))
    assert proposal.edits == (Edit(path=SKILL_FILE, content=NEW_SKILL),)
    question = script.question()
    assert "- Save the result as it was." in question
    assert "## Fault 1\n- stage: source selection" in question
    assert "## Fault 2\nIt passed." in question
    assert "Sum the amounts of t-2." in question


def test_the_first_edit_of_no_skill_makes_a_skill_and_nothing_else() -> None:
    improver, script = told(writing(NEW_SKILL))
    made = apply_edits(NONE, improver.edit(skill_view(trace(), head=NONE)).edits)
    assert kind_of(made) == "skill"
    assert NO_SKILL_FILE not in made.files
    assert "There is no skill yet." in script.question()


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (writing("# Tables\n\nLook.\n"), "SKILL.md does not begin with ---"),
        (writing("---\nname: Tables\n---\n\nLook.\n"), "description is missing"),
        (writing(SKILL.files[SKILL_FILE]), "It leaves the skill as it is."),
    ],
)
def test_a_skill_that_is_none_is_asked_for_once_more(bad: str, fault: str) -> None:
    improver, script = told(bad, writing(NEW_SKILL))
    assert improver.edit(skill_view(trace())).edits == (Edit(path=SKILL_FILE, content=NEW_SKILL),)
    assert fault in script.seen[1].messages[-1].content


def test_a_draft_is_one_valid_skill_written_from_what_the_train_tasks_show() -> None:
    improver, script = told("NOTHING: no idea", NEW_SKILL)
    proposal = improver.draft(draft_view())
    made = apply_edits(NONE, proposal.edits)
    assert read_skill(made.files).head.name == "tables"
    assert list(made.files) == [SKILL_FILE]
    assert "what t-2 shows" in script.question()
    assert "It writes no skill" in script.seen[1].messages[-1].content


FENCED: Mapping[str, str] = {
    "four backticks": "NOTE: n\n````markdown\nbody\n```bash\nls\n```\nmore\n````\nDone.",
    "three backticks, named inside": "```markdown\nbody\n```bash\nls\n```\nmore\n```",
    "bare fences inside": "````md\nbody\n```\nls\n```\nmore\n````",
    "longer fences inside": "```markdown\nbody\n````text\n```\n````\nmore\n```",
    "indented": "  ```markdown\nbody\nmore\n  ```",
    "carriage returns": "```markdown\r\nbody\r\nmore\r\n```\r\n",
}


@pytest.mark.parametrize("kind", FENCED)
def test_one_fence_is_read_with_the_fences_inside_it(kind: str) -> None:
    found = read_written(FENCED[kind])
    assert found.fault == ""
    assert found.value is not None
    assert found.value.text is not None
    lines = found.value.text.splitlines()
    assert (lines[0], lines[-1]) == ("body", "more")
    assert found.value.text.count("```") in (0, 2, 3)


def test_a_bare_text_is_read_behind_its_note() -> None:
    found = read_written("**NOTE:** looks first\n\n## Inputs\n\nNote: this is text.\n").value
    assert found is not None
    assert (found.text, found.note) == ("## Inputs\n\nNote: this is text.\n", "looks first")


def long_trace(turns: int) -> SkillTrace:
    steps = [program(columns=False).model_copy(update={"output": f"row {i} " * 500}) for i in range(turns)]
    return replace(
        trace(steps=[*steps, Step(kind="submit", text="the last turn")]),
        task=TrainTask(id="t-9", input="request " * 2000),
        visible="shown " * 5000,
        skill="skill " * 9000,
        feedback="feedback " * 900,
        first_fault="fault " * 900,
        answer="answer " * 900,
        measures={f"m{i}": float(i) for i in range(200)},
    )


@pytest.mark.parametrize("turns", [1, 7, 40, 900])
@pytest.mark.parametrize("limit", [2_000, 8_000, 32_000])
def test_a_long_episode_is_cut_to_the_stated_size_and_the_cut_is_named(turns: int, limit: int) -> None:
    text = trace_text(long_trace(turns), limit=limit)
    assert len(text) <= limit
    assert len(text) > 0.6 * limit
    assert "characters left out" in text
    assert "[turn 0] command" in text
    assert f"[turn {turns}] submit" in text
    left_out = re.search(r"\[(\d+) turns left out\]", text)
    assert text.count("\n[turn ") + (int(left_out[1]) if left_out else 0) == turns + 1
    assert (left_out is None) == (turns == 1 or (turns == 7 and limit == 32_000))


def test_a_short_text_is_not_cut_and_a_long_one_keeps_both_ends() -> None:
    assert clipped("  abc ", 100) == "abc"
    cut = clipped("a" * 500 + "z" * 500, 200)
    assert len(cut) <= 200
    assert cut.startswith("aaa")
    assert cut.endswith("zzz")
    assert "[… 860 characters left out …]" in cut


def test_several_episodes_share_the_stated_size() -> None:
    improver, script = told(writing(NEW_SKILL), trace_chars=12_000)
    improver.edit(skill_view(*(long_trace(9) for _ in range(4))))
    assert 8_000 < len(script.question()) < 14_000
    improver, script = told(writing(NEW_SKILL), trace_chars=12_000)
    shows = tuple((TrainTask(id=f"t-{i}", input="ask " * 3000), "rows " * 3000) for i in range(6))
    improver.draft(replace(draft_view(), tasks=shows))
    assert 10_000 < len(script.question()) < 12_500


def test_a_question_that_is_too_long_is_not_sent() -> None:
    improver, script = told(blaming(), question_tokens=4_000)
    with pytest.raises(ImproverError, match=r"more than improver\.options\.question_tokens = 4000.*trace_chars"):
        improver.attribute(fault_view(long_trace(9)))
    assert script.seen == []


def test_the_same_view_gives_the_same_question_and_nothing_of_it_is_kept() -> None:
    improver, script = told(blaming(), blaming(), writing(M2))
    improver.attribute(fault_view())
    improver.attribute(fault_view())
    assert script.seen[0] == script.seen[1]
    improver.edit(edit_view())
    texts = ["Sum the amounts of t-1.", "headers Item, Amount", "cell B9 is 12", "name: once"]
    assert reached(script.seen, texts) == set(texts)
    script.seen.clear()
    assert reached(improver, texts) == set()


def test_the_bound_of_a_call_holds_both_replies_and_all_retries() -> None:
    options = SkillLlmOptions(reply_tokens=1_000, question_tokens=10_000)
    config = ImproverConfig(
        kind="skill_llm", model=ModelConfig(name="openai:x", retries=3), options=options.model_dump()
    )
    improver = SkillLlm(config, FunctionModel(lambda _: ""))
    assert improver.bound == Spend(calls=8, tokens_in=23_000, tokens_out=2_000)


def test_it_is_found_by_its_name_needs_a_model_and_knows_its_options() -> None:
    model = FunctionModel(lambda _: "")
    made = make_skill_improver(ImproverConfig(kind="skill_llm"), model=model)
    assert isinstance(made, SkillLlm)
    assert edits_skills(made)
    assert edits_skills(SkillLlm)
    assert made.uses_model
    with pytest.raises(SetupError, match="'skill_llm' needs a model"):
        make_skill_improver(ImproverConfig(kind="skill_llm"))
    with pytest.raises(SetupError, match="allowed are reply_tokens, temperature, trace_chars"):
        make_skill_improver(ImproverConfig(kind="skill_llm", options={"turns": 3}), model=model)


def test_an_improver_of_something_else_is_refused_with_those_that_fit() -> None:
    model = FunctionModel(lambda _: "")
    skill = ImproverConfig(kind="skill_llm")
    with pytest.raises(SetupError, match=r"edits skills.*prompts; take one of demonstrations.*loop = 'gso'"):
        make_improver(skill, model=model)
    with pytest.raises(SetupError, match=r"edits skills.*agent harnesses; take one of catalog, llm, or a class.*gso"):
        make_agent_improver(skill, model=model)
    with pytest.raises(
        SetupError, match=r"'llm' edits agent harnesses.*skill_catalog, skill_llm.*skills = True.*verse"
    ):
        make_skill_improver(ImproverConfig(kind="llm"), model=model)
    with pytest.raises(SetupError, match=r"'rewrite' edits prompts, and this loop edits skills.*winners_curse"):
        make_skill_improver(ImproverConfig(kind="rewrite"), model=model)


def test_every_module_file_is_named_to_the_editor() -> None:
    improver, script = told(writing(M2))
    improver.edit(edit_view())
    assert all(file in script.seen[0].messages[0].content for file in MODULES)
