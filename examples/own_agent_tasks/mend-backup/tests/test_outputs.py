import subprocess
from pathlib import Path

import pytest


@pytest.mark.parametrize("names", [["a.txt", "b/c.txt"], ["my notes.txt", "old things/2025 spring/list.txt"], []])
def test_every_file_is_copied(tmp_path, names):
    begin, end = tmp_path / "the source", tmp_path / "the copy"
    begin.mkdir()
    for name in names:
        (begin / name).parent.mkdir(parents=True, exist_ok=True)
        (begin / name).write_text(f"content of {name}")
    done = subprocess.run(
        ["bash", "/app/backup.sh", str(begin), str(end)], capture_output=True, timeout=20, check=False
    )
    assert done.returncode == 0
    copied = {str(path.relative_to(end)): path.read_text() for path in end.rglob("*") if path.is_file()}
    assert copied == {name: f"content of {name}" for name in names}


def test_it_is_still_a_script_of_its_own():
    assert Path("/app/backup.sh").read_text().startswith("#!")
