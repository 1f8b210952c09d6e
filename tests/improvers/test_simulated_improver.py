"""The improver of the simulated loop: the law of its true gains, before and after the first commit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from improver_views import make_view

from heldout.config import ImproverConfig
from heldout.errors import ImproverError, SetupError
from heldout.harness import read_prompt
from heldout.improvers import make_improver
from heldout.models.simulated_skill import SkillLine


def proposed(line: SkillLine, seed: int, **options: float) -> SkillLine:
    improver = make_improver(ImproverConfig(kind="simulated", options=options))
    proposal = improver.propose(make_view(instruction=f"Classify.\n{line.text()}", seed=seed))
    assert proposal is not None
    assert proposal.files is not None
    assert proposal.note.startswith("simulation: true skill")
    found = SkillLine.find(read_prompt(proposal.files).instruction)
    assert found is not None
    return found


@pytest.mark.parametrize(("salts", "mean", "sd"), [(("start",), 0.12, 0.08), (("start", "a"), -0.05, 0.03)])
def test_true_gains_follow_the_specification(salts: tuple[str, ...], mean: float, sd: float) -> None:
    gains = np.array([proposed(SkillLine(0.5, salts), seed).skill - 0.5 for seed in range(2000)])
    assert gains.mean() == pytest.approx(mean, abs=3 * sd / math.sqrt(2000))
    assert gains.std() == pytest.approx(sd, rel=3 / math.sqrt(4000))


def test_each_proposal_adds_one_salt_of_its_own_and_keeps_the_rest() -> None:
    line = SkillLine(0.4, ("start", "a"), 0.3)
    one, other = proposed(line, 1), proposed(line, 2)
    assert one == proposed(line, 1)
    assert one.salts[:2] == other.salts[:2] == ("start", "a")
    assert one.salts[2] != other.salts[2]
    assert (len(one.salts), one.redraw) == (3, 0.3)


def test_skill_stays_inside_its_bounds_and_options_are_read() -> None:
    assert proposed(SkillLine(0.9, ("s",)), 0, first_mean=1.0).skill == 0.98
    assert proposed(SkillLine(0.5, ("s",)), 0, first_mean=0.1, first_sd=0.0).skill == pytest.approx(0.6)
    with pytest.raises(SetupError, match="allowed are first_mean, first_sd, later_mean, later_sd"):
        make_improver(ImproverConfig(kind="simulated", options={"mean": 1}))


def test_a_start_without_a_stated_skill_is_refused() -> None:
    with pytest.raises(ImproverError, match=r"\[\[simulated skill=0\.400000 salts=start"):
        make_improver(ImproverConfig(kind="simulated")).propose(make_view())
