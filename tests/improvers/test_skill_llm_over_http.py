"""The `skill_llm` improver over real HTTP, in both chat protocols."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from skill_views import GUIDE, blaming, draft_view, edit_view, fault_view, writing

from heldout.config import ImproverConfig, ModelConfig
from heldout.errors import ImproverError, ModelError
from heldout.improvers.skill_llm import SkillLlm
from heldout.improvers.skill_texts import with_policy
from heldout.models import Model, make_model
from heldout.records import Edit, Spend
from heldout.testing.scripted_server import Script, ScriptedReply, ScriptedServer

M2 = with_policy(GUIDE.files["m2_sources.md"], "Look at types before summing.", file="m2_sources.md")
NEW_SKILL = "---\nname: tables\ndescription: Work on tables.\n---\n\n# Tables\n\n- Look at types first.\n"


@dataclass
class Served:
    """An improver, and the server that its model talks to."""

    improver: SkillLlm
    server: ScriptedServer
    bodies: Callable[[], list[Mapping[str, Any]]]


@contextmanager
def serving(script: Script, *, kind: str = "openai", retries: int = 2, **options: Any) -> Iterator[Served]:
    """The improver over HTTP; it never really sleeps."""
    with ScriptedServer(script) as server:
        config = ModelConfig(name=f"{kind}:tiny", url=server.url, timeout_s=5.0, retries=retries)
        model: Model = make_model(config, sleep=lambda _: None)
        improver = SkillLlm(ImproverConfig(kind="skill_llm", model=config, options=options), model)
        yield Served(improver, server, lambda: [seen.body for seen in server.requests])
        model.close()


both = pytest.mark.parametrize("kind", ["openai", "anthropic"])


@both
def test_all_roles_work_over_http_and_count_what_the_server_reports(kind: str) -> None:
    script = [blaming(), "no fence", writing(M2), writing(NEW_SKILL)]
    with serving(script, kind=kind) as served:
        assert served.improver.attribute(fault_view()).spend == Spend(calls=1, tokens_in=7, tokens_out=3)
        edited = served.improver.edit(edit_view())
        assert edited.edits == (Edit(path="m2_sources.md", content=M2),)
        assert edited.spend == Spend(calls=2, tokens_in=14, tokens_out=6)
        assert served.improver.draft(draft_view()).edits[0].content == NEW_SKILL
        bodies = served.bodies()
    forms = [body.get("response_format") or body.get("output_config") for body in bodies]
    assert "json_schema" in json.dumps(forms[0])
    assert forms[1:] == [None, None, None]
    assert all(body["max_tokens"] == 8192 for body in bodies)


def test_the_form_is_left_out_for_servers_that_refuse_it() -> None:
    with serving([blaming()], json_schema=False) as served:
        assert served.improver.attribute(fault_view()).stage == "source selection"
        assert "response_format" not in served.bodies()[0]


@both
def test_a_reply_that_was_cut_off_is_no_answer_even_where_it_could_be_read(kind: str) -> None:
    cut = "length" if kind == "openai" else "max_tokens"
    script = [ScriptedReply(text=writing(M2), finish_reason=cut), writing(M2)]
    with serving(script, kind=kind, reply_tokens=700) as served:
        assert served.improver.edit(edit_view()).measures == {"turns": 2.0}
        assert "cut off at 700 tokens" in json.dumps(served.bodies()[1])


@both
def test_a_refusal_is_asked_once_more_and_then_an_error(kind: str) -> None:
    with (
        serving([ScriptedReply(text=None, refusal="I may not.")], kind=kind) as served,
        pytest.raises(ImproverError, match=r"draft of a skill: It declines"),
    ):
        served.improver.draft(draft_view())
    assert len(served.server.requests) == 2


def test_retries_are_counted_where_the_server_comes_back_and_where_it_does_not() -> None:
    with serving([ScriptedReply(status=503, text="busy"), blaming()]) as served:
        assert served.improver.attribute(fault_view()).spend.calls == 2
    with (
        serving(["nonsense", ScriptedReply(status=503, text="busy")], retries=1) as served,
        pytest.raises(ModelError) as caught,
    ):
        served.improver.attribute(fault_view())
    assert (caught.value.calls, caught.value.tokens_in) == (3, 7)
