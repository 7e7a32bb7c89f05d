"""What a reader gives, when, and what it says when there is nothing to give."""

import json
import threading
import traceback
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import stream
from argstream.errors import ArgumentUnavailable, StreamFailure, UsageError
from argstream.events import TextDelta
from argstream.testing import cut
from tests.provider_streams import (
    FUNCTION_CALL,
    anthropic_call,
    arguments_delta,
    arguments_done,
    block_start,
    block_stop,
    chat_call,
    input_json,
    item_added,
    message_end,
    message_start,
    response_created,
    response_ended,
    tool_use,
    types,
)
from tests.strategies import cuts
from tests.streaming.faces import AsyncFace, Face, Reader, SyncFace

Open = Callable[..., Face]


@pytest.fixture(params=["sync", "async"])
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a stream of these items, sync and async."""
    faces: list[AsyncFace] = []

    def open_(items: list[Any], error: Exception | None = None) -> Face:
        if request.param == "sync":
            return SyncFace(items, error)
        faces.append(AsyncFace(items, error))
        return faces[-1]

    yield open_
    for face in faces:
        face.end()


def first(face: Face) -> Reader:
    return next(iter(face.live_calls()))


def unavailable(ask: Callable[[], object]) -> ArgumentUnavailable:
    with pytest.raises(ArgumentUnavailable) as raised:
        ask()
    return raised.value


# One argument


def test_an_argument_is_given_as_soon_as_it_is_settled(opened: Open) -> None:
    face = opened(anthropic_call('{"path": "a', '.py"', ', "content": "x', 'y"}'))
    call = first(face)
    assert (call.name, call.verdict, face.source.given) == ("write", "open", 2)
    assert (call.argument("path"), face.source.given) == ("a.py", 4)
    assert call.verdict == "open"


def test_an_argument_can_be_required_to_have_a_type(opened: Open) -> None:
    call = first(
        opened(anthropic_call('{"s": "x", "i": 1, "f": 1.5, "b": true, "o": {}, "l": []}'))
    )
    assert call.argument("s", type=str) == "x"
    assert call.argument("i", type=int) == call.argument("i", type=float) == 1
    assert call.argument("b", type=bool) is True
    assert call.argument("o", type=dict) == {}
    assert call.argument("l", type=list) == []
    for key, type_, told in [
        ("i", str, "'i' of 'write' is a number, not of type str"),
        ("b", int, "'b' of 'write' is a boolean, not of type int"),
        ("f", int, "'f' of 'write' is a number, not of type int"),
        ("s", list, "'s' of 'write' is a string, not of type list"),
    ]:
        assert str(unavailable(partial(call.argument, key, type=type_))) == told


# The text of one


def test_text_is_given_as_it_grows_and_ends_with_its_quote(opened: Open) -> None:
    face = opened(anthropic_call('{"content": "de', "f f", '():", "mode"', ": 1}"))
    call = first(face)
    pieces = call.text("content")
    assert (next(pieces), face.source.given) == ("de", 3)
    assert (next(pieces), face.source.given) == ("f f", 4)
    assert list(pieces) == ["():"]
    assert (call.verdict, face.source.given) == ("open", 5)
    assert list(pieces) == []


def test_a_late_or_slow_reader_gets_all_that_has_come_in_one_piece(opened: Open) -> None:
    call = first(opened(anthropic_call('{"a": "x', "y", "z", '", "b": "1', "2", '3", "c": 0}')))
    slow = call.text("a")
    assert next(slow) == "x"
    assert call.argument("b") == "123"
    assert list(slow) == ["yz"]
    assert list(call.text("b")) == ["123"]


def test_text_of_what_is_no_string_says_what_it_is(opened: Open) -> None:
    call = first(opened(anthropic_call('{"a": 1, "b": {"c', '": 1}, "z": "', '"}')))
    assert "'a' of 'write' is a number, not a string" in str(unavailable(lambda: [*call.text("a")]))
    assert "'b' of 'write' is an object" in str(unavailable(lambda: [*call.text("b")]))
    assert call.verdict == "open"


# The items of one


def test_items_are_given_as_each_is_whole(opened: Open) -> None:
    face = opened(
        anthropic_call(
            '{"e": [{"a": 1', '}, {"a"', ': [2, {"b": 3', "}]}, 7", "]", ', "z": "', '"}'
        )
    )
    call = first(face)
    items = call.items("e")
    assert (next(items), face.source.given) == ({"a": 1}, 4)
    assert (next(items), face.source.given) == ({"a": [2, {"b": 3}]}, 6)
    assert (next(items), face.source.given) == (7, 7)  # a number ends with what follows it
    assert list(items) == []
    assert call.verdict == "open"


def test_an_item_is_whole_with_its_last_character(opened: Open) -> None:
    face = opened(anthropic_call('{"e": ["a"', ", {}", ", [", "]", "]}"))
    items = first(face).items("e")
    assert [(item, face.source.given) for item in items] == [("a", 3), ({}, 4), ([], 6)]


def test_items_of_what_is_no_array_says_what_it_is(opened: Open) -> None:
    call = first(opened(anthropic_call('{"edits": {"0": 1, ', '"1": 2}, "b": 1', "}")))
    told = str(unavailable(lambda: list(call.items("edits"))))
    assert told == "'edits' of 'write' is an object, not an array"
    assert call.verdict == "open"


# All of them


def test_all_arguments_come_when_the_provider_has_closed_the_call(opened: Open) -> None:
    face = opened(anthropic_call('{"a": 1}'))
    call = first(face)
    assert call.argument("a") == 1
    assert (call.verdict, face.source.given) == ("open", 3)
    assert call.arguments() == {"a": 1}
    assert (call.verdict, face.source.given) == ("complete", 4)


def test_a_call_without_arguments_has_none(opened: Open) -> None:
    call = first(opened(anthropic_call()))
    assert "'a' of 'write' did not come: it has nothing in it" in str(
        unavailable(lambda: call.argument("a"))
    )
    assert call.arguments() == {}


# What does not come


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (("mode",), "'mode' of 'write' did not come: it has 'path', 'edits'"),
        (("edits", 2), "'edits', 2 of 'write' did not come: 'edits' has 1 item"),
        (("edits", 0, "z"), "'edits', 0, 'z' of 'write' did not come: 'edits', 0 has 'a'"),
        (("path", "x"), "'path', 'x' of 'write' did not come: 'path' is a string"),
        (("path", 0), "'path', 0 of 'write' did not come: 'path' is a string"),
        (("edits", "a"), "'edits', 'a' of 'write' did not come: 'edits' has 1 item"),
        ((0,), "0 of 'write' did not come: it has 'path', 'edits'"),
    ],
)
def test_what_never_comes_is_told_with_what_did(opened: Open, path: Any, told: str) -> None:
    call = first(opened(anthropic_call('{"path": "p", "edits": [{"a": 1}]}')))
    error = unavailable(lambda: call.argument(*path))
    assert (str(error), error.path) == (told, path)
    assert str(unavailable(lambda: list(call.text(*path)))) == told
    assert str(unavailable(lambda: list(call.items(*path)))) == told


@pytest.mark.parametrize(
    ("path", "given"),
    [(("o", "x"), 4), (("o", "a", "x"), 4), (("l", 1), 5), (("s", "x"), 5), (("o", 0), 3)],
)
def test_what_cannot_come_any_more_is_told_at_once(opened: Open, path: Any, given: int) -> None:
    face = opened(anthropic_call('{"o": {"a": 1', '}, "l": [0', '], "s": "s', '", "z": "', '"}'))
    call = first(face)
    error = unavailable(lambda: call.argument(*path))
    assert (error.verdict, face.source.given) == ("open", given)
    assert call.argument("z") == ""


def test_many_or_long_keys_are_told_in_short(opened: Open) -> None:
    found = {"k" * 500: 1, **{f"k{n}": n for n in range(50)}}
    call = first(opened(anthropic_call(json.dumps(found))))
    told = str(unavailable(lambda: call.argument("x")))
    assert "'k0', 'k1'" in told
    assert told.endswith(" and 31 more")
    assert len(told) < 400


def test_keys_cannot_act_on_a_terminal(opened: Open) -> None:
    call = first(opened(anthropic_call(json.dumps({"\x1b[2J\u202e": 1}))))
    assert "'\\x1b[2J\\u202e'" in str(unavailable(lambda: call.argument("x")))


# Calls that are not complete


CUT = anthropic_call(
    '{"path": "a.py", "n": [1, 2', ', 3], "content": "impo', stop_reason="max_tokens"
)[:-3] + message_end("max_tokens")


def test_of_a_cut_call_what_was_settled_can_be_had(opened: Open) -> None:
    call = first(opened(CUT))
    error = unavailable(call.arguments)
    assert (error.verdict, error.path) == ("truncated", ())
    assert error.error == call.error
    assert str(error) == (
        "the arguments of 'write' are not complete: the call is truncated (the turn was cut off "
        "(max_tokens)); it has 'path', 'n', 'content'"
    )
    assert call.argument("path") == "a.py"
    assert list(call.items("n")) == [1, 2, 3]
    for path, told in [
        ("content", "'content' of 'write' is not whole: the call is truncated (the turn was cut"),
        ("mode", "'mode' of 'write' did not come: the call is truncated (the turn was cut off"),
    ]:
        error = unavailable(partial(call.argument, path))
        assert str(error).startswith(told)
        assert error.error.reason == "truncated"


def test_a_cut_text_is_never_taken_for_whole(opened: Open) -> None:
    call = first(opened(CUT))
    pieces = call.text("content")
    assert next(pieces) == "impo"
    assert unavailable(lambda: next(pieces)).verdict == "truncated"
    late = call.text("content")
    assert next(late) == "impo"
    assert unavailable(lambda: next(late)).verdict == "truncated"


def test_a_cut_array_is_never_taken_for_whole(opened: Open) -> None:
    payloads = [*anthropic_call('{"a": [1, {"b": 2}, {"c": ', "3")[:-3], *message_end("max_tokens")]
    call = first(opened(payloads))
    items = call.items("a")
    assert [next(items), next(items)] == [1, {"b": 2}]
    assert unavailable(lambda: next(items)).verdict == "truncated"
    assert unavailable(lambda: call.argument("a")).verdict == "truncated"


def test_a_malformed_call_is_told_at_its_first_bad_character(opened: Open) -> None:
    face = opened(anthropic_call('{"path": "a", "mode": 07', '55, "z": 1}'))
    call = first(face)
    error = unavailable(lambda: call.argument("z"))
    assert (error.verdict, error.error.reason, face.source.given) == ("malformed", "bad_number", 3)
    assert "cannot be part of a number" in str(error)
    assert call.argument("path") == "a"


@pytest.mark.parametrize(
    "text",
    [
        '{"e": [1, 1e999, 3], "b": [1e999], "o": {"k": "v',
        '{"e": [1, 1e999], "o": [1, 2, 3, "x',
        '{"e": [1, 1e999], "o": {"k": 1}}',
    ],
)
def test_a_number_too_large_to_send_back_is_not_settled_nor_what_follows(
    opened: Open, text: str
) -> None:
    call = first(opened(anthropic_call(text)))
    items = call.items("e")
    assert next(items) == 1
    for ask in (lambda: next(items), partial(call.argument, "e", 1), partial(call.argument, "b")):
        assert unavailable(ask).verdict == "malformed"
    assert unavailable(partial(call.argument, "o")).verdict == "malformed"
    assert call.argument("e", 0) == 1


def test_a_key_that_comes_twice_takes_nothing_back(opened: Open) -> None:
    call = first(opened(anthropic_call('{"a": {"x": 1}, "l": [2', '], "b": 2,', ' "a": 3}')))
    assert call.argument("a") == {"x": 1}
    assert unavailable(call.arguments).error.reason == "duplicate_key"
    assert [call.argument("a"), call.argument("a", "x"), call.argument("l")] == [{"x": 1}, 1, [2]]


def test_a_stream_that_was_closed_says_so_and_still_has_what_was_settled(opened: Open) -> None:
    face = opened(anthropic_call('{"path": "a", "content": "x', 'y"}'))
    call = first(face)
    assert call.argument("path") == "a"
    face.close()
    assert call.argument("path") == "a"
    error = unavailable(lambda: call.argument("content"))
    assert str(error) == (
        "'content' of 'write' is not whole: the call is aborted (reading was stopped)"
    )
    pieces = call.text("content")
    assert next(pieces) == "x"
    assert unavailable(lambda: next(pieces)).verdict == "aborted"
    assert unavailable(call.arguments).verdict == "aborted"
    assert face.source.closed
    assert len(list(face.live_calls())) == 1


def test_what_a_source_says_to_being_closed_changes_no_verdict() -> None:
    class Unclosable:
        def __enter__(self) -> list[Any]:
            return anthropic_call('{"a": 1}')

        def __exit__(self, *_: object) -> None:
            raise OSError("cannot be closed")

    for read in (lambda events: next(events.live_calls()), next):
        events = stream(Unclosable())
        read(events)
        with pytest.raises(OSError, match="cannot be closed"):
            events.close()
        assert [call.verdict for call in events.calls] == ["aborted"]


def test_an_exception_of_the_source_is_raised_unchanged(opened: Open) -> None:
    """Invariant 9: to whoever misses something because of it, and no one else."""
    failure = ConnectionResetError("gone")
    bad = [message_start(), tool_use(0, id_="t0"), input_json(0, '{"a": x')]
    good = [tool_use(1, id_="t1"), input_json(1, '{"path": "p", "content": "impo')]
    face = opened([*bad, *good], failure)
    calls = face.live_calls()
    malformed, call = next(calls), next(calls)
    assert call.argument("path") == "p"
    pieces = call.text("content")
    assert next(pieces) == "impo"
    for ask in (
        lambda: next(pieces),
        lambda: call.argument("content"),
        lambda: call.argument("other"),
        call.arguments,
        lambda: next(calls),
        lambda: list(face.events()),
    ):
        with pytest.raises(ConnectionResetError) as raised:
            ask()
        assert raised.value is failure
    assert call.verdict == "truncated"
    assert call.argument("path") == "p"
    assert unavailable(malformed.arguments).verdict == "malformed"
    assert face.source.closed


def test_a_failure_has_one_traceback_however_often_it_is_told(opened: Open) -> None:
    call = first(opened(anthropic_call('{"a": "x')[:3], ConnectionResetError("gone")))
    told = [traceback_of(lambda: call.argument("a")) for _ in range(5)]
    assert len({len(entries) for entries in told[1:]}) == 1
    assert told[-1][-1].name == "__iter__"  # where it happened


def traceback_of(ask: Callable[[], object]) -> traceback.StackSummary:
    with pytest.raises(ConnectionResetError) as raised:
        ask()
    return traceback.extract_tb(raised.tb)


# A stream that fails


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def test_a_stream_that_fails_before_any_call_is_told(opened: Open) -> None:
    for items, told in [
        ([OVERLOADED], ("overloaded_error", "Overloaded", True)),
        ([], ("empty", "the stream ended before a message began", True)),
        ([message_start()], ("truncated", "the stream ended before the model did", True)),
    ]:
        face = opened(items)
        for _ in range(2):
            with pytest.raises(StreamFailure) as raised:
                list(face.live_calls())
            error = raised.value
            assert (error.code, error.message, error.retryable) == told
            assert str(error) == f"{told[1]} ({told[0]})"


def test_a_stream_that_fails_gives_its_calls_first(opened: Open) -> None:
    """Each says itself how far it came."""
    complete = anthropic_call('{"a": 1}')[:4]
    cut_off = [tool_use(1, id_="t1"), input_json(1, '{"a": 1, "b": ')]
    calls = opened([*complete, *cut_off, OVERLOADED]).live_calls()
    one, other = next(calls), next(calls)
    assert [one.arguments(), other.argument("a")] == [{"a": 1}, 1]
    assert "Overloaded" in str(unavailable(other.arguments))
    with pytest.raises(StreamFailure, match="Overloaded"):
        next(calls)


def agent(*, is_error: bool) -> dict[str, Any]:
    """What an agent of Claude says at the end of its run."""
    result = {"type": "result", "subtype": "success", "is_error": is_error, "result": "said"}
    return {**result, "session_id": "s", "usage": {}, "num_turns": 1}


def test_an_agent_that_gives_up_is_told_and_one_that_tried_again_is_not(opened: Open) -> None:
    wrapper = {"type": "stream_event", "session_id": "s", "parent_tool_use_id": None}
    failed = {**wrapper, "event": OVERLOADED}
    with pytest.raises(StreamFailure, match="said"):
        list(opened([agent(is_error=True)]).live_calls())
    assert list(opened([failed, agent(is_error=False)]).live_calls()) == []
    with pytest.raises(StreamFailure, match="Overloaded"):
        list(opened([failed, agent(is_error=True)]).live_calls())


def test_a_failure_that_a_loop_was_told_is_not_told_again(opened: Open) -> None:
    face = opened([OVERLOADED])
    assert types(face.events()) == ["stream_failed"]
    assert list(face.live_calls()) == []


# Calls that were not what they seemed


def test_while_a_text_may_be_meant_in_another_way_nothing_is_settled(opened: Open) -> None:
    """Each piece repeats all before it: read as it stands, the text of the first would go on."""
    last = '{"path": "a.py", "content": "import os", "edits": ["im", 1]}'
    pieces = ['{"path": "a.py", "content": "im', last[:-9], last]
    call = first(opened(chat_call(*pieces)))
    assert call.argument("path") == "a.py"
    assert list(call.text("content")) == ["im", "port os"]
    assert call.verdict == "complete"
    assert first(opened(chat_call(*pieces))).argument("content") == "import os"
    assert first(opened(chat_call(*pieces))).argument("edits", 1) == 1
    assert list(first(opened(chat_call(*pieces))).items("edits")) == ["im", 1]
    call = first(opened(chat_call('{"e": ["im', '{"e": ["import", 1]}')))
    assert list(call.items("e")) == ["import", 1]


def test_a_call_in_doubt_says_so_and_shows_nothing_that_was_misread() -> None:
    pieces = ['{"path": "a.py", "content": "im', '{"path": "a.py", "content": "import']
    events = stream(chat_call(*pieces, finish="length"))
    states = []
    for event in events:
        if event.type == "tool_args_delta":
            call = events.calls[0]
            states.append((call.in_doubt, call.path, call.partial["content"]))
    assert states == [(False, ("content",), "im"), (True, ("content",), "im")]
    assert [(call.in_doubt, call.verdict) for call in events.calls] == [(False, "truncated")]


def test_what_was_misread_is_not_given_when_the_call_is_cut_off(opened: Open) -> None:
    pieces = ['{"path": "a.py", "content": "im', '{"path": "a.py", "content": "import']
    call = first(opened(chat_call(*pieces, finish="length")))
    content = call.text("content")
    assert next(content) == "im"
    assert unavailable(lambda: next(content)).verdict == "truncated"
    assert unavailable(lambda: call.argument("content")).verdict == "truncated"
    assert call.argument("path") == "a.py"


def leaves(*leaves: tuple[str, Any], finish: str = "STOP") -> list[Any]:
    """A call of Gemini, leaf by leaf; a string that goes on ends with …"""

    def chunk(parts: list[Any], **more: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **more}]}

    def leaf(path: str, value: Any) -> dict[str, Any]:
        if isinstance(value, str):
            more = {"willContinue": True} if value.endswith("…") else {}
            return {"jsonPath": path, "stringValue": value.removesuffix("…"), **more}
        return {"jsonPath": path, "numberValue": value}

    pieces = [
        {"name": "write", "id": "g1", "willContinue": True},
        *({"partialArgs": [leaf(*found)], "willContinue": True} for found in leaves),
        *([{}] if finish == "STOP" else []),
    ]
    return [*(chunk([{"functionCall": piece}]) for piece in pieces), chunk([], finishReason=finish)]


def test_a_container_that_comes_in_leaves_may_get_more_until_the_end(opened: Open) -> None:
    sent = leaves(("$.a.x", 1), ("$.e[0]", 7), ("$.b", "t"), ("$.a.y", 2), ("$.e[1]", 8))
    face = opened(sent)
    call = first(face)
    assert (call.argument("a", "x"), call.verdict) == (1, "open")
    items = call.items("e")
    assert (next(items), call.verdict) == (7, "open")
    assert (call.argument("b"), call.verdict) == ("t", "open")
    assert call.argument("a", "y") == 2
    assert list(items) == [8]
    for path, value in [(("a",), {"x": 1, "y": 2}), (("e",), [7, 8]), (("e", 1), 8)]:
        assert first(opened(sent)).argument(*path) == value
    assert unavailable(lambda: first(opened(sent)).argument("a", "z")).verdict == "complete"


def test_a_string_that_was_left_open_may_get_more_until_the_end(opened: Open) -> None:
    sent = leaves(("$.s", "he…"), ("$.n", 1), ("$.s", "llo"))
    assert first(opened(sent)).argument("s") == "hello"
    assert list(first(opened(sent)).text("s")) == ["he", "llo"]
    cut_off = first(opened(leaves(("$.s", "he…"), ("$.n", 1), finish="MAX_TOKENS")))
    assert unavailable(lambda: cut_off.argument("s")).verdict == "truncated"


def test_leaves_that_contradict_each_other_take_nothing_back(opened: Open) -> None:
    call = first(opened(leaves(("$.e[0]", 1), ("$.b.c", "he…"), ("$.e[0]", 2))))
    items = call.items("e")
    assert next(items) == 1
    assert unavailable(lambda: next(items)).verdict == "malformed"
    assert call.argument("e", 0) == 1


def test_an_argument_that_only_the_last_word_has_is_found(opened: Open) -> None:
    inner = json.dumps({"a": [1], "b": "text"})
    for payloads in (
        chat_call(*cut(json.dumps(inner), [3])),  # encoded twice
        chat_call("{}", *cut(inner, [5])),  # an empty object first
        chat_call(inner, inner),  # all of it again
    ):
        call = first(opened(payloads))
        assert call.argument("a", 0) == 1
        assert "".join(call.text("b")) == "text"
        assert list(call.items("a")) == [1]
        assert call.arguments() == {"a": [1], "b": "text"}


def restated(*pieces: str, last: str) -> list[Any]:
    return [
        response_created(),
        item_added(0, **FUNCTION_CALL),
        *(arguments_delta(0, piece) for piece in pieces),
        arguments_done(0, last),
        response_ended(),
    ]


def test_text_goes_on_in_the_last_word_if_it_fits(opened: Open) -> None:
    call = first(opened(restated('{"a": "x', "y", last='{"a":"xyz","b":[1]}')))
    assert list(call.text("a")) == ["x", "y", "z"]
    assert call.argument("b") == [1]


def test_text_that_the_last_word_contradicts_is_told(opened: Open) -> None:
    call = first(opened(restated('{"a": "x', "y", last='{"a":"other"}')))
    pieces = call.text("a")
    assert [next(pieces), next(pieces)] == ["x", "y"]
    told = str(unavailable(lambda: next(pieces)))
    assert "is not what was read while it came" in told
    assert "restated" in told
    assert call.argument("a") == "other"
    assert list(call.text("a")) == ["other"]
    gone = first(opened(restated('{"a": "x', last='{"b": 1}'))).text("a")
    assert next(gone) == "x"
    assert "restated" in str(unavailable(lambda: next(gone)))


def test_items_that_the_last_word_contradicts_are_told(opened: Open) -> None:
    for last, told in [('{"a":[1,2,3]}', False), ('{"a":[true,2]}', True), ('{"a":{}}', True)]:
        call = first(opened(restated('{"a": [1, ', "2", last=last)))
        items = call.items("a")
        assert next(items) == 1
        if told:
            assert "restated" in str(unavailable(partial(list, items)))
        else:
            assert list(items) == [2, 3]


# Free text


def free_text(last: str = "select") -> list[Any]:
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "c1", "name": "sql", "input": ""}
    delta = {"type": "response.custom_tool_call_input.delta", "output_index": 0}
    done = {"type": "response.custom_tool_call_input.done", "output_index": 0, "input": last}
    pieces = [{**delta, "delta": "sel"}, {**delta, "delta": "ect"}]
    return [response_created(), item_added(0, **item), *pieces, done, response_ended()]


def test_free_text_is_read_without_a_path(opened: Open) -> None:
    call = first(opened(free_text()))
    pieces = call.text()
    assert (next(pieces), call.verdict) == ("sel", "open")
    assert list(pieces) == ["ect"]
    assert (call.verdict, call.arguments()) == ("complete", "select")
    assert list(call.text()) == ["select"]


def test_free_text_that_is_cut_or_contradicted_is_told(opened: Open) -> None:
    call = first(opened(free_text()[:4]))
    pieces = call.text()
    assert [next(pieces), next(pieces)] == ["sel", "ect"]
    assert unavailable(lambda: next(pieces)).verdict == "truncated"
    call = first(opened(free_text("delete")))
    pieces = call.text()
    assert [next(pieces), next(pieces)] == ["sel", "ect"]
    assert "the text of 'sql' is not what was read" in str(unavailable(lambda: next(pieces)))
    assert call.arguments() == "delete"


# Wrong use


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ((), r'needs a path, key by key: {}\("edits", 0, "path"\)'),
        (("a", -1), "index -1 counts from an end that has not come"),
        (("a", True), r"keys \(str\) and indexes \(int\), not True"),
        (("a", 1.0), "not 1.0"),
        ((("a", 0),), r"not \('a', 0\)"),
    ],
)
def test_a_path_that_cannot_be_meant_is_refused_at_once(opened: Open, path: Any, told: str) -> None:
    face = opened(anthropic_call('{"a": [1]}'))
    call = first(face)
    for method in ("argument", "text", "items"):
        with pytest.raises(UsageError, match=told.replace("{}", method)):
            getattr(call, method)(*path)
    assert face.source.given == 2


def test_what_cannot_be_a_type_is_refused(opened: Open) -> None:
    call = first(opened(anthropic_call('{"a": "x"}')))
    with pytest.raises(UsageError, match="one of str, int, float, bool, dict, list"):
        call.argument("a", type=Path)


def test_free_text_has_no_arguments(opened: Open) -> None:
    call = first(opened(free_text()))
    for method in (call.argument, call.text, call.items):
        with pytest.raises(UsageError, match="'sql' has free text and no arguments: use text"):
            method("query")


def test_a_call_that_nobody_made_is_refused(opened: Open) -> None:
    face = opened(anthropic_call())
    with pytest.raises(UsageError, match="no call 'c' has started; there are: none"):
        face.live_call("c")
    next(iter(face.live_calls()))
    with pytest.raises(UsageError, match="there are: 'toolu_1'"):
        face.live_call("c")


def test_one_thread_does_not_spoil_what_another_reads() -> None:
    started, go_on = threading.Event(), threading.Event()

    def source() -> Iterator[Any]:
        yield from anthropic_call('{"a": 1, ')[:3]
        started.set()
        assert go_on.wait(5)
        yield from anthropic_call('"b": 2}')[2:]

    events = stream(source())
    call = next(events.live_calls())
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call.argument("b")))
    thread.start()
    assert started.wait(5)
    for ask in (lambda: call.argument("b"), lambda: next(events)):
        with pytest.raises(UsageError, match="another thread fetches: read a stream in one thread"):
            ask()
    go_on.set()
    thread.join()
    assert found == [2]
    assert call.arguments() == {"a": 1, "b": 2}


# Several calls, and events besides


TWO = [
    message_start(),
    block_start(0, "text", text="I will."),
    block_stop(0),
    tool_use(1, "read", id_="r"),
    input_json(1, '{"path": "a'),
    tool_use(2, "write", id_="w"),
    input_json(2, '{"path": "b", "content": "x'),
    input_json(1, '.py"}'),
    block_stop(1),
    input_json(2, 'y"}'),
    block_stop(2),
    *message_end(),
]


def test_calls_come_as_they_start_read_or_not(opened: Open) -> None:
    face = opened(TWO)
    calls = face.live_calls()
    assert (next(calls).name, face.source.given) == ("read", 4)
    assert (next(calls).name, face.source.given) == ("write", 6)
    assert list(calls) == []
    assert [call.name for call in face.live_calls()] == ["read", "write"]


def test_two_calls_with_one_id_are_not_mixed_up(opened: Open) -> None:
    """In the turns of two agents: their events cannot be told apart, but the calls can."""
    turn = [message_start("m2"), tool_use(0, id_="toolu_1"), input_json(0, '{"b": "y')]
    first_turn = anthropic_call('{"a": "x", "b": "')[:3]
    inner = [{**payload, "parent_tool_use_id": "p"} for payload in turn]
    wrapped = [
        {"type": "stream_event", "event": payload, "parent_tool_use_id": parent, "session_id": "s"}
        for payloads, parent in ((first_turn, None), (inner, "p"))
        for payload in payloads
    ]
    wrapped.append(
        {
            "type": "stream_event",
            "event": input_json(0, 'more", "c": 1'),
            "parent_tool_use_id": None,
            "session_id": "s",
        }
    )
    calls = opened(wrapped).live_calls()
    one, other = next(calls), next(calls)
    assert one.argument("b") == "more"
    assert unavailable(lambda: other.argument("b")).verdict == "truncated"


def test_a_loop_gets_every_event_also_those_that_a_reader_fetched(opened: Open) -> None:
    expected = list(opened(TWO).events())
    face = opened(TWO)
    seen, read = [], []
    for event in face.events():
        seen.append(event)
        if event.type == "tool_call_started":
            call = face.live_call(event.call_id)
            read.append((call.name, call.argument("path"), call.verdict))
    assert seen == expected
    assert read == [("read", "a.py", "open"), ("write", "b", "open")]


def test_closing_a_generator_that_hands_the_events_on_closes_the_stream() -> None:
    face = SyncFace(TWO)

    def handed_on() -> Generator[Any, None, None]:
        yield from face.events()

    events = handed_on()
    next(event for event in events if event.type == "tool_call_started")
    call = face.live_call("r")
    events.close()
    assert face.source.closed
    assert unavailable(lambda: call.argument("path")).verdict == "aborted"


def test_a_loop_that_was_left_can_be_taken_up_again(opened: Open) -> None:
    expected = list(opened(TWO).events())
    face = opened(TWO)
    seen = []
    for event in face.events():
        seen.append(event)
        if event.type == "tool_call_started":
            break
    face.live_call("r").arguments()
    assert [*seen, *face.events()] == expected


def test_events_from_before_the_loop_are_not_kept(opened: Open) -> None:
    face = opened(TWO)
    assert next(face.live_calls()).name == "read"
    assert [event for event in face.events() if isinstance(event, TextDelta)] == []


def test_a_reader_that_is_made_late_knows_what_was_settled(opened: Open) -> None:
    face = opened(anthropic_call('{"path": "a", "content": "x', "y", 'z"}'))
    for event in face.events():
        if event.type == "argument_delta" and event.path == ("content",):
            break
    call = face.live_call("toolu_1")
    assert call.argument("path") == "a"
    assert list(call.text("content"))[:1] == ["x"]
    assert call.argument("content") == "xyz"


# However it is cut


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if path:
        yield path, value
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            yield from paths(inner, (*path, key))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), values, max_size=4), cuts, st.data())
def test_every_path_gives_its_value_however_the_text_is_cut(
    arguments: dict[str, Any], sizes: list[int], data: st.DataObject
) -> None:
    text = json.dumps(arguments, ensure_ascii=data.draw(st.booleans()))
    call = first(SyncFace(anthropic_call(*cut(text, sizes))))
    for path, value in data.draw(st.permutations(list(paths(arguments)))):
        readings = ["argument"]
        readings += ["text"] if isinstance(value, str) else []
        readings += ["items"] if isinstance(value, list) else []
        match data.draw(st.sampled_from(readings)):
            case "argument":
                assert call.argument(*path) == value
            case "text":
                assert "".join(call.text(*path)) == value
            case _:
                assert list(call.items(*path)) == value
    assert call.arguments() == arguments


@given(st.dictionaries(st.text(max_size=3), values, min_size=1, max_size=4), cuts, st.data())
def test_of_a_call_that_is_cut_anywhere_nothing_false_is_given(
    arguments: dict[str, Any], sizes: list[int], data: st.DataObject
) -> None:
    text = json.dumps(arguments)
    text = text[: data.draw(st.integers(0, len(text) - 1))]
    payloads = [*anthropic_call(*cut(text, sizes))[:-3], *message_end("max_tokens")]
    call = first(SyncFace(payloads))
    for path, value in paths(arguments):
        try:
            assert call.argument(*path) == value
        except ArgumentUnavailable as error:
            assert error.verdict == "truncated"  # noqa: PT017 - either is right
    assert unavailable(call.arguments).verdict == "truncated"
