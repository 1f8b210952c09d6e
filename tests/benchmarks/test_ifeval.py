"""The rules of IFEval by hand, the published responses and verdicts, and its reader."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heldout.benchmarks import IfevalSource
from heldout.benchmarks.ifeval_grading import IfevalReference, Instruction, grade_ifeval
from heldout.benchmarks.ifeval_rules import KINDS, read_rule
from heldout.benchmarks.ifeval_text import capital_words, language_of, sentence_count, word_count
from heldout.config import TasksConfig
from heldout.errors import SetupError
from heldout.tasks import check_source, load_grader
from heldout.tasks.graders import CUT

GERMAN = "Der schnelle braune Fuchs springt über den faulen Hund und läuft dann in den dunklen Wald."
ENGLISH = "the quick brown fox jumps over the lazy dog and then it runs into the dark forest to sleep"

CASES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    ("keywords:existence", {"keywords": ["mom", "day"]}, ["Mommy had a DAY"], ["mom", "a day"]),
    ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": "at least"}, ["War, toward"], ["war"]),
    ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": "less than"}, ["war"], ["war, wars"]),
    ("keywords:frequency", {"keyword": "a.b", "frequency": 1, "relation": "at least"}, ["a.b"], ["acb"]),
    ("keywords:forbidden_words", {"forbidden_words": ["can", "ride"]}, ["a cannon, rides"], ["You CAN."]),
    (
        "keywords:letter_frequency",
        {"letter": "Q", "let_frequency": 2, "let_relation": "at least"},
        ["quQ"],
        ["q"],
    ),
    # The published evaluation draws a random letter where this is none; here the sign that the prompt names counts.
    ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": "at least"}, ["#a #b"], ["#a b"]),
    ("language:response_language", {"language": "de"}, [GERMAN, "123 !?"], [ENGLISH]),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, ["A cat. A dog"], ["A cat."]),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": "less than"},
        ["Mr. Li ran."],
        ["Go! Go!"],
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        ["a *** b", "***\na\n***\nb\n***"],
        ["a", "a******b"],
    ),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, ["don't go"], ["do go"]),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Ask"},
        ["one\n\n\"Ask' me", "one\n\nASK, now", "one\n\nask"],
        ["one\n\nwe ask", "ask\n\none", "one\n\nask\n\nask", "one\n\n\n\nask"],
    ),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        ["[a] [b c]", "[[a][b]"],
        ["[a\n] [b]"],
    ),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, ["so\np. s. hi", "P.S."], ["PS hi"]),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, ["P.P.S hi", "p. p. s"], ["P.S. hi"]),
    ("detectable_content:postscript", {"postscript_marker": "N.B."}, ["n.b. this"], ["nxbx"]),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        ["* a\n  - b", "*\n* a\n-", "-a\n**b\n*c"],
        ["* a\n** b", "*\n* a"],
    ),
    ("detectable_format:constrained_response", {}, ["So: My answer is maybe."], ["My answer is perhaps."]),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ["*a* **b**", "*a b* x *c*"],
        ["*a*", "** ** *a*", "*a\n*b*"],
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        ["Section 1 a Section2 b"],
        ["Section 1", "SECTION 1 SECTION 2"],
    ),
    ("detectable_format:json_format", {}, ['{"a": 1}', "```json\n[1, 2]\n```", "3"], ["{a: 1}", "x {}", "[" * 100_000]),
    ("detectable_format:title", {}, ["so\n<<poem of joy>>\n", "<<<<a>>"], ["<<>>", "<< >>", "<<a\n>>", ">> a <<"]),
    (
        "combination:two_responses",
        {},
        ["a ****** b", "******a******b"],
        ["a", "a****** a", "a******b******c", "a************b"],
    ),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say Hi"}, [" say hi! ok"], ["ok: say hi"]),
    ("startend:end_checker", {"end_phrase": "Any questions?"}, ['well. "any QUESTIONS?" '], ["Any questions? No."]),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "at least"},
        ["I AM"],
        ["I am"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "less than"},
        ["I am"],
        ["I'M"],
    ),
    ("change_case:english_capital", {}, [ENGLISH.upper()], [ENGLISH, GERMAN.upper(), "12"]),
    ("change_case:english_lowercase", {}, [ENGLISH], [ENGLISH.title(), GERMAN.lower()]),
    ("punctuation:no_comma", {}, ["a; b"], ["a, b"]),
    ("startend:quotation", {}, [' "a" \n'], ["'a'", '"', '"a" b']),
]


@pytest.mark.parametrize(("kind", "arguments", "right", "wrong"), CASES)
def test_a_rule_by_hand(kind: str, arguments: dict[str, Any], right: list[str], wrong: list[str]) -> None:
    rule = read_rule(kind, arguments)
    assert {text: rule.complaint(text) for text in right} == dict.fromkeys(right, "")
    assert all(rule.complaint(text) for text in wrong), [text for text in wrong if not rule.complaint(text)]


def test_every_kind_of_the_paper_has_a_case() -> None:
    assert {kind for kind, *_ in CASES} == set(KINDS)
    assert len(KINDS) == 25


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("No mark at all", 1),
        ("One. Two! Three?", 3),
        ("She said 3.5 to Dr. Li at 5 p.m. today.", 1),
        ('"Is it?" he asked. "Yes."', 3),
        ("Wait... what? Fine.", 2),
        ("J. K. Rowling wrote it.\nTwice.", 2),
        ("A line\nand another line", 1),
        ("(He left.) She stayed.", 2),
    ],
)
def test_sentences_by_hand(text: str, count: int) -> None:
    assert sentence_count(text) == count


def test_words_by_hand() -> None:
    assert word_count("It's 2 o'clock - well_done") == 6
    # "I'M" is I and 'M, "DON'T" is DO and N'T; marks and stars stand apart, hyphens do not.
    assert capital_words("I'M HERE, **NOW** (USA) and a DON'T: T-SHIRT 12 A.") == 9


def test_the_language_does_not_depend_on_the_call_before() -> None:
    short = "Hello there my friend"
    found = [language_of(short) for _ in range(5)]
    assert len(set(found)) == 1
    assert (language_of(GERMAN), language_of(ENGLISH), language_of("…")) == ("de", "en", None)


HOSTILE = [
    mark * 40_000
    for mark in (
        "[",
        "<<",
        "*",
        "* ",
        " \n",
        "\n",
        "***",
        "****** ",
        "p.",
        ".",
        "a.",
        '"',
        "{",
        "Section ",
        "-\n",
        "é",
        "<< >>",
        "[\n",
    )
]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_rule_hangs_on_hostile_text(kind: str) -> None:
    rule = read_rule(kind, next(arguments for name, arguments, *_ in CASES if name == kind))
    begun = time.process_time()
    for text in HOSTILE:
        rule.complaint(text)
    # A rule that is quadratic would take minutes: 100,000 signs squared.
    assert time.process_time() - begun < 10.0


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=80))
def test_no_rule_raises_on_any_text(kind: str, text: str) -> None:
    rule = read_rule(kind, next(arguments for name, arguments, *_ in CASES if name == kind))
    assert isinstance(rule.complaint(text), str)


def reference(*instructions: tuple[str, Mapping[str, Any]], **settings: bool) -> str:
    made = tuple(Instruction(id=name, arguments=arguments) for name, arguments in instructions)
    return IfevalReference(instructions=made, **settings).model_dump_json()


NO_COMMA = ("punctuation:no_comma", {})
QUOTED = ("startend:quotation", {})
BULLETS = ("detectable_format:number_bullet_lists", {"num_bullets": 1})


def test_the_score_is_all_instructions_or_their_share() -> None:
    both = reference(NO_COMMA, QUOTED)
    share = reference(NO_COMMA, QUOTED, share=True)
    grade = load_grader("ifeval")
    assert [grade(text, both) for text in ('"a"', "a", "a, b", "")] == [1.0, 0.0, 0.0, 0.0]
    assert [grade(text, share) for text in ('"a"', "a", "a, b", " \n")] == [1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "strict", "loose"),
    [
        ("Sure, here it is:\n* one", 0.0, 1.0),  # without the first line there is no comma
        ("* one\nBye, now", 0.0, 1.0),  # without the last
        ("Hi, you\n* one\nBye, now", 0.0, 1.0),  # without both
        ("* one", 1.0, 1.0),
        ("a\n* one, two\nb", 0.0, 0.0),
        ("*", 0.0, 0.0),  # without its star it is blank
    ],
)
def test_loose_is_any_of_eight_versions(text: str, strict: float, loose: float) -> None:
    assert grade_ifeval(text, reference(NO_COMMA, BULLETS)) == strict
    assert grade_ifeval(text, reference(NO_COMMA, BULLETS, loose=True)) == loose


def test_faults_are_the_instructions_that_failed_and_explain_says_why() -> None:
    spec = reference(NO_COMMA, QUOTED)
    assert grade_ifeval.faults("a, b", spec) == ("punctuation:no_comma", "startend:quotation")
    assert grade_ifeval.faults('"a"', spec) == ()
    assert grade_ifeval.faults("", spec) == ("no answer",)
    assert grade_ifeval.verdicts("a", spec) == (True, False)
    assert grade_ifeval.explain("a", spec) == "startend:quotation: it does not stand in double quotation marks"


def test_the_mark_of_a_cut_answer_is_no_part_of_it() -> None:
    spec = reference(QUOTED)
    assert grade_ifeval('"a"' + CUT, spec) == 1.0
    assert grade_ifeval.faults('"a"' + CUT, spec) == ()
    assert grade_ifeval.faults('"a' + CUT, spec) == ("stop", "startend:quotation")


def rows(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in path.read_text().split("\n") if line)


def published(folder: Path, prompts: str, *, loose: bool) -> dict[str, str]:
    """Prompt to reference."""
    return {
        row["prompt"]: reference(*zip(row["instruction_id_list"], row["kwargs"], strict=True), loose=loose)
        for row in rows(folder / prompts)
    }


@pytest.mark.data
@pytest.mark.parametrize(("mode", "prompts", "instructions"), [("strict", 415, 695), ("loose", 431, 713)])
def test_verdicts_on_the_published_responses_are_the_published_ones(
    shared_data: Path, mode: str, prompts: int, instructions: int
) -> None:
    folder = shared_data / "ifeval"
    specs = published(folder, "input_data_v20231127.jsonl", loose=mode == "loose")
    ours, theirs, random_letter = [], [], []
    for row in rows(folder / f"gpt4_eval_results_{mode}.jsonl"):
        spec = specs[row["prompt"]]
        ours.append(grade_ifeval.verdicts(row["response"], spec))
        theirs.append(tuple(row["follow_instruction_list"]))
        random_letter.append(any(sign in spec for sign in ('"letter":"#"', '"letter":"!"')))
    assert (len(theirs), sum(map(all, theirs)), sum(map(sum, theirs))) == (540, prompts, instructions)
    differing = [at for at, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]]
    # The published evaluation draws a random letter for the two instructions whose letter is # or !.
    assert [at for at in differing if not random_letter[at]] == []
    assert (sum(random_letter), len(differing)) == (2, 2 if mode == "strict" else 0)


@pytest.mark.data
@pytest.mark.parametrize(
    ("loose", "paper", "prompts", "instructions"),
    [
        # Table 3 of the paper: 76.89 % and 83.57 %, 79.30 % and 85.37 %. What is left are its two random letters, of
        # which one passed in the first run and none in the second.
        (False, (416, 697), 417, 698),
        (True, (429, 712), 431, 714),
    ],
)
def test_accuracies_of_the_published_gpt_4_responses(
    shared_data: Path, loose: bool, paper: tuple[int, int], prompts: int, instructions: int
) -> None:
    folder = shared_data / "ifeval"
    specs = published(folder, "input_data_v20231127.jsonl", loose=loose)
    answers = list(rows(folder / "input_response_data_gpt4_20231107_145030.jsonl"))
    told = [grade_ifeval.verdicts(row["response"], specs[row["prompt"]]) for row in answers]
    assert (len(told), sum(map(all, told)), sum(map(len, told)), sum(map(sum, told))) == (
        541,
        prompts,
        834,
        instructions,
    )
    scores = [load_grader("ifeval")(row["response"], specs[row["prompt"]]) for row in answers]
    assert sum(scores) == prompts
    assert prompts - paper[0] == instructions - paper[1] <= 2


@pytest.mark.data
@pytest.mark.parametrize(("loose", "prompts", "instructions"), [(False, 337, 502), (True, 355, 525)])
def test_accuracies_of_the_published_text_bison_responses(
    shared_data: Path, loose: bool, prompts: int, instructions: int
) -> None:
    """No verdicts are published for these; 42 of their prompts lack the text to be repeated."""
    folder = shared_data / "ifeval"
    specs = published(folder, "input_data_v20231114.jsonl", loose=loose)
    told = [
        grade_ifeval.verdicts(row["response"], specs[row["prompt"]])
        for row in rows(folder / "input_response_data_text_bison.jsonl")
        if '"combination:repeat_prompt","arguments":{}' not in specs[row["prompt"]]
    ]
    assert (len(told), sum(map(all, told)), sum(map(sum, told))) == (499, prompts, instructions)


@pytest.mark.data
def test_the_reader_keeps_every_prompt_and_instruction(shared_data: Path) -> None:
    items = IfevalSource(path=str(shared_data / "ifeval")).items()
    specs = [IfevalReference.model_validate_json(item.reference) for item in items]
    assert (len(items), sum(len(spec.instructions) for spec in specs)) == (541, 834)
    assert (items[0].id, items[0].family) == ("1000", "punctuation")
    assert {one.id for spec in specs for one in spec.instructions} == set(KINDS)
    assert all(grade_ifeval("", item.reference) == 0.0 for item in items)
    loose = IfevalSource(path=str(shared_data / "ifeval"), rule="loose", score="instruction").items()
    first = IfevalReference.model_validate_json(loose[0].reference)
    assert (first.loose, first.share) == (True, True)


ROW = {"key": 1, "prompt": "p", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": None}, "expected a key and a prompt"),
        ({"kwargs": []}, "of the same length"),
        ({"instruction_id_list": [], "kwargs": []}, "of the same length"),
        ({"kwargs": ["x"]}, "are no object"),
        (
            {"instruction_id_list": ["punctuation:none"]},
            "there is no instruction 'punctuation:none'; there is keywords",
        ),
        ({"kwargs": [{"num": 3}]}, "num: Extra inputs"),
        ({"instruction_id_list": ["length_constraints:number_words"]}, "num_words: Field required"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    (tmp_path / "input_data.jsonl").write_text(json.dumps(ROW) + "\n" + json.dumps(ROW | changes) + "\n")
    with pytest.raises(SetupError, match=rf"row 2 \(line 2\): .*{message}"):
        IfevalSource(path=str(tmp_path)).items()


def test_arguments_that_are_null_do_not_count(tmp_path: Path) -> None:
    row = ROW | {"kwargs": [{"num_words": None, "relation": None}]}
    (tmp_path / "input_data.jsonl").write_text(json.dumps(row) + "\n")
    (item,) = IfevalSource(path=str(tmp_path)).items()
    assert IfevalReference.model_validate_json(item.reference).instructions[0].arguments == {}
    with pytest.raises(SetupError, match="rule: Input should be 'strict' or 'loose'"):
        IfevalSource(path=str(tmp_path), rule="mild")


@pytest.mark.data
def test_tasks_check_knows_that_ifeval_publishes_no_right_answers(shared_data: Path) -> None:
    report = check_source(
        TasksConfig(source="ifeval", path=str(shared_data / "ifeval"), train=41, select=41, audit=459)
    )
    assert report.ok
    assert not report.gold_known
    assert report.wrong_refused == 541
