"""Generated tasks and the programs that do them: what is wrong is always seen, and nothing else is."""

from __future__ import annotations

import pickle
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest

from heldout.sandbox import make_sandboxes
from heldout.tasks.environment import changes_answer
from heldout.worlds.tables import (
    FAMILIES,
    OOD_FAMILIES,
    Job,
    TablesSource,
    carried_out,
    grade,
    job_of,
    make_job,
    program,
    read_origin,
)
from heldout.worlds.tables.draft import draft_of, result_of
from heldout.worlds.tables.parts import Part

EVERY = (*FAMILIES, *OOD_FAMILIES)
ALWAYS = {Part.OUTPUTS, Part.COLUMNS, Part.OPERATION, Part.STEPS}


@pytest.fixture(scope="module", autouse=True)
def _sandbox_works() -> None:
    fault = make_sandboxes("bubblewrap").fault()
    if fault is not None:
        pytest.skip(fault)


def jobs(*, seed: int = 0, count: int = 864, ood: int = 80) -> list[Job]:
    return [job_of(read_origin(item.reference)) for item in TablesSource(seed=seed, count=count, ood=ood).items()]


def job(family: str, number: int = 0, *, seed: int = 0) -> Job:
    return make_job(seed=seed, family=family, number=number, vocabulary="C")


def score(made: Job, wrong: frozenset[Part]) -> float:
    return grade(changes_answer(dict(made.files), carried_out(made, wrong)), made.origin.model_dump_json())


def sets(made: Job, *, sampled: int, rng: random.Random) -> Iterator[frozenset[Part]]:
    """Every single part, and some sets of several."""
    yield from (frozenset([part]) for part in made.parts)
    for _ in range(sampled):
        yield frozenset(rng.sample(made.parts, rng.randint(2, len(made.parts))))


class TestWhatIsWrongIsSeen:
    @pytest.mark.parametrize("family", EVERY)
    def test_a_job_done_rightly_passes_and_every_wrong_part_fails(self, family: str) -> None:
        rng = random.Random(family)
        made = job(family, rng.randrange(40), seed=rng.randrange(1000))
        assert score(made, frozenset()) == 1.0
        for wrong in sets(made, sampled=3, rng=rng):
            assert score(made, wrong) == 0.0, (made.origin, sorted(wrong))

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", [0, 1])
    def test_no_set_of_wrong_parts_cancels_out(self, seed: int) -> None:
        rng = random.Random(seed)
        for made in jobs(seed=seed)[seed::23]:
            assert score(made, frozenset()) == 1.0
            for wrong in sets(made, sampled=5, rng=rng):
                assert score(made, wrong) == 0.0, (made.origin, sorted(wrong))

    @pytest.mark.slow
    @pytest.mark.parametrize("family", EVERY)
    def test_none_of_all_sets_of_wrong_parts_of_a_task_cancels_out(self, family: str) -> None:
        made = next(made for number in range(60) if len((made := job(family, number)).parts) == 7)
        every = [set(some) for size in range(1, len(made.parts) + 1) for some in combinations(made.parts, size)]
        assert [wrong for wrong in every if score(made, frozenset(wrong))] == []

    def test_every_part_comes_with_every_family_that_can_have_it(self) -> None:
        seen = Counter((made.family, part) for made in jobs() for part in made.parts)
        for family in FAMILIES:
            rare = {part for part in Part if seen[family, part] == 0}
            assert rare == ({Part.VALUES} if family == "formula" else set()), family

    def test_a_slip_alone_changes_one_row_or_one_value(self) -> None:
        for made in jobs(count=144, ood=20):
            draft = draft_of(made.origin)
            right, slipped = result_of(draft), result_of(draft, frozenset([Part.STEPS]))
            lost = len(right.rows) - len(slipped.rows)
            cells = [a != b for x, y in zip(right.rows, slipped.rows, strict=False) for a, b in zip(x, y, strict=True)]
            assert (lost, sum(cells)) == (0, 1) or lost == 1


class TestJobs:
    def test_every_job_has_the_four_parts_and_ends_with_steps(self) -> None:
        for made in jobs():
            assert set(made.parts) >= ALWAYS
            assert made.parts == tuple(part for part in Part if part in made.parts)
            assert 2 <= made.steps <= 4

    def test_parts_are_there_exactly_where_the_task_has_the_thing(self) -> None:
        for made in jobs(count=288):
            draft = draft_of(made.origin)
            sheets = [page.headers for page in draft.books[draft.main].values()]
            twins = [headers for headers in sheets if headers == draft.books[draft.main][draft.sheet].headers]
            assert (Part.FILE in made.parts) == made.decoy == (draft.theme.files[1] in made.literals)
            assert (Part.SHEET in made.parts) == (len(twins) == 2)
            assert (Part.LAYOUT in made.parts) == (draft.shape.label is not None)
            assert made.names.keys() == {*made.parts} & {Part.FILE, Part.SHEET, Part.COLUMNS, Part.LAYOUT}
            assert {*made.names.values()} <= {*made.literals}

    def test_shares_are_as_stated(self) -> None:
        for options, summary, decoy in (({}, 0.3, 0.25), ({"summary": 0.5, "decoy": 0.0}, 0.5, 0.0)):
            made = [
                job_of(read_origin(item.reference))
                for item in TablesSource(seed=0, count=432, ood=0, **options).items()
            ]
            assert sum(one.summary is not None for one in made) / len(made) == pytest.approx(summary, abs=0.02)
            assert sum(one.decoy for one in made) / len(made) == pytest.approx(decoy, abs=0.02)
        shares = Counter(part for one in jobs() for part in one.parts)
        assert 0.4 < shares[Part.VALUES] / len(jobs()) < 0.6
        assert 0.4 < shares[Part.LAYOUT] / len(jobs()) < 0.6

    def test_what_a_task_is_about_says_nothing_of_its_traps(self) -> None:
        seen = Counter((made.request.count(draft_of(made.origin).theme.things) > 0, made.decoy) for made in jobs())
        themes = Counter((draft_of(made.origin).theme.things, made.decoy) for made in jobs(ood=0))
        for things in {things for things, _ in themes}:
            assert 0.15 < themes[things, True] / (themes[things, True] + themes[things, False]) < 0.35
        assert seen.keys() == {(True, True), (True, False)}

    def test_a_work_folder_has_workbooks_of_one_to_three_sheets_with_six_to_fourteen_rows(self) -> None:
        kinds = Counter[str]()
        for made in jobs(count=288):
            for name, pages in draft_of(made.origin).books.items():
                kinds[name.rpartition(".")[2]] += 1
                assert 1 <= len(pages) <= 3
                for page in pages.values():
                    assert 2 <= len(page.rows) <= 14
        assert kinds["xlsx"] > 2 * kinds["csv"] > 0

    def test_the_request_says_what_has_to_be_there_and_never_the_file_or_the_sheet(self) -> None:
        for made in jobs(count=288):
            draft = draft_of(made.origin)
            for name in (*draft.books, *([draft.sheet] if Part.SHEET in made.parts and draft.sheet else [])):
                assert name not in made.request
            if Part.LAYOUT in made.parts:
                assert f"“{made.names[Part.LAYOUT]}”" in made.request
            assert (made.summary is None) == ("csv`" not in made.request.replace(f"`{draft.output}`", ""))
            assert f"“{made.names[Part.COLUMNS]}”" not in made.request
            assert "{" not in made.request
            assert ("workbook" in made.request) == any(name.endswith(".xlsx") for name in made.files)

    def test_it_is_a_pure_function_of_its_origin(self) -> None:
        draft_of.cache_clear()
        first = job("join", 3)
        files = dict(first.files)
        job_of.cache_clear()
        draft_of.cache_clear()
        again = job("join", 3)
        assert again is not first
        assert (again, dict(again.files)) == (first, files)
        assert pickle.loads(pickle.dumps(first)) == first
        assert make_job(seed=1, family="join", number=3, vocabulary="C").request != first.request

    def test_ids_tell_nothing_and_differ(self) -> None:
        made = jobs()
        assert len({one.id for one in made}) == len(made)
        assert all(re.fullmatch(r"tables-\d{4}", one.id) for one in made)
        for seed in (1, 2):
            numbers = [int(one.id[-4:]) for one in jobs(seed=seed, count=240, ood=0) if one.family == "sort"]
            assert numbers != sorted(numbers)

    @pytest.mark.parametrize(
        ("family", "number", "vocabulary"),
        [("nothing", 0, "A"), ("sort", -1, "A"), ("sort", 100_000, "A"), ("running", 0, "A")],
    )
    def test_tasks_that_there_are_not_are_refused(self, family: str, number: int, vocabulary: str) -> None:
        with pytest.raises((ValueError, KeyError)):
            make_job(seed=0, family=family, number=number, vocabulary=vocabulary)


class TestPrograms:
    def test_the_first_line_tells_every_decision(self) -> None:
        made = job("filter", 2)
        wrong = frozenset([Part.COLUMNS, Part.STEPS])
        first = program(made, wrong).splitlines()[0]
        told = dict(entry.split() for entry in first.removeprefix("# simulated decisions: ").split(", "))
        assert first.startswith("# simulated decisions: outputs ok, ")
        assert list(told) == list(made.parts)
        assert {part for part, said in told.items() if said == "wrong"} == wrong

    def test_a_program_is_python_and_differs_for_every_set_of_parts(self) -> None:
        for family in EVERY:
            made = job(family, 1)
            texts = [program(made, wrong) for wrong in [frozenset[Part](), *(frozenset([part]) for part in made.parts)]]
            bodies = [text.split("\n", 1)[1] for text in texts]
            assert len(set(bodies)) == len(bodies), family
            for text in texts:
                compile(text, "program", "exec")

    def test_a_part_that_the_task_does_not_have_is_refused(self) -> None:
        made = next(one for one in jobs(count=96) if Part.FILE not in one.parts)
        for act in (program, carried_out):
            with pytest.raises(ValueError, match=rf"{made.id} has no part file; it has outputs, "):
                act(made, frozenset([Part.FILE]))

    def test_inputs_are_left_as_they_were(self) -> None:
        made = job("sort", 4)
        before = dict(made.files)
        carried_out(made, frozenset(made.parts))
        assert dict(made.files) == before


def test_the_two_further_families_are_in_no_ordinary_task() -> None:
    assert not FAMILIES.keys() & OOD_FAMILIES.keys()
    assert len(FAMILIES) >= 10
    assert {made.family for made in jobs(ood=0)} == set(FAMILIES)
