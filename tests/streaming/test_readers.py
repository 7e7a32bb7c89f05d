"""Readers of single calls: which value they return, when, and the error if there is none."""

import json
import threading
import traceback
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import stream
from argstream.errors import ArgumentUnavailableError, StreamError, UsageError
from argstream.events import TextDelta
from argstream.testing import cut
from tests import provider_streams as api
from tests.provider_streams import anthropic_call, chat_call, types
from tests.providers import test_gemini as gemini
from tests.strategies import cuts, json_values
from tests.streaming.faces import Face

Open = Callable[..., Face]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a stream of these items, sync and async."""
    faces: list[Face] = []

    def open_(items: list[Any], error: Exception | None = None) -> Face:
        faces.append(Face(items, error, is_async=request.param))
        return faces[-1]

    yield open_
    for face in faces:
        face.end()


def first(face: Face) -> Any:
    return next(face.live_calls())


def unavailable(ask: Callable[[], object]) -> ArgumentUnavailableError:
    with pytest.raises(ArgumentUnavailableError) as raised:
        ask()
    return raised.value


def test_argument_is_returned_as_soon_as_it_is_settled(opened: Open) -> None:
    face = opened(anthropic_call('{"path": "a', '.py"', ', "content": "x', 'y"}'))
    call = first(face)
    assert (call.name, call.verdict, face.source.given) == ("write", "open", 2)
    assert (call.argument("path"), face.source.given) == ("a.py", 4)
    assert call.verdict == "open"


def test_argument_can_be_required_to_have_a_type(opened: Open) -> None:
    text = '{"s": "x", "i": 1, "f": 1.5, "b": true, "o": {}, "l": []}'
    call = first(opened(anthropic_call(text)))
    for key, type_, value in [
        *(("s", str, "x"), ("i", int, 1), ("i", float, 1), ("b", bool, True), ("o", dict, {})),
        ("l", list, []),
    ]:
        assert call.argument(key, type=type_) == value
    for key, type_, message in [
        ("i", str, "'i' of 'write' is a number, not of type str"),
        ("b", int, "'b' of 'write' is a boolean, not of type int"),
        ("f", int, "'f' of 'write' is a number, not of type int"),
        ("s", list, "'s' of 'write' is a string, not of type list"),
    ]:
        assert str(unavailable(partial(call.argument, key, type=type_))) == message
    with pytest.raises(UsageError, match="one of str, int, float, bool, dict, list"):
        call.argument("s", type=Path)


def test_text_is_yielded_as_it_grows_and_ends_with_its_quote(opened: Open) -> None:
    face = opened(anthropic_call('{"content": "de', "f f", '():", "mode"', ": 1}"))
    call = first(face)
    pieces = call.text("content")
    assert (next(pieces), face.source.given) == ("de", 3)
    assert (next(pieces), face.source.given) == ("f f", 4)
    assert list(pieces) == ["():"]
    assert (call.verdict, face.source.given) == ("open", 5)
    assert list(pieces) == []


def test_slow_reader_gets_all_that_has_come_in_one_piece(opened: Open) -> None:
    call = first(opened(anthropic_call('{"a": "x', "y", "z", '", "b": "1', "2", '3", "c": 0}')))
    slow = call.text("a")
    assert next(slow) == "x"
    assert call.argument("b") == "123"
    assert list(slow) == ["yz"]
    assert list(call.text("b")) == ["123"]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (['{"e": [{"a": 1', '}, {"a"', ': [2, {"b": 3', "}]}, 7", "]", ', "z": "', '"}'],
         [({"a": 1}, 4), ({"a": [2, {"b": 3}]}, 6), (7, 7)]),  # a number ends with what follows it
        (['{"e": ["a"', ", {}", ", [", "]", '], "z": "', '"}'], [("a", 3), ({}, 4), ([], 6)]),
    ],
)  # fmt: skip
def test_items_are_yielded_with_their_last_character(
    opened: Open, pieces: list[str], expected: list[Any]
) -> None:
    face = opened(anthropic_call(*pieces))
    call = first(face)
    assert [(item, face.source.given) for item in call.items("e")] == expected
    assert call.verdict == "open"


def test_all_arguments_come_when_the_provider_has_closed_the_call(opened: Open) -> None:
    face = opened(anthropic_call('{"a": 1}'))
    call = first(face)
    assert call.argument("a") == 1
    assert (call.verdict, face.source.given) == ("open", 3)
    assert call.arguments() == {"a": 1}
    assert (call.verdict, face.source.given) == ("complete", 4)


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("", ("a",), "'a' of 'write' is missing: the call has no arguments"),
        *(('{"path": "p", "edits": [{"a": 1}]}', path, message) for path, message in (
            (("mode",), "'mode' of 'write' is missing: the call has 'path', 'edits'"),
            (("edits", 2), "'edits', 2 of 'write' is missing: 'edits' has 1 item"),
            (("edits", 0, "z"), "'edits', 0, 'z' of 'write' is missing: 'edits', 0 has 'a'"),
            (("path", "x"), "'path', 'x' of 'write' is missing: 'path' is a string"),
            (("path", 0), "'path', 0 of 'write' is missing: 'path' is a string"),
            (("edits", "a"), "'edits', 'a' of 'write' is missing: 'edits' has 1 item"),
            ((0,), "0 of 'write' is missing: the call has 'path', 'edits'"))),
    ],
)  # fmt: skip
def test_missing_argument_is_reported_with_those_that_came(
    opened: Open, text: str, path: Any, message: str
) -> None:
    call = first(opened(anthropic_call(text) if text else anthropic_call()))
    error = unavailable(lambda: call.argument(*path))
    assert (str(error), error.path) == (message, path)
    assert str(unavailable(lambda: list(call.text(*path)))) == message
    assert str(unavailable(lambda: list(call.items(*path)))) == message
    assert call.arguments() == json.loads(text or "{}")


def test_argument_of_another_kind_is_reported_at_once(opened: Open) -> None:
    call = first(opened(anthropic_call('{"a": 1, "b": {"c', '": 1}, "d": {"0": 1}, "z": "', '"}')))
    for iterate, message in (
        (partial(call.text, "a"), "'a' of 'write' is a number, not a string"),
        (partial(call.text, "b"), "'b' of 'write' is an object, not a string"),
        (partial(call.items, "d"), "'d' of 'write' is an object, not an array"),
    ):
        assert str(unavailable(partial(lambda ask: list(ask()), iterate))) == message
    assert call.verdict == "open"


@pytest.mark.parametrize(
    ("path", "given"),
    [(("o", "x"), 4), (("o", "a", "x"), 4), (("l", 1), 5), (("s", "x"), 5), (("o", 0), 3)],
)
def test_argument_that_cannot_come_is_reported_at_once(opened: Open, path: Any, given: int) -> None:
    face = opened(anthropic_call('{"o": {"a": 1', '}, "l": [0', '], "s": "s', '", "z": "', '"}'))
    call = first(face)
    error = unavailable(lambda: call.argument(*path))
    assert (error.verdict, face.source.given) == ("open", given)
    assert call.argument("z") == ""


def test_keys_in_messages_are_shortened_and_sanitised(opened: Open) -> None:
    found = {"k" * 500: 1, "\x1b[2J\u202e": 1, **{f"k{n}": n for n in range(50)}}
    call = first(opened(anthropic_call(json.dumps(found))))
    message = str(unavailable(lambda: call.argument("x")))
    assert r"'\x1b[2J\u202e', 'k0', 'k1'" in message
    assert message.endswith(" and 32 more")
    assert len(message) < 400


def cut_off(*pieces: str) -> list[Any]:
    return [*anthropic_call(*pieces)[:-3], *api.message_end("max_tokens")]


CUT = cut_off('{"path": "a.py", "n": [1, 2', ', 3], "e": [1, {"b": 2}], "content": "impo')


def test_settled_arguments_of_a_cut_call_are_available(opened: Open) -> None:
    call = first(opened(CUT))
    error = unavailable(call.arguments)
    assert (error.verdict, error.path) == ("truncated", ())
    assert error.error == call.error
    assert str(error) == (
        "the arguments of 'write' are unavailable: the call is truncated (the turn was cut off "
        "(max_tokens)); the call has 'path', 'n', 'e', 'content'"
    )
    assert call.argument("path") == "a.py"
    assert list(call.items("n")) == [1, 2, 3]
    for path, message in [
        ("content", "'content' of 'write' is incomplete: the call is truncated (the turn was cut"),
        ("mode", "'mode' of 'write' is missing: the call is truncated (the turn was cut off"),
    ]:
        error = unavailable(partial(call.argument, path))
        assert str(error).startswith(message)
        assert error.error.reason == "truncated"


@pytest.mark.parametrize(
    ("payloads", "method", "path", "before"),
    [
        (CUT, "text", "content", ["impo"]),
        (cut_off('{"a": [1, {"b": 2}, {"c": ', "3"), "items", "a", [1, {"b": 2}]),
    ],
)
def test_cut_value_is_never_taken_for_whole(
    opened: Open, payloads: list[Any], method: str, path: str, before: list[Any]
) -> None:
    call = first(opened(payloads))
    for _ in range(2):  # while it comes, and afterwards
        values = getattr(call, method)(path)
        assert [next(values) for _ in before] == before
        assert unavailable(partial(next, values)).verdict == "truncated"
        assert unavailable(partial(call.argument, path)).verdict == "truncated"


def test_malformed_call_is_reported_at_its_first_bad_character(opened: Open) -> None:
    face = opened(anthropic_call('{"path": "a", "mode": 07', '55, "z": 1}'))
    call = first(face)
    error = unavailable(lambda: call.argument("z"))
    assert (error.verdict, error.error.reason, face.source.given) == ("malformed", "bad_number", 3)
    assert "not a valid JSON number" in str(error)
    assert call.argument("path") == "a"


@pytest.mark.parametrize(
    "text",
    [
        '{"e": [1, 1e999, 3], "b": [1e999], "o": {"k": "v',
        '{"e": [1, 1e999], "o": [1, 2, 3, "x',
        '{"e": [1, 1e999], "o": {"k": 1}}',
    ],
)
def test_infinite_number_and_what_follows_is_not_settled(opened: Open, text: str) -> None:
    call = first(opened(anthropic_call(text)))
    items = call.items("e")
    assert next(items) == 1
    for ask in (partial(next, items), *(partial(call.argument, *p) for p in (("e", 1), "b", "o"))):
        assert unavailable(ask).verdict == "malformed"
    assert call.argument("e", 0) == 1


def test_duplicate_key_leaves_settled_arguments(opened: Open) -> None:
    call = first(opened(anthropic_call('{"a": {"x": 1}, "l": [2', '], "b": 2,', ' "a": 3}')))
    assert call.argument("a") == {"x": 1}
    assert unavailable(call.arguments).error.reason == "duplicate_key"
    assert [call.argument("a"), call.argument("a", "x"), call.argument("l")] == [{"x": 1}, 1, [2]]


def test_closed_stream_keeps_settled_arguments(opened: Open) -> None:
    face = opened(anthropic_call('{"path": "a", "content": "x', 'y"}'))
    call = first(face)
    assert call.argument("path") == "a"
    face.close()
    assert call.argument("path") == "a"
    message = "'content' of 'write' is incomplete: the call is aborted (reading was stopped)"
    assert str(unavailable(lambda: call.argument("content"))) == message
    pieces = call.text("content")
    assert next(pieces) == "x"
    assert unavailable(lambda: next(pieces)).verdict == "aborted"
    assert unavailable(call.arguments).verdict == "aborted"
    assert face.source.closed
    assert len(list(face.live_calls())) == 1


def test_source_that_fails_to_close_changes_no_verdict() -> None:
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


def test_exception_of_the_source_is_raised_unchanged(opened: Open) -> None:
    """Invariant 9: only for values that are missing because of it."""
    failure = ConnectionResetError("gone")
    bad = [api.message_start(), api.tool_use(0, id_="t0"), api.input_json(0, '{"a": x')]
    good = [api.tool_use(1, id_="t1"), api.input_json(1, '{"path": "p", "content": "impo')]
    face = opened([*bad, *good], failure)
    calls = face.live_calls()
    malformed, call = next(calls), next(calls)
    assert call.argument("path") == "p"
    pieces = call.text("content")
    assert next(pieces) == "impo"
    for ask in (
        *(partial(next, pieces), partial(call.argument, "content"), partial(call.argument, "x")),
        *(call.arguments, partial(next, calls), lambda: list(face.events())),
    ):
        with pytest.raises(ConnectionResetError) as raised:
            ask()
        assert raised.value is failure
    assert call.verdict == "truncated"
    assert call.argument("path") == "p"
    assert unavailable(malformed.arguments).verdict == "malformed"
    assert face.source.closed


def test_traceback_of_a_failure_does_not_grow(opened: Open) -> None:
    call = first(opened(anthropic_call('{"a": "x')[:3], ConnectionResetError("gone")))
    tracebacks = []
    for _ in range(5):
        with pytest.raises(ConnectionResetError) as raised:
            call.argument("a")
        tracebacks.append(traceback.extract_tb(raised.tb))
    assert len({len(entries) for entries in tracebacks[1:]}) == 1
    assert tracebacks[-1][-1].name == "each"  # where it happened


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize(
    ("items", "code", "message"),
    [
        ([OVERLOADED], "overloaded_error", "Overloaded"),
        ([], "empty", "the stream ended before a message began"),
        ([api.message_start()], "truncated", "the stream ended before the model did"),
    ],
)
def test_stream_that_fails_before_any_call_raises(
    opened: Open, items: list[Any], code: str, message: str
) -> None:
    face = opened(items)
    for _ in range(2):
        with pytest.raises(StreamError) as raised:
            list(face.live_calls())
        error = raised.value
        assert (error.code, error.message, error.retryable) == (code, message, True)
        assert str(error) == f"{message} ({code})"


def test_stream_that_fails_yields_its_calls_first(opened: Open) -> None:
    complete = anthropic_call('{"a": 1}')[:4]
    cut_call = [api.tool_use(1, id_="t1"), api.input_json(1, '{"a": 1, "b": ')]
    calls = opened([*complete, *cut_call, OVERLOADED]).live_calls()
    one, other = next(calls), next(calls)
    assert [one.arguments(), other.argument("a")] == [{"a": 1}, 1]
    assert "Overloaded" in str(unavailable(other.arguments))
    with pytest.raises(StreamError, match="Overloaded"):
        next(calls)


def wrapped(*payloads: Any, parent: str | None = None) -> list[Any]:
    """Payloads as the Claude Agent SDK wraps them."""
    wrapper = {"type": "stream_event", "session_id": "s", "parent_tool_use_id": parent}
    return [{**wrapper, "event": payload} for payload in payloads]


def test_agent_that_gives_up_raises_and_one_that_retried_does_not(opened: Open) -> None:
    def result(*, is_error: bool) -> dict[str, Any]:
        found = {"type": "result", "subtype": "success", "is_error": is_error, "result": "gave up"}
        return {**found, "session_id": "s", "usage": {}, "num_turns": 1}

    with pytest.raises(StreamError, match="gave up"):
        list(opened([result(is_error=True)]).live_calls())
    assert list(opened([*wrapped(OVERLOADED), result(is_error=False)]).live_calls()) == []
    with pytest.raises(StreamError, match="Overloaded"):
        list(opened([*wrapped(OVERLOADED), result(is_error=True)]).live_calls())


def test_failure_that_a_loop_has_yielded_is_not_raised_again(opened: Open) -> None:
    face = opened([OVERLOADED])
    assert types(face.events()) == ["stream_failed"]
    assert list(face.live_calls()) == []


def test_text_that_may_be_cumulative_settles_nothing(opened: Open) -> None:
    """Each piece repeats all before it: read as it stands, the text of the first would go on."""
    last = '{"path": "a.py", "content": "import os", "edits": ["im", 1]}'
    turn = chat_call('{"path": "a.py", "content": "im', last[:-9], last)
    call = first(opened(turn))
    assert call.argument("path") == "a.py"
    assert list(call.text("content")) == ["im", "port os"]
    assert call.verdict == "complete"
    assert first(opened(turn)).argument("content") == "import os"
    assert first(opened(turn)).argument("edits", 1) == 1
    assert list(first(opened(turn)).items("edits")) == ["im", 1]
    call = first(opened(chat_call('{"e": ["im', '{"e": ["import", 1]}')))
    assert list(call.items("e")) == ["import", 1]


IN_DOUBT = chat_call(
    '{"path": "a.py", "content": "im', '{"path": "a.py", "content": "import', finish="length"
)


def test_call_in_doubt_shows_no_misread_value(opened: Open) -> None:
    events = stream(IN_DOUBT)
    states = []
    for event in events:
        if event.type == "tool_args_delta":
            call = events.calls[0]
            states.append((call.in_doubt, call.path, call.partial["content"]))
    assert states == [(False, ("content",), "im"), (True, ("content",), "im")]
    assert [(call.in_doubt, call.verdict) for call in events.calls] == [(False, "truncated")]
    reader = first(opened(IN_DOUBT))
    content = reader.text("content")
    assert next(content) == "im"
    assert unavailable(lambda: next(content)).verdict == "truncated"
    assert unavailable(lambda: reader.argument("content")).verdict == "truncated"
    assert reader.argument("path") == "a.py"


def leaves(*leaves: tuple[str, Any], finish: str = "STOP") -> list[Any]:
    """A call of Gemini, leaf by leaf; a string that goes on ends with …"""

    def leaf(path: str, value: Any) -> Any:
        if not isinstance(value, str):
            return gemini.leaf(path, numberValue=value)
        more = value.endswith("…")
        return gemini.leaf(path, stringValue=value.removesuffix("…"), more=more)

    pieces = [gemini.chunk(gemini.piece(leaf(*found))) for found in leaves]
    end = [gemini.END] if finish == "STOP" else []
    return [gemini.begin(), *pieces, gemini.chunk(*end, finish=finish)]


def test_container_of_leaves_is_open_until_the_end(opened: Open) -> None:
    sent = leaves(("$.a.x", 1), ("$.e[0]", 7), ("$.b", "t"), ("$.a.y", 2), ("$.e[1]", 8))
    call = first(opened(sent))
    assert (call.argument("a", "x"), call.verdict) == (1, "open")
    items = call.items("e")
    assert (next(items), call.verdict) == (7, "open")
    assert (call.argument("b"), call.verdict) == ("t", "open")
    assert call.argument("a", "y") == 2
    assert list(items) == [8]
    for path, value in [(("a",), {"x": 1, "y": 2}), (("e",), [7, 8]), (("e", 1), 8)]:
        assert first(opened(sent)).argument(*path) == value
    assert unavailable(lambda: first(opened(sent)).argument("a", "z")).verdict == "complete"


def test_string_leaf_is_open_until_the_end_and_a_settled_leaf_is_kept(opened: Open) -> None:
    sent = leaves(("$.s", "he…"), ("$.n", 1), ("$.s", "llo"))
    assert first(opened(sent)).argument("s") == "hello"
    assert list(first(opened(sent)).text("s")) == ["he", "llo"]
    call = first(opened(leaves(("$.s", "he…"), ("$.n", 1), finish="MAX_TOKENS")))
    assert unavailable(lambda: call.argument("s")).verdict == "truncated"
    call = first(opened(leaves(("$.e[0]", 1), ("$.b.c", "he…"), ("$.e[0]", 2))))
    items = call.items("e")
    assert next(items) == 1
    assert unavailable(lambda: next(items)).verdict == "malformed"
    assert call.argument("e", 0) == 1


INNER = json.dumps({"a": [1], "b": "text"})


@pytest.mark.parametrize(
    "pieces",
    [cut(json.dumps(INNER), [3]), ["{}", *cut(INNER, [5])], [INNER, INNER]],
    ids=["encoded twice", "an empty object first", "all of it again"],
)
def test_arguments_are_found_in_the_final_reading(opened: Open, pieces: list[str]) -> None:
    call = first(opened(chat_call(*pieces)))
    assert call.argument("a", 0) == 1
    assert "".join(call.text("b")) == "text"
    assert list(call.items("a")) == [1]
    assert call.arguments() == {"a": [1], "b": "text"}


def restated(*pieces: str, last: str) -> list[Any]:
    return [
        api.response_created(),
        api.item_added(0, **api.FUNCTION_CALL),
        *(api.arguments_delta(0, piece) for piece in pieces),
        api.arguments_done(0, last),
        api.response_ended(),
    ]


@pytest.mark.parametrize(
    ("pieces", "last", "before", "after"),
    [
        (['{"a": "x', "y"], '{"a":"xyz","b":[1]}', ["x", "y"], ["z"]),
        (['{"a": "x', "y"], '{"a":"other"}', ["x", "y"], None),
        (['{"a": "x'], '{"b": 1}', ["x"], None),
        (['{"a": [1, ', "2"], '{"a":[1,2,3]}', [1], [2, 3]),
        (['{"a": [1, ', "2"], '{"a":[true,2]}', [1], None),
        (['{"a": [1, ', "2"], '{"a":{}}', [1], None),
    ],
)
def test_restated_value_goes_on_if_it_fits_or_else_raises(
    opened: Open, pieces: list[str], last: str, before: list[Any], after: Any
) -> None:
    call = first(opened(restated(*pieces, last=last)))
    values = call.text("a") if before[0] == "x" else call.items("a")
    assert [next(values) for _ in before] == before
    if after is not None:
        assert list(values) == after
    else:
        message = str(unavailable(partial(list, values)))
        assert "differs from what was read before" in message
        assert "restated" in message
    assert call.arguments() == json.loads(last)
    for key, value in json.loads(last).items():
        assert call.argument(key) == value
        if isinstance(value, str):
            assert list(call.text(key)) == [value]


def free_text(last: str = "select") -> list[Any]:
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "c1", "name": "sql", "input": ""}
    delta = {"type": "response.custom_tool_call_input.delta", "output_index": 0}
    done = {"type": "response.custom_tool_call_input.done", "output_index": 0, "input": last}
    pieces = [{**delta, "delta": "sel"}, {**delta, "delta": "ect"}]
    return [api.response_created(), api.item_added(0, **item), *pieces, done, api.response_ended()]


def test_free_text_is_read_without_a_path(opened: Open) -> None:
    call = first(opened(free_text()))
    for method in (call.argument, call.text, call.items):
        with pytest.raises(UsageError, match=r"'sql' takes free text and has no arguments\."):
            method("query")
    pieces = call.text()
    assert (next(pieces), call.verdict) == ("sel", "open")
    assert list(pieces) == ["ect"]
    assert (call.verdict, call.arguments()) == ("complete", "select")
    assert list(call.text()) == ["select"]


def test_free_text_that_is_cut_or_contradicted_raises(opened: Open) -> None:
    call, other = first(opened(free_text()[:4])), first(opened(free_text("delete")))
    pieces, contradicted = call.text(), other.text()
    assert [next(pieces), next(pieces)] == ["sel", "ect"]
    assert unavailable(lambda: next(pieces)).verdict == "truncated"
    assert [next(contradicted), next(contradicted)] == ["sel", "ect"]
    assert "the text of 'sql' differs from what" in str(unavailable(lambda: next(contradicted)))
    assert other.arguments() == "delete"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ((), r'needs a path, such as {}\("edits", 0, "path"\)'),
        (("a", -1), "an index must not be negative: -1"),
        (("a", True), r"keys \(str\) and indexes \(int\), not True"),
        (("a", 1.0), "not 1.0"),
        ((("a", 0),), r"not \('a', 0\)"),
    ],
)
def test_invalid_path_raises_at_once(opened: Open, path: Any, message: str) -> None:
    face = opened(anthropic_call('{"a": [1]}'))
    call = first(face)
    for method in ("argument", "text", "items"):
        with pytest.raises(UsageError, match=message.replace("{}", method)):
            getattr(call, method)(*path)
    assert face.source.given == 2


def test_unknown_call_raises(opened: Open) -> None:
    face = opened(anthropic_call())
    with pytest.raises(UsageError, match=r"no call 'c' has started\. Started calls: none"):
        face.live_call("c")
    first(face)
    with pytest.raises(UsageError, match="Started calls: 'toolu_1'"):
        face.live_call("c")


def test_second_thread_raises_and_the_first_reads_on() -> None:
    started, go_on = threading.Event(), threading.Event()

    def source() -> Iterator[Any]:
        yield from anthropic_call('{"a": 1, ')[:3]
        started.set()
        assert go_on.wait(30)
        yield from anthropic_call('"b": 2}')[2:]

    events = stream(source())
    call = next(events.live_calls())
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call.argument("b")))
    thread.start()
    assert started.wait(30)
    for ask in (lambda: call.argument("b"), lambda: next(events)):
        with pytest.raises(
            UsageError, match=r"another thread reads this stream\. Read it in one thread"
        ):
            ask()
    go_on.set()
    thread.join()
    assert found == [2]
    assert call.arguments() == {"a": 1, "b": 2}


TWO = [
    api.message_start(),
    api.block_start(0, "text", text="I will."),
    api.block_stop(0),
    api.tool_use(1, "read", id_="r"),
    api.input_json(1, '{"path": "a'),
    api.tool_use(2, "write", id_="w"),
    api.input_json(2, '{"path": "b", "content": "x'),
    api.input_json(1, '.py"}'),
    api.block_stop(1),
    api.input_json(2, 'y"}'),
    api.block_stop(2),
    *api.message_end(),
]


def test_calls_come_as_they_start(opened: Open) -> None:
    face = opened(TWO)
    calls = face.live_calls()
    assert [(next(calls).name, face.source.given) for _ in "12"] == [("read", 4), ("write", 6)]
    assert not any(isinstance(event, TextDelta) for event in face.events())  # it came before
    assert list(calls) == []
    assert [call.name for call in face.live_calls()] == ["read", "write"]


def test_calls_of_two_agents_with_one_id_are_separate(opened: Open) -> None:
    """Their events are ambiguous, but the calls are not."""
    one = anthropic_call('{"a": "x", "b": "')[:3]
    other = [api.message_start("m2"), api.tool_use(0, id_="toolu_1"), api.input_json(0, '{"b": "y')]
    inner = [{**payload, "parent_tool_use_id": "p"} for payload in other]
    more = api.input_json(0, 'more", "c": 1')
    calls = opened([*wrapped(*one), *wrapped(*inner, parent="p"), *wrapped(more)]).live_calls()
    outer_call, inner_call = next(calls), next(calls)
    assert outer_call.argument("b") == "more"
    assert unavailable(lambda: inner_call.argument("b")).verdict == "truncated"


def test_loop_yields_events_that_a_reader_fetched(opened: Open) -> None:
    face = opened(TWO)
    seen, read = [], []
    for event in face.events():
        seen.append(event)
        if event.type == "tool_call_started":
            call = face.live_call(event.call_id)
            read.append((call.name, call.argument("path"), call.verdict))
    assert seen == list(opened(TWO).events())
    assert read == [("read", "a.py", "open"), ("write", "b", "open")]


def test_closing_a_delegating_generator_closes_the_stream() -> None:
    face = Face(TWO)

    def delegating() -> Generator[Any, None, None]:
        yield from face.events()

    events = delegating()
    next(event for event in events if event.type == "tool_call_started")
    call = face.live_call("r")
    events.close()
    assert face.source.closed
    assert unavailable(lambda: call.argument("path")).verdict == "aborted"


def test_loop_that_was_left_can_be_continued_after_a_late_reader(opened: Open) -> None:
    turn = anthropic_call('{"path": "a", "content": "x', "y", 'z"}')
    face, seen = opened(turn), []
    for event in face.events():
        seen.append(event)
        if event.type == "argument_delta" and event.path == ("content",):
            break
    call = face.live_call("toolu_1")
    assert call.argument("path") == "a"  # settled before
    assert list(call.text("content"))[:1] == ["x"]
    assert call.argument("content") == "xyz"
    assert [*seen, *face.events()] == list(opened(turn).events())


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if path:
        yield path, value
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*path, key))


keys = st.text(max_size=3)
leaves_of_values = (st.none(), st.booleans(), st.integers(), st.text(max_size=9))
values = json_values(*leaves_of_values, keys=keys, max_leaves=6)


@given(st.dictionaries(keys, values, max_size=4), cuts, st.integers())
def test_every_path_returns_its_value_in_any_chunking(
    arguments: dict[str, Any], sizes: list[int], seed: int
) -> None:
    random = Random(seed)
    text = json.dumps(arguments, ensure_ascii=random.choice([True, False]))
    call = first(Face(anthropic_call(*cut(text, sizes))))
    for path, value in sorted(paths(arguments), key=lambda _: random.random()):
        readings = ["argument"]
        readings += ["text"] if isinstance(value, str) else []
        readings += ["items"] if isinstance(value, list) else []
        match random.choice(readings):
            case "argument":
                assert call.argument(*path) == value
            case "text":
                assert "".join(call.text(*path)) == value
            case _:
                assert list(call.items(*path)) == value
    assert call.arguments() == arguments


@given(st.dictionaries(keys, values, min_size=1, max_size=4), cuts, st.floats(0, 1))
def test_cut_call_never_returns_a_wrong_value(
    arguments: dict[str, Any], sizes: list[int], part: float
) -> None:
    text = json.dumps(arguments)
    text = text[: round(part * (len(text) - 1))]
    call = first(Face(cut_off(*cut(text, sizes))))
    for path, value in paths(arguments):
        try:
            assert call.argument(*path) == value
        except ArgumentUnavailableError as error:
            assert error.verdict == "truncated"  # noqa: PT017 - either is right
    assert unavailable(call.arguments).verdict == "truncated"
