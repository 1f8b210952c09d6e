"""Tables and plots are plain text with every number's uncertainty."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from heldout.studies import Estimate, Line, Plot, Spot, Table, csv_text, markdown_text, mean_estimate, plot_svg
from heldout.studies.results import ClaimVerdict, Region
from heldout.studies.tables import share_estimate

TABLE = Table(
    name="t",
    title="T",
    columns=("rule", "n", "gain", "ok", "cost"),
    rows=(
        ("greedy", 16, Estimate(value=-1.25, standard_error=0.5), True, 1296.0),
        ("a|b", 64, None, False, 0.123456),
    ),
)


def test_an_estimate_takes_two_csv_columns_at_full_precision() -> None:
    assert csv_text(TABLE) == ("rule,n,gain,gain_se,ok,cost\ngreedy,16,-1.25,0.5,yes,1296\na|b,64,,,no,0.123456\n")


def test_markdown_shows_the_standard_error_beside_the_number() -> None:
    assert markdown_text(TABLE).splitlines() == [
        "| rule | n | gain | ok | cost |",
        "| --- | --- | --- | --- | --- |",
        "| greedy | 16 | −1.2 ± 0.5 | yes | 1,296 |",
        "| a\\|b | 64 | – | no | 0.123 |",
    ]


def test_a_mean_is_in_points_with_the_standard_error_of_the_mean() -> None:
    found = mean_estimate([0.1, 0.2, 0.3, 0.4])
    assert found is not None
    assert found.value == pytest.approx(25.0)
    assert found.standard_error == pytest.approx(12.909944 / 2)  # sd 0.1290994 over sqrt(4), times 100
    assert mean_estimate([0.1]) is None


def test_a_share_has_its_binomial_standard_error_and_none_of_nothing_is_unknown() -> None:
    assert share_estimate(1, 4) == Estimate(value=25.0, standard_error=100 * (0.25 * 0.75 / 4) ** 0.5)
    assert share_estimate(0, 0) is None


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.5, 1.5), ClaimVerdict.REPRODUCED),
        ((-1.0, 1.0), ClaimVerdict.UNDECIDED),
        ((-2.0, -1.0), ClaimVerdict.NOT_REPRODUCED),
        ((2.5, 3.0), ClaimVerdict.NOT_REPRODUCED),
        ((1.0, 3.0), ClaimVerdict.UNDECIDED),
    ],
)
def test_a_claim_is_decided_only_by_a_whole_interval(interval: tuple[float, float], verdict: ClaimVerdict) -> None:
    assert Region(low=0.0, high=2.0).verdict(interval) is verdict


def test_a_region_without_an_end_comes_back_from_json() -> None:
    region = Region(low=0.0)
    assert Region.model_validate_json(region.model_dump_json()) == region


def test_a_plot_is_well_formed_and_says_its_numbers_without_colour() -> None:
    plot = Plot(
        name="p",
        title="Gain < cost & more",
        x_label="items",
        y_label="points",
        xs=("16", "64"),
        lines=(
            Line(name="a", spots=(Spot(x="16", y=10.0, standard_error=1.0), Spot(x="64", y=-5.0))),
            Line(name="b", spots=(Spot(x="64", y=2.0),), joined=False),
        ),
    )
    svg = plot_svg(plot)
    root = ET.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("aria-label") == "Gain < cost & more. a: 16 10.0, 64 -5.0; b: 64 2.0"
    assert len(root.findall(f"{space}circle")) == 3
    assert len(root.findall(f"{space}polyline")) == 1, "points without an order are not joined"
    assert "prefers-color-scheme: dark" in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", ""), "nothing is fetched"
    high, low = (float(circle.get("cy", "nan")) for circle in root.findall(f"{space}circle")[:2])
    assert high < low, "ten points stand above minus five"
