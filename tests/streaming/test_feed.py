"""The neutral feed: items of argstream.feed are read like the stream of a provider."""

from datetime import date
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from argstream import events as ev
from argstream import feed, stream
from argstream.errors import UsageError
from argstream.events import Event, StopKind, StreamFailed, ToolCallCompleted, ToolCallFailed, Usage
from argstream.feed import CallClosed, CallStarted, CallText, Item, Text, Thinking, TurnEnded
from argstream.history import Message
from argstream.testing import at_every_place, chunkings
from tests import provider_streams as api
from tests.provider_streams import failures, joined, outcomes

ARGUMENTS = r'{"path": "/tmp/\u00e9", "lines": [1.5, {"a": null}], "content": "\ud83d\ude00\n"}'
VALUE = {"path": "/tmp/é", "lines": [1.5, {"a": None}], "content": "😀\n"}
START, CLOSE, END = CallStarted("toolu_1", "write"), CallClosed("toolu_1"), TurnEnded("tool_use")


def call(*pieces: str) -> list[Item]:
    return [START, *(CallText("toolu_1", piece) for piece in pieces), CLOSE, END]


def without_turn_data(events: list[Event]) -> list[Event]:
    """Remove what a feed does not have: the ID and model of a message."""
    empty, usage = Message(role="assistant", parts=()), Usage()
    return [
        replace(event, message=empty, usage=usage) if isinstance(event, ev.TurnCompleted) else event
        for event in events
    ]


def test_events_are_those_of_a_provider_at_every_cut() -> None:
    for pieces in [*at_every_place(ARGUMENTS), *(cut for _, cut in chunkings(ARGUMENTS))]:
        given = list(stream(call(*pieces)))
        expected = list(stream(api.anthropic_call(*(piece for piece in pieces if piece))))
        assert without_turn_data(given) == without_turn_data(expected)
        assert joined(given) == joined(stream(call(ARGUMENTS)))


def test_text_and_thinking_are_those_of_a_provider() -> None:
    items = [Thinking("h"), Thinking("m"), Text("s"), Text("o"), START, CLOSE, Text("!"), END]
    payloads = [
        *(api.message_start(), *api.thinking_block(0, "h", "m"), *api.text_block(1, "s", "o")),
        *(*api.call_block(2), *api.text_block(3, "!"), *api.message_end()),
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
        len([one for one in api.types(read) if one in ("tool_args_completed", "tool_args_invalid")])
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
    result = feed.CallResult("toolu_1", {"on": date(2026, 1, 2)})
    failed = feed.CallResult("toolu_1", "no", failed=True)
    events = stream(
        [*call("{}")[:-1], used, result, *call("{}")[:-1], used, failed, Text("Hm"), END]
    )
    read = list(events)
    assert api.results(read) == [
        ToolCallCompleted("toolu_1", "write", {}, {"on": "2026-01-02"}),
        ToolCallFailed("toolu_1", "write", "no"),
    ]
    assert [turn.stop for turn in api.turns(read)] == ["tool_calls"] * 2 + ["tool_calls"]
    assert events.usage == Usage(input_tokens=6, output_tokens=4)
    assert api.texts(read) == ["Hm"]


@pytest.mark.parametrize("stop", sorted({*get_args(StopKind)} - {"rejected", "unknown"}))
def test_stop_reason_may_be_a_kind(stop: str) -> None:
    (turn,) = api.turns(stream([Text("Hi"), TurnEnded(stop)]))
    assert (turn.stop_reason, turn.stop) == (stop, stop)


@pytest.mark.parametrize("item", [CallText("other", "{}"), CallClosed("other")])
def test_item_for_a_call_that_has_not_started_is_reported_and_the_rest_goes_on(item: Item) -> None:
    earlier: list[Item] = [CallStarted("other", "write"), TurnEnded("length")]
    events = stream([*earlier, START, item, Text("So"), END])
    read = list(events)
    assert outcomes(events.calls) == ["truncated"] * 2  # the item may have been a piece of it
    (failed,) = failures(read)
    assert failed.code == "bad_payload"
    assert "'other', which has not started in this turn" in failed.message
    assert api.texts(read) == ["So"]


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
    assert api.types(stream([TurnEnded("stop")])) == ["turn_completed"]
    assert api.of_type(stream([], protocol="feed"), StreamFailed)[0].code == "empty"
