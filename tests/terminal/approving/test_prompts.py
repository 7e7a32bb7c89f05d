"""What stands at the bottom of the screen while somebody is asked."""

from dataclasses import replace

import pytest

from argstream.events import ApprovalRequested
from argstream.terminal.approving._line_editor import LineEditor
from argstream.terminal.approving._prompts import Prompt, arguments_in_short
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
    question, *others = rows(main_prompt(REQUEST, has_changes=False), 100, 8, "1 of 3 · 9 s left")
    assert question.startswith(
        "? Run write_file?  1 of 3 · 9 s left  path=/etc/⟦ESC⟧[31mhosts  content=127.0.0.1"
    )
    assert question.endswith("example.org (40 lines)")
    assert others == [
        "  y yes · n no · d no, say why · e edit · a always · v view all · ? help",
    ]


def test_what_somebody_has_changed_is_not_what_runs_and_that_is_said() -> None:
    question, note, keys = rows(main_prompt(REQUEST, has_changes=True), 100, 8)
    assert question.startswith("? Run write_file as the model wrote it, without your changes?")
    assert note == "  What you have changed is not used; e goes back to it."
    assert "e edit again" in keys
    always = rows(always_prompt(REQUEST, has_changes=True), 100, 8)
    assert always[0].startswith("? Run it as the model wrote it, and ask no more")


def test_on_a_narrow_screen_keys_take_several_rows() -> None:
    assert rows(main_prompt(REQUEST, has_changes=False), 30, 8)[1:] == [
        "  y yes · n no · d no, say why",
        "  e edit · a always",
        "  v view all · ? help",
    ]


@pytest.mark.parametrize("columns", [1, 10, 40, 200])
@pytest.mark.parametrize("most", [1, 2, 4, 12])
@pytest.mark.parametrize(
    "prompt",
    [
        main_prompt(REQUEST, has_changes=False, hint="Enter alone is no answer."),
        always_prompt(REQUEST, has_changes=False),
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


def test_where_there_is_room_nothing_but_the_detail_is_cut() -> None:
    prompt = always_prompt(REQUEST, has_changes=True)
    assert all(width(row) <= 30 for row in rows(prompt, 30, 12))
    assert prompt.fits(30, len(rows(prompt, 30, 12)))


@pytest.mark.parametrize(
    ("columns", "most", "expected"),
    [
        (80, 1, ["? Run write_file? y/n/d/e/a/v/?"]),
        (30, 2, ["? Run write_file?", "  y/n/d/e/a/v/?"]),
        (30, 1, ["y/n/d/e/a/v/? Run write_file?"]),
        (10, 1, ["make this wider"]),
    ],
)
def test_what_does_not_fit_is_said_above_and_a_reminder_is_left(
    columns: int, most: int, expected: list[str]
) -> None:
    prompt = main_prompt(REQUEST, has_changes=False)
    assert not prompt.fits(columns, most)
    assert rows(prompt, columns, most) == expected
    above = [text_of(line.margin) + text_of(line.spans) for line in prompt.paragraphs()]
    assert above == [
        "? Run write_file?",
        "  y yes · n no · d no, say why · e edit · a always · v view all · ? help",
    ]


def test_all_of_a_note_is_said_where_it_does_not_fit() -> None:
    prompt = always_prompt(REQUEST, has_changes=False)
    assert not prompt.fits(40, 4)
    assert rows(prompt, 40, 4) == ["? Always run it? t/r/Esc"]
    assert "r: outside" in [text_of(line.spans) for line in prompt.paragraphs()]


def test_a_prompt_whose_keys_cannot_be_seen_cannot_be_read() -> None:
    prompt = main_prompt(REQUEST, has_changes=False)
    assert prompt.can_be_read(13)
    assert not prompt.can_be_read(12)


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_a_hint_takes_the_place_of_nothing_that_matters(most: int) -> None:
    prompt = main_prompt(REQUEST, has_changes=False)
    hinted = rows(replace(prompt, hint="Enter alone is no answer."), 100, most)
    text = "\n".join(hinted)
    assert "? Run write_file?" in text
    assert "y yes" in text or "y/n/d/e/a/v/?" in text
    assert "Enter alone is no answer." in text


def test_only_keys_that_let_it_run_do_so() -> None:
    assert [key for key in "yndeav?" if main_prompt(REQUEST, has_changes=False).runs(key)] == ["y"]
    always = always_prompt(REQUEST, has_changes=False)
    assert [key for key in always.keys if always.runs(key)] == ["t", "r"]
    assert [key for key in ("y", "e", "n", "esc") if confirm_prompt(REQUEST).runs(key)] == ["y"]


@pytest.mark.parametrize(
    ("value", "short"),
    [
        ("one", "a=one"),
        ("one\n", "a=one…"),
        ("one\ntwo\n", "a=one (2 lines)"),
        ("x" * 61, "a=" + "x" * 60 + "…"),
        ("x" * 61 + "\ntwo\n3", "a=" + "x" * 60 + "… (3 lines)"),
        (["one\ntwo"], r'a=["one\ntwo"]'),
    ],
)
def test_arguments_in_short_say_how_much_is_left_out(value: object, short: str) -> None:
    assert arguments_in_short({"a": value}).text == short


def test_a_rule_can_be_left_out_for_good_only_if_one_asks() -> None:
    assert always_prompt(REQUEST, has_changes=False).keys == ("t", "r", "esc")
    without = ApprovalRequested("call_1", "write_file", {}, "digest", "why")
    assert always_prompt(without, has_changes=False).keys == ("t", "esc")


def test_what_is_typed_is_shown() -> None:
    entry = LineEditor()
    entry.text = "not this file"
    assert rows(reason_prompt(REQUEST, entry), 80, 8) == [
        "? Do not run write_file",
        "  why? not this file▏",
        "  Enter send · Esc back",
    ]
