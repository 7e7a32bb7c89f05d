"""The waterfall: its times, its axis, its text and its SVG document."""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile
from random import Random
from typing import Literal
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from argstream import events as e
from argstream import stream
from argstream.history import CallKind, Verdict
from argstream.jsonstream import JsonPath
from argstream.runs import RunState
from argstream.sanitise import visible_line
from argstream.terminal import rows_of
from argstream.terminal.waterfall import Axis, Waterfall
from tests.provider_streams import anthropic_call, sse
from tests.support import screen
from tests.terminal.looks.following import text_of

Timed = tuple[float, e.Event]
Argument = tuple[str, float, float | None]  # name, first seen and settled, since the call began


def call(
    at: float,
    name: str,
    arguments: Sequence[Argument] = (),
    *,
    took: float,
    verdict: Verdict | None = "complete",
    kind: CallKind = "function",
    call_id: str = "",
    parent: str | None = None,
    asked: float | None = None,
    ran: float | None = None,
) -> list[Timed]:
    id_ = call_id or name
    end = at + took
    events: list[Timed] = [(at, e.ToolCallStarted(id_, 0, name, kind, parent))]
    for index, (argument, seen, settled) in enumerate(arguments):
        text = f'{", " if index else "{"}{json.dumps(argument)}: "'
        events.append((at + seen, e.ToolArgsDelta(id_, name, text)))
        if settled is not None:
            events.append((at + settled, e.ToolArgsDelta(id_, name, '"')))
    if verdict == "complete":
        values = dict.fromkeys((argument for argument, *_ in arguments), "")
        text = "".join(event.delta for _, event in events if isinstance(event, e.ToolArgsDelta))
        events.append((end, e.ToolArgsCompleted(id_, name, text if kind == "custom" else values)))
    elif verdict is not None:
        error = e.ArgumentsError("schema", "a message")
        events.append((end, e.ToolArgsInvalid(id_, name, verdict, "", error)))
    if asked is not None:
        events.append((end, e.ApprovalRequested(id_, name, {}, "digest", "a reason")))
        end += asked
        events.append((end, e.ApprovalDecided(id_, name, "approved")))
    if ran is not None:
        events.append((end, e.ToolExecutionStarted(id_, name, "key")))
        events.append((end + ran, e.ToolCallCompleted(id_, name, {}, None)))
    return events


def noted(*calls: Iterable[Timed], by: Literal["seconds", "bytes"] = "seconds") -> Waterfall:
    state = RunState()
    events = sorted((event for one in calls for event in one), key=lambda event: event[0])
    for at, event in events:
        state.apply(event, at if by == "seconds" else round(at * 1000))
    return Waterfall(state, by)


# An agent that writes, needs an approval, and is refused a call.
WORK = (
    call(0.6, "read_file", [("path", 0.2, 0.4)], took=0.5, ran=0.2),
    call(1.5, "write_file", [("path", 0.3, 0.5), ("content", 0.6, 8.0)], took=8.2, ran=0.3),
    call(10.5, "edit_file", [("old", 0.4, 0.9), ("new", 1.0, 1.9)], took=2.0, asked=0.8, ran=0.1),
    call(13.5, "run_command", [("command", 0.2, None)], took=0.7, verdict="rejected"),
)


def chance_waterfall(seed: int) -> Waterfall:
    random = Random(seed)

    def length() -> float:
        return random.choice([0, 1, 40, 700, 9_000, 100_000]) * random.random() / 1000

    def one(number: int) -> list[Timed]:
        took = length()
        verdicts: list[Verdict | None] = ["complete", "rejected", None]
        verdict = random.choice(verdicts)
        times = sorted(random.random() * took for _ in range(2 * random.randrange(9)))
        arguments: list[Argument] = [
            (f"{index}", *pair)
            for index, pair in enumerate(zip(times[::2], times[1::2], strict=True))
        ]
        if arguments and verdict != "complete":
            arguments[-1] = (*arguments[-1][:2], random.choice([took, None]))
        names = ["path", "a name that is longer than any column", "名前", "\x1b[2J", ""]
        return call(
            random.choice([0, 1, 10, 10_000]) * random.random(),
            random.choice(names),
            arguments,
            took=took,
            verdict=verdict,
            kind=random.choice(["function", "custom"]),
            call_id=str(number),
            parent=random.choice([None, "0", "1", str(number), "unknown"]),
            asked=random.choice([None, length()]),
            ran=random.choice([None, length()]),
        )

    calls = [one(number) for number in range(random.choice([1, 2, 3, 13, 70]))]
    return noted(*calls, by=random.choice(["seconds", "bytes"]))


waterfalls = st.integers(0, 2**32).map(chance_waterfall)


def times_of(waterfall: Waterfall) -> list[tuple[JsonPath, float | None, float | None]]:
    found = waterfall.arguments(waterfall.calls[0])
    return [(one.path, one.started_at, one.done_at) for one in found]


class TestTimes:
    def test_times_count_from_the_start_of_the_run(self) -> None:
        written = call(5001.0, "write", [("path", 0.5, 1.5)], took=2.0, ran=3.0)
        waterfall = noted([(5000.0, e.RunStarted("r", "Go"))], written)
        assert waterfall.written(waterfall.calls[0]) == (1.0, 3.0)
        assert [waterfall.at(time) for _, *times in times_of(waterfall) for time in times] == [
            1.5, 2.5
        ]  # fmt: skip
        assert waterfall.at(waterfall.state.time) == 6.0
        waterfall = noted(written)  # a stream without a run
        assert waterfall.written(waterfall.calls[0]) == (5001.0, 5003.0)

    def test_call_that_never_started_is_not_drawn(self) -> None:
        assert noted([(1.0, e.ToolArgsDelta("c", "write", "{"))]).calls == []

    def test_free_text_is_one_argument(self) -> None:
        waterfall = noted(call(0.0, "sql", [("", 1.0, None)], took=3.0, kind="custom"))
        assert times_of(waterfall) == [((), 1.0, 3.0)]
        assert times_of(noted(call(0.0, "sql", took=3.0, kind="custom"))) == []

    def test_times_of_arguments_are_those_of_their_events(self) -> None:
        pieces = ('{"path": "a', '.py", "x": [{"y": 1}, 2', "], ", '"z": 1}')
        seen: dict[JsonPath, float] = {}
        settled: dict[JsonPath, float] = {}
        state = RunState()
        for at, event in enumerate(stream([sse(anthropic_call(*pieces))])):
            if isinstance(event, e.ArgumentStarted):
                seen[event.path] = state.time
            elif isinstance(event, e.ArgumentCompleted):
                settled[event.path] = state.time
            state.apply(event, at)
        assert len(seen) == 6
        assert times_of(Waterfall(state, is_deep=True)) == [
            (path, seen[path], settled[path]) for path in seen
        ]
        assert [path for path, *_ in times_of(Waterfall(state))] == [("path",), ("x",), ("z",)]

    def test_edited_arguments_do_not_change_when_the_others_were_visible(self) -> None:
        written = call(0.0, "send", [("to", 0.5, 1.0), ("text", 1.5, 2.0)], took=3.0)
        edited = e.ToolCallCompleted("send", "send", {"to": "eve"}, None)
        waterfall = noted(written, [(9.0, edited)])
        assert waterfall.calls[0].arguments == {"to": "eve"}
        assert times_of(waterfall) == [(("to",), 0.5, 1.0), (("text",), 1.5, 2.0)]


class TestConclusion:
    @given(waterfalls)
    def test_silence_of_overlapping_calls_is_counted_once(self, waterfall: Waterfall) -> None:
        written = [waterfall.written(one) for one in waterfall.calls if one.verdict]
        each = [end - begin for begin, end in written]
        assert max(each, default=0) <= waterfall.silence() + 1e-6
        assert waterfall.silence() <= sum(each) + 1e-6

    @pytest.mark.parametrize(
        ("calls", "visible", "silent"),
        [
            (WORK, "write_file: first argument shown 7.9 s", "11.4 s"),
            (
                [call(0, "a", [("x", 1, 2)], took=3), call(1, "b", [("x", 1, 2)], took=2.5)],
                "a: first argument shown 2.0 s",
                "3.5 s",
            ),
            (
                [call(0, "a", [("x", 1, None)], took=3, verdict="rejected")],
                "a: first argument shown 2.0 s",
                "3.0 s",
            ),
            (
                [call(0, "sql", [("", 0.04, None)], took=0.05, kind="custom")],
                "sql: first argument shown 10 ms",
                "50 ms",
            ),
            ([call(1, "a", took=2)], None, "2.0 s"),
            ([call(1, "a", [("x", 0, 0)], took=0)], None, "0 ms"),
        ],
    )
    def test_conclusion_counts_the_silence(
        self, calls: list[list[Timed]], visible: str | None, silent: str
    ) -> None:
        expected = f"{visible} before its end. All calls: {silent}."
        none = "No call was readable before it was complete."
        assert noted(*calls).conclusion() == (expected if visible else none)

    def test_unfinished_call_has_no_conclusion(self) -> None:
        assert noted(call(1, "a", [("x", 1, None)], took=3, verdict=None)).conclusion() == ""

    def test_conclusion_in_bytes(self) -> None:
        assert noted(call(0, "a", [("x", 1, 2)], took=3), by="bytes").conclusion() == (
            "a: first argument shown 2.0 kB before its end. All calls: 3.0 kB."
        )


class TestAxis:
    def test_it_starts_at_zero_and_ends_with_the_last_stretch(self) -> None:
        axis = Axis([(1.0, 4.0), (3.0, 8.0)], "seconds")
        assert axis.stretches == [(0.0, 8.0)]
        assert [axis.place(value, 80, 2) for value in (0.0, 2.0, 8.0, 9.0)] == [0, 20, 80, 80]

    def test_long_gap_is_left_out(self) -> None:
        axis = Axis([(100.0, 101.0), (101.2, 102.0), (4000, 4001)], "seconds")
        assert axis.stretches == [(100.0, 102.0), (4000.0, 4001.0)]
        assert (axis.length, axis.gaps) == (3.0, [(102.0, 4000.0)])
        places = [axis.place(value, 62, 2) for value in (99, 100, 102, 2051, 4000, 4001)]
        assert places == [0, 0, 40, 41, 42, 62]

    def test_empty_stretch_has_a_place(self) -> None:
        assert Axis([(3.0, 3.0)], "seconds").place(3.0, 10, 2) == 10
        assert Axis([], "seconds").place(0.0, 10, 2) == 0
        next_to_none = Axis([(0.0, 5e-324)], "seconds")
        assert next_to_none.place(1.0, 10, 2) == 0
        assert next_to_none.ticks(5) == [(0.0, "0.0 ms")]

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
        axis = Axis([(0.0, end)], "bytes" if unit == "bytes" else "seconds")
        assert [label for _, label in axis.ticks(5)] == labels

    def test_each_part_between_gaps_is_labelled(self) -> None:
        axis = Axis([(0.2, 0.6), (4000.7, 4001.2)], "seconds")
        assert [label for _, label in axis.ticks(4)] == ["0:00.0", "0:00.5", "1:06:41.0"]

    @given(
        st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), min_size=1, max_size=9),
        st.lists(st.floats(-1, 1.1e6), min_size=2).map(sorted),
        st.integers(4, 200),
    )
    def test_places_keep_the_order_and_stay_inside(
        self, drawn: list[tuple[int, int]], values: list[float], room: int
    ) -> None:
        axis = Axis([(begin / 1000, (begin + long) / 1000) for begin, long in drawn], "seconds")
        found = [axis.place(value, room, gap=2) for value in values]
        assert all(0 <= place <= room for place in found)
        assert all(before <= after + 1e-6 for before, after in pairwise(found))
        parts = axis.length + sum(end - begin for begin, end in axis.gaps)
        assert parts + axis.stretches[0][0] == pytest.approx(axis.stretches[-1][1])
        assert len(axis.ticks(8)) <= 9 + len(axis.stretches)


def drawn(waterfall: Waterfall, columns: int = 79) -> list[str]:
    rows = (
        row for line in waterfall.lines(columns, detailed=True) for row in rows_of(line, columns)
    )
    return [text_of(row).rstrip() for row in rows]


def names(waterfall: Waterfall) -> list[str]:
    table = list(
        takewhile(bool, (text_of(line.spans) for line in waterfall.lines(200, detailed=True)))
    )[2:]
    return [re.split("(?<=\\S)  ", row)[0] for row in table]


class TestText:
    def test_a_call_has_one_row(self) -> None:
        lines = [text_of(line.spans) for line in noted(*WORK).lines(79)]
        assert lines[2:] == screen("waterfall-of-calls")

    def test_an_agent_at_work(self) -> None:
        assert drawn(noted(*WORK)) == screen("waterfall")

    def test_at_forty_columns(self) -> None:
        assert drawn(noted(*WORK[2:]), 40) == screen("waterfall-40-columns")

    def test_sub_agents_free_text_and_unfinished_calls(self) -> None:
        waterfall = noted(
            call(0.0, "Task", [("prompt", 0.1, 2.0)], took=2.4, ran=6.0),
            call(3.0, "Read", [("file", 0.1, 0.2)], took=0.3, parent="Task"),
            call(4.5, "sql", [("", 0.2, None)], took=1.0, kind="custom"),
            call(5.5, "cut", [("a", 0.5, None)], took=2.0, verdict="truncated"),
            call(7.5, "open", [("a", 0.5, None)], took=1.0, verdict=None),
            [(8.6, e.ToolCallCompleted("sql", "sql", {}, None))],
        )
        assert drawn(waterfall) == screen("waterfall-sub-agents")

    def test_tool_that_a_crash_ended_has_no_duration(self) -> None:
        attempts: list[Timed] = [
            (1.2, e.ToolExecutionStarted("count", "count", "key")),
            (900.0, e.RunResumed("r", "crash", ("count",))),
            (900.0, e.ToolExecutionStarted("count", "count", "key", 2)),
            (901.0, e.ToolCallFailed("count", "count", "oh")),
        ]
        tools = [
            " ".join(re.sub("▒+", "▒", row).split())
            for events in (attempts[:2], attempts)
            for row in drawn(noted(call(0.0, "count", took=1.0), events), 50)
            if row.startswith("  tool")
        ]
        assert tools == ["tool cut off ✗", "tool 1.0 s ✗ ▒"]

    @pytest.mark.parametrize(("decision", "ran"), [("approved", "  tool 0.4 s"), ("denied", None)])
    def test_tool_of_another_process_runs_from_the_approval_to_its_result(
        self, decision: e.ApprovalOutcome, ran: str | None
    ) -> None:
        approval: list[Timed] = [
            (0.5, e.ApprovalRequested("send", "send", {}, "digest", "a reason")),
            (4000.6, e.ApprovalDecided("send", "send", decision)),
            (4001.0, e.ToolCallCompleted("send", "send", {}, None)),
        ]
        waterfall = noted(call(0.0, "send", took=0.5), approval)
        assert [name for name in names(waterfall) if "tool" in name] == ([ran] if ran else [])

    def test_arguments_beyond_twelve_are_counted(self) -> None:
        arguments = [(f"a{number}", number, number + 1.0) for number in range(15)]
        waterfall = noted(call(0.0, "set", arguments, took=16.0))
        shown = [f"  a{number}" for number in range(12)]
        assert names(waterfall) == ["● set", *shown, "  … and 3 more"]

    def test_calls_beyond_sixty_are_counted(self) -> None:
        calls = [call(float(number), "tick", took=0.5, call_id=str(number)) for number in range(99)]
        assert names(noted(*calls)) == [*["● tick"] * 60, "  … and 39 more calls"]

    def test_calls_of_sub_agents_follow_their_parents(self) -> None:
        def shown(*calls: tuple[str, str | None]) -> list[str]:
            one_by_one = (
                call(float(number), name, took=1.0, parent=parent)
                for number, (name, parent) in enumerate(calls)
            )
            return [name for name in names(noted(*one_by_one)) if "●" in name]

        sub_agents = [("a1", "a"), ("b1", "b"), ("a2", "a"), ("a1x", "a1")]
        found = shown(("a", None), ("b", None), *sub_agents)
        assert found == ["● a", "  ● a1", "    ● a1x", "  ● a2", "● b", "  ● b1"]
        assert shown(("a", "b"), ("b", "a")) == ["● a", "  ● b"]  # a cycle

    @given(waterfalls, st.integers(24, 220))
    def test_no_row_is_wider_than_the_screen(self, waterfall: Waterfall, columns: int) -> None:
        texts = [text_of(line.spans) for line in waterfall.lines(columns, detailed=True)]
        table = list(takewhile(bool, texts))
        assert sum("●" in text for text in table) == min(60, len(waterfall.calls))
        assert all(wcswidth(text) <= columns for text in table)
        assert all(text.isprintable() for text in texts)

    def test_screen_that_is_too_narrow_gets_the_narrowest_text(self) -> None:
        assert noted(*WORK).lines(1) == noted(*WORK).lines(23) == noted(*WORK).lines(24)
        assert Waterfall(RunState()).lines(80) == []

    def test_names_are_escaped_once(self) -> None:
        nasty = "\x1b⟦"
        shown = "\n".join(drawn(noted(call(0.0, nasty, [(nasty, 0.1, 0.2)], took=1.0))))
        assert shown.count("⟦ESC⟧⟦U+27E6⟧") == 3
        assert "\x1b" not in shown


SVG = "{http://www.w3.org/2000/svg}"
PAYLOADS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]><script>alert(1)</script><![CDATA[",
    "</text></svg><svg onload=alert(1)>",
    "</style><script>alert(1)</script>",
    "</title></desc><foreignObject><body onload=alert(1)/></foreignObject>",
    "<!--><!ENTITY x SYSTEM 'file:///etc/passwd'>&x;",
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "{}@import url(http://evil.example/x.css);",
    "&lt;script&gt;&#60;script&#62;",
    "\x00\x08\x0b\x1b]0;gone\x07\x9b2J\x7f",
    "\u202egnp.exe\u2066\u200b\ufeff",
    "\ud800 \udfff \ufffe \uffff \U000e0041",
    "\r\n\t\u2028\x85",
]


def texts(picture: ET.Element) -> list[str]:
    return [element.text for element in picture.iter(f"{SVG}text") if element.text]


def found(picture: str, look: str) -> list[ET.Element]:
    return [one for one in ET.fromstring(picture).iter() if one.get("class") == look]


class TestSvg:
    def test_texts_are_those_of_the_terminal(self) -> None:
        waterfall = noted(*WORK)
        shown = texts(ET.fromstring(waterfall.svg("turn.rec")))
        assert shown[:7] == [
            "When each argument was visible", "turn.rec", "sooner", "0 s", "2 s", "4 s", "6 s"
        ]  # fmt: skip
        assert shown.count("path") == 2
        assert {"● write_file", "● run_command · rejected", "approval 0.8 s", "8.2 s"} < set(shown)
        assert shown[-1] == waterfall.conclusion()

    def test_bars_are_placed_by_their_times(self) -> None:
        waterfall = noted(call(0.0, "write", [("a", 0.0, 5.0), ("b", 5.0, 10.0)], took=10.0))
        (left, one), (right, other) = (
            (float(bar.get("x", "")), float(bar.get("width", "")))
            for bar in found(waterfall.svg(), "argument")
            if bar.tag == f"{SVG}rect"
        )
        assert one == pytest.approx(other, abs=0.2)
        assert left + one == pytest.approx(right, abs=0.2)

    def test_marks_show_how_calls_ended(self) -> None:
        picture = ET.fromstring(noted(*WORK, call(14.5, "open", took=1.0, verdict=None)).svg())
        marks = [circle.get("class") for circle in picture.iter(f"{SVG}circle")]
        assert marks == ["good"] * 3 + ["bad"] * 2 + ["warning"]

    def test_title_and_description_are_accessible(self) -> None:
        waterfall = noted(call(0.0, "write", [("path", 0.5, 1.0)], took=2.0))
        picture = ET.fromstring(waterfall.svg("turn.rec"))
        assert picture.get("role") == "img"
        by_id = {element.get("id"): element.text or "" for element in picture}
        title, description = (by_id[id_] for id_ in picture.get("aria-labelledby", "").split())
        assert title == "When each argument was visible: turn.rec"
        assert description.startswith("write: 0 ms to 2.0 s; path: 0.5 s to 1.0 s; write: first")
        assert description.endswith(waterfall.conclusion())

    def test_every_colour_has_a_dark_variant(self) -> None:
        (style,) = ET.fromstring(noted(*WORK).svg()).iter(f"{SVG}style")
        light, dark = (style.text or "").split("@media (prefers-color-scheme:dark)")
        rules = [re.findall(r"([^{}\n]+){(\w+):#", theme) for theme in (light, dark)]
        assert len(rules[0]) > 10
        assert rules[0] == rules[1]

    def test_run_can_be_empty_or_just_started(self) -> None:
        waterfall = Waterfall(RunState())
        assert texts(ET.fromstring(waterfall.svg()))[0] == "When each argument was visible"
        waterfall = noted([(5.0, e.ToolCallStarted("c", 0, "write"))])
        assert "● write · unfinished" in texts(ET.fromstring(waterfall.svg()))

    @pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
    def test_hostile_name_is_only_text(self, payload: str) -> None:
        arguments = [(payload, 0.1, 0.2)]
        waterfall = noted(call(0.0, payload, arguments, took=1.0, verdict="rejected"))
        document = waterfall.svg(payload)
        document.encode()
        elements = list(ET.fromstring(document).iter())
        known = {"svg", "title", "desc", "style", "g", "rect", "path", "circle", "text"}
        assert {element.tag.removeprefix(SVG) for element in elements} <= known
        attributes = {name for element in elements for name in element.attrib}
        allowed = "id class role aria-labelledby d r rx x y cx cy width height viewBox"
        assert attributes <= {*allowed.split()}
        values = [value for element in elements for value in element.attrib.values()]
        assert not [value for value in values if "alert" in value or "evil" in value]
        shown = texts(elements[0])
        assert visible_line(payload).startswith(shown[1].rstrip("…"))
        assert all(text.isprintable() for text in shown)

    def test_it_loads_nothing_and_marks_gaps(self) -> None:
        document = noted(*WORK, call(500.0, "b", took=1.0)).svg()
        assert found(document, "gap")
        assert "8 min 6 s idle time hidden" in document
        assert re.findall(r"[a-z]+://[^\"]*", document) == ["http://www.w3.org/2000/svg"]
        assert "url(" not in document
        assert "<script" not in document
        assert "@import" not in document

    def test_long_name_is_cut(self) -> None:
        waterfall = noted(call(0.0, "n" * 300_000, [("長" * 300_000, 0.1, 0.2)], took=1.0))
        document = waterfall.svg("f" * 300_000)
        assert len(document) < 20_000
        assert any(text.endswith("…") and "長" in text for text in texts(ET.fromstring(document)))

    @given(waterfalls)
    def test_bars_are_inside_the_picture(self, waterfall: Waterfall) -> None:
        picture = ET.fromstring(waterfall.svg())
        high, wide = (float(picture.get(name, "")) for name in ("height", "width"))
        for bar in picture.iter(f"{SVG}rect"):
            x, y = float(bar.get("x", "")), float(bar.get("y", ""))
            assert 0 <= x <= x + float(bar.get("width", "")) <= wide
            assert 0 <= y <= y + float(bar.get("height", "")) <= high
