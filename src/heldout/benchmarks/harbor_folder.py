"""One task folder in the Harbor format (Terminal-Bench 2), read into a record."""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.benchmarks.scenes import Tree, read_tree, safe_path
from heldout.errors import SetupError
from heldout.records import Record

__all__ = ["HarborReference", "HarborTask", "read_folder", "task_folders"]

WORK = "/work"

_PLAIN_IMAGE = re.compile(r"(?:docker\.io/)?(?:library/)?(?:python|debian|ubuntu)(?::[\w.-]+)?")
_NETWORK = re.compile(r"\b(curl|wget|apt-get|apt|uvx?|pip3?|npm|npx|git clone|conda)\b")
_RUNS_PYTEST = re.compile(r"\bpytest\b")
_SIZES: Mapping[str, float] = {"": 1.0, "m": 1.0, "mb": 1.0, "g": 1024.0, "gb": 1024.0, "k": 1 / 1024, "kb": 1 / 1024}
_IDLE = frozenset({"CMD", "ENTRYPOINT", "LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "SHELL"})
"""Instructions that say nothing of what the work folder holds."""


class HarborReference(Record):
    """What grading one task needs; the reference of an item, as JSON."""

    id: str
    files: Mapping[str, str] = {}
    """The work folder at the start, where it is not read from an image."""
    tests: Mapping[str, str]
    solution: Mapping[str, str] = {}
    script: bool
    """Whether `test.sh` decides, by the reward that it writes; else pytest on the `test_*.py` files."""
    image: str | None = None
    origin: str | None = None
    timeout_s: float = 600.0
    memory_mb: int = 2048


@dataclass(frozen=True, slots=True)
class HarborTask:
    """A task as the source gives it."""

    reference: HarborReference
    instruction: str
    category: str
    difficulty: str
    needs: str
    """Why the base system is not enough; empty where it is."""
    refused: str
    """Why no sandbox of ours can run it; empty where one can."""


@dataclass(slots=True)
class _Recipe:
    """What a Dockerfile asks for."""

    workdir: str = "/"
    copied: dict[str, str] = field(default_factory=dict)
    """Absolute path in the image to text."""
    needs: str = ""
    refused: str = ""

    @property
    def files(self) -> dict[str, str]:
        """Relative to the work folder."""
        home = f"{self.workdir.rstrip('/')}/"
        return {path.removeprefix(home): text for path, text in self.copied.items()}


def task_folders(root: Path) -> list[Path]:
    """The folder itself, or the folders right below it, that hold a `task.toml`; by name."""
    if (root / "task.toml").is_file():
        return [root]
    found = sorted(path.parent for path in root.glob("*/task.toml"))
    if not found:
        raise SetupError(f"{str(root)!r} has no task folders: none of its folders holds a task.toml")
    return found


def read_folder(folder: Path, *, image: str | None) -> HarborTask:
    """Read one task; `SetupError` names the file and the field at fault. `image` is for tasks that name none."""
    config = _toml(folder / "task.toml")
    tests = read_tree(str(_there(folder / "tests", what="folder of tests")))
    recipe = _recipe(_own(folder / "environment"))
    script = _script_decides(folder, tests)
    named = _text(config, "environment", "docker_image", where=folder)
    own = image.replace("{id}", folder.name) if image is not None else None
    move = _Moved(recipe.workdir)
    reference = HarborReference(
        id=folder.name,
        files={} if recipe.needs else {path: move(text) for path, text in recipe.files.items()},
        tests={path: move(text) for path, text in tests.items()},
        solution={path: move(text) for path, text in _optional(folder / "solution").items()},
        script=script,
        image=(named or own) if recipe.needs else None,
        origin=recipe.workdir if recipe.needs else None,
        timeout_s=_number(config, "verifier", "timeout_sec", where=folder, default=600.0),
        memory_mb=_memory(config, where=folder),
    )
    return HarborTask(
        reference=reference,
        instruction=move(_read(folder / "instruction.md")),
        category=_text(config, "metadata", "category", where=folder),
        difficulty=_text(config, "metadata", "difficulty", where=folder),
        needs=recipe.needs,
        refused=recipe.refused or (_beyond_us(tests["test.sh"]) if script else ""),
    )


class _Moved:
    """Texts with the task's own work folder called /work, as it is in our sandboxes."""

    def __init__(self, workdir: str) -> None:
        self.pattern = re.compile(rf"(?<![\w./~-]){re.escape(workdir.rstrip('/'))}(?![\w-])")
        self.same = workdir.rstrip("/") in ("", WORK)

    def __call__(self, text: str) -> str:
        return text if self.same else self.pattern.sub(WORK, text)


def _script_decides(folder: Path, tests: Tree) -> bool:
    """Where pytest files decide anyway, they are run by our own runner and not by way of the script."""
    has_pytest = any(re.fullmatch(r"(?:.*/)?test_[^/]*\.py", path) for path in tests)
    script = tests.get("test.sh")
    if script is None and not has_pytest:
        raise SetupError(f"{str(folder / 'tests')!r} holds neither test.sh nor a test_*.py")
    return script is not None and not (has_pytest and _beyond_us(script))


def _beyond_us(script: str) -> str:
    """What a deciding test.sh does that no sandbox of ours allows."""
    if found := _NETWORK.search(_bare(script)):
        return f"its test.sh uses {found[0]}, and there is no network"
    if _RUNS_PYTEST.search(_bare(script)):
        return "its test.sh runs pytest on files that are no test_*.py"
    return ""


def _bare(script: str) -> str:
    """Without comments."""
    return re.sub(r"(?m)^\s*#.*$", "", script)


def _recipe(environment: Path) -> _Recipe:
    """What of the environment the base system can give."""
    for name in ("docker-compose.yaml", "docker-compose.yml"):
        if (environment / name).exists():
            return _Recipe(needs=f"an environment/{name}", refused="it needs several containers")
    dockerfile = environment / "Dockerfile"
    if not dockerfile.exists():
        return _Recipe(WORK, {f"{WORK}/{path}": text for path, text in _optional(environment).items()})
    recipe = _Recipe(needs="an environment/.dockerignore" if (environment / ".dockerignore").exists() else "")
    for number, word, rest in _instructions(_read(dockerfile)):
        if word == "WORKDIR":
            recipe.workdir = posixpath.normpath(posixpath.join(recipe.workdir, rest))
        else:
            where = f"{str(dockerfile)!r}, line {number}"
            recipe.needs = recipe.needs or _beyond_the_base(environment, word, rest, recipe, where=where)
    home = recipe.workdir.rstrip("/")
    if not home:
        recipe.needs, recipe.refused = recipe.needs or "a WORKDIR", "its Dockerfile names no WORKDIR"
    outside = next((path for path in recipe.copied if not path.startswith(f"{home}/")), None)
    if outside is not None:
        recipe.needs = recipe.needs or f"the file {outside} outside of its WORKDIR"
    return recipe


def _beyond_the_base(environment: Path, word: str, rest: str, recipe: _Recipe, *, where: str) -> str:
    """Why an instruction of a Dockerfile needs an image, or nothing; a COPY of text is taken over."""
    if word == "FROM":
        return "" if _PLAIN_IMAGE.fullmatch(rest) else f"the image {rest!r}"
    if word == "COPY" and not rest.startswith(("[", "-")):
        return _copy(environment, rest, recipe, where=where)
    return "" if word in _IDLE else f"{word} in its Dockerfile"


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, INSTRUCTION, rest) with continuations joined and comments left out."""
    begun, parts = 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        begun = begun or number
        parts.append(line.strip().removesuffix("\\").strip())
        if not line.rstrip().endswith("\\"):
            word, _, rest = " ".join(parts).partition(" ")
            yield begun, word.upper(), rest.strip()
            begun, parts = 0, []


def _copy(environment: Path, rest: str, recipe: _Recipe, *, where: str) -> str:
    """Take over the text files that a COPY names; returns why it needs an image, or nothing."""
    *sources, target = rest.split()
    place = posixpath.normpath(posixpath.join(recipe.workdir, target))
    for source in sources:
        name = safe_path(posixpath.normpath(source), where=where)
        path = environment / name
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise SetupError(f"{where}: COPY names {source!r}, which is no file or folder of {str(environment)!r}")
        texts = _texts(environment, name)
        if texts is None:
            return f"a COPY of {source!r}, which is not all text"
        renamed = path.is_file() and len(sources) == 1 and not target.endswith(("/", ".")) and place != recipe.workdir
        for file, text in texts.items():
            recipe.copied[place if renamed else posixpath.join(place, file)] = text
    return ""


def _texts(environment: Path, name: str) -> Tree | None:
    """The text files of a file or folder, relative to it; None where not all is text."""
    known = read_tree(str(environment))
    path = environment / name
    if path.is_file():
        return {path.name: known[name]} if name in known else None
    prefix = "" if name == "." else f"{name}/"
    found = {file.removeprefix(prefix): text for file, text in known.items() if file.startswith(prefix)}
    return found if len(found) == sum(one.is_symlink() or one.is_file() for one in path.rglob("*")) else None


def _own(path: Path) -> Path:
    """A file or folder of the task itself: a link might lead to what is yours, and to a model from there."""
    if path.is_symlink():
        raise SetupError(f"{str(path)!r} is a link; what a task is made of must lie in its own folder")
    return path


def _optional(folder: Path) -> Tree:
    return read_tree(str(folder)) if _own(folder).is_dir() else {}


def _there(folder: Path, *, what: str) -> Path:
    if not _own(folder).is_dir():
        raise SetupError(f"{str(folder)!r} is missing: a task needs a {what}")
    return folder


def _read(path: Path) -> str:
    try:
        text = _own(path).read_text(encoding="utf-8")
    except OSError as cause:
        raise SetupError(f"cannot read {str(path)!r}: {cause.strerror}") from cause
    except UnicodeDecodeError as cause:
        raise SetupError(f"{str(path)!r} is not UTF-8: byte {cause.start} cannot be read") from cause
    if not text.strip():
        raise SetupError(f"{str(path)!r} is empty")
    return text


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError as cause:
        raise SetupError(f"{str(path)!r} is not valid TOML: {cause}") from cause


def _value(config: Mapping[str, Any], table: str, field: str, *, where: Path) -> Any:
    section = config.get(table, {})
    if not isinstance(section, Mapping):
        raise SetupError(f"{str(where / 'task.toml')!r}: {table} must be a table, got {section!r}")
    return section.get(field)


def _text(config: Mapping[str, Any], table: str, field: str, *, where: Path) -> str:
    value = _value(config, table, field, where=where)
    if value is not None and not isinstance(value, str):
        raise SetupError(f"{str(where / 'task.toml')!r}: {table}.{field} must be a text, got {value!r}")
    return value or ""


def _number(config: Mapping[str, Any], table: str, field: str, *, where: Path, default: float) -> float:
    value = _value(config, table, field, where=where)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise SetupError(f"{str(where / 'task.toml')!r}: {table}.{field} must be a number above 0, got {value!r}")
    return float(value)


def _memory(config: Mapping[str, Any], *, where: Path) -> int:
    """`memory_mb = 2048`, or `memory = "2G"`."""
    value = _value(config, "environment", "memory", where=where)
    if value is None:
        return max(256, int(_number(config, "environment", "memory_mb", where=where, default=2048.0)))
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)i?\s*", str(value).lower().replace("ib", "b"))
    if found is None or found[2] not in _SIZES:
        raise SetupError(f'{str(where / "task.toml")!r}: environment.memory must be like "2G", got {value!r}')
    return max(256, int(float(found[1]) * _SIZES[found[2]]))
