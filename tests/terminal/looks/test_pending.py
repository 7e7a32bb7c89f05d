"""Several calls about one file in one turn: each is shown as it will apply."""

import json
from typing import Any

import pytest

from argstream.events import ToolCallStarted
from argstream.terminal.tool_views import Diff, File, Looks
from tests.terminal.looks.following import events, texts

LINES = "".join(f"line {number}\n" for number in range(1, 21))
FIRST = {"path": "f.py", "old": "line 2\n", "new": "line 2\nA\nB\nC\n"}
SECOND = {"path": "f.py", "old": "line 10\n", "new": "TEN\n"}


class Turn:
    """A folder with a file in it, and calls that are written about it."""

    def __init__(self) -> None:
        self.files = {"f.py": LINES}
        self.looks = Looks(
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
        speaker: str | None = None,
        is_past: bool = False,
    ) -> list[str]:
        place = self.calls if index is None else index
        call = ToolCallStarted(f"c{self.calls}", place, name, "function", speaker)
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


def test_an_edit_is_shown_where_it_will_be_when_those_before_it_are_made(turn: Turn) -> None:
    turn.call(FIRST)
    assert "    13 - │ line 10" in turn.call(SECOND)
    assert "    13 - │ TEN" in turn.call({"path": "f.py", "old": "TEN", "new": "10"})


def test_an_edit_of_what_another_call_writes_is_found(turn: Turn) -> None:
    turn.call(FIRST)
    assert "     3 - │ A" in turn.call({"path": "f.py", "old": "A\n", "new": "AA\n"})


def test_two_spellings_of_a_path_are_one_file(turn: Turn) -> None:
    turn.call(FIRST)
    assert "    13 - │ line 10" in turn.call({**SECOND, "path": "./f.py"})


def test_an_edit_of_another_file_changes_nothing(turn: Turn) -> None:
    turn.files["g.py"] = LINES
    turn.call(FIRST)
    assert "    10 - │ line 10" in turn.call({**SECOND, "path": "g.py"})


def test_what_a_tool_makes_of_a_file_that_it_writes_to_is_not_known(turn: Turn) -> None:
    turn.call({"path": "f.py", "content": "new\n"}, "write")
    seen = turn.call({"path": "f.py", "old": "new", "new": "old"})
    assert seen == ["       - │ new", "       + │ old"]  # no number, and not "not found" either


def test_a_call_that_has_ended_counts_no_more(turn: Turn) -> None:
    turn.call(FIRST)
    turn.call(SECOND)
    turn.files["f.py"] = LINES.replace(FIRST["old"], FIRST["new"])
    turn.looks.settle("c0")
    assert "    13 - │ TEN" in turn.call({"path": "f.py", "old": "TEN", "new": "10"})


def test_one_that_failed_has_changed_nothing(turn: Turn) -> None:
    turn.call(FIRST)
    turn.call(SECOND)
    turn.looks.settle("c0")
    assert "    10 - │ TEN" in turn.call({"path": "f.py", "old": "TEN", "new": "10"})


def test_with_the_next_turn_all_calls_before_it_have_ended(turn: Turn) -> None:
    turn.call(FIRST, index=0)
    turn.call(SECOND, index=1)
    assert "    10 - │ line 10" in turn.call(SECOND, index=0)


def test_a_turn_of_a_sub_agent_does_not_end_that_of_its_parent(turn: Turn) -> None:
    turn.call(FIRST, index=0)
    turn.call({"path": "g.py", "old": "a", "new": "b"}, index=0, speaker="c9")
    assert "    13 - │ line 10" in turn.call(SECOND, index=1)


def test_who_decides_sees_a_call_after_those_before_it(turn: Turn) -> None:
    turn.call(FIRST)
    turn.call(SECOND)
    turn.call({"path": "f.py", "old": "line 11\n", "new": ""})
    assert "    13 - │ line 10" in turn.whole(SECOND, "c1")
    turn.looks.settle("c0")
    assert "    10 - │ line 10" in turn.whole(SECOND, "c1")


def test_arguments_that_came_whole_count_for_the_calls_after_it(turn: Turn) -> None:
    turn.call({})
    turn.whole(FIRST, "c0")
    assert "    13 - │ line 10" in turn.call(SECOND)


def test_without_the_id_of_a_call_only_the_file_counts(turn: Turn) -> None:
    turn.call(FIRST)
    assert "    10 - │ line 10" in turn.whole(SECOND, None)


def test_a_call_of_which_no_view_was_made_changes_nothing_for_others(turn: Turn) -> None:
    turn.whole(FIRST, "unknown")
    assert "    10 - │ line 10" in turn.call(SECOND)


def test_files_are_not_read_for_what_is_past(turn: Turn) -> None:
    turn.files["f.py"] = "something else"
    assert turn.call(SECOND, is_past=True) == ["       - │ line 10", "       + │ TEN"]
