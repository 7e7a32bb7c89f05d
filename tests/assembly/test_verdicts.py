"""Invariants 8 to 10: every call ends with a true verdict, and nothing else makes it complete."""

from typing import Any

import pytest

from argstream.assembly import Assembler
from argstream.events import StreamFailed, ToolArgsInvalid
from tests import provider_streams as api
from tests.provider_streams import anthropic_call, assemble, fed, of_type, only_call, types

every_turn = pytest.mark.parametrize("turn", [anthropic_call, api.chat_call, api.responses_call])


@every_turn
def test_malformed_call_is_invalid_at_its_first_bad_character(turn: Any) -> None:
    calls, events = assemble(turn('{"a": 0', "1", ', "b": 2}'))
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert (invalid.verdict, invalid.raw) == ("malformed", '{"a": 01')
    error = invalid.error
    assert (error.reason, error.offset, error.path) == ("bad_number", 7, ("a",))
    # What comes later is kept for the record, but makes no events.
    assert calls[0].raw == '{"a": 01, "b": 2}'
    assert calls[0].arguments == {"INVALID_JSON": '{"a": 01, "b": 2}'}
    assert types(events[events.index(invalid) + 1 :]) == ["turn_completed"]


@pytest.mark.parametrize("text", ['["x", {"a": 1}]', "1", "true", "-"])
@every_turn
def test_arguments_that_are_no_object_are_malformed_at_once(turn: Any, text: str) -> None:
    _, events = assemble(turn(text))
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert (invalid.verdict, invalid.error.reason) == ("malformed", "not_an_object")
    expected = ["tool_call_started", "tool_args_delta", "tool_args_invalid", "turn_completed"]
    assert types(events) == expected


@pytest.mark.parametrize("text", ["[0, {}]", '{"a": 1e999, "b": "c"}'])
@every_turn
def test_text_that_may_repeat_the_space_before_it_has_the_same_events(turn: Any, text: str) -> None:
    """White space, then the same with more: the second piece may be the whole text again."""
    _, whole = assemble(turn("  " + text))
    _, events = assemble(turn(" ", " " + text))
    found = [name for name in types(events) if name != "tool_args_delta"]
    assert found == [name for name in types(whole) if name != "tool_args_delta"]
    assert of_type(events, ToolArgsInvalid) == of_type(whole, ToolArgsInvalid)


@every_turn
def test_closed_call_whose_text_is_cut_is_truncated(turn: Any) -> None:
    calls, events = assemble(turn('{"a": "b'))
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert (invalid.verdict, invalid.error.reason) == ("truncated", "truncated")
    assert (invalid.error.path, invalid.error.offset) == (("a",), 8)
    assert calls[0].arguments == {"INVALID_JSON": '{"a": "b'}


@every_turn
def test_white_space_counts_as_no_text(turn: Any) -> None:
    assert only_call(turn(" \n")).arguments == {}
    assert only_call(turn(' {"a":1}\n ')).arguments == {"a": 1}


@every_turn
def test_unreadable_payload_truncates_the_open_calls(turn: Any) -> None:
    """A piece may be missing, and the rest may even parse."""
    payloads: list[Any] = turn('{"path": "/srv', '/keep"}')
    first = next(n for n, payload in enumerate(payloads) if "/srv" in str(payload))
    payloads[first + 1] = b'{"broken'
    calls, events = assemble(payloads)
    assert calls[0].verdict == "truncated"
    assert [failed.code for failed in of_type(events, StreamFailed)] == ["bad_payload"]
    assert types(events)[-1] == "turn_completed"  # the rest goes on


@pytest.mark.parametrize(
    "payload", [b"[1]", b'"text"', b"null", b"\xff", b"", "x" * 5000, b"[" * 5000, 3, None, [1]]
)
def test_payload_that_is_no_object_fails_the_stream(payload: Any) -> None:
    """Invariant 9."""
    for protocol in ("auto", "anthropic", "openai-chat", "openai-responses", "bedrock-invoke"):
        assert types(assemble([payload], protocol=protocol)[1]) == ["stream_failed"]


def test_abort_ends_every_open_call() -> None:
    assembler = fed(anthropic_call('{"a":1}')[:3])
    (event,) = assembler.abort()
    assert isinstance(event, ToolArgsInvalid)
    assert event.verdict == assembler.calls[0].verdict == "aborted"
    assert assembler.close() == assembler.abort() == []


def test_call_shows_its_state_while_it_is_written() -> None:
    assembler = Assembler()
    seen: list[Any] = []
    for payload in anthropic_call('{"path": "/t', "mp", '"}'):
        assembler.feed(payload)
        seen += [(c.verdict, c.raw, repr(c.partial), c.arguments) for c in assembler.calls]
    done = ("complete", '{"path": "/tmp"}', "{'path': '/tmp'}", {"path": "/tmp"})
    assert seen == [
        ("open", "", "PENDING", None),
        ("open", '{"path": "/t', "{'path': '/t'}", None),
        ("open", '{"path": "/tmp', "{'path': '/tmp'}", None),
        ("open", '{"path": "/tmp"}', "{'path': '/tmp'}", None),
        *[done] * 3,
    ]
    assert repr(assembler.calls[0]) == "<Call 'write' toolu_1 complete, 16 characters>"


def test_failed_turn_has_verdicts_for_all_calls_and_does_not_complete() -> None:
    error = {"type": "error", "error": {"type": "api_error", "message": "oops"}}
    _, events = assemble([api.message_start(), api.tool_use(0), api.tool_use(1, id_="b"), error])
    assert types(events) == [
        *("tool_call_started", "tool_call_started", "tool_args_invalid", "tool_args_invalid"),
        "stream_failed",
    ]


def test_unknown_protocol_is_a_failure_that_shows_the_payload() -> None:
    (event,) = assemble([{"hello": "world"}, {"type": "nothing"}])[1]
    assert isinstance(event, StreamFailed)
    assert event.code == "unknown_protocol"
    assert "hello" in event.message
