"""The work folder of a package as a few texts, on which the coder's own commands are carried out without a shell.

A simulation of the sandbox for studies: what a command prints, how it ends and what it leaves behind are the same as
in a real shell, for every command that the coder can give (`plan.vocabulary`). Any other command does nothing here,
prints nothing and succeeds. The formatter of a flaky package puts the original back where `restores` is true.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import PurePosixPath

from heldout.sandbox.syntax import syntax_tree
from heldout.tasks.environment import changes_answer, read_changes
from heldout.worlds.repair import hook_parts
from heldout.worlds.repair.check_run import run_check
from heldout.worlds.repair.package import Package
from heldout.worlds.repair.plan import Intent, Move, Observation, Vocabulary, backup_of, next_move, vocabulary
from heldout.worlds.repair.weaknesses import Weakness

__all__ = ["Ending", "Play", "Ran", "Turn", "View", "carry_out", "endings", "is_mended", "play"]


@dataclass(frozen=True, slots=True)
class View:
    """What of a harness stands between the coder and its shell."""

    truncate: Callable[[str, int], str]
    """Cuts an output to a number of bytes, as the tool loop does."""
    obs_cap: int
    max_turns: int
    parts: tuple[str, ...] = ()
    """Hook functions of the catalogue, in the order in which they act; any other hook is taken for the identity."""

    def command(self, wanted: str) -> str:
        """The command as it is run."""
        return hook_parts.mend_flags(wanted) if "mend_flags" in self.parts else wanted

    def output(self, ran: Ran) -> str:
        """An output as hooks leave it."""
        text = ran.output
        for part in self.parts:
            if part == "strip_colour":
                text = hook_parts.strip_colour(text)
            elif part == "surface_errors":
                text = hook_parts.surface_errors(text, ran.exit_code)
            elif part == "first_lines_only":
                text = hook_parts.first_lines_only(text, ran.exit_code)
        return text

    def shown(self, ran: Ran) -> str:
        """What the coder is shown of it."""
        return f"exit code {ran.exit_code}\n{self.truncate(self.output(ran), self.obs_cap) or '(no output)'}"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    command: str
    exit_code: int
    output: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the coder."""

    move: Move
    wanted: str
    """The command as the coder gave it; `ran` has it as hooks left it."""
    ran: Ran
    shown: str


@dataclass(frozen=True, slots=True, eq=False)
class Play:
    """A whole episode."""

    package: Package
    turns: tuple[Turn, ...]
    submitted: bool
    answer: str

    @property
    def mended(self) -> bool:
        """Whether the target is the reference solution's in the end; see `is_mended`."""
        return is_mended(self.package, read_changes(self.answer))


def play(package: Package, intent: Intent, view: View, *, restores: bool) -> Play:
    """The episode of a coder with this intent, in this view. Pure, and remembered."""
    return _play(_Known(package), intent, view, restores and package.flaky)


@dataclass(frozen=True, slots=True)
class Ending:
    """How episodes end, for every set of weaknesses that agrees with `acting` on those that were asked about."""

    acting: frozenset[Weakness]
    asked: frozenset[Weakness]
    """What the coder's moves depended on."""
    mended: bool


def endings(package: Package, intent: Intent, view: View, *, restores: bool) -> tuple[Ending, ...]:
    """Every way in which episodes end that differ in the acting weaknesses alone; those of `intent` are not looked at.

    Exactly one of them holds for each set of weaknesses. Pure, and remembered.
    """
    bare = replace(intent, acting=frozenset())
    return _endings(_Known(package), bare, view, restores and package.flaky)


def carry_out(package: Package, commands: Sequence[str], *, restores: bool) -> tuple[tuple[Ran, ...], str]:
    """The commands in a fresh work folder, one after another, and the answer that they leave."""
    return _carry_out(_Known(package), tuple(commands), restores and package.flaky)


def is_mended(package: Package, changes: Mapping[str, str | None]) -> bool:
    """Whether the target, after these changes, is the reference solution's, as code."""
    return _same_code(changes.get(package.target, package.files[package.target]), package.solution[package.target])


@dataclass(frozen=True, slots=True)
class _Known:
    """A package as a key of what is remembered."""

    package: Package = field(compare=False)
    identity: tuple[str, str, bool] = field(init=False)

    def __post_init__(self) -> None:
        identity = (self.package.id, self.package.issue, self.package.flaky)
        object.__setattr__(self, "identity", identity)


class _Desk:
    """The work folder, and the backups beside it."""

    def __init__(self, known: _Known, *, restores: bool) -> None:
        self.known = known
        self.words = _vocabulary(known)
        self.files = dict(known.package.files)
        self.backups: dict[str, str] = {}
        self.restores = restores

    def run(self, command: str) -> Ran:
        """One command."""
        move = self.words.move.get(command)
        code, output = (0, "") if move is None else self._perform(move, command)
        return Ran(command, code, output)

    def answer(self) -> str:
        return changes_answer(self.known.package.files, self.files)

    def _perform(self, move: Move, command: str) -> tuple[int, str]:
        package = self.known.package
        if move in self.words.replaces:
            return self._replace(move)
        if move in (Move.READ, Move.READ_LOOKALIKE):
            return 0, self.files[package.target if move is Move.READ else package.lookalike]
        if move is Move.READ_ASTRAY:
            return 0, "".join(self.files[package.target].splitlines(keepends=True)[:20])
        if move in (Move.CHECK, Move.REPRODUCE):
            return self._check()
        if move in (Move.FORMAT, Move.FORMAT_AND_CHECK):
            return self._format(check=move is Move.FORMAT_AND_CHECK)
        if move is Move.REVERT:
            return self._revert()
        if move is Move.LOCATE:
            return self._search()
        return self._say(move, command)

    def _say(self, move: Move, command: str) -> tuple[int, str]:
        """Commands that change nothing and always end alike."""
        if move is Move.LINT:
            return 1, "tail: cannot open 'lint.report' for reading: No such file or directory\n"
        if move is Move.TIDY:
            return 1, f"rm: cannot remove '{self.known.package.target}.orig': No such file or directory\n"
        if move is Move.SEEK_LOG:
            return 1, "cat: check.log: No such file or directory\n"
        return (0, f"{command.split()[1]}\n") if move is Move.SUBMIT else (2, _refused(command))

    def _replace(self, move: Move) -> tuple[int, str]:
        path, old, new = self.words.replaces[move]
        text = self.files[path]
        if self.words.command[move].startswith("cp "):
            self.backups[path] = text
        code, output = 0, ""
        if text.count(old) == 1:
            self.files[path] = text.replace(old, new)
        else:
            code, output = 1, _NOT_THERE
        if move is Move.MEND_REST:
            code, checked = self._check()
            output += checked
        return code, output

    def _check(self) -> tuple[int, str]:
        package = self.known.package
        return _checked(self.known, self.files[package.target], self.files[package.lookalike])

    def _format(self, *, check: bool) -> tuple[int, str]:
        package = self.known.package
        text = package.files[package.target] if self.restores else self.files[package.target]
        self.files[package.target] = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        said = f"formatted {package.target}\n"
        if not check:
            return 0, said
        code, output = self._check()
        return code, said + output

    def _revert(self) -> tuple[int, str]:
        target = self.known.package.target
        if target not in self.backups:
            return 1, f"cp: cannot stat '{backup_of(target)}': No such file or directory\n"
        self.files[target] = self.backups[target]
        return 0, ""

    def _search(self) -> tuple[int, str]:
        package = self.known.package
        return _searched(self.known, self.files[package.target], self.files[package.lookalike])


_NOT_THERE = """Traceback (most recent call last):
  File "<stdin>", line 6, in <module>
AssertionError: the fragment is not there
"""


def _refused(command: str) -> str:
    """What grep says of an option that it does not have."""
    return (
        f"grep: unrecognized option '{command.split()[1]}'\n"
        "Usage: grep [OPTION]... PATTERNS [FILE]...\nTry 'grep --help' for more information.\n"
    )


@lru_cache(maxsize=8192)
def _play(known: _Known, intent: Intent, view: View, restores: bool) -> Play:
    desk = _Desk(known, restores=restores)
    turns = _turns(desk, intent, view)
    submitted = bool(turns) and turns[-1].move is Move.SUBMIT
    return Play(known.package, tuple(turns), submitted, desk.answer())


def _turns(desk: _Desk, intent: Intent, view: View) -> list[Turn]:
    """The whole episode at this desk."""
    turns: list[Turn] = []
    while len(turns) < view.max_turns and not (turns and turns[-1].move is Move.SUBMIT):
        seen = Observation(turns[-1].ran.exit_code, turns[-1].shown) if turns else None
        move = next_move(intent, [turn.move for turn in turns], seen, error=desk.known.package.failure)
        wanted = desk.words.command[move]
        ran = desk.run(view.command(wanted))
        turns.append(Turn(move, wanted, ran, view.shown(ran)))
    return turns


class _Asked(frozenset[Weakness]):
    """Acting weaknesses that remember which of them, and which others, they were asked about."""

    def __init__(self, acting: Iterable[Weakness]) -> None:
        del acting
        self.about: set[Weakness] = set()

    def __contains__(self, weakness: object) -> bool:
        if isinstance(weakness, Weakness):
            self.about.add(weakness)
        return super().__contains__(weakness)


@lru_cache(maxsize=32768)
def _endings(known: _Known, intent: Intent, view: View, restores: bool) -> tuple[Ending, ...]:
    found: list[Ending] = []
    for acts in product((False, True), repeat=len(Weakness)):
        acting = frozenset(weakness for weakness, act in zip(Weakness, acts, strict=True) if act)
        if any(acting & one.asked == one.acting & one.asked for one in found):
            continue
        asked, desk = _Asked(acting), _Desk(known, restores=restores)
        _turns(desk, replace(intent, acting=asked), view)
        found.append(Ending(acting, frozenset(asked.about), is_mended(known.package, desk.files)))
    return tuple(found)


@lru_cache(maxsize=8192)
def _carry_out(known: _Known, commands: tuple[str, ...], restores: bool) -> tuple[tuple[Ran, ...], str]:
    desk = _Desk(known, restores=restores)
    return tuple([desk.run(command) for command in commands]), desk.answer()


@lru_cache(maxsize=2048)
def _vocabulary(known: _Known) -> Vocabulary:
    return vocabulary(known.package)


@lru_cache(maxsize=8192)
def _checked(known: _Known, target: str, lookalike: str) -> tuple[int, str]:
    package = known.package
    return run_check({**package.files, package.target: target, package.lookalike: lookalike})


@lru_cache(maxsize=8192)
def _searched(known: _Known, target: str, lookalike: str) -> tuple[int, str]:
    package = known.package
    folder = PurePosixPath(package.target).parent
    files = {**package.files, package.target: target, package.lookalike: lookalike}
    found = [
        f"{path}:{number}:{line}\n"
        for path, text in sorted(files.items())
        if PurePosixPath(path).parent == folder and path.endswith(".py")
        for number, line in enumerate(text.splitlines(), start=1)
        if package.search in line
    ]
    return (0 if found else 1), "".join(found)


@lru_cache(maxsize=8192)
def _same_code(text: str | None, solution: str) -> bool:
    """Texts that differ in blanks, comments and brackets only are the same code."""
    if text is None or text == solution:
        return text is not None
    return _code(text) is not None and _code(text) == _code(solution)


@lru_cache(maxsize=4096)
def _code(text: str) -> str | None:
    """A text as code; None where it is none."""
    try:
        return ast.dump(syntax_tree(text))
    except SyntaxError:
        return None
