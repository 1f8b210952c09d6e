"""The `questions` world: size, variety, labels and ways of asking, and that it is the same every time."""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from heldout.errors import SetupError
from heldout.tasks.base import Item
from heldout.tasks.duplicates import normalise_text
from heldout.worlds.questions import QuestionsSource

SLOT = re.compile(r"\{(\w+)")


@pytest.fixture(scope="module")
def items() -> Sequence[Item]:
    return QuestionsSource().items()


def grams(text: str) -> set[str]:
    folded = normalise_text(text)
    return {folded[i : i + 5] for i in range(max(1, len(folded) - 4))}


def most_alike(texts: Sequence[str]) -> float:
    """The largest Jaccard similarity of any two texts, over all pairs."""
    columns: dict[str, int] = {}
    rows = [[columns.setdefault(gram, len(columns)) for gram in grams(text)] for text in texts]
    sizes = np.array([len(row) for row in rows])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    table = sparse.csr_matrix((np.ones(indptr[-1]), np.concatenate(rows), indptr), shape=(len(rows), len(columns)))
    shared = sparse.triu(table @ table.T, k=1).tocoo()
    union = sizes[shared.row] + sizes[shared.col] - shared.data
    return float((shared.data / union).max())


def test_thousands_of_distinct_questions_of_six_balanced_classes(items: Sequence[Item]) -> None:
    assert len({item.input.casefold() for item in items}) == len(items) >= 5000
    assert len({item.id for item in items}) == len(items)
    counts = Counter(item.reference for item in items)
    assert set(counts) == set(QuestionsSource.labels)
    assert min(counts.values()) > 0.9 * max(counts.values())


def test_reading_twice_gives_the_same_and_another_seed_gives_others(items: Sequence[Item]) -> None:
    assert QuestionsSource().items() == items
    other = {item.input for item in QuestionsSource(seed=1).items()}
    assert len(other & {item.input for item in items}) < 0.5 * len(items)


@pytest.mark.parametrize("seed", [0, 1])
def test_no_two_questions_are_near_duplicates(seed: int) -> None:
    texts = [item.input for item in QuestionsSource(seed=seed, items=1200, ood=300).items()]
    assert most_alike(texts) < 0.75


@pytest.mark.slow
def test_no_two_questions_of_the_whole_world_are_near_duplicates(items: Sequence[Item]) -> None:
    assert most_alike([item.input for item in items]) < 0.75


def test_ood_templates_are_used_by_no_other_question(items: Sequence[Item]) -> None:
    ood = {item.group for item in items if item.pool == "ood"}
    rest = {item.group for item in items if item.pool == ""}
    assert len(ood) == 18
    assert not ood & rest
    assert {item.pool for item in items} == {"", "ood"}


def test_a_family_says_nothing_about_the_answer(items: Sequence[Item]) -> None:
    labels = set(QuestionsSource.labels)
    asked = defaultdict(set)
    for item in items:
        asked[item.family].add(item.reference)
    assert not labels & asked.keys()
    assert all(found == labels for found in asked.values())
    assert all(item.stratum == item.reference for item in items)


def test_labels_begin_with_different_letters() -> None:
    assert len({label[0] for label in QuestionsSource.labels}) == len(QuestionsSource.labels) == 6


def test_questions_are_well_formed(items: Sequence[Item]) -> None:
    for item in items:
        text = item.input
        assert not re.search(r"[{}|]|  ", text), text
        assert text[0].isupper() or text[0] == '"', text
        assert text[-1] in "?.", text
        assert not re.search(r"\b[Aa] [aeiouAEIOU]|\b[Aa]n [^aeiouAEIOU]", text), text
        assert text.count('"') % 2 == 0, text


def test_every_slot_has_a_vocabulary_and_every_vocabulary_is_used() -> None:
    folder = files("heldout.worlds.questions")
    templates = folder.joinpath("templates.toml").read_text(encoding="utf-8")
    vocabulary = folder.joinpath("vocabulary.toml").read_text(encoding="utf-8")
    lists = tomllib.loads(vocabulary)
    slots = set(SLOT.findall(templates)) | {slot for words in lists.values() for w in words for slot in SLOT.findall(w)}
    assert slots == set(lists)
    for words in lists.values():
        if "{organisation|initials}" not in words:
            assert max(Counter(words).values()) <= 2


def test_templates_differ_in_every_pair_of_labels() -> None:
    labels = tomllib.loads(files("heldout.worlds.questions").joinpath("templates.toml").read_text(encoding="utf-8"))
    used = {label: {t for listed in families.values() for t in listed} for label, families in labels.items()}
    assert all(not used[one] & used[other] for one, other in combinations(used, 2))


def test_sizes_are_options_and_other_arguments_are_refused() -> None:
    small = QuestionsSource(items=60, ood=18).items()
    assert 50 <= sum(item.pool == "" for item in small) <= 60
    with pytest.raises(SetupError, match=r"colour.*allowed are items, ood"):
        QuestionsSource(colour="red")
    with pytest.raises(SetupError, match="items"):
        QuestionsSource(items=3)
    with pytest.raises(SetupError, match=r"reads no file.*rows\.csv"):
        QuestionsSource(path="rows.csv")
