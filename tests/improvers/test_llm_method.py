"""The `llm` improver's own method: what it begins with, how it is edited, its hooks, and what it can never reach."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest
from llm_views import EDIT, HEAD, call, calling, make_meta_view, make_view, serving, submitting

from heldout.errors import SandboxError
from heldout.improvers.guidance import guidance_blocks
from heldout.improvers.llm import LlmImprover
from heldout.improvers.llm.prompts import seed_method
from heldout.improvers.method import check_method, method_candidate
from heldout.probes.claims import ClaimStatus
from heldout.records import Claim, Edit, EditProposal, Evidence, EvidenceVerdict, ProbeKind, Spend, edits_digest
from heldout.sandbox import Sandbox, Sandboxes, Scene, make_sandboxes
from heldout.testing.object_graph import reached
from heldout.testing.scripted_laboratory import ScriptedLaboratory
from heldout.testing.scripted_server import ScriptedReply

HOOKS = "teacher_code/hooks.py"
DRAFT = (Edit(path=EDIT["path"], content=EDIT["content"]),)


@pytest.fixture(scope="module")
def sandboxes() -> Sandboxes:
    made = make_sandboxes("bubblewrap")
    fault = made.fault()
    if fault is not None:
        pytest.skip(fault)
    return made


@dataclass(frozen=True)
class NeverOpens:
    """A kind of sandbox that cannot start, whether it knows beforehand or not."""

    known: str | None
    fingerprint: str = "never"

    def fault(self) -> str | None:
        return self.known

    def open(self, scene: Scene) -> AbstractContextManager[Sandbox]:
        raise SandboxError(f"it went away, with {len(scene.files)} files")


def no_probes() -> ScriptedLaboratory:
    return ScriptedLaboratory(available=frozenset())


def with_hooks(source: str, **changes: Any) -> dict[str, Any]:
    return {"method": method_candidate({**seed_method(), HOOKS: source}), **changes}


class TestTheSeed:
    def test_it_is_a_method_folder_with_one_block_for_each_proposal(self) -> None:
        files = seed_method()
        assert set(files) == {"prompt.md", "notes.md", "search.md", "skills/reading-evidence.md"}
        assert check_method(files) == ()
        first_words = [block.split(":")[0] for block in guidance_blocks(files, 3)]
        assert first_words == ["Omission", "Commission", "Mechanics"]

    def test_a_method_that_does_not_fit_is_named_and_can_be_read(self) -> None:
        files = {**seed_method(), "notes.md": "# Long notes\n" + "x" * 30_000, "skills/b.md": "# Small\nshort"}
        reading = calling(call("read_file", path="method/notes.md"))
        with serving([reading, submitting()], options={"context_chars": 60_000}) as served:
            served.improver.propose(make_view(method=method_candidate(files)), no_probes())
            system = served.bodies()[0]["messages"][0]["content"]
            read = served.sent(1)
        assert "# Long notes\n[the rest is in method/notes.md]" in system
        assert "# Small\nshort" in system
        assert len(system) < 20_000
        assert "[method/notes.md, characters 0 to 7500 of 30013]" in read


class TestReflect:
    def test_it_sees_the_card_the_verdicts_and_the_noise_and_edits_its_folder(self) -> None:
        claim = Claim(task="fails-1", diagnosis="It never ran the checks.", evidence=("2/0/0",))
        probed = {"base": HEAD.digest, "edits": edits_digest(DRAFT), "tasks": ("fails-1",), "units": 1}
        evidence = Evidence(
            round=2, episode=0, ordinal=0, kind=ProbeKind.FIX_PROBE, verdict=EvidenceVerdict.REFUTES, **probed
        )
        proposal = EditProposal(edits=DRAFT, note="Run the checks.", claims=(claim,), measures={"turns": 9})
        view = make_meta_view(proposals=(proposal,), evidence=(evidence,))
        edits = [{"path": "notes.md", "content": "# Notes\nChecks alone do not help.\n"}]
        script = [
            calling(call("read_file", path="evidence/card.md")),
            calling(call("submit_method", edits=edits, note="noted")),
        ]
        with serving(script) as served:
            edited = served.improver.reflect(view, no_probes())
            opening = served.bodies()[0]["messages"][1]["content"]
        assert "accept EFFECTIVE: 8 → 10 of 20" in opening
        assert "evidence 2/0/0: fix_probe of fails-1: refutes; 1 units" in opening
        assert f"It never ran the checks. ({ClaimStatus.REFUTED}; cites 2/0/0)" in opening
        assert "twice with 7.5%" in opening
        assert edited.edits == (Edit(path="notes.md", content="# Notes\nChecks alone do not help.\n"),)
        assert (edited.error, edited.note, edited.predicted_fixes) == (None, "noted", ())
        assert edited.spend == Spend(calls=2, tokens_in=14, tokens_out=6)

    @pytest.mark.parametrize(
        ("edit", "told"),
        [
            ({"path": "MANIFEST.json", "content": "{}"}, "written by the machine"),
            ({"path": "../store.py", "content": "x"}, "no file of a method folder"),
            ({"path": "probe_kit.py", "content": "x"}, "no file of a method folder"),
            ({"path": "search.md", "content": "Look at fails-1 first."}, "names the task 'fails-1'"),
            ({"path": "search.md", "content": "x" * 5000}, "at most 4096"),
            ({"path": HOOKS, "content": "import os\n"}, "line 1"),
            ({"path": HOOKS, "content": "def on_turn_end(turn, messages):\n    return None\n"}, HOOKS),
        ],
    )
    def test_no_edit_of_the_method_reaches_the_probe_kit_budgets_graders_or_its_own_repair(
        self, edit: dict[str, str], told: str
    ) -> None:
        left = calling(call("submit_method", edits=[], note="leave it"))
        with serving([calling(call("submit_method", edits=[edit], note="x")), left]) as served:
            edited = served.improver.reflect(make_meta_view(), no_probes())
            assert told in served.bodies()[1]["messages"][-1]["content"]
        assert (edited.edits, edited.error, edited.measures["tool_errors"]) == ((), None, 1)

    def test_hooks_that_would_answer_everything_are_not_mounted_and_can_be_deleted(self, sandboxes: Sandboxes) -> None:
        blocking = 'def before_tool(command):\n    return {"block": "no"}\n\ndef after_llm(text):\n    return "no"\n'
        method = method_candidate({**seed_method(), HOOKS: blocking})
        remove = calling(call("submit_method", edits=[{"path": HOOKS, "delete": True}], note="mended"))
        with serving([remove], sandboxes=sandboxes) as served:
            edited = served.improver.reflect(make_meta_view(method=method), no_probes())
        assert edited.edits == (Edit(path=HOOKS, content=None),)
        assert (edited.measures["hook_calls"], edited.measures["turns"]) == (0, 1)

    def test_turns_and_calls_are_bounded_and_the_submission_is_still_taken(self) -> None:
        looking = calling(*[call("list_files")] * 3)
        submit = calling(call("submit_method", edits=[], note="x"))
        with serving([looking, looking, submit], options={"meta_calls": 4}) as served:
            edited = served.improver.reflect(make_meta_view(), no_probes())
            sent = served.sent(2)
        assert sent.count("Not run: all 4 tool calls of this episode are used.") == 2
        assert (edited.error, edited.measures["tool_errors"]) == (None, 2)
        with serving([looking], options={"meta_turns": 2}) as served:
            edited = served.improver.reflect(make_meta_view(), no_probes())
        assert edited.error == "nothing was submitted: all 2 turns were used"
        assert edited.edits == ()

    def test_what_was_wrong_before_and_left_over_units_are_told(self) -> None:
        view = make_meta_view(faults=("notes.md has 40000 bytes",))
        laboratory = ScriptedLaboratory(units=3)
        script = [
            calling(call("run_episode", task="fails-1")),
            calling(call("submit_method", edits=[], note="x")),
        ]
        with serving(script) as served:
            served.improver.reflect(view, laboratory)
            opening = served.bodies()[0]["messages"][1]["content"]
        assert "- notes.md has 40000 bytes" in opening
        assert "3 units are left" in opening
        assert laboratory.units == 2


class TestHooks:
    def test_every_hook_acts_on_an_episode_and_is_counted(self, sandboxes: Sandboxes) -> None:
        source = """
import json

def system_prompt(text, task):
    return text + "\\nADDED FOR " + task["input"]

def before_llm(messages):
    return [dict(m, content=m["content"].replace("Two of three fail.", "MASKED")) for m in messages]

def after_llm(text):
    return text.upper()

def before_tool(command):
    name, _, arguments = command.partition(" ")
    if name == "search":
        return {"block": "search is slow"}
    if name == "list_files":
        return {"answer": "nothing to see"}
    if name == "read_file":
        return name + " " + json.dumps({"path": "evidence/ledger.md"})
    return command

def after_tool(command, output, exit_code):
    return output + " [exit " + str(exit_code) + "]"
"""
        script = [
            calling(call("search", pattern="x"), call("list_files"), text="i look"),
            calling(
                call("read_file", path="evidence/report.md"), call("submit_proposal", edits=[EDIT, EDIT], note="x")
            ),
            submitting(),
        ]
        with serving(script, sandboxes=sandboxes) as served:
            proposal = served.improver.propose(make_view(**with_hooks(source)), no_probes())
            bodies = served.bodies()
        assert proposal.error is None
        assert "ADDED FOR Mend small packages." in bodies[0]["messages"][0]["content"]
        assert "MASKED" in bodies[0]["messages"][1]["content"]
        assert bodies[1]["messages"][2]["content"] == "I LOOK"
        results = [message["content"] for message in bodies[2]["messages"] if message["role"] == "tool"]
        assert results[:2] == ["search is slow", "nothing to see"]
        assert results[2].startswith("[evidence/ledger.md, characters 0")
        assert results[2].endswith(" [exit 0]")
        assert results[3].endswith(" [exit 1]")
        # system_prompt once, before_llm and after_llm in each of 3 turns, before_tool for 5 calls, after_tool for 2.
        assert proposal.measures["hook_calls"] == 1 + 3 + 3 + 5 + 2
        assert (proposal.measures["hook_errors"], proposal.measures["tool_errors"]) == (0, 2)

    def test_a_hook_that_raises_changes_nothing_and_each_failure_counts_once(self, sandboxes: Sandboxes) -> None:
        source = """
def system_prompt(text, task):
    raise ValueError("no")

def before_llm(messages):
    return messages[:1] + messages

def before_tool(command):
    return 7
"""
        script = [calling(call("read_file", path="evidence/report.md")), submitting()]
        with serving(script) as plain:
            without = plain.improver.propose(make_view(), no_probes())
            expected = plain.bodies()
        with serving(script, sandboxes=sandboxes) as served:
            proposal = served.improver.propose(make_view(**with_hooks(source)), no_probes())
            sent = [body["messages"][2:] for body in served.bodies()]
        assert sent == [body["messages"][2:] for body in expected]
        assert (proposal.error, proposal.edits) == (None, without.edits)
        # system_prompt once, before_llm in 2 turns, before_tool for 2 calls.
        assert proposal.measures["hook_errors"] == 1 + 2 + 2

    def test_hooks_without_a_sandbox_or_with_a_fault_are_left_out_and_counted_once(self) -> None:
        for source in ("def after_llm(text):\n    return 'x'\n", "import os\n"):
            with serving([submitting()]) as served:
                proposal = served.improver.propose(make_view(**with_hooks(source)), no_probes())
            assert (proposal.error, proposal.measures["hook_calls"]) == (None, 0)
            assert proposal.measures["hook_errors"] == 1

    def test_a_sandbox_that_does_not_start_costs_the_hooks_and_not_the_episode(self) -> None:
        source = "def after_llm(text):\n    return 'x'\n"
        with serving([submitting()], sandboxes=NeverOpens("no user namespaces")) as served:
            proposal = served.improver.propose(make_view(**with_hooks(source)), no_probes())
            names = [tool["function"]["name"] for tool in served.bodies()[0]["tools"]]
        assert (proposal.error, proposal.measures["hook_errors"]) == (None, 1)
        assert "run_analysis" not in names

    def test_a_method_hook_is_called_once_before_it_is_taken(self, sandboxes: Sandboxes) -> None:
        raising = {"path": HOOKS, "content": "def after_llm(text):\n    return 7\n"}
        fine = {"path": HOOKS, "content": "def after_llm(text):\n    return text\n"}
        script = [calling(call("submit_method", edits=[edit], note="x")) for edit in (raising, fine)]
        with serving(script, sandboxes=sandboxes) as served:
            edited = served.improver.reflect(make_meta_view(), no_probes())
            assert "after_llm" in served.bodies()[1]["messages"][-1]["content"]
        assert edited.edits == (Edit(path=HOOKS, content=fine["content"]),)


class TestAnalysis:
    def test_python_sees_the_files_of_the_episode_keeps_its_own_and_nothing_else(self, sandboxes: Sandboxes) -> None:
        counting = (
            "import pathlib\nprint(len(list(pathlib.Path('evidence/traces').iterdir())))\nopen('n', 'w').write('kept')"
        )
        again = "import os\nprint(open('n').read(), sorted(os.listdir('.')), os.environ.get('OPENAI_API_KEY'))"
        raising = "raise SystemExit(3)"
        endless = "print('x' * 100000)"
        script = [
            *(calling(call("run_analysis", code=code)) for code in (counting, again, raising, endless)),
            submitting(),
        ]
        with serving(script, sandboxes=sandboxes, options={"result_chars": 1000}) as served:
            proposal = served.improver.propose(make_view(), no_probes())
            results = [m["content"] for m in served.bodies()[-1]["messages"] if m["role"] == "tool"]
        assert results[0] == "[exit code 0]\n4"
        assert results[1] == "[exit code 0]\nkept ['bases', 'evidence', 'harness', 'history', 'method', 'n'] None"
        assert results[2] == "[exit code 3]"
        assert "characters left out]" in results[3]
        assert len(results[3]) < 1200
        assert (proposal.error, proposal.measures["tool_errors"]) == (None, 1)

    def test_a_sandbox_that_fails_in_the_middle_is_told_as_that(self) -> None:
        script = [calling(call("run_analysis", code="print(1)")), submitting()]
        with serving(script, sandboxes=NeverOpens(None)) as served:
            proposal = served.improver.propose(make_view(), no_probes())
            assert "says nothing about your code: it went away, with" in served.sent(1)
        assert (proposal.error, proposal.measures["tool_errors"]) == (None, 1)


class TestInvariants:
    def test_invariant_7_nothing_is_sent_or_kept_that_is_not_in_the_view(self) -> None:
        secrets = ["SELECT BODY", "AUDIT BODY", "HIDDEN TEST"]
        with serving([calling(call("list_files")), submitting()]) as served:
            served.improver.propose(make_view(), no_probes())
            sent = json.dumps(served.bodies())
            assert reached(served.improver, ["fails-1", "Two of three fail.", *secrets]) == set()
        assert not any(secret in sent for secret in secrets)
        assert "reference" not in {key for body in served.bodies() for key in body}

    def test_an_improver_keeps_nothing_between_episodes(self) -> None:
        with serving([submitting()]) as served:
            before = repr(sorted(vars(served.improver).items(), key=str))
            first = served.improver.propose(make_view(), no_probes())
            assert served.improver.propose(make_view(), no_probes()) == first
            assert repr(sorted(vars(served.improver).items(), key=str)) == before


class TestSuggest:
    @pytest.mark.parametrize(
        ("text", "keep"),
        [
            ("[1]", (1,)),
            ("Not [0, 1] but [1, 0, 1]", (0, 1)),
            ("[0, 7]", (0,)),
            ("[7]", None),
            ("[]", None),
            ("all of them", None),
            ("", None),
        ],
    )
    def test_the_last_array_names_the_commands_to_keep(self, text: str, keep: tuple[int, ...] | None) -> None:
        trace = make_view().traces["fails-1"]
        with serving([ScriptedReply(text, usage=(50, 5))]) as served:
            suggestion = served.improver.suggestion(trace, "the failure did not come back")
            assert served.improver.suggest(trace, "") == keep
            first, second = (body["messages"][1]["content"] for body in served.bodies())
        assert (suggestion.keep, suggestion.spend) == (keep, Spend(calls=1, tokens_in=50, tokens_out=5))
        assert "[1] $ sed -i s/a/b/ a.py\n(exit code 0) output of sed" in first
        assert "did not do: the failure did not come back" in first
        assert "did not do" not in second

    def test_it_is_one_bounded_call_without_tools(self) -> None:
        trace = make_view().traces["fails-1"]
        with serving([ScriptedReply("I wonder.")], options={"context_chars": 16_000, "reply_tokens": 64}) as served:
            assert served.improver.suggest(trace, "") is None
            (body,) = served.bodies()
        assert "tools" not in body
        assert body["max_tokens"] == 64


def test_the_class_says_what_it_is() -> None:
    assert LlmImprover.agent
    assert LlmImprover.uses_model
