"""Reading the files that edits are about."""

import os
from pathlib import Path

import pytest

from argstream.terminal.tool_views import MAX_BYTES, file_reader


def test_text_is_read_unchanged(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_bytes("é\r\n\u2028".encode())
    assert file_reader(tmp_path)("sub/a.txt") == "é\r\n\u2028"
    assert file_reader(Path("/"))(str(tmp_path / "sub" / "a.txt")) == "é\r\n\u2028"
    (tmp_path / "just").write_bytes(b"x" * MAX_BYTES)
    assert file_reader(tmp_path)("just") == "x" * MAX_BYTES


NOT_READ = ["", ".", "missing", "a\0b", "x" * 5_000, "../" * 3_000, "binary", "large", "pipe"]


@pytest.mark.parametrize("path", [*NOT_READ, "/dev/zero"])
def test_other_files_are_not_read(tmp_path: Path, path: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    assert file_reader(tmp_path)(path) is None
