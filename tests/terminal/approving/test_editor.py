"""Which editor somebody wants."""

from pathlib import Path

import pytest

from argstream.terminal.approving._editor import EditorFailed, editor_command


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({"VISUAL": "code --wait", "EDITOR": "ed"}, ["code", "--wait"]),
        ({"EDITOR": "'my editor' -x"}, ["my editor", "-x"]),
        ({"VISUAL": "", "EDITOR": " "}, ["vi"]),
        ({}, ["vi"]),
    ],
)
def test_visual_comes_before_editor_and_both_before_a_usual_one(
    environment: dict[str, str],
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "vi").touch(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert editor_command(environment) == command


def test_where_there_is_none_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EditorFailed, match=r"say which one in \$EDITOR"):
        editor_command({})


def test_a_variable_that_is_no_command_is_named() -> None:
    with pytest.raises(EditorFailed, match=r"\$EDITOR cannot be read: No closing quotation"):
        editor_command({"EDITOR": "'vi"})
