"""What the report says of a judge's order against that of test scores, counted by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from heldout.report.judge_agreement import judge_agreement
from heldout.store import Index, Journal, RunFolder
from heldout.store.events import RoleScored
from heldout.store.skill_events import Judged


def told(path: Path, totals: Sequence[float | None], **roles: Sequence[float | None]) -> str:
    """A journal with a verdict on each text and its mean on each role; what the report says of it."""
    folder = RunFolder.create(path / "run")
    with Journal.open(folder.events, clock=lambda: 1.8e9) as journal:
        for place, total in enumerate(totals):
            journal.append("judge", Judged(candidate=f"c{place}", judge="rules", scores={}, total=total))
        for role, means in roles.items():
            for place, mean in enumerate(means):
                scored = RoleScored(role=role, candidate=f"c{place}", n_tasks=8, missing=0, mean=mean)
                journal.append("role.scored", scored)
    with Index.open(folder.path) as index:
        return judge_agreement(index.connection)


def test_pairs_and_rank_correlation_of_three_texts(tmp_path: Path) -> None:
    """1 < 2 < 3 against 0.1 < 0.5 > 0.3: two pairs agree, one does not; 1 - 6 * 2 / (3 * 8) = 0.5."""
    words = told(tmp_path, [1.0, 2.0, 3.0], gold=[0.1, 0.5, 0.3])
    assert words.startswith("Of 3 pairs of texts the judge puts 2 in the order of the scores on gold, 1 the other way")
    assert words.endswith("and 0 are ties; rank correlation +0.50.")


def test_two_texts_are_one_pair_and_no_correlation(tmp_path: Path) -> None:
    words = told(tmp_path, [1.0, 2.0], gold=[0.5, 0.1])
    assert words.startswith("Of 1 pair of texts the judge puts 0 in the order")
    assert "correlation" not in words


@pytest.mark.parametrize(
    ("totals", "means"),
    [([1.0, None], [0.1, 0.5]), ([1.0, 2.0], [0.1, None]), ([1.0], [0.1, 0.5])],
    ids=["no verdict", "no score", "one text"],
)
def test_fewer_than_two_texts_with_both_say_nothing(
    totals: Sequence[float | None], means: Sequence[float | None], tmp_path: Path
) -> None:
    assert told(tmp_path, totals, gold=means) == ""


def test_a_missing_verdict_or_score_is_no_zero(tmp_path: Path) -> None:
    """As zeros, the third and the fourth text would make five pairs more."""
    assert told(tmp_path, [1.0, 2.0, None, 3.0], gold=[0.1, 0.5, 0.3, None]).startswith("Of 1 pair of texts")


def test_the_role_on_which_every_candidate_was_scored_is_the_one_named(tmp_path: Path) -> None:
    words = told(tmp_path, [1.0, 2.0, 3.0], gold=[0.1, 0.2, 0.3], ood=[0.3, 0.1])
    assert "the order of the scores on gold" in words
