"""ToolArgStream: every claim and example of axio's documentation (source 000), and its errors."""

import dataclasses

import pytest
from hypothesis import assume, given

from argstream import ToolArgStream, ToolFieldDelta, ToolFieldEnd, ToolFieldEvent, ToolFieldStart
from argstream.errors import UsageError
from argstream.jsonstream import Invalid, Limits
from argstream.testing import chunkings, cut
from tests.strategies import any_texts, cuts, json_texts
from tests.support import loads


def started(key: str) -> ToolFieldStart:
    return ToolFieldStart(0, "call", key)


def delta(key: str, text: str) -> ToolFieldDelta:
    return ToolFieldDelta(0, "call", key, text)


def ended(key: str) -> ToolFieldEnd:
    return ToolFieldEnd(0, "call", key)


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


def read(chunks: list[str]) -> list[ToolFieldEvent]:
    stream = ToolArgStream("call")
    return [event for chunk in chunks for event in stream.feed(chunk)]


class TestExamplesOfTheDocumentation:
    def test_string_value(self) -> None:
        stream = ToolArgStream("call")
        assert stream.feed('{"pat') == []
        assert stream.feed('h":"/tm') == [started("path"), delta("path", "/tm")]
        assert stream.feed('p/file"}') == [delta("path", "p/file"), ended("path")]

    def test_object_value(self) -> None:
        stream = ToolArgStream("call")
        assert stream.feed('{"config":{"re') == [started("config"), delta("config", '{"re')]
        assert stream.feed('try":3}}') == [delta("config", 'try":3}'), ended("config")]

    def test_string_escaping(self) -> None:
        assert read(['{"msg":"Hello\\nWorld"}']) == [
            started("msg"),
            delta("msg", "Hello\nWorld"),
            ended("msg"),
        ]

    def test_usage_pattern(self) -> None:
        shown = ""
        parsers = {"a": ToolArgStream("a"), "b": ToolArgStream("b")}
        for identity, piece in [("a", '{"x": "1'), ("b", '{"y": tr'), ("a", '2"}'), ("b", "ue}")]:
            for event in parsers[identity].feed(piece):
                match event:
                    case ToolFieldStart(key=key):
                        shown += f"\n{event.tool_use_id} {key}: "
                    case ToolFieldDelta(text=text):
                        shown += text
                    case ToolFieldEnd():
                        shown += ";"
        assert shown == "\na x: 1\nb y: tr2;ue;"


class TestClaimsOfTheDocumentation:
    def test_index_defaults_to_0_and_is_in_every_event(self) -> None:
        assert {event.index for event in ToolArgStream("c").feed('{"a":1}')} == {0}
        assert {event.index for event in ToolArgStream("c", index=3).feed('{"a":1}')} == {3}
        assert {event.tool_use_id for event in ToolArgStream("c").feed('{"a":1}')} == {"c"}

    def test_one_chunk_may_make_no_event_or_many(self) -> None:
        assert read(['{"a":"x","b":[1, 2],"c":null}']) == [
            *(started("a"), delta("a", "x"), ended("a")),
            *(started("b"), delta("b", "[1, 2]"), ended("b")),
            *(started("c"), delta("c", "null"), ended("c")),
        ]
        assert read([""]) == []

    def test_the_start_comes_at_the_colon_before_any_value(self) -> None:
        stream = ToolArgStream("call")
        assert stream.feed('{"a"') == []
        assert stream.current_key == "a"
        assert stream.feed(" ") == []
        assert stream.feed(" :") == [started("a")]
        assert stream.feed(' "a:b') == [delta("a", "a:b")]

    def test_current_key_is_empty_at_first_and_then_keeps_the_last_key(self) -> None:
        stream = ToolArgStream("call")
        keys = []
        for chunk in ["", "{", '"a', '":', "1", ",", '"b"', ":2", "}"]:
            stream.feed(chunk)
            keys.append(stream.current_key)
        assert keys == ["", "", "", "a", "a", "a", "b", "b", "b"]

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
    def test_other_values_are_raw_json_without_the_space_around(self, value: str, raw: str) -> None:
        for name, chunks in chunkings(f'{{"k":{value}, "last": 0}}'):
            expected = [started("k"), *([delta("k", raw)] if raw else []), ended("k")]
            events = joined(read(chunks))
            assert events[:-3] == expected, name
            assert events[-3:] == [started("last"), delta("last", "0"), ended("last")], name

    def test_raw_text_is_passed_on_as_it_arrives(self) -> None:
        stream = ToolArgStream("call")
        assert stream.feed('{"n":1') == [started("n"), delta("n", "1")]
        assert stream.feed("2") == [delta("n", "2")]
        assert stream.feed(" ") == [ended("n")]

    def test_done_when_the_object_is(self) -> None:
        stream = ToolArgStream("call")
        done = [(stream.feed(chunk), stream.done)[1] for chunk in ('{"a": {}', "}", " ")]
        assert done == [False, True, True]
        assert stream.close() is None


class TestErrors:
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
    def test_are_told_where_the_original_is_silent(self, text: str, error: Invalid) -> None:
        for name, chunks in chunkings(text):
            stream = ToolArgStream("call")
            for chunk in chunks:
                stream.feed(chunk)
            assert stream.error == error, name
            assert stream.feed('{"b": 1}') == [], name
            assert stream.close() == error, name

    def test_what_came_before_is_delivered_and_the_field_never_ends(self) -> None:
        for name, chunks in chunkings('{"a":"x","b":[1, x]}'):
            assert joined(read(chunks)) == [
                *(started("a"), delta("a", "x"), ended("a")),
                *(started("b"), delta("b", "[1, ")),
            ], name

    def test_close_finds_a_cut(self) -> None:
        stream = ToolArgStream("call")
        stream.feed('{"a": "x')
        assert stream.error is None
        assert stream.close() == Invalid(("a",), 8, "truncated")

    def test_limits_hold(self) -> None:
        stream = ToolArgStream("call", limits=Limits(max_chars=4))
        stream.feed('{"abcd')
        assert stream.error == Invalid((), 4, "too_long")

    def test_bytes_are_misuse(self) -> None:
        with pytest.raises(UsageError, match="takes str, not bytes"):
            ToolArgStream("call").feed(b"{}")  # type: ignore[arg-type]


@given(any_texts, cuts)
def test_chunking_never_matters(text: str, sizes: list[int]) -> None:
    text = f'{{"k": {text}}}'
    whole, cut_up = ToolArgStream("call"), ToolArgStream("call")
    expected = joined(whole.feed(text))
    assert joined([event for chunk in cut(text, sizes) for event in cut_up.feed(chunk)]) == expected
    assert (cut_up.error, cut_up.done) == (whole.error, whole.done)


@given(json_texts, cuts)
def test_a_field_is_its_decoded_string_or_its_raw_text(value: str, sizes: list[int]) -> None:
    stream = ToolArgStream("call")
    events = [event for chunk in cut(f'{{"k": {value}}}', sizes) for event in stream.feed(chunk)]
    assume(stream.error is None)  # a duplicate key further down
    shown = "".join(event.text for event in events if isinstance(event, ToolFieldDelta))
    loaded = loads(value)
    assert shown == (loaded if isinstance(loaded, str) else value.strip(" \t\n\r"))
