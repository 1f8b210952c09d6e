"""`heldout bench verse_published`: the paper's numbers, our errors over tasks, and files that are not what they say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from heldout.errors import SetupError
from heldout.stats import holm_adjusted
from heldout.studies import ClaimVerdict, load_study
from heldout.studies.verse_published import HOSTS, SETTINGS, TEST_SETS, Contest, compare_all, read_released
from heldout.studies.verse_published.noise import best_of_three, setting_noise
from heldout.studies.verse_published.study import audit_released

COMMAND = "heldout bench verse_published"

SOLVED = {"blank": 1, "meta_harness": 2, "verse_mh": 4, "ahe": 1, "verse_ahe": 2} | {
    "self_harness": 0, "verse_sh": 2, "harnessx": 2, "verse_hx": 3,
}  # fmt: skip
"""Of six made-up tasks, by setting."""


@pytest.fixture
def released(shared_data: Path) -> Path:
    folder = shared_data / "verse_outcomes"
    if not folder.is_dir():
        pytest.skip("the released outcomes of VERSE are not in the public data folder")
    return folder


def raw(folder: Path, name: str, test_set: str = "id") -> NDArray[np.float64]:
    """(tasks, repeats), read without any code of ours."""
    outcomes = json.loads((folder / f"{name}_{test_set}.json").read_text(encoding="utf-8"))["outcomes"]
    return np.array([outcomes[task] for task in sorted(outcomes)], dtype=np.float64)


def made_up(name: str, **changes: Any) -> dict[str, Any]:
    rows = {f"task-{index}": [int(index < SOLVED[name])] * 3 for index in range(6)}
    rows["task-5"] = [1, 0, 0]
    per_repeat = [sum(row[repeat] for row in rows.values()) for repeat in range(3)]
    accuracy = [100 * count / 6 for count in per_repeat]
    return {
        "setting": name,
        "config": None,
        "selected_round": 0 if name == "harnessx" else 2,
        "test_set": "made up",
        "n_tasks": 6,
        "excluded_tasks": ["task-9"],
        "repeats": 3,
        "solved_per_repeat": per_repeat,
        "accuracy_per_repeat": [round(value, 2) for value in accuracy],
        "accuracy_mean": round(float(np.mean(accuracy)), 2),
        "accuracy_sem": round(float(np.std(accuracy, ddof=1) / np.sqrt(3)), 2),
        "outcomes": rows,
        **changes,
    }


def write_release(folder: Path, changes: Mapping[str, Mapping[str, Any]] | None = None, *, flat: bool = True) -> Path:
    for name in SETTINGS:
        for test_set, file_name in TEST_SETS.items():
            path = folder / (f"{name}_{test_set}.json" if flat else f"{name}/{file_name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(made_up(name, **(changes or {}).get(name, {}))), encoding="utf-8")
    return folder


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "test_set", "mean", "sem", "chosen"),
    [
        ("blank", "id", 33.95, 0.82, None),
        ("meta_harness", "id", 39.20, 1.11, 4),
        ("verse_mh", "id", 42.28, 1.11, 2),
        ("meta_harness", "ood", 28.66, 0.82, 4),
        ("verse_mh", "ood", 37.69, 1.56, 2),
        ("self_harness", "ood", 29.28, 2.72, 6),
    ],
)
def test_the_numbers_of_the_paper_recompute(
    released: Path, name: str, test_set: str, mean: float, sem: float, chosen: int | None
) -> None:
    """verse.md, section 10."""
    one = read_released(released, test_set)[name]
    assert (one.mean, one.sem, one.selected_round) == (mean, sem, chosen)
    scores = raw(released, name, test_set)
    assert np.array_equal(one.scores, scores)
    assert scores.shape == {"id": (108, 3), "ood": (107, 3)}[test_set]
    per_repeat = 100 * scores.mean(axis=0)
    assert per_repeat.mean() == pytest.approx(mean, abs=0.006)
    assert per_repeat.std(ddof=1) / np.sqrt(3) == pytest.approx(sem, abs=0.006)


@pytest.mark.data
def test_verse_over_its_host_is_three_points_with_a_standard_error_of_almost_three(released: Path) -> None:
    """verse.md, section 10: +3.09 points, SE 2.65, z about 1.2; the stated errors would have given 1.57."""
    one = compare_all(read_released(released, "id")).of("verse_mh", "meta_harness")
    assert one.gain == pytest.approx(3.09, abs=0.005)
    assert one.standard_error == pytest.approx(2.65, abs=0.005)
    assert one.repeats_error == pytest.approx(1.57, abs=0.005)
    difference = raw(released, "verse_mh").mean(axis=1) - raw(released, "meta_harness").mean(axis=1)
    assert one.standard_error == pytest.approx(100 * difference.std(ddof=1) / np.sqrt(108))
    assert one.gain / one.standard_error == pytest.approx(1.2, abs=0.05)


@pytest.mark.data
@pytest.mark.parametrize("test_set", ["id", "ood"])
def test_every_pair_agrees_with_scipy_and_every_verdict_with_holm(released: Path, test_set: str) -> None:
    contest = compare_all(read_released(released, test_set))
    assert len(contest.pairs) == 36
    expected = [
        scipy_stats.ttest_rel(
            raw(released, one.b.name, test_set).mean(axis=1), raw(released, one.a.name, test_set).mean(axis=1)
        )
        for one in contest.pairs
    ]
    assert [one.p_value for one in contest.pairs] == pytest.approx([test.pvalue for test in expected], abs=1e-9)
    assert [one.holm_p for one in contest.pairs] == pytest.approx(holm_adjusted([test.pvalue for test in expected]))
    for one, test in zip(contest.pairs, expected, strict=True):
        assert one.interval == pytest.approx(tuple(100 * end for end in test.confidence_interval(0.95)), abs=1e-6)
        assert (one.corrected[0] > 0 or one.corrected[1] < 0) == (one.holm_p <= 0.05)
        assert one.corrected[0] <= one.interval[0]


@pytest.mark.data
def test_two_runs_of_one_harness_disagree_as_the_specification_says(released: Path) -> None:
    """verse.md, section 6.2 and 6.3."""
    settings = read_released(released, "id")
    noise = {name: setting_noise(settings[name]) for name in ("verse_mh", "meta_harness", "blank")}
    rates = {name: round(100 * one.disagreement, 1) for name, one in noise.items()}
    assert rates == {"verse_mh": 16.7, "meta_harness": 16.0, "blank": 14.8}
    assert [round(one.flips, 1) for one in noise.values()] == [8.3, 8.0, 7.4]
    assert all(one.confirmed == pytest.approx(4, abs=0.35) for one in noise.values()), "2 fixes and 2 breaks"
    verse = noise["verse_mh"]
    found = [verse.pass_once, verse.pass_twice, verse.support_twice, verse.support_once]
    assert [round(100 * value, 1) for value in found] == [14.4, 7.5, 20.8, 37.4]
    assert (verse.screen, verse.best_screen) == (pytest.approx(1.05, abs=0.005), pytest.approx(2.1, abs=0.01))


@pytest.mark.data
def test_which_claims_survive(released: Path) -> None:
    verdicts = {
        (claim.id, claim.part): claim.verdict
        for test_set in TEST_SETS
        for claim in audit_released(released, test_set).claims
    }
    assert len(verdicts) == 18
    held = {key for key, verdict in verdicts.items() if verdict is ClaimVerdict.REPRODUCED}
    assert held == {("V4", "ood"), ("V5", "id"), ("V5", "ood"), ("V6", "ood")}
    assert ClaimVerdict.NOT_REPRODUCED not in verdicts.values()


@pytest.mark.data
def test_a_claim_says_what_it_was_before_correction(released: Path) -> None:
    """+9.0 points out of distribution: p = 0.0018 alone, 0.0054 among the four hosts, 0.052 among 36 pairs."""
    claim = next(one for one in audit_released(released, "ood").claims if one.id == "V1")
    assert claim.verdict is ClaimVerdict.UNDECIDED
    assert claim.number == pytest.approx(9.03, abs=0.005)
    assert claim.sentence.startswith(
        "Before correction reproduced: +9.0 points, 95 % interval 3.4 to 14.6, p = 0.0018."
    )
    assert "After Holm's correction for 36 pairs undecided: p = 0.052." in claim.sentence
    assert claim.sentence.endswith("For the 4 pairs of a host and itself with VERSE alone reproduced: p = 0.0054.")


def test_the_best_of_three_screens_by_simulation() -> None:
    rng = np.random.default_rng(3)
    net = rng.binomial(10, 0.14, size=(200_000, 3)) - rng.binomial(2, 0.2, size=(200_000, 3))
    assert best_of_three(0.14, 0.2) == pytest.approx(net.max(axis=1).mean(), abs=0.01)
    assert best_of_three(0.0, 0.0) == pytest.approx(0.0)
    assert best_of_three(1.0, 1.0) == pytest.approx(8.0)


def test_a_pair_is_found_in_either_order(tmp_path: Path) -> None:
    contest: Contest = compare_all(read_released(write_release(tmp_path), "id"))
    forth, back = contest.of("verse_mh", "blank"), contest.of("blank", "verse_mh")
    assert forth.gain == -back.gain == 50.0
    assert forth.corrected == (-back.corrected[1], -back.corrected[0])
    assert (back.result.broken, back.a.name) == (3, "verse_mh")
    assert len(contest.family([(verse, host) for host, verse in HOSTS.items()])) == 4


def test_the_study_writes_its_tables_from_either_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = []
    for flat in (True, False):
        data = tmp_path / f"data-{flat}"
        write_release(data / "verse_outcomes", flat=flat)
        monkeypatch.setenv("HELDOUT_DATA", str(data))
        target = tmp_path / "results" / f"{flat}"
        written = load_study("verse_published")(target, quick=False, only=None, command=COMMAND)
        names = {path.name for path in written}
        assert {"README.md", "claims.csv", "provenance.json", "id_pairs.csv", "ood_noise.csv", "id_gains.svg"} <= names
        pages.append((target / "id_pairs.csv").read_text(encoding="utf-8"))
        page = (target / "README.md").read_text(encoding="utf-8")
        assert page.startswith("**Everything on this page was computed from the outcomes that the authors released")
        assert "HarnessX selected round 0" in page
        made = json.loads((target / "provenance.json").read_text(encoding="utf-8"))["parts"]
        assert set(made["ood"]["config_digests"]) == set(SETTINGS), "each file is named by its sha-256"
    assert pages[0] == pages[1]
    assert len(pages[0].splitlines()) == 37


def test_one_part_may_be_run_again_and_the_other_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_release(tmp_path / "verse_outcomes")
    monkeypatch.setenv("HELDOUT_DATA", str(tmp_path))
    study = load_study("verse_published")
    study(tmp_path / "out", quick=False, only="ood", command=COMMAND)
    assert "Part id" not in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    study(tmp_path / "out", quick=True, only="id", command=COMMAND)
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "Part id" in page
    assert "Part ood" in page


def test_a_part_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no part 'a'; there is id, ood"):
        load_study("verse_published")(tmp_path / "t", quick=False, only="a", command=COMMAND)


def test_without_the_files_the_message_says_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELDOUT_DATA", str(tmp_path))
    with pytest.raises(SetupError, match=r"github\.com/wzekai/VERSE.*set HELDOUT_DATA"):
        load_study("verse_published")(tmp_path / "t", quick=False, only=None, command=COMMAND)
    assert not (tmp_path / "t").exists()
    monkeypatch.delenv("HELDOUT_DATA")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SetupError, match="shared/data/verse_outcomes"):
        load_study("verse_published")(tmp_path / "t", quick=False, only=None, command=COMMAND)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"solved_per_repeat": [5, 5, 4]}, r"verse_mh_id\.json.*its outcomes give \(5, 4, 4\) solved"),
        ({"accuracy_mean": 99.0}, r"verse_mh_id\.json.*states .*99\.00"),
        ({"accuracy_sem": 9.0}, r"verse_mh_id\.json.*± 9\.00"),
        ({"n_tasks": 7}, r"verse_mh_id\.json.*expected 7 tasks"),
        ({"repeats": 2}, r"verse_mh_id\.json.*of 2 repeats"),
        ({"excluded_tasks": "none"}, r"verse_mh_id\.json.*excluded_tasks"),
        ({"outcomes": {"task-1": [2, 0, 0]}}, r"verse_mh_id\.json.*score of task 'task-1'"),
    ],
)
def test_a_file_that_contradicts_itself_is_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    write_release(tmp_path, {"verse_mh": changes})
    with pytest.raises(SetupError, match=words):
        read_released(tmp_path, "id")


def test_settings_on_different_tasks_are_refused(tmp_path: Path) -> None:
    renamed = {task.replace("task-5", "task-8"): row for task, row in made_up("ahe")["outcomes"].items()}
    write_release(tmp_path, {"ahe": {"outcomes": renamed}})
    with pytest.raises(SetupError, match=r"ahe_id\.json.*not of the same tasks; 2 differ, the first is 'task-5'"):
        read_released(tmp_path, "id")


def test_a_missing_setting_is_named(tmp_path: Path) -> None:
    (write_release(tmp_path) / "verse_hx_id.json").unlink()
    with pytest.raises(SetupError, match=r"verse_hx_id\.json.*github"):
        read_released(tmp_path, "id")
