"""The simulated improver of skills: how often it reads a trace rightly, what it adds, and what it never tries twice."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from skill_views import GUIDE, NONE, SKILL, draft_view, edit_view, fault_view, note, program, submit, trace

from heldout.config import ImproverConfig, TasksConfig
from heldout.errors import ImproverError, SetupError
from heldout.harness.steps import Step
from heldout.improvers import SKILL_IMPROVERS, edits_skills, improver_class, make_skill_improver
from heldout.improvers.skill_catalog import SkillCatalog
from heldout.improvers.skill_reading import blamed_part, job_behind
from heldout.improvers.skill_roles import Attribution, EditView, SkillTrace
from heldout.improvers.skill_texts import empty_skill, holds, with_policy, with_sentences
from heldout.records import Candidate, Edit, EditProposal, Spend, TrainTask, apply_edits
from heldout.skills.folder import read_skill
from heldout.skills.guide import changed_modules, check_guide, kind_of
from heldout.skills.literals import literals_in, train_literals
from heldout.skills.modules import MODULE_OF_STAGE, MODULES, SKILL_FILE, Stage
from heldout.tasks import load_source, load_tasks
from heldout.testing.object_graph import reached
from heldout.worlds.tables.catalogue import CATALOGUE, CatalogueEdit
from heldout.worlds.tables.job import Job
from heldout.worlds.tables.parts import RULES, Part
from heldout.worlds.tables.programs import program as real_program
from heldout.worlds.tables.truth import PART_MODULE, PART_STAGE

CONFIG = TasksConfig(source="tables", train=30, select=10, audit=10)
TRAIN = tuple(load_tasks(CONFIG).train)
JOBS: Mapping[str, Job] = {task.id: job for task in TRAIN if (job := job_behind(task)) is not None}
TEXT = {entry.name: entry.text for entry in CATALOGUE}


def improver(**options: Any) -> SkillCatalog:
    made = make_skill_improver(ImproverConfig(kind="skill_catalog", options=options))
    assert isinstance(made, SkillCatalog)
    return made


def wrong(*parts: str, task: TrainTask | None = None, **changes: Any) -> SkillTrace:
    """A failed trace in which these parts, and no other, were decided wrongly."""
    decisions = {part.value: part.value not in parts for part in Part}
    found = trace(steps=(program(**decisions), submit()), **changes)
    return replace(found, task=task or found.task)


def blame(part: Part | None, *, module: str) -> Attribution:
    stage = PART_STAGE[part] if part is not None else "bounded recovery"
    return Attribution(step=0, stage=stage, module=module, mechanism=f"{part or stage}: decided wrongly")


def task_with(*parts: Part, summary: bool | None = None) -> TrainTask:
    """A train task that has a name for each of these parts, and asks for a summary or does not."""
    for task in TRAIN:
        job = JOBS[task.id]
        if all(part in job.names for part in parts) and summary in (None, job.summary is not None):
            return task
    raise AssertionError(f"no train task has {parts} and summary={summary}")


def sigmas(count: int, n: int, share: float) -> float:
    """How many standard errors a count lies from what is expected."""
    return abs(count - n * share) / math.sqrt(n * share * (1.0 - share))


@pytest.mark.parametrize("part", list(Part))
def test_a_right_reading_names_the_stage_and_the_module_of_the_wrong_part(part: Part) -> None:
    found = improver(accuracy=1.0).attribute(fault_view(wrong(part)))
    assert (found.stage, found.module, found.step) == (PART_STAGE[part], PART_MODULE[part], 0)
    assert blamed_part(found) is part
    assert "cell B9 is 12" in found.evidence
    assert found.preserve
    assert found.spend == Spend()


def test_the_worlds_own_programs_are_read_like_the_traces_of_these_tests() -> None:
    made = improver(accuracy=1.0)
    for task in TRAIN[:8]:
        for part in JOBS[task.id].parts:
            command = f"python3 - <<'PY'\n{real_program(JOBS[task.id], frozenset({part}))}\nPY"
            found = made.attribute(fault_view(trace(steps=[Step(kind="command", command=command, exit_code=0)])))
            assert blamed_part(found) is part


def test_the_first_wrong_part_in_the_order_of_the_parts_is_to_blame() -> None:
    made = improver(accuracy=1.0)
    assert blamed_part(made.attribute(fault_view(wrong("layout", "columns", "steps")))) is Part.COLUMNS
    assert blamed_part(made.attribute(fault_view(wrong("steps", "outputs")))) is Part.OUTPUTS


def test_the_step_is_the_first_program_that_decided_the_part_wrongly() -> None:
    looking = Step(kind="command", command="ls", output="in.xlsx")
    steps = (looking, program(columns=True, layout=False), program(columns=False, layout=False), submit())
    found = improver(accuracy=1.0).attribute(fault_view(trace(steps=steps)))
    assert (blamed_part(found), found.step) == (Part.COLUMNS, 2)


INFRASTRUCTURE: Mapping[str, tuple[Step, ...]] = {
    "no turn at all": (),
    "no program": (Step(kind="command", command="ls", output="Killed", killed="memory", exit_code=137),),
    "all parts right": (program(columns=True, outputs=True), submit()),
}


@pytest.mark.parametrize("kind", INFRASTRUCTURE)
def test_invariant_6_a_failure_without_a_wrong_decision_teaches_nothing(kind: str) -> None:
    made = improver(accuracy=0.0)
    for seed in range(30):
        found = made.attribute(fault_view(trace(steps=INFRASTRUCTURE[kind]), seed=seed))
        assert (found.stage, found.module, found.step) == ("", None, None)


def test_readings_are_right_as_often_as_stated_and_wrong_ones_spread_evenly() -> None:
    made, n = improver(), 4000
    found = [made.attribute(fault_view(wrong("columns"), seed=seed)) for seed in range(n)]
    modules = Counter(one.module for one in found)
    assert sigmas(modules["m2_sources.md"], n, 0.8) < 4
    for module in MODULES:
        if module != "m2_sources.md":
            assert sigmas(modules[module], n, 0.2 / 5) < 4, module
    for one in found:
        stages = [stage for stage, module in MODULE_OF_STAGE.items() if module == one.module]
        assert one.stage in (stages or [Stage.BOUNDED_RECOVERY]), "a stage goes with its module"
        part = blamed_part(one)
        assert part is None or PART_MODULE[part] == one.module


def test_half_of_the_failures_after_a_recovery_are_the_recoverys_own() -> None:
    made, n = improver(accuracy=1.0), 1000
    recovered = wrong("columns", first_fault="source selection: off", measures={"recoveries": 1.0})
    found = Counter(made.attribute(fault_view(recovered, seed=seed)).module for seed in range(n))
    assert sigmas(found["m6_repair.md"], n, 0.5) < 4
    assert set(found) == {"m6_repair.md", "m2_sources.md"}
    for changes in (
        {"first_fault": "source selection: off", "measures": {"recoveries": 0.0}},
        {"measures": {"recoveries": 1.0}},
    ):
        views = [fault_view(wrong("columns", **changes), seed=seed) for seed in range(100)]
        assert {made.attribute(view).module for view in views} == {"m2_sources.md"}


def test_the_same_view_is_read_the_same_way_and_others_are_not() -> None:
    made = improver()
    views = [fault_view(wrong("columns"), seed=seed) for seed in range(40)]
    assert [made.attribute(view) for view in views] == [improver().attribute(view) for view in views]
    tasks = [fault_view(wrong("columns", task=TrainTask(id=f"t-{i}", input="x")), seed=1) for i in range(40)]
    assert len({made.attribute(view).module for view in tasks}) > 1


def added(proposal: EditProposal, head: Candidate = GUIDE) -> list[str]:
    """Names of the entries whose sentences an edit added, read off the text."""
    made = apply_edits(head, proposal.edits)
    words = "\n".join(made.files.values())
    before = "\n".join(head.files.values())
    return [name for name, text in TEXT.items() if _with_any_name(text, words) and not _with_any_name(text, before)]


def _with_any_name(text: str, words: str) -> bool:
    start, _, _ = text.partition("{name}")
    return holds(words, start)


def test_an_edit_adds_one_sentence_under_policy_in_the_blamed_module_and_nowhere_else() -> None:
    made = improver()
    for seed in range(60):
        proposal = made.edit(edit_view(seed=seed, traces=(wrong("columns", task=task_with(Part.COLUMNS)),)))
        candidate = apply_edits(GUIDE, proposal.edits)
        assert changed_modules(GUIDE.files, candidate.files) == ("m2_sources.md",)
        check_guide(candidate.files)
        old, new = GUIDE.files["m2_sources.md"].splitlines(), candidate.files["m2_sources.md"].splitlines()
        (line,) = [line for line in new if line not in old]
        assert line.startswith("- ")
        assert new[: new.index(line)] == old[: new.index(line)]
        assert new.index("## Policy") < new.index(line) < new.index("## Output")
        assert len(new) == len(old) + 1
        assert proposal.note == f"adds {added(proposal)[0]}: {line.removeprefix('- ')}"


def drawn(n: int, view: EditView, made: SkillCatalog | None = None) -> Counter[str]:
    """Entries that n seeds draw, by the notes of the edits."""
    found = made or improver()
    notes = [found.edit(replace(view, seed=seed)).note for seed in range(n)]
    return Counter(one.partition(":")[0].removeprefix("adds ") for one in notes)


def test_weights_of_a_module_are_as_computed_by_hand() -> None:
    """m1 lacks one useful (0.4), two null (0.2), one harmful (0.15), one literal (0.15), one always (0.1). With SHEET
    blamed, `sheet`, `first_sheet` and `bind_sheet` count three times: 1.2 + 0.45 + 0.45 + 0.2 + 0.1 = 2.4."""
    n = 3000
    view = edit_view(
        module="m1_task.md",
        faults=(blame(Part.SHEET, module="m1_task.md"),),
        traces=(wrong("sheet", task=task_with(Part.SHEET)),),
    )
    found = drawn(n, view)
    expected = {
        "sheet": 1.2,
        "first_sheet": 0.45,
        "bind_sheet": 0.45,
        "null_m1_1": 0.1,
        "null_m1_2": 0.1,
        "always_summary": 0.1,
    }
    assert set(found) == set(expected)
    for name, weight in expected.items():
        assert sigmas(found[name], n, weight / 2.4) < 4, name


def test_without_a_blamed_part_and_without_a_name_only_the_kinds_weigh() -> None:
    """m2 lacks two useful (0.4), two null (0.2) and one harmful (0.15); this task has no name to bind: 0.75."""
    n = 3000
    found = drawn(n, edit_view(faults=(blame(None, module="m2_sources.md"),), traces=(wrong("columns"),)))
    expected = {"decoy": 0.2, "values": 0.2, "null_m2_1": 0.1, "null_m2_2": 0.1, "newest_file": 0.15}
    assert set(found) == set(expected)
    for name, weight in expected.items():
        assert sigmas(found[name], n, weight / 0.75) < 4, name


def test_the_weights_are_options() -> None:
    only = improver(useful=0.0, null=0.0, literal=0.0, always=0.0)
    assert set(drawn(20, edit_view(), only)) == {"newest_file"}
    none = improver(useful=0.0, null=0.0, harmful=0.0, literal=0.0, always=0.0)
    assert none.edit(edit_view()).edits == ()


def test_a_literal_takes_the_failed_tasks_own_name_and_the_scan_of_guides_finds_it() -> None:
    task = task_with(Part.COLUMNS)
    name = JOBS[task.id].names[Part.COLUMNS]
    only = improver(useful=0.0, null=0.0, harmful=0.0)
    proposal = only.edit(edit_view(traces=(wrong("columns", task=task),)))
    assert proposal.note == f'adds bind_column: The key column is "{name}".'
    forbidden = train_literals([task], load_tasks(CONFIG).environment)
    text = proposal.edits[0].content or ""
    assert literals_in(text, forbidden, "\n".join(GUIDE.files.values())) == (name,)


@pytest.mark.parametrize("verdict", ["reject", "refused"])
def test_what_was_rejected_or_refused_is_not_tried_twice(verdict: str) -> None:
    tried = [note(f"adds {name}: {TEXT[name]}", verdict=verdict) for name in ("decoy", "newest_file", "null_m2_1")]
    view = edit_view(traces=(wrong("columns"),), history=tuple(tried))
    assert set(drawn(200, view)) == {"values", "null_m2_2"}
    last = (note("adds values: …", verdict=verdict), note("adds null_m2_2: …", verdict=verdict))
    proposal = improver().edit(replace(view, history=(*tried, *last)))
    assert (proposal.edits, proposal.error) == ((), None)
    assert "nothing in the catalogue is left" in proposal.note


def test_a_refused_literal_is_not_tried_with_another_name() -> None:
    task = task_with(Part.COLUMNS)
    refused = note('adds bind_column: The key column is "Anything".', verdict="refused")
    view = edit_view(traces=(wrong("columns", task=task),), history=(refused,))
    assert "bind_column" not in drawn(300, view)


@pytest.mark.parametrize("verdict", ["undecided", "accept"])
def test_what_was_not_rejected_or_was_of_another_file_may_be_tried_again(verdict: str) -> None:
    before = (note(f"adds decoy: {TEXT['decoy']}", verdict=verdict), note("adds values: …", file="m1_task.md"))
    found = drawn(200, edit_view(traces=(wrong("columns"),), history=before))
    assert {"decoy", "values"} <= set(found)


def test_a_sentence_that_the_module_holds_is_not_added_again() -> None:
    text = with_policy(GUIDE.files["m2_sources.md"], TEXT["decoy"].replace(" ", "  ").upper(), file="m2_sources.md")
    head = apply_edits(GUIDE, [Edit(path="m2_sources.md", content=text)])
    assert "decoy" not in drawn(200, edit_view(head=head, traces=(wrong("columns"),)))


def test_any_module_may_be_edited_where_none_is_named_but_only_one_at_a_time() -> None:
    made, changed = improver(), Counter[str]()
    for seed in range(300):
        candidate = apply_edits(GUIDE, made.edit(edit_view(module=None, seed=seed)).edits)
        (module,) = changed_modules(GUIDE.files, candidate.files)
        changed[module] += 1
    assert set(changed) == set(MODULES)


def test_a_guide_that_lacks_the_module_or_its_policy_is_an_improver_error() -> None:
    gone = apply_edits(GUIDE, [Edit(path="m2_sources.md", content=None)])
    with pytest.raises(ImproverError, match=r"no module m2_sources\.md"):
        improver().edit(edit_view(head=gone))
    flat = apply_edits(GUIDE, [Edit(path="m2_sources.md", content="# Sources\n")])
    with pytest.raises(ImproverError, match=r"m2_sources\.md has no section '## Policy'"):
        improver().edit(edit_view(head=flat))


def test_the_same_view_gives_the_same_edit() -> None:
    views = [edit_view(seed=seed) for seed in range(20)]
    assert [improver().edit(view) for view in views] == [improver().edit(view) for view in views]


def skill_view(*traces: SkillTrace, **changes: Any) -> EditView:
    """An edit of one skill after these traces; failures are blamed on their first wrong part."""
    attributed = [improver(accuracy=1.0).attribute(fault_view(one)) for one in traces]
    faults = tuple(fault if one.score < 1.0 else Attribution() for fault, one in zip(attributed, traces, strict=True))
    return edit_view(
        **{"head": SKILL, "target": "skill", "module": None, "traces": traces, "faults": faults, **changes}
    )


def test_an_edit_of_a_skill_adds_a_sentence_of_the_blamed_module_to_its_body() -> None:
    for seed in range(40):
        proposal = improver().edit(skill_view(wrong("columns"), seed=seed))
        made = apply_edits(SKILL, proposal.edits)
        skill = read_skill(made.files)
        before = read_skill(SKILL.files)
        assert skill.head == before.head
        assert skill.body.startswith(before.body.rstrip())
        (name,) = added(proposal, SKILL)
        assert next(entry.module for entry in CATALOGUE if entry.name == name) == "m2_sources.md"


def test_the_first_edit_of_no_skill_makes_a_valid_skill() -> None:
    proposal = improver().edit(skill_view(wrong("columns"), head=NONE))
    made = apply_edits(NONE, proposal.edits)
    assert kind_of(made) == "skill"
    assert read_skill(made.files).head.description == "Change workbooks as requests say."
    assert len(added(proposal, NONE)) == 1


def test_a_merge_adds_one_sentence_for_each_trace_and_none_twice() -> None:
    three = skill_view(wrong("columns"), wrong("layout"), wrong("columns", task=TrainTask(id="t-3", input="x")))
    sizes = set()
    for seed in range(60):
        proposal = improver().edit(replace(three, seed=seed))
        text = apply_edits(SKILL, proposal.edits).files[SKILL_FILE]
        items = [line for line in text.splitlines() if line.startswith("- ")]
        assert len(items) == len(set(items))
        sizes.add(len(items) - 1)
        assert len(proposal.note.splitlines()) == len(items) - 1
    assert sizes == {2, 3}, "two traces with the same fault may teach the same sentence"


def test_a_passed_trace_teaches_too_and_a_failure_without_a_lesson_does_not() -> None:
    passed, empty = wrong(score=1.0), trace(steps=())
    assert len(added(improver().edit(skill_view(wrong("columns"), passed, seed=1)), SKILL)) == 2
    assert len(added(improver().edit(skill_view(wrong("columns"), empty, seed=1)), SKILL)) == 1
    assert improver().edit(skill_view(empty)).edits == ()


@pytest.mark.parametrize("verdict", ["reject", "refused"])
def test_a_rejected_entry_of_a_skill_is_not_tried_twice_under_whatever_name(verdict: str) -> None:
    task = task_with(Part.COLUMNS)
    only = improver(useful=0.0, null=0.0, harmful=0.0, always=0.0)
    view = skill_view(wrong("columns", task=task))
    first = only.edit(view)
    name = JOBS[task.id].names[Part.COLUMNS]
    assert first.note == f'adds bind_column: The key column is "{name}".'
    for tried in (first.note, 'adds null_m1_1: …\nadds bind_column: The key column is "Other".'):
        history = (note(tried, file=SKILL_FILE, verdict=verdict),)
        assert "bind_column" not in drawn(100, replace(view, history=history), only)
    undecided = (note(first.note, file=SKILL_FILE, verdict="undecided"),)
    assert only.edit(replace(view, history=undecided)).note == first.note


def test_where_the_blamed_module_has_nothing_left_another_ones_sentence_is_taken() -> None:
    names = JOBS[task_with(Part.COLUMNS).id].names
    held = [e.text.format(name=names.get(e.part, "")) for e in CATALOGUE if e.module == "m2_sources.md" and e.part]
    held += [e.text for e in CATALOGUE if e.module == "m2_sources.md" and e.kind != "literal"]
    full = Candidate(files={SKILL_FILE: with_sentences(empty_skill("x"), held)})
    proposal = improver().edit(skill_view(wrong("columns", task=task_with(Part.COLUMNS)), head=full))
    (name,) = added(proposal, full)
    assert next(entry.module for entry in CATALOGUE if entry.name == name) != "m2_sources.md"


def test_a_draft_holds_rules_names_and_the_summary_as_often_as_stated() -> None:
    n, made = 1500, improver()
    first = task_with(Part.COLUMNS, summary=True)
    view = draft_view([first, *TRAIN[:2]])
    found = Counter(name for seed in range(n) for name in added(made.draft(replace(view, seed=seed)), NONE))
    for rule in RULES:
        assert sigmas(found[rule.name], n, 0.35) < 4.5, rule.name
    bound = {entry.name for entry in CATALOGUE if entry.kind == "literal" and entry.part in JOBS[first.id].names}
    for name in (*bound, "always_summary"):
        assert sigmas(found[name], n, 0.5) < 4.5, name
    assert set(found) == {*(rule.name for rule in RULES), *bound, "always_summary"}


def test_a_draft_binds_names_of_the_first_task_only_and_asks_for_no_summary_where_it_asks_for_none() -> None:
    first = task_with(Part.COLUMNS, summary=False)
    made = improver(draft_rule=0.0, draft_literal=1.0, draft_always=1.0)
    skill = read_skill(apply_edits(NONE, made.draft(draft_view([first, task_with(summary=True)])).edits).files)
    names = JOBS[first.id].names
    wanted = [e.text.format(name=names[e.part]) for e in CATALOGUE if e.kind == "literal" and e.part in names]
    assert [line.removeprefix("- ") for line in skill.body.splitlines() if line.startswith("- ")] == wanted


@pytest.mark.parametrize("head", [NONE, GUIDE, SKILL], ids=["none", "guide", "skill"])
def test_a_draft_is_a_valid_skill_whatever_it_begins_with(head: Candidate) -> None:
    proposal = improver(draft_rule=0.0, draft_literal=0.0).draft(draft_view(head=head))
    made = apply_edits(head, proposal.edits)
    assert kind_of(made) == "skill"
    assert read_skill(made.files).head.name == "learned-skill"
    assert proposal.note == "a skill without any advice yet"
    assert improver().draft(draft_view(head=head)) == improver().draft(draft_view(head=head))


def test_it_is_a_labelled_simulation_that_asks_no_model_and_costs_nothing() -> None:
    assert SKILL_IMPROVERS["skill_catalog"] == "heldout.improvers.skill_catalog:SkillCatalog"
    made = improver_class("skill_catalog")
    assert made is SkillCatalog
    assert edits_skills(made)
    assert (made.simulated, made.uses_model, made.bound) == (True, False, Spend())
    assert improver().edit(edit_view()).spend == Spend()


def test_no_select_or_audit_body_is_reachable_from_views_of_train_tasks_or_from_what_it_answers() -> None:
    tasks = load_tasks(CONFIG)
    train = {task.id for task in tasks.train}
    others = [item for item in load_source(CONFIG).items() if item.id not in train]
    secrets = [item.input for item in others] + [item.reference for item in others]
    one = wrong("columns", task=tasks.train[0])
    views = (fault_view(one), edit_view(traces=(one,)), skill_view(one), draft_view(list(tasks.train)))
    made = improver()
    answers = (made.attribute(views[0]), made.edit(views[1]), made.edit(views[2]), made.draft(views[3]))
    assert reached((views, made, answers), secrets) == set()
    assert reached(views, [tasks.train[0].input]) == {tasks.train[0].input}
    assert reached(made, [tasks.train[0].input]) == set(), "nothing of a view is kept"


OWN = (CatalogueEdit("mine", "m2_sources.md", "useful", "Mine is better."),)
TWICE = (*OWN, *OWN)
ELSEWHERE = (CatalogueEdit("far", "m9.md", "useful", "Far."),)
LINES = (CatalogueEdit("long", "m2_sources.md", "useful", "One.\nTwo."),)


def test_a_catalogue_of_ones_own_is_drawn_from() -> None:
    made = improver(catalogue=f"{__name__}:OWN")
    assert made.edit(edit_view()).note == "adds mine: Mine is better."


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "no catalogue 'nothing'; there is tables"),
        (f"{__name__}:INFRASTRUCTURE", "expected a sequence of CatalogueEdit"),
        (f"{__name__}:TWICE", "mend 'mine'"),
        (f"{__name__}:ELSEWHERE", r"a module of m1_task\.md.*mend 'far'"),
        (f"{__name__}:LINES", "a text of one line; mend 'long'"),
    ],
)
def test_an_unfit_catalogue_is_refused(name: str, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        improver(catalogue=name)


def test_an_unknown_option_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SetupError, match="allowed are catalogue, accuracy, useful"):
        improver(acuracy=0.9)


def test_a_task_of_another_world_has_no_names() -> None:
    for reference in ("", "{", json.dumps({"seed": 1}), json.dumps([1]), "animal"):
        assert job_behind(TrainTask(id="t", input="x", reference=reference)) is None
