"""Pocket models: small language models that are made here, can be trained in seconds, and are served like any other."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from heldout.config import ModelConfig
from heldout.models.local_transformers import LocalTransformersModel
from heldout.training.pocket_folders import pocket_folder
from heldout.training.pocket_recipes import pocket_recipe

__all__ = ["PocketModel"]


class PocketModel(LocalTransformersModel):
    """`pocket:base` and `pocket:instruct`, whose checkpoints come with the package; `pocket:base-m` and other sizes
    are made on first use and kept in the cache."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        pocket_recipe(self._model_name)  # An unknown name is told before anything is made.

    def checkpoint(self) -> Path:
        """Folder of the start checkpoint, made where it is not there yet."""
        return self._folder_of_name

    @property
    def _model_name(self) -> str:
        return self.config.name.partition(":")[2] or "base"

    @cached_property
    def _folder_of_name(self) -> Path:
        return pocket_folder(self._model_name)
