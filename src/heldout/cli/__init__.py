"""The command line: parse, call, print."""

from heldout.cli.app import app
from heldout.cli.main import main

__all__ = ["app", "main"]
