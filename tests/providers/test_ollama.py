"""Ollama's own chat API: rules that no recording shows alone."""

from importlib import import_module
from typing import Any

from argstream import events as ev
from argstream.history import OpaquePart
from tests.provider_streams import Payload, provider_failed, turns, types
from tests.providers.tables import Tables, cases

READER = Tables("ollama")
assemble, completed = READER.assemble, READER.completed


def chunk(**message: Any) -> Payload:
    said = {"role": "assistant", "content": "", **message}
    return {"model": "qwen", "created_at": "2026-03-06T14:53:02Z", "message": said, "done": False}


def entry(
    arguments: Any = None, *, index: Any = None, id_: str | None = None, name: str | None = "write"
) -> Payload:
    """An entry of tool_calls without the fields that are None."""
    function = {"index": index, "name": name, "arguments": arguments}
    given = {key: value for key, value in function.items() if value is not None}
    return {**({} if id_ is None else {"id": id_}), "function": given}


def called(*entries: Payload) -> Payload:
    return chunk(tool_calls=list(entries))


def done(reason: str | None = "stop", **message: Any) -> Payload:
    counts = {"prompt_eval_count": 7, "eval_count": 5, "total_duration": 1}
    ended = {**chunk(**message), "done": True, **counts}
    return ended if reason is None else {**ended, "done_reason": reason}


def one_call(arguments: Any) -> Any:
    return lambda reason: [called(entry(arguments)), done(reason)]


PIECES = [
    called(entry('{"a"', index=0, id_="a"), entry('{"b"', index=1, id_="b")),
    called(entry(":1}", index=0, name=None)),
    called(entry(":2}", index=1, name=None)),
]
SAME_INDEX = called(entry({"a": 1}, index=0))
A, B, C = (entry({name: 1}) for name in "abc")

test_outcomes = READER.test_outcomes(
    {
        "no index and no ID": ([called(A, B), called(C), done()], [{"a": 1}, {"b": 1}, {"c": 1}]),
        "same index in several chunks": ([SAME_INDEX, SAME_INDEX, done()], [{"a": 1}, {"a": 1}]),
        **cases("no arguments and", one_call(None), {}, ["stop"]),
        **cases("no arguments and", one_call(None), "truncated", ["length", "new", None]),
        **cases("empty object and", one_call({}), {}, ["stop", "length", "new", None]),
        **cases("text and", one_call('{"a":1}'), {"a": 1}, ["stop", None]),
        **cases("text and", one_call('{"a":1}'), "truncated", ["length"]),
        "text without an end": ([called(entry('{"a":1}'))], ["truncated"]),
        "text in pieces": ([*PIECES, done()], [{"a": 1}, {"b": 2}]),
        "call in the last chunk": ([done(tool_calls=[A])], [{"a": 1}]),
        "two turns": ([called(A), done(), called(B), done()], [{"a": 1}, {"b": 1}]),
        "no name": ([called(entry({}, name=None)), done()], ["malformed"]),
        "ID without a function": ([called({"id": "x"}), done()], ["malformed"]),
    }
)


def test_call_is_complete_at_once_and_without_done_the_turn_is_cut() -> None:
    call = called(entry({"a": [1, None]}, index=0, id_="call_1"))
    calls, events = assemble([call, chunk(content="and n")])
    assert types(events)[0] == "tool_call_started"
    assert events[1] == ev.ToolArgsDelta("call_1", "write", '{"a":[1,null]}')
    assert types(events)[-3:] == ["tool_args_completed", "text_delta", "stream_failed"]
    cut = ev.StreamFailed("truncated", "the stream ended before the model did", retryable=True)
    assert (calls[0].verdict, calls[0].reinterpreted, events[-1]) == ("complete", None, cut)
    assert types(assemble([{**done(), "done": "no"}])[1]) == ["stream_failed"]


def test_thinking_ends_where_text_or_a_call_starts() -> None:
    thoughts = [chunk(thinking="h"), chunk(thinking="m"), chunk(content="so"), chunk(thinking="no")]
    _, events = assemble([*thoughts, called(entry({})), chunk(content="there"), done()])
    assert events[:4] == [
        *(ev.ThinkingStarted(0), ev.ThinkingDelta("h", 0), ev.ThinkingDelta("m", 0)),
        ev.ThinkingCompleted("hm", 0),
    ]
    assert events[4:7] == [ev.TextDelta("so", 1), ev.ThinkingStarted(2), ev.ThinkingDelta("no", 2)]
    assert types(events)[7:9] == ["thinking_completed", "tool_call_started"]
    assert ev.TextDelta("there", 3) in events


def test_end_has_the_model_the_reason_and_the_usage() -> None:
    event = completed([chunk(images=["aW1hZ2U="]), done()])
    assert event.message.parts == (OpaquePart(item={"images": ["aW1hZ2U="]}),)
    assert (event.stop_reason, event.message.model) == ("stop", "qwen")
    assert event.usage == ev.Usage(input_tokens=7, output_tokens=5)
    assert len(turns(assemble([done(), called(A), done()])[1])) == 2
    found = types(assemble([done(content="so", tool_calls=[A])])[1])[:2]
    assert found == ["text_delta", "tool_call_started"]


test_error_truncates_the_call = READER.test_failures(
    [called(entry('{"a":1}'))],
    [
        ({"error": "model has stopped"}, provider_failed("error", "model has stopped")),
        ({"error": {"message": "no"}}, provider_failed("error", "no")),
    ],
)

test_unreadable_payload_truncates_the_call = READER.test_unreadable(
    [called(entry('{"a":1}'))],
    [
        *({"message": "x", "done": False}, chunk(content=1), chunk(tool_calls={"function": {}})),
        *(chunk(tool_calls=[1]), chunk(tool_calls=[{"function": "x"}])),
        called(entry({}, name=1)),  # type: ignore[arg-type]
        *(called(entry(["a"])), called(entry(1)), b"[]", b"{"),
        b'{"message":{"tool_calls":[{"function":{"name":"x","arguments":{"a":1,"a":2}}}]}}',
    ],
    [done()],
)


def test_objects_of_the_sdk_give_the_same_events() -> None:
    """The SDK keeps only the name and the arguments of a call."""
    sdk = import_module("ollama")
    calls = [called(entry({"a": {"b": [1]}})), called(entry({}))]
    payloads = [chunk(thinking="hm"), chunk(content="so"), *calls, done()]
    objects = [sdk.ChatResponse(**payload) for payload in payloads]
    assert assemble(objects)[1] == assemble(payloads)[1]
