"""The `training_llm` improver over real HTTP, in both chat protocols, and its script in a real sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from training_views import (
    FAILURES,
    build_view,
    building,
    diagnosing,
    diagnosis_view,
    own_row,
    research_view,
    row,
    weighing,
)

from heldout.config import ImproverConfig, ModelConfig, TasksConfig
from heldout.errors import ImproverError, ModelError
from heldout.improvers.training_llm import TrainingLlm
from heldout.improvers.training_roles import Failed
from heldout.models import make_model
from heldout.records import Spend
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.tasks import load_tasks
from heldout.tasks.examples import Pair
from heldout.testing.object_graph import reached
from heldout.testing.scripted_server import Script, ScriptedReply, ScriptedServer
from heldout.training.data_script import run_data_script

FAULT = Bubblewrap().fault()
TABLE = weighing(row("end_token"), row("mixture_all"), own_row(), chosen="my_idea")
WRITES = """import json, sys
tasks = [json.loads(line) for line in open("train.jsonl")]
with open("examples.jsonl", "w") as out:
    for number in range(int(sys.argv[1])):
        task = tasks[number % len(tasks)]
        out.write(json.dumps({"prompt": task["input"] + " Again.", "completion": task["reference"]}) + "\\n")
"""


@contextmanager
def serving(script: Script, *, kind: str = "openai", retries: int = 2, **options: Any) -> Iterator[Any]:
    """The improver over HTTP, and the server; it never really sleeps."""
    with ScriptedServer(script) as server:
        config = ModelConfig(name=f"{kind}:tiny", url=server.url, timeout_s=5.0, retries=retries)
        model = make_model(config, sleep=lambda _: None)
        yield TrainingLlm(ImproverConfig(kind="training_llm", model=config, options=options), model), server
        model.close()


def bodies(server: ScriptedServer) -> list[Mapping[str, Any]]:
    """What was asked."""
    return [seen.body for seen in server.requests]


both = pytest.mark.parametrize("kind", ["openai", "anthropic"])


@both
def test_all_roles_work_over_http_and_count_what_the_server_reports(kind: str) -> None:
    with serving([diagnosing(), "no table", TABLE, building()], kind=kind) as (improver, server):
        assert improver.diagnose(diagnosis_view()).spend == Spend(calls=1, tokens_in=7, tokens_out=3)
        found = improver.research(research_view())
        assert (found.chosen, found.spend) == ("my_idea", Spend(calls=2, tokens_in=14, tokens_out=6))
        plan = improver.build(build_view(strategy="my_idea", recipe=found.recipe))
        assert plan.recipe.script
        asked = bodies(server)
    forms = [body.get("response_format") or body.get("output_config") for body in asked]
    assert "fix_rates" in json.dumps(forms[0])
    assert "strategies" in json.dumps(forms[1])
    assert forms[3] is None
    assert all(body["max_tokens"] == 8192 for body in asked)


def test_the_form_is_left_out_for_servers_that_refuse_it() -> None:
    with serving([diagnosing()], json_schema=False) as (improver, server):
        assert improver.diagnose(diagnosis_view()).focal == "wrapper"
        assert "response_format" not in bodies(server)[0]


@both
def test_a_reply_that_was_cut_off_is_no_answer_even_where_it_could_be_read(kind: str) -> None:
    cut = "length" if kind == "openai" else "max_tokens"
    script = [ScriptedReply(text=diagnosing(focal="stop"), finish_reason=cut), diagnosing()]
    with serving(script, kind=kind, reply_tokens=700) as (improver, server):
        assert improver.diagnose(diagnosis_view()).focal == "wrapper"
        assert "cut off at 700 tokens" in json.dumps(bodies(server)[1])


@both
def test_a_refusal_is_asked_once_more_and_then_an_error(kind: str) -> None:
    with (
        serving([ScriptedReply(text=None, refusal="I may not.")], kind=kind) as (improver, server),
        pytest.raises(ImproverError, match=r"recipe of my_idea: It declines"),
    ):
        improver.build(build_view(strategy="my_idea", repair=1))
    assert len(server.requests) == 2


def test_a_server_that_is_down_is_a_model_error_that_is_paid() -> None:
    script = ["nonsense", ScriptedReply(status=503, text="busy")]
    with serving(script, retries=1) as (improver, _), pytest.raises(ModelError) as caught:
        improver.research(research_view())
    assert (caught.value.calls, caught.value.tokens_in) == (3, 7)


@pytest.mark.skipif(FAULT is not None, reason=str(FAULT))
def test_a_script_of_the_model_runs_in_the_sandbox_and_its_examples_come_back() -> None:
    with serving([building(script=WRITES)]) as (improver, _):
        recipe = improver.build(build_view(strategy="my_idea", repair=1)).recipe
    tasks = [failed.task for failed in FAILURES]
    pairs = run_data_script(recipe.script, tasks, solutions={}, sandbox=Bubblewrap(), count=3, seed=1)
    assert pairs[0] == Pair(prompt="Write list 0. Again.", completion="right 0")
    assert len(pairs) == 3


def test_no_request_holds_anything_of_select_or_of_a_sealed_role() -> None:
    """Views made of a real task set's train part, and every text of the other roles looked for in what is sent."""
    tasks = load_tasks(TasksConfig(source="questions", train=16, select=16, audit=32))
    failures = tuple(Failed(task=task, answer="wrong", faults=("stop",), feedback="not right") for task in tasks.train)
    cited = [failed.task.id for failed in failures[:5]]
    table = weighing(row("end_token"), row("mixture_all"), own_row(), chosen="my_idea")
    with serving([diagnosing(cited=cited), table, building()], failures=16) as (improver, server):
        improver.diagnose(diagnosis_view(failures=failures))
        found = improver.research(research_view(failures=failures))
        improver.build(build_view(strategy="my_idea", recipe=found.recipe, failures=failures))
        sent = bodies(server)
    secret = {task.input for task in (*tasks.select, *tasks.open_role("audit").tasks)}
    assert len(secret) == 48
    shown = {task.input for task in tasks.train}
    assert reached(sent, shown) == shown, "what may be seen is seen, so that the next line can fail"
    assert reached((sent, failures, improver), secret) == set()
