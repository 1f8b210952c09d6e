"""What a program reads of a loop over agents: the key `agents` of a run's JSON object."""

from __future__ import annotations

from collections.abc import Mapping

from heldout.records import Record
from heldout.report.probe_use import probe_use, probes_by_kind
from heldout.report.rounds import AgentHistory, AgentRound
from heldout.store.agent_events import Finalist

__all__ = ["AgentsJson", "MethodAuditJson", "ProbesJson", "RoundJson", "agents_json"]


class RoundJson(Record):
    """One round; what was not measured is null."""

    round: int
    verdict: str
    label: str
    edited: tuple[str, ...]
    select_before: float | None
    select_after: float | None
    fixed: int | None
    """Confirmed, like `broken`."""
    broken: int | None
    flaky: int | None
    infra: int | None
    coverage: float | None
    hook_error_rate: float | None
    swept: bool
    """Whether train was swept anew."""
    screen: tuple[int | None, ...]
    """Fixed minus broken of each proposal."""
    screen_winner: int | None
    """Index in `screen`."""
    smoke_faults: tuple[str, ...]
    method: str
    """`edited`, `refused`, `unchanged`, or empty where the improver did not reflect."""
    predictions: Mapping[str, str]
    """Train id to what became of the predicted fix."""


class ProbesJson(Record):
    """Every probe of the run."""

    run: int
    refused: int
    units: int
    units_by_kind: Mapping[str, int]
    supports: int
    refutes: int
    inconclusive: int
    confirmed: int
    unconfirmed: int
    canaries_broken: int
    drafts: int
    """Drafts that `fix_probe` ran."""
    drafts_supported: int
    drafts_supported_without_effect: float | None
    """How many would have been supported if none had any effect."""


class MethodAuditJson(Record):
    """One round under the start method, one under the final one."""

    start_gain: float | None
    final_gain: float | None
    difference: float | None
    interval: tuple[float, float] | None
    n: int


class AgentsJson(Record):
    """Rounds, probes, the final selection, the method audit."""

    rounds: tuple[RoundJson, ...]
    probes: ProbesJson
    recorded_gain: float | None
    """The final's select score when it was kept, minus the start's."""
    spurious_select_flips: float | None
    """Select tasks that would seem fixed after a round without any effect, and as many broken."""
    finalists: tuple[Finalist, ...]
    rule: str
    method_audit: MethodAuditJson | None


def agents_json(agents: AgentHistory, *, recorded_gain: float | None) -> AgentsJson:
    """The object; rates and gains are fractions of one."""
    audit, chosen = agents.method_audit, agents.selected
    return AgentsJson(
        rounds=tuple(_round(one) for one in agents.rounds),
        probes=_probes(agents),
        recorded_gain=recorded_gain,
        spurious_select_flips=None if agents.no_effect is None else agents.no_effect.select_flips,
        finalists=() if chosen is None else chosen.finalists,
        rule="" if chosen is None else chosen.rule,
        method_audit=None
        if audit is None
        else MethodAuditJson(**{name: getattr(audit, name) for name in MethodAuditJson.model_fields}),
    )


def _round(one: AgentRound) -> RoundJson:
    flips, edited = one.flips, one.edited
    method = "" if edited is None else "refused" if edited.faults else "edited"
    if edited is not None and not edited.faults and edited.origin == edited.target:
        method = "unchanged"
    return RoundJson(
        round=one.number,
        verdict=one.verdict,
        label=one.label,
        edited=one.paths,
        select_before=flips.score_before if flips else None,
        select_after=flips.score_after if flips else None,
        fixed=len(flips.fixed) if flips else None,
        broken=len(flips.broken) if flips else None,
        flaky=len(flips.flaky) if flips else None,
        infra=len(flips.infra) if flips else None,
        coverage=flips.coverage if flips else None,
        hook_error_rate=flips.hook_error_rate if flips else None,
        swept=one.started is not None and one.started.swept,
        screen=one.nets,
        screen_winner=one.screened.winner if one.screened else None,
        smoke_faults=one.smoke_faults,
        method=method,
        predictions=one.predictions or {},
    )


def _probes(agents: AgentHistory) -> ProbesJson:
    use = probe_use(agents.evidence)
    found = None if agents.no_effect is None else agents.no_effect.supported(agents.evidence)
    return ProbesJson(
        run=use.run,
        refused=use.refused,
        units=use.units,
        units_by_kind={row.name: row.units for row in probes_by_kind(agents.evidence)},
        supports=use.supports,
        refutes=use.refutes,
        inconclusive=use.inconclusive,
        confirmed=use.confirmed,
        unconfirmed=use.unconfirmed,
        canaries_broken=use.broken,
        drafts=use.drafts,
        drafts_supported=use.drafts_supported,
        drafts_supported_without_effect=found,
    )
