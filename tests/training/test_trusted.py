"""The hashes of trusted parts: whatever an attempt writes to grader, template, division or evaluator is named."""

from __future__ import annotations

import functools
import importlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import heldout
from heldout.config import TasksConfig
from heldout.errors import SetupError
from heldout.store.training_events import TrustedHash
from heldout.tasks import load_tasks
from heldout.training.trusted import TrustedParts, changed_parts, trusted_digests, trusted_hash

GRADER = "from rules import right\n\n\ndef grade(answer, reference):\n    return float(right(answer, reference))\n"
RULES = "import json\n\n\ndef right(answer, reference):\n    return answer == reference\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of Heldout's source."""
    copy = tmp_path_factory.mktemp("copy") / "heldout"
    shutil.copytree(Path(heldout.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    return copy


@pytest.fixture
def parts(tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrustedParts]:
    """A task set of the user's own: rows in a file, and a grader that imports its rules from beside it."""
    (tmp_path / "own_grader.py").write_text(GRADER)
    (tmp_path / "rules.py").write_text(RULES)
    rows = [{"id": f"t{n}", "input": f"question {n} {hash_of(n)}", "reference": "r"} for n in range(30)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.syspath_prepend(str(tmp_path))
    config = TasksConfig(
        source="jsonl", path=str(tmp_path / "tasks.jsonl"), grader="own_grader:grade", train=10, select=5, audit=5
    )
    yield TrustedParts(load_tasks(config), limits={"max_tokens": 32, "temperature": 0.0}, package=package)
    for name in ("own_grader", "rules"):
        sys.modules.pop(name, None)


def hash_of(number: int) -> str:
    """A text unlike the others."""
    return f"{number * 7919:b}" + "xyzvw"[number % 5] * (number + 3)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}, "padding": null}')
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')
    (folder / "chat_template.jinja").write_text("{{ messages }}<end>")
    (folder / "generation_config.json").write_text('{"eos_token_id": 4}')
    return folder


def changed(parts: TrustedParts, weights: Path, act: Callable[[], object]) -> tuple[str, ...]:
    """The parts that differ after `act`, by the event that the loop writes."""
    before = trusted_hash(parts, weights, round=3, moment="before")
    act()
    after = trusted_hash(parts, weights, round=3, moment="after", before=before)
    assert (before.changed, after.round, after.moment) == ((), 3, "after")
    return after.changed


def append(file: Path, text: str = "\n# changed\n") -> Callable[[], object]:
    return lambda: file.write_text(file.read_text() + text)


def test_nothing_is_changed_by_looking(parts: TrustedParts, weights: Path) -> None:
    assert changed(parts, weights, lambda: None) == ()
    names = {"grader", "template", "division", "limits", "evaluator", "gate", "checks"}
    assert set(trusted_digests(parts, weights)) == names


@pytest.mark.parametrize("name", ["own_grader.py", "rules.py"])
def test_invariant_2_a_changed_grader_of_the_users_own_is_named(
    parts: TrustedParts, weights: Path, tmp_path: Path, name: str
) -> None:
    assert changed(parts, weights, append(tmp_path / name)) == ("grader",)


def test_invariant_2_a_grader_that_no_longer_parses_or_is_gone_is_named(
    parts: TrustedParts, weights: Path, tmp_path: Path
) -> None:
    assert changed(parts, weights, append(tmp_path / "rules.py", "def (")) == ("grader",)
    assert changed(parts, weights, (tmp_path / "rules.py").unlink) == ("grader",)


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("worlds/formats/grading.py", ("grader",)),
        ("tasks/graders.py", ("division", "grader")),
        ("tasks/overlap.py", ("division",)),
        ("harness/completion.py", ("evaluator",)),
        ("models/sampling.py", ("evaluator",)),
        ("rollouts/engine.py", ("evaluator",)),
        ("gates/counting.py", ("gate",)),
        ("stats/paired.py", ("gate",)),
        ("training/preflight.py", ("checks",)),
        ("report/page.py", ()),
    ],
)
def test_invariant_2_a_changed_file_of_heldout_names_its_part(
    parts: TrustedParts, weights: Path, file: str, named: tuple[str, ...]
) -> None:
    path = parts.package / file
    text = path.read_text()
    try:
        assert changed(parts, weights, append(path)) == named
    finally:
        path.write_text(text)


def test_invariant_2_a_new_module_beside_trusted_ones_is_named(parts: TrustedParts, weights: Path) -> None:
    added = parts.package / "harness" / "sitecustom.py"
    try:
        assert changed(parts, weights, lambda: added.write_text("")) == ("evaluator",)
    finally:
        added.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("chat_template.jinja", "{{ messages }}"),
        ("tokenizer_config.json", '{"eos_token": "<pad>"}'),
        ("generation_config.json", '{"eos_token_id": [4, 5]}'),
        ("tokenizer.json", '{"model": {"vocab": {"b": 0}}, "padding": null}'),
        ("tokenizer.json", "{"),
    ],
)
def test_invariant_2_a_changed_template_is_named(parts: TrustedParts, weights: Path, file: str, text: str) -> None:
    assert changed(parts, weights, lambda: (weights / file).write_text(text)) == ("template",)


def test_a_tokenizer_that_was_saved_again_is_the_same_template(parts: TrustedParts, weights: Path) -> None:
    def save() -> None:
        (weights / "tokenizer.json").write_text(
            json.dumps({"padding": {"length": 8}, "model": {"vocab": {"a": 0}}}, indent=2)
        )
        (weights / "generation_config.json").write_text('{"eos_token_id": 4, "transformers_version": "6"}')

    assert changed(parts, weights, save) == ()


def test_the_childs_template_is_compared_with_the_parents(parts: TrustedParts, weights: Path, tmp_path: Path) -> None:
    child = tmp_path / "child"
    shutil.copytree(weights, child)
    before = trusted_hash(parts, weights, round=0, moment="before")
    assert trusted_hash(parts, child, round=0, moment="after", before=before).changed == ()
    (child / "chat_template.jinja").write_text("other")
    assert trusted_hash(parts, child, round=0, moment="after", before=before).changed == ("template",)
    (child / "chat_template.jinja").unlink()
    assert trusted_hash(parts, child, round=0, moment="after", before=before).changed == ("template",)


def test_invariant_2_changed_tasks_on_disk_are_named(parts: TrustedParts, weights: Path, tmp_path: Path) -> None:
    assert changed(parts, weights, append(tmp_path / "tasks.jsonl", "\n")) == ("division",)


def test_invariant_2_another_division_and_other_limits_are_named(parts: TrustedParts, weights: Path) -> None:
    before = trusted_digests(parts, weights)
    fewer = load_tasks(parts.tasks.config.model_copy(update={"select": 4}))
    assert changed_parts(before, trusted_digests(replace(parts, tasks=fewer), weights)) == ("division",)
    longer = replace(parts, limits={"max_tokens": 33, "temperature": 0.0})
    assert changed_parts(before, trusted_digests(longer, weights)) == ("limits",)


def test_invariant_2_a_harness_of_the_users_own_belongs_to_the_evaluator(
    parts: TrustedParts, weights: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "own_parts"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "harness.py").write_text("from . import limits\nfrom .deep.more import x\n\nclass Own:\n    pass\n")
    (folder / "limits.py").write_text("")
    (folder / "deep").mkdir()
    (folder / "deep" / "__init__.py").write_text("")
    (folder / "deep" / "more.py").write_text("x = 1\n")
    (folder / "unrelated.py").write_text("")
    try:
        own: Any = importlib.import_module("own_parts.harness").Own
        for plug_in in (own(), own, functools.partial(own)):
            using = replace(parts, plug_ins=(plug_in,))
            for name in ("harness.py", "limits.py", "deep/more.py", "__init__.py"):
                assert changed(using, weights, append(folder / name)) == ("evaluator",), name
            assert changed(using, weights, append(folder / "unrelated.py")) == ()
        assert changed(parts, weights, append(folder / "harness.py")) == ()
    finally:
        for name in [name for name in sys.modules if name.startswith("own_parts")]:
            del sys.modules[name]


def test_parts_of_libraries_do_not_drag_their_whole_neighbourhood_in(parts: TrustedParts, weights: Path) -> None:
    """A plug-in that is installed counts with its own package only."""
    using = replace(parts, plug_ins=(json.dumps, pytest.fixture))
    assert changed(using, weights, lambda: None) == ()


def test_an_event_of_another_version_with_other_parts_counts_as_changed(parts: TrustedParts, weights: Path) -> None:
    before = TrustedHash(round=0, moment="before", digests=dict(trusted_digests(parts, weights)) | {"gone": "x"})
    assert trusted_hash(parts, weights, round=0, moment="after", before=before).changed == ("gone",)


def test_adapters_take_the_template_of_what_they_adapt(parts: TrustedParts, weights: Path, tmp_path: Path) -> None:
    adapters = tmp_path / "adapters"
    adapters.mkdir()
    (adapters / "adapter_config.json").write_text("{}")
    (adapters / "base.json").write_text(json.dumps({"base": weights.name}))
    before = trusted_hash(parts, weights, round=0, moment="before")
    assert trusted_hash(parts, adapters, round=0, moment="after", before=before).changed == ()
    (adapters / "base.json").write_text('{"base": "elsewhere"}')
    with pytest.raises(SetupError, match="the weights 'elsewhere' that they adapt are not there"):
        trusted_hash(parts, adapters, round=0, moment="after", before=before)
