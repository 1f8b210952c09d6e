"""Where an extra is not installed, the command that installs it is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from heldout.records import Spend

CODE = """
import sys
from pathlib import Path

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == {absent!r}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)

sys.meta_path.insert(0, Absent())
from heldout.errors import SetupError
from heldout.registry import load
from heldout.training import TRAINERS, Example, Provenance, TrainConfig, TrainingJob, Watch

example = Example(prompt='x', completion='y', provenance=Provenance(task='t', role='built'))
config = TrainConfig(method={method!r}, processes={processes})
job = TrainingJob(parent=Path('nowhere'), examples=(example,), config=config, seed=0, work=Path('work'))
trainer = load({backend!r}, among=TRAINERS, what='trainer')()
try:
    {ask}
except SetupError as error:
    print(error)
"""
FIT = "trainer.fit(job, Watch())"
SPENT = "print(trainer.spent(job))"


@pytest.mark.parametrize(
    ("backend", "absent", "method", "processes", "extra"),
    [
        ("transformers", "torch", "full", 1, "train"),
        ("transformers", "torch", "full", 2, "train"),
        ("trl", "torch", "full", 1, "train"),
        pytest.param("transformers", "peft", "lora", 1, "train", marks=pytest.mark.slow),
        pytest.param("trl", "trl", "full", 1, "trl", marks=pytest.mark.slow),
    ],
)
def test_a_missing_extra_is_told_with_the_command_that_mends_it(
    tmp_path: Path, backend: str, absent: str, method: str, processes: int, extra: str
) -> None:
    told = said(tmp_path, ask=FIT, absent=absent, method=method, processes=processes, backend=backend)
    assert f"{absent!r} is not installed" in told
    assert f"pip install 'heldout[{extra}]'" in told


@pytest.mark.parametrize(
    ("backend", "absent", "checkpoint"),
    [
        ("transformers", "torch", "checkpoint-0000050"),
        ("trl", "torch", "trl-abc"),
        pytest.param("trl", "trl", "trl-abc", marks=pytest.mark.slow),
    ],
)
def test_what_was_spent_needs_no_extra_where_there_is_no_checkpoint(
    tmp_path: Path, backend: str, absent: str, checkpoint: str
) -> None:
    words = {"ask": SPENT, "absent": absent, "method": "full", "processes": 1, "backend": backend}
    assert said(tmp_path, **words) == f"{Spend()}\n"
    (tmp_path / "work").mkdir()
    assert said(tmp_path, **words) == f"{Spend()}\n"
    (tmp_path / "work" / checkpoint).mkdir()
    assert f"{absent!r} is not installed" in said(tmp_path, **words)


def said(folder: Path, **words: object) -> str:
    """What a process prints in which a package is absent."""
    command = [sys.executable, "-c", CODE.format(**words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=True).stdout
