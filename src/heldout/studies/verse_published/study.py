"""`heldout bench verse_published`: the released outcomes of VERSE, all pairs, with tasks as the unit."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from heldout.errors import SetupError
from heldout.studies.keeping import keep_part, timed, write_overview
from heldout.studies.page import page_text
from heldout.studies.results import Part
from heldout.studies.verse_published.claims import claims
from heldout.studies.verse_published.pairs import Contest, compare_all
from heldout.studies.verse_published.released import START, TEST_SETS, find_folder, read_released
from heldout.studies.verse_published.tables import gains_plot, noise_table, pairs_table, settings_table

__all__ = ["audit_released", "study"]

_TITLES = {"id": "in distribution", "ood": "out of distribution"}


def study(target: Path, *, quick: bool, only: str | None, command: str) -> list[Path]:
    """See `Study`. Parts are `id` and `ood`; the quick version is the whole study, which takes a second."""
    if only is not None and only not in TEST_SETS:
        raise SetupError(f"the study verse_published has no part {only!r}; there is {', '.join(TEST_SETS)}")
    folder = find_folder()
    written = []
    for name in TEST_SETS if only is None else (only,):
        done = timed(partial(audit_released, folder, name, quick=quick))
        written += keep_part(done, target, command=command)
    overview = write_overview(target, tuple(TEST_SETS), page=partial(page_text, "verse_published"))
    return list(dict.fromkeys([*written, *overview]))


def audit_released(folder: Path, test_set: str, *, quick: bool = False) -> Part:
    """One test set: levels, all pairs, noise and claims."""
    contest = compare_all(read_released(folder, test_set))
    return Part(
        id=test_set,
        title=f"nine settings {_TITLES[test_set]}",
        simulated=False,
        quick=quick,
        intro=_intro(contest),
        tables=(
            settings_table(contest, test_set),
            pairs_table(contest, test_set),
            noise_table(contest, test_set),
        ),
        claims=claims(contest, test_set),
        plots=(gains_plot(contest, test_set),),
        config_digests={one.name: one.sha256 for one in contest.settings.values()},
    )


def _intro(contest: Contest) -> str:
    one = contest.settings[START]
    tasks, repeats = one.scores.shape
    before = sum(pair.interval[0] > 0.0 or pair.interval[1] < 0.0 for pair in contest.pairs)
    after = sum(pair.corrected[0] > 0.0 or pair.corrected[1] < 0.0 for pair in contest.pairs)
    unmoved = [pair for pair in contest.pairs if pair.a.name == START and pair.b.selected_round == 0]
    return " ".join(
        [
            f"{tasks} tasks ({one.excluded} more could not be graded), {repeats} repeats each, averaged within a task.",
            f"Of {len(contest.pairs)} pairs {before} differ at 95 % before correction, and {after} after Holm's.",
            *(
                f"{pair.b.title} selected round 0, the state that it began with: where that is the start harness, its "
                f"{pair.gain:+.1f} ± {pair.standard_error:.1f} points over the start are noise alone.".replace("-", "−")
                for pair in unmoved
            ),
        ]
    )
