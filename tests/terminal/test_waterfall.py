"""What a waterfall knows: when each thing could be known, on which axis, and what it comes to."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import stream
from argstream.argument_views import with_arguments
from argstream.events import (
    ApprovalDecided,
    ArgumentStarted,
    Event,
    RunFailed,
    RunResumed,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
)
from argstream.terminal.waterfall import Moment, Timeline, conclusion, silence
from argstream.terminal.waterfall.axis import Axis, Stretch
from argstream.terminal.waterfall.rows import busy, rows_of_calls
from tests.providers import anthropic_call, sse
from tests.terminal.waterfall_calls import WORK, Timed, call, noted, timelines


class TestTimeline:
    def test_it_counts_from_the_first_event_by_any_clock(self) -> None:
        timeline = Timeline()
        for at, event in call(5000.0, "write", [("path", 0.5, 1.5)], took=2.0, ran=3.0):
            timeline.note(event, at)
        (times,) = timeline.calls
        assert (times.started, times.ended) == (Moment(0.0), Moment(2.0))
        argument = times.arguments["path",]
        assert (argument.seen.at, argument.settled) == (0.5, Moment(1.5))
        assert (times.executed, times.finished) == ([Moment(2.0)], Moment(5.0))

    def test_it_can_count_from_an_origin_and_in_bytes(self) -> None:
        timeline = Timeline(origin=10.0)
        timeline.note(ToolCallStarted("c", 0, "write"), 12.5, byte=300)
        assert timeline.calls[0].started == timeline.now == (2.5, 300)

    def test_time_does_not_go_back_though_a_clock_may(self) -> None:
        timeline = Timeline()
        timeline.note(ToolCallStarted("c", 0, "write"), 10.0)
        timeline.note(ArgumentStarted("c", "write", ("a",), "string"), 12.0)
        timeline.note(ToolArgsCompleted("c", "write", {}), 7.0)
        assert timeline.calls[0].ended == Moment(2.0)

    def test_of_a_call_whose_beginning_was_not_seen_nothing_is_noted(self) -> None:
        timeline = Timeline()
        timeline.note(ToolArgsDelta("c", "write", "{"), 1.0)
        timeline.note(RunResumed("r", "crash", ("c",)), 1.0)
        assert timeline.calls == []

    def test_the_last_name_counts(self) -> None:
        timeline = Timeline()
        timeline.note(ToolCallStarted("c", 0, "wri"), 0.0)
        timeline.note(ToolArgsDelta("c", "write", "{"), 1.0)
        assert timeline.calls[0].name == "write"

    def test_a_free_text_is_one_argument(self) -> None:
        timeline = noted(call(0.0, "sql", [("", 1.0, None)], took=3.0, kind="custom"))
        (argument,) = timeline.calls[0].arguments.values()
        assert (argument.path, argument.seen.at, argument.settled) == ((), 1.0, Moment(3.0, 3000))

    def test_deep_notes_what_is_inside_of_arguments(self) -> None:
        for is_deep, paths in ((False, [("a",)]), (True, [("a",), ("a", 0)])):
            timeline = Timeline(is_deep=is_deep)
            for event in stream([sse(anthropic_call('{"a": [1]}'))]):
                timeline.note(event, 0.0)
            assert list(timeline.calls[0].arguments) == paths

    def test_a_log_whose_arguments_are_computed_gives_the_same(self) -> None:
        told = list(
            stream([sse(anthropic_call('{"path": "a', '.py", "x": [1, 2', "], ", '"y": 1}'))])
        )
        live, logged = Timeline(), Timeline()
        for at, event in enumerate(told):
            live.note(event, at)
        at = 0
        for event in with_arguments(_without_arguments(told)):
            at = next((index for index, one in enumerate(told) if one == event), at)
            logged.note(event, at)
        assert len(live.calls[0].arguments) == 3
        assert logged.calls == live.calls

    def test_crashes_that_cut_off_its_tool_are_counted(self) -> None:
        timeline = noted(call(0.0, "count", took=1.0))
        timeline.note(ToolExecutionStarted("count", "count", "key"), 2.0)
        timeline.note(RunResumed("r", "crash", ("count",)), 9.0)
        timeline.note(ToolCallFailed("count", "count", "it was interrupted"), 9.0)
        (times,) = timeline.calls
        assert (times.interruptions, times.finished) == (1, Moment(9.0, 1000))

    def test_failures_and_decisions_are_kept(self) -> None:
        timeline = noted(call(0.0, "write", took=1.0))
        timeline.note(ApprovalDecided("write", "write", "denied"), 2.0)
        timeline.note(StreamFailed("cut", "it broke"), 3.0)
        timeline.note(RunFailed("oh", "all is lost"), 3.0)
        assert timeline.failures == ["it broke", "all is lost"]
        assert timeline.calls[0].decision == "denied"


def _without_arguments(events: list[Event]) -> list[Event]:
    return [event for event in events if not event.type.startswith("argument_")]


class TestAxis:
    def test_it_begins_at_zero_and_ends_with_the_last_that_is_drawn(self) -> None:
        axis = Axis([Stretch(1.0, 4.0), Stretch(3.0, 8.0)], "seconds")
        assert axis.stretches == [(0.0, 8.0)]
        places = axis.places(80, gap=2)
        assert [places.of(value) for value in (0.0, 2.0, 8.0, 9.0)] == [0, 20, 80, 80]

    def test_a_long_time_in_which_nothing_is_drawn_is_left_out(self) -> None:
        axis = Axis([Stretch(100.0, 101.0), Stretch(101.2, 102.0), Stretch(4000, 4001)], "seconds")
        assert axis.stretches == [(100.0, 102.0), (4000.0, 4001.0)]
        assert (axis.length, axis.gaps) == (3.0, [(102.0, 4000.0)])
        places = axis.places(62, gap=2)
        assert [places.of(value) for value in (100, 102, 4000, 4001)] == [0, 40, 42, 62]
        assert list(places.gaps()) == [(40, 42)]

    def test_what_takes_no_time_has_a_place(self) -> None:
        assert Axis([Stretch(3.0, 3.0)], "seconds").places(10, gap=2).of(3.0) == 10
        assert Axis([Stretch(0.0, 0.0)], "seconds").places(10, gap=2).of(0.0) == 0
        next_to_none = Axis([Stretch(0.0, 5e-324)], "seconds")
        assert next_to_none.places(10, gap=2).of(1.0) == 0
        assert [tick.label for tick in next_to_none.ticks(5)] == ["0.0 ms"]

    @pytest.mark.parametrize(
        ("end", "unit", "labels"),
        [
            (8.2, "seconds", ["0 s", "2 s", "4 s", "6 s", "8 s"]),
            (0.9, "seconds", ["0.0 s", "0.2 s", "0.4 s", "0.6 s", "0.8 s"]),
            (0.004, "seconds", ["0 ms", "1 ms", "2 ms", "3 ms", "4 ms"]),
            (190.0, "seconds", ["0:00", "1:00", "2:00", "3:00"]),
            (9000.0, "seconds", ["0:00", "30:00", "1:00:00", "1:30:00", "2:00:00", "2:30:00"]),
            (900, "bytes", ["0 B", "200 B", "400 B", "600 B", "800 B"]),
            (31_000, "bytes", ["0 kB", "10 kB", "20 kB", "30 kB"]),
            (21_000_000, "bytes", ["0 MB", "5 MB", "10 MB", "15 MB", "20 MB"]),
        ],
    )
    def test_round_values_are_labelled(self, end: float, unit: str, labels: list[str]) -> None:
        axis = Axis([Stretch(0.0, end)], "bytes" if unit == "bytes" else "seconds")
        assert [tick.label for tick in axis.ticks(5)] == labels

    def test_each_part_of_an_axis_with_gaps_is_labelled(self) -> None:
        axis = Axis([Stretch(0.2, 0.6), Stretch(4000.7, 4001.2)], "seconds")
        labels = [tick.label for tick in axis.ticks(4)]
        assert labels == ["0:00.0", "0:00.5", "1:06:41.0"]

    @given(
        st.lists(
            st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)).map(
                lambda pair: Stretch(pair[0] / 1000, (pair[0] + pair[1]) / 1000)
            ),
            min_size=1,
            max_size=9,
        ),
        st.lists(st.floats(-1, 1.1e6), min_size=2).map(sorted),
        st.integers(4, 200),
    )
    def test_places_keep_the_order_and_stay_in_the_room(
        self, drawn: list[Stretch], values: list[float], room: int
    ) -> None:
        axis = Axis(drawn, "seconds")
        found = [axis.places(room, gap=2).of(value) for value in values]
        assert all(0 <= place <= room for place in found)
        assert all(before <= after + 1e-6 for before, after in pairwise(found))
        end = axis.stretches[-1].end
        parts = axis.length + sum(gap.end - gap.begin for gap in axis.gaps)
        assert parts + axis.stretches[0].begin == pytest.approx(end)
        assert len(axis.ticks(8)) <= 9 + len(axis.stretches)


class TestRows:
    @given(timelines())
    def test_each_call_is_there_once_and_no_bar_begins_before_it(self, timeline: Timeline) -> None:
        axis = Axis(busy(timeline), timeline.by)
        rows = list(rows_of_calls(timeline))
        assert sum(row.kind == "call" for row in rows) == len(timeline.calls)
        begun = 0.0
        for row in rows:
            if row.kind == "call":
                begun = min(bar.begin for bar in row.bars)
            assert all(begun <= bar.begin <= bar.end for bar in row.bars)
            if row.kind in ("call", "argument", "silence"):
                assert all(bar.end <= axis.stretches[-1].end for bar in row.bars)

    def test_arguments_beyond_some_are_one_row_that_says_how_many(self) -> None:
        arguments = [(f"a{number}", number, number + 1.0) for number in range(9)]
        rows = list(rows_of_calls(noted(call(0.0, "set", arguments, took=10.0))))
        labels = [row.label for row in rows if row.kind == "argument"]
        assert labels == ["a0", "a1", "a2", "a3", "a4", "… and 4 more"]
        (bar,) = rows[6].bars
        assert (bar.begin, bar.end) == (5.0, 9.0)

    def test_more_calls_than_anybody_reads_are_counted(self) -> None:
        calls = [call(float(number), "tick", took=0.5, call_id=str(number)) for number in range(99)]
        rows = list(rows_of_calls(noted(*calls)))
        assert [row.label for row in rows[-2:]] == ["tick", "… and 39 more calls"]
        assert len(rows) == 61

    def test_calls_of_sub_agents_follow_the_call_that_they_work_for(self) -> None:
        timeline = noted(
            call(0.0, "a", took=1.0),
            call(0.5, "b", took=1.0),
            call(2.0, "a1", took=1.0, parent="a"),
            call(2.5, "b1", took=1.0, parent="b"),
            call(3.0, "a2", took=1.0, parent="a"),
            call(4.0, "a1x", took=1.0, parent="a1"),
        )
        calls = [(row.depth, row.label) for row in rows_of_calls(timeline) if row.kind == "call"]
        assert calls == [(0, "a"), (1, "a1"), (2, "a1x"), (1, "a2"), (0, "b"), (1, "b1")]

    def test_calls_whose_parents_go_in_a_circle_are_shown(self) -> None:
        timeline = noted(call(0.0, "a", took=1.0, parent="b"), call(0.5, "b", took=1.0, parent="a"))
        assert {row.label for row in rows_of_calls(timeline) if row.kind == "call"} == {"a", "b"}

    def test_a_tool_that_somebody_else_runs_is_shown_until_its_result(self) -> None:
        timeline = noted(call(0.0, "Bash", took=1.0))
        timeline.note(ToolCallFailed("Bash", "Bash", "oh"), 3.5)
        (row,) = (row for row in rows_of_calls(timeline) if row.kind == "tool")
        assert row.label == "until its result"
        assert [(bar.begin, bar.end) for bar in row.bars] == [(1.0, 3.5)]

    def test_a_tool_that_was_cut_off_is_not_said_to_have_run_so_long(self) -> None:
        timeline = noted(call(0.0, "count", took=1.0))
        timeline.note(ToolExecutionStarted("count", "count", "key"), 1.2)
        timeline.note(RunResumed("r", "crash", ("count",)), 900.0)
        timeline.note(ToolExecutionStarted("count", "count", "key", 2), 900.0)
        timeline.note(ToolCallFailed("count", "count", "oh"), 901.0)
        (row,) = (row for row in rows_of_calls(timeline) if row.kind == "tool")
        assert [(bar.mark, bar.caption) for bar in row.bars] == [("✗", "cut off"), ("", "1.0 s")]
        assert Axis(busy(timeline), "seconds").gaps == [(1.2, 900.0)]


class TestFigures:
    @given(timelines())
    def test_silence_is_counted_once_however_many_calls_share_it(self, timeline: Timeline) -> None:
        def length(begin: Moment, end: Moment) -> float:
            return end.at - begin.at if timeline.by == "seconds" else end.byte - begin.byte

        each = [length(one.started, one.ended) for one in timeline.calls if one.ended is not None]
        total = silence(timeline)
        assert max(each, default=0.0) <= total + 1e-6
        assert total <= sum(each) + 1e-6

    @pytest.mark.parametrize(
        ("calls", "by", "sentence"),
        [
            (
                WORK,
                "seconds",
                (
                    "The first argument of write_file was visible 7.9 s before the last brace; "
                    "in all, 11.4 s of silence were replaced."
                ),
            ),
            (
                [call(0, "a", [("x", 1, 2)], took=3), call(1, "b", [("x", 1, 2)], took=2.5)],
                "seconds",
                (
                    "The first argument of a was visible 2.0 s before the last brace; "
                    "in all, 3.5 s of silence were replaced."
                ),
            ),
            (
                [call(0, "a", [("x", 1, None)], took=3, verdict="rejected")],
                "seconds",
                (
                    "The first argument was visible 2.0 s before the call was refused: "
                    "3.0 s of silence were replaced."
                ),
            ),
            (
                [call(0, "sql", [("", 0.04, None)], took=0.05, kind="custom")],
                "seconds",
                (
                    "The first argument was visible 10 ms before the last character: "
                    "50 ms of silence were replaced."
                ),
            ),
            (
                [call(0, "a", [("x", 1, 2)], took=3)],
                "bytes",
                (
                    "The first argument was visible 2.0 kB before the last brace: "
                    "3.0 kB were shown that would have been waited for."
                ),
            ),
            ([call(0, "now", took=2)], "seconds", "In all, 2.0 s of silence were replaced."),
            (
                [call(1, "a", [("x", 0, 0)], took=0)],
                "seconds",
                "The call came whole: there was no silence to replace.",
            ),
            ([call(0, "a", [("x", 1, None)], took=3, verdict=None)], "seconds", ""),
        ],
    )
    def test_a_sentence_says_what_it_comes_to(
        self, calls: list[list[Timed]], by: str, sentence: str
    ) -> None:
        assert conclusion(noted(*calls, by="bytes" if by == "bytes" else "seconds")) == sentence
