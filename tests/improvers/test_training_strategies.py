"""The libraries of strategies: what is in them, and what is wrong with a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_views import LIBRARY

from heldout.config import merge
from heldout.errors import SetupError
from heldout.improvers.strategies import LIBRARIES, library_for, load_library
from heldout.tasks.examples import BuildRequest
from heldout.training import TrainConfig
from heldout.training.builders import BUILDERS, load_builder
from heldout.worlds.formats.job import Fault


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_built_in_strategy_can_be_run(name: str) -> None:
    library = load_library(name)
    assert len(library.strategies) >= 3
    for strategy in library.strategies:
        assert strategy.recipe.builder in BUILDERS, strategy.id
        TrainConfig.model_validate(merge(TrainConfig().model_dump(), strategy.recipe.train))


def test_every_builder_takes_the_params_that_the_library_of_the_world_gives_it() -> None:
    for strategy in load_library("formats").strategies:
        request = BuildRequest(count=3, seed=1, params=strategy.recipe.params)
        assert isinstance(list(load_builder(strategy.recipe.builder)(request)), list), strategy.id


def test_the_library_of_the_world_covers_every_fault_and_has_the_bad_strategies_of_the_specification() -> None:
    library = load_library("formats")
    assert set(library.covers) == {fault.value for fault in Fault}
    bad = {"long_training", "paraphrase", "other_template", "no_end_token", "huge_rate", "leak_select"}
    assert bad <= {one.id for one in library.strategies}
    for fault in library.covers:
        assert sum(one.fit(fault) > 0.0 for one in library.strategies) >= 3, fault


def test_bad_strategies_report_gains_that_would_win_if_reports_were_believed() -> None:
    strategies = {one.id: one for one in load_library("formats").strategies}
    leak, wrapper = strategies["leak_select"], strategies["wrapper_data"]
    assert leak.reported_gain > wrapper.reported_gain
    assert leak.reproduces < wrapper.reproduces


def test_invented_figures_say_that_they_are_invented() -> None:
    for one in load_library("formats").strategies:
        assert one.source.startswith("formats catalogue (invented report)")
        assert one.reported_on.startswith("invented: ")
    assert all(one.reported_on.startswith("our estimate") for one in load_library("generic").strategies)


@pytest.mark.parametrize(
    ("codes", "name"),
    [
        (["stop", "wrapper"], "formats"),
        (["carry", "no answer", "count"], "formats"),
        (["wrong"], "generic"),
        (["no answer", "wrong", "stop"], "generic"),
        (["change_case:english_lowercase"], "generic"),
        ([], "generic"),
    ],
)
def test_the_library_follows_from_the_codes_of_the_failures(codes: list[str], name: str) -> None:
    assert library_for(codes) == name


def test_fits_takes_the_star_for_codes_that_are_not_named(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(LIBRARY, encoding="utf-8")
    alpha, beta, _ = load_library(str(path)).strategies
    assert (alpha.fit("wrapper"), alpha.fit("carry"), beta.fit("carry")) == (0.5, 0.0, 0.5)


BROKEN = {
    "empty": ('name = "x"', r"holds no \[\[strategy\]\]"),
    "a key of the file": (f"kind = 1\n{LIBRARY}", r"unknown key 'kind'; allowed are name, covers"),
    "a key of a strategy": (LIBRARY.replace('risk = "none"', "hours = 3"), r"strategy 1 \('alpha'\): hours: Extra"),
    "twice": (LIBRARY.replace('"beta"', '"alpha"'), r"two strategies have the id 'alpha'"),
    "fits": (LIBRARY.replace('"*" = 0.5', '"*" = 5'), r"strategy 2 \('beta'\).*from 0 to 1, got \{'\*': 5.0\}"),
    "certainty": (LIBRARY.replace("reproduces = 0.8", "reproduces = 1.0"), r"'gamma'\): reproduces: .*less than 1"),
    "no builder": (LIBRARY.replace('builder = "formats:wrapper"', ""), r"'gamma'.*neither a builder nor a script"),
    "a setting": (f"{LIBRARY}\n[strategy.recipe.train]\nstep = 3", r"'gamma'.*step"),
    "a key of training": (
        f"{LIBRARY}\n[strategy.recipe.train]\nstepz = 3",
        r"'gamma'\): recipe\.train\.stepz: Extra inputs are not permitted; "
        r"the keys of \[strategy\.recipe\.train\] are method, steps, batch, .*processes$",
    ),
    "a key of the optimiser": (
        f"{LIBRARY}\n[strategy.recipe.train.optimiser]\nrate = 3",
        r"recipe\.train\.optimiser\.rate: .*; "
        r"the keys of \[strategy\.recipe\.train\.optimiser\] are learning_rate, .*betas$",
    ),
    "a key of a recipe": (
        LIBRARY.replace("count = 100", "cuont = 100", 1),
        r"'alpha'\): recipe\.cuont: .*; "
        r"the keys of \[strategy\.recipe\] are builder, count, params, script, replay, train$",
    ),
    "a value of training": (
        f"{LIBRARY}\n[strategy.recipe.train]\nsteps = 0",
        r"'gamma'\): recipe\.train\.steps: Input should be greater than or equal to 1$",
    ),
    "data builders": (
        LIBRARY.replace("formats:wrapper", "formats:nope").replace("formats:mixture", "not_there:make"),
        r"names data builders that cannot be loaded\. strategy 'beta': .*cannot import 'not_there'.*; "
        rf"strategy 'gamma': no data builder 'formats:nope'; there is {', '.join(BUILDERS)}, or package",
    ),
    "no TOML": ("[[strategy", r"is not valid TOML"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_fault_of_a_users_library_is_told_with_its_place(kind: str, tmp_path: Path) -> None:
    text, fault = BROKEN[kind]
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SetupError, match=fault):
        load_library(str(path))


def test_builders_of_a_users_own_module_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_builders.py").write_text("def make(request):\n    return []\n", encoding="utf-8")
    path = tmp_path / "own.toml"
    path.write_text(LIBRARY.replace("formats:mixture", "own_builders:make"), encoding="utf-8")
    assert load_library(str(path)).strategies[1].recipe.builder == "own_builders:make"


def test_the_generic_library_says_its_own_numbers_and_not_how_they_compare_with_settings() -> None:
    for one in load_library("generic").strategies:
        assert "default" not in one.mechanism, one.id
        train = one.recipe.train
        if "steps" in train:
            assert f"{train['steps']} steps" in one.mechanism, one.id
        if "optimiser" in train:
            assert f"learning rate of {train['optimiser']['learning_rate']:.4f}" in one.mechanism, one.id


def test_unknown_libraries_and_ids_are_told_with_what_there_is() -> None:
    with pytest.raises(SetupError, match=r"no library of strategies 'nope'; there is formats, generic, or the path"):
        load_library("nope")
    with pytest.raises(SetupError, match=r"cannot read the library of strategies 'absent.toml'"):
        load_library("absent.toml")
    with pytest.raises(SetupError, match=r"'generic' has no strategy 'magic'; it has references, "):
        load_library("generic").narrowed(without=["magic"])


def test_narrowing_keeps_what_is_asked_for() -> None:
    library = load_library("generic")
    assert [one.id for one in library.narrowed(only=["adapters", "references"]).strategies] == [
        "references",
        "adapters",
    ]
    assert len(library.narrowed(without=["adapters"]).strategies) == len(library.strategies) - 1
