"""The neutral feed: items of argstream.feed are read like the stream of a provider."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import date
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from argstream import stream
from argstream.errors import UsageError
from argstream.events import (
    Event,
    StopKind,
    StreamFailed,
    ToolCallCompleted,
    ToolCallFailed,
    TurnCompleted,
    Usage,
)
from argstream.feed import (
    CallClosed,
    CallResult,
    CallStarted,
    CallText,
    Item,
    Text,
    Thinking,
    TurnEnded,
)
from argstream.history import Message
from argstream.policy import Policy, Prefix, Rule
from argstream.testing import at_every_place, chunkings
from tests.provider_streams import (
    anthropic_call,
    block_delta,
    block_start,
    block_stop,
    failures,
    joined,
    message_end,
    message_start,
    of_type,
    outcomes,
    results,
    texts,
    turns,
    types,
)

ARGUMENTS = r'{"path": "/tmp/\u00e9", "lines": [1.5, {"a": null}], "content": "\ud83d\ude00\n"}'
VALUE = {"path": "/tmp/é", "lines": [1.5, {"a": None}], "content": "😀\n"}
START, CLOSE, END = CallStarted("toolu_1", "write"), CallClosed("toolu_1"), TurnEnded("tool_use")


def call(*pieces: str) -> list[Item]:
    return [START, *(CallText("toolu_1", piece) for piece in pieces), CLOSE, END]


def without_turn_data(events: list[Event]) -> list[Event]:
    """Remove what a feed does not have: the ID and model of a message."""
    empty, usage = Message(role="assistant", parts=()), Usage()
    return [
        replace(event, message=empty, usage=usage) if isinstance(event, TurnCompleted) else event
        for event in events
    ]


def test_events_are_those_of_a_provider_at_every_cut() -> None:
    for pieces in [*at_every_place(ARGUMENTS), *(cut for _, cut in chunkings(ARGUMENTS))]:
        given = list(stream(call(*pieces)))
        expected = list(stream(anthropic_call(*(piece for piece in pieces if piece))))
        assert without_turn_data(given) == without_turn_data(expected)
        assert joined(given) == joined(stream(call(ARGUMENTS)))


def test_text_and_thinking_are_those_of_a_provider() -> None:
    items = [Thinking("h"), Thinking("m"), Text("s"), Text("o"), START, CLOSE, Text("!"), END]
    payloads = [
        message_start(),
        block_start(0, "thinking", thinking=""),
        block_delta(0, "thinking_delta", thinking="h"),
        block_delta(0, "thinking_delta", thinking="m"),
        block_stop(0),
        block_start(1, "text", text=""),
        block_delta(1, "text_delta", text="s"),
        block_delta(1, "text_delta", text="o"),
        block_stop(1),
        block_start(2, "tool_use", id="toolu_1", name="write", input={}),
        block_stop(2),
        block_start(3, "text", text=""),
        block_delta(3, "text_delta", text="!"),
        block_stop(3),
        *message_end(),
    ]
    assert without_turn_data(list(stream(items))) == without_turn_data(list(stream(payloads)))


TEXT = CallText("toolu_1", '{"a": 1}')
PREFIX = CallText("toolu_1", '{"a": 1')
VERDICTS: dict[str, tuple[list[Item], Any]] = {
    "closed": ([START, TEXT, CLOSE, END], {"a": 1}),
    "closed by the turn": ([START, TEXT, END], {"a": 1}),
    "closed with the whole text": ([START, CallClosed("toolu_1", '{"a": 1}'), END], {"a": 1}),
    "closed with the rest": ([START, PREFIX, CallClosed("toolu_1", '{"a": 1}'), END], {"a": 1}),
    "closed with an object": ([START, CallClosed("toolu_1", {"a": 1}), END], {"a": 1}),
    "without arguments": ([START, CLOSE, END], {}),
    "without arguments, cut": ([START, CLOSE, TurnEnded("length")], "truncated"),
    "without arguments, no reason": ([START, CLOSE, TurnEnded()], "truncated"),
    "complete JSON, cut": ([START, TEXT, TurnEnded("length")], "truncated"),
    "closed too early": ([START, PREFIX, CLOSE, END], "truncated"),
    "source ends after the text": ([START, TEXT], "truncated"),
    "source ends after the close": ([START, TEXT, CLOSE], {"a": 1}),
    "no name": ([CallStarted("toolu_1", ""), TEXT, CLOSE, END], "malformed"),
    "free text": ([CallStarted("toolu_1", "sh", "custom"), CallText("toolu_1", "ls"), END], "ls"),
}


@pytest.mark.parametrize(("items", "expected"), VERDICTS.values(), ids=VERDICTS)
def test_each_call_has_one_verdict(items: list[Item], expected: object) -> None:
    events = stream(items)
    read = list(events)
    assert outcomes(events.calls) == [expected]
    assert (
        len([one for one in types(read) if one in ("tool_args_completed", "tool_args_invalid")])
        == 1
    )
    is_cut = not isinstance(items[-1], TurnEnded)
    assert [failed.code for failed in failures(read)] == ["truncated"] * is_cut


def test_parallel_calls_may_interleave() -> None:
    one, two = CallStarted("1", "write"), CallStarted("2", "write")
    pieces = [
        CallText("1", '{"a":'),
        CallText("2", '{"b"'),
        CallText("1", "1}"),
        CallText("2", ":2}"),
    ]
    events = stream([one, two, *pieces, CallClosed("2"), CallClosed("1"), END])
    completed = [event.call_id for event in events if event.type == "tool_args_completed"]
    assert completed == ["2", "1"]
    assert outcomes(events.calls) == [{"a": 1}, {"b": 2}]


def test_turns_may_reuse_ids_and_report_usage_and_results() -> None:
    used = TurnEnded("tool_calls", Usage(input_tokens=3, output_tokens=2))
    result = CallResult("toolu_1", {"on": date(2026, 1, 2)})
    failed = CallResult("toolu_1", "no", failed=True)
    events = stream(
        [*call("{}")[:-1], used, result, *call("{}")[:-1], used, failed, Text("Hm"), END]
    )
    read = list(events)
    assert results(read) == [
        ToolCallCompleted("toolu_1", "write", {}, {"on": "2026-01-02"}),
        ToolCallFailed("toolu_1", "write", "no"),
    ]
    assert [turn.stop for turn in turns(read)] == ["tool_calls"] * 2 + ["tool_calls"]
    assert events.usage == Usage(input_tokens=6, output_tokens=4)
    assert texts(read) == ["Hm"]


@pytest.mark.parametrize("stop", sorted({*get_args(StopKind)} - {"rejected", "unknown"}))
def test_stop_reason_may_be_a_kind(stop: str) -> None:
    (turn,) = turns(stream([Text("Hi"), TurnEnded(stop)]))
    assert (turn.stop_reason, turn.stop) == (stop, stop)


SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "maxLength": 4}}}
NO_ETC = Policy([Rule("deny", argument="path", when=Prefix("/etc"))], default="allow")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tools": [{"name": "write", "input_schema": SCHEMA}], "stop_on": "rejected"}, "schema"),
        ({"tools": [{"name": "read", "input_schema": {}}], "stop_on": "rejected"}, "unknown_tool"),
        ({"policy": NO_ETC}, "denied"),
    ],
)
def test_call_is_rejected_before_it_is_complete_and_the_feed_is_closed(
    options: dict[str, Any], reason: str
) -> None:
    fed: list[Item] = []

    def items() -> Iterator[Item]:
        for item in call('{"path": "/etc/pass', 'wd", "content": "', "never", '"}'):
            fed.append(item)
            yield item

    events = stream(items(), **options)
    last: list[Any] = list(events)
    *_, invalid, turn = last
    assert (invalid.type, invalid.verdict, invalid.error.reason) == (
        "tool_args_invalid", "rejected", reason,
    )  # fmt: skip
    assert turn.stop == "rejected"
    assert CallText("toolu_1", "never") not in fed


def test_readers_read_an_async_feed() -> None:
    async def items() -> AsyncIterator[Item]:
        for item in call('{"path": "a.txt", "content": "o', 'ne"}'):
            yield item

    async def main() -> list[str]:
        async with stream(items()) as events:
            async for reader in events.live_calls():
                assert await reader.argument("path", type=str) == "a.txt"
                return [piece async for piece in reader.text("content")]
        raise AssertionError("no call")

    assert asyncio.run(main()) == ["o", "ne"]


@pytest.mark.parametrize("item", [CallText("other", "{}"), CallClosed("other")])
def test_item_for_a_call_that_has_not_started_is_reported_and_the_rest_goes_on(item: Item) -> None:
    earlier: list[Item] = [CallStarted("other", "write"), TurnEnded("length")]
    events = stream([*earlier, START, item, Text("So"), END])
    read = list(events)
    assert outcomes(events.calls) == ["truncated"] * 2  # the item may have been a piece of it
    (failed,) = failures(read)
    assert failed.code == "bad_payload"
    assert "'other', which has not started in this turn" in failed.message
    assert texts(read) == ["So"]


@pytest.mark.parametrize("other", [{"type": "message_start"}, object(), 7, None, "Hi", b"Hi"])
def test_other_item_in_a_feed_raises_after_the_verdicts(other: object) -> None:
    events = stream([START, PREFIX, other])
    read: list[Event] = []
    with pytest.raises(UsageError, match=r"an item of type|text or bytes\. Use feed.Text"):
        read.extend(events)
    assert read[-1].type == "tool_args_invalid"
    assert outcomes(events.calls) == ["truncated"]


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (Text, (b"Hi",), "Text.text must be str, not bytes"),
        (CallText, ("1", {"a": 1}), "CallText.text must be str, not dict"),
        (CallStarted, (1, "write"), "CallStarted.id must be str, not int"),
        (CallStarted, ("", "write"), "CallStarted.id must not be empty"),
        (CallStarted, ("1", "write", "tool"), "CallStarted.kind must be one of function, "),
        (CallClosed, ("1", [1]), "CallClosed.arguments must be str or dict, not list"),
        (TurnEnded, (3,), "TurnEnded.stop must be str, not int"),
        (TurnEnded, ("stop", {}), "TurnEnded.usage must be Usage, not dict"),
    ],
)
def test_wrong_item_raises_where_it_is_created(
    kind: type[Any], fields: tuple[object, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        kind(*fields)


def test_empty_turn_is_a_turn_and_an_empty_feed_is_a_failure() -> None:
    assert types(stream([TurnEnded("stop")])) == ["turn_completed"]
    assert of_type(stream([], protocol="feed"), StreamFailed)[0].code == "empty"
