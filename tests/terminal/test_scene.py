"""What a scene commits, in which order, and what its tail shows meanwhile."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import events as e
from argstream.events import Event, TextDelta, ThinkingDelta, ToolArgsCompleted
from argstream.history import Message
from argstream.terminal.tool_views import ToolViews
from tests.provider_streams import provider_failed
from tests.runs.records import snapshot_of
from tests.terminal.looks.following import roles
from tests.terminal.scenes.watching import (
    COLUMNS,
    Watcher,
    call,
    printed,
    returned,
    runs,
    started,
    watch,
    wrote,
)

TEXT = "all is well, in every file\nand more\n"
EMPTY = Message(role="assistant", parts=())
REJECTED = e.ToolArgsInvalid("c1", "write", "rejected", "", e.ArgumentsError("schema", "no"))
REFUSED = e.ToolCallFailed("c1", "write", "it was rejected: no")
TURN_OVER = e.TurnCompleted("tool_use", EMPTY, e.Usage(7, 5))
BEGUN: list[Event] = [e.RunStarted("r", "Go"), e.TurnStarted(1), TURN_OVER]
COST = "7 in / 5 out tokens"
DONE = e.RunCompleted(None, e.Usage(7, 5), "end_turn")
THOUGHT = "~ Thought for 1.0 s (hidden)"
CUT = provider_failed("cut", "hung up")
REQUEST = e.ApprovalRequested(
    "c1", "write", {"path": "a.txt", "text": "line\n" * 40}, "digest", "it writes", "files"
)


def decided(*fields: Any) -> Event:
    return e.ApprovalDecided("c1", "write", *fields)


@pytest.mark.parametrize(
    ("events", "rows"),
    [
        ([e.RunStarted("r", "One\ntwo")], ["> One", "> two"]),
        ([e.ThinkingStarted(0), e.ThinkingCompleted("Hm.", 0)], ["~ Hm."]),
        ([e.ThinkingStarted(0), e.ThinkingCompleted("", 0)], [THOUGHT]),
        ([ThinkingDelta("Hm. " * 20, 0)], ["~" + " Hm." * 14, "~" + " Hm." * 6]),
        ([TextDelta("Hi\n", 0, "task_9")], ["┊ ┄ sub-agent of task_9", "┊ │ Hi"]),
        ([e.ToolCallStarted("c1", 0, "search", "server")], ["● search (server)", ...]),
        ([wrote("{}")], ["● write", ...]),  # a call whose start was not seen
        ([e.ToolCallFailed("c1", "write", {"code": 2})], ["● write", '  ✗ Failed: {"code": 2}']),
        ([started(), REJECTED, REFUSED], ["● write", "  ✗ Invalid arguments: no"]),
        ([runs(), runs(attempt=2)], ["● write", ..., "  running again (attempt 2)", ...]),
        ([TURN_OVER], [f"✓ Done in 0 ms · {COST}"]),
        ([TextDelta("A", 0), TextDelta(".", 1), TextDelta("B", 2)], ["│ A.", "│ B"]),  # citations
        ([ThinkingDelta("\n**Plan**\n\n\nuse `x`\n\n", 0)], ["~ Plan", "~", "~ use x"]),
        ([TextDelta("Wel", 0), CUT], ["│ Wel", "✗ Failed: hung up"]),
        ([e.RunResumed("r")], ["▶ Resumed after a pause"]),
        ([REQUEST, decided("approved")], [..., "╰─ ✓ Approved"]),
        ([REQUEST, decided("denied", "no!")], [..., "╰─ ✗ Denied: no!"]),
        ([*BEGUN, DONE], ["> Go", f"✓ Done in 3.0 s · {COST}"]),
        ([*BEGUN, e.RunStopped("enough")], [..., f"■ Stopped: enough · 3.0 s · {COST}"]),
        ([BEGUN[0], CUT, e.RunFailed("cut", "hung up")], [..., "✗ Failed: hung up · 2.0 s"]),
    ],
)
def test_rows_of_single_events(events: list[Event], rows: list[object]) -> None:
    shown = watch(events)
    if ... in rows:  # stands for any rows
        assert shown[:1] == rows[:1] or rows[0] is ...
        rows = [row for row in rows if row is not ...]
        shown = [row for row in shown if row in rows]
    assert shown == rows


@pytest.mark.parametrize(
    ("event", "row"),
    [
        (e.RunFailed("max_turns", "too many"), "✗ Failed: too many · 1.0 s"),
        (decided("expired"), "✗ Denied: approval expired"),
        (decided("withdrawn"), "■ No longer needs approval"),
        (decided("approved", "", None, "rule"), "✓ Approved; won't ask again for this rule"),
    ],
)
def test_last_sentence_of_single_events(event: Event, row: str) -> None:
    shown = watch([e.RunStarted("r", "Go"), event])
    assert " ".join(" ".join(shown).split()).endswith(row)


def test_markup_continues_after_committed_rows() -> None:
    watcher = Watcher()
    watcher.take(TextDelta("word " * 40 + "`" + "co de " * 40, 0))
    watcher.tail(4)
    watcher.scene.committed()
    watcher.scene.take(TextDelta("` a **word** `x`\n", 0), 9.0)
    (rest,) = watcher.scene.committed()
    assert roles(rest)[-5:] == [
        ("co de " * 40, "code"),
        (" a ", "plain"),
        ("word", "strong"),
        (" ", "plain"),
        ("x", "code"),
    ]


def test_escapes_in_a_long_line_are_committed_without_a_visible_break() -> None:
    watcher = Watcher()
    for _ in range(20):
        watcher.take(TextDelta("a \x1b\u202e " * 3, 0))
        watcher.tail(columns=COLUMNS - 1)
    assert len(watcher.seen) > 3
    watcher.finish()
    assert watcher.seen == watch([TextDelta("a \x1b\u202e " * 60, 0)])


class TestCalls:
    @pytest.mark.parametrize(
        ("old", "new", "counted"),
        [
            ("one\ntwo\n", "one\n2\n3\n", "+2 -1 lines"),
            ("one\n", "one\nanother\n", "+1 -0 lines"),
            ("one\ntwo\n", "two\n", "+0 -1 lines"),
        ],
    )
    def test_size_and_duration_are_shown_at_the_end(self, old: str, new: str, counted: str) -> None:
        assert watch(call({"text": "one\ntwo\nthree"}))[-1] == "  ✓ 3 lines, 27 B in 2.0 s"
        edit = {"path": "a.txt", "old_string": old, "new_string": new}
        watcher = Watcher(ToolViews())
        watcher.take(*call(edit, name="edit_file"))
        assert watcher.finish()[-1] == f"  ✓ {counted}, {len(json.dumps(edit))} B in 2.0 s"
        quick = Watcher()
        quick.step = 0.1
        assert quick.take(*call({"path": "a"})) == ["● write", '  path = "a"']
        assert quick.finish() == []

    def test_free_text_is_counted_too(self) -> None:
        watcher = Watcher()
        watcher.take(e.ToolCallStarted("c1", 0, "patch", "custom"), wrote("a\nb\n", name="patch"))
        assert watcher.tail() == ["* writing patch · 2 lines · 4 B · 1.0 s"]

    def test_later_calls_wait_for_the_earliest_one(self) -> None:
        watcher = Watcher()
        watcher.take(started("c1"), wrote('{"a": "1'), *call({"b": "2"}, "c2"), started("c3"))
        assert watcher.tail()[-3:] == [
            "● write  2 · ready",
            "* write · 0 B · 0 ms",
            "* writing write · 8 B · 5.0 s",
        ]
        seen = watcher.take(wrote('"}'), ToolArgsCompleted("c1", "write", {"a": "1"}))
        first, second = ['  a = "1"', "  ✓ 10 B in 7.0 s"], ['  b = "2"', "  ✓ 10 B in 2.0 s"]
        assert seen == ["● write", *first, "● write", *second]

    def test_calls_that_do_not_fit_are_counted_but_never_a_single_one(self) -> None:
        watcher = Watcher()
        watcher.take(*(started(f"c{number}") for number in range(5)))
        assert len(watcher.tail(8)) == 6
        assert watcher.tail(4)[-2] == "  … and 3 more"
        for rows in range(1, 8):
            more = [row for row in watcher.tail(rows) if "more" in row]
            assert not more or int(more[0].split()[-2]) > 1
        watcher.take(e.ToolCallStarted("long", 1, "n" * 90))
        assert watcher.tail()[-2].endswith("… · 0 B · 0 ms")

    @pytest.mark.parametrize(
        ("verdict", "error", "shown"),
        [
            ("rejected", ("no", 28, ("path",)), "Invalid arguments in path: no"),
            ("truncated", ("no", 19), "Incomplete: ended while writing edits[0].old (19 B): no"),
            ("malformed", ("no (at character 3)", 3), 'Invalid JSON in edits[0].old: no: {"ed'),
        ],
    )
    def test_verdict_has_its_place_and_reason(
        self, verdict: e.InvalidVerdict, error: tuple[str, int, tuple[str]], shown: str
    ) -> None:
        raw = '{"edits":[{"old":"a'
        invalid = e.ToolArgsInvalid("c1", "write", verdict, raw, e.ArgumentsError("schema", *error))
        rows = watch([started(), wrote(raw[:12]), wrote(raw[12:]), invalid])
        assert rows[-1] == f"  ✗ {shown}"
        stopped = msgspec.structs.replace(invalid, verdict="aborted")
        rows = watch([started(), wrote(raw), stopped])
        assert rows[-1].startswith("  ■ Stopped while writing")

    def test_reinterpreted_arguments_are_shown(self) -> None:
        text = json.dumps(json.dumps({"path": "a.txt"}))
        rows = watch([started(), wrote(text), ToolArgsCompleted("c1", "write", {"path": "a.txt"})])
        assert "  Interpreted as:" in rows
        assert '  path = "a.txt"' in rows

    def test_changed_name_is_shown(self) -> None:
        rows = watch(
            [started(name="wri"), wrote('{"a": "\\n', name="wri"), wrote("b", name="write")]
        )
        assert rows[:4] == ["● wri", "  a =", "  │", "  is called write"]

    def test_same_id_again_is_another_call(self) -> None:
        rows = watch([started(), wrote('{"a": 1'), *call({"b": 2})])
        assert rows[:2] == ["● write", "  ■ Interrupted after 7 B, 2.0 s"]
        assert rows[-3:] == ["● write", "  b = 2", "  ✓ 8 B in 2.0 s"]


class TestTools:
    def test_single_tool_shows_its_output_as_it_comes(self) -> None:
        watcher = Watcher()
        watcher.take(*call({}), runs())
        assert watcher.take(printed("one\ntw")) == ["  ┆ one"]
        assert watcher.tail() == ["  ┆ tw", "* running write · 1.0 s"]
        assert watcher.take(returned("fine")) == ["  ┆ tw", "  └ fine", "  took 2.0 s"]

    def test_remaining_tool_continues_with_its_name(self) -> None:
        watcher = Watcher()
        watcher.take(*call({}), *call({}, "c2", "read"), runs(), printed("one\n"))
        watcher.take(runs("c2", "read"), printed("two\n"))
        read, write = ["└ read", "  └ 1", "  took 2.0 s"], ["└ write (continued)", "  ┆ two"]
        assert watcher.take(returned(1, "c2", "read")) == read + write

    @pytest.mark.parametrize(
        ("output", "result", "rows"),
        [
            (TEXT, TEXT, []),
            (TEXT, f"exit 0\n{TEXT}", ["  └ exit 0"]),
            (TEXT, {"out": TEXT}, ['  └ {"out": "(the output above)"}']),
            (TEXT, "another", ["  └ another"]),
            # Only the end of a result repeats an output that is short.
            ("one\n", "exit status 0\none\n", ["  └ exit status 0"]),
            ("one\n", "one of them\nis all", ["  └ one of them", "    is all"]),
            ("one\n", "none", ["  └ none"]),
        ],
    )
    def test_result_repeats_no_output(self, output: str, result: object, rows: list[str]) -> None:
        begun = ["● write", *(f"  ┆ {line}" for line in output.splitlines())]
        assert watch([runs(), printed(output), returned(result)])[:-1] == begun + rows

    def test_texts_are_broken_at_words_and_values_at_spaces(self) -> None:
        text = "It is too long for one row " * 4
        for event in (returned(text), e.ToolCallFailed("c1", "write", text), printed(text)):
            words = [row[4:].strip() for row in watch([event])[1:] if row[:4].strip() or row[4:]]
            assert set(" ".join(words).split()) >= set(text.split())
            assert all(row.split()[-1] in text.split() for row in words[:-1])
        assert len(watch([returned({"key": text.replace(" ", "_ ")})])[1]) == COLUMNS - 1

    @pytest.mark.parametrize(("lines", "rows"), [(7, 7), (8, 8), (9, 8), (200, 8)])
    def test_long_result_is_folded_but_never_by_a_single_line(self, lines: int, rows: int) -> None:
        shown = watch([returned("\n".join(map(str, range(lines))))])[1:]
        assert len(shown) == rows
        assert shown[-1].strip() == str(lines - 1)
        assert (f"    … {lines - 7} more lines" in shown) == (rows < lines)
        endless = "".join(watch([returned("x" * 5000)])).replace(" ", "")
        assert endless.endswith("xx…4400morecharacters")

    def test_output_waits_for_a_call_that_is_written(self) -> None:
        watcher = Watcher()
        watcher.take(
            started(), wrote('{"a": "x'), runs("c2", "read"), printed("one\n", "c2", "read")
        )
        assert "* read · 1.0 s · one" in watcher.tail()
        assert watcher.take(returned(1, "c2", "read")) == []
        rows = watcher.take(wrote('"}'), ToolArgsCompleted("c1", "write", {"a": "x"}))
        assert rows[-3:] == ["  ┆ one", "  └ 1", "  took 2.0 s"]


class TestApprovals:
    def test_request_shows_all_arguments_reason_rule_and_deadline(self) -> None:
        rows = watch([REQUEST])
        assert rows[0] == "● write"
        assert rows[1].startswith("╭─ Approval needed ───")
        assert rows[-2:] == ["│ it writes (rule: files)", "╰─ No decision yet"]
        assert "".join(row[2:] for row in rows).count("line") == 40
        request = e.ApprovalRequested("c1", "write", {}, "digest", "", None, 1.7e9)
        assert watch([request])[-2].startswith("│ expires: ")
        request = e.ApprovalRequested("c1", "fetch", {"url": "https://\u0430pi.example"}, "d", "")
        warning = "│ ! Mixed scripts: “\u0430pi” has Cyrillic \u0430 (U+0430)"
        assert watch([request])[-2] == warning

    def test_request_does_not_wait_for_a_call_that_is_written(self) -> None:
        watcher = Watcher()
        watcher.take(started("c2"), wrote('{"b": 1, "c": "x', "c2"))
        rows = watcher.take(REQUEST)
        assert rows[0] == "└ write"
        assert rows[-1] == "│ it writes (rule: files)"
        assert watcher.tail(later=60)[-1].startswith("* needs approval: write · 1 min 0 s")
        wrote_rest = [wrote('"}', "c2"), ToolArgsCompleted("c2", "write", {"b": 1, "c": "x"})]
        assert watcher.take(*wrote_rest) == []  # it waits, so that the request stays the last
        rows = watcher.take(decided("denied"))
        assert rows[:3] == ["╰─ ✗ Denied", "└ write  x", '  c = "x"']


class TestRuns:
    def test_answer_is_shown_unless_it_was_written(self) -> None:
        written: list[Event] = [e.RunStarted("r", "Go"), TextDelta("Yes.", 0), TURN_OVER]
        assert "  └ Yes." not in watch([*written, e.RunCompleted("Yes.")])
        assert "  └ Yes!" in watch([*written, e.RunCompleted([{"type": "text", "text": "Yes!"}])])
        assert '  └ {"answer": 1}' in watch([*written, e.RunCompleted({"answer": 1})])

    def test_lost_calls_are_closed_before_a_turn_is_repeated(self) -> None:
        lost = [started(), wrote('{"a": 1'), TextDelta("So", 5), e.TurnStarted(1, 2), started()]
        assert watch(lost)[1:4] == [
            "  ■ Interrupted after 7 B, 3.0 s",
            "│ So",
            "↻ Retrying turn 1 (attempt 2); discarding partial output",
        ]

    def test_open_parts_are_committed_at_the_end(self) -> None:
        watcher = Watcher()
        watcher.take(started(), wrote('{"a": "x'), runs("c2", "read"), TextDelta("no", 7))
        rows = watcher.finish()
        assert rows[1].startswith('  a = "x')
        assert "  ■ Interrupted after 8 B, 3.0 s" in rows
        assert "│ no" in rows
        assert rows[-2:] == ["└ read", "  ■ Interrupted after 1.0 s"]
        assert watcher.tail() == []


class TestWithoutTail:
    """As in a pipe: nothing waits for the tail, and what it would show is committed."""

    def test_output_of_several_tools_is_committed_as_it_comes(self) -> None:
        watcher = Watcher(has_tail=False)
        watcher.take(*call({}), *call({}, "c2", "read"), runs(), runs("c2", "read"))
        assert watcher.take(printed("one\ntw")) == ["└ write", "  ┆ one"]
        assert watcher.take(printed("1\n" * 30, "c2", "read"))[0] == "└ read"
        assert watcher.take(returned(1)) == ["└ write", "  ┆ tw", "  └ 1", "  took 4.0 s"]
        assert watcher.seen.count("  ┆ 1") == 30

    def test_neither_output_nor_a_paragraph_is_folded_or_split(self) -> None:
        watcher = Watcher(has_tail=False)
        watcher.take(started("c2"), runs(), printed("1\n" * 30), returned(1))
        watcher.finish()
        assert watcher.seen.count("  ┆ 1") == 30
        watcher = Watcher(has_tail=False)
        watcher.take(*(TextDelta("It goes on and on. ", 0) for _ in range(500)))
        watcher.scene.finish(0.0)
        assert len(watcher.scene.committed()) == 1


class TestStatus:
    def test_waiting_is_shown_only_during_a_run(self) -> None:
        watcher = Watcher()
        assert watcher.tail() == []
        watcher.take(TextDelta("Hi", 0), TURN_OVER)
        assert watcher.tail() == []
        watcher.take(e.RunStarted("r", "Go"))
        assert watcher.tail(later=2) == ["* waiting for the model · 2.0 s"]
        watcher.take(TURN_OVER)
        assert watcher.tail() == ["* waiting for the model"]
        frames = [watcher.scene.tail(now / 10, 40, 4) for now in range(10, 20)]
        assert len({frame[-1].spans for frame in frames}) == 10  # the mark moves
        watcher.take(e.RunCompleted("x"))
        assert watcher.tail() == []

    def test_silence_is_measured(self) -> None:
        watcher = Watcher()
        watcher.take(e.ThinkingStarted(0))
        assert watcher.tail(later=1) == ["* thinking · 1.0 s"]
        assert watcher.tail(later=12) == ["* thinking · 12.0 s · no output for 12 s"]

    def test_narrow_or_low_terminal_keeps_what_matters(self) -> None:
        watcher = Watcher()
        watcher.take(started(), wrote('{"a": "\\n\\n\\n'))
        assert watcher.tail(columns=26)[-1] == "* writing write · 1.0 s"
        watcher = Watcher()
        watcher.take(started(), started("c2"))
        assert watcher.tail(1) == ["* writing write · 0 B · 1.0 s"]


class TestSnapshots:
    """A viewer that connects late."""

    @staticmethod
    def snapshot(*events: Event) -> e.RunSnapshot:
        return snapshot_of([e.RunStarted("r", "Go"), *events])

    def test_pending_call_is_shown(self) -> None:
        watcher = Watcher()
        paused = e.RunPaused("r", (REQUEST,))
        shown = watcher.take(self.snapshot(*call({}), REQUEST, paused))
        assert "│ it writes (rule: files)" in shown
        assert shown[-1] == "‖ Paused: waiting for approval of write"
        assert watcher.tail()[-1].startswith("* needs approval: write")

    def test_lost_text_and_the_end_are_shown(self) -> None:
        lost: list[Event] = [e.TurnStarted(1), TextDelta("Wel", 0)]
        again: list[Event] = [e.TurnStarted(1, 2), TextDelta("Well.", 0)]
        assert watch([self.snapshot(*lost, *again)])[2:] == [
            "│ Wel",
            "↻ Retrying turn 1 (attempt 2); discarding partial output",
            "│ Well.",
        ]
        ended = self.snapshot(TURN_OVER, e.RunFailed("code", "why"))
        assert watch([ended])[-1] == "✗ Failed: why · 7 in / 5 out tokens"


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
    watcher.take(e.RunStarted("r", "Go"), *call(before))
    watcher.take(e.ApprovalRequested("c1", "write", before, "digest", ""))
    first, *rows = watcher.take(decided("edited", "", after))
    assert first == "╰─ ✓ Approved with your edits"
    return rows


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ({"path": "a.py", "mode": 1}, {"path": "b.py", "mode": 1}, "path\n- a.py\n+ b.py"),
        ({"content": LINES}, {"content": LINES.replace("line 10\n", "ten\n")}, CHANGED),
        # Lines that look like those of a diff are shown as they are.
        ({"text": "-- a\n++ b"}, {"text": "@@ a\n++ b"}, f"text\n{TWO}\n- -- a\n+ @@ a\n  ++ b"),
        ({"edits": [{"old": "a"}]}, {"edits": [{"old": "b"}]}, NESTED),
        ({"old": 1}, {"new": "a\nb"}, "old  removed\n- 1\nnew  new\n+ a\n+ b"),
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
