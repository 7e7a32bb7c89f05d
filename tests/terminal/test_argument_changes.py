"""Edited arguments are shown as changes when a call is approved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.events import ApprovalDecided
from tests.terminal.scenes.watching import Watcher, call

LINES = "".join(f"line {number}\n" for number in range(1, 21))
CHANGED = """content
@@ -7,7 +7,7 @@
  line 7
  line 8
  line 9
- line 10
+ ten
  line 11
  line 12
  line 13"""
NESTED = """edits
@@ -1,5 +1,5 @@
  [
    {
-     "old": "a"
+     "old": "b"
    }
  ]"""
TWO = "@@ -1,2 +1,2 @@"
HIDDEN = "a⟦ESC⟧\n@@ -1 +1,2 @@\n- x\n+ ⟦RLO⟧x⟦ESC⟧\n+"
values = st.none() | st.booleans() | st.integers(0, 3) | st.text("ab\n", max_size=5)
arguments = st.dictionaries(st.sampled_from("xyz"), values)


def changes(before: dict[str, object], after: dict[str, object]) -> list[str]:
    watcher = Watcher()
    watcher.take(*call(before))
    first, *rows = watcher.take(ApprovalDecided("c1", "write", "edited", "", after))
    assert first == "✓ write is approved with other arguments"
    return rows


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ({"path": "a.py", "mode": 1}, {"path": "b.py", "mode": 1}, 'path\n- "a.py"\n+ "b.py"'),
        ({"content": LINES}, {"content": LINES.replace("line 10\n", "ten\n")}, CHANGED),
        # Lines that look like those of a diff are shown as they are.
        ({"text": "-- a\n++ b"}, {"text": "@@ a\n++ b"}, f"text\n{TWO}\n- -- a\n+ @@ a\n  ++ b"),
        ({"edits": [{"old": "a"}]}, {"edits": [{"old": "b"}]}, NESTED),
        ({"old": 1}, {"new": "a\nb"}, "old  taken away\n- 1\nnew  new\n+ a\n+ b"),
        # A string differs from a value that is spelled the same.
        ({"a": "[\n]"}, {"a": []}, 'a\n- "[\\n]"\n+ []'),
        ({"a": 1}, {"a": True}, "a\n- 1\n+ true"),
        # Newlines and blanks at the end, and hidden characters, are visible.
        ({"a\x1b": "x"}, {"a\x1b": "\u202ex\x1b\n"}, HIDDEN),
        ({"text": "a \nb\n"}, {"text": "a \nb  \n"}, f"text\n{TWO}\n  a·\n- b\n+ b··"),
    ],
)
def test_changes_are_shown(before: dict[str, object], after: dict[str, object], rows: str) -> None:
    assert changes(before, after) == [f"  {row}" for row in rows.split("\n")]


@given(arguments, arguments)
def test_every_difference_is_visible(before: dict[str, object], after: dict[str, object]) -> None:
    spelled = [{name: repr(value) for name, value in each.items()} for each in (before, after)]
    has_signs = any(row.startswith(("  -", "  +")) for row in changes(before, after))
    assert has_signs is (spelled[0] != spelled[1])
