"""Parts of the `llm` improver: what may be read, how the conversation is shortened, how calls are read from text."""

from __future__ import annotations

from llm_views import HEAD, START, make_view, trace

from heldout.harness.steps import Step
from heldout.improvers.llm.evidence import proposal_files, trace_path, trace_text, traces_text
from heldout.improvers.llm.files import ReadOnlyFiles
from heldout.improvers.llm.protocols import TextProtocol
from heldout.improvers.llm.submissions import EditArgument
from heldout.improvers.llm.tools import Answer, Tool, plain_schema
from heldout.improvers.llm.transcript import Transcript
from heldout.models import Message, Reply, ToolCall
from heldout.records import Record

TREE = {"evidence/a.txt": "one\nTwo\nthree", "evidence/deep/b.txt": "two", "harness/x.md": "0123456789"}


def answer(files: ReadOnlyFiles, name: str, arguments: str) -> Answer:
    tools = {tool.name: tool for tool in files.tools()}
    return tools[name].call(arguments)


class TestFiles:
    def test_folders_are_listed_by_prefix_of_whole_names(self) -> None:
        files = ReadOnlyFiles({**TREE, "evidence2/c.txt": ""}, result_chars=100)
        listed = answer(files, "list_files", '{"folder": "./evidence/"}').text
        assert listed == "evidence/a.txt (13 characters)\nevidence/deep/b.txt (3 characters)"
        assert answer(files, "list_files", "").text.count("\n") == 3
        assert answer(files, "list_files", '{"folder": "."}').text.count("\n") == 3
        assert files.index() == "evidence/: 1 file\nevidence/deep/: 1 file\nevidence2/: 1 file\nharness/: 1 file"

    def test_a_file_is_read_in_pieces_that_join(self) -> None:
        files = ReadOnlyFiles(TREE, result_chars=4)
        first = answer(files, "read_file", '{"path": "/harness/x.md"}').text
        assert first == "[harness/x.md, characters 0 to 4 of 10]\n0123\n[6 more characters; read on with offset 4]"
        last = answer(files, "read_file", '{"path": "harness/x.md", "offset": 8}').text
        assert last == "[harness/x.md, characters 8 to 10 of 10]\n89"

    def test_nothing_outside_the_tree_is_read(self) -> None:
        files = ReadOnlyFiles(TREE, result_chars=100)
        for path in ("/etc/passwd", "../evidence/a.txt", "evidence/../harness/x.md", "~/.ssh/id"):
            assert answer(files, "read_file", f'{{"path": "{path}"}}').fault

    def test_search_is_plain_text_in_any_case_with_alternatives_and_a_limit(self) -> None:
        files = ReadOnlyFiles(TREE, result_chars=1000)
        assert answer(files, "search", '{"pattern": "TWO"}').text == "evidence/a.txt:2: Two\nevidence/deep/b.txt:1: two"
        assert answer(files, "search", '{"pattern": "one|three"}').text.count("\n") == 1
        assert answer(files, "search", '{"pattern": "t.o"}').text == "No line contains 't.o'."
        many = ReadOnlyFiles({"a": "x\n" * 500}, result_chars=100_000)
        assert answer(many, "search", '{"pattern": "x"}').text.endswith("[440 more lines; look for something narrower]")


class TestEvidence:
    def test_commands_carry_the_numbers_that_probes_count_by(self) -> None:
        one = trace("t", passed=False, commands=("first", "second"))
        assert one.commands == ("first", "second")
        text = trace_text(one)
        assert "[command 0] $ first" in text
        assert "[command 1] $ second" in text
        assert "[command 2]" not in text
        blocked = Step(kind="blocked", text="x", command="rm -r .", output="no")
        mixed = type(one)(task=one.task, passed=False, steps=(blocked, *one.steps), feedback="", error="step limit")
        assert "[not run] $ rm -r ." in trace_text(mixed)
        assert "[command 0] $ first" in trace_text(mixed)
        assert "ended by: step limit" in trace_text(mixed)

    def test_a_pass_a_failure_and_what_was_not_measured_are_three_things(self) -> None:
        shown = traces_text(make_view().traces.values())
        assert shown.splitlines() == [
            "- fails-1: FAILED, 2 commands",
            "- fails-2: FAILED, 2 commands",
            "- lost: not measured, 2 commands",
            "- passes: passed, 2 commands",
        ]

    def test_ids_with_odd_characters_have_paths_of_their_own(self) -> None:
        paths = {trace_path(trace(name, passed=True)) for name in ("a/b", "a_b", "a:b", "../a")}
        assert len(paths) == 4
        assert all(path.count("/") == 2 and ".." not in path.removesuffix(".txt").split("/") for path in paths)
        assert trace_path(trace("repair-0017", passed=True)) == "evidence/traces/repair-0017.txt"

    def test_the_tree_holds_the_view_and_bases_other_than_the_head(self) -> None:
        tree = proposal_files(make_view())
        assert tree["harness/workflow.md"] == HEAD.files["workflow.md"]
        assert tree["bases/0/system_prompt.md"] == START.files["system_prompt.md"]
        assert not any(path.startswith("bases/1/") for path in tree)
        assert {"evidence/report.md", "history/rounds.md", "method/prompt.md", "method/MANIFEST.json"} <= set(tree)


class TestTranscript:
    def test_old_results_go_first_then_old_arguments_and_the_newest_turns_never(self) -> None:
        transcript = Transcript("s" * 100, "o" * 100, context_chars=20_000)
        for number in range(12):
            made = ToolCall(id=str(number), name="submit_proposal", arguments="a" * 1000)
            blocks = ({"type": "thinking"},)
            transcript.add(Message(role="assistant", content="say", tool_calls=(made,), blocks=blocks))
            transcript.add(Message(role="tool", content="r" * 900, tool_call_id=str(number)), result_of="fix_probe")
        assert transcript.fit()
        messages = transcript.messages()
        assert sum(len(m.content) + sum(len(c.arguments) for c in m.tool_calls) for m in messages) <= 20_000
        assert (
            messages[3].content
            == "[a result of fix_probe, 900 characters, left out here; call it again if you need it]"
        )
        assert messages[2].tool_calls[0].arguments == "a" * 1000
        assert messages[2].blocks == ({"type": "thinking"},)
        assert all(message.content == "r" * 900 for message in messages[-8:] if message.role == "tool")
        # 12 calls of 1000 alone are more than this: arguments and the reasoning that repeats them go too.
        tight = Transcript("s", "o", context_chars=11_000)
        for message in messages[2:]:
            tight.add(message, result_of="fix_probe" if message.role == "tool" else "")
        assert tight.fit()
        first = tight.messages()[2]
        assert (first.tool_calls[0].arguments, first.blocks) == ('{"left_out": "1000 characters"}', ())
        assert tight.elided > 0

    def test_nothing_is_touched_while_it_fits_and_what_cannot_fit_is_said(self) -> None:
        transcript = Transcript("s", "o", context_chars=1000)
        transcript.add(Message(role="tool", content="r" * 900, tool_call_id="a"), result_of="search")
        assert transcript.fit()
        assert (transcript.messages()[-1].content, transcript.elided) == ("r" * 900, 0)
        transcript.add(Message(role="tool", content="r" * 900, tool_call_id="b"), result_of="search")
        assert not transcript.fit()


class TestTools:
    def test_the_schema_of_nested_arguments_is_written_out(self) -> None:
        class Nested(Record):
            edits: tuple[EditArgument, ...]

        schema = plain_schema(Nested)
        assert schema["properties"]["edits"]["items"]["properties"]["path"]["type"] == "string"
        assert "$defs" not in schema
        assert "title" not in schema["properties"]["edits"]

    def test_a_field_named_title_survives(self) -> None:
        class Titled(Record):
            title: str

        tool = Tool("name", "words", Titled, lambda given: Answer(given.title))
        assert tool.spec.parameters["properties"]["title"]["type"] == "string"
        assert tool.call('{"title": "x"}').text == "x"


def test_a_bare_object_is_a_call_in_the_text_protocol() -> None:
    reading = TextProtocol().read(Reply(text=' {"tool": "search", "arguments": {"pattern": "é"}} '), turn=3)
    (call,) = reading.calls
    assert (call.id, call.name, call.arguments) == ("turn-3", "search", '{"pattern": "\\u00e9"}')
