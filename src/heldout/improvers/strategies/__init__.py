"""Strategies of training: what is known to be tried, with what each source claims of it, as TOML files."""

from heldout.improvers.strategies.library import LIBRARIES, Library, Strategy, library_for, load_library

__all__ = ["LIBRARIES", "Library", "Strategy", "library_for", "load_library"]
