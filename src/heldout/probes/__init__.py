"""Experiments that verify a diagnosis, the trace minimiser and the failure ledger."""

from heldout.probes.base import Attribution, Laboratory, ProbeNoise, SignatureEntry, Suggestion, Trace
from heldout.probes.book import Book
from heldout.probes.claims import ClaimStatus, claim_status, inconsistencies
from heldout.probes.kit import ProbeKit, ProbeRound, ProbeSettings
from heldout.probes.laboratory import QueueLaboratory, run_episodes
from heldout.probes.ledger import FailureLedger, seen_in_sweep
from heldout.probes.minimise import Minimiser, MinimiserSettings
from heldout.probes.noise import FlipRates, measured_rates, probe_noise, rates_at_half
from heldout.probes.pool import ProbePool
from heldout.probes.replays import ReplayRunner
from heldout.probes.signatures import signature

__all__ = [
    "Attribution",
    "Book",
    "ClaimStatus",
    "FailureLedger",
    "FlipRates",
    "Laboratory",
    "Minimiser",
    "MinimiserSettings",
    "ProbeKit",
    "ProbeNoise",
    "ProbePool",
    "ProbeRound",
    "ProbeSettings",
    "QueueLaboratory",
    "ReplayRunner",
    "SignatureEntry",
    "Suggestion",
    "Trace",
    "claim_status",
    "inconsistencies",
    "measured_rates",
    "probe_noise",
    "rates_at_half",
    "run_episodes",
    "seen_in_sweep",
    "signature",
]
