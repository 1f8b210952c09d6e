"""Paired tests, intervals, noise, selection bias and sequential rules: pure functions on arrays, numpy only."""

from __future__ import annotations

from heldout.stats.components import (
    VarianceComponents,
    bayes_threshold,
    pool_components,
    shared_noise_posterior,
    variance_components,
)
from heldout.stats.distributions import beta_quantile, incomplete_beta, normal_quantile, t_quantile, t_tail
from heldout.stats.flips import (
    ConfirmedFlips,
    EditLabel,
    RepeatRates,
    confirmed_flips,
    edit_label,
    repeat_rates,
)
from heldout.stats.intervals import bootstrap_interval, conditional_odds_interval, wilson_interval
from heldout.stats.multiplicity import holm_adjusted, holm_divisors
from heldout.stats.noise import (
    audit_standard_error,
    expected_flips,
    flip_rate,
    noise_floor,
    repeat_flip_rate,
    tasks_to_decide,
)
from heldout.stats.paired import (
    EQUAL_WITHIN,
    MeanInterval,
    PairedCounts,
    PairedDifference,
    mcnemar_exact,
    mean_interval,
    mean_measured,
    paired_counts,
    paired_difference,
    paired_t_test,
    task_differences,
)
from heldout.stats.rank_agreement import PairAgreement, pair_agreement, spearman
from heldout.stats.repair_rates import confirmed_null_rate, null_accept_rate, repair_accept_rate, repair_power
from heldout.stats.retention import (
    RetentionEstimate,
    RetentionLabel,
    RoleScores,
    retention_label,
    retention_of,
    retention_refusal,
    robust_label,
)
from heldout.stats.selection import (
    CommittedOverstatement,
    committed_overstatement,
    expected_max_normal,
    selection_overstatement,
)
from heldout.stats.sequential import PaceDecision, ladder_accepts, pace_decision, pace_wealth

__all__ = [
    "EQUAL_WITHIN",
    "CommittedOverstatement",
    "ConfirmedFlips",
    "EditLabel",
    "MeanInterval",
    "PaceDecision",
    "PairAgreement",
    "PairedCounts",
    "PairedDifference",
    "RepeatRates",
    "RetentionEstimate",
    "RetentionLabel",
    "RoleScores",
    "VarianceComponents",
    "audit_standard_error",
    "bayes_threshold",
    "beta_quantile",
    "bootstrap_interval",
    "committed_overstatement",
    "conditional_odds_interval",
    "confirmed_flips",
    "confirmed_null_rate",
    "edit_label",
    "expected_flips",
    "expected_max_normal",
    "flip_rate",
    "holm_adjusted",
    "holm_divisors",
    "incomplete_beta",
    "ladder_accepts",
    "mcnemar_exact",
    "mean_interval",
    "mean_measured",
    "noise_floor",
    "normal_quantile",
    "null_accept_rate",
    "pace_decision",
    "pace_wealth",
    "pair_agreement",
    "paired_counts",
    "paired_difference",
    "paired_t_test",
    "pool_components",
    "repair_accept_rate",
    "repair_power",
    "repeat_flip_rate",
    "repeat_rates",
    "retention_label",
    "retention_of",
    "retention_refusal",
    "robust_label",
    "selection_overstatement",
    "shared_noise_posterior",
    "spearman",
    "t_quantile",
    "t_tail",
    "task_differences",
    "tasks_to_decide",
    "variance_components",
    "wilson_interval",
]
