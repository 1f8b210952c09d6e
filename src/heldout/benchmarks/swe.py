"""SWE-bench, SWE-rebench and instance files of the same form: mend an issue of a repository (Jimenez et al., 2024)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from heldout.benchmarks.scenes import Beginnings, safe_path
from heldout.benchmarks.swe_grading import DEFAULT_COMMAND, LOGS, SweReference, solved_by
from heldout.benchmarks.unified_diff import read_patch
from heldout.errors import SetupError
from heldout.options import read_options
from heldout.records import Record
from heldout.sandbox import Limits, make_sandboxes
from heldout.tasks.base import Item
from heldout.tasks.rows import Row, read_jsonl

__all__ = ["SweOptions", "SweSource"]

_IMAGE_FIELDS = ("image_name", "docker_image", "image")
_PYTEST = "pytest"


class SweOptions(Record):
    """`tasks.options` of `swe`."""

    image: str | None = None
    """Image of a task whose row names none: `{id}` stands for the instance id, `{slug}` for the id with `_1776_` for
    `__`; SWE-bench has `swebench/sweb.eval.x86_64.{slug}:latest`."""
    folder: str = "/testbed"
    """Where the repository lies in the image."""
    checkouts: str | None = None
    """Folder with a checkout of every task at its base commit, `INSTANCE_ID/`. Tasks then need no image: they run in
    bubblewrap with this machine's Python, for repositories that need nothing else."""
    shell: str = ""
    """Shell that makes the image's tools usable, for example `source /opt/miniconda3/bin/activate testbed`."""
    test_cmd: str | None = None
    """Test command of a task whose row names none; the test files follow it. None is pytest."""
    ood: tuple[str, ...] = ()
    """Languages (field `language`) that may only enter the report role `ood`."""
    timeout_s: float = Field(default=1800.0, gt=0.0)
    """Longest run of a task's tests."""
    memory_mb: int = Field(default=8192, ge=256)
    """Address space of each process."""


class SweSource:
    """SWE-bench style instances, JSON or JSONL, graded by their tests (tasks.path names the file).

    Rows have instance_id, repo, base_commit, problem_statement, patch, test_patch, FAIL_TO_PASS and PASS_TO_PASS (a
    list, or its JSON text); an image is in image_name, docker_image or image, and a test command in
    install_config.test_cmd.
    A task's group is its repository, so that `tasks.split_by = "group"` keeps repositories apart.
    """

    description = "Mend the issue in a repository by editing its files; hidden tests decide."
    instruction = (
        "You are in a shell in the folder /work, which holds a repository. Mend the issue that you are given by "
        "editing the files there. Hidden tests decide whether it is mended; they replace the tests that they change."
    )
    labels: tuple[str, ...] = ()
    grader = "heldout.benchmarks.swe_grading:grade_swe"

    def __init__(self, *, path: str | None = None, seed: int = 0, **options: Any) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        if path is None:
            raise SetupError("the source 'swe' reads a file of instances (JSON or JSONL): set tasks.path to it")
        self.path = Path(path)
        self.options = read_options(SweOptions, options, where="task source 'swe'")

    @property
    def environment(self) -> Beginnings:
        """The repository of every task at its base commit."""
        limits = Limits(wall_s=300.0, cpu_s=300.0, memory_mb=self.options.memory_mb, processes=256, disk_mb=1024)
        references = {row.fields["instance_id"]: self._reference(row) for row in self._rows()}
        return Beginnings("swe", {name: one.beginning(limits=limits) for name, one in references.items()})

    def items(self) -> Sequence[Item]:
        rows = self._rows()
        items = [self._item(row) for row in rows]
        if self.options.checkouts is None:
            _refuse_without_docker([item.id for item in items])
        return items

    def solution(self, item: Item) -> str:
        """The answer that the reference patch makes."""
        return solved_by(SweReference.model_validate_json(item.reference))

    def solution_text(self, item: Item) -> str:
        """The reference patch."""
        return SweReference.model_validate_json(item.reference).patch

    def _item(self, row: Row) -> Item:
        reference = self._reference(row)
        language = str(row.fields.get("language") or "").lower()
        return Item(
            id=reference.id,
            input=self._text(row, "problem_statement"),
            reference=reference.model_dump_json(exclude_defaults=True),
            family=reference.repo,
            stratum=language,
            group=reference.repo,
            pool="ood" if language and language in {name.lower() for name in self.options.ood} else "",
        )

    def _reference(self, row: Row) -> SweReference:
        name = self._text(row, "instance_id")
        command, runner = self._command(row)
        found = SweReference(
            id=name,
            repo=self._text(row, "repo"),
            commit=self._text(row, "base_commit"),
            patch=self._text(row, "patch"),
            test_patch=self._text(row, "test_patch"),
            fail_to_pass=self._names(row, "FAIL_TO_PASS"),
            pass_to_pass=self._names(row, "PASS_TO_PASS"),
            image=None if self.options.checkouts is not None else self._image(row, name),
            folder=self._checkout(row, name) if self.options.checkouts is not None else self.options.folder,
            command=command,
            runner=runner,
            shell=self.options.shell,
            timeout_s=self.options.timeout_s,
            memory_mb=self.options.memory_mb,
        )
        if not found.fail_to_pass:
            raise self._fault(row, "FAIL_TO_PASS is empty, so nothing would tell a solution from none")
        for field in ("patch", "test_patch"):
            self._check_patch(row, field)
        return found

    def _command(self, row: Row) -> tuple[str, str]:
        """The test command, and what its names and logs look like."""
        config = row.fields.get("install_config") or {}
        if not isinstance(config, Mapping):
            raise self._fault(row, f"install_config must be a table, got {str(config)[:60]!r}")
        command = config.get("test_cmd") or row.fields.get("test_cmd") or self.options.test_cmd or DEFAULT_COMMAND
        if isinstance(command, list):
            command = " && ".join(map(str, command))
        parser = str(config.get("log_parser") or row.fields.get("log_parser") or "")
        words = f"{parser} {command}".lower()
        runner = next((name for name in (_PYTEST, *LOGS) if name in words), None)
        if runner is None:
            known = ", ".join((_PYTEST, *LOGS))
            raise self._fault(row, f"no known test runner in {command!r} (log_parser {parser!r}); there is {known}")
        return str(command), runner

    def _image(self, row: Row, name: str) -> str:
        named = next((row.fields[field] for field in _IMAGE_FIELDS if row.fields.get(field)), None)
        if named is not None:
            return str(named)
        if self.options.image is None:
            raise self._fault(
                row,
                f"none of {', '.join(_IMAGE_FIELDS)} names a container image; set tasks.options.image, for SWE-bench "
                "to swebench/sweb.eval.x86_64.{slug}:latest, or tasks.options.checkouts",
            )
        return self.options.image.replace("{id}", name).replace("{slug}", name.replace("__", "_1776_").lower())

    def _checkout(self, row: Row, name: str) -> str:
        folder = Path(self.options.checkouts or "") / safe_path(name, where=self._where(row, "instance_id"))
        if not folder.is_dir():
            raise self._fault(row, f"there is no checkout {str(folder)!r} (tasks.options.checkouts)")
        return str(folder)

    def _rows(self) -> list[Row]:
        """Of a JSON list, of a JSON map of id to instance, or of JSON lines; ids are unique."""
        rows = _read_rows(self.path)
        seen: dict[str, Row] = {}
        for row in rows:
            name = self._text(row, "instance_id")
            if name in seen:
                raise SetupError(
                    f"{str(self.path)!r}: {seen[name].where} and {row.where} have the same instance_id {name!r}"
                )
            seen[name] = row
        return rows

    def _text(self, row: Row, field: str) -> str:
        value = row.fields.get(field)
        if not isinstance(value, str) or not value.strip():
            raise self._fault(row, f"the field {field!r} must be a text, got {str(value)[:60]!r}")
        return value

    def _names(self, row: Row, field: str) -> tuple[str, ...]:
        """A list of test names, or the JSON text of one."""
        value = row.fields.get(field)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError as cause:
                raise self._fault(row, f"the field {field!r} is no JSON list: {value[:60]!r}") from cause
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise self._fault(row, f"the field {field!r} must be a list of test names, got {str(value)[:60]!r}")
        return tuple(dict.fromkeys(value))

    def _check_patch(self, row: Row, field: str) -> None:
        try:
            for patch in read_patch(self._text(row, field)):
                for path in patch.paths:
                    safe_path(path, where=self._where(row, field))
        except ValueError as cause:
            raise self._fault(row, f"the field {field!r} is no patch of text files: {cause}") from cause

    def _where(self, row: Row, field: str) -> str:
        return f"{str(self.path)!r}, {row.where}, field {field!r}"

    def _fault(self, row: Row, what: str) -> SetupError:
        name = row.fields.get("instance_id")
        return SetupError(f"{str(self.path)!r}, {row.where}{f' ({name})' if name else ''}: {what}")


def _read_rows(path: Path) -> list[Row]:
    if path.suffix.lower() != ".json":
        return read_jsonl(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as cause:
        raise SetupError(f"cannot read {str(path)!r}: {cause.strerror}; looked from {str(Path.cwd())!r}") from cause
    except (ValueError, RecursionError) as cause:
        raise SetupError(
            f"{str(path)!r} is not valid JSON: {cause}; JSON lines need a name that ends in .jsonl"
        ) from cause
    if isinstance(content, dict):
        content = list(content.values())
    if not isinstance(content, list) or not content or not all(isinstance(one, dict) for one in content):
        raise SetupError(f"{str(path)!r}: expected a list of instances, got {str(content)[:60]!r}")
    return [Row(number, number, fields) for number, fields in enumerate(content, start=1)]


def _refuse_without_docker(names: Sequence[str]) -> None:
    """Before a run, and not as one failed evaluation after the other."""
    fault = make_sandboxes("docker").fault()
    if fault is not None:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        raise SetupError(
            f"{shown} run in container images, and Docker does not work here: {fault}. Where the repositories need "
            "nothing but Python, set tasks.options.checkouts to a folder with their checkouts"
        )
