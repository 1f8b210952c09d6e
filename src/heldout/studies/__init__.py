"""Studies of the field: published results run again, with a verdict for every claim."""

from heldout.studies.base import REWRITERS, STUDIES, Rewriter, Study, load_rewriter, load_study
from heldout.studies.plots import Line, Plot, Spot, plot_svg
from heldout.studies.results import Claim, ClaimVerdict, Part, Provenance
from heldout.studies.tables import Cell, Estimate, Table, csv_text, markdown_text, mean_estimate, share_estimate

__all__ = [
    "REWRITERS",
    "STUDIES",
    "Cell",
    "Claim",
    "ClaimVerdict",
    "Estimate",
    "Line",
    "Part",
    "Plot",
    "Provenance",
    "Rewriter",
    "Spot",
    "Study",
    "Table",
    "csv_text",
    "load_rewriter",
    "load_study",
    "markdown_text",
    "mean_estimate",
    "plot_svg",
    "share_estimate",
]
