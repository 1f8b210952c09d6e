"""Fakes and contract tests, for our own tests and those of plug-in authors."""

from heldout.testing.fakes import FunctionModel, PlainHarness, keeps_failing
from heldout.testing.journal import MemoryJournal

__all__ = ["FunctionModel", "MemoryJournal", "PlainHarness", "keeps_failing"]
