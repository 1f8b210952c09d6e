"""The simulated coder: a model that works through a conversation, its weaknesses, and the draws behind them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from heldout.config import ModelConfig
from heldout.errors import SetupError
from heldout.models import make_model
from heldout.models.base import Message, Request
from heldout.models.simulated import answer_key
from heldout.tasks.environment import read_changes
from heldout.testing.model_contract import ModelContract
from heldout.worlds.repair import Package, RepairSource
from heldout.worlds.repair.catalogue import CATALOGUE
from heldout.worlds.repair.coder import SimulatedCoder, package_of, reply_text, token_count
from heldout.worlds.repair.plan import Intent, Move, Observation, next_move, read_move, vocabulary
from heldout.worlds.repair.symbolic import View, carry_out, is_mended, play
from heldout.worlds.repair.weaknesses import (
    INFLUENCES,
    Reading,
    Traits,
    Weakness,
    acting,
    chances,
    read_system,
    traits_of,
)

SOURCE = RepairSource(seed=3, count=64, ood=0)
ITEMS = SOURCE.items()
KEY = answer_key(ITEMS)
SYSTEM = SOURCE.instruction


def _uncut(text: str, cap_bytes: int) -> str:
    del cap_bytes
    return text


ALL_SHOWN = View(_uncut, 4096, 30)


def _coder() -> SimulatedCoder:
    return SimulatedCoder(ModelConfig(name="simulated_coder"), answer_key=KEY)


def _packages() -> list[Package]:
    return [package_of(item.reference) for item in ITEMS]


def _intent(*acts: Weakness, slips: bool = False, solvable: bool = True, rechecks: bool = False) -> Intent:
    return Intent(frozenset(acts), solvable, slips, rechecks, habit=True)


def _converse(package: Package, *, seed: int, system: str = SYSTEM) -> tuple[list[str], list[str]]:
    """Replies and commands of a coder that is made anew for every turn, in the symbolic world."""
    messages = [Message(role="system", content=system), Message(role="user", content=package.issue)]
    replies: list[str] = []
    commands: list[str] = []
    while not (commands and "HELDOUT_SUBMIT" in commands[-1]):
        assert len(commands) < 12
        reply = _coder().complete(Request(messages=tuple(messages), seed=seed))
        said, command = reply.text, reply.text.split("```bash\n")[1].removesuffix("\n```")
        replies.append(said)
        commands.append(command)
        ran, _ = carry_out(package, commands, restores=False)
        shown = f"exit code {ran[-1].exit_code}\n{ran[-1].output}"
        messages += [Message(role="assistant", content=said), Message(role="user", content=shown)]
    return replies, commands


class TestTheModelContract(ModelContract):
    @pytest.fixture
    def make_model(self) -> Callable[[], SimulatedCoder]:
        return _coder


def test_the_factory_makes_it_by_name_and_it_is_labelled_a_simulation() -> None:
    made = make_model(ModelConfig(name="simulated_coder"), answer_key=KEY)
    assert isinstance(made, SimulatedCoder)
    assert made.simulated
    assert not made.can_choose
    assert made.fingerprint == _coder().fingerprint
    assert made.fingerprint != SimulatedCoder(ModelConfig(name="simulated_coder")).fingerprint


def test_an_option_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(SetupError, match="model 'simulated_coder'"):
        SimulatedCoder(ModelConfig(name="simulated_coder", options={"skill": 0.5}))


def test_to_an_issue_that_it_does_not_know_it_submits() -> None:
    request = Request(messages=(Message(role="user", content="What is the capital of France?"),))
    assert "echo HELDOUT_SUBMIT" in _coder().complete(request).text
    assert "echo HELDOUT_SUBMIT" in _coder().complete(Request(messages=())).text


def test_the_answer_key_holds_the_references_of_the_world() -> None:
    package = _coder().package(ITEMS[5].input)
    assert package is not None
    assert package.id == ITEMS[5].id
    assert _coder().package("another issue") is None


def test_every_turn_follows_from_the_request_alone() -> None:
    for package in _packages()[:16]:
        _, commands = _converse(package, seed=4)
        played = play(
            package,
            Intent(
                acting(package, read_system(SYSTEM), seed=4),
                traits_of(package).solvable,
                traits_of(package).slips,
                False,
                traits_of(package).habit,
            ),
            ALL_SHOWN,
            restores=False,
        )
        assert commands == [turn.wanted for turn in played.turns]


def test_it_takes_three_to_eight_commands_and_then_submits() -> None:
    lengths = [len(commands) - 1 for commands in (_converse(package, seed=1)[1] for package in _packages())]
    assert min(lengths) >= 3
    assert max(lengths) <= 8
    assert len(set(lengths)) > 2


def test_it_says_one_sentence_and_one_command_block_and_counts_bytes_over_four() -> None:
    request = Request(
        messages=(Message(role="system", content="x" * 40), Message(role="user", content=ITEMS[0].input)), seed=1
    )
    reply = _coder().complete(request)
    assert reply.text.count("```") == 2
    assert read_move(reply.text) is not None
    assert reply.tokens_in == 10 + len(ITEMS[0].input.encode()) // 4
    assert reply.tokens_out == len(reply.text.encode()) // 4
    assert token_count("") == 1


def test_a_reply_that_it_did_not_write_is_no_move() -> None:
    assert read_move("I do something else.\n```bash\nls\n```") is None
    assert read_move(reply_text(Move.READ, "cat a.py")) is Move.READ


def test_another_system_text_redraws_the_weaknesses_of_many_tasks_and_the_same_text_of_none() -> None:
    texts = [read_system(SYSTEM), read_system(SYSTEM + "\n"), read_system(SYSTEM)]
    found = [[acting(package, text, seed=seed) for package in _packages() for seed in range(8)] for text in texts]
    assert found[0] == found[2]
    changed = sum(a != b for a, b in zip(found[0], found[1], strict=True)) / len(found[0])
    assert 0.02 < changed < 0.5


def test_another_seed_redraws_them_too() -> None:
    reading = read_system(SYSTEM)
    draws = {acting(package, reading, seed=seed) for package in _packages()[:20] for seed in range(20)}
    assert len(draws) > 5


def test_the_share_of_episodes_in_which_a_weakness_acts_is_its_chance() -> None:
    reading = read_system(SYSTEM)
    for package in _packages()[:6]:
        expected = chances(package, reading.names)
        for weakness, q in expected.items():
            share = sum(weakness in acting(package, reading, seed=seed) for seed in range(400)) / 400
            assert abs(share - q) <= 4.5 * math.sqrt(max(q * (1 - q), 1e-3) / 400)


def test_the_chance_of_a_weakness_by_hand() -> None:
    """Two helping sentences and one hurting one that all reach the task: 1 − (1 − s·0.03·0.03)(1 − 0.92)."""
    names = {"run_checks_after_edit", "definition_of_done", "trust_small_changes"}
    strengths = [INFLUENCES[name][0].strength for name in sorted(names)]
    assert strengths == [0.97, 0.97, 0.92]
    seen = set()
    for package in _packages():
        s = traits_of(package).susceptibility[Weakness.UNTESTED]
        possible = {
            1 - (1 - s * helped) * hurt: (helped, hurt)
            for helped in (1.0, 0.03, 0.03 * 0.03)
            for hurt in (1.0, 1 - 0.92)
        }
        q = chances(package, frozenset(names))[Weakness.UNTESTED]
        found = [which for value, which in possible.items() if math.isclose(value, q, abs_tol=1e-12)]
        assert found, (q, possible)
        seen.add(found[0])
    assert ((0.03 * 0.03), 1.0 - 0.92) in seen
    assert len(seen) >= 4


def test_a_sentence_for_one_family_leaves_the_others_alone() -> None:
    hurting = next(influence for influence in INFLUENCES["follow_the_call"] if influence.hurts)
    assert hurting.families == {"wrong-import"}
    raised = {
        package.family
        for package in _packages()
        if chances(package, frozenset({"follow_the_call"}))[Weakness.LOOKALIKE]
        > chances(package, frozenset())[Weakness.LOOKALIKE] + 1e-9
    }
    assert raised <= {"wrong-import"}


def test_a_sentence_is_recognised_wherever_it_stands_in_the_system_text() -> None:
    edit = next(edit for edit in CATALOGUE if edit.name == "first_match")
    assert read_system(f"{SYSTEM}\n# Workflow\n\n{edit.content}\n\nmore").names == {"first_match"}
    assert read_system(SYSTEM).names == frozenset()
    assert not read_system(SYSTEM).rechecks


def test_the_traits_of_a_task_are_the_same_everywhere_and_differ_between_worlds() -> None:
    package = _packages()[0]
    first = traits_of(package)
    assert isinstance(first, Traits)
    assert first.key == hashlib.blake2b(f"{package.id}\0{package.issue}".encode(), digest_size=12).hexdigest()
    other = package_of(RepairSource(seed=4, count=64, ood=0).items()[0].reference)
    assert other.id == package.id
    assert traits_of(other).key != first.key


def _plays(*acts: Weakness, **how: bool) -> Iterator[tuple[Package, list[Move], bool]]:
    for package in islice(_packages(), 12):
        played = play(package, _intent(*acts, **how), ALL_SHOWN, restores=False)
        yield package, [turn.move for turn in played.turns], played.mended


@pytest.mark.parametrize("slips", [False, True])
def test_without_a_weakness_it_mends_the_package(slips: bool) -> None:
    for _, moves, mended in _plays(slips=slips):
        assert mended
        assert (Move.MEND_REST in moves) is slips
        assert moves[-2:] == [Move.FORMAT, Move.SUBMIT]


def test_w1_leaves_the_half_mend_that_it_never_ran() -> None:
    for package, moves, mended in _plays(Weakness.UNTESTED, slips=True):
        assert not mended
        assert not {Move.CHECK, Move.REPRODUCE} & {*moves}
        ran, answer = carry_out(package, [vocabulary(package).command[move] for move in moves], restores=False)
        assert read_changes(answer) == {
            package.target: package.files[package.target].replace(package.broken, package.partial)
        }
        assert ran[-2].exit_code == 1


def test_w1_does_no_harm_where_the_first_mend_is_right() -> None:
    assert all(mended for _, _, mended in _plays(Weakness.UNTESTED, slips=False))


def test_w2_reverts_a_mend_that_had_passed_the_checks() -> None:
    for package, moves, mended in _plays(Weakness.REVERT):
        assert not mended
        commands = [vocabulary(package).command[move] for move in moves]
        at = moves.index(Move.REVERT)
        assert carry_out(package, commands, restores=False)[1] == "{}"
        without, answer = carry_out(package, commands[:at] + commands[at + 1 :], restores=False)
        assert is_mended(package, read_changes(answer))
        assert without[moves.index(Move.CHECK)].exit_code == 0


def test_w3_gives_up_after_three_malformed_searches() -> None:
    for package, moves, mended in _plays(Weakness.MALFORMED):
        assert not mended
        assert moves == [Move.LOCATE_BADLY, Move.LOCATE_WORSE, Move.LOCATE_WORST, Move.SUBMIT]
        ran, _ = carry_out(package, [vocabulary(package).command[move] for move in moves], restores=False)
        assert all(one.exit_code == 2 and "unrecognized option" in one.output for one in ran[:-1])


def test_w3_goes_on_where_a_hook_mends_its_options() -> None:
    view = View(_uncut, 4096, 30, ("mend_flags",))
    for package in islice(_packages(), 12):
        played = play(package, _intent(Weakness.MALFORMED), view, restores=False)
        assert played.mended
        assert played.turns[0].ran.command == vocabulary(package).command[Move.LOCATE]


def _cutting(text: str, cap_bytes: int) -> str:
    return text if len(text.encode()) <= cap_bytes else f"{text[: cap_bytes // 2]}\n[cut]\n{text[-cap_bytes // 2 :]}"


def test_w4_changes_the_wrong_line_exactly_where_the_error_was_not_shown() -> None:
    loud = [package for package in _packages() if package.loud]
    quiet = [package for package in _packages() if not package.loud]
    assert loud
    assert quiet
    for package in _packages():
        small = play(package, _intent(Weakness.CUT), View(_cutting, 4096, 30), restores=False)
        assert small.mended is not package.loud
        assert (Move.MEND_ASTRAY in [turn.move for turn in small.turns]) is package.loud
    for package in loud:
        assert play(package, _intent(Weakness.CUT), View(_cutting, 12288, 30), restores=False).mended
        surfaced = View(_cutting, 4096, 30, ("surface_errors",))
        assert play(package, _intent(Weakness.CUT), surfaced, restores=False).mended
    few = View(_cutting, 4096, 30, ("first_lines_only",))
    assert not any(play(package, _intent(Weakness.CUT), few, restores=False).mended for package in quiet)


def test_w5_changes_the_look_alike_and_leaves_the_fault() -> None:
    for package, moves, mended in _plays(Weakness.LOOKALIKE):
        assert not mended
        _, answer = carry_out(package, [vocabulary(package).command[move] for move in moves], restores=False)
        assert list(read_changes(answer)) == [package.lookalike]
        assert moves[-2] is Move.MEND_IMAGINED_LOOKALIKE


def test_an_unsolvable_task_stays_unsolved_whatever_it_does() -> None:
    assert not any(mended for _, _, mended in _plays(solvable=False))
    assert not any(mended for _, _, mended in _plays(solvable=False, rechecks=True))


def test_the_formatter_of_a_flaky_package_undoes_the_mend_unless_it_is_checked_afterwards() -> None:
    flaky = [package_of(item.reference) for item in RepairSource(seed=3, count=16, ood=0, nondeterminism=1.0).items()]
    for package in flaky:
        assert package.flaky
        assert not play(package, _intent(), ALL_SHOWN, restores=True).mended
        assert play(package, _intent(), ALL_SHOWN, restores=False).mended
        again = play(package, _intent(slips=True, rechecks=True), ALL_SHOWN, restores=True)
        assert again.mended
        assert [turn.move for turn in again.turns][-3:] == [Move.FORMAT_AND_CHECK, Move.MEND_AGAIN, Move.SUBMIT]
        assert len(again.turns) - 1 == 8


def test_a_turn_that_ran_nothing_is_taken_for_one_that_worked() -> None:
    """A hook may answer instead of the shell; the coder then sees no exit code."""
    assert next_move(_intent(Weakness.MALFORMED), [Move.LOCATE_BADLY], None, error="E") is Move.REPRODUCE
    failed = Observation(2, "exit code 2\n")
    assert next_move(_intent(Weakness.MALFORMED), [Move.LOCATE_BADLY], failed, error="E") is Move.LOCATE_WORSE


def test_no_two_moves_say_the_same_and_every_move_has_a_command() -> None:
    words = vocabulary(_packages()[0])
    assert set(words.command) == set(Move)
    assert len({move.value for move in Move}) == len(Move)
    twice = [text for text in words.move if list(words.command.values()).count(text) > 1]
    assert twice == ["python check.py"]
    assert words.move["python check.py"] is Move.CHECK


def test_a_changed_wrong_line_means_what_it_meant() -> None:
    for package in _packages():
        path, old, new = vocabulary(package).replaces[Move.MEND_ASTRAY]
        assert package.files[path].count(old) == 1
        mended = package.solution[path].replace(old, new)
        assert mended != package.solution[path]
        assert is_mended(package, {path: mended})


def test_a_reading_is_a_digest_and_names() -> None:
    assert read_system("a") == Reading(hashlib.blake2b(b"a", digest_size=12).hexdigest(), frozenset())
