"""The page in a real browser: it renders from the file alone, on a phone's width too, and asks for nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_story import agent_run
from skill_story import skill_run
from training_story import training_run

from heldout.report import write_report
from heldout.store import RunFolder

CHROMIUM = shutil.which("chromium")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs apt-get install chromium")]


def browse(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += ["--no-first-run", "--disable-component-update", "--disable-sync", f"--user-data-dir={folder}/profile"]
    return subprocess.run([*command, *words], capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture(params=["prompts", "agents", "skills", "training"])
def page(request: pytest.FixtureRequest, make_run: Callable[..., RunFolder], tmp_path: Path) -> Path:
    runs = {
        "prompts": lambda: make_run(simulated=True),
        "agents": lambda: agent_run(tmp_path / "run"),
        "skills": lambda: skill_run(tmp_path / "run"),
        "training": lambda: training_run(tmp_path / "run"),
    }
    return write_report(runs[request.param]())


def test_the_browser_builds_the_whole_page(page: Path, tmp_path: Path) -> None:
    built = browse(tmp_path, "--dump-dom", page.as_uri()).stdout
    for section in ("change", "curve", "candidates", "noise", "audit", "cost", "repeat", "words"):
        assert f'id="{section}"' in built
    assert built.count("<svg") == page.read_text().count("<svg") > 2
    assert "SIMULATION" in built.upper()


@pytest.mark.parametrize("width", [1200, 360])
def test_a_picture_of_it_is_not_blank(page: Path, tmp_path: Path, width: int) -> None:
    picture = tmp_path / f"{width}.png"
    browse(tmp_path, f"--window-size={width},1600", "--hide-scrollbars", f"--screenshot={picture}", page.as_uri())
    blank = tmp_path / "blank.html"
    blank.write_text("<!doctype html><title>blank</title>")
    nothing = tmp_path / "blank.png"
    browse(tmp_path, f"--window-size={width},1600", "--hide-scrollbars", f"--screenshot={nothing}", blank.as_uri())
    assert picture.stat().st_size > 5 * nothing.stat().st_size


def test_the_page_names_no_address_that_a_browser_would_fetch(page: Path) -> None:
    text = page.read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!#)[^"']+""", text)
    assert "url(" not in text
    assert "@import" not in text
