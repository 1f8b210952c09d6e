"""`heldout bench gso`: claims follow from numbers by stated rules, and the study writes what it says."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from heldout.config import ModelConfig
from heldout.errors import SetupError
from heldout.models.base import Reply, Request
from heldout.sandbox import make_sandboxes
from heldout.stats import null_accept_rate, t_quantile
from heldout.studies import Claim, ClaimVerdict, load_study
from heldout.studies.gso import ARMS, Arm, Sizes, World
from heldout.studies.gso.ablation import CORNERS, Corner, effects
from heldout.studies.gso.arms import BARE, FROM_RULES, NO_SKILL, PERSISTENT, RIVALS, VARIANTS
from heldout.studies.gso.beginnings import begun_table, head_start
from heldout.studies.gso.claims import ahead_of_all, main_claims, worst
from heldout.studies.gso.equal_cost import Matching
from heldout.studies.gso.gate_noise import null_counts, rate_claim
from heldout.studies.gso.judging import ARTIFACTS, edit_ranks, finished_ranks, judge_claim
from heldout.studies.gso.main_table import baselines
from heldout.studies.gso.measuring import Exact, Measured
from heldout.studies.gso.null_edits import NullRates
from heldout.studies.gso.ordering import misordered, order_missed
from heldout.studies.gso.path_check import PathPlan, path_check
from heldout.studies.gso.reading import Edits, EditSeen
from heldout.studies.gso.runs import Result
from heldout.studies.gso.summaries import ArmRuns, Gains, audit, gains_of, known
from heldout.studies.results import Part
from heldout.studies.scatter import Dot, Scatter, scatter_svg

SEEDS = 6
YES, NO, OPEN = ClaimVerdict.REPRODUCED, ClaimVerdict.NOT_REPRODUCED, ClaimVerdict.UNDECIDED


def _column(share: float, n: int) -> tuple[float, ...]:
    """So many ones that their share is `share`, spread evenly, so that the first tasks are like all."""
    edges = np.floor(np.arange(n + 1) * share + 1e-9)
    return tuple(np.diff(edges).tolist())


def _result(seed: int, train: float, score: float, **more: Any) -> Result:
    """A result with these measured shares of 200 tasks each; exact rates are the same unless given."""
    exact, begun = more.pop("exact", score), more.pop("begun_audit", 0.3)
    return Result(
        seed=seed,
        config_digest=f"{seed}",
        measured=Measured(train=_column(train, 200), select=(1.0,), audit=_column(score, 200), ood=(1.0,), calls=3.0),
        exact=Exact(train=train, select=1.0, audit=exact, ood=1.0),
        last_exact=Exact(train=train, select=1.0, audit=exact, ood=1.0),
        files={},
        begun={},
        begun_audit=begun,
        is_start=False,
        **more,
    )


def _runs(name: str, train: float, score: float, arm: Arm | None = None, *, spread: float = 0.01) -> ArmRuns:
    """Six seeds around these shares, each arm with a spread of its own, so that differences have one too."""
    rng = np.random.default_rng(len(name))
    given = arm or ARMS.get(name) or BARE[name]
    wiggle = rng.permutation(np.linspace(-spread, spread, SEEDS))
    return ArmRuns(name, given, tuple(_result(seed, train - w, score + w) for seed, w in enumerate(wiggle.tolist())))


WIN: Mapping[str, tuple[float, float]] = {
    NO_SKILL: (0.20, 0.20),
    "no skill, no recovery": (0.18, 0.18),
    "one-shot": (0.25, 0.24),
    "one-shot + recovery": (0.32, 0.30),
    **dict.fromkeys(PERSISTENT, (0.50, 0.40)),
    FROM_RULES: (0.55, 0.50),
    "best-of-N guides": (0.62, 0.62),
    "start guide": (0.60, 0.60),
    "start guide, no recovery": (0.40, 0.40),
    "gso": (0.72, 0.72),
    "gso, no recovery": (0.55, 0.55),
    "gso, any module": (0.70, 0.65),
    "gso, R > B": (0.70, 0.66),
    "gso, u ≥ 2": (0.70, 0.67),
    "gso, judge alone": (0.30, 0.30),
    "gso's rules as one skill": (0.50, 0.50),
    **dict.fromkeys(BARE, (0.30, 0.30)),
}
"""Shares under which every claim of part a holds."""


def _arms(**changed: tuple[float, float]) -> dict[str, ArmRuns]:
    return {name: _runs(name, *shares) for name, shares in ({**WIN} | changed).items()}


def _claims(arms: Mapping[str, ArmRuns]) -> dict[str, list[Claim]]:
    found: dict[str, list[Claim]] = {}
    for claim in main_claims(arms, baselines(arms), Sizes()):
        found.setdefault(claim.id, []).append(claim)
    return found


# ---- gains


def test_gains_are_counted_from_no_skill_under_the_same_conditions() -> None:
    arms = _arms()
    with_it = gains_of(arms["gso"], baselines(arms))
    without = gains_of(arms["gso, no recovery"], baselines(arms))
    assert with_it.audit.mean() == pytest.approx(0.72 - 0.20, abs=0.002)
    assert without.audit.mean() == pytest.approx(0.55 - 0.18, abs=0.002)
    lost = gains_of(arms["EvoSkill-like"], baselines(arms))
    assert lost.retention.mean() == pytest.approx((0.40 - 0.20) - (0.50 - 0.20), abs=0.002)
    few = gains_of(arms["gso"], baselines(arms), first=40)
    assert few.audit.mean() == pytest.approx(0.52, abs=0.03)
    exact = gains_of(arms["gso"], baselines(arms), exact=True)
    assert exact.audit.mean() == pytest.approx(0.52, abs=1e-9)
    assert Gains(np.array([0.3]), np.array([0.1])).retention.tolist() == pytest.approx([-0.2])


def test_known_scales_what_is_no_fraction() -> None:
    found = known(np.array([4.0, 6.0, 8.0]), scale=1.0, unit=20.0)
    half = t_quantile(0.95, 2) * 2.0 / math.sqrt(3.0)
    assert (found.value, found.low) == pytest.approx((6.0, 6.0 - half))
    assert math.isnan(known(np.array([0.5])).value)


# ---- claims C1 to C5 and C8


def test_every_claim_is_reproduced_where_its_numbers_say_so() -> None:
    found = _claims(_arms())
    assert {name: [one.verdict for one in claims] for name, claims in found.items() if name not in ("C5", "C8")} == {
        "C1": [YES],
        "C2": [YES, YES, YES],
        "C3": [YES],
        "C4": [YES, YES],
    }
    assert found["C1"][0].number == pytest.approx(-10.0, abs=0.3)
    assert found["C3"][0].number == pytest.approx(12.0, abs=0.3)
    low, high = found["C3"][0].interval or (0.0, 0.0)
    assert low < 12.0 < high


@pytest.mark.parametrize(
    ("changed", "claim", "verdicts"),
    [
        (dict.fromkeys(PERSISTENT, (0.40, 0.50)), "C1", [NO]),
        (dict.fromkeys(PERSISTENT, (0.10, 0.05)), "C1", [NO]),
        ({"gso, judge alone": (0.9, 0.9)}, "C2", [YES, NO, YES]),
        ({FROM_RULES: (0.9, 0.9)}, "C2", [YES, NO, NO]),
        ({"best-of-N guides": (0.8, 0.8)}, "C2", [NO, NO, YES]),
        ({"start guide": (0.8, 0.8)}, "C3", [NO]),
        ({"gso, no recovery": (0.35, 0.35)}, "C4", [YES, NO]),
        ({"gso, no recovery": (0.8, 0.8)}, "C4", [NO, NO]),
    ],
)
def test_a_claim_is_not_reproduced_where_its_numbers_say_the_opposite(
    changed: dict[str, tuple[float, float]], claim: str, verdicts: list[ClaimVerdict]
) -> None:
    assert [one.verdict for one in _claims(_arms(**changed))[claim]] == verdicts


def test_a_claim_is_undecided_where_the_seeds_spread_too_far() -> None:
    arms = _arms() | {"start guide": _runs("start guide", 0.70, 0.70, spread=0.2)}
    found = _claims(arms)
    assert found["C3"][0].verdict is OPEN
    assert found["C2"][0].verdict is OPEN


def test_one_seed_decides_nothing() -> None:
    arms = {name: ArmRuns(name, runs.arm, runs.results[:1]) for name, runs in _arms().items()}
    found = _claims(arms)
    assert {one.verdict for name in ("C1", "C2", "C3", "C4", "C5") for one in found[name]} == {OPEN}
    assert "Too few seeds" in found["C3"][0].sentence


def test_harmful_edits_are_compared_run_by_run() -> None:
    def with_harm(name: str, counts: Sequence[int]) -> ArmRuns:
        runs = _arms()[name]
        edits = [Edits(proposed=10, accepted=5, harmful=count) for count in counts]
        results = [one.model_copy(update={"edits": found}) for one, found in zip(runs.results, edits, strict=True)]
        return ArmRuns(name, runs.arm, tuple(results))

    fewer, more = [0, 0, 1, 0, 0, 1], [2, 3, 2, 3, 2, 3]
    arms = _arms() | {"gso": with_harm("gso", fewer), "gso, R > B": with_harm("gso, R > B", more)}
    claim = _claims(arms)["C5"][0]
    assert (claim.verdict, claim.number) == (YES, pytest.approx(2 / 6 - 15 / 6))
    assert "2 harmful edits of 30 accepted" in claim.sentence
    assert "15 of 30" in claim.sentence
    arms = _arms() | {"gso": with_harm("gso", more), "gso, R > B": with_harm("gso, R > B", fewer)}
    assert _claims(arms)["C5"][0].verdict is NO
    assert _claims(_arms())["C5"][0].verdict is OPEN, "no harmful edit at all says nothing of the rules"


def test_the_order_is_missed_where_a_pair_is_reversed_or_tied() -> None:
    true = np.array([0.2, 0.5, 0.5, 0.9])
    assert misordered(true, np.array([0.1, 0.4, 0.3, 0.8])) == (0, 5), "equal arms are no pair"
    assert misordered(true, np.array([0.4, 0.4, 0.3, 0.8])) == (2, 5), "a tie, and a reversal"
    arms = {
        name: ArmRuns(name, ARMS[name], (_result(0, 0.5, seen, exact=exact),))
        for name, seen, exact in (("gso", 0.7, 0.7), ("start guide", 0.72, 0.6), (NO_SKILL, 0.2, 0.2))
    }
    found = order_missed(arms, first=None)
    assert (found.seeds, found.missed, found.best_missed, found.reversed, found.pairs) == (1, 1, 1, 1, 3)
    assert found.share == pytest.approx(1 / 3)


def test_often_is_more_than_half_of_the_seeds() -> None:
    assert _claims(_arms())["C8"][0].number == pytest.approx(100.0), "the persistent arms' small spread is lost at 40"
    apart = {name: (score, score) for name, score in zip(("gso", *RIVALS), np.linspace(0.9, 0.05, 11), strict=True)}
    clear = _claims({**_arms(), **{name: _runs(name, *shares, spread=0.0) for name, shares in apart.items()}})
    assert (clear["C8"][0].verdict, clear["C8"][0].number) == (NO, 0.0)


def test_holms_rule_judges_the_arms_together() -> None:
    own = ArmRuns("gso", ARMS["gso"], tuple(_result(seed, 0.5, 0.6) for seed in range(4)))
    shifts = {"start guide": (0.09, 0.10, 0.11, 0.10), NO_SKILL: (0.0, 0.05, 0.1, 0.05)}
    others = {
        name: ArmRuns(name, ARMS[name], tuple(_result(k, 0.5, 0.6 - shift) for k, shift in enumerate(given)))
        for name, given in shifts.items()
    }
    lead = ahead_of_all({"gso": own, **others}, "gso", list(others), audit)
    assert lead.differences["start guide"].value == pytest.approx(10.0)
    assert lead.smallest == NO_SKILL
    assert lead.p_values["start guide"] == pytest.approx(2 * 0.000149, rel=0.01), "t = 24.5 with 3 df, doubled"
    assert lead.p_values[NO_SKILL] == pytest.approx(0.0917, rel=0.02), "t = 2.449 with 3 df, the last of two"
    assert (lead.beaten, lead.verdict) == (1, OPEN)


def test_the_row_about_the_start_guides_rules_is_one_more_of_the_family_of_rivals() -> None:
    arms = _arms()
    rivals = ahead_of_all(arms, "gso", [*RIVALS, FROM_RULES])
    claim = _claims(arms)["C2"][2]
    assert claim.interval == pytest.approx(rivals.differences[FROM_RULES].interval)
    assert claim.number == pytest.approx(22.0, abs=0.3)
    assert FROM_RULES in claim.rests_on
    plain = known(arms["gso"].values(audit) - arms[FROM_RULES].values(audit))
    assert (claim.interval or (0.0, 0.0))[0] < plain.low, "the interval is corrected"
    far = _claims(arms | {FROM_RULES: _runs(FROM_RULES, 0.6, 0.71, spread=0.1)})["C2"]
    assert [one.verdict for one in far] == [YES, OPEN, OPEN]


def test_a_lead_is_split_into_what_is_there_before_any_edit_and_what_editing_adds() -> None:
    def arm(name: str, *pairs: tuple[float, float]) -> ArmRuns:
        results = [_result(k, 0.5, 0.5, begun_audit=begun, exact=end) for k, (begun, end) in enumerate(pairs)]
        return ArmRuns(name, ARMS[name], tuple(results))

    arms = {
        "gso": arm("gso", (0.6, 0.8), (0.6, 0.9)),
        "EvoSkill-like": arm("EvoSkill-like", (0.2, 0.4), (0.2, 0.5)),
        "persistent, strict gate": arm("persistent, strict gate", (0.3, 0.5), (0.4, 0.5)),
        FROM_RULES: arm(FROM_RULES, (0.4, 0.6), (0.4, 0.7)),
        "start guide": arm("start guide", (0.6, 0.6), (0.6, 0.6)),
    }
    rows = {str(row[0]): row[1:] for row in begun_table(arms).rows}
    assert list(rows) == [name for name in arms if name != "start guide"], "arms that search"
    assert rows["EvoSkill-like"][0] == "no skill"
    assert rows["persistent, strict gate"][0] == "a drafted skill"
    assert rows["gso"][0] == "the start guide"
    assert "as one skill" in str(rows[FROM_RULES][0])
    cells = [round(cell.value, 6) for cell in rows["persistent, strict gate"][1:]]  # type: ignore[union-attr]
    assert cells == [35.0, 50.0, 15.0, 35.0, 25.0, 10.0]
    told = head_start(arms, ["EvoSkill-like", "persistent, strict gate"], which="the others")
    # Ends 0.45 and 0.5, begun 0.25 and 0.3: leads of 0.35 and 0.4, before any edit 0.35 and 0.3.
    assert "exact audit rate of 60.0 %, the others with 27.5 %" in told
    assert "their mean, +37.5 (" in told
    assert "+32.5 (" in told
    assert "editing adds +5.0 (" in told


def test_of_several_verdicts_the_worst_counts() -> None:
    assert worst(YES, OPEN) is OPEN
    assert worst(YES, OPEN, NO) is NO
    assert worst(YES, YES) is YES


def test_rivals_and_variants_are_all_the_other_arms() -> None:
    assert {*RIVALS, FROM_RULES, *VARIANTS, "gso"} == ARMS.keys()
    assert not set(RIVALS) & set(VARIANTS)
    assert {arm.of for arm in BARE.values()} == set(PERSISTENT)
    assert all(not arm.recovery for arm in BARE.values())


# ---- ingredients


def test_an_ingredient_adds_what_its_corners_differ_by() -> None:
    values = {
        corner: np.array([0.1 * corner.learned + 0.2 * corner.fresh + 0.3 * corner.recovery]) for corner in CORNERS
    }
    values[Corner(True, True, True)] += 0.05
    found = effects(values, "learned")
    assert sorted(float(one[0]) for one in found) == pytest.approx([0.1, 0.1, 0.1, 0.15])
    assert sorted(float(one[0]) for one in effects(values, "recovery")) == pytest.approx([0.3, 0.3, 0.3, 0.35])
    assert len(CORNERS) == 8


# ---- the gate's noise


def _null(rate: float, by_table: float, tables: int = 4000) -> NullRates:
    return NullRates("u > 0", tables, round(rate * tables), 20, 0.1, by_table, by_table)


def test_the_rate_is_that_of_the_table_within_five_points_at_every_error_rate() -> None:
    near, far, own = (_null(0.27, 0.26),), (_null(0.40, 0.26),), null_counts([])
    assert rate_claim({World(0.0): near, World(0.1): near}, own).verdict is YES
    both = rate_claim({World(0.0): near, World(0.1): far}, own)
    assert (both.verdict, both.number) == (NO, pytest.approx(14.0))
    assert "ε = 0.1" in both.rests_on
    assert rate_claim({World(0.0): (_null(0.30, 0.26, tables=60),)}, own).verdict is OPEN


def test_null_edits_of_the_runs_are_counted_against_their_own_chances() -> None:
    def edit(*, null: bool, accepted: bool) -> EditSeen:
        return EditSeen(
            accepted=accepted,
            null=null,
            expected=0.25,
            by_table=0.2,
            disagreement=0.1,
            judged=0.0,
            measured=0.0,
            true=0.0,
        )

    seen = [edit(null=True, accepted=True), edit(null=True, accepted=False), edit(null=False, accepted=True)]
    found = null_counts(seen)
    assert (found.edits, found.accepted, found.expected, found.by_table) == (2, 1, 0.5, 0.4)
    assert found.spread == pytest.approx(math.sqrt(2 * 0.25 * 0.75))
    assert null_accept_rate(20, 0.10) == pytest.approx(0.27, abs=0.005), "the specification's table"


# ---- the judge


def _judged_arms(totals: Sequence[float], scores: Sequence[float], edits: Sequence[tuple[float, float]]) -> Any:
    seen = tuple(
        EditSeen(accepted=True, null=False, expected=0.2, by_table=0.2, disagreement=0.1, judged=a, measured=b, true=a)
        for a, b in edits
    )
    names = [name for name in ARTIFACTS if name != NO_SKILL][: len(totals)]
    arms = {
        name: ArmRuns(
            name, ARMS[name], tuple(_result(k, 0.5, score + 0.01 * k, judged=total, seen=()) for k in range(4))
        )
        for name, total, score in zip(names, totals, scores, strict=True)
    }
    none = tuple(_result(k, 0.2, 0.99) for k in range(4))
    gso = tuple(_result(k, 0.5, 0.95, judged=9.0, seen=seen if k else seen[::-1]) for k in range(4))
    return {**arms, NO_SKILL: ArmRuns(NO_SKILL, ARMS[NO_SKILL], none), "gso": ArmRuns("gso", ARMS["gso"], gso)}


def test_a_judge_that_knows_finals_and_not_edits_is_what_the_claim_says() -> None:
    edits = [(1.0, 0.1), (2.0, 0.3), (3.0, 0.2), (4.0, 0.15)]
    arms = _judged_arms([1.0, 2.0, 3.0], [0.3, 0.4, 0.5], edits)
    assert finished_ranks(arms).tolist() == pytest.approx([1.0] * 4), "no skill has no text, and is left out"
    assert edit_ranks(arms["gso"]).tolist() == pytest.approx([0.2] * 4)
    assert edit_ranks(arms["gso"], true=True).tolist() == pytest.approx([1.0] * 4)
    claim = judge_claim(arms)
    assert claim.number == pytest.approx(0.8)
    assert judge_claim(_judged_arms([3.0, 2.0, 1.0], [0.3, 0.4, 0.5], [(1.0, 0.1), (2.0, 0.2)])).number < 0.0  # type: ignore[operator]


def test_edits_of_one_kind_have_no_rank_correlation() -> None:
    arms = _judged_arms([1.0, 2.0], [0.3, 0.4], [(1.0, 0.1), (1.0, 0.2)])
    assert np.isnan(edit_ranks(arms["gso"])).all()
    assert judge_claim(arms).verdict is OPEN


# ---- equal cost


def test_a_search_for_rounds_ends_at_the_cost_that_is_asked_for() -> None:
    search = Matching(goal=1000.0, rounds=20, tried={20: 500.0})
    while (number := search.next()) is not None:
        search.tried[number] = 100.0 + 20.0 * number
    assert search.best == 45
    assert len(search.tried) <= 6
    fewer = Matching(goal=200.0, rounds=20, tried={20: 700.0})
    while (number := fewer.next()) is not None:
        fewer.tried[number] = 100.0 + 30.0 * number
    assert fewer.tried[fewer.best] == pytest.approx(200.0, abs=30.0)


def test_a_cost_that_does_not_grow_ends_the_search() -> None:
    search, asked = Matching(goal=1000.0, rounds=20, tried={20: 500.0}), 0
    while (number := search.next()) is not None:
        search.tried[number] = 500.0
        asked += 1
    assert asked <= 5
    assert Matching(goal=500.0, rounds=20, tried={20: 499.0}).next() is None, "near enough as it is"


# ---- what is written


def test_the_scatter_plot_has_every_dot_its_name_and_the_diagonal() -> None:
    dots = (Dot(name="a < b", group=0, x=10.0, y=5.0, x_error=1.0), Dot(name="gso", group=7, x=-2.0, y=3.0))
    plot = Scatter(name="p", title="T & U", x_label="x", y_label="y", dots=dots, below="lost")
    root = ET.fromstring(scatter_svg(plot))
    words = [text for one in root.iter() if (text := one.text)]
    assert {"T & U", "1 a < b", "2 gso", "lost"} <= set(words)
    lines = [one.attrib for one in root.iter("{http://www.w3.org/2000/svg}line")]
    diagonal = [one for one in lines if one["x1"] != one["x2"] and one["y1"] != one["y2"]]
    assert len(diagonal) == 1
    part = Part(id="a", title="t", simulated=True, quick=True, intro="", tables=(), plots=(plot,))
    assert Part.model_validate_json(part.model_dump_json()) == part, "a kept part is read back as it was"


@pytest.mark.slow
def test_the_quick_study_writes_its_page_and_a_part_is_the_same_twice(tmp_path: Path) -> None:
    study = load_study("gso")
    every = study(tmp_path / "a", quick=True, only=None, command="heldout bench gso --quick")
    again = study(tmp_path / "b", quick=True, only="c", command="heldout bench gso --quick --only c")
    names = {path.name for path in again} - {"README.md", "provenance.json", "claims.csv"}
    assert {"part_c.json", "noise.csv", "false_accepts.csv", "noise.svg"} <= names < {path.name for path in every}
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    page = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
    assert page.startswith("**Parts a, b, c, d of this page are simulations")
    for claim in ("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8"):
        assert f"| {claim} " in page
    assert "A simulated win says that the mechanism suffices, no more." in page
    assert "heldout bench gso --only e" in page


@pytest.mark.parametrize(
    ("only", "quick", "words"), [("f", True, "there is a, b, c, d, e"), ("e", True, "no quick version")]
)
def test_a_part_that_cannot_run_is_refused_before_anything_is_written(
    tmp_path: Path, only: str, quick: bool, words: str
) -> None:
    with pytest.raises(SetupError, match=words):
        load_study("gso")(tmp_path / "t", quick=quick, only=only, command="heldout bench gso")
    assert not (tmp_path / "t").exists()


class OneSkill:
    """A model that writes a skill for the first task and none for others, and submits at once."""

    name = "one_skill"
    fingerprint = "one_skill"
    deterministic = True
    can_choose = False
    simulated: ClassVar[bool] = False

    def __init__(self, config: ModelConfig, **_: object) -> None:
        del config
        self._written = 0

    def complete(self, request: Request) -> Reply:
        if not request.messages[0].content.startswith("# Write one skill"):
            return Reply(text="```bash\necho HELDOUT_SUBMIT\n```", tokens_in=10, tokens_out=5)
        self._written += 1
        skill = "---\nname: tables\ndescription: How to do it.\n---\n\nLook first.\n"
        return Reply(text=skill if self._written == 1 else "I would rather not.", tokens_in=10, tokens_out=5)

    def close(self) -> None:
        """Nothing was started."""


def test_the_path_check_runs_writer_and_solver_and_attaches_no_claim() -> None:
    if (fault := make_sandboxes("bubblewrap").fault()) is not None:
        pytest.skip(fault)
    part = path_check(PathPlan(model=ModelConfig(name=f"{__name__}:OneSkill", max_tokens=256), tasks=2, bare=1))
    first, second, bare = (dict(zip(part.tables[0].columns, row, strict=True)) for row in part.tables[0].rows)
    assert (first["its skill"], first["turns"], first["ended by"], first["score"]) == ("used", 1, "submitted", 0.0)
    assert str(second["its skill"]).startswith("refused: ")
    assert (second["turns"], second["score"]) == (0, 0.0)
    assert (part.simulated, part.claims) == (False, ())
    assert (bare["its skill"], bare["turns"], bare["ended by"]) == ("none was asked for", 1, "submitted")
    assert "Of 2 skills that it wrote, 1 could be used" in part.intro
    assert "No claim is attached" in part.intro
