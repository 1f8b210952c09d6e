from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from heldout.errors import SetupError, StoreError
from heldout.records import Candidate
from heldout.store import export_candidate, load_candidate, read_folder, save_blob, save_candidate, write_atomic
from heldout.store.folders import MAX_FILE_BYTES

CANDIDATE = Candidate(files={"instruction.md": "Answer.\r\n", "sub/demonstrations.jsonl": "{}\n"}, parent="p" * 64)


def test_a_saved_candidate_is_plain_files_under_its_digest(tmp_path: Path) -> None:
    folder = save_candidate(tmp_path, CANDIDATE)
    assert folder == tmp_path / CANDIDATE.digest
    assert (folder / "instruction.md").read_bytes() == b"Answer.\r\n"
    assert (folder / "sub" / "demonstrations.jsonl").read_bytes() == b"{}\n"
    assert json.loads((tmp_path / f"{CANDIDATE.digest}.json").read_text()) == {"weights": None, "parent": "p" * 64}
    assert sorted(path.name for path in tmp_path.iterdir()) == [CANDIDATE.digest, f"{CANDIDATE.digest}.json"]
    assert load_candidate(tmp_path, CANDIDATE.digest) == CANDIDATE


def test_saving_again_changes_nothing_and_keeps_the_first_parent(tmp_path: Path) -> None:
    folder = save_candidate(tmp_path, CANDIDATE)
    before = (folder / "instruction.md").stat()
    save_candidate(tmp_path, CANDIDATE.model_copy(update={"parent": "q" * 64}))
    assert (folder / "instruction.md").stat() == before
    assert load_candidate(tmp_path, CANDIDATE.digest).parent == "p" * 64


def test_what_a_killed_save_left_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / f"{CANDIDATE.digest}.json").write_text("{")
    assert load_candidate(tmp_path, save_candidate(tmp_path, CANDIDATE).name) == CANDIDATE


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(st.from_regex(r"[a-z .äß]{0,4}[a-zß](/[a-z]x)?", fullmatch=True), st.text(), max_size=4),
    weights=st.none() | st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
)
def test_any_candidate_comes_back_with_its_digest(tmp_path: Path, files: dict[str, str], weights: str | None) -> None:
    assume(not any(b.startswith(f"{a}/") for a in files for b in files))
    candidate = Candidate(files=files, weights=weights)
    save_candidate(tmp_path, candidate)
    again = load_candidate(tmp_path, candidate.digest)
    assert again == candidate
    assert again.digest == candidate.digest


def test_changed_added_removed_and_retargeted_content_is_found(tmp_path: Path) -> None:
    folder = save_candidate(tmp_path, CANDIDATE)
    manifest = tmp_path / f"{CANDIDATE.digest}.json"
    file = folder / "instruction.md"

    def refuse() -> None:
        with pytest.raises(StoreError, match=r"was changed: its digest is now [0-9a-f]{64}"):
            load_candidate(tmp_path, CANDIDATE.digest)

    file.write_bytes(b"Answer.\n")
    refuse()
    file.write_bytes(b"Answer.\r\n")
    (folder / "extra").touch()
    refuse()
    (folder / "extra").unlink()
    manifest.write_text(json.dumps({"weights": "w"}))
    refuse()
    manifest.write_text(json.dumps({"weights": None}))
    assert load_candidate(tmp_path, CANDIDATE.digest).files == CANDIDATE.files
    file.unlink()
    refuse()


def test_what_cannot_be_read_is_a_store_error(tmp_path: Path) -> None:
    for digest in ("0" * 64, "../" + "0" * 61, ".", ""):
        with pytest.raises(StoreError, match="no candidate"):
            load_candidate(tmp_path, digest)
    folder = save_candidate(tmp_path, CANDIDATE)
    (folder / "instruction.md").write_bytes(b"\xff")
    with pytest.raises(StoreError, match="cannot be read"):
        load_candidate(tmp_path, CANDIDATE.digest)
    (folder / "instruction.md").unlink()
    (folder / "instruction.md").symlink_to("/etc/hostname")
    with pytest.raises(StoreError, match="link"):
        load_candidate(tmp_path, CANDIDATE.digest)
    (tmp_path / f"{CANDIDATE.digest}.json").unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        load_candidate(tmp_path, CANDIDATE.digest)


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "a//x", "./x", "", "a/", "a\0b", "a\\..\\x", ".."])
def test_paths_that_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    candidate = Candidate(files={name: "x"})
    with pytest.raises(StoreError, match="not a safe path"):
        save_candidate(tmp_path, candidate)
    with pytest.raises(StoreError, match="not a safe path"):
        export_candidate(candidate, tmp_path / "out")
    with pytest.raises(StoreError, match="not a safe path"):
        save_blob(tmp_path, "x", name=name)
    assert list(tmp_path.iterdir()) == []


def test_a_file_cannot_be_a_folder_too(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="'a' cannot be a file and the folder of 'a/b/c'"):
        save_candidate(tmp_path, Candidate(files={"a": "x", "a/b/c": "y"}))


def test_a_name_that_the_file_system_refuses_leaves_nothing(tmp_path: Path) -> None:
    candidate = Candidate(files={"good": "x", "n" * 300: "y"})
    with pytest.raises(StoreError, match="cannot write"):
        save_candidate(tmp_path, candidate)
    assert not (tmp_path / candidate.digest).exists()
    assert not list(tmp_path.glob(".*"))


def test_a_users_folder_is_read_whole_but_for_version_control(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_bytes("ü\r\n".encode())
    (tmp_path / ".hidden").write_text("h")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").symlink_to("nowhere")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_bytes(b"\xff\0")
    candidate = read_folder(tmp_path)
    assert candidate == Candidate(files={".hidden": "h", "sub/b.txt": "ü\r\n"})


def test_a_users_folder_that_cannot_be_a_candidate_is_refused_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no folder"):
        read_folder(tmp_path / "missing")
    with pytest.raises(SetupError, match="holds no files"):
        read_folder(tmp_path)
    file = tmp_path / "file.bin"
    for content in (b"\xff", b"a\0b"):
        file.write_bytes(content)
        with pytest.raises(SetupError, match=r"file.bin' is not UTF-8 text"):
            read_folder(tmp_path)
    file.write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(SetupError, match=r"file.bin' is too large"):
        read_folder(tmp_path)
    file.unlink()
    file.symlink_to("/etc/hostname")
    with pytest.raises(SetupError, match=r"file.bin' is a link"):
        read_folder(tmp_path)


def test_export_writes_a_new_or_an_empty_folder_only(tmp_path: Path) -> None:
    target = export_candidate(CANDIDATE, tmp_path / "deep" / "out")
    assert read_folder(target).digest == CANDIDATE.digest
    with pytest.raises(SetupError, match="not an empty folder"):
        export_candidate(CANDIDATE, target)
    (tmp_path / "empty").mkdir()
    assert read_folder(export_candidate(CANDIDATE, tmp_path / "empty")).digest == CANDIDATE.digest
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SetupError, match="not an empty folder"):
        export_candidate(CANDIDATE, tmp_path / "link")
    with pytest.raises(SetupError, match="cannot create"):
        export_candidate(CANDIDATE, target / "instruction.md" / "under" / "a-file")


def test_blobs_are_replaced_whole(tmp_path: Path) -> None:
    assert save_blob(tmp_path, "one", name="splits.json").read_bytes() == b"one"
    assert save_blob(tmp_path, b"two", name="splits.json").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["splits.json"]
    with pytest.raises(StoreError, match="cannot write"):
        write_atomic(tmp_path / "no" / "file", "x")
