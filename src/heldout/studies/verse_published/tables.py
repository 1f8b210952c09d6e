"""Tables and plot of one test set."""

from __future__ import annotations

import numpy as np

from heldout.stats import mean_measured
from heldout.studies.plots import Line, Plot, Spot
from heldout.studies.tables import Cell, Estimate, Table, mean_estimate
from heldout.studies.verse_published.noise import FAILING, PASSING, SELECT, TARGETS, setting_noise
from heldout.studies.verse_published.pairs import Contest
from heldout.studies.verse_published.released import HOSTS, START

__all__ = ["gains_plot", "noise_table", "pairs_table", "settings_table"]


def settings_table(contest: Contest, test_set: str) -> Table:
    """Levels: our standard error over tasks beside the stated one over repeats."""
    rows = []
    for one in contest.settings.values():
        means = mean_measured(one.scores)
        solved = [int(np.sum(means == value)) for value in (1.0, 0.0)]
        rows.append(
            (
                *(one.title, "–" if one.selected_round is None else str(one.selected_round)),
                *(mean_estimate(means), one.mean, one.sem),
                *(solved[0], len(means) - sum(solved), solved[1]),
            )
        )
    return Table(
        name=f"{test_set}_settings",
        title="Settings",
        note=(
            "Percent solved. `mean` has our standard error over tasks; `stated SEM` is the paper's, over the three "
            "repeats of one artifact: how well the mean of *these* tasks is known, which is no error of a comparison."
        ),
        columns=("setting", "round", "mean", "stated mean", "stated SEM", "always solved", "sometimes", "never"),
        rows=tuple(rows),
    )


def pairs_table(contest: Contest, test_set: str) -> Table:
    """All pairs, B minus A, before and after correction."""
    rows = tuple(
        (
            *(one.a.title, one.b.title, Estimate(value=one.gain, standard_error=one.standard_error)),
            *(*one.interval, one.repeats_error, one.result.fixed, one.result.broken),
            *(100.0 * one.p_value, 100.0 * one.holm_p, one.interval[0] > 0 or one.interval[1] < 0, one.holm_p <= 0.05),
        )
        for one in contest.pairs
    )
    return Table(
        name=f"{test_set}_pairs",
        title="All pairs",
        note=(
            "B minus A in points, ± standard error over tasks; `low` and `high` are the 95 % interval before "
            "correction. `repeats SE` is the root of the sum of the two stated SEMs squared. `Holm p` is adjusted for "
            f"all {len(rows)} pairs of this test set; both p-values are percents."
        ),
        columns=(
            *("A", "B", "gain", "low", "high", "repeats SE", "fixed", "broken"),
            *("p, %", "Holm p, %", "differ before", "differ after"),
        ),
        rows=rows,
    )


def noise_table(contest: Contest, test_set: str) -> Table:
    """Each setting against itself."""
    rows: list[tuple[Cell, ...]] = []
    for one in contest.settings.values():
        noise = setting_noise(one)
        percents = (noise.disagreement, noise.pass_once, noise.pass_twice, noise.support_once, noise.support_twice)
        first, *rest = (100.0 * value for value in percents)
        rows.append((one.title, first, noise.flips, noise.confirmed, *rest, noise.screen, noise.best_screen))
    return Table(
        name=f"{test_set}_noise",
        title="The same harness again",
        note=(
            "What an edit without any effect would show. `disagree`: percent of tasks on which two runs differ; "
            f"`flips` of {SELECT} select tasks, and how many of them one further run confirms. `pass again`: percent "
            "chance that a failing target passes once, or twice. `support`: that at least one of "
            f"{TARGETS} targets does. `screen`: expected fixed minus broken on {FAILING} failing and {PASSING} passing "
            "tasks, and for the best of three candidates."
        ),
        columns=(
            *("setting", "disagree", "flips", "confirmed", "pass again", "twice", "support", "support, confirmed"),
            *("screen", "best of 3 screens"),
        ),
        rows=tuple(rows),
    )


def gains_plot(contest: Contest, test_set: str) -> Plot:
    """VERSE against its host, and against the start."""
    places = {host: contest.settings[host].title for host in HOSTS}
    lines = []
    for name, against in (("over its host", None), ("over the start", START)):
        pairs = {host: contest.of(verse, against or host) for host, verse in HOSTS.items()}
        spots = tuple(
            Spot(x=places[host], y=one.gain, standard_error=one.standard_error) for host, one in pairs.items()
        )
        lines.append(Line(name=name, spots=spots, joined=False))
    where = "in distribution" if test_set == "id" else "out of distribution"
    return Plot(
        name=f"{test_set}_gains",
        title=f"VERSE {where}: gain with 95 % interval over tasks, not corrected",
        x_label="host",
        y_label="points",
        xs=tuple(places.values()),
        lines=tuple(lines),
    )
