"""ToolArgStream: all statements and examples of axio's documentation (source 000), and errors."""

import dataclasses
from collections.abc import Iterable

import pytest
from hypothesis import given

from argstream import ToolArgStream, ToolFieldDelta, ToolFieldEnd, ToolFieldEvent, ToolFieldStart
from argstream.errors import UsageError
from argstream.jsonstream import Invalid, Limits
from argstream.testing import chunkings, cut
from tests.reference import judge
from tests.strategies import any_texts, cuts
from tests.support import loads


def started(key: str) -> ToolFieldStart:
    return ToolFieldStart(0, "call", key)


def delta(key: str, text: str) -> ToolFieldDelta:
    return ToolFieldDelta(0, "call", key, text)


def ended(key: str) -> ToolFieldEnd:
    return ToolFieldEnd(0, "call", key)


def field(key: str, text: str) -> list[ToolFieldEvent]:
    return [started(key), *([delta(key, text)] if text else []), ended(key)]


def joined(events: list[ToolFieldEvent]) -> list[ToolFieldEvent]:
    """Events with neighbouring deltas joined, which is all that chunking may change."""
    result: list[ToolFieldEvent] = []
    for event in events:
        last = result[-1] if result else None
        if isinstance(event, ToolFieldDelta) and isinstance(last, ToolFieldDelta):
            result[-1] = dataclasses.replace(last, text=last.text + event.text)
        else:
            result.append(event)
    return result


def read(chunks: Iterable[str]) -> tuple[ToolArgStream, list[ToolFieldEvent]]:
    stream = ToolArgStream("call")
    return stream, [event for chunk in chunks for event in stream.feed(chunk)]


@pytest.mark.parametrize(
    "fed",
    [
        # The examples of the documentation.
        [('{"pat', []), ('h":"/tm', [started("path"), delta("path", "/tm")]),
         ('p/file"}', [delta("path", "p/file"), ended("path")])],
        [('{"config":{"re', [started("config"), delta("config", '{"re')]),
         ('try":3}}', [delta("config", 'try":3}'), ended("config")])],
        [('{"msg":"Hello\\nWorld"}', field("msg", "Hello\nWorld"))],
        # One chunk may make no event or many.
        [("", []), ('{"a":"x","b":[1, 2],"c":null}',
         [*field("a", "x"), *field("b", "[1, 2]"), *field("c", "null")])],
        # A field starts at its colon, before any value.
        [('{"a"', []), (" ", []), (" :", [started("a")]), (' "a:b', [delta("a", "a:b")])],
        # Raw text is passed on as it arrives.
        [('{"n":1', [started("n"), delta("n", "1")]), ("2", [delta("n", "2")]),
         (" ", [ended("n")])],
    ],
)  # fmt: skip
def test_chunks_make_these_events(fed: list[tuple[str, list[ToolFieldEvent]]]) -> None:
    stream = ToolArgStream("call")
    for chunk, events in fed:
        assert stream.feed(chunk) == events, chunk


def test_every_event_has_the_index_and_the_id() -> None:
    for stream, index in ((ToolArgStream("c"), 0), (ToolArgStream("c", index=3), 3)):
        events = stream.feed('{"a":1}')
        assert {(event.index, event.tool_use_id) for event in events} == {(index, "c")}


def test_current_key_is_empty_at_first_and_then_the_last_key() -> None:
    stream = ToolArgStream("call")
    keys = []
    for chunk in ["", "{", '"a', '"', ":", "1", ",", '"b"', ":2", "}"]:
        stream.feed(chunk)
        keys.append(stream.current_key)
    assert keys == ["", "", "", "a", "a", "a", "a", "b", "b", "b"]


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        ("12", "12"),
        (" -1.5e3 ", "-1.5e3"),
        ("true", "true"),
        (' { "a" : "x\\n}" } ', '{ "a" : "x\\n}" }'),
        ("[ [], {} ]", "[ [], {} ]"),
        ('""', ""),
        ('"[1]"', "[1]"),
    ],
)
def test_other_values_are_raw_json_without_surrounding_space(value: str, raw: str) -> None:
    for name, chunks in chunkings(f'{{"k":{value}, "last": 0}}'):
        assert joined(read(chunks)[1]) == [*field("k", raw), *field("last", "0")], name


def test_stream_is_done_when_the_object_is() -> None:
    stream = ToolArgStream("call")
    done = [(stream.feed(chunk), stream.done)[1] for chunk in ('{"a": {}', "}", " ")]
    assert done == [False, True, True]
    assert stream.close() is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"a":1 x', Invalid((), 7, "unexpected_character")),
        ('{"a" x: 1}', Invalid(("a",), 5, "unexpected_character")),
        ('{"a": tru}', Invalid(("a",), 9, "bad_literal")),
        ('{"a": 1, "a": 2}', Invalid(("a",), 11, "duplicate_key")),
        ("{} {}", Invalid((), 3, "extra_text")),
        (' ["a"]', Invalid((), 1, "not_an_object")),
        ('"a"', Invalid((), 0, "not_an_object")),
        ("12", Invalid((), 0, "not_an_object")),
    ],
)
def test_malformed_text_sets_the_error_and_ends_the_stream(text: str, error: Invalid) -> None:
    for name, chunks in chunkings(text):
        stream, _ = read(chunks)
        assert stream.error == error, name
        assert stream.feed('{"b": 1}') == [], name
        assert stream.close() == error, name


def test_fields_before_an_error_are_delivered_and_the_open_one_never_ends() -> None:
    for name, chunks in chunkings('{"a":"x","b":[1, x]}'):
        expected = [*field("a", "x"), started("b"), delta("b", "[1, ")]
        assert joined(read(chunks)[1]) == expected, name


def test_cut_limit_and_misuse_are_errors() -> None:
    stream, _ = read(['{"a": "x'])
    assert stream.error is None
    assert stream.close() == Invalid(("a",), 8, "truncated")
    stream = ToolArgStream("call", limits=Limits(max_chars=4))
    stream.feed('{"abcd')
    assert stream.error == Invalid((), 4, "too_long")
    with pytest.raises(UsageError, match="accepts str, not bytes"):
        ToolArgStream("call").feed(b"{}")  # type: ignore[arg-type]


@given(any_texts, cuts)
def test_field_is_its_decoded_or_raw_text_in_any_chunking(value: str, sizes: list[int]) -> None:
    text = f'{{"k": {value}}}'
    (whole, expected), (parts, events) = read([text]), read(cut(text, sizes))
    assert joined(events) == joined(expected)
    assert (parts.error, parts.done) == (whole.error, whole.done)
    if judge(value).verdict == "complete" and parts.error is None:  # no duplicate key further down
        shown = "".join(event.text for event in events if isinstance(event, ToolFieldDelta))
        loaded = loads(value)
        assert shown == (loaded if isinstance(loaded, str) else value.strip(" \t\n\r"))
