"""The command line: parse, call, print."""

from heldout.cli.app import app, main

__all__ = ["app", "main"]
