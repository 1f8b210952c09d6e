"""Patches, against what git makes and applies itself."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from heldout.benchmarks.unified_diff import apply_patch, read_patch

WORDS = ("a", "b", "cé", "", "-- x", "++ y", "@@ -1 +1 @@", " z", "form\x0cfeed", "\\ No")


def patched(files: dict[str, str], patch: str) -> dict[str, str]:
    result: dict[str, str | None] = {**files, **apply_patch(files, patch)}
    return {path: text for path, text in result.items() if text is not None}


def text_of(rng: random.Random) -> str:
    text = "".join(rng.choice(WORDS) + "\n" for _ in range(rng.randrange(12)))
    return text.removesuffix("\n") if rng.random() < 0.3 else text


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.email=a@b.c", "-c", "user.name=n", "-c", "core.quotepath=true"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, timeout=60)
    return done.stdout.decode()


def test_what_git_writes_is_applied_as_git_means_it(tmp_path: Path) -> None:
    """Changed, new, deleted, renamed, empty and unended files, with lines that look like a patch."""
    rng = random.Random(5)
    git(tmp_path, "init", "-q")
    before: dict[str, str] = {}
    for number in range(25):
        after = {path: text for path, text in before.items() if rng.random() < 0.85}
        for path in ("plain.py", "folder/with space.txt", f"new-{number}.py", "ünïcode.md"):
            if rng.random() < 0.6:
                after[path] = text_of(rng)
        if after and rng.random() < 0.3:
            path = rng.choice(sorted(after))
            after[f"moved-{number}.txt"] = after.pop(path)
        for path in before.keys() - after.keys():
            (tmp_path / path).unlink()
        for path, text in after.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8", newline="")
        git(tmp_path, "add", "-A")
        patch = git(tmp_path, "diff", "--cached", "-M")
        if patch:
            assert patched(before, patch) == after, patch
        git(tmp_path, "commit", "-qm", "x", "--allow-empty")
        before = after


def test_a_plain_unified_diff_needs_no_git_header() -> None:
    patch = "--- a/one.txt\t2024-01-01\n+++ b/one.txt\t2024-01-02\n@@ -1 +1 @@\n-old\n+new\n"
    assert patched({"one.txt": "old\n"}, patch) == {"one.txt": "new\n"}
    two = patch + "--- /dev/null\n+++ b/two.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    assert patched({"one.txt": "old\n"}, two) == {"one.txt": "new\n", "two.txt": "a\nb\n"}
    assert [one.paths for one in read_patch(two)] == [("one.txt",), ("two.txt",)]


def test_there_is_no_fuzz() -> None:
    patch = "--- a/one.txt\n+++ b/one.txt\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n"
    for text in ("first\nsame\nold\n", "same\nolder\n", ""):
        with pytest.raises(ValueError, match=r"does not fit 'one\.txt' at line 1"):
            apply_patch({"one.txt": text}, patch)
    with pytest.raises(ValueError, match=r"changes 'one\.txt', which is not there"):
        apply_patch({}, patch)


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("", "names no file"),
        ("hello\n", "names no file"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 1\n", "binary"),
        ("--- a/x\n@@ -1 +1 @@\n-a\n+b\n", r"\+\+\+ must follow"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n", "no line of the hunk"),
    ],
)
def test_what_cannot_be_read_is_said(patch: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_patch(patch)
