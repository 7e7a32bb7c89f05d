"""Several calls about one file in one turn: each is shown as it will apply."""

import json
from typing import Any

import pytest

from argstream.events import ToolCallStarted
from argstream.terminal import Diff, File, ToolViews
from tests.terminal.looks.following import events, texts

LINES = "".join(f"line {number}\n" for number in range(1, 21))
FIRST = {"path": "f.py", "old": "line 2\n", "new": "line 2\nA\nB\nC\n"}
SECOND = {"path": "f.py", "old": "line 10\n", "new": "TEN\n"}
THIRD = {"path": "f.py", "old": "TEN", "new": "10"}
MOVED, UNMOVED = "    13 - │ line 10", "    10 - │ line 10"  # after FIRST, and without it


class Turn:
    """A folder with a file in it, and calls that are written about it."""

    def __init__(self) -> None:
        self.files = {"f.py": LINES}
        self.looks = ToolViews(
            {"edit": Diff("old", "new"), "write": File()},
            read_file=lambda path: self.files.get(path.removeprefix("./")),
        )
        self.calls = 0

    def call(
        self,
        arguments: dict[str, Any],
        name: str = "edit",
        *,
        index: int | None = None,
        parent: str | None = None,
        is_past: bool = False,
    ) -> list[str]:
        place = self.calls if index is None else index
        call = ToolCallStarted(f"c{self.calls}", place, name, "function", parent)
        self.calls += 1
        view = self.looks.view(call, is_past=is_past)
        for event in events(json.dumps(arguments), name, "function", 9):
            view.take(event)
        return texts(view.finish())

    def whole(self, arguments: dict[str, Any], call_id: str | None) -> list[str]:
        return texts(self.looks.whole("edit", arguments, call_id=call_id))


@pytest.fixture
def turn() -> Turn:
    return Turn()


def test_edit_is_shown_as_if_earlier_ones_were_applied(turn: Turn) -> None:
    turn.files["g.py"] = LINES
    turn.call(FIRST)
    assert MOVED in turn.call(SECOND)
    assert "    13 - │ TEN" in turn.call(THIRD)
    assert "     3 - │ A" in turn.call({"path": "f.py", "old": "A\n", "new": "AA\n"})
    assert "    13 - │ 10" in turn.call({**THIRD, "path": "./f.py", "old": "10\n"})
    assert UNMOVED in turn.call({**SECOND, "path": "g.py"})  # another file


def test_file_that_another_tool_writes_is_unknown(turn: Turn) -> None:
    turn.call({"path": "f.py", "content": "new\n"}, "write")
    seen = turn.call({"path": "f.py", "old": "new", "new": "old"})
    assert seen == ["       - │ new", "       + │ old"]  # no number, and not "not found" either


@pytest.mark.parametrize(("is_applied", "line"), [(True, 13), (False, 10)])
def test_settled_call_counts_if_the_file_changed(turn: Turn, is_applied: bool, line: int) -> None:
    turn.call(FIRST)
    turn.call(SECOND)
    if is_applied:  # else it failed
        turn.files["f.py"] = LINES.replace(FIRST["old"], FIRST["new"])
    turn.looks.settle("c0")
    assert f"    {line} - │ TEN" in turn.call(THIRD)


def test_next_turn_settles_the_calls_of_the_last(turn: Turn) -> None:
    turn.call(FIRST, index=0)
    turn.call({"path": "g.py", "old": "a", "new": "b"}, index=0, parent="c9")  # of a sub-agent
    assert MOVED in turn.call(SECOND, index=1)
    assert UNMOVED in turn.call(SECOND, index=0)


def test_approver_sees_a_call_after_earlier_ones(turn: Turn) -> None:
    turn.call(FIRST)
    turn.call(SECOND)
    turn.call({"path": "f.py", "old": "line 11\n", "new": ""})
    assert MOVED in turn.whole(SECOND, "c1")
    assert UNMOVED in turn.whole(SECOND, None)  # only the file counts
    turn.looks.settle("c0")
    assert UNMOVED in turn.whole(SECOND, "c1")


def test_whole_arguments_count_for_later_calls(turn: Turn) -> None:
    turn.call({})
    turn.whole(FIRST, "c0")
    assert MOVED in turn.call(SECOND)
    other = Turn()
    other.whole(FIRST, "unknown")  # has no view
    assert UNMOVED in other.call(SECOND)


def test_files_are_not_read_for_past_calls(turn: Turn) -> None:
    turn.files["f.py"] = "something else"
    assert turn.call(SECOND, is_past=True) == ["       - │ line 10", "       + │ TEN"]
