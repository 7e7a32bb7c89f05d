"""Reading the files that edits are about."""

import os
from pathlib import Path

import pytest

from argstream.terminal.tool_views import MAX_BYTES, file_reader


def test_a_text_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_bytes("é\r\n\u2028".encode())
    assert file_reader(tmp_path)("sub/a.txt") == "é\r\n\u2028"
    assert file_reader(Path("/"))(str(tmp_path / "sub" / "a.txt")) == "é\r\n\u2028"


@pytest.mark.parametrize("path", ["", ".", "missing", "a\0b", "x" * 5_000, "../" * 3_000])
def test_what_is_no_file_is_none(tmp_path: Path, path: str) -> None:
    assert file_reader(tmp_path)(path) is None


def test_what_is_no_text_or_too_large_is_none(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "just").write_bytes(b"x" * MAX_BYTES)
    (tmp_path / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    read = file_reader(tmp_path)
    assert read("binary") is None
    assert read("large") is None
    assert read("just") == "x" * MAX_BYTES


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes in folders")
def test_it_waits_for_no_pipe_and_reads_no_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert file_reader(tmp_path)("pipe") is None
    assert file_reader(tmp_path)("/dev/zero") is None
