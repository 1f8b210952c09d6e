"""What a program reads of a loop over skills: the key `skills` of a run's JSON object."""

from __future__ import annotations

from collections.abc import Mapping

from heldout.records import Record, Spend
from heldout.report.skill_arms import arms_of, learning_name
from heldout.report.skill_history import Chance, SkillHistory
from heldout.report.skill_rounds import SkillEdit, SkillRound
from heldout.report.skill_use import SkillUse, total_use
from heldout.report.summary import RunSummary
from heldout.store.agent_events import Finalist
from heldout.store.skill_events import FaultAttributed, Judged, Retention

__all__ = [
    "ArmJson",
    "ChanceJson",
    "FaultJson",
    "JudgeJson",
    "LearningJson",
    "SkillEditJson",
    "SkillRoundJson",
    "SkillUseJson",
    "SkillsJson",
    "skills_json",
]

JUDGE_NOTE = "computed after the audit; never used to accept"


class LearningJson(Record):
    """The audited gain, which is the run's bold number."""

    what: str
    """`learning: final − start guide`."""
    gain: float | None
    interval: tuple[float, float] | None


class ArmJson(Record):
    """One arm's mean on audit."""

    name: str
    audit: float | None


class FaultJson(Record):
    """One attribution; no stage where nothing can be learned."""

    task: str
    stage: str
    module: str | None
    mechanism: str
    error: str | None


class SkillEditJson(Record):
    """One edit; what was not measured is null."""

    edited: tuple[str, ...]
    note: str
    fate: str
    refused: str
    """Why it was not run; empty where it was."""
    utility: float | None
    repairs: float | None
    regressions: float | None
    n: int | None
    coverage: float | None
    repaired: tuple[str, ...]
    """Select ids."""
    broken: tuple[str, ...]
    missing: tuple[str, ...]
    unconfirmed: tuple[str, ...]


class SkillRoundJson(Record):
    """One round."""

    round: int
    verdict: str
    reason: str
    """The gate's sentence; empty without a decision."""
    batch: tuple[str, ...]
    failed: tuple[str, ...]
    missing: tuple[str, ...]
    faults: tuple[FaultJson, ...]
    edits: tuple[SkillEditJson, ...]
    spend: Spend


class ChanceJson(Record):
    """The gate's false accepts beside what it accepted."""

    false_accept_rate: float
    standard_error: float
    decided: int
    accepted: int
    expected: float
    """Acceptances, if none of the decided edits had any effect."""


class SkillUseJson(Record):
    """Episodes that counted skills."""

    episodes: int
    skill_calls: int
    skills: int
    faults_declared: int
    recoveries: int
    recovered: int


class JudgeJson(Record):
    """Scores of finished texts."""

    note: str
    judged: tuple[Judged, ...]
    agreement: str
    """Of its order with that of test scores, in words."""


class SkillsJson(Record):
    """Learning, retention, rounds, the final selection, skill calls, judge."""

    target: str
    learning: LearningJson
    arms: tuple[ArmJson, ...]
    """No skill, start, final."""
    retention: tuple[Retention, ...]
    """Gains over no skill on train and on a role, with an interval each; no arms where `refused` says why."""
    rounds: tuple[SkillRoundJson, ...]
    chance: ChanceJson | None
    recorded_gain: float | None
    """The final's select score when it was kept, minus the start's."""
    finalists: tuple[Finalist, ...]
    rule: str
    use: SkillUseJson
    use_by_purpose: Mapping[str, SkillUseJson]
    judge: JudgeJson


def skills_json(whole: RunSummary, skills: SkillHistory) -> SkillsJson:
    """The object; rates and gains are fractions of one."""
    chosen, audit = skills.selected, whole.audit
    return SkillsJson(
        target=skills.target,
        learning=LearningJson(
            what=learning_name(skills.name_of_start(whole.start.digest), skills.target),
            gain=whole.gains.audited,
            interval=audit.interval if audit else None,
        ),
        arms=tuple(ArmJson(name=one.name, audit=one.mean) for one in arms_of(whole, skills)),
        retention=skills.retentions,
        rounds=tuple(_round(one) for one in skills.rounds),
        chance=None if skills.chance is None else _chance(skills.chance),
        recorded_gain=whole.gains.recorded,
        finalists=() if chosen is None else chosen.finalists,
        rule="" if chosen is None else chosen.rule,
        use=_use(total_use(skills.use)),
        use_by_purpose={one.purpose: _use(one) for one in skills.use},
        judge=JudgeJson(note=JUDGE_NOTE, judged=skills.judged, agreement=skills.judge_agreement),
    )


def _round(one: SkillRound) -> SkillRoundJson:
    started, decided = one.started, one.decided
    return SkillRoundJson(
        round=one.number,
        verdict=one.state,
        reason=decided.decision.reason if decided else "",
        batch=started.batch if started else (),
        failed=started.failed if started else (),
        missing=started.missing if started else (),
        faults=tuple(_fault(fault) for fault in one.faults),
        edits=tuple(_edit(edit) for edit in one.edits),
        spend=one.spend,
    )


def _fault(fault: FaultAttributed) -> FaultJson:
    return FaultJson(**{name: getattr(fault, name) for name in FaultJson.model_fields})


def _edit(edit: SkillEdit) -> SkillEditJson:
    edited, table = edit.edited, edit.table
    return SkillEditJson(
        edited=edited.edited if edited else (),
        note=edited.proposal.note if edited else "",
        fate=edit.fate,
        refused=edit.why_not_run,
        utility=table.utility if table else None,
        repairs=table.repairs if table else None,
        regressions=table.regressions if table else None,
        n=table.n if table else None,
        coverage=table.coverage if table else None,
        repaired=edit.repaired,
        broken=edit.broken,
        missing=edit.missing,
        unconfirmed=table.unconfirmed if table else (),
    )


def _chance(chance: Chance) -> ChanceJson:
    return ChanceJson(
        false_accept_rate=chance.rate,
        standard_error=chance.standard_error,
        decided=chance.decided,
        accepted=chance.accepted,
        expected=chance.expected,
    )


def _use(use: SkillUse) -> SkillUseJson:
    return SkillUseJson(**{name: getattr(use, name) for name in SkillUseJson.model_fields})
