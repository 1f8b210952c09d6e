"""The names of the world: three vocabularies that share no word, and none that a guide would use by chance."""

from __future__ import annotations

import re
from itertools import permutations

import pytest

from heldout.worlds.tables import TablesSource, job_of, read_origin
from heldout.worlds.tables.catalogue import CATALOGUE
from heldout.worlds.tables.parts import RULES
from heldout.worlds.tables.vocabulary import VOCABULARIES, names_of, themes

PAIRS = list(permutations(VOCABULARIES, 2))


def words(text: str) -> set[str]:
    return {word.casefold() for word in re.split(r"[\W_]+", text) if word}


def holds(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", text.casefold()) is not None


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_no_name_of_one_vocabulary_has_a_word_of_another(one: str, other: str) -> None:
    taken = {word for name in names_of(other) for word in words(name)}
    assert [name for name in names_of(one) if words(name) & taken] == []


def test_no_request_of_one_vocabulary_holds_a_name_of_another() -> None:
    jobs = [job_of(read_origin(item.reference)) for item in TablesSource(seed=3, count=192, ood=20).items()]
    for job in jobs:
        for other in VOCABULARIES:
            if other != job.origin.vocabulary:
                assert [name for name in set(names_of(other)) if holds(job.request, name)] == [], job.request


def test_no_sentence_of_the_catalogue_holds_a_name() -> None:
    said = "\n".join((*(edit.text for edit in CATALOGUE), *(rule.text for rule in RULES)))
    assert [name for vocabulary in VOCABULARIES for name in names_of(vocabulary) if holds(said, name)] == []


def test_the_vocabulary_of_train_is_small_and_the_others_are_larger() -> None:
    sizes = {vocabulary: len(set(names_of(vocabulary))) for vocabulary in VOCABULARIES}
    assert sizes["A"] < sizes["B"] < sizes["C"]
    assert sizes["C"] > 2 * sizes["A"]


def test_a_theme_has_different_names_for_different_things() -> None:
    for vocabulary in VOCABULARIES:
        for theme in themes(vocabulary):
            pairs = (theme.key, theme.amount, theme.person)
            headers = [header for pair in pairs for header in (pair.header, pair.lookalike)]
            headers += [theme.code, theme.kind, theme.note, theme.stray, *theme.labels, *theme.lookup[1:]]
            headers += [*theme.stacked, *theme.kinds]
            assert len(set(headers)) == len(headers)
            assert len(theme.sheets) == 2


def test_an_unknown_vocabulary_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        themes("D")
