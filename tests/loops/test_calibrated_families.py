"""What a run prints of its gate's false accepts is at the families of its own select tasks."""

from __future__ import annotations

from pathlib import Path

from agent_events import of_kind
from lesson_world import search, small

from heldout.gates import false_accept_rate, make_gate
from heldout.tasks import load_tasks


def test_the_printed_rate_of_the_family_rule_is_that_at_the_families_of_the_select_tasks(tmp_path: Path) -> None:
    gate = {"kind": "repairs_over_regressions", "options": {"variant": "family"}}
    config = small("gso", {"search": {"generations": 1}, "gate": gate, "noise": {"tasks": 0, "simulations": 400}})
    folder = search(tmp_path / "run", config)
    (measured,) = of_kind(folder, "noise.measured")
    families = [task.family for task in load_tasks(config.tasks).select]
    assert len(set(families)) > 1

    def rate(families: list[str]) -> float:
        return false_accept_rate(
            make_gate(config.gate),
            n=config.tasks.select,
            candidates=measured["candidates"],
            disagreement=measured["disagreement"],
            simulations=400,
            seed=config.seed,
            families=families,
        ).rate

    (printed,) = [one for one in measured["gates"] if one["gate"] == make_gate(config.gate).name]
    assert printed["false_accept_rate"] == rate(families) != rate([])
