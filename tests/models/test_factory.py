"""From names to models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from heldout.config import ModelConfig
from heldout.errors import SetupError
from heldout.models import make_model
from heldout.models.openai_compatible import OpenAICompatibleModel


def test_a_short_name_may_carry_a_model() -> None:
    model = make_model(ModelConfig(name="openai:org/some:7b"))
    assert isinstance(model, OpenAICompatibleModel)
    assert model.name == "openai:org/some:7b"


def test_a_plug_in_is_found_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_models.py").write_text(
        "class Mine:\n    def __init__(self, config, **extra):\n        self.name, self.extra = config.name, extra\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    model = make_model(ModelConfig(name="my_models:Mine"), answer_key=1)
    assert (model.name, vars(model)["extra"]) == ("my_models:Mine", {"answer_key": 1})


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(SetupError, match="anthropic, local, openai, pocket, simulated, simulated_coder"):
        make_model(ModelConfig(name="gpt"))


def test_importing_the_package_imports_no_client() -> None:
    clients = ("openai", "anthropic", "httpx", "xllamacpp", "torch", "transformers")
    code = f"import heldout.models, sys; print([m for m in {clients!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
