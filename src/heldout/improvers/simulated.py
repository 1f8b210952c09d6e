"""The improver of the simulated loop: it writes candidates whose true skill is drawn. A simulation, and labelled so.

Specification: `systems/winners_curse.md`, section 7(b). Until the first commit a rewrite changes the true skill by
tau ~ N(+0.12, 0.08²), afterwards by N(−0.05, 0.03²).
"""

from __future__ import annotations

import random

from pydantic import Field

from heldout.config import ImproverConfig
from heldout.errors import ImproverError
from heldout.harness import read_prompt
from heldout.harness.prompt_files import INSTRUCTION_FILE
from heldout.improvers.base import View
from heldout.models.base import Model
from heldout.models.simulated_skill import SkillLine
from heldout.options import read_options
from heldout.records import Proposal, Record

__all__ = ["SimulatedImprover", "SimulatedImproverOptions"]

_LOWEST, _HIGHEST = 0.02, 0.98


class SimulatedImproverOptions(Record):
    """`improver.options` of `simulated`; gains are in fractions of one."""

    first_mean: float = Field(default=0.12, ge=-1.0, le=1.0)
    """Mean true gain of a proposal made from the start."""
    first_sd: float = Field(default=0.08, ge=0.0, le=1.0)
    """Standard deviation of those gains."""
    later_mean: float = Field(default=-0.05, ge=-1.0, le=1.0)
    """Mean true gain of a proposal made after a commit."""
    later_sd: float = Field(default=0.03, ge=0.0, le=1.0)
    """Standard deviation of those gains."""


class SimulatedImprover:
    """Replaces the incumbent's `[[simulated skill=…]]` line by one with a drawn skill and one more salt.

    The number of salts counts the commits on the way from the start, so nothing outside the folder is needed.
    """

    uses_model = False

    def __init__(self, config: ImproverConfig, model: Model | None = None) -> None:
        del model
        self.options = read_options(SimulatedImproverOptions, config.options, where=f"improver {config.kind!r}")

    def propose(self, view: View) -> Proposal:
        """One candidate; `ImproverError` where the incumbent states no simulated skill."""
        instruction = read_prompt(view.incumbent.files).instruction
        line = SkillLine.find(instruction)
        if line is None:
            example = SkillLine(0.4, ("start",)).text()
            raise ImproverError(f"the simulated improver needs a start instruction that holds a line like {example}")
        rng = random.Random(f"simulated {view.seed}")
        first = len(line.salts) == 1
        mean = self.options.first_mean if first else self.options.later_mean
        sd = self.options.first_sd if first else self.options.later_sd
        skill = min(_HIGHEST, max(_LOWEST, line.skill + rng.gauss(mean, sd)))
        drawn = SkillLine(skill, (*line.salts, f"{rng.getrandbits(32):08x}"), line.redraw)
        files = {**view.incumbent.files, INSTRUCTION_FILE: drawn.replaced_in(instruction) + "\n"}
        return Proposal(files=files, note=f"simulation: true skill {line.skill:.3f} -> {skill:.3f}")
