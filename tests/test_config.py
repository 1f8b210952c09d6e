"""Configs: layers, overrides, and refusals that say what is allowed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heldout.config import (
    RunConfig,
    changed_keys,
    config_digest,
    load_config,
    merge,
    parse_overrides,
    read_toml,
)
from heldout.errors import SetupError
from heldout.records import digest_of


def test_the_command_line_wins_over_the_file_and_the_file_over_the_preset() -> None:
    layers = [{"tasks": {"select": 16, "train": 32}}, {"tasks": {"select": 64}}, parse_overrides(["tasks.select=100"])]
    tasks = load_config(layers).tasks
    assert (tasks.select, tasks.train) == (100, 32)


def test_overrides_read_numbers_lists_tables_and_plain_words() -> None:
    assert parse_overrides(["a.b=3", "a.c=true", "d=[1, 2]", "e=plain words", 'f="quoted"', "g.h=0.5"]) == {
        "a": {"b": 3, "c": True},
        "d": [1, 2],
        "e": "plain words",
        "f": "quoted",
        "g": {"h": 0.5},
    }


@pytest.mark.parametrize("word", ["noequals", "=3", "a..b=3"])
def test_a_word_that_is_no_override_is_refused(word: str) -> None:
    with pytest.raises(SetupError, match=r"is not key=value; for example tasks\.select=64"):
        parse_overrides([word])


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"taks": {}}, "taks: unknown key; allowed here: audit, budget"),
        ({"tasks": {"selct": 3}}, r"tasks\.selct: unknown key; allowed here: audit, duplicates"),
        ({"solver": {"model": {"temp": 1}}}, r"solver\.model\.temp: unknown key; allowed here: api_key_env"),
        ({"tasks": {"select": "many"}}, r"tasks\.select: .*integer.*got 'many'"),
        ({"tasks": {"select": 0}}, r"tasks\.select: .*greater than or equal to 1.*got 0"),
        ({"seed": -1}, r"seed: .*greater than or equal to 0.*got -1"),
        ({"gate": {"alpha": 1.5}}, r"gate\.alpha: .*less than 1"),
        ({"tasks": {"duplicates": "ignore"}}, r"tasks\.duplicates: .*'stop' or 'drop'"),
        ({"audit": {"oracle": "gold"}}, r"audit\.oracle names the role 'gold', and tasks\.reports has no such role"),
        ({"solver": {"model": {"url": "127.0.0.1:8000"}}}, r"solver\.model\.url: expected a url such as http"),
        ({"improver": {"model": {"names": "x"}}}, r"improver\.model\.names: unknown key"),
        ({"budget": {"prices": {"m": {"inputs": 1}}}}, r"budget\.prices\.m\.inputs: unknown key"),
    ],
)
def test_faults_name_the_key_and_what_is_allowed(layer: dict[str, object], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        load_config([layer])


@pytest.mark.parametrize("url", ["http://127.0.0.1/v1?api_key=SECRET", "http://me:SECRET@host/v1"])
def test_a_url_may_hold_no_secret_and_a_refusal_does_not_repeat_it(url: str) -> None:
    with pytest.raises(SetupError, match="keys come from the environment only") as caught:
        load_config([{"solver": {"model": {"url": url}}}])
    assert "SECRET" not in str(caught.value)


def test_every_fault_is_listed_at_once() -> None:
    with pytest.raises(SetupError) as caught:
        load_config([{"tasks": {"select": 0, "train": 0}}])
    assert str(caught.value).count("greater than or equal to 1") == 2


def test_toml_faults_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("a = = 1")
    with pytest.raises(SetupError, match=r"bad\.toml' is not valid TOML.*line 1"):
        read_toml(path)
    with pytest.raises(SetupError, match=r"cannot read the config .*No such file"):
        read_toml(tmp_path / "absent.toml")


def test_limits_and_executor_do_not_change_what_a_run_computes() -> None:
    base = RunConfig()
    other = load_config([{"budget": {"dollars": 3.0}, "executor": {"kind": "threads"}}])
    assert config_digest(base) == config_digest(other)
    assert changed_keys(base, other) == []


@pytest.mark.parametrize("part", ["solver", "gate"])
def test_options_that_are_not_used_leave_older_runs_their_identity(part: str) -> None:
    """Fields that came later: an empty table is no part of the digest, and a set one is."""
    content = json.loads(RunConfig().model_dump_json())
    del content["executor"], content["solver"]["options"], content["gate"]["options"]
    content["budget"] = {"prices": {}}
    assert config_digest(RunConfig()) == digest_of(content)
    used = load_config([{part: {"options": {"min_u": 2}}}])
    assert config_digest(used) != config_digest(RunConfig())
    assert changed_keys(RunConfig(), used) == [f"{part}.options: None -> {{'min_u': 2}}"]


def test_a_changed_key_is_named_with_both_values() -> None:
    changed = load_config([{"tasks": {"select": 16}, "budget": {"prices": {"m": {"input": 1.0}}}}])
    assert config_digest(RunConfig()) != config_digest(changed)
    lines = changed_keys(RunConfig(), changed)
    assert f"tasks.select: {RunConfig().tasks.select} -> 16" in lines
    assert any(line.startswith("budget.prices.m") for line in lines)


def test_merge_replaces_lists_and_scalars_and_merges_tables() -> None:
    assert merge({"a": {"x": 1, "y": [1]}, "b": 1}, {"a": {"y": [2]}, "b": {"z": 1}}) == {
        "a": {"x": 1, "y": [2]},
        "b": {"z": 1},
    }
