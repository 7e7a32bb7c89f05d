"""What was changed of the arguments, as a person sees it."""

from hypothesis import given
from hypothesis import strategies as st

from argstream.events import ApprovalDecided
from tests.terminal.scenes.watching import Watcher, call

values = st.none() | st.booleans() | st.integers(0, 3) | st.text("ab\n", max_size=5)


def changes(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return what is shown of edited arguments when a call is approved."""
    watcher = Watcher()
    watcher.take(*call(before))
    first, *rows = watcher.take(ApprovalDecided("c1", "write", "edited", "", after))
    assert first == "✓ write is approved with other arguments"
    return rows


def test_short_values_stand_one_below_the_other() -> None:
    assert changes({"path": "a.py", "mode": 1}, {"path": "b.py", "mode": 1}) == [
        "  path",
        '  - "a.py"',
        '  + "b.py"',
    ]


def test_a_long_text_is_a_diff() -> None:
    before = "".join(f"line {number}\n" for number in range(1, 21))
    assert changes({"content": before}, {"content": before.replace("line 10\n", "ten\n")}) == [
        "  content",
        "  @@ -7,7 +7,7 @@",
        "    line 7",
        "    line 8",
        "    line 9",
        "  - line 10",
        "  + ten",
        "    line 11",
        "    line 12",
        "    line 13",
    ]


def test_a_newline_at_the_end_is_seen() -> None:
    assert changes({"text": "a\nb"}, {"text": "a\nb\n"})[-1] == "  +"


def test_lines_that_look_like_those_of_a_diff_are_shown_as_they_are() -> None:
    assert changes({"text": "-- a\n++ b"}, {"text": "@@ a\n++ b"})[2:] == [
        "  - -- a",
        "  + @@ a",
        "    ++ b",
    ]


def test_what_is_nested_is_shown_as_json() -> None:
    assert changes({"edits": [{"old": "a"}]}, {"edits": [{"old": "b"}]}) == [
        "  edits",
        "  @@ -1,5 +1,5 @@",
        "    [",
        "      {",
        '  -     "old": "a"',
        '  +     "old": "b"',
        "      }",
        "    ]",
    ]


def test_arguments_that_come_or_go_are_named() -> None:
    assert changes({"old": 1}, {"new": "a\nb"}) == [
        "  old  taken away",
        "  - 1",
        "  new  new",
        "  + a",
        "  + b",
    ]


def test_a_text_that_becomes_something_else_is_told_apart_from_it() -> None:
    assert changes({"a": "[\n]"}, {"a": []}) == ["  a", r'  - "[\n]"', "  + []"]
    assert changes({"a": 1}, {"a": True}) == ["  a", "  - 1", "  + true"]


def test_what_hides_is_seen() -> None:
    assert changes({"a\x1b": "x"}, {"a\x1b": "\u202ex\x1b\n"}) == [
        "  a⟦ESC⟧",
        "  @@ -1 +1,2 @@",
        "  - x",
        "  + ⟦RLO⟧x⟦ESC⟧",
        "  +",
    ]


def test_blanks_at_the_end_of_a_line_are_seen() -> None:
    rows = changes({"text": "a \nb\n"}, {"text": "a \nb  \n"})
    assert rows[2:] == ["    a·", "  - b", "  + b··"]


@given(
    st.dictionaries(st.sampled_from("xyz"), values), st.dictionaries(st.sampled_from("xyz"), values)
)
def test_there_is_a_change_to_be_seen_whenever_something_differs(
    before: dict[str, object], after: dict[str, object]
) -> None:
    is_same = {name: repr(value) for name, value in before.items()} == {
        name: repr(value) for name, value in after.items()
    }
    has_signs = any(row.startswith(("  -", "  +")) for row in changes(before, after))
    assert has_signs is not is_same
