"""The rule-based judge: what it caps, what it counts, and that nothing which decides can reach it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import heldout
from heldout.records import Candidate, Spend
from heldout.skills.guide import NO_SKILL, start_guide
from heldout.skills.judge import RuleJudge, make_judge
from heldout.skills.judge_llm import LlmJudge
from heldout.skills.modules import SKILL_FILE
from heldout.skills.rubric import CAP, CRITERIA, Finding, judged_text, verdict_of
from heldout.skills.text_marks import CAPPING, MERITS, marks, sentences
from heldout.stats import pair_agreement
from heldout.store.skill_events import Judged
from heldout.testing import FunctionModel
from heldout.worlds.tables.catalogue import CATALOGUE

HEAD = "---\nname: workbooks\ndescription: Change a workbook as a request says. Use when a workbook is given.\n---\n\n"

GOOD = """# How to work

- Take the sheet from the words of the request, not from the order of the sheets.
- Bind each role to a header that was read from the file, and keep the evidence beside it.
- Where two files could be meant, inspect both; what is unknown stays open.
- Write the steps in the order in which their inputs become available.

# How to finish

- Reopen the saved output and compare counts with the input; a check that fails is a fault.
- Repair at most one faulty step, once, and leave unchanged what the request leaves out.
- Without a supported repair, stop and say what is open.
"""


def skill(*lines: str, body: str = GOOD) -> Candidate:
    return Candidate(files={SKILL_FILE: HEAD + body + "".join(f"- {line}\n" for line in lines)})


def guide(text: str = "", module: str = "m1_task.md") -> Candidate:
    """The start guide with a further line in the policy of a module."""
    files = dict(start_guide())
    if text:
        files[module] = files[module].replace("## Policy\n\n", f"## Policy\n\n- {text}\n")
    return Candidate(files=files)


def judged(candidate: Candidate) -> Judged:
    return RuleJudge().judge(candidate)


def test_the_weights_are_those_of_the_specification_and_the_total_is_their_mean() -> None:
    weights = {name: weight for name, (weight, _) in CRITERIA.items()}
    assert weights == {
        "generalizability": 0.30,
        "applicability": 0.20,
        "executability": 0.20,
        "robustness": 0.20,
        "clarity": 0.10,
    }
    scores = {"generalizability": 5, "applicability": 4, "executability": 3, "robustness": 2, "clarity": 1}
    findings = {name: Finding(score, "", "") for name, score in scores.items()}
    made = verdict_of(guide(), "someone", findings)
    assert made.total == pytest.approx(0.3 * 5 + 0.2 * 4 + 0.2 * 3 + 0.2 * 2 + 0.1 * 1)
    capped = verdict_of(guide(), "someone", findings, capped="a name")
    assert capped.scores["generalizability"] == CAP == 2.0
    assert capped.total == pytest.approx((made.total or 0.0) - 0.3 * 3)


def test_scores_stay_between_one_and_five_with_an_excerpt_and_a_sentence_each() -> None:
    for candidate in (guide(), skill(), skill("Always try anything.", body=""), skill(*['Use "x y".'] * 9)):
        verdict = judged(candidate)
        text = judged_text(candidate)
        assert set(verdict.scores) == set(verdict.excerpts) == set(verdict.reasons) == set(CRITERIA)
        assert all(1.0 <= score <= 5.0 for score in verdict.scores.values())
        assert all(excerpt in text for excerpt in verdict.excerpts.values())
        assert all(reason.endswith(".") for reason in verdict.reasons.values())
        assert (verdict.judge, verdict.candidate, verdict.spend) == ("rules", candidate.digest, Spend())
        assert Judged.model_validate_json(verdict.model_dump_json()) == verdict


@pytest.mark.parametrize(
    ("rule", "hit"),
    [
        ('The key column is "Region".', '"Region"'),
        ("The sheet to work on is “Q3 sales”.", "“Q3 sales”"),
        ("Write the totals to summary.xlsx.", "summary.xlsx"),
        ("Read `data/in.csv` and go on.", "`data/in.csv`"),
        ("The inputs lie in /home/user/inputs.", "/home/user/inputs"),
        ("Do for task-0042 what was done before.", "task-0042"),
        ("The answer is 1048576 in such cases.", "1048576"),
        ("Work on the first sheet.", "first sheet"),
        ("Totals go to cell B12.", "cell B12"),
        ("Fill A2:C10 with the sums.", "A2:C10"),
        ("The names are in column C.", "column C"),
        ("The grader compares values, so round them.", "grader"),
        ("Write what the hidden tests look for.", "hidden tests"),
    ],
)
def test_literals_ids_layouts_and_grader_tricks_as_rules_cap_generalizability(rule: str, hit: str) -> None:
    for plain, spoilt in ((guide(), guide(rule)), (skill(), skill(rule))):
        before, after = judged(plain), judged(spoilt)
        assert before.capped == ""
        assert after.capped.endswith(f"as a rule: {hit}")
        assert after.scores["generalizability"] <= CAP < before.scores["generalizability"]
        assert after.excerpts["generalizability"] == rule
        assert (after.total or 5.0) < (before.total or 0.0)


@pytest.mark.parametrize(
    "rule",
    [
        'Never write a name such as "Region" into a rule.',
        "Do not rely on the first sheet.",
        "A guide holds no ids like task-0042.",
        'Headers may be odd, for example "Amt. (net)".',
        "Literal answers and the ways of graders have no place in a skill.",
        "Take the sheet from the words of the request, not from the order of the sheets.",
        "Read and/or write as the request says.",
        "Check it with `sort` and `uniq`.",
    ],
)
def test_what_is_forbidden_or_an_example_is_no_rule(rule: str) -> None:
    assert judged(skill(rule)).capped == ""


def test_a_rule_without_a_condition_costs_and_one_with_a_condition_does_not() -> None:
    plain = judged(skill()).scores
    always = judged(skill("Always write a summary file beside the workbook.")).scores
    asked = judged(skill("Always write a summary file when the request asks for one.")).scores
    assert always["generalizability"] == pytest.approx(plain["generalizability"] - 0.75)
    assert asked["generalizability"] >= plain["generalizability"]
    assert (
        "a rule without a condition: Always" in judged(skill("Always write a summary file.")).reasons["applicability"]
    )


def test_checks_and_a_bounded_repair_are_worth_something_and_their_opposites_cost() -> None:
    bare = skill(body="# Work\n\n- Take the sheet that the request names.\n- Write the result as it says.\n")
    checked = Candidate(files={SKILL_FILE: bare.files[SKILL_FILE] + "- Reopen the result and verify its counts.\n"})
    bounded = Candidate(files={SKILL_FILE: bare.files[SKILL_FILE] + "- Repair at most one faulty step, then stop.\n"})
    assert judged(checked).scores["executability"] > judged(bare).scores["executability"]
    assert judged(bounded).scores["robustness"] > judged(bare).scores["robustness"]
    good = judged(skill()).scores
    trusting = judged(skill("A program that ended well needs no check.")).scores
    reckless = judged(skill("Change whatever might help until it works.")).scores
    assert trusting["executability"] == pytest.approx(good["executability"] - 1.0)
    assert reckless["robustness"] == pytest.approx(good["robustness"] - 1.0)


def test_length_sections_and_repetition_make_clarity() -> None:
    def clarity(candidate: Candidate) -> float:
        return judged(candidate).scores["clarity"]

    assert clarity(skill()) == 5.0
    assert clarity(skill(*["Compare the counts."] * 2)) == 4.5
    long = skill(
        *[f"Compare the counts of part {chr(97 + i % 26) * (i // 26 + 1)} with the input." for i in range(200)]
    )
    assert clarity(long) < 5.0
    assert "words, more than 1500" in judged(long).reasons["clarity"]
    assert clarity(skill(body="Do it.\n")) <= 2.5


def test_a_skill_without_a_description_is_less_applicable() -> None:
    nameless = Candidate(files={SKILL_FILE: GOOD})
    assert judged(nameless).scores["applicability"] < judged(skill()).scores["applicability"]


def test_every_useful_line_together_beats_the_start_and_the_traps_fall_below_it() -> None:
    """Finished texts are put in order; of single edits it tells the traps, and not every harmful one."""
    start = judged(guide()).total
    assert start is not None
    files = dict(start_guide())
    for edit in CATALOGUE:
        if edit.kind == "useful" and edit.text not in files[edit.module]:
            files[edit.module] = files[edit.module].replace("## Policy\n\n", f"## Policy\n\n- {edit.text}\n")
    assert (judged(Candidate(files=files)).total or 0.0) > start + 0.2
    by_kind: dict[str, list[float]] = {}
    for edit in CATALOGUE:
        total = judged(guide(edit.text.replace("{name}", "Region"), edit.module)).total
        by_kind.setdefault(edit.kind, []).append((total or 0.0) - start)
    assert max(by_kind["literal"] + by_kind["always"]) < -0.3
    assert max(by_kind["harmful"]) >= 0.0, "it reads no meaning"
    assert max(map(abs, by_kind["null"])) < 0.1


def test_the_candidate_without_a_skill_gets_no_score_and_not_a_low_one() -> None:
    verdict = judged(Candidate(files=NO_SKILL))
    assert (verdict.scores, verdict.total) == ({}, None)
    assert verdict.error == "there is no text to judge: the candidate has no skill"
    assert Judged.model_validate_json(verdict.model_dump_json()) == verdict


def test_the_same_text_gets_the_same_verdict_whoever_made_it() -> None:
    one, other = skill(), Candidate(files=dict(skill().files), parent="somebody")
    assert judged(one).scores == judged(other).scores
    assert RuleJudge() == RuleJudge()


@given(text=st.text(max_size=400))
def test_any_text_is_judged(text: str) -> None:
    verdict = judged(Candidate(files={SKILL_FILE: text}))
    assert verdict.error or all(1.0 <= score <= 5.0 for score in verdict.scores.values())


def test_sentences_are_read_without_marks_of_the_format() -> None:
    text = "---\nname: x\n---\n# Title\n\n1. Open it. Read it.\n- Close it; Then stop.\n```\nrun\n```\n"
    assert sentences(text) == ("Open it.", "Read it.", "Close it;", "Then stop.", "run")


def test_a_faulty_sentence_has_no_merits_but_a_bare_number_does_not_spoil_one() -> None:
    faulty = marks(['Reopen "Region" and compare the counts.'])
    assert [kind for kind, those in faulty.items() if those] == ["literal"]
    numbered = marks(["Compare the first 20 counts with the source."])
    assert numbered["number"][0].hit == "20"
    assert numbered["check"]
    assert set(CAPPING).isdisjoint(MERITS)


def test_rank_agreement_of_judged_totals_with_scores() -> None:
    texts = (skill(), skill('The key is "Region".'), skill("Always add a file."))
    agreed = pair_agreement([judged(one).total or 0.0 for one in texts], [0.6, 0.3, 0.5])
    assert (agreed.agree, agreed.disagree, agreed.ties) == (3, 0, 0)


def test_make_judge_takes_the_rules_without_a_model() -> None:
    assert make_judge().name == "rules"
    assert make_judge().bound(guide()) == Spend()
    assert isinstance(make_judge(FunctionModel(lambda _: "")), LlmJudge)


MAY_JUDGE: Mapping[str, str] = {}
"""Modules of loops that may import a judge, with the reason: none of them decides anything by it."""

DECIDING = ("gates", "improvers", "loops", "harness", "rollouts", "audit")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_nothing_that_proposes_runs_or_decides_imports_the_judge() -> None:
    source = Path(heldout.__file__).parent
    modules = [path for room in DECIDING for path in sorted((source / room).rglob("*.py"))]
    assert len(modules) > 60
    judges = {f"heldout.skills.{name}" for name in ("judge", "judge_llm", "rubric", "text_marks")}
    offered = {f"heldout.skills.{name}" for name in ("RuleJudge", "LlmJudge", "make_judge", "Judge")}
    for path in modules:
        name = path.relative_to(source).as_posix()
        assert name in MAY_JUDGE or not _imports(path) & (judges | offered), f"{name} imports the judge"
