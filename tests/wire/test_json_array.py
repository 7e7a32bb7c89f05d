"""One JSON array while it is written: each item is there as soon as it ends."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.testing import chunkings, cut
from argstream.wire import Broken, Frame, JsonTextDecoder
from tests.growth import BOUND, growth
from tests.strategies import cuts

items = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text('a"\\[]{},: \n')),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text('"\\]}a'), inner)),
    max_leaves=8,
)


def decode(chunks: list[bytes], decoder: JsonTextDecoder | None = None) -> list[Frame | Broken]:
    decoder = decoder or JsonTextDecoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.close()


@given(st.lists(items), cuts, st.sampled_from([None, 1]))
def test_the_items_are_those_of_json_loads(
    meant: list[object], sizes: list[int], indent: int | None
) -> None:
    # The bracket stands on a line of its own: else a whole array on one line is one document.
    text = f"[\n{json.dumps(meant, indent=indent)[1:]}"
    frames = decode(list(cut(text.encode(), sizes)))
    assert [json.loads(frame.data) for frame in frames if isinstance(frame, Frame)] == meant


def test_an_item_is_given_as_soon_as_its_comma_or_the_end_is_there() -> None:
    decoder = JsonTextDecoder()
    assert decoder.feed(b'[\n{"a": "],"}') == []
    assert decoder.feed(b"\n,\n") == [Frame(b'{"a": "],"}')]
    assert decoder.feed(b'{"b": "\\') == []
    assert decoder.feed(b'""}') == []
    assert decoder.feed(b"]") == [Frame(b'{"b": "\\""}')]
    assert decoder.feed(b"more") == []
    assert decoder.close() == []


def test_a_second_array_after_the_first_is_read_too() -> None:
    for name, chunks in chunkings(b'[\n{"a": 1}]\n[{"b": 2},\n{"c": 3}]\n'):
        frames = [Frame(b'{"a": 1}'), Frame(b'{"b": 2}'), Frame(b'{"c": 3}')]
        assert decode(chunks) == frames, name


def test_an_item_that_the_end_cut_off_is_given_as_far_as_it_came() -> None:
    for name, chunks in chunkings(b'[\n{"a": 1}, {"b'):
        assert decode(chunks) == [Frame(b'{"a": 1}'), Frame(b'{"b')], name


def test_an_item_that_is_too_long_breaks_the_stream() -> None:
    decoder = JsonTextDecoder(max_frame_bytes=12)
    assert decode([b'[\n{"a": 1},', b'{"b":', b'"12345678'], decoder) == [
        Frame(b'{"a": 1}'),
        Broken("too_long"),
    ]


def test_a_document_that_begins_with_a_bracket_is_read_item_by_item() -> None:
    decoder = JsonTextDecoder()
    assert decoder.feed(b'[{\n  "a": 1\n}') == []
    assert decoder.feed(b',\n{"b": 2}\n') == [Frame(b'{\n  "a": 1\n}')]
    assert decoder.feed(b"]\n") == [Frame(b'{"b": 2}')]
    assert decoder.close() == []


def test_of_an_array_on_one_line_that_was_cut_the_whole_items_count() -> None:
    decoder = JsonTextDecoder()
    assert decoder.feed(b'[{"a": 1},{"b') == []
    assert decoder.close() == [Frame(b'{"a": 1}'), Frame(b'{"b')]


@pytest.mark.timing
def test_the_cost_is_linear() -> None:
    def job(size: int) -> Callable[[], object]:
        chunks = cut(b'[\n{"a": "' + b"x\\n[" * size + b'"}]', [7])
        return lambda: decode(list(chunks))

    assert growth(job, 20_000) <= BOUND
