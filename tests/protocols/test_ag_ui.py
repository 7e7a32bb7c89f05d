"""AG-UI: what each thing that happens is told as; streams as such are in test_ag_ui_properties."""

import sys
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from argstream import events as ev
from argstream.errors import UsageError
from argstream.protocols.ag_ui import AgUiEncoder, Version
from tests.chance_runs import HISTORY
from tests.protocols.reading import read, records_of, snapshot_of

START: list[ev.Event] = [ev.RunStarted("run_1", "Go"), ev.TurnStarted(1)]
CALL: list[ev.Event] = [
    ev.ToolCallStarted("c1", 0, "send"),
    ev.ToolArgsDelta("c1", "send", '{"to": "ada"}'),
    ev.ToolArgsCompleted("c1", "send", {"to": "ada"}),
]
ASKED = ev.ApprovalRequested("c1", "send", {"to": "ada"}, "d1", "always asked", "rule 1", 4_000.0)
PAUSED = ev.RunPaused("run_1", (ASKED,))


def told(events: Iterable[ev.Event], version: Version = "1.0") -> list[dict[str, Any]]:
    """Give what a client is told of events, from the beginning."""
    written = AgUiEncoder("thread", "ask", version).take(records_of(events))
    return [event.data for event in read(written.data)]


def shown(events: Iterable[ev.Event], known: list[dict[str, Any]] | None = None) -> list[Any]:
    """Give what one is told who comes after these events."""
    has = None if known is None else msgspec.json.encode(known)
    written = AgUiEncoder("thread", "ask", "1.0", has).opening(snapshot_of(records_of(events)))
    return [event.data for event in read(written.data)]


def kinds(events: Iterable[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def customs(events: Iterable[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(event["name"], event["value"]) for event in events if event["type"] == "CUSTOM"]


# Streams


def test_the_run_in_the_log_is_named_where_the_stream_begins() -> None:
    [started] = told([ev.RunStarted("run_1", "Go")])
    assert started == {
        "type": "RUN_STARTED",
        "threadId": "thread",
        "runId": "ask",
        "protocolVersion": "1.0",
        "metadata": {"argstream": {"runId": "run_1"}},
    }


@pytest.mark.parametrize(
    ("end", "version", "told_as"),
    [
        (ev.RunCompleted("Hi"), "1.0", ("RUN_FINISHED", {"type": "success"})),
        (ev.RunCompleted("Hi"), "0.0.59", ("RUN_FINISHED", {"type": "success"})),
        (ev.RunStopped("enough"), "1.0", ("RUN_FINISHED", {"type": "cancelled"})),
        (ev.RunStopped("enough"), "0.0.59", ("RUN_ERROR", None)),
        (ev.RunFailed("overloaded", "busy"), "1.0", ("RUN_ERROR", None)),
    ],
)
def test_each_end_is_told_as_the_client_takes_it(
    end: ev.Event, version: Version, told_as: tuple[str, Any]
) -> None:
    last = told([*START, ev.TextDelta("Hi", 0), end], version)[-1]
    assert (last["type"], last.get("outcome")) == told_as


@pytest.mark.parametrize(
    ("usage", "sent"),
    [
        (ev.Usage(3), [{"inputTokens": 3, "totalTokens": 3}]),
        (
            ev.Usage(output_tokens=4, cache_write_tokens=0),
            [{"outputTokens": 4, "totalTokens": 4, "cacheWriteInputTokens": 0}],
        ),
        (ev.Usage(), None),
    ],
)
def test_unknown_token_counts_are_left_out(
    usage: ev.Usage, sent: list[dict[str, int]] | None
) -> None:
    assert told([*START, ev.RunCompleted("Hi", usage)])[-1].get("usage") == sent


def test_everything_is_closed_before_the_end() -> None:
    opened: list[ev.Event] = [
        ev.TextDelta("Hm", 0, "c9"),
        ev.TextDelta("Hi", 1),
        ev.ToolCallStarted("c1", 0, "send"),
    ]
    thinking: list[ev.Event] = [
        *opened,
        ev.ThinkingStarted(2),
        ev.TextDelta("So", 3, "c1"),
        ev.RunStopped(),
    ]
    events = kinds(told([*START, *thinking]))
    for kind in ("TEXT_MESSAGE", "TOOL_CALL", "REASONING"):
        assert events.count(f"{kind}_START") == events.count(f"{kind}_END")
    assert events[-2:] == ["STEP_FINISHED", "RUN_FINISHED"]


def test_the_more_was_written_the_longer_it_is_collected() -> None:
    encoder = AgUiEncoder("thread", "ask")
    encoder.take(records_of(START))
    assert encoder.interval == 0.05
    encoder.take(records_of([ev.TextDelta("x" * 1_000_000, 0)]))
    assert 0.2 < encoder.interval <= 1.0


# Messages


def test_thoughts_that_nobody_may_read_are_no_message() -> None:
    events = kinds(told([*START, ev.ThinkingStarted(0), ev.ThinkingCompleted("", 0)]))
    assert events[-2:] == ["REASONING_START", "REASONING_END"]


@pytest.mark.parametrize("following", [ev.ToolCallStarted("c1", 0, "send"), ev.TurnStarted(2)])
def test_a_text_is_over_when_its_agent_goes_on_with_something_else(following: ev.Event) -> None:
    events = kinds(told([*START, ev.TextDelta("Hi", 0), following]))
    assert events.index("TEXT_MESSAGE_END") < len(events) - 1


def test_a_text_is_not_over_when_another_agent_begins_something() -> None:
    assert "TEXT_MESSAGE_END" not in kinds(
        told([*START, ev.TextDelta("Hi", 0), ev.TextDelta("Ho", 1, "c9")])
    )


def test_what_a_sub_agent_does_is_told_in_its_name() -> None:
    events = told([ev.RunStarted("run_1", "Go"), *CALL, ev.TextDelta("I look.", 0, "c1")])
    assert [event.get("subagentRunId") for event in events[-2:]] == ["c1", "c1"]
    assert all("subagentRunId" not in event for event in events[:-2])


def test_a_call_without_arguments_has_an_empty_object() -> None:
    call: list[ev.Event] = [
        ev.ToolCallStarted("c1", 0, "list"),
        ev.ToolArgsCompleted("c1", "list", {}),
    ]
    events = told([*START, *call])
    assert [event["delta"] for event in events if event["type"] == "TOOL_CALL_ARGS"] == ["{}"]
    assert customs(events) == []


def test_arguments_that_are_not_what_their_text_says_are_told() -> None:
    call: list[ev.Event] = [
        ev.ToolCallStarted("c1", 0, "add"),
        ev.ToolArgsDelta("c1", "add", '{}{"a": 1}'),
    ]
    events = told([*START, *call, ev.ToolArgsCompleted("c1", "add", {"a": 1})])
    assert customs(events) == [("argstream.arguments", {"toolCallId": "c1", "arguments": {"a": 1}})]


def test_a_result_that_is_no_text_is_told_as_json_and_a_failure_as_one() -> None:
    done = ev.ToolCallCompleted("c1", "send", {}, {"rows": [1]})
    [result] = [event for event in told([*START, *CALL, done]) if "content" in event]
    assert (result["content"], "metadata" in result) == ('{"rows":[1]}', False)
    failed = ev.ToolCallFailed("c1", "send", "no line")
    [result] = [event for event in told([*START, *CALL, failed]) if "content" in event]
    assert (result["content"], result["metadata"]) == ("no line", {"argstream": {"failed": True}})


def test_what_a_tool_says_while_it_runs_is_told() -> None:
    running: list[ev.Event] = [
        ev.ToolExecutionStarted("c1", "send", "key"),
        ev.ToolOutputDelta("c1", "send", "half"),
    ]
    assert customs(told([*START, *CALL, *running])) == [
        ("argstream.tool_output", {"toolCallId": "c1", "delta": "half"})
    ]


def test_a_call_that_never_had_a_result_has_one_when_the_run_is_over() -> None:
    search: list[ev.Event] = [
        ev.ToolCallStarted("s1", 0, "search", "server"),
        ev.ToolArgsCompleted("s1", "search", {}),
    ]
    events = told([*START, *search, ev.RunFailed("max_turns", "too many")])
    assert kinds(events)[-3:] == ["TOOL_CALL_RESULT", "STEP_FINISHED", "RUN_ERROR"]
    late = shown([*START, *search, ev.RunFailed("max_turns", "too many")])
    assert late[-2] == events[-3]


def test_what_a_lost_turn_has_begun_is_void_and_its_ids_are_not_used_again() -> None:
    lost: list[ev.Event] = [
        ev.TextDelta("I s", 0),
        ev.ToolCallStarted("c1", 0, "send"),
        ev.RunResumed("run_1", "crash"),
    ]
    events = told([*START, *lost, ev.TurnStarted(1, 2), ev.TextDelta("I send", 0), *CALL])
    started = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START"]
    assert started == ["c1", "c1~2"]
    [void] = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert void["toolCallId"] == "c1"
    assert customs(events) == [("argstream.turn_lost", {"messageIds": ["run_1-1", "run_1-2"]})]
    texts = {event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"}
    assert texts == {"run_1-1", "run_1-3"}


# Approvals


def test_a_pause_is_an_interrupt_that_shows_exactly_what_is_decided_on() -> None:
    [interrupt] = told([*START, *CALL, ASKED, PAUSED])[-1]["outcome"]["interrupts"]
    assert interrupt["id"] == "d1"
    assert interrupt["toolCallId"] == "c1"
    assert interrupt["expiresAt"] == "1970-01-01T01:06:40+00:00"
    assert interrupt["metadata"]["argstream"]["arguments"] == {"to": "ada"}
    answer = interrupt["responseSchema"]
    assert answer["required"] == ["approved"]
    assert answer["properties"]["editedArgs"]["default"] == {"to": "ada"}


def test_the_older_client_is_not_told_when_an_interrupt_expires_since_it_would_be_stuck() -> None:
    [interrupt] = told([*START, *CALL, ASKED, PAUSED], "0.0.59")[-1]["outcome"]["interrupts"]
    assert "expiresAt" not in interrupt
    assert interrupt["metadata"]["argstream"]["expiresAt"] == "1970-01-01T01:06:40+00:00"


def test_only_what_is_still_asked_is_an_interrupt() -> None:
    other = ev.ApprovalRequested("c2", "send", {"to": "eve"}, "d2", "always asked")
    second: list[ev.Event] = [
        ev.ToolCallStarted("c2", 1, "send"),
        ev.ToolArgsCompleted("c2", "send", {"to": "eve"}),
    ]
    both: list[ev.Event] = [
        *START,
        *CALL,
        *second,
        ASKED,
        other,
        ev.RunPaused("run_1", (ASKED, other)),
    ]
    partly: list[ev.Event] = [ev.RunResumed("run_1"), ev.ApprovalDecided("c1", "send", "approved")]
    again = told([*both, *partly, ev.RunPaused("run_1", (other,))])[-1]
    assert [each["id"] for each in again["outcome"]["interrupts"]] == ["d2"]


def test_an_edit_is_told() -> None:
    edited = ev.ApprovalDecided("c1", "send", "edited", "", {"to": "grace"})
    events = told([*START, *CALL, ASKED, PAUSED, ev.RunResumed("run_1"), edited])
    name, value = customs(events)[-1]
    assert name == "argstream.approval_decided"
    assert value["editedArgs"] == {"to": "grace"}


def test_an_observed_run_that_waits_for_a_person_is_interrupted_though_it_does_not_pause() -> None:
    encoder = AgUiEncoder("thread", "ask", "1.0", b"[]")
    records = records_of(
        [
            ev.RunStarted("run_1", "Go"),
            *CALL,
            ASKED,
            ev.TextDelta("Meanwhile", 5, "c8"),
            ev.ApprovalDecided("c1", "send", "approved"),
            ev.ToolCallCompleted("c1", "send", {"to": "ada"}, "sent"),
        ]
    )
    first = encoder.take(records[:5])
    assert first.ends
    assert read(first.data)[-1].data["outcome"]["type"] == "interrupt"
    assert encoder.take(records[5:6]) == (b"", False)  # nobody listens
    second = [event.data for event in read(encoder.take(records[6:]).data)]
    assert kinds(second)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert [message.get("content") for message in second[1]["messages"]] == [None, "Meanwhile"]
    assert kinds(second)[-2:] == ["CUSTOM", "TOOL_CALL_RESULT"]


def test_a_paused_run_that_is_stopped_ends_with_what_became_of_its_calls() -> None:
    encoder = AgUiEncoder("thread", "ask", "1.0")
    encoder.take(records_of([*START, *CALL, ASKED, PAUSED]))
    stopped: list[ev.Event] = [
        ev.ToolCallFailed("c1", "send", "given up"),
        ev.RunStopped("enough", "run_1"),
    ]
    events = kinds(event.data for event in read(encoder.take(records_of(stopped)).data))
    assert events == [
        "RUN_STARTED",
        "STEP_STARTED",
        "TOOL_CALL_RESULT",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]


# Who comes later


def test_who_has_a_part_of_the_run_keeps_the_rest_of_what_he_has() -> None:
    known = [
        {"id": "u1", "role": "user", "content": "Before"},
        {"id": "run_0-1", "role": "assistant", "content": "Yes"},
        {"id": "u2", "role": "user", "content": "Go"},
        {"id": "run_1-1", "role": "assistant", "content": "He"},
    ]
    _, snapshot, *rest = shown([*START, ev.TextDelta("Hello", 0)], known)
    assert [message["id"] for message in snapshot["messages"]] == ["u1", "run_0-1", "u2", "run_1-1"]
    assert snapshot["messages"][-1]["content"] == "Hello"
    assert kinds(rest) == ["STEP_STARTED", "TEXT_MESSAGE_START"]


@pytest.mark.parametrize("events", [[ev.TextDelta("Hello", 0)], [*CALL, ASKED, PAUSED]])
def test_what_a_client_has_is_not_kept_once_its_stream_has_begun(events: list[ev.Event]) -> None:
    known = msgspec.json.encode([{"id": f"u{number}"} for number in range(100)])
    alone = sys.getrefcount(known)
    records = records_of([*START, *events])
    encoder = AgUiEncoder("thread", "ask", "1.0", known)
    encoder.begin(snapshot_of(records))
    if PAUSED in events:
        encoder.take(records_of([ev.RunResumed("run_1")], first=len(records) + 1))
    else:
        encoder.opening(snapshot_of(records))
    assert sys.getrefcount(known) == alone


def test_who_has_nothing_is_shown_the_conversation_by_the_log() -> None:
    _, snapshot, *_ = shown([ev.RunStarted("run_1", "Go", HISTORY), ev.TextDelta("Hi", 0)])
    assert [message["role"] for message in snapshot["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert "c2ln" not in str(snapshot)  # a provider's own form of a call is nobody's business


def test_a_run_that_is_over_or_waits_is_shown_as_a_whole_stream() -> None:
    over = shown([*START, ev.TextDelta("Hi", 0), ev.RunCompleted("Hi")])
    assert kinds(over) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    waiting = shown([*START, *CALL, ASKED, PAUSED])
    assert waiting[-1]["outcome"]["interrupts"][0]["id"] == "d1"


def test_a_stream_goes_on_from_a_snapshot_only() -> None:
    [record] = records_of([ev.RunStarted("run_1", "Go")])
    with pytest.raises(UsageError, match="run_started"):
        AgUiEncoder("thread", "ask").begin(record)
