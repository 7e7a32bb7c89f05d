"""What becomes final, in which order, and what is in the tail meanwhile."""

import json
from typing import Literal

import pytest

from argstream.events import (
    ApprovalDecided,
    ApprovalOutcome,
    ApprovalRequested,
    ArgumentsError,
    Event,
    InvalidVerdict,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStarted,
    RunStopped,
    StreamFailed,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallFailed,
    ToolCallStarted,
    TurnCompleted,
    TurnStarted,
    Usage,
)
from argstream.history import Message, TextPart
from argstream.runs import RunView
from argstream.terminal.tool_views import Looks
from tests.terminal.scenes.watching import (
    COLUMNS,
    Watcher,
    call,
    returned,
    runs,
    said,
    started,
    watch,
    wrote,
)

TEXT = "all is well, in every file\nand more\n"
REJECTED = ToolArgsInvalid("c1", "write", "rejected", "", ArgumentsError("x", "no"))
TURN_OVER = TurnCompleted("tool_use", Message(role="assistant", parts=()), Usage(7, 5))


@pytest.mark.parametrize(
    ("events", "rows"),
    [
        ([RunStarted("r", "One\ntwo")], ["> One", "> two"]),
        (
            [ThinkingStarted(0), ThinkingCompleted("", 0)],
            ["~ thought for 1.0 s, and does not say what"],
        ),
        ([ThinkingStarted(0), ThinkingCompleted("Hm.", 0)], ["~ Hm."]),
        ([TextDelta("Hi\n", 0, "task_9")], ["┊ ┄ sub-agent of task_9", "┊ │ Hi"]),
        ([ToolCallFailed("c1", "write", {"code": 2})], ["● write", '  ✗ {"code": 2}']),
        (
            [started(), REJECTED, ToolCallFailed("c1", "write", "it was rejected: no")],
            ["● write", "  ✗ rejected: no"],
        ),
        ([TURN_OVER], ["— tool_use · 7 tokens in, 5 out"]),
        (
            [TurnCompleted("rejected", Message(role="assistant", parts=()), characters_read=28)],
            ["— rejected: not read further than 28 characters"],
        ),
        (
            [TextDelta("Wel", 0), StreamFailed("cut", "hung up")],
            ["│ Wel", "✗ the stream failed (cut): hung up"],
        ),
        ([RunResumed("r")], ["▶ goes on after a pause"]),
    ],
)
def test_lines_of_single_events(events: list[Event], rows: list[str]) -> None:
    assert watch(events) == rows


class TestWords:
    def test_completed_lines_are_final_and_the_last_one_grows_in_the_tail(self) -> None:
        watcher = Watcher()
        assert watcher.take(TextDelta("One.\nTw", 0)) == ["│ One."]
        assert watcher.tail() == ["│ Tw", "* writing · 7 B · 0 ms"]
        assert watcher.take(TextDelta("o.", 0)) == []
        assert watcher.take(started()) == ["│ Two.", "● write"]

    def test_a_paragraph_stays_whole_while_the_tail_has_room_for_it(self) -> None:
        watcher = Watcher()
        watcher.take(TextDelta("It goes on and on. " * 21, 0))
        assert len(watcher.tail(8)) == 8
        assert watcher.take(TextDelta("It", 0)) == []

    @pytest.mark.parametrize(
        "text",
        ["It goes on and on. " * 30, "x" * 900, "a \x1b\u202e " * 60, "日本語のテキスト。" * 40],
    )
    @pytest.mark.parametrize("thinks", [False, True])
    def test_of_one_that_is_longer_the_complete_rows_are_final_and_no_break_is_seen(
        self, text: str, thinks: bool
    ) -> None:
        watcher = Watcher()
        for start in range(0, len(text), 50):
            piece = text[start : start + 50]
            watcher.take(ThinkingDelta(piece, 0) if thinks else TextDelta(piece, 0))
            watcher.tail(columns=COLUMNS - 1)
        assert len(watcher.seen) > 3
        watcher.finish()
        whole = watch([ThinkingDelta(text, 0) if thinks else TextDelta(text, 0)])
        assert watcher.seen == whole

    def test_marks_go_on_behind_the_end_of_what_is_final(self) -> None:
        watcher = Watcher()
        watcher.take(TextDelta("word " * 40 + "`" + "co de " * 40, 0))
        watcher.tail(4)
        watcher.scene.committed()
        watcher.scene.take(TextDelta("` a **word** `x`\n", 0), 9.0)
        (rest,) = watcher.scene.committed()
        assert [(span.text, span.role) for span in rest.spans[-5:]] == [
            ("de " + "co de " * 17 + "`", "code"),
            (" a ", "plain"),
            ("**word**", "strong"),
            (" ", "plain"),
            ("`x`", "code"),
        ]

    @pytest.mark.parametrize("size", [1, 7, 480, 5000])
    def test_what_is_final_does_not_depend_on_the_pieces(self, size: int) -> None:
        text = "A sentence. " * 100 + "\n" + "word " * 200 + "\n" + "x" * 999 + "\n\nend"
        pieces = [TextDelta(text[start : start + size], 0) for start in range(0, len(text), size)]
        assert watch(pieces) == watch([TextDelta(text, 0)])

    def test_code_grows_in_the_tail_too(self) -> None:
        watcher = Watcher()
        watcher.take(TextDelta("```\n**not bold**", 0))
        assert watcher.tail()[0] == "│ **not bold**"

    def test_thoughts_have_a_mark_at_each_row(self) -> None:
        thought = "Hm. " * 20
        rows = watch([ThinkingStarted(0), ThinkingDelta(thought, 0), ThinkingCompleted(thought, 0)])
        assert len(rows) == 2
        assert all(row.startswith("~ Hm.") for row in rows)

    def test_code_between_fences_has_colours_and_all_else_stays_as_it_is(self) -> None:
        text = "# A\n**b** `c`\n```python\ndef f(): pass\n``` no end\n```\n"
        watcher = Watcher()
        watcher.scene.take(TextDelta(text, 0), 0.0)
        lines = watcher.scene.committed()
        assert "".join("".join(span.text for span in line.spans) + "\n" for line in lines) == text
        assert {span.role for span in lines[3].spans} >= {"keyword", "name"}
        assert [line.spans[0].role for line in lines[:3]] == ["heading", "strong", "faint"]
        assert [line.breaks for line in lines] == ["words"] * 3 + ["anywhere"] * 3


class TestCalls:
    def test_a_header_is_in_the_tail_at_once(self) -> None:
        watcher = Watcher()
        shown = watcher.take(started()) + watcher.tail()
        assert "● write" in shown
        assert watcher.tail()[-1] == "* writing write · 0 B · 0 ms"

    def test_a_header_is_final_once(self) -> None:
        assert watch(call({"a": 1, "b": "x\ny"})).count("● write") == 1

    def test_what_is_complete_says_how_much_it_was_and_how_long_it_took(self) -> None:
        assert watch(call({"text": "one\ntwo\nthree"}))[-1] == "  ✓ 3 lines, 27 B in 2.0 s"

    @pytest.mark.parametrize(
        ("old", "new", "told"),
        [
            ("one\ntwo\n", "one\n2\n3\n", "2 lines added, 1 removed"),
            ("one\n", "one\nanother\n", "1 line added"),
            ("one\ntwo\n", "two\n", "1 line removed"),
        ],
    )
    def test_of_a_change_the_lines_are_counted_that_are_added_and_removed(
        self, old: str, new: str, told: str
    ) -> None:
        watcher = Watcher(Looks())
        edit = {"path": "a.txt", "old_string": old, "new_string": new}
        rows = watcher.take(*call(edit, name="edit_file"))
        assert rows[-1] == f"  ✓ {told}, {len(json.dumps(edit))} B in 2.0 s"

    def test_what_is_short_and_quick_needs_no_word(self) -> None:
        watcher = Watcher()
        watcher.step = 0.1
        assert watcher.take(*call({"path": "a"})) == ["● write", '  path = "a"']

    def test_a_kind_of_its_own_is_told(self) -> None:
        assert watch([ToolCallStarted("c1", 0, "search", "server")])[0] == "● search (server)"

    def test_the_earliest_call_owns_the_scrollback_and_the_others_wait(self) -> None:
        watcher = Watcher()
        watcher.take(started("c1"), wrote('{"a": "1'), *call({"b": "2"}, "c2"), started("c3"))
        assert watcher.tail()[-3:] == [
            "✓ write · 10 B · 2.0 s",
            "* write · 0 B · 0 ms",
            "* writing write · 8 B · 5.0 s",
        ]
        seen = watcher.take(wrote('"}'), ToolArgsCompleted("c1", "write", {"a": "1"}))
        assert seen == ['  a = "1"', "  ✓ 10 B in 7.0 s", "● write", '  b = "2"', *seen[4:]]
        assert seen[4:6] == ["  ✓ 10 B in 2.0 s", "● write"]

    def test_those_that_do_not_fit_are_counted_but_never_a_single_one(self) -> None:
        watcher = Watcher()
        watcher.take(*(started(f"c{number}") for number in range(5)))
        assert len(watcher.tail(8)) == 5
        assert watcher.tail(4)[-2] == "  … and 2 more"
        for rows in range(1, 8):
            more = [row for row in watcher.tail(rows) if "more" in row]
            assert not more or int(more[0].split()[-2]) > 1

    def test_a_long_title_does_not_push_the_counters_away(self) -> None:
        watcher = Watcher()
        watcher.take(started("c1"), ToolCallStarted("c2", 1, "n" * 90))
        assert watcher.tail()[-2].endswith("… · 0 B · 0 ms")

    @pytest.mark.parametrize(
        ("verdict", "error", "told"),
        [
            ("rejected", ArgumentsError("x", "no", 28, ("path",)), "at character 28, in path: no"),
            ("truncated", ArgumentsError("x", "no", 19), "after 19 B, in edits[0].old: no"),
            (
                "malformed",
                ArgumentsError("x", "no (at character 3)", 3),
                "at character 3, in edits[0].old: no",
            ),
            ("aborted", ArgumentsError("x", "no"), "after 19 B, in edits[0].old: no"),
        ],
    )
    def test_a_verdict_says_what_and_where(
        self, verdict: InvalidVerdict, error: ArgumentsError, told: str
    ) -> None:
        raw = '{"edits":[{"old":"a'
        invalid = ToolArgsInvalid("c1", "write", verdict, raw, error)
        rows = watch([started(), wrote(raw[:12]), wrote(raw[12:]), invalid])
        word = "cut off" if verdict == "truncated" else verdict
        assert rows[-1] == f"  ✗ {word} {told}"

    def test_arguments_that_mean_something_else_than_was_written_are_shown(self) -> None:
        text = json.dumps(json.dumps({"path": "a.txt"}))
        rows = watch([started(), wrote(text), ToolArgsCompleted("c1", "write", {"path": "a.txt"})])
        assert "  this is what it means:" in rows
        assert '  path = "a.txt"' in rows

    def test_a_call_that_gets_another_name_says_so(self) -> None:
        rows = watch([started(name="wri"), wrote("{", name="wri"), wrote("}", name="write")])
        assert rows[:2] == ["● wri", "  is called write"]

    def test_of_a_call_whose_beginning_was_not_seen_the_rest_is_shown(self) -> None:
        assert "● write" in watch([ToolArgsDelta("c1", "write", "{}")])

    def test_free_text_is_counted_too(self) -> None:
        watcher = Watcher()
        watcher.take(ToolCallStarted("c1", 0, "patch", "custom"), wrote("a\nb\n", name="patch"))
        assert watcher.tail() == ["* writing patch · 2 lines · 4 B · 1.0 s"]


class TestTools:
    def test_a_tool_that_runs_alone_puts_out_what_it_says(self) -> None:
        watcher = Watcher()
        watcher.take(*call({}), runs())
        assert watcher.take(said("one\ntw")) == ["  ┆ one"]
        assert watcher.tail() == ["  ┆ tw", "* write runs · 1.0 s"]
        assert watcher.take(returned("fine")) == ["  ┆ tw", "  └ fine", "  ran for 2.0 s"]

    def test_several_are_a_line_each_and_expand_when_they_are_over(self) -> None:
        watcher = Watcher()
        watcher.take(*call({}), *call({}, "c2", "read"), runs(), runs("c2", "read"))
        assert watcher.take(said("one\ntwo\n"), said("three", "c2", "read")) == []
        assert watcher.tail() == [
            "* write · 3.0 s · two",
            "* read · 2.0 s · three",
            "* 2 tools run · 3.0 s",
        ]
        assert watcher.take(returned("fine", "c2", "read"))[:2] == ["  ┆ three", "  └ fine"]

    def test_who_is_left_goes_on_and_says_who_it_is(self) -> None:
        watcher = Watcher()
        watcher.take(*call({}), *call({}, "c2", "read"), runs(), said("one\n"))
        watcher.take(runs("c2", "read"), said("two\n"))
        assert watcher.take(returned(1, "c2", "read")) == [
            "● read",
            "  └ 1",
            "  ran for 2.0 s",
            "● write … goes on",
            "  ┆ two",
        ]

    def test_what_was_put_out_is_not_repeated(self) -> None:
        begun = ["● write", "  ┆ all is well, in every file", "  ┆ and more"]
        assert watch([runs(), said(TEXT), returned(TEXT)])[:-1] == begun

    @pytest.mark.parametrize(
        ("result", "rows"),
        [
            (f"exit 0\n{TEXT}", ["  └ exit 0", "    (the output above)"]),
            ({"code": 0, "out": TEXT}, ['  └ {"code": 0, "out": "(the output above)"}']),
            ("another", ["  └ another"]),
        ],
    )
    def test_what_the_result_adds_is_shown(self, result: object, rows: list[str]) -> None:
        assert watch([runs(), said(TEXT), returned(result)])[3:-1] == rows

    @pytest.mark.parametrize(
        ("result", "rows"),
        [
            ("exit status 0\none\n", ["  └ exit status 0", "    (the output above)"]),
            ("one of them\nis all", ["  └ one of them", "    is all"]),
            ("none", ["  └ none"]),
        ],
    )
    def test_of_little_output_only_the_end_of_a_result_is_a_repetition(
        self, result: str, rows: list[str]
    ) -> None:
        assert watch([runs(), said("one\n"), returned(result)])[2:-1] == rows

    def test_errors_and_texts_are_broken_at_words_and_values_anywhere(self) -> None:
        text = "It is too long for one row " * 4
        for event in (returned(text), ToolCallFailed("c1", "write", text), said(text)):
            words = [row[4:].strip() for row in watch([event])[1:] if row[:4].strip() or row[4:]]
            assert set(" ".join(words).split()) >= set(text.split())
            assert all(row.split()[-1] in text.split() for row in words[:-1])
        assert len(watch([returned({"key": text.replace(" ", "_ ")})])[1]) == COLUMNS - 1

    @pytest.mark.parametrize(("lines", "rows"), [(15, 15), (16, 16), (17, 16), (200, 16)])
    def test_long_results_are_folded_but_never_by_a_single_line(
        self, lines: int, rows: int
    ) -> None:
        shown = watch([returned("\n".join(map(str, range(lines))))])[1:]
        assert len(shown) == rows
        assert shown[-1].strip() == str(lines - 1)
        assert (f"    … {lines - 15} more lines" in shown) == (rows < lines)

    def test_a_result_of_one_endless_line_is_cut_and_that_is_said(self) -> None:
        shown = " ".join(watch([returned("x" * 5000)]))
        assert shown.replace(" ", "").endswith("xx…4400morecharacters")

    def test_output_waits_while_something_is_written(self) -> None:
        watcher = Watcher()
        watcher.take(started(), wrote('{"a": "x'), runs("c2", "read"), said("one\n", "c2", "read"))
        assert "* read · 1.0 s · one" in watcher.tail()
        assert watcher.take(returned(1, "c2", "read")) == []
        rows = watcher.take(wrote('"}'), ToolArgsCompleted("c1", "write", {"a": "x"}))
        assert rows[-3:] == ["● read", "  ┆ one", "  └ 1", "  ran for 2.0 s"][-3:]

    def test_a_result_says_whose_it_is_if_others_came_in_between(self) -> None:
        watcher = Watcher()
        watcher.take(*call({}), runs(), said("one\n"), RunResumed("r"))
        assert watcher.take(returned(1))[:2] == ["● write", "  └ 1"]

    def test_a_second_attempt_is_told(self) -> None:
        assert "  runs again, attempt 2" in watch([runs(), runs(attempt=2), returned(1)])


class TestApprovals:
    REQUEST = ApprovalRequested(
        "c1", "write", {"path": "a.txt", "text": "line\n" * 40}, "digest", "it writes", "files"
    )

    def test_all_of_it_is_shown_with_the_reason_and_the_rule(self) -> None:
        rows = watch([self.REQUEST])
        assert rows[:3] == ["● write", "? write must be approved: it writes", "  rule: files"]
        assert "".join(row[2:] for row in rows).count("line") == 40

    def test_until_when_is_told(self) -> None:
        request = ApprovalRequested("c1", "write", {}, "digest", "", None, 1.7e9)
        assert watch([request])[2].startswith("  until: ")

    def test_it_does_not_wait_for_what_is_being_written(self) -> None:
        watcher = Watcher()
        watcher.take(started("c2"), wrote('{"b": 1, "c": "x', "c2"))
        assert watcher.take(self.REQUEST)[1] == "? write must be approved: it writes"
        assert watcher.tail()[-1].startswith("* waiting for a decision on write · 0 ms")
        rows = watcher.take(wrote('"}', "c2"), ToolArgsCompleted("c2", "write", {"b": 1, "c": "x"}))
        assert rows[0] == "● write … goes on"

    @pytest.mark.parametrize(
        ("decision", "reason", "told"),
        [
            ("approved", "", "✓ write is approved"),
            ("denied", "no!", "✗ write is denied: no!"),
            ("expired", "", "✗ write is denied, since nobody decided in time"),
            ("withdrawn", "", "✗ write is withdrawn: there is nothing left to decide"),
        ],
    )
    def test_a_decision_is_one_line(
        self, decision: ApprovalOutcome, reason: str, told: str
    ) -> None:
        assert watch([self.REQUEST, ApprovalDecided("c1", "write", decision, reason)])[-1] == told

    @pytest.mark.parametrize(
        ("always", "told"),
        [
            ("session", "later calls of this tool are, too"),
            ("rule", "what this rule asks about later is, too"),
        ],
    )
    def test_what_holds_from_now_on_is_told(
        self, always: Literal["session", "rule"], told: str
    ) -> None:
        decided = ApprovalDecided("c1", "write", "approved", "", None, always)
        shown = " ".join(" ".join(watch([self.REQUEST, decided])).split())
        assert shown.endswith(f"✓ write is approved; {told}")

    def test_other_arguments_are_shown_as_changes(self) -> None:
        decided = ApprovalDecided("c1", "write", "edited", "", {"a": 2})
        rows = watch([*call({"a": 1}), decided])
        assert rows[-4:] == ["✓ write is approved with other arguments", "  a", "  - 1", "  + 2"]

    def test_what_waits_for_a_decision_is_told_until_it_is_made(self) -> None:
        watcher = Watcher()
        watcher.take(RunStarted("r", "Go"), self.REQUEST, RunPaused("r", (self.REQUEST,)))
        assert watcher.tail(later=60) == ["* waiting for a decision on write · 1 min 1 s"]
        watcher.take(ApprovalDecided("c1", "write", "denied"))
        assert watcher.tail() == ["* waiting for the model · 0 ms"]


class TestRuns:
    def test_a_turn_is_closed_after_the_results_of_its_calls(self) -> None:
        watcher = Watcher()
        watcher.take(RunStarted("r", "Go"), TurnStarted(1), *call({}), TURN_OVER)
        assert watcher.take(runs(), returned("done")) == ["  └ done"]
        assert watcher.take(TurnStarted(2)) == ["— tool_use · 7 tokens in, 5 out", ""]

    def test_an_end_says_what_it_cost(self) -> None:
        begun: list[Event] = [RunStarted("r", "Go"), TurnStarted(1), TURN_OVER]
        assert watch([*begun, RunCompleted(None, Usage(7, 5), "end_turn")])[1:] == [
            "■ done (end_turn) · 3.0 s · 7 tokens in, 5 out"
        ]
        assert watch([*begun, RunStopped("enough")])[-1] == (
            "■ stopped: enough · 3.0 s · 7 tokens in, 5 out"
        )
        assert watch([*begun, RunFailed("max_turns", "too many")])[-1] == (
            "■ failed (max_turns): too many · 3.0 s · 7 tokens in, 5 out"
        )

    def test_an_answer_is_shown_unless_it_was_said(self) -> None:
        said_it = TurnCompleted("end", Message(role="assistant", parts=(TextPart(text="Yes."),)))
        assert "  └ Yes." not in watch([said_it, RunCompleted("Yes.")])
        assert "  └ Yes!" in watch([said_it, RunCompleted([{"type": "text", "text": "Yes!"}])])
        assert '  └ {"answer": 1}' in watch([said_it, RunCompleted({"answer": 1})])

    def test_a_failing_stream_is_said_where_it_happened_and_once(self) -> None:
        failed = StreamFailed("cut", "hung up", retryable=True)
        rows = watch([RunStarted("r", "Go"), failed, RunFailed("cut", "hung up")])
        assert rows[1:3] == [
            "✗ the stream failed (cut): hung up; it may be tried again",
            "■ failed (cut) · 2.0 s",
        ]

    def test_what_is_lost_is_closed_before_a_turn_begins_again(self) -> None:
        rows = watch(
            [started(), wrote('{"a": 1'), TextDelta("So", 5), TurnStarted(1, 2), started()]
        )
        assert rows[1:4] == [
            "  ✗ lost after 7 B, 3.0 s",
            "│ So",
            "▶ turn 1 begins again, attempt 2: what came of it is lost",
        ]

    def test_a_call_of_the_same_id_is_another_one(self) -> None:
        rows = watch([started(), wrote('{"a": 1'), *call({"b": 2})])
        assert rows[:2] == ["● write", "  ✗ lost after 7 B, 2.0 s"]
        assert rows[-3:] == ["● write", "  b = 2", "  ✓ 8 B in 2.0 s"]

    def test_at_the_end_what_is_open_is_final_as_far_as_it_came(self) -> None:
        watcher = Watcher()
        watcher.take(started(), wrote('{"a": "x'), runs("c2", "read"), TextDelta("no", 7))
        rows = watcher.finish()
        assert rows[0].startswith('  a = "x')
        assert "  ✗ broken off after 8 B, 3.0 s" in rows
        assert "│ no" in rows
        assert rows[-2:] == ["● read", "  ✗ broken off after 1.0 s"]
        assert watcher.tail() == []


class TestLogs:
    """Without a tail, what that would tell is committed, and nothing waits for it."""

    def test_that_a_tool_runs_is_told_at_once(self) -> None:
        watcher = Watcher(has_tail=False)
        watcher.take(*call({}))
        assert watcher.take(runs()) == ["  runs"]
        watcher.take(*call({}, "c2", "read"))
        assert watcher.take(returned(1))[:2] == ["● write", "  └ 1"]
        watcher.take(*call({}))
        assert watcher.take(runs("c2", "read")) == ["● read … runs"]

    def test_what_several_tools_put_out_comes_as_it_comes_and_all_of_it(self) -> None:
        watcher = Watcher(has_tail=False)
        watcher.take(*call({}), *call({}, "c2", "read"), runs(), runs("c2", "read"))
        assert watcher.take(said("one\ntw")) == ["● write … goes on", "  ┆ one"]
        assert watcher.take(said("1\n" * 30, "c2", "read"))[0] == "● read … goes on"
        assert watcher.take(returned(1)) == ["● write", "  ┆ tw", "  └ 1", "  ran for 4.0 s"]
        assert watcher.seen.count("  ┆ 1") == 30

    def test_what_waited_for_something_else_is_not_folded(self) -> None:
        watcher = Watcher(has_tail=False)
        watcher.take(started("c2"), runs(), said("1\n" * 30), returned(1))
        watcher.finish()
        assert watcher.seen.count("  ┆ 1") == 30

    def test_a_paragraph_is_not_parted(self) -> None:
        watcher = Watcher(has_tail=False)
        watcher.take(*(TextDelta("It goes on and on. ", 0) for _ in range(500)))
        watcher.scene.finish(0.0)
        assert len(watcher.scene.committed()) == 1


class TestStatus:
    def test_nothing_goes_on_before_the_beginning_and_after_the_end(self) -> None:
        watcher = Watcher()
        assert watcher.tail() == []
        watcher.take(RunStarted("r", "Go"))
        assert watcher.tail(later=2) == ["* waiting for the model · 2.0 s"]
        watcher.take(RunCompleted("x"))
        assert watcher.tail() == []

    def test_after_a_turn_more_comes_only_in_a_run(self) -> None:
        watcher = Watcher()
        watcher.take(TextDelta("Hi", 0), TURN_OVER)
        assert watcher.tail() == []
        watcher.take(RunStarted("r", "Go"), TURN_OVER)
        assert watcher.tail() == ["* waiting for the model · 0 ms"]

    def test_silence_is_told(self) -> None:
        watcher = Watcher()
        watcher.take(ThinkingStarted(0))
        assert watcher.tail(later=1) == ["* thinking · 1.0 s"]
        assert watcher.tail(later=12) == ["* thinking · 12.0 s · nothing for 12 s"]

    def test_it_moves_though_nothing_comes(self) -> None:
        scene = Watcher()
        scene.take(RunStarted("r", "Go"))
        frames = [scene.scene.tail(now / 10, 40, 4) for now in range(10, 20)]
        assert len({frame[-1].spans for frame in frames}) == 10

    def test_in_a_narrow_terminal_what_and_how_long_remain(self) -> None:
        watcher = Watcher()
        watcher.take(started(), wrote('{"a": "\\n\\n\\n'))
        assert watcher.tail(columns=26)[-1] == "* writing write · 1.0 s"

    def test_one_row_is_the_status(self) -> None:
        watcher = Watcher()
        watcher.take(started(), started("c2"))
        assert watcher.tail(1) == ["* writing write · 0 B · 1.0 s"]


class TestSnapshots:
    """Somebody comes late, or again."""

    @staticmethod
    def snapshot(*events: Event) -> RunSnapshot:
        view = RunView()
        for event in events:
            view.take(event)
        return view.snapshot()

    def test_what_is_open_goes_on(self) -> None:
        watcher = Watcher()
        watcher.take(
            self.snapshot(RunStarted("r", "Go"), *call({"a": "xy"})[:1], wrote('{"a": "x'))
        )
        assert watcher.tail() == ['  a = "x"', "* writing write · 8 B"]
        rows = watcher.take(wrote('y"}'), ToolArgsCompleted("c1", "write", {"a": "xy"}))
        assert rows == ['  a = "xy"', "  ✓ 11 B"]

    def test_who_is_asked_can_still_decide(self) -> None:
        request = TestApprovals.REQUEST
        watcher = Watcher()
        shown = watcher.take(self.snapshot(*call({}), request, RunPaused("r", (request,))))
        assert "? write must be approved: it writes" in shown
        assert shown[-1] == "‖ paused, waits for a decision on write"
        assert watcher.tail()[-1].startswith("* waiting for a decision on write")

    def test_what_was_lost_is_told(self) -> None:
        lost: list[Event] = [
            TurnStarted(1),
            TextDelta("Wel", 0),
            TurnStarted(1, 2),
            TextDelta("Well.", 0),
        ]
        assert watch([self.snapshot(RunStarted("r", "Go"), *lost)])[2:] == [
            "│ Wel",
            "▶ turn 1 begins again, attempt 2: what came of it is lost",
            "│ Well.",
        ]

    def test_how_it_ended_is_told_with_what_it_cost(self) -> None:
        ended = self.snapshot(RunStarted("r", "Go"), TURN_OVER, RunFailed("code", "why"))
        assert watch([ended])[-1] == "■ failed (code): why · 7 tokens in, 5 out"


class TestSubAgents:
    def test_the_tail_has_the_bar_too(self) -> None:
        watcher = Watcher()
        watcher.take(*call({}, "task", "run"), TextDelta("I lo", 0, "task"))
        assert watcher.tail()[0] == "┊ │ I lo"
