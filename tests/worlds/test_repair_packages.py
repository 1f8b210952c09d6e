"""The packages of the world `repair`: every promise of `Package`, on packages of every family, by running them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from package_trees import run_trees

from heldout.worlds.repair import Package, generate
from heldout.worlds.repair.draft import Case, domains
from heldout.worlds.repair.families import FAMILIES, OOD_FAMILIES
from heldout.worlds.repair.generator import domain_of, plant
from heldout.worlds.repair.rendering import reverts

EVERY = {**FAMILIES, **OOD_FAMILIES}
LAST_LINE = re.compile(r"^(\w+(?:Error|Exception): .*)$", re.MULTILINE)


def packages(count: int, *, seed: int = 0, nondeterminism: float = 0.15) -> list[Package]:
    return [
        generate(seed=seed, family=family, number=number, nondeterminism=nondeterminism)
        for family in EVERY
        for number in range(count)
    ]


def number_of(package: Package) -> int:
    return int(package.id.rpartition("-")[2])


def tree(package: Package, path: str = "", old: str = "", new: str = "") -> dict[str, str]:
    files = {**package.files, **package.hidden}
    if path:
        files[path] = files[path].replace(old, new)
    return files


def check_packages(made: Sequence[Package], *, seed: int = 0) -> None:
    """Run four trees of each package and compare with what it says of itself."""
    trees = []
    for package in made:
        trees.append(tree(package))
        trees.append(tree(package, package.target, package.broken, package.fixed))
        trees.append(tree(package, package.target, package.broken, package.partial))
        trees.append(tree(package, package.lookalike, package.lookalike_line, package.lookalike_change))
    results = run_trees(trees)
    assert len(results) == len(trees)
    for package, place in zip(made, range(0, len(trees), 4), strict=True):
        broken, fixed, partial, lookalike = results[place : place + 4]
        draft = plant(seed=seed, family=package.family, number=number_of(package)).draft
        where = f"{package.id} {draft.stems}"
        assert (broken["check"]["code"], fixed["check"]["code"], partial["check"]["code"]) == (1, 0, 1), where
        assert fixed["tests"] == {name(case): "" for case in draft.hidden}, where
        assert broken["tests"] == {name(case): case.broken for case in draft.hidden}, where
        assert partial["tests"] == {name(case): case.partial for case in draft.hidden}, where
        assert any(partial["tests"].values()), where
        fewer, more = (re.findall("^FAIL", result["check"]["output"], re.MULTILINE) for result in (partial, broken))
        assert 0 < len(fewer) < len(more) < len(draft.visible), where
        assert lookalike == broken, f"{where}: the package no longer works as badly as before"
        assert (len(broken["check"]["output"].encode()) > 6144) == package.loud, where
        assert len(fixed["check"]["output"].encode()) < 1024, where
        for result, said in ((broken, package.failure), (partial, package.partial_failure)):
            found = LAST_LINE.search(str(result["check"]["output"]))
            assert found is not None, where
            assert found[1].startswith(said), where


def name(case: Case) -> str:
    return "test_" + re.sub(r"\W+", "_", case.label)


@pytest.fixture(scope="module")
def made() -> list[Package]:
    return packages(40)


def test_broken_partial_mended_and_lookalike_behave_as_the_package_says() -> None:
    check_packages(packages(8))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_every_template_in_every_vocabulary_behaves_as_the_package_says(seed: int) -> None:
    made = packages(36, seed=seed)
    for family, mechanisms in EVERY.items():
        seen = {domain_of(seed=seed, family=family, number=number) for number in range(36)}
        assert len(seen) == len(domains()) == 12
        assert len(mechanisms) * 12 <= 36
    check_packages(made, seed=seed)


def test_fragments_stand_once_and_as_whole_lines(made: list[Package]) -> None:
    for package in made:
        lines = package.files[package.target].splitlines()
        assert package.files[package.target].count(package.broken) == 1, package.id
        assert set(package.broken.splitlines()) <= set(lines), package.id
        assert package.files[package.lookalike].splitlines().count(package.lookalike_line) == 1, package.id
        assert len({package.broken, package.fixed, package.partial}) == 3
        assert package.lookalike_line != package.lookalike_change
        assert package.solution[package.target] != package.files[package.target]


def test_the_search_finds_target_and_lookalike_and_nothing_else(made: list[Package]) -> None:
    for package in made:
        hits = {path for path, text in package.files.items() if package.search in text}
        assert hits == {package.target, package.lookalike}, package.id


def test_two_to_five_modules_a_check_a_formatter_and_a_read_me(made: list[Package]) -> None:
    for package in made:
        folder = package.target.split("/")[0]
        modules = {path for path in package.files if path.startswith(f"{folder}/")}
        assert 2 <= len(modules) <= 5, package.id
        assert package.lookalike in modules - {package.target}
        rest = package.files.keys() - modules - {".format_cache/entries.json"}
        assert rest == {"README.md", "check.py", "tools/format.py"}
        assert folder not in sys.stdlib_module_names


def test_nothing_of_the_mend_or_of_the_hidden_tests_is_in_the_work_folder(made: list[Package]) -> None:
    for package in made:
        everything = "\n".join(package.files.values())
        assert package.fixed not in everything, package.id
        assert not {path for path in package.files if "test" in path}
        (hidden,) = package.hidden.values()
        asserts = [line for line in hidden.splitlines() if line.strip().startswith("assert ")]
        assert len(asserts) >= 3
        assert not [line for line in asserts if line in everything], package.id


def test_a_report_has_60_to_150_words_and_names_no_module(made: list[Package]) -> None:
    for package in made:
        assert 60 <= len(package.issue.split()) <= 150, package.id
        folder = package.target.split("/")[0]
        stems = {Path(path).stem for path in package.files if path.startswith(f"{folder}/")} - {"__init__"}
        for word in (folder, *stems):
            assert not re.search(rf"\b{word}\b", package.issue, re.IGNORECASE), f"{package.id} names {word}"
        assert ".py" not in package.issue
        assert not re.search(r"[{}$]|\bline \d", package.issue), package.id
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiouAEIOU\W]", package.issue), package.id


def test_the_same_task_gives_the_same_package(made: list[Package]) -> None:
    generate.cache_clear()
    again = packages(40)
    assert again == made
    assert again[0] is not made[0]


def test_another_seed_gives_other_packages(made: list[Package]) -> None:
    other = packages(40, seed=1)
    assert len({package.issue for package in other} & {package.issue for package in made}) == 0


def test_nondeterminism_changes_flakiness_and_nothing_else() -> None:
    calm, wild = packages(10, nondeterminism=0.0), packages(10, nondeterminism=1.0)
    for one, other in zip(calm, wild, strict=True):
        assert (one.flaky, other.flaky) == (False, True)
        cache = {path for path in other.files if path not in one.files}
        assert cache == {".format_cache/entries.json"}
        assert {**asdict(other), "flaky": False, "files": one.files} == asdict(one)
        assert {path: text for path, text in other.files.items() if path not in cache} == one.files


def test_shares_of_loud_and_flaky_packages() -> None:
    many = packages(80)  # 880: standard errors 1.6 and 1.2 points
    assert sum(package.loud for package in many) / len(many) == pytest.approx(1 / 3, abs=0.06)
    assert sum(package.flaky for package in many) / len(many) == pytest.approx(0.15, abs=0.045)


def test_a_loud_check_hides_its_tracebacks_from_head_and_tail() -> None:
    loud = [package for package in packages(12) if package.loud]
    assert loud
    for result in run_trees([tree(package) for package in loud]):
        output = str(result["check"]["output"])
        assert "Traceback" not in output[:2048]
        assert not LAST_LINE.search(output[-2048:])
        assert "checks failed" in output[-100:]
        assert len(output.encode()) <= 12288


def run_formatter(folder: Path, target: str, *, seed: int) -> str:
    done = subprocess.run(
        [sys.executable, "tools/format.py", target],
        cwd=folder,
        env={**os.environ, "RUN_SEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("nondeterminism", [0.0, 1.0])
def test_a_flaky_formatter_puts_the_original_back_in_half_of_the_runs(tmp_path: Path, nondeterminism: float) -> None:
    package = generate(seed=0, family="stale-cache", number=1, nondeterminism=nondeterminism)
    for path, text in package.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    mended = package.solution[package.target]
    target = tmp_path / package.target
    for seed in (1, 2, 3, 4, 5, 6):
        target.write_text(mended.replace("\n", "  \n"))
        assert run_formatter(tmp_path, package.target, seed=seed) == f"formatted {package.target}\n"
        expected = package.files[package.target] if package.flaky and reverts(seed) else mended
        assert target.read_text() == expected
    assert {reverts(seed) for seed in (1, 2, 3, 4, 5, 6)} == {True, False}


def test_half_of_all_runs_revert() -> None:
    # 4,000 seeds: standard error 0.8 points.
    assert sum(reverts(seed) for seed in range(4000)) / 4000 == pytest.approx(0.5, abs=0.03)


def test_a_package_takes_less_than_two_milliseconds() -> None:
    best = 1.0
    for _ in range(3):
        generate.cache_clear()
        begun = time.process_time()
        made = packages(10)
        best = min(best, (time.process_time() - begun) / len(made))
    assert best < 0.002
