"""What the simulated coder does next: a few moves, chosen from its last move and from what came back.

    locate → reproduce → read → mend → check → format → submit

The coder that runs no checks looks for a linter's report instead, and its first mend stays (W1). A revert takes the
place of formatting (W2). A malformed search is tried three times and then given up (W3). An error that was not shown
sends the coder to the wrong line (W4), a look-alike to the wrong module (W5). Where the checks still fail, it tries
one more thing and gives up. Which thing, and what follows an untested mend or a revert, is a habit of the task: so the
last error of a trace tells of its cause, and not for sure (`truth` has the table). The submission comes after three to
eight commands.

The same functions serve the model, which sees real observations, and the symbolic world.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath

from heldout.sandbox.syntax import syntax_tree
from heldout.worlds.repair.package import Package
from heldout.worlds.repair.weaknesses import Reading, Weakness, acting, traits_of

__all__ = ["Intent", "Move", "Observation", "Vocabulary", "intent_of", "next_move", "read_move", "vocabulary"]


class Move(StrEnum):
    """Everything that the coder ever does. The text is what it says as it does it."""

    LOCATE = "I look for the code that the report is about."
    LOCATE_BADLY = "I look for the code, in source files only."
    LOCATE_WORSE = "That option does not exist; I try another."
    LOCATE_WORST = "I try once more with another option."
    REPRODUCE = "I run the checks to see the failure."
    READ = "I read the module where this happens."
    READ_LOOKALIKE = "I read the module that the search found."
    READ_ASTRAY = "The output does not show the error; I read the beginning of the module."
    MEND_HALF = "I keep a backup and mend the case from the report."
    MEND = "I keep a backup and mend the cause."
    MEND_REST = "The checks show a case that I missed; I mend it and run them again."
    MEND_LOOKALIKE = "I keep a backup and change this line."
    MEND_ASTRAY = "I keep a backup and change the line that looks suspicious."
    CHECK = "I run the checks on the change."
    FORMAT = "I format the module."
    FORMAT_AND_CHECK = "I format the module and run the checks once more."
    MEND_AGAIN = "Formatting undid the change; I make it again."
    REVERT = "I put the backup back to leave a clean tree."
    LINT = "I look at what the linter reported."
    TIDY = "I remove what I left beside the module."
    SEEK_LOG = "The checks still fail; I look for their log."
    MEND_IMAGINED = "The checks still fail; I change the line that the report speaks of."
    MEND_IMAGINED_LOOKALIKE = "The checks still fail; I change the line before it."
    SUBMIT = "I am done."


@dataclass(frozen=True, slots=True)
class Observation:
    """What came back from a command, as the coder was shown it."""

    exit_code: int
    text: str


@dataclass(frozen=True, slots=True)
class Intent:
    """How the coder goes about one episode; fixed from its first turn to its last."""

    acting: frozenset[Weakness]
    solvable: bool
    slips: bool
    """Its first mend is the partial one."""
    rechecks: bool
    """It runs the checks once more after it has formatted."""
    habit: bool
    """What it does at the end of failed work is the usual thing for its weakness."""


def intent_of(package: Package, reading: Reading, *, seed: int) -> Intent:
    """How the coder goes about this package under this system text in the episode with this seed."""
    traits = traits_of(package)
    return Intent(acting(package, reading, seed=seed), traits.solvable, traits.slips, reading.rechecks, traits.habit)


_SEARCHES = (Move.LOCATE_BADLY, Move.LOCATE_WORSE, Move.LOCATE_WORST)
_MENDS = (Move.MEND, Move.MEND_HALF, Move.MEND_LOOKALIKE, Move.MEND_ASTRAY)


def next_move(intent: Intent, past: Sequence[Move], seen: Observation | None, *, error: str) -> Move:
    """The move after `past`, the last of which gave `seen` (None before the first, or where nothing was run).

    `error` is the beginning of the line in a failing check's output that says what is wrong.
    """
    if not past:
        return Move.LOCATE_BADLY if Weakness.MALFORMED in intent.acting else Move.LOCATE
    last, failed = past[-1], seen is not None and seen.exit_code != 0
    if last in _SEARCHES and failed:
        return Move.SUBMIT if last is _SEARCHES[-1] else _SEARCHES[_SEARCHES.index(last) + 1]
    if last is Move.LOCATE or last in _SEARCHES:
        return _read(intent, shown=True) if Weakness.UNTESTED in intent.acting else Move.REPRODUCE
    if last is Move.REPRODUCE:
        return _read(intent, shown=seen is not None and error in seen.text)
    if last in _MENDS:
        return _finish(intent) if Weakness.UNTESTED in intent.acting else Move.CHECK
    if last is Move.CHECK:
        return _give_up_or_mend(intent, past[-2]) if failed else _finish(intent)
    if last is Move.MEND_REST:
        return Move.SUBMIT if failed else _finish(intent)
    if last is Move.FORMAT_AND_CHECK:
        return Move.MEND_AGAIN if failed else Move.SUBMIT
    return _follow(intent, last)


def _read(intent: Intent, *, shown: bool) -> Move:
    if Weakness.LOOKALIKE in intent.acting:
        return Move.READ_LOOKALIKE
    return Move.READ if shown or Weakness.CUT not in intent.acting else Move.READ_ASTRAY


def _give_up_or_mend(intent: Intent, mend: Move) -> Move:
    if mend is Move.MEND_HALF and intent.solvable:
        return Move.MEND_REST
    if mend is Move.MEND_LOOKALIKE:
        return Move.MEND_IMAGINED_LOOKALIKE if intent.habit else Move.SEEK_LOG
    if mend is Move.MEND_ASTRAY:
        return Move.SEEK_LOG if intent.habit else Move.MEND_IMAGINED
    return Move.MEND_IMAGINED if intent.habit else Move.SEEK_LOG


def _finish(intent: Intent) -> Move:
    if Weakness.REVERT in intent.acting:
        return Move.REVERT
    if Weakness.UNTESTED in intent.acting:
        return Move.LINT if intent.habit else Move.TIDY
    return Move.FORMAT_AND_CHECK if intent.rechecks else Move.FORMAT


def _follow(intent: Intent, last: Move) -> Move:
    """What does not depend on what came back."""
    if last is Move.READ:
        return Move.MEND_HALF if intent.slips or not intent.solvable else Move.MEND
    if last is Move.REVERT:
        return Move.TIDY if intent.habit else Move.LINT
    return _NEXT.get(last, Move.SUBMIT)


_NEXT: Mapping[Move, Move] = {
    Move.READ_LOOKALIKE: Move.MEND_LOOKALIKE,
    Move.READ_ASTRAY: Move.MEND_ASTRAY,
}


_MOVES: Mapping[str, Move] = {move.value: move for move in Move}


def read_move(said: str) -> Move | None:
    """The move that an earlier reply of this coder made; None for a reply that it did not write."""
    return _MOVES.get(said.partition("\n")[0])


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The commands of one package: what each move runs, and which move a command is."""

    command: Mapping[Move, str]
    move: Mapping[str, Move] = field(repr=False)
    replaces: Mapping[Move, tuple[str, str, str]]
    """Of mends: the module, the fragment that goes and the one that comes."""


def vocabulary(package: Package) -> Vocabulary:
    """Every command that the coder can give on this package."""
    folder = PurePosixPath(package.target).parent
    search = f"-n -F -e {shlex.quote(package.search)} {folder}/*.py"
    imagined = f"{package.broken.splitlines()[0]}  # as reported"
    replaces = {
        Move.MEND: (package.target, package.broken, package.fixed),
        Move.MEND_HALF: (package.target, package.broken, package.partial),
        Move.MEND_REST: (package.target, package.partial, package.fixed),
        Move.MEND_AGAIN: (package.target, package.broken, package.fixed),
        Move.MEND_LOOKALIKE: (package.lookalike, package.lookalike_line, package.lookalike_change),
        Move.MEND_ASTRAY: (package.target, *_wrong_line(package)),
        Move.MEND_IMAGINED: (package.target, imagined, package.broken),
        Move.MEND_IMAGINED_LOOKALIKE: (package.lookalike, imagined, package.broken),
    }
    command = {
        Move.LOCATE: f"grep {search}",
        Move.LOCATE_BADLY: f"grep --only-source {search}",
        Move.LOCATE_WORSE: f"grep --python-files {search}",
        Move.LOCATE_WORST: f"grep --skip-others {search}",
        Move.REPRODUCE: "python check.py",
        Move.CHECK: "python check.py",
        Move.READ: f"cat {package.target}",
        Move.READ_LOOKALIKE: f"cat {package.lookalike}",
        Move.READ_ASTRAY: f"head -n 20 {package.target}",
        Move.FORMAT: f"python tools/format.py {package.target}",
        Move.FORMAT_AND_CHECK: f"python tools/format.py {package.target} && python check.py",
        Move.REVERT: f"cp {backup_of(package.target)} {package.target}",
        Move.LINT: "tail lint.report",
        Move.TIDY: f"rm {package.target}.orig",
        Move.SEEK_LOG: "cat check.log",
        Move.SUBMIT: "echo HELDOUT_SUBMIT",
        **{move: _mend(move, *how) for move, how in replaces.items()},
    }
    return Vocabulary(command, {text: move for move, text in command.items()}, replaces)


def backup_of(path: str) -> str:
    """Where the coder keeps its backup of a module: out of the work folder, so that none is handed in."""
    return f"/tmp/{PurePosixPath(path).name}.orig"


def _mend(move: Move, path: str, old: str, new: str) -> str:
    first = f"cp {path} {backup_of(path)}\n" if move in _MENDS else ""
    last = "\npython check.py" if move is Move.MEND_REST else ""
    return f"""{first}python - <<'EOF'
from pathlib import Path
path = Path({path!r})
text = path.read_text(encoding='utf-8')
old = {old!r}
new = {new!r}
assert text.count(old) == 1, 'the fragment is not there'
path.write_text(text.replace(old, new), encoding='utf-8')
EOF{last}"""


def _wrong_line(package: Package) -> tuple[str, str]:
    """A line of the target outside the fault, and what the coder makes of it: it means the same as before."""
    text = package.files[package.target]
    lines = text.splitlines()
    faulty = set(package.broken.splitlines())
    for node in ast.walk(syntax_tree(text)):
        if not isinstance(node, ast.Return | ast.Assign) or node.value is None or node.lineno != node.end_lineno:
            continue
        line = lines[node.lineno - 1]
        if line not in faulty and text.count(line) == 1:
            raw, begin, end = line.encode(), node.value.col_offset, node.value.end_col_offset
            return line, b"".join((raw[:begin], b"(", raw[begin:end], b")", raw[end:])).decode()
    return lines[0], f"{lines[0]}\n# looked at, and left as it was"
