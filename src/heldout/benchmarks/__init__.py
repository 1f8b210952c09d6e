"""Readers of published data in its published file formats; the data is the user's."""

from heldout.benchmarks.aime import AimeSource, Amc23Source
from heldout.benchmarks.banking77 import Banking77Source
from heldout.benchmarks.gsm8k import Gsm8kSource
from heldout.benchmarks.harbor import HarborSource
from heldout.benchmarks.humaneval import HumanevalSource
from heldout.benchmarks.ifeval import IfevalSource
from heldout.benchmarks.math500 import Math500Source
from heldout.benchmarks.minerva_math import MinervaMathSource
from heldout.benchmarks.spreadsheetbench import SpreadsheetBenchSource
from heldout.benchmarks.swe import SweSource
from heldout.benchmarks.trec import TrecSource, trec6, trec50

__all__ = [
    "AimeSource",
    "Amc23Source",
    "Banking77Source",
    "Gsm8kSource",
    "HarborSource",
    "HumanevalSource",
    "IfevalSource",
    "Math500Source",
    "MinervaMathSource",
    "SpreadsheetBenchSource",
    "SweSource",
    "TrecSource",
    "trec6",
    "trec50",
]
