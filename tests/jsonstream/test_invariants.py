"""The numbered invariants of the parser, for random texts and random chunkings."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from argstream.jsonstream import Done, Fragment, Invalid, JsonPath, Key, Parser, Start, Text
from argstream.testing import at_every_place, cut
from tests.oracle import value_so_far
from tests.reference import judge
from tests.strategies import any_texts, cuts, json_texts
from tests.support import encode, exact, loads, run

DOCUMENTS = ['{"a": ["é😀", 1.5, true], "漢": {}}', r'"x\ud83d\ude00é"', "[1, 2", "[x]", '{"é": "y']
# For slow tests: a third of the examples of the current profile.
fewer = settings(max_examples=settings().max_examples // 3)


@given(any_texts, cuts)
@example('{"a":1 "b"}', [3])
@example("[01]", [1])
@example('"\\ud83d\\u12G"', [2])
def test_1_3_4_5_any_text_in_any_chunking(text: str, sizes: list[int]) -> None:
    """Chunking never matters, strings can be encoded, errors are where the reference finds them."""
    whole, expected = run([text])
    parser, fragments = run(cut(text, sizes))
    assert exact(fragments) == exact(expected)
    assert (parser.verdict, parser.error) == (whole.verdict, whole.error)
    assert (parser.offset, parser.path) == (whole.offset, whole.path)
    assert repr(parser.value) == repr(whole.value)
    assert exact(run(cut(text.encode(), sizes))[1]) == exact(expected)
    encode([fragments, parser.value])  # invariant 4
    _assert_values_open_and_close_once_in_order(fragments, parser.verdict)
    judgement = judge(text)
    assert tuple(judgement) == (parser.verdict, parser.offset)
    if judgement.verdict != "complete":
        assert isinstance(fragments[-1], Invalid)
        assert fragments[-1].offset == judgement.offset


@given(st.sampled_from(DOCUMENTS), st.lists(st.binary(min_size=1, max_size=3)), cuts)
def test_1_chunking_never_matters_for_invalid_utf_8(
    text: str, noise: list[bytes], sizes: list[int]
) -> None:
    data = text.encode()
    for number, piece in enumerate(noise):
        place = (number * 7919) % (len(data) + 1)
        data = data[:place] + piece + data[place:]
    whole, expected = run([data])
    parser, fragments = run(cut(data, sizes))
    assert exact(fragments) == exact(expected)
    assert parser.verdict == whole.verdict


@given(json_texts, cuts)
@example(r'{"\ud800": 1, "\ud801": 2, "\ud800": 3}', [1])
def test_2_and_7_text_is_incremental_and_equals_json_loads(text: str, sizes: list[int]) -> None:
    parser = Parser()
    last: Fragment | None = None
    pieces: dict[JsonPath, str] = {}
    for chunk in cut(text, sizes):
        seen = set()
        for last in parser.feed(chunk):
            match last:
                case Start(path, kind) if kind == "string":
                    pieces[path] = ""
                    seen.discard(path)  # a duplicate key: another value at the same path
                case Text(path, piece):
                    assert piece
                    assert path not in seen
                    seen.add(path)
                    pieces[path] += piece
                case Done(path, str(value)):
                    assert pieces.pop(path) == value
                case _:
                    pass
    assert not pieces
    last = [last, *parser.close()][-1]  # only the end completes a number
    assert parser.verdict == "complete"
    assert isinstance(last, Done)
    assert last.path == ()
    assert repr(parser.value) == repr(last.value) == repr(loads(text))


def _assert_values_open_and_close_once_in_order(fragments: list[Fragment], verdict: str) -> None:
    open_paths: list[JsonPath] = []
    key: JsonPath | None = None
    offset = last_offset = -1
    for fragment in fragments:
        match fragment:
            case Key(path, offset):
                assert path[:-1] == open_paths[-1]
                key = path
            case Start(path, _, offset):
                if path and isinstance(path[-1], str):
                    assert path == key
                assert path[:-1] == (open_paths[-1] if open_paths else ())
                open_paths.append(path)
            case Text(path):
                assert path == open_paths[-1]
                continue
            case Done(path, _, offset):
                assert path == open_paths.pop()
            case Invalid(_, offset):
                assert fragment is fragments[-1]
        assert offset >= last_offset
        last_offset = offset
    if verdict == "complete":
        assert not open_paths


@given(json_texts)
@fewer
def test_1_and_5_one_cut_changes_nothing_and_no_prefix_is_an_error(text: str) -> None:
    _, expected = run([text])
    for chunks in at_every_place(text.encode()):
        assert exact(run(chunks)[1]) == exact(expected), chunks
    for length in range(len(text)):
        parser = Parser()
        parser.feed(text[:length])
        assert parser.verdict == "open"
        parser.close()
        assert parser.verdict in ("complete", "truncated")


@given(json_texts, cuts)
@fewer
def test_6_value_so_far_equals_the_oracle(text: str, sizes: list[int]) -> None:
    expected = [repr(value_so_far(text[:length])) for length in range(len(text) + 1)]
    for chunks in (cut(text, [1]), cut(text, sizes)):
        parser = Parser()
        length = 0
        for chunk in chunks:
            parser.feed(chunk)
            length += len(chunk)
            assert repr(parser.value) == expected[length]


@given(st.text() | any_texts, st.just(b"") | st.binary(), cuts)
def test_9_nothing_raises(text: str, data: bytes, sizes: list[int]) -> None:
    parser, fragments = run([*cut(text, sizes), *cut(data, sizes)])
    assert parser.verdict in ("complete", "truncated", "malformed")
    before = (parser.verdict, parser.offset, parser.error, repr(parser.value))
    assert parser.feed("[1]") == parser.feed(b"\xff") == parser.close() == []
    assert (parser.verdict, parser.offset, parser.error, repr(parser.value)) == before
    assert sum(isinstance(fragment, Invalid) for fragment in fragments) == (
        parser.verdict != "complete"
    )
