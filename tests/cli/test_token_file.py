"""The file of the access token: created once, for its owner only, and never replaced."""

import os
import stat
from pathlib import Path

import pytest

from argstream.cli._stores import files_of, token_file_of
from argstream.cli.serve.token_file import read_token, write_token
from argstream.errors import UsageError

TOKEN = "canary-token-1234567890"


def test_written_token_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "state" / "argstream" / "server.token"
    assert read_token(file) is None
    write_token(file, TOKEN)
    assert read_token(file) == TOKEN
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_existing_file_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "argstream.db.token"
    write_token(file, TOKEN)
    with pytest.raises(UsageError, match="another server has just created"):
        write_token(file, "another-token-1234567890")
    assert read_token(file) == TOKEN


def test_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "argstream.db.token"
    write_token(file, TOKEN)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UsageError, match="belongs to another user"):
        read_token(file)


def test_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    file = tmp_path / "argstream.db.token"
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UsageError, match="No space left on device"):
        write_token(file, TOKEN)
    assert not file.exists()


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(UsageError, match=r"cannot create .*server\.token.*or set ARGSTREAM_TOKEN"):
        write_token(tmp_path / "state" / "argstream" / "server.token", TOKEN)


def test_token_is_beside_the_store_or_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    in_home = tmp_path / ".local" / "state" / "argstream" / "server.token"
    assert token_file_of("sqlite:data/runs.db") == Path("data/runs.db.token")
    assert token_file_of("memory:") == token_file_of("redis://localhost") == in_home
    assert files_of("runs.db") == (Path("runs.db"), Path("runs.db.token"))
    assert files_of("memory:") == (in_home,)


def test_without_a_home_there_is_no_place_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert token_file_of("memory:") is None
    assert files_of("memory:") == ()


def test_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    file = tmp_path / "argstream.db.token"
    os.mkfifo(file, 0o600)
    with pytest.raises(UsageError, match="holds no token"):
        read_token(file)
