"""`heldout bench verse`: the arms run the real loop, the truth is what it says, and claims follow from numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from heldout.config import ModelConfig, merge
from heldout.errors import SetupError
from heldout.harness.loop_settings import ToolLoopOptions
from heldout.improvers.catalog_notes import read_note
from heldout.loops.verse import Verse
from heldout.models.base import Reply, Request
from heldout.records import Candidate, Edit, Evidence, ProbeKind, edits_digest
from heldout.rollouts import Sweep
from heldout.sandbox import make_sandboxes
from heldout.store import read_events
from heldout.store.agent_events import MethodAudited, Submitted
from heldout.studies import ClaimVerdict, load_study
from heldout.studies.keeping import keep_part, timed, write_overview
from heldout.studies.page import page_text
from heldout.studies.verse import ARMS, FOUR, Arm, Bench, Plan, Result, Sizes, World, run_config, run_once
from heldout.studies.verse.differences import AHEAD, cost_claims, main_claims
from heldout.studies.verse.equal_cost import MATCHED, Matching, Tried, equal_cost
from heldout.studies.verse.grid import order_claim, robustness
from heldout.studies.verse.main_table import CLAIM_ARMS
from heldout.studies.verse.path_check import PathPlan, path_check
from heldout.studies.verse.runs import executions_of, run_seeds
from heldout.studies.verse.shadow import features_of
from heldout.studies.verse.study import PARTS
from heldout.studies.verse.summaries import INTERACTION, ArmRuns, contrast, known, true_gain, wrong_change
from heldout.studies.verse.truths import HELPS, Truth, Verdicts, changes, count_verdicts, draft_of
from heldout.workbench import Opening, open_run
from heldout.worlds.repair import RepairSource
from heldout.worlds.repair.coder import package_of
from heldout.worlds.repair.plan import Intent
from heldout.worlds.repair.symbolic import endings, play
from heldout.worlds.repair.truth import pass_probability
from heldout.worlds.repair.weaknesses import Weakness, traits_of

TINY = Sizes(train=12, select=8, audit=24, ood=8, rounds=2, candidates=2, screen=6, canaries=1, units=4)
TINY_PLAN = Plan(sizes=TINY, seeds=2, claim_seeds=2, trial_seeds=1, errors=(0.4,), rates=(0.15,), workers=1)


def _config(arm: Arm, *, seed: int = 3, **options: Any) -> Any:
    config = run_config(arm, World(), TINY, seed=seed)
    return config.model_copy(update={"options": merge(config.options, options)})


def _journal(folder: Path) -> list[tuple[str, Any]]:
    """Every event without its time, and without what names the run's config."""
    return [(event.kind, _timeless(event.data)) for event in read_events(folder / "events.jsonl")]


def _timeless(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {
            key: _timeless(value)
            for key, value in data.items()
            if key not in ("wall_s", "cpu_s", "config_digest", "run", "elapsed_s")
        }
    return [_timeless(one) for one in data] if isinstance(data, list | tuple) else data


def _run(config: Any, folder: Path) -> list[tuple[str, Any]]:
    with open_run(config, Opening(folder, command="test")) as opened:
        Verse(opened.session).run(opened.start)
    return _journal(folder)


# ---- the arms


def test_the_same_seed_without_self_edit_and_probes_equals_the_plain_baseline_byte_for_byte(tmp_path: Path) -> None:
    plain = _run(_config(FOUR["none"]), tmp_path / "plain")
    other = _config(
        FOUR["none"],
        probe={"units": 23, "schedule": "random", "share": "equal", "on": "head", "wall_s": 1.0},
        attribute={"failures": 1, "successes": 0, "ledger": False},
        method={"audit": False, "attempts": 1},
    )
    assert _run(other, tmp_path / "other") == plain
    assert not {"probe", "replay", "attribution", "method.edited", "meta_audit"} & {kind for kind, _ in plain}
    assert _run(_config(FOUR["none, self-edit"]), tmp_path / "edits") != plain


def test_arms_of_a_seed_share_their_tasks_and_differ_in_what_they_are_named_for() -> None:
    configs = {name: run_config(arm, World(), Sizes(), seed=5) for name, arm in ARMS.items()}
    assert len({config.tasks.model_dump_json() for config in configs.values()}) == 1
    assert len({json.dumps(config.model_dump(mode="json"), sort_keys=True) for config in configs.values()}) == 11
    options = configs["− attribution"].options
    assert (options["attribute"]["failures"], options["probe"]["verify"]) == (0, "full")
    assert configs["− ledger"].options["attribute"]["ledger"] is False
    assert configs["random schedule"].options["probe"]["schedule"] == "random"
    assert configs["best of N"].search.iterate is False
    sizes = {"train": 24, "select": 20, "audit": 120}
    assert {key: getattr(configs["none"].tasks, key) for key in sizes} == sizes
    assert configs["none"].tasks.reports == {"ood": 60}


@pytest.mark.slow
def test_a_result_does_not_depend_on_the_processes_that_made_it() -> None:
    jobs = [[run_config(FOUR["full, self-edit"], World(), TINY, seed=seed)] for seed in (0, 1)]
    assert run_seeds(jobs, workers=2) == run_seeds(jobs, workers=1)


def test_executions_are_what_the_ledger_paid_for_until_the_final_selection(tmp_path: Path) -> None:
    with open_run(_config(FOUR["full"]), Opening(tmp_path / "run", command="test")) as opened:
        Verse(opened.session).run(opened.start)
        assert executions_of(opened.folder) == opened.session.ledger.total.evaluations
    edited = _config(FOUR["full, self-edit"], seed=0)
    with open_run(edited, Opening(tmp_path / "edited", command="test")) as opened:
        Verse(opened.session).run(opened.start)
        assert opened.session.recorder.every("meta_audit", MethodAudited)
        assert executions_of(opened.folder) < opened.session.ledger.total.evaluations, "the method audit is left out"


# ---- the truth


def test_drafts_are_made_again_from_the_names_in_the_notes_and_every_fix_probe_is_counted(tmp_path: Path) -> None:
    with open_run(_config(FOUR["full, self-edit"]), Opening(tmp_path / "run", command="test")) as opened:
        session = opened.session
        Verse(session).run(opened.start)
        evidence = session.recorder.every("probe", Evidence)
        drafts = {}
        for one in session.recorder.every("submission", Submitted):
            drafts |= read_note(one.proposal.note).tried
        fixes = [one for one in evidence if one.kind is ProbeKind.FIX_PROBE and not one.refused]
        assert len(fixes) >= 3
        for one in fixes:
            base = session.store.load(one.base)
            draft = draft_of(base, drafts[one.id])
            written = [
                Edit(path=path, content=text) for path, text in draft.files.items() if base.files.get(path) != text
            ]
            assert edits_digest(written) == one.edits
        counted = count_verdicts(session, evidence)
        assert sum(value for _, value in counted) == len(fixes)


def test_a_draft_truly_helps_where_it_mends_what_a_task_fails_of() -> None:
    source = RepairSource(seed=1)
    packages = [package_of(item.reference) for item in source.items()]
    start = Candidate(files={"system_prompt.md": source.instruction})
    prone = [
        one for one in packages if traits_of(one).solvable and traits_of(one).susceptibility[Weakness.MALFORMED] > 0.9
    ][:3]
    flags, null, harm = (
        changes(start, draft_of(start, [name]), prone, ToolLoopOptions())
        for name in ("mend_flags", "list_shell_tools", "spell_out_options")
    )
    assert max(flags) >= HELPS
    assert null == [0.0] * len(prone)
    assert max(harm) < HELPS


def test_every_set_of_weaknesses_has_one_ending_which_is_that_of_its_episode() -> None:
    source = RepairSource(seed=1, nondeterminism=0.5)
    start = Candidate(files={"system_prompt.md": source.instruction})
    edited = draft_of(start, ["check_after_format", "wide_observations", "mend_flags"])
    options = ToolLoopOptions(max_turns=12)
    for item in source.items()[::40]:
        package = package_of(item.reference)
        traits = traits_of(package)
        for candidate in (start, edited):
            reading, view = (features := features_of(candidate, options)).reading, features.view
            for restores in (False, True):
                intent = Intent(frozenset(), traits.solvable, traits.slips, reading.rechecks, traits.habit)
                found = endings(package, intent, view, restores=restores)
                for size in range(len(Weakness) + 1):
                    for acting in map(frozenset, combinations(Weakness, size)):
                        (only,) = [one for one in found if acting & one.asked == one.acting & one.asked]
                        played = play(package, replace(intent, acting=acting), view, restores=restores)
                        assert only.mended == played.mended
        assert 0.0 <= pass_probability(package, reading, view) <= 1.0


def test_a_result_holds_the_truth_beside_what_the_run_believed() -> None:
    config = run_config(FOUR["full, self-edit"], World(), TINY, seed=0)
    one = run_once(config)
    assert one == run_once(config), "equal configs give equal results"
    assert len(one.heads_true) == TINY.rounds
    assert 0.0 < one.start_true < 1.0
    assert one.final_true in (one.start_true, *one.heads_true)
    assert one.is_start == (one.final_true == one.start_true)
    assert (one.audited == 0.0) or not one.is_start
    assert 0 <= one.wrong_after <= one.beliefs
    assert 0 < one.units <= TINY.rounds * TINY.candidates * TINY.units


def test_the_exact_rate_is_what_many_audits_would_find(tmp_path: Path) -> None:
    with open_run(_config(FOUR["none"]), Opening(tmp_path / "run", command="test")) as opened:
        session, start = opened.session, opened.start
        session.store.save(start)
        role = session.tasks.open_role("audit")
        scores = [
            outcome.score or 0.0
            for repeat in range(60)
            for outcome in session.engine.evaluate(Sweep(start, role.tasks, "audit", repeat), grade=role.grade)
        ]
        exact = Truth.of(session).rate(start.digest, "audit")
    assert abs(np.mean(scores) - exact) < 3.5 * 0.5 / np.sqrt(len(scores))


# ---- what claims rest on


def _result(seed: int, gain: float, **changed: Any) -> Result:
    made: dict[str, Any] = {
        "seed": seed,
        "config_digest": "",
        "start_true": 0.4,
        "heads_true": (0.4, 0.4 + gain),
        "final_true": 0.4 + gain,
        "ood_true": gain,
        "audited": gain,
        "ood_audited": gain,
        "believed": gain,
        "select_score": 0.4 + gain,
        "recorded_score": 0.4 + gain,
        "is_start": False,
        "beliefs": 5,
        "wrong_before": 2,
        "wrong_after": 2,
        "verdicts": Verdicts(right_supports=1),
        "units": 10,
        "executions": 100,
        "edited_method": True,
        "method_true": None,
    }
    return Result(**(made | changed))


def _runs(name: str, gains: Sequence[float], **changed: Any) -> ArmRuns:
    return ArmRuns(name, ARMS[name], tuple(_result(seed, gain, **changed) for seed, gain in enumerate(gains)))


def _arms(added: Mapping[str, float], **changed: Any) -> dict[str, ArmRuns]:
    """Every arm gains 5 points and what is added, with a little noise that arms share, and a little of their own."""
    shared = np.array([-0.04, 0.0, 0.03, 0.01, -0.02, 0.02])
    own = {name: 0.004 * np.roll([1.0, -1.0, 0.5, -0.5, 0.2, -0.2], at) for at, name in enumerate(ARMS)}
    return {name: _runs(name, 0.05 + added.get(name, 0.0) + shared + own[name], **changed) for name in ARMS}


def test_intervals_are_t_intervals_over_seeds() -> None:
    found = known(np.array([0.1, 0.2, 0.3]))
    # mean 20, SD 10, SE 10/sqrt(3) = 5.774, t(2) = 4.303
    assert (round(found.value, 3), round(found.standard_error, 3)) == (20.0, 5.774)
    assert (round(found.low, 2), round(found.high, 2)) == (-4.84, 44.84)
    assert known(np.array([0.1])).estimate is None


def test_the_interaction_is_the_difference_of_differences_of_each_seed() -> None:
    gains = {
        "full, self-edit": (0.30, 0.20),
        "full": (0.10, 0.15),
        "none, self-edit": (0.05, 0.00),
        "none": (0.02, 0.01),
    }
    arms = {name: _runs(name, values) for name, values in gains.items()}
    assert contrast(arms, INTERACTION) == pytest.approx([0.20 - 0.03, 0.05 - (-0.01)])


@pytest.mark.parametrize(
    ("added", "verdict"),
    [(0.10, "reproduced"), (-0.10, "not reproduced"), (0.0, "undecided")],
)
def test_the_verdict_on_the_interaction_follows_its_interval(added: float, verdict: str) -> None:
    arms = _arms({"full, self-edit": added})
    claim = next(one for one in main_claims(arms, arms) if one.id == "C2")
    assert claim.verdict.value == verdict
    assert claim.number == pytest.approx(100 * added, abs=0.5)
    assert claim.interval is not None
    assert AHEAD.verdict(claim.interval).value == verdict
    at_cost = next(one for one in cost_claims(arms) if one.id == "C2")
    assert (at_cost.part, at_cost.verdict) == ("b", claim.verdict)


def test_no_more_than_means_up_to_a_point_and_random_must_be_worse_for_sure() -> None:
    flat = {one.id: one for one in main_claims(_arms({}), _arms({}))}
    assert flat["C1"].verdict is ClaimVerdict.REPRODUCED
    assert flat["C4"].verdict is ClaimVerdict.UNDECIDED
    other = _arms({"none, self-edit": 0.05, "random schedule": -0.05})
    found = {one.id: one for one in main_claims(other, other)}
    assert found["C1"].verdict is ClaimVerdict.NOT_REPRODUCED
    assert found["C4"].verdict is ClaimVerdict.REPRODUCED


def _with_beliefs(full: Sequence[int], none: Sequence[int]) -> dict[str, ArmRuns]:
    arms = _arms({})
    for name, after in (("full, self-edit", full), ("none, self-edit", none)):
        results = [
            one.model_copy(update={"wrong_after": wrong}) for one, wrong in zip(arms[name].results, after, strict=True)
        ]
        arms[name] = ArmRuns(name, ARMS[name], tuple(results))
    return arms


@pytest.mark.parametrize(
    ("full", "none", "verdict"),
    [
        ((1, 1, 0, 1, 1, 1), (3, 2, 3, 3, 3, 3), "reproduced"),
        ((1, 1, 0, 1, 1, 1), (1, 0, 1, 1, 1, 1), "not reproduced"),
        ((3, 3, 4, 3, 3, 3), (3, 2, 3, 3, 3, 3), "not reproduced"),
        ((2, 1, 3, 2, 1, 3), (3, 2, 3, 3, 3, 3), "undecided"),
    ],
)
def test_beliefs_must_fall_with_verification_and_only_with_it(
    full: Sequence[int], none: Sequence[int], verdict: str
) -> None:
    claims = main_claims(arms := _with_beliefs(full, none), arms)
    assert next(one for one in claims if one.id == "C3").verdict.value == verdict
    assert arms["full, self-edit"].values(wrong_change)[0] == pytest.approx((full[0] - 2) / 5)


def test_a_winner_that_was_scored_by_luck_is_called_overstated() -> None:
    lucky = _arms({}, select_score=0.60, believed=0.20)
    claim = next(one for one in main_claims(lucky, lucky) if one.id == "C5")
    assert claim.verdict is ClaimVerdict.REPRODUCED
    assert claim.number == pytest.approx(15.0, abs=0.5)
    honest = main_claims(arms := _arms({}), arms)
    assert next(one for one in honest if one.id == "C5").number == pytest.approx(0.0, abs=1e-9)


def test_the_order_must_hold_in_every_world_with_an_interval_corrected_for_their_number() -> None:
    worlds = [World(error, rate) for error in (0.0, 0.2, 0.4) for rate in (0.0, 0.15, 0.3)]
    good, bad, flat = (_arms({"full, self-edit": added}) for added in (0.10, -0.10, 0.0))
    assert order_claim(dict.fromkeys(worlds, good)).verdict is ClaimVerdict.REPRODUCED
    mixed = order_claim({**dict.fromkeys(worlds, good), worlds[0]: flat})
    assert mixed.verdict is ClaimVerdict.UNDECIDED
    assert "ε = 0, ν = 0 (of 9, Bonferroni)" in mixed.rests_on
    assert order_claim({**dict.fromkeys(worlds, good), worlds[4]: bad}).verdict is ClaimVerdict.NOT_REPRODUCED
    alone, ninth = known(contrast(flat, INTERACTION)), mixed.interval
    assert ninth is not None
    assert ninth[0] < alone.low
    assert alone.high < ninth[1]


# ---- equal cost


def _search(cost: Any, *, goal: float) -> Tried:
    arm = FOUR["none"]
    search = Matching(goal, {"candidates": 48.0, "rounds": 90.0}, Tried(arm, 0, cost(arm)))
    while (tried := search.next()) is not None:
        search.learn(cost(tried))
    return search.best


def test_equal_cost_is_found_by_candidates_where_they_cost_something() -> None:
    found = _search(lambda arm: 400.0 + 40.0 * arm.more_candidates + 90.0 * arm.more_rounds, goal=640.0)
    assert (found.arm.more_candidates, found.arm.more_rounds, found.cost) == (6, 0, 640.0)


def test_equal_cost_is_found_by_rounds_where_candidates_repeat_each_other() -> None:
    found = _search(lambda arm: 400.0 + 10.0 * min(arm.more_candidates, 5) + 90.0 * arm.more_rounds, goal=640.0)
    assert (found.arm.more_rounds, found.cost) == (2, 630.0)
    assert abs(found.cost - 640.0) <= MATCHED * 640.0


def test_a_cost_that_cannot_be_met_is_left_as_near_as_it_comes() -> None:
    found = _search(lambda arm: 600.0 + 100.0 * arm.more_candidates + 150.0 * arm.more_rounds, goal=640.0)
    assert (found.arm, found.cost) == (FOUR["none"], 600.0)


@pytest.mark.slow
def test_arms_at_equal_cost_are_the_same_arms_with_more_to_try_and_say_where_they_do_not_match() -> None:
    part = equal_cost(Bench(TINY_PLAN))
    table = part.tables[0]
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert list(rows) == list(ARMS)
    target = max(row["executions before"] for row in rows.values())
    for row in rows.values():
        off = abs(row["executions"] - target) / target
        assert row["matched"] == ("yes" if off <= MATCHED else "unmatched")
    assert rows["none"]["candidates a round"] > TINY.candidates
    assert rows["none"]["executions"] > rows["none"]["executions before"]


# ---- the command


def test_a_part_becomes_tables_a_plot_a_claim_with_a_verdict_and_a_page(tmp_path: Path) -> None:
    done = timed(lambda: robustness(Bench(TINY_PLAN)))
    command = "heldout bench verse --only c"
    written = keep_part(done, tmp_path, command=command)
    written += write_overview(tmp_path, PARTS, page=partial(page_text, "verse"))
    assert {"README.md", "claims.csv", "provenance.json", "grid.csv", "grid.svg"} <= {path.name for path in written}
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert page.startswith("**Part c of this page is a simulation: it shows a mechanism, not its size.**")
    assert page.count("| C6 ") == 1
    assert "Part d needs the local model and a sandbox and was not run" in page
    made = json.loads((tmp_path / "provenance.json").read_text(encoding="utf-8"))["parts"]["c"]
    assert (made["command"], made["seeds"], len(made["config_digests"])) == (command, 2, len(FOUR))


@pytest.mark.slow
def test_the_quick_study_is_the_same_twice(tmp_path: Path) -> None:
    study = load_study("verse")
    first, second = (
        study(tmp_path / name, quick=True, only=None, command="heldout bench verse --quick") for name in ("a", "b")
    )
    names = [path.name for path in first]
    assert names == [path.name for path in second]
    repeatable = [name for name in names if name not in ("README.md", "provenance.json")]
    for name in repeatable:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    page = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
    assert page.startswith("**Parts a, b, c of this page are simulations: they show a mechanism, not its size.**")
    for claim in ("C1", "C2", "C3", "C4", "C5", "C6"):
        assert f"| {claim} " in page
    assert "The paper's interaction" in page


@pytest.mark.parametrize(
    ("only", "quick", "words"),
    [("e", True, "there is a, b, c, d"), ("d", True, "no quick version")],
)
def test_a_part_that_cannot_run_is_refused_before_anything_is_written(
    tmp_path: Path, only: str, quick: bool, words: str
) -> None:
    with pytest.raises(SetupError, match=words):
        load_study("verse")(tmp_path / "t", quick=quick, only=only, command="heldout bench verse")
    assert not (tmp_path / "t").exists()


class OneCommand:
    """A model that looks around once and submits; it is not a simulation of the coder."""

    name = "one_command"
    fingerprint = "one_command"
    deterministic = True
    can_choose = False
    simulated: ClassVar[bool] = False

    def __init__(self, config: ModelConfig, **_: object) -> None:
        del config

    def complete(self, request: Request) -> Reply:
        first = all(message.role != "assistant" for message in request.messages)
        command = "ls" if first else "echo HELDOUT_SUBMIT"
        return Reply(text=f"```bash\n{command}\n```", tokens_in=10, tokens_out=5)

    def close(self) -> None:
        """Nothing was started."""


def test_the_path_check_runs_real_episodes_and_says_that_its_numbers_are_no_evidence() -> None:
    if (fault := make_sandboxes("bubblewrap").fault()) is not None:
        pytest.skip(fault)
    part = path_check(PathPlan(model=ModelConfig(name=f"{__name__}:OneCommand", max_tokens=256), tasks=1))
    row = dict(zip(part.tables[0].columns, part.tables[0].rows[0], strict=True))
    assert (row["turns"], row["ended by"], row["score"]) == (2, "submitted", 0.0)
    assert part.simulated is False
    assert part.claims == ()
    assert "not evidence" in part.intro


def test_what_the_claims_rest_on_is_in_the_study() -> None:
    assert set(CLAIM_ARMS) <= set(ARMS)
    assert true_gain(_result(0, 0.25)) == pytest.approx(0.25)
