"""The released per-task outcomes of VERSE (arXiv 2610.02616), audited with tasks as the unit."""

from heldout.studies.verse_published.pairs import Contest, Pair, compare_all
from heldout.studies.verse_published.released import HOSTS, SETTINGS, TEST_SETS, Released, read_released
from heldout.studies.verse_published.study import study

__all__ = [
    "HOSTS",
    "SETTINGS",
    "TEST_SETS",
    "Contest",
    "Pair",
    "Released",
    "compare_all",
    "read_released",
    "study",
]
