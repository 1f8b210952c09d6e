"""Where an extra is not installed, the command that installs it is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
try:
    load({backend!r}, among=TRAINERS, what='trainer')().fit(job, Watch())
except SetupError as error:
    print(error)
"""


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
    code = CODE.format(absent=absent, method=method, processes=processes, backend=backend)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True
    )
    assert f"{absent!r} is not installed" in done.stdout
    assert f"pip install 'heldout[{extra}]'" in done.stdout
