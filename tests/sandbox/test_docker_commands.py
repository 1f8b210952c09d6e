"""What is said to the docker command, and what becomes of its answers; no engine is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from heldout.errors import SandboxError
from heldout.sandbox import Limits, Scene
from heldout.sandbox.docker import DEFAULT_IMAGE, Docker, command_argv, keeper_argv

SCENE = Scene(
    env={"A": "b c"}, limits=Limits(disk_mb=7, memory_mb=256, processes=9, cpu_s=2.6, file_mb=3), mounts={"/data": "/d"}
)


def value(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


@pytest.mark.parametrize(
    "words",
    [
        keeper_argv("n", SCENE),
        command_argv("n-1", "n", ["id"], scene=SCENE, limits=SCENE.limits, wall_s=40),
    ],
)
def test_every_container_is_confined(words: list[str]) -> None:
    assert words[:2] == ["docker", "run"]
    assert value(words, "--network") == "none"
    assert value(words, "--cap-drop") == "ALL"
    assert value(words, "--security-opt") == "no-new-privileges"
    assert value(words, "--user") == "1000:1000"
    assert value(words, "--pull") == "never"
    assert {"--read-only", "--rm"} <= set(words)
    assert "--privileged" not in words
    assert "--tty" not in words


def test_the_keeper_holds_the_folders_with_their_limits_and_waits_for_its_input_to_close() -> None:
    words = keeper_argv("n", SCENE)
    work, tmp, mount = (words[index + 1] for index, word in enumerate(words) if word == "--mount")
    assert work == (
        "type=volume,dst=/work,volume-opt=type=tmpfs,volume-opt=device=tmpfs,"
        '"volume-opt=o=size=7m,nr_inodes=1792,uid=1000,gid=1000,mode=0755"'
    )
    assert "dst=/tmp" in tmp
    assert "mode=1777" in tmp
    assert mount == "type=bind,src=/data,dst=/d,readonly"
    assert words[-4:] == ["sh", DEFAULT_IMAGE, "-c", "echo ready; read -r _"]


def test_a_command_has_its_limits_and_ends_from_inside_too() -> None:
    words = command_argv("n-1", "n", ["ls", "-l"], scene=SCENE, limits=SCENE.limits, wall_s=40)
    assert value(words, "--volumes-from") == "n"
    assert (value(words, "--memory"), value(words, "--memory-swap")) == ("256m", "256m")
    assert value(words, "--pids-limit") == "11"
    limits = {words[index + 1] for index, word in enumerate(words) if word == "--ulimit"}
    assert limits == {"cpu=3", f"fsize={3 << 20}", "core=0", "nofile=1024"}
    settings = {words[index + 1] for index, word in enumerate(words) if word == "--env"}
    assert settings == {"HOME=/work", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0", "A=b c"}
    assert words[-5:] == ["-c", '(exec timeout -s KILL "$0" "$@"); exit $?', "40", "ls", "-l"]


def test_an_image_of_the_scene_is_used() -> None:
    scene = SCENE.model_copy(update={"image": "swe:1"})
    assert "swe:1" in keeper_argv("n", scene)
    assert "swe:1" in command_argv("n-1", "n", ["id"], scene=scene, limits=scene.limits, wall_s=1)


def test_a_mount_that_the_command_line_would_read_otherwise_is_refused() -> None:
    with pytest.raises(SandboxError, match="no comma"):
        keeper_argv("n", Scene(mounts={"/data,readonly=false": "/d"}))


def test_without_the_command_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not on the PATH" in str(Docker().fault())
    with pytest.raises(SandboxError, match="not on the PATH"), Docker().open(Scene()):
        pytest.fail("a sandbox was opened")


def test_without_an_engine_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2; exit 1\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "systemctl start docker" in str(Docker().fault())
    with pytest.raises(SandboxError, match="Cannot connect"), Docker().open(Scene()):
        pytest.fail("a sandbox was opened")
