"""Views of a loop over agents for the terminal: rounds, probes, the final selection, the method audit."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from heldout.report.numbers import count, interval, net, percent, points
from heldout.report.probe_use import ProbeUse, probe_use, probes_by_kind
from heldout.report.rounds import AgentHistory, AgentRound
from heldout.report.tables import plain_table
from heldout.report.untrusted import one_line

__all__ = ["agents_view"]


def agents_view(agents: AgentHistory) -> RenderableType:
    """What a person wants to see of the rounds at once; the page has the rest."""
    parts: list[RenderableType] = [_rounds(agents.rounds), _about_rounds(agents)]
    if agents.evidence:
        parts += [_probes(agents), _about_probes(agents)]
    if agents.selected is not None:
        parts += [_finalists(agents), _words(f"Rule: {one_line(agents.selected.rule)}.")]
    if agents.method_audit is not None or any(one.edited for one in agents.rounds):
        parts.append(_method(agents))
    return Group(*parts)


def _rounds(rounds: Sequence[AgentRound]) -> Table:
    table = plain_table(title="Rounds")
    for name in ("round", "edited", "verdict", "select %", "flips", "screen"):
        table.add_column(
            name, justify="right" if name == "round" else "left", overflow="fold", no_wrap=name != "edited"
        )
    for one in rounds:
        flips = one.flips
        table.add_row(
            str(one.number),
            Text("\n".join(_paths(one.paths)) or "-"),
            f"{one.verdict}\n{one.label}".rstrip(),
            "not measured" if flips is None else _levels(flips.score_before, flips.score_after),
            "-" if flips is None else f"+{len(flips.fixed)} −{len(flips.broken)}",
            " ".join(_nets(one)) or "-",
        )
    return table


def _paths(paths: Sequence[str], most: int = 4) -> list[str]:
    shown = [one_line(path, 60) for path in paths[:most]]
    return shown + ([f"and {len(paths) - most} more"] if len(paths) > most else [])


def _nets(one: AgentRound) -> list[str]:
    winner = None if one.screened is None else one.screened.winner
    return [net(value).replace("–", "-") + ("*" if place == winner else "") for place, value in enumerate(one.nets)]


def _levels(before: float | None, after: float | None) -> str:
    return f"{percent(before).removesuffix(' %')} to {percent(after).removesuffix(' %')}"


def _about_rounds(agents: AgentHistory) -> RenderableType:
    measured = [one.flips for one in agents.rounds if one.flips is not None]
    flaky, infra = (sum(len(getattr(one, name)) for one in measured) for name in ("flaky", "infra"))
    swept = [str(one.number) for one in agents.rounds if one.started is not None and one.started.swept]
    faults = [
        f"{one.number} ({len(one.smoke_faults)} times, the last by {one_line(one.smoke_faults[-1], 80)})"
        for one in agents.rounds
        if one.smoke_faults
    ]
    broken = [str(one.round) for one in measured if one.hooks_broken]
    words = [
        f"Flips are confirmed ones; {count(flaky)} more {'was' if flaky == 1 else 'were'} not confirmed, and "
        f"{count(infra)} had no second run. Screen: fixed minus broken of each proposal, * went on.",
        f"Train was swept anew in {_rounds_named(swept)}.",
        f"The mechanical checks refused submissions in {_rounds_named(faults)}." if faults else "",
        f"Hooks failed too often in {_rounds_named(broken)}." if broken else "",
    ]
    if agents.no_effect is not None:
        chance = agents.no_effect
        words.append(
            f"With nothing changed, about {chance.select_flips:.1f} of {count(chance.select_tasks)} select tasks would "
            "seem fixed after a round, and as many broken."
        )
    return _words(" ".join(one for one in words if one))


def _rounds_named(rounds: Sequence[str]) -> str:
    if not rounds:
        return "no round"
    return f"{'round' if len(rounds) == 1 else 'rounds'} {', '.join(rounds)}"


def _probes(agents: AgentHistory) -> Table:
    table = plain_table(title="Probes", show_footer=True)
    foot = _use(probe_use(agents.evidence, name="all"))
    names = ("kind", "run", "units", "supports", "refutes", "inconcl.", "none", "refused")
    for name, end in zip(names, foot, strict=True):
        table.add_column(name, end, justify="left" if name == "kind" else "right")
    for row in probes_by_kind(agents.evidence):
        table.add_row(*_use(row))
    return table


def _use(row: ProbeUse) -> list[str]:
    numbers = (row.run, row.units, row.supports, row.refutes, row.inconclusive, row.plain, row.refused)
    return [row.name, *map(count, numbers)]


def _about_probes(agents: AgentHistory) -> RenderableType:
    use = probe_use(agents.evidence)
    words = (
        f"{count(use.confirmed)} confirmed {'flip' if use.confirmed == 1 else 'flips'}, {count(use.unconfirmed)} "
        f"{'pass' if use.unconfirmed == 1 else 'passes'} not confirmed, {count(use.broken)} "
        f"{'canary' if use.broken == 1 else 'canaries'} broken."
    )
    if agents.no_effect is not None and use.drafts:
        words += (
            f" Supported drafts: {count(use.drafts_supported)} of {count(use.drafts)}; without any effect about "
            f"{agents.no_effect.supported(agents.evidence):.1f} would have been."
        )
    return _words(words)


def _finalists(agents: AgentHistory) -> Table:
    table = plain_table(title="Final selection")
    for name in ("after round", "recorded", "fresh", "compared by", ""):
        table.add_column(name, justify="right" if name else "left")
    for one in agents.selected.finalists if agents.selected else ():
        table.add_row(
            "start" if one.round == 0 else str(one.round),
            percent(one.journaled),
            "not run" if one.fresh is None else percent(one.fresh),
            percent(one.score),
            "chosen" if agents.selected is not None and one.digest == agents.selected.final else "",
        )
    return table


def _method(agents: AgentHistory) -> RenderableType:
    edits = [one.edited for one in agents.rounds if one.edited is not None]
    changed = sum(one.target != one.origin for one in edits)
    refused = sum(bool(one.faults) for one in edits)
    words = f"Method: edited after {changed} of {len(agents.rounds)} rounds, refused after {refused}."
    if agents.method_audit is not None:
        audit = agents.method_audit
        words += f" {one_line(audit.sentence)} Start method {points(audit.start_gain)}, final method "
        words += f"{points(audit.final_gain)}; difference {interval(audit.interval)} on {count(audit.n)} tasks."
    return _words(words)


def _words(text: str) -> RenderableType:
    return Padding(Text(text), (0, 0, 1, 1))
