"""Heldout: a self-improvement workbench for LLM agents that tells the truth about the gain."""

__version__ = "0.1.0"
__all__ = ["__version__"]
