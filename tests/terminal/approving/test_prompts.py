"""What stands at the bottom of the screen while somebody is asked."""

import pytest

from argstream.events import ApprovalRequested
from argstream.terminal.approving._line_editor import LineEditor
from argstream.terminal.approving._prompts import Prompt
from argstream.terminal.approving._questions import (
    always_prompt,
    confirm_prompt,
    main_prompt,
    mend_prompt,
    reason_prompt,
)
from argstream.terminal.spans import text_of
from argstream.terminal.widths import width

REQUEST = ApprovalRequested(
    "call_1",
    "write_file",
    {"path": "/etc/\x1b[31mhosts", "content": "127.0.0.1 example.org\n" * 40},
    "digest",
    "write_file needs a confirmation\u202e because it leaves the folder of the project",
    "outside",
)


def rows(prompt: Prompt, columns: int, most: int, status: str = "") -> list[str]:
    lines = prompt.lines(columns, most, status)
    return [(text_of(line.margin) + text_of(line.spans)).rstrip() for line in lines]


def test_the_question_says_what_and_which_keys_answer() -> None:
    question, *others = rows(main_prompt(REQUEST, was_edited=False), 100, 8, "1 of 3 · 9 s left")
    assert question.startswith(
        "? Run write_file?  1 of 3 · 9 s left  path=/etc/⟦ESC⟧[31mhosts  content=127.0.0.1"
    )
    assert others == [
        "  y yes · n no · d no, say why · e edit · a always · v view all · ? help",
    ]


def test_on_a_narrow_screen_keys_take_several_rows() -> None:
    assert rows(main_prompt(REQUEST, was_edited=True), 40, 8)[1:] == [
        "  y yes · n no · d no, say why",
        "  e edit again · a always · v view all",
        "  ? help",
    ]


@pytest.mark.parametrize("columns", [1, 10, 40, 200])
@pytest.mark.parametrize("most", [1, 2, 4, 12])
@pytest.mark.parametrize(
    "prompt",
    [
        main_prompt(REQUEST, was_edited=False, hint="Enter alone is no answer."),
        always_prompt(REQUEST),
        reason_prompt(REQUEST, LineEditor()),
        mend_prompt("arguments.json, line 1, column 2: no"),
        confirm_prompt(REQUEST),
    ],
    ids=["main", "always", "reason", "mend", "confirm"],
)
def test_there_are_never_more_rows_than_there_is_room_for(
    prompt: Prompt, columns: int, most: int
) -> None:
    assert 1 <= len(rows(prompt, columns, most)) <= most


def test_rows_with_keys_and_reasons_are_not_cut() -> None:
    for prompt in (main_prompt(REQUEST, was_edited=True), always_prompt(REQUEST)):
        assert all(width(row) <= 40 for row in rows(prompt, 40, 12)[1:])


def test_where_there_is_little_room_the_keys_stay() -> None:
    assert rows(main_prompt(REQUEST, was_edited=False), 30, 2) == [
        rows(main_prompt(REQUEST, was_edited=False), 30, 12)[0],
        "  y n d e a v ?",
    ]


def test_a_rule_can_be_left_out_for_good_only_if_one_asks() -> None:
    assert always_prompt(REQUEST).keys == ("t", "r", "esc")
    without = ApprovalRequested("call_1", "write_file", {}, "digest", "why")
    assert always_prompt(without).keys == ("t", "esc")


def test_what_is_typed_is_shown() -> None:
    entry = LineEditor()
    entry.text = "not this file"
    assert rows(reason_prompt(REQUEST, entry), 80, 8) == [
        "? Do not run write_file",
        "  why? not this file▏",
        "  Enter send · Esc back",
    ]
