"""Output that is capped, folders that are read without following links, and work folders as archives."""

from __future__ import annotations

import base64
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.errors import SandboxError
from heldout.sandbox.archive import pack, unpack
from heldout.sandbox.base import Scene
from heldout.sandbox.encoding import as_bytes, as_text
from heldout.sandbox.folder import read_folder, write_folder
from heldout.sandbox.output import CappedOutput
from heldout.tasks.environment import changes_answer
from heldout.testing.local_sandbox import LocalSandboxes


class TestCappedOutput:
    def test_what_fits_is_kept_whole(self) -> None:
        output = CappedOutput(10)
        output.add(b"01234")
        output.add(b"56789")
        assert output.text() == "0123456789"

    def test_of_more_the_head_and_the_tail_are_kept_and_the_missing_bytes_are_counted(self) -> None:
        output = CappedOutput(10)
        for part in (b"abc", b"defgh", b"ijklmnop"):
            output.add(part)
        assert output.text() == "abcde\n[… 6 bytes left out …]\nlmnop"

    def test_a_character_that_the_cut_goes_through_is_left_out(self) -> None:
        output = CappedOutput(6)
        output.add("aéé-éé€".encode())  # a é | é - é é € | : head a é, tail the last three bytes, €
        assert output.text() == "aé\n[… 7 bytes left out …]\n€"
        other = CappedOutput(6)
        other.add("abé-----é€"[:9].encode() + "€x".encode())  # the cut falls into é at the head, into € at the tail
        assert "\ufffd" not in other.text()

    def test_bytes_that_are_no_text_are_replaced(self) -> None:
        output = CappedOutput(10)
        output.add(b"a\xff")
        assert output.text() == "a\ufffd"

    @given(st.lists(st.binary(max_size=40), max_size=12), st.integers(2, 30))
    def test_no_more_than_the_limit_is_held_and_nothing_is_miscounted(self, parts: list[bytes], limit: int) -> None:
        output = CappedOutput(limit)
        for part in parts:
            output.add(part)
        whole = b"".join(parts)
        assert output.total == len(whole)
        if len(whole) <= limit:
            assert output.text() == whole.decode("utf-8", "replace")
        else:
            assert len(output._head) == limit // 2
            assert whole.startswith(output._head)
            assert whole.endswith(output._tail)
            assert len(output._head) + len(output._tail) == limit


BOOK = b"PK\x03\x04\xff\xfe"
TEXT = base64.b64encode(BOOK).decode()


class TestEncoding:
    @given(st.binary(max_size=64))
    def test_any_bytes_come_back_from_their_text(self, data: bytes) -> None:
        text = as_text("a.XLSX", data, (".xlsx",))
        assert text is not None
        assert as_bytes("a.XLSX", text, (".xlsx",)) == data

    def test_other_files_stay_text_and_bytes_that_are_none_are_left_out(self) -> None:
        assert as_text("a.csv", "ä".encode(), (".xlsx",)) == "ä"
        assert as_text("a.csv", BOOK, (".xlsx",)) is None
        assert as_bytes("a.csv", "ä", (".xlsx",)) == b"\xc3\xa4"

    @pytest.mark.parametrize("text", ["a", "a b=", "ä", "=\n", "QQ==\n"])
    def test_bad_base64_is_an_error_that_names_the_file(self, text: str) -> None:
        with pytest.raises(SandboxError, match=r"in/b\.xlsx"):
            as_bytes("in/b.xlsx", text, (".xlsx",))

    def test_an_answer_holds_the_changed_bytes_and_only_those(self) -> None:
        scene = Scene(files={"a.xlsx": TEXT, "b.xlsx": TEXT}, encoded=(".xlsx",))
        with LocalSandboxes().open(scene) as sandbox:
            sandbox.run(["sh", "-c", "printf x >>a.xlsx"])
            answer = changes_answer(scene.files, sandbox.snapshot())
        assert json.loads(answer) == {"a.xlsx": base64.b64encode(BOOK + b"x").decode()}


class TestFolder:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Iterator[int]:
        descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        yield descriptor
        os.close(descriptor)

    def test_what_is_written_is_read_back(self, folder: int) -> None:
        files = {"a.txt": "ä\r\n", "p/q/r.py": "", "p/z": "\0"}
        write_folder(folder, files, owner=None)
        assert read_folder(folder, limit=1000) == files

    def test_a_file_where_a_folder_should_be_is_an_error_that_names_it(self, folder: int) -> None:
        with pytest.raises(SandboxError, match="'a/b'"):
            write_folder(folder, {"a": "", "a/b": ""}, owner=None)

    def test_text_that_is_none_is_an_error(self, folder: int) -> None:
        with pytest.raises(SandboxError, match="surrogates"):
            write_folder(folder, {"a": "\ud800"}, owner=None)

    def test_the_limit_is_of_all_files_together_in_the_order_of_names(self, folder: int, tmp_path: Path) -> None:
        for name, size in (("a", 4), ("b", 5), ("c", 6), ("d", 1)):
            (tmp_path / name).write_text("x" * size)
        assert set(read_folder(folder, limit=10)) == {"a", "b", "d"}

    def test_encoded_files_count_with_their_bytes_and_not_with_their_text(self, folder: int) -> None:
        files = {"a.xlsx": TEXT, "sub/B.XLSX": TEXT}
        write_folder(folder, files, owner=None, encoded=(".xlsx",))
        assert read_folder(folder, limit=2 * len(BOOK), encoded=(".xlsx",)) == files
        assert read_folder(folder, limit=2 * len(BOOK) - 1, encoded=(".xlsx",)) == {"a.xlsx": TEXT}
        assert read_folder(folder, limit=1000) == {}

    def test_descriptors_are_closed(self, folder: int, tmp_path: Path) -> None:
        for number in range(50):
            (tmp_path / f"d{number}").mkdir()
            (tmp_path / f"d{number}" / "f").write_bytes(b"\xff")
        before = len(os.listdir("/proc/self/fd"))
        assert read_folder(folder, limit=1000) == {}
        assert len(os.listdir("/proc/self/fd")) == before


class TestArchive:
    def test_what_is_packed_is_unpacked(self) -> None:
        files = {"a.txt": "ä\n", "p/q/r.py": ""}
        assert unpack(io.BytesIO(pack(files, owner=1000)), limit=1000) == files

    def test_encoded_files_are_packed_as_bytes_and_unpacked_as_base64(self) -> None:
        files = {"a.txt": "ä", "p/B.xlsx": TEXT}
        packed = pack(files, owner=1000, encoded=(".xlsx",))
        assert unpack(io.BytesIO(packed), limit=1000, encoded=(".xlsx",)) == files
        assert unpack(io.BytesIO(packed), limit=1000) == {"a.txt": "ä"}
        with pytest.raises(SandboxError, match=r"p/B\.xlsx"):
            pack({"p/B.xlsx": "?"}, owner=1000, encoded=(".xlsx",))

    def test_a_path_out_of_the_folder_is_refused(self) -> None:
        with pytest.raises(SandboxError, match="no path"):
            pack({"../x": ""}, owner=1000)

    def test_a_hostile_archive_gives_its_plain_text_files_only(self) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, kind in (("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE)):
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, "/etc/passwd"
                archive.addfile(member)
            for name, data in (
                ("./good", b"x"),
                ("../up", b"x"),
                ("/abs", b"x"),
                ("bin", b"\xff"),
                ("__pycache__/m", b"x"),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        buffer.seek(0)
        assert unpack(buffer, limit=1000) == {"good": "x"}

    def test_no_more_than_twice_the_limit_is_read(self) -> None:
        stream = io.BytesIO(pack({f"f{number:03d}": "x" * 1000 for number in range(100)}, owner=1))
        assert len(unpack(stream, limit=10_000)) <= 10
        assert stream.tell() < 80_000

    def test_noise_is_an_error(self) -> None:
        with pytest.raises(SandboxError, match="cannot be read"):
            unpack(io.BytesIO(b"noise" * 1000), limit=1000)
