"""`heldout noise` recommends a higher bar where the gate on repairs lets too many edits without effect in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heldout.config import RunConfig
from heldout.stats import null_accept_rate, repair_power
from heldout.store.toml import toml_text
from heldout.workbench import NoiseReport, Opening, noise

Config = Callable[..., RunConfig]
Command = Callable[..., tuple[int, str, str]]

ONE_CANDIDATE = {"search": {"candidates": 1}, "noise": {"simulations": 1000}}


def configured(tiny: Config, **options: Any) -> RunConfig:
    """Twelve select tasks that are taken to differ on a fifth: the paper's rule accepts about 0.28 of null edits."""
    return tiny({"gate": {"kind": "repairs_over_regressions", "options": options}}, ONE_CANDIDATE)


def report(tmp_path: Path, config: RunConfig) -> NoiseReport:
    return noise(config, Opening(tmp_path / "noise", command="heldout noise test"))


def test_a_rate_above_a_fifth_brings_the_recommendation_with_its_rate_and_its_price(
    tiny: Config, tmp_path: Path
) -> None:
    found = report(tmp_path, configured(tiny))
    advice = found.recommendation
    assert advice is not None
    assert advice.setting == "gate.options.min_u=2"
    assert advice.now == found.gates["repairs_over_regressions"] > 0.2
    assert advice.now == pytest.approx(null_accept_rate(12, 0.2), abs=0.05)
    assert advice.then == pytest.approx(null_accept_rate(12, 0.2, min_u=2), abs=0.04)
    assert advice.then < advice.now
    assert advice.power_now == pytest.approx(repair_power(12, 0.2, 0.1))
    assert advice.power_then == pytest.approx(repair_power(12, 0.2, 0.1, min_u=2))
    assert advice.power_then < advice.power_now
    assert NoiseReport.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    "options",
    [{"min_u": 2}, {"variant": "graded"}, {"variant": "family"}],
    ids=str,
)
def test_none_where_the_bar_is_high_already_or_counts_no_tasks(
    tiny: Config, tmp_path: Path, options: dict[str, Any]
) -> None:
    assert report(tmp_path, configured(tiny, **options)).recommendation is None


def test_none_where_few_are_let_in(tiny: Config, tmp_path: Path) -> None:
    """Of 12 tasks that differ on 2 %: 0.10."""
    quiet = configured(tiny)
    quiet = quiet.model_copy(update={"noise": quiet.noise.model_copy(update={"disagreement": 0.02})})
    found = report(tmp_path, quiet)
    assert found.gates["repairs_over_regressions"] == pytest.approx(null_accept_rate(12, 0.02), abs=0.04)
    assert found.recommendation is None


def test_none_for_another_gate_whose_options_do_not_reach_the_other_rules(tiny: Config, tmp_path: Path) -> None:
    found = report(tmp_path, tiny(ONE_CANDIDATE))
    assert found.recommendation is None
    assert "repairs_over_regressions" in found.gates, "it is calibrated like every rule"
    strict = report(tmp_path / "strict", configured(tiny, min_u=2))
    assert strict.gates["repairs_over_regressions"] < found.gates["repairs_over_regressions"]
    assert strict.gates["greedy"] == found.gates["greedy"]


def test_the_command_says_it_in_words_and_in_json(tiny: Config, heldout: Command, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(toml_text(configured(tiny).model_dump(mode="json")))
    code, out, _ = heldout("noise", "c.toml")
    words = " ".join(out.split())
    assert code == 0
    assert "Recommended: gate.options.min_u=2. As configured, the gate of this run accepts " in words
    assert "The price: an edit that truly repairs 10.0 % of the tasks is accepted in " in words
    code, out, _ = heldout("noise", "c.toml", "gate.options.min_u=2", "--json")
    assert code == 0
    assert json.loads(out)["recommendation"] is None
    assert json.loads(heldout("noise", "c.toml", "--json")[1])["recommendation"]["setting"] == "gate.options.min_u=2"
