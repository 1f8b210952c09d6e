"""Part (d): what a content judge knows of finished artifacts, and of single edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from heldout.improvers.skill_texts import holds, with_policy
from heldout.records import Candidate
from heldout.skills.guide import start_guide
from heldout.skills.judge import RuleJudge
from heldout.stats import pair_agreement, spearman
from heldout.studies.gso.arms import ARMS, FROM_RULES, RIVALS, World, available, run_config
from heldout.studies.gso.bench import Bench
from heldout.studies.gso.claims import ABOVE, claim_of
from heldout.studies.gso.measuring import Yard
from heldout.studies.gso.summaries import ArmRuns, audit, exact_audit, known
from heldout.studies.results import Claim, Part
from heldout.studies.tables import Cell, Table
from heldout.worlds.tables.catalogue import CATALOGUE, CatalogueEdit, edit_text

__all__ = ["ARTIFACTS", "EVERY", "edit_ranks", "finished_ranks", "judge_claim", "judging"]

ARTIFACTS = (*RIVALS, "gso", "gso, any module", "gso, R > B", "gso, u ≥ 2")
"""Arms whose finals are judged; one that ends without a skill has no text, and is left out in that world."""

EVERY = (*ARTIFACTS, FROM_RULES, "gso, judge alone", "gso's rules as one skill")
"""All arms with a final text of their own, that which the judge itself chose among them: shown, not claimed on."""

Arms = Mapping[str, ArmRuns]

_NOTHING = float("nan")


def judging(bench: Bench) -> Part:
    """Rank agreement on finals and on edits, claim C7."""
    arms = bench.run(available({name: ARMS[name] for name in EVERY}))[World()]
    return Part(
        id="d",
        title="A content judge",
        simulated=True,
        quick=bench.plan.quick,
        intro=(
            "The rule judge scores texts by the rubric (generalizability 30 %, applicability, executability and "
            "robustness 20 % each, clarity 10 %) and knows no score of any run. It is our own and reads marks of "
            "wording. Its lists of words were tuned while looking at the start guide and at the full guide of this "
            "world, so that C7 on `tables` is no independent test of a judge, but a mechanism alone: nothing of it "
            "carries over to a language model as a judge. The arm `gso, judge alone` of part a shows it as "
            "a gate, and the last table here what it says of every sentence that an editor has."
        ),
        tables=(_finals(arms), _agreement(arms), _catalogue(bench)),
        claims=(judge_claim(arms),),
        seeds=bench.plan.seeds,
        config_digests={name: runs.config_digest for name, runs in arms.items()},
    )


def judge_claim(arms: Arms) -> Claim:
    """C7: Spearman's correlation of judge and audit over finals, minus that of judge and select over edits."""
    finals, edits = finished_ranks(arms), edit_ranks(arms["gso"])
    number = known(finals - edits, scale=1.0, unit=2.0)
    first, second = known(finals, scale=1.0), known(edits, scale=1.0)
    true = known(edit_ranks(arms["gso"], true=True), scale=1.0)
    every = known(finished_ranks(arms, EVERY), scale=1.0)
    sentence = (
        f"Within a world, Spearman's correlation of the judge's total with the measured audit score of finals is "
        f"{first.value:.2f} ({first.low:.2f} to {first.high:.2f}); that of the change of the total with the measured "
        f"change on select of gso's single edits is {second.value:.2f} ({second.low:.2f} to {second.high:.2f}), and "
        f"{true.value:.2f} with the exact change. Over the finals of all arms, that which the judge itself chose among "
        f"them, it is {every.value:.2f} ({every.low:.2f} to {every.high:.2f}). No independent test: the judge's lists "
        "of words were tuned while looking at the start guide and the full guide."
    )
    counted = int(np.isfinite(finals - edits).sum())
    rests_on = f"difference of two rank correlations, paired over {counted} seeds"
    return claim_of("C7", "d", ABOVE.verdict(number.interval), rests_on, number, sentence)


def finished_ranks(arms: Arms, names: Sequence[str] = ARTIFACTS) -> NDArray[np.float64]:
    """Spearman's correlation of judge and measured audit over the finals of each seed; NaN where there is none."""
    judged, scored = _judged(arms, names), _scored(arms, names)
    return np.array([_rank(judged[:, seed], scored[:, seed]) for seed in range(judged.shape[1])])


def edit_ranks(runs: ArmRuns, *, true: bool = False) -> NDArray[np.float64]:
    """The same of single edits: changes of the judge's total and of the measured select mean, or of the exact one."""
    return np.array(
        [
            _rank(
                np.array([edit.judged for edit in one.seen]),
                np.array([edit.true if true else edit.measured for edit in one.seen]),
            )
            for one in runs.results
        ]
    )


def _rank(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    found = spearman(first, second)
    return _NOTHING if found is None else found


def _judged(arms: Arms, names: Sequence[str]) -> NDArray[np.float64]:
    """Shape (arms, seeds), NaN without a text."""
    return np.array(
        [
            [_NOTHING if one.judged is None else one.judged for one in arms[name].results]
            for name in names
            if name in arms
        ]
    )


def _scored(arms: Arms, names: Sequence[str]) -> NDArray[np.float64]:
    return np.array([arms[name].values(audit) for name in names if name in arms])


def _finals(arms: Arms) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, runs in arms.items():
        totals = [one.judged for one in runs.results if one.judged is not None]
        if totals:
            rows.append(
                (
                    *(name, len(totals), float(np.mean(totals))),
                    *(runs.known(audit).estimate, runs.known(exact_audit).estimate),
                )
            )
    return Table(
        name="judged",
        title="Finals, as the judge and as the audit score them",
        note="A simulation. `judge`: total, 1 to 5, mean over the seeds whose final has a text; scores in percent.",
        columns=("arm", "texts", "judge", "audit", "exact audit"),
        rows=tuple(sorted(rows, key=lambda row: -float(row[2] or 0.0))),  # type: ignore[arg-type]
    )


def _catalogue(bench: Bench) -> Table:
    """What the judge, and the truth, say of every sentence of the catalogue in the start guide."""
    yard = Yard(run_config(ARMS["gso"], World(), bench.plan.sizes, seed=bench.plan.first_seed), recovery=True)
    start, judge, jobs = start_guide(), RuleJudge(), yard.roles.jobs["audit"]
    judged, true = judge.judge(Candidate(files=start)).total or 0.0, yard.rate(Candidate(files=start), jobs)
    rows: list[tuple[Cell, ...]] = []
    for kind in ("useful", "null", "harmful", "literal", "always"):
        edits = [_edited(start, edit) for edit in CATALOGUE if edit.kind == kind]
        edits = [edit for edit in edits if edit.files != start]
        changes = [(judge.judge(edit).total or 0.0) - judged for edit in edits]
        rates = [100.0 * (yard.rate(edit, jobs) - true) for edit in edits]
        counts = (sum(one > 0.0 for one in changes), sum(one < 0.0 for one in changes))
        rows.append((kind, len(edits), *counts, float(np.mean(changes)), float(np.mean(rates))))
    return Table(
        name="catalogue",
        title="What the judge says of every sentence",
        note=(
            "A simulation. Each sentence of the catalogue that the start guide lacks, added to it alone; a trap by "
            "name with the name of no task. `judge`: mean change of its total; `exact`: mean change of the exact audit "
            "rate in the first world, in points. A judge that knows bad sentences from good ones is a good gate here, "
            "for the catalogue's sentences show what they do, which the edits of a language model need not."
        ),
        columns=("kind", "sentences", "judged better", "judged worse", "judge", "exact"),
        rows=tuple(rows),
    )


def _edited(guide: Mapping[str, str], edit: CatalogueEdit) -> Candidate:
    text = edit_text(edit, {edit.part: "Elsewhere"} if edit.part is not None else {}) or edit.text
    held = guide[edit.module]
    return Candidate(
        files=guide if holds(held, text) else {**guide, edit.module: with_policy(held, text, file=edit.module)}
    )


def _finals_row(says: str, arms: Arms, names: Sequence[str]) -> tuple[Cell, ...]:
    judged, scored = _judged(arms, names), _scored(arms, names)
    count, seeds = judged.shape
    groups = [str(seed) for _ in range(count) for seed in range(seeds)]
    finals = pair_agreement(judged.ravel(), scored.ravel(), groups=groups)
    ranks = known(finished_ranks(arms, names), scale=1.0)
    return says, finals.agree, finals.disagree, finals.ties, ranks.value, ranks.low, ranks.high


def _agreement(arms: Arms) -> Table:
    rows: list[tuple[Cell, ...]] = [
        _finals_row("finals against audit", arms, ARTIFACTS),
        _finals_row("finals of all arms against audit", arms, EVERY),
    ]
    edits = [(str(one.seed), edit) for one in arms["gso"].results for edit in one.seen]
    for says, true in (("gso's edits against measured select", False), ("gso's edits against the exact change", True)):
        found = pair_agreement(
            [edit.judged for _, edit in edits],
            [edit.true if true else edit.measured for _, edit in edits],
            groups=[seed for seed, _ in edits],
        )
        one = known(edit_ranks(arms["gso"], true=true), scale=1.0)
        rows.append((says, found.agree, found.disagree, found.ties, one.value, one.low, one.high))
    return Table(
        name="agreement",
        title="Does the judge put things in the right order?",
        note=(
            "A simulation. Pairs within a world, all seeds together; a tie is equal in at least one of the two scores. "
            "Spearman's correlation within a world, mean over seeds with its 95 % t interval. `all arms`: with the "
            "arm that the judge itself decides, the persistent skill from the start guide's rules, and gso's rules as "
            "one skill; the claim rests on the row above. In the paper: 108 of 126 "
            "pairs of finished artifacts agree, 8 disagree, 10 are ties; single edits have 0.39 (21 of Spreadsheet) "
            "and about 0 (24 of RBio)."
        ),
        columns=("what is ordered", "agree", "disagree", "ties", "Spearman", "low", "high"),
        rows=tuple(rows),
    )
