"""The simulated model: its arithmetic by hand and by quadrature, its stated weaknesses, and its truth."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from heldout.config import ModelConfig
from heldout.errors import SetupError
from heldout.improvers.phrases import PHRASES
from heldout.models.base import Message, Request
from heldout.models.simulated import SimulatedModel, answer_key
from heldout.models.simulated_prompt import PHRASE_EFFECTS, prompt_skill
from heldout.models.simulated_skill import SkillLine, item_draws, probability_right, salted_draw, theta_for

LABELS = ("animal", "place", "time")


@dataclass(frozen=True)
class Row:
    input: str
    reference: str


ROWS = [Row(f"question {i}", LABELS[i % 3]) for i in range(3000)]
INPUTS = [row.input for row in ROWS]


def model(temperature: float = 0.0, **options: float) -> SimulatedModel:
    return SimulatedModel(ModelConfig(temperature=temperature, options=options), answer_key(ROWS))


def system(text: str) -> Message:
    return Message(role="system", content=text)


def skilled(skill: float, *salts: str, redraw: float = 1.0) -> list[Message]:
    return [system(SkillLine(skill, salts, redraw).text())]


def example(label: str) -> list[Message]:
    return [Message(role="user", content="q"), Message(role="assistant", content=label)]


def right(solver: SimulatedModel, fixed: Sequence[Message], seed: int = 0) -> list[bool]:
    replies = [
        solver.complete(Request(messages=(*fixed, Message(role="user", content=row.input)), seed=seed)) for row in ROWS
    ]
    return [reply.text == row.reference for reply, row in zip(replies, ROWS, strict=True)]


@pytest.mark.parametrize("skill", [0.02, 0.4, 0.52, 0.98])
def test_theta_makes_the_mean_over_difficulty_the_skill(skill: float) -> None:
    def integrand(z: float) -> float:
        return stats.norm.pdf(z) / (1 + math.exp(-(theta_for(skill) + 4 * z)))

    assert integrate.quad(integrand, -9, 9, epsabs=1e-11)[0] == pytest.approx(skill, abs=1e-7)


def test_theta_of_one_half_is_zero_by_symmetry() -> None:
    assert theta_for(0.5) == pytest.approx(0.0, abs=1e-8)
    assert probability_right(0.5, 0.25) == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-8)
    with pytest.raises(ValueError, match="between 0 and 1"):
        theta_for(1.0)


def test_item_draws_are_what_they_say() -> None:
    draws = [item_draws(text, seed=0) for text in INPUTS]
    assert stats.kstest([one.difficulty for one in draws], "norm").pvalue > 0.001
    assert stats.kstest([one.uniform for one in draws], "uniform").pvalue > 0.001
    assert stats.kstest([one.choice for one in draws], "uniform").pvalue > 0.001
    other = item_draws("question 1", seed=1)
    assert other.key == draws[1].key
    assert other.difficulty != draws[1].difficulty


@pytest.mark.parametrize("skill", [0.2, 0.4, 0.8])
def test_measured_accuracy_agrees_with_the_exact_truth(skill: float) -> None:
    solver = model()
    truth = solver.true_skill(skilled(skill, "a", "b"), INPUTS)
    assert truth == pytest.approx(skill, abs=4 * 0.4 / math.sqrt(3000))
    measured = sum(right(solver, skilled(skill, "a", "b"))) / 3000
    assert measured == pytest.approx(truth, abs=4 * 0.25 / math.sqrt(3000))


def test_an_inherited_outcome_moves_only_with_skill() -> None:
    solver = model()
    low = right(solver, skilled(0.4, "a", "b", redraw=0.0))
    assert low == right(solver, skilled(0.4, "a", "c", redraw=0.0))
    high = right(solver, skilled(0.6, "a", "b", redraw=0.0))
    assert all(b for a, b in zip(low, high, strict=True) if a)
    assert sum(high) > sum(low)


def test_redraw_is_the_share_of_items_that_a_step_draws_anew() -> None:
    keys = [item_draws(text, seed=0).key for text in INPUTS]
    drawn = sum(salted_draw(key, "salt", redraw=0.3) is not None for key in keys)
    assert drawn / 3000 == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / 3000))
    solver = model()
    kinds = [right(solver, skilled(0.5, "a", salt, redraw=f)) for f in (1.0, 0.3, 0.0) for salt in ("b", "c")]
    flips = [sum(x != y for x, y in zip(kinds[i], kinds[i + 1], strict=True)) for i in (0, 2, 4)]
    assert flips[0] > flips[1] > flips[2] == 0


def test_only_the_newest_salt_counts_when_everything_is_redrawn() -> None:
    solver = model()
    assert right(solver, skilled(0.5, "a", "x", "b")) == right(solver, skilled(0.5, "z", "b"))


def test_the_line_is_found_and_replaced_in_an_instruction() -> None:
    line = SkillLine(0.4, ("a", "b"), 0.3)
    assert line.text() == "[[simulated skill=0.400000 salts=a,b redraw=0.300000]]"
    assert SkillLine.find(f"Classify.\n{line.text()}\nThanks.") == line
    assert SkillLine.find("Classify.") is None
    assert SkillLine(0.5, ("c",)).replaced_in(f"x {line.text()} y") == f"x {SkillLine(0.5, ('c',)).text()} y"


def test_stated_weaknesses_by_hand() -> None:
    def skill(fixed: Sequence[Message], label: str) -> float:
        return prompt_skill(fixed, LABELS, base=0.45).for_label(label)

    bare = [system("Classify.")]
    assert skill(bare, "animal") == 0.45
    one = [*bare, *example("animal")]
    assert skill(one, "animal") == pytest.approx(0.45 + 0.13)
    assert skill(one, "place") == pytest.approx(0.45 - 0.08)
    two = [*one, *example("animal")]
    assert skill(two, "animal") == pytest.approx(0.45 + 0.195)
    crowded = prompt_skill([*two, *example("place"), *example("time")], LABELS, base=0.45)
    assert crowded.crowding == "animal"
    assert crowded.for_label("animal") == pytest.approx(0.45 + 0.195 + 0.05)
    assert crowded.for_label("place") == pytest.approx(0.45 + 0.13 - 0.12)
    assert prompt_skill(two, LABELS, base=0.45).crowding is None
    useful = system("You are an expert. Pay attention to the question word and to the noun that follows it.")
    harmful = system("Classify. Judge by the last word alone.")
    assert skill([useful], "time") == pytest.approx(0.50)
    assert skill([harmful], "time") == pytest.approx(0.35)


def test_the_phrase_bank_is_known_with_useful_useless_and_harmful_sentences() -> None:
    assert {phrase.split(" {labels}")[0] for phrase in PHRASES} == set(PHRASE_EFFECTS)
    signs = {math.copysign(1, effect) if effect else 0 for effect in PHRASE_EFFECTS.values()}
    assert signs == {-1, 0, 1}


def test_measured_accuracy_of_a_plain_prompt_agrees_with_the_truth_and_errors_crowd() -> None:
    solver = model()
    fixed = [system("Classify."), *example("animal"), *example("animal"), *example("animal"), *example("place")]
    truth = solver.true_skill(fixed, INPUTS)
    assert sum(right(solver, fixed)) / 3000 == pytest.approx(truth, abs=4 * 0.25 / math.sqrt(3000))
    times = [row.input for row in ROWS if row.reference == "time"]
    asked = [Request(messages=(*fixed, Message(role="user", content=text))) for text in times]
    wrong = [answer for request in asked if (answer := solver.complete(request).text) != "time"]
    assert wrong.count("animal") / len(wrong) == pytest.approx(0.75, abs=4 * math.sqrt(0.1875 / len(wrong)))
    assert set(wrong) == {"animal", "place"}


def test_replies_repeat_unless_asked_to_vary_with_the_seed() -> None:
    steady, busy, hot = model(), model(nondeterminism=0.2), model(temperature=1.0)
    assert (steady.deterministic, busy.deterministic, hot.deterministic) == (True, False, False)
    fixed = skilled(0.5, "a")
    assert right(steady, fixed, seed=1) == right(steady, fixed, seed=2)
    assert right(busy, fixed, seed=1) == right(busy, fixed, seed=1)
    flips = [
        sum(x != y for x, y in zip(right(solver, fixed, seed=1), right(solver, fixed, seed=2), strict=True))
        for solver in (busy, hot)
    ]
    assert 0 < flips[0] < flips[1]
    asked = Request(messages=(*fixed, Message(role="user", content=INPUTS[0])), temperature=0.0)
    assert hot.complete(asked) == hot.complete(asked.model_copy(update={"seed": 9}))


def test_choices_peak_at_the_answer_and_sum_to_one() -> None:
    solver = model()
    for text in INPUTS[:50]:
        reply = solver.complete(Request(messages=(system("x"), Message(role="user", content=text)), choices=LABELS))
        found = reply.choice_logprobs or {}
        assert max(found, key=lambda label: found[label]) == reply.text
        assert sum(math.exp(value) for value in found.values()) == pytest.approx(1.0)
    unknown = solver.complete(Request(messages=(system("x"), Message(role="user", content="N/A")), choices=LABELS))
    assert unknown.choice_logprobs == pytest.approx(dict.fromkeys(LABELS, -math.log(3)))


def test_tokens_are_words() -> None:
    reply = model().complete(Request(messages=(system("Sort these."), Message(role="user", content="question 7"))))
    assert (reply.tokens_in, reply.tokens_out, reply.calls) == (4, 1, 1)


def test_open_answers_are_wrong_in_kind() -> None:
    rows = [Row(f"sum {i}", f"so it is\n#### {i:,}") for i in range(1000, 1200)]
    solver = SimulatedModel(ModelConfig(), answer_key(rows))
    replies = [solver.complete(Request(messages=(system("Add."), Message(role="user", content=r.input)))) for r in rows]
    wrong = [(float(a.text), r) for a, r in zip(replies, rows, strict=True) if a.text != r.reference]
    assert 0 < len(wrong) < 200
    assert all(1 <= value - float(r.reference.split()[-1].replace(",", "")) <= 9 for value, r in wrong)


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_prompt_and_input_get_an_answer(text: str) -> None:
    reply = model().complete(Request(messages=(system(text), Message(role="user", content=text))))
    assert reply.text in LABELS


def test_the_answer_key_holds_no_text_and_the_model_survives_pickling() -> None:
    key = answer_key(ROWS)
    assert len(key) == 3000
    assert not any("question" in digest for digest in key)
    solver = model(redraw=0.5)
    again = pickle.loads(pickle.dumps(solver))
    assert right(again, skilled(0.5, "a")) == right(solver, skilled(0.5, "a"))
    assert again.fingerprint == solver.fingerprint


def test_settings_change_the_fingerprint_and_unknown_ones_are_refused() -> None:
    prints = {model().fingerprint, model(seed=1).fingerprint, model(temperature=0.5).fingerprint}
    prints.add(SimulatedModel(ModelConfig(), {"k": "v"}).fingerprint)
    assert len(prints) == 4
    with pytest.raises(SetupError, match=r"skil.*allowed are base_skill"):
        model(skil=0.3)


@pytest.mark.slow
def test_fifteen_thousand_answers_a_second() -> None:
    solver = model()
    fixed = (system("Classify."), *(turn for label in LABELS * 4 for turn in example(label)))
    requests = [Request(messages=(*fixed, Message(role="user", content=text))) for text in INPUTS]
    begun = time.process_time()
    for request in requests:
        solver.complete(request)
    assert len(requests) / (time.process_time() - begun) > 15_000
