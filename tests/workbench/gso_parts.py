"""What the tests of whole runs of loops over skills share: reading runs, and what has to last through a kill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from run_events import of_kind

from heldout.config import RunConfig, load_config
from heldout.improvers.skill_catalog import SkillCatalog
from heldout.improvers.skill_roles import Attribution, EditView, FaultView
from heldout.improvers.skill_texts import with_policy
from heldout.loops import preset
from heldout.records import Edit, EditProposal, Spend
from heldout.report import ledger_rows
from heldout.skills import MODULES, start_guide
from heldout.store import Index, RunFolder
from heldout.worlds.tables.catalogue import CATALOGUE

__all__ = [
    "SPOILT",
    "STEPS",
    "TINY",
    "Knowing",
    "blobs",
    "lasting",
    "ledger_of",
    "only",
    "same_run",
    "shadow",
    "tiny",
    "transient_skills",
]

TINY: Mapping[str, Any] = {
    "tasks": {"train": 6, "select": 4, "audit": 4},
    "noise": {"tasks": 2, "simulations": 100},
    "search": {"generations": 3},
    "options": {"batch": 3},
    "improver": {"kind": "gso_parts:Knowing"},
}

SPOILT = "m1_task.md"
"""The module that the start of these runs has harm in, and no rule: nearly every task fails."""

_SHADOW: Mapping[str, Any] = {
    "tasks": {"grader": "heldout.studies.gso.shadow:shadow_grade"},
    "solver": {"harness": "heldout.studies.gso.shadow:ShadowHarness"},
    "executor": {"kind": "inline"},
}

STEPS = (
    "candidate",
    "noise.measured",
    "skill.round",
    "fault.attributed",
    "skill.edit",
    "skill.table",
    "decision",
    "track.moved",
    "selected",
    "audit",
    "retention",
)
"""Every kind of step, so that no phase is left out."""


def spoilt(folder: Path) -> Path:
    """A start guide with every rule of the world but those of one module, which has what does harm instead."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODULES:
        sentences = _sentences("harmful", "always") if name == SPOILT else _sentences("useful", module=name)
        (folder / name).write_text(_added(_without_rules(name), name, sentences))
    return folder


def _without_rules(name: str) -> str:
    texts = _sentences("useful", module=name)
    return "\n".join(line for line in start_guide()[name].splitlines() if not any(text in line for text in texts))


def _sentences(*kinds: str, module: str = SPOILT) -> list[str]:
    return [one.text for one in CATALOGUE if one.module == module and one.kind in kinds]


def _added(text: str, name: str, sentences: Iterable[str]) -> str:
    for sentence in sentences:
        text = with_policy(text, sentence, file=name)
    return text


class Knowing(SkillCatalog):
    """Blames the spoilt module. Of a guide it binds a name first, which is refused, and adds a sentence of no effect
    next; from the third round on it mends the module. Of a skill it says what the simulated editor says."""

    def attribute(self, view: FaultView) -> Attribution:
        del view
        return Attribution(step=0, stage="contract parsing", module=SPOILT, mechanism="it read the request wrongly")

    def edit(self, view: EditView) -> EditProposal:
        if view.target == "skill":
            return super().edit(view)
        before = view.head.files[SPOILT]
        edited = {
            1: _added(before, SPOILT, [f'The key column is "{view.forbidden[0]}".']),
            2: _added(before, SPOILT, _sentences("null")),
        }.get(view.round, _added(_without_rules(SPOILT), SPOILT, _sentences("useful")))
        return EditProposal(edits=(Edit(path=SPOILT, content=edited),), note=f"the edit of round {view.round}")


def tiny(start: Path, *layers: Mapping[str, Any], loop: str = "gso") -> RunConfig:
    """The smallest run that has everything, in the real harness and sandbox. `start`: where to write its guide."""
    own: list[Mapping[str, Any]] = [{"loop": loop}, TINY]
    if loop == "merged_patches":
        own.append({"options": {"examples": 1}})
    if loop == "gso":
        own.append({"solver": {"start": str(spoilt(start))}})
    base = preset(loop, "small")
    return load_config([base, *own, *layers])


def shadow(start: Path, *layers: Mapping[str, Any], loop: str = "gso") -> RunConfig:
    """The same decisions without a sandbox."""
    return tiny(start, _SHADOW, *layers, loop=loop)


def only(folder: RunFolder, kind: str) -> Mapping[str, Any]:
    (found,) = of_kind(folder, kind)
    return found


def same_run(a: RunFolder, b: RunFolder) -> None:
    """Heads, decisions, tables, retention and everything else that lasts; nothing paid twice, and nothing left out."""
    for kind in STEPS:
        assert lasting(a, kind) == lasting(b, kind), kind
    assert of_kind(a, "run.finished")[-1]["final"] == of_kind(b, "run.finished")[-1]["final"]
    outcomes = [{data["key"]: data.get("score") for data in of_kind(run, "outcome")} for run in (a, b)]
    assert outcomes[0] == outcomes[1]
    assert len(of_kind(b, "outcome")) == len(outcomes[1]), "work was paid twice"


def lasting(folder: RunFolder, kind: str) -> list[Any]:
    """Events of a kind, in order, without what depends on the clock."""
    return [_without_clock(data) for data in of_kind(folder, kind)]


def _without_clock(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_clock(item) for key, item in value.items() if key not in ("spend", "notes")}
    return [_without_clock(item) for item in value] if isinstance(value, list | tuple) else value


def ledger_of(folder: RunFolder) -> dict[str, Spend]:
    """What the journal says was paid for, by purpose."""
    with Index.open(folder.path) as index:
        return {row.purpose: row.spend for row in ledger_rows(index.connection)}


def blobs(folder: RunFolder) -> dict[str, dict[str, str]]:
    """Digest to files of everything that the run kept."""
    return {
        path.name: {str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file()}
        for path in folder.blobs.iterdir()
        if path.is_dir()
    }


def transient_skills(folder: RunFolder) -> dict[str, str]:
    """Outcome key to the digest of the skill that was written for it."""
    return {
        data["key"]: data["artifacts"]["SKILL.md"]
        for data in of_kind(folder, "outcome")
        if "SKILL.md" in data.get("artifacts", {})
    }
