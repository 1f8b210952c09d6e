"""Training texts that meet a select or sealed task: by id, text, near-duplicate or 13 words in a row."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered_rows import body, row

from heldout.config import TasksConfig
from heldout.errors import TaskError
from heldout.tasks import Item, find_duplicates, load_tasks, normalise_text
from heldout.tasks.overlap import OverlapIndex, overlap_index, overlap_of
from heldout.testing.object_graph import reached
from heldout.worlds.formats.generator import draw_task

Write = Callable[..., str]

SEALED = "Which of the two Café owners paid €3.50 for the blue kettle, and why did she do it?"
WORDS = [hashlib.sha256(str(number).encode()).hexdigest()[:7] for number in range(40)]


def words(first: int, count: int) -> str:
    """A run of words that are unlike each other."""
    return " ".join(WORDS[first : first + count])


def index_of(*texts: str) -> OverlapIndex:
    return overlap_of((f"sealed-{number}", text) for number, text in enumerate(texts))


def test_an_id_is_found_whatever_the_text() -> None:
    index = index_of(SEALED)
    assert index.hits("anything", id="sealed-0") == "id"
    assert index.hits("", id="sealed-0") == "id"
    assert index.hits("anything", id="sealed-1") is None


@pytest.mark.parametrize(
    "text",
    [
        SEALED,
        SEALED.upper(),
        SEALED.replace("?", " ?!"),
        SEALED.replace(",", " -- ").replace(" ", "  \n"),
        SEALED.replace("two", "t\u200bwo").replace("kettle", "ket\u00adtle"),
        SEALED.replace("owners", "ｏｗｎｅｒｓ"),
        SEALED.replace("é", "e\u0301"),
        f"“{SEALED}”",
    ],
)
def test_the_same_text_is_found_in_any_dress(text: str) -> None:
    assert index_of("another task", SEALED).hits(text) == "text"


def test_a_near_duplicate_is_found() -> None:
    # 16 and 17 characters: 12 and 13 five-grams, 12 shared, so 12 / 13.
    assert index_of("abcdefghijklmnop").hits("abcdefghijklmnopq") == "near"
    # One sign changed in the middle of 30: 26 five-grams each, 21 shared, 21 / 31 = 0.68.
    assert index_of("abcdefghijklmnopqrstuvwxyz1234").hits("abcdefghijklmno_qrstuvwxyz1234".replace("_", "9")) is None


def test_a_near_duplicate_is_one_at_exactly_four_fifths() -> None:
    # 12 characters: 8 five-grams; two more characters: 10 five-grams, 8 shared: 8 / 10.
    assert index_of("abcdefghijkl").hits("abcdefghijklmn") == "near"
    assert index_of("abcdefghijkl").hits("abcdefghijklmno") is None  # 8 / 11


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text("abc ", min_size=1, max_size=30).filter(normalise_text), min_size=1, max_size=6),
    st.text("abc ", min_size=1, max_size=30).filter(normalise_text),
)
def test_near_means_what_the_duplicate_audit_means(sealed: list[str], text: str) -> None:
    def alike(other: str) -> bool:
        pair = [Item(id="a", input=other, reference="r"), Item(id="b", input=text, reference="r")]
        return bool(find_duplicates(pair))

    assert (index_of(*sealed).hits(text) in ("text", "near")) == any(map(alike, sealed))


def test_thirteen_words_in_a_row_are_shared_and_twelve_are_not() -> None:
    index = index_of(words(0, 20))
    assert index.hits(f"before it {words(3, 13)} and after it comes more of something else") == "13-gram"
    assert index.hits(f"before it {words(3, 12)} and after it comes more of something else") is None
    assert index.hits(f"BEFORE it: {words(3, 13).upper().replace(' ', ', ')}!") == "13-gram"


def test_a_short_task_is_one_gram_that_is_found_inside_longer_texts() -> None:
    around = "please be so kind as to answer what follows in a single line of text {} thank you"
    index = index_of(words(0, 8), words(10, 12), words(30, 7))
    assert index.hits(around.format(words(0, 8))) == "13-gram"
    assert index.hits(around.format(words(10, 12))) == "13-gram"
    assert index.hits(around.format(words(10, 11))) is None
    assert index.hits(around.format(words(30, 7))) is None, "seven words may be a turn of phrase"
    assert index.hits(words(30, 7)) == "text"


def test_signs_of_scripts_without_spaces_are_words() -> None:
    index = index_of("请把下面的句子翻译成英文然后解释每个词的意思")
    assert index.hits("老师说请把下面的句子翻译成英文然好不好我们明天再来看看其他的练习吧同学们") == "13-gram"
    assert index.hits("老师说请把下面的句子翻译成英文好不好我们明天再来看看其他的练习吧同学们") is None


def test_a_blank_text_meets_nothing_and_an_empty_index_is_met_by_nothing() -> None:
    assert index_of(SEALED).hits("") is None
    assert index_of(SEALED).hits(" \u200b\n") is None
    assert index_of().hits(SEALED, id="sealed-0") is None


def test_wording_that_all_tasks_share_can_be_left_out_of_the_grams_alone() -> None:
    common = words(0, 15)
    texts = [(f"s{n}", f"{common} {words(16 + 7 * n, 7)}") for n in range(2)]
    fresh = f"{common} and then quite another question that nobody asked before in this place"
    assert overlap_of(texts).hits(fresh) == "13-gram"
    lenient = overlap_of(texts, wording=[f"{common} a train task of its own"])
    assert lenient.hits(fresh) is None
    assert lenient.hits(texts[1][1].upper()) == "text"
    assert (
        lenient.hits(f"so {texts[1][1]} then, and much more of what is not in it, so that it is not near") == "13-gram"
    )


def config(path: str, **changes: object) -> TasksConfig:
    base = {"source": "jsonl", "path": path, "train": 10, "select": 8, "audit": 6, "reports": {"retain": 5}}
    return TasksConfig.model_validate(base | changes)


def test_every_role_but_train_is_indexed(write_tasks: Write) -> None:
    tasks = load_tasks(config(write_tasks([row(number) for number in range(60)])), fresh=4)
    index = overlap_index(tasks.config, tasks.plan)
    assert index.tasks == 8 + 4 + 6 + 5
    for role, entries in tasks.plan.items():
        for task, _ in entries:
            wanted = (None, None) if role == "train" else ("id", "text")
            assert (index.hits("", id=task), index.hits(body(int(task[1:])))) == wanted, role


def test_the_index_reaches_no_body_no_answer_and_no_id(write_tasks: Write) -> None:
    """Invariant 11, for what the contamination check holds."""
    tasks = load_tasks(config(write_tasks([row(number) for number in range(60)])), fresh=4)
    index = overlap_index(tasks.config, tasks.plan)
    secrets = {text for n in range(60) for text in (body(n), body(n)[5:40], f"answer-{n}", f"t{n}")}
    assert reached(index, secrets) == set()
    assert reached([index, body(3)], secrets) == {body(3), body(3)[5:40]}, "the test itself would find one"


def test_the_index_travels_to_another_process(write_tasks: Write) -> None:
    tasks = load_tasks(config(write_tasks([row(number) for number in range(60)])))
    index = pickle.loads(pickle.dumps(overlap_index(tasks.config, tasks.plan)))
    task, _ = tasks.plan["audit"][0]
    assert index.hits(body(int(task[1:]))) == "text"


def test_a_source_that_changed_since_the_division_is_refused(write_tasks: Write) -> None:
    path = write_tasks([row(number) for number in range(60)])
    tasks = load_tasks(config(path))
    sealed, _ = tasks.plan["audit"][0]
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    lines[int(sealed[1:])]["input"] += " changed"
    write_tasks(lines)
    with pytest.raises(TaskError, match=f"1 of 19 tasks differ, the first is '{sealed}'"):
        overlap_index(tasks.config, tasks.plan)


def test_thousands_of_examples_are_looked_up_in_seconds() -> None:
    rng = random.Random(0)
    index = overlap_of((f"f{number}", draw_task(rng).text) for number in range(2000))
    fresh = [draw_task(rng) for _ in range(5000)]
    begun = time.process_time()
    found = [index.hits(job.text) for job in fresh] + [index.hits(job.ideal) for job in fresh]
    assert time.process_time() - begun < 3.0
    assert sum(hit is not None for hit in found) < 50, "fresh tasks of the same world are no contamination"
