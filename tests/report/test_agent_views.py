"""Page and terminal of a loop over agents: complete, escaped, narrow enough, and quick."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from agent_story import Told, agent_run
from shown import printed, section
from test_report_html import read

from heldout.report import write_report
from heldout.store import Index, RunFolder

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}</style>\x1b[31m\u202e\x00\x07[bold]"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return agent_run(tmp_path_factory.mktemp("shown") / "run")


@pytest.fixture(scope="module")
def page(run: RunFolder) -> str:
    return write_report(run).read_text()


STORIES = {
    "whole": Told(),
    "void": Told(void=True),
    "unaudited": Told(audited=False),
    "running": Told(finished=False, rounds=2),
    "before round 1": Told(finished=False, rounds=0),
}


@pytest.mark.parametrize("told", STORIES.values(), ids=STORIES.keys())
def test_every_kind_of_run_gives_a_well_formed_page_and_a_summary(told: Told, tmp_path: Path) -> None:
    folder = agent_run(tmp_path / "run", told)
    text = write_report(folder).read_text()
    reader = read(text)
    links = {value for _, name, value in reader.attributes if name == "href"}
    assert links <= {f"#{value}" for _, name, value in reader.attributes if name == "id"}
    assert {"#rounds", "#probes", "#method", "#failures", "#selection"} <= links
    assert not re.search(r">\s*[+−]?(None|nan|inf)\b", text)
    assert "Rounds" in printed(folder)


def test_the_round_table_has_every_column(page: str) -> None:
    text = section(page, "rounds")
    assert "kept EFFECTIVE 40.0 % → 60.0 % 2 0 1 1 100.0 % 25.0 % +2 (went on) 0 reused" in text
    assert "2 harness_code/hooks.py invalid not measured – – – – – – +1 (went on) – swept anew" in text
    assert "reverted HARMFUL 60.0 % → 50.0 % 0 1 0 0" in text
    assert "With nothing changed, about 0.5 of 10 select tasks would seem fixed" in text
    assert "import os is still not allowed" in text
    assert "Edits without any effect would net +0.6 on average" in text


def test_probes_stand_beside_what_no_effect_would_show(page: str) -> None:
    text = section(page, "probes")
    assert "Supported drafts: 1 of 3. If none of them had any effect, about 0.5 would have been" in text
    assert "4 6 of 8 (1 reflecting)" in text, "4 probes, 6 of 2 × 4 units"
    assert "&#39;select-1&#39; is no train task" in page
    assert "A draft on 3 targets is supported 27.1 %" in text


def test_method_edits_are_shown_with_refusals_and_the_audit_apart(page: str) -> None:
    text = section(page, "method")
    assert text.startswith("What the improver changed in its own method It is undecided.")
    assert "After round 1: edited (notes.md)" in text
    assert "After round 3: refused (search.md)" in text
    assert "Refused: search.md names the task &#39;train-3&#39;" in page
    assert "4 skills/audit-4.md measured INERT" in text
    assert "audit-4" not in section(page, "rounds")
    assert "audit-4" not in section(page, "candidates")


def test_failures_have_hits_by_round_and_folded_commands(page: str) -> None:
    text = section(page, "failures")
    assert "signature status cause start round 2" in text
    assert re.search(r"AssertionError: &lt;n&gt; minimal commands .*\$ python check.py growing omission 2 3", text)
    assert "cat: &lt;path&gt; extinct unknown 2 –" in text


def test_the_final_selection_shows_recorded_and_fresh_scores(page: str) -> None:
    text = section(page, "selection")
    assert "Rule: highest fresh score." in text
    assert re.search(r"1 [0-9a-f]{12} 60.0 % 50.0 % 50.0 % chosen", text)
    assert "predicted flipped still failing passed before too regressed not measured 1 2 1 1 0 0 0" in text


def test_start_against_final_on_audit_and_report_roles_with_intervals(run: RunFolder, page: str) -> None:
    assert "−11.0 to +21.0" in section(page, "audit")
    assert "ood 8 25.0 % 37.5 % +12.5 −3.5 to +28.5 0" in section(page, "audit")
    lines = [re.sub(r"[\s|]+", " ", line).strip() for line in printed(run).splitlines()]
    assert "audit 20 10.0 % 15.0 % +5.0 -11.0 to +21.0 0" in lines
    assert "ood 8 25.0 % 37.5 % +12.5 -3.5 to +28.5 0" in lines


def test_the_terminal_names_rounds_probes_cost_and_the_simulation(run: RunFolder) -> None:
    text = printed(run)
    lines = [re.sub(r"[\s|]+", " ", line).strip() for line in text.splitlines()]
    assert text.lstrip().startswith("SIMULATION")
    assert "1 harness_code/hooks.py kept 40.0 to 60.0 +2 -0 +2* 0" in lines
    assert "tool_notes/shell.md EFFECTIVE" in lines
    assert "all 4 6 1 1 2 0 1" in lines
    assert "Supported drafts: 1 of 3; without any effect about 0.5" in " ".join(lines)
    assert any(line.startswith("reflect 0 4") for line in lines)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("terminal", [True, False])
def test_untrusted_text_neither_becomes_markup_nor_moves_the_terminal(tmp_path: Path, terminal: bool) -> None:
    folder = agent_run(tmp_path / "run", Told(says=HOSTILE))
    text = write_report(folder).read_text()
    reader = read(text)
    assert not {"script", "img"} & set(reader.tags)
    assert text.count("</style>") == 1
    assert "{{ 7 * 7 }}" in text
    for where in (text, printed(folder, terminal=terminal)):
        assert not set("\x1b\u202e\x00\x07") & set(where)
        assert "\\x1b[31m" in where
        assert "[bold]" in where or where is not text


def test_a_hundred_thousand_outcomes_of_agents_take_less_than_a_second(tmp_path: Path) -> None:
    """Of processor time, which is what it takes on a machine that does nothing else. The index, which other commands
    share, is built before the clock starts."""
    folder = agent_run(tmp_path / "run", Told(outcomes=100_000))
    Index.open(folder).close()
    taken = []
    for _ in range(3):
        begun = time.process_time()
        write_report(folder)
        taken.append(time.process_time() - begun)
    assert min(taken) < 1.0
