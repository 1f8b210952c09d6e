"""Evidence styles: how an improver is shown what happened on train."""

from __future__ import annotations

from collections.abc import Mapping

from heldout import registry
from heldout.improvers.evidence.base import EvidenceReport, EvidenceSource, Materials, mean_turns, trace_text

__all__ = ["EVIDENCE", "EvidenceReport", "EvidenceSource", "Materials", "make_evidence", "mean_turns", "trace_text"]

EVIDENCE: Mapping[str, str] = {
    "clusters": "heldout.improvers.evidence.clusters:Clusters",
    "digest": "heldout.improvers.evidence.digest:Digest",
    "pull": "heldout.improvers.evidence.pull:Pull",
}
"""Short names of the built-in styles."""


def make_evidence(name: str) -> EvidenceSource:
    """The style that `name` means: a built-in or `package.module:Class`, called without arguments."""
    made: EvidenceSource = registry.load(name, among=EVIDENCE, what="evidence style")()
    return made
