"""The writer: what it is asked, word for word, and how its replies are read."""

from __future__ import annotations

import pytest
from skill_parts import GUIDE, Player, skill

from heldout.errors import HarnessError, ModelError
from heldout.skills import guide_text
from heldout.skills.writer import WRITER_RULES, WriterTask, read_reply, write_skill, writer_messages
from heldout.testing import FunctionModel, keeps_failing

SHOWN = WriterTask("Double it.", "Files in the work folder:\n- a.csv (3 bytes)")


def test_the_request_is_the_protocols_word_for_word() -> None:
    system, user = writer_messages(GUIDE.files, SHOWN)
    assert (system.role, system.content) == (
        "system",
        f"# Write one skill\n\n{WRITER_RULES}\n\n{guide_text(GUIDE.files)}",
    )
    assert (user.role, user.content) == ("user", f"# Request\n\nDouble it.\n\n# What the task shows\n\n{SHOWN.shown}")


def test_one_call_with_its_length_and_seed_and_what_it_cost() -> None:
    model = Player()
    written = write_skill(GUIDE.files, SHOWN, model=model, max_tokens=777, seed=9)
    assert [(request.max_tokens, request.seed) for request in model.asked] == [(777, 9)]
    assert (written.spend.calls, written.spend.tokens_in, written.spend.tokens_out) == (1, 100, 40)
    assert written.skill is not None
    assert written.skill.text == skill()
    assert written.fault == ""


@pytest.mark.parametrize(
    "reply",
    [
        skill(),
        f"```markdown\n{skill()}```",
        f"Here it is.\n\n```md\n{skill()}\n```\nI hope it helps.",
        f"````markdown\n{skill()}````\n",
        f"<think>\n---\nname: x\n---\n</think>\n{skill()}",
        f"The skill:\n\n{skill()}",
        skill().replace("\n", "\r\n"),
    ],
)
def test_a_skill_is_found_bare_or_in_one_fence(reply: str) -> None:
    found = read_reply(reply)
    assert (found.head.name, found.body.strip()) == ("double-amounts", "Double every amount.")


def test_fences_inside_a_fenced_skill_stay_in_it() -> None:
    body = "Run this:\n\n```python\nprint(1)\n```\n\nThen stop."
    assert read_reply(f"```markdown\n{skill(body=body)}```").body.strip() == body


def test_a_description_with_a_colon_and_no_quotes_is_quoted() -> None:
    found = read_reply(skill(description="Use it when: the amounts are single."))
    assert found.head.description == "Use it when: the amounts are single."


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("<think>long</think>", "it is empty"),
        ("I cannot do this.", "it holds no front matter"),
        ("```markdown\n" + skill(), "its block has no closing fence"),
        (skill(name="Not A Name"), "name: 'Not A Name' must have 1 to 64"),
        ("---\nname: a\n---\nDo it.", "description is missing"),
        (skill(body=""), "no instructions"),
        ("---\nname: a\ndescription: [\n---\nDo it.", "no YAML"),
        (skill(body="\0"), "control character U+0000"),
        ("\ud800", "no front matter"),
    ],
)
def test_garbage_is_a_fault_in_words_and_no_crash(reply: str, fault: str) -> None:
    model = Player(writes=reply)
    written = write_skill(GUIDE.files, SHOWN, model=model, max_tokens=777, seed=9)
    assert written.skill is None
    assert written.fault.startswith("the writer's reply is no skill: ")
    assert fault in written.fault
    assert written.spend.calls == 1


def test_a_reply_that_was_cut_off_is_no_skill_even_if_it_looks_like_one() -> None:
    with pytest.raises(HarnessError, match=r"cut off at its longest length; raise solver\.options\.writer_tokens"):
        read_reply(skill(), cut=True)


def test_a_model_that_does_not_answer_is_no_fault_of_the_guide() -> None:
    with pytest.raises(ModelError):
        write_skill(GUIDE.files, SHOWN, model=FunctionModel(keeps_failing), max_tokens=777, seed=9)
