"""Readers of published data in its published file formats; the data is the user's."""

from heldout.benchmarks.banking77 import Banking77Source
from heldout.benchmarks.gsm8k import Gsm8kSource
from heldout.benchmarks.harbor import HarborSource
from heldout.benchmarks.spreadsheetbench import SpreadsheetBenchSource
from heldout.benchmarks.swe import SweSource
from heldout.benchmarks.trec import TrecSource, trec6, trec50

__all__ = [
    "Banking77Source",
    "Gsm8kSource",
    "HarborSource",
    "SpreadsheetBenchSource",
    "SweSource",
    "TrecSource",
    "trec6",
    "trec50",
]
