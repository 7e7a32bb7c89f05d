"""Parser by example: fragments, values, errors and limits, and when each is known."""

import copy
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.errors import ArgstreamError, UsageError
from argstream.jsonstream import (
    PENDING,
    Done,
    Fragment,
    Invalid,
    JsonPath,
    Key,
    Limits,
    Parser,
    Reason,
    Start,
    Text,
    locate,
    parse,
)
from argstream.testing import chunkings, cut
from tests.support import every_way, exact, feed_all, run


def fed(*chunks: str | bytes) -> Parser:
    return feed_all(chunks)


def test_each_fragment_comes_with_the_character_that_settles_it() -> None:
    text = '{"k":["a",-1,true]}'
    expected: list[tuple[int, Fragment]] = [
        (0, Start((), "object", 0)),
        (3, Key(("k",), 3)),
        (5, Start(("k",), "array", 5)),
        (6, Start(("k", 0), "string", 6)),
        (7, Text(("k", 0), "a")),
        (8, Done(("k", 0), "a", 9)),
        (10, Start(("k", 1), "number", 10)),
        (12, Done(("k", 1), -1, 12)),
        (13, Start(("k", 2), "boolean", 13)),
        (16, Done(("k", 2), True, 17)),
        (17, Done(("k",), ["a", -1, True], 18)),
        (18, Done((), {"k": ["a", -1, True]}, 19)),
    ]
    parser = Parser()
    found = [(at, exact([one])) for at, char in enumerate(text) for one in parser.feed(char)]
    assert found == [(at, exact([fragment])) for at, fragment in expected]
    assert parser.close() == []
    assert parser.verdict == "complete"


@pytest.mark.parametrize("text", ["1", "-0", "10.5", "1e5", "0.0E-7"])
def test_number_at_the_root_is_done_at_the_end(text: str) -> None:
    parser = Parser()
    assert parser.feed(text) == [Start((), "number", 0)]
    assert parser.value is PENDING
    assert exact(parser.close()) == exact([Done((), eval(text), len(text))])
    assert parser.offset == len(text)


def test_value_grows_in_place_and_hides_a_key_without_a_value() -> None:
    parser = fed('{"a": ["x')
    value = parser.value
    assert value == {"a": ["x"]}
    parser.feed('y", "z"], "b": ')
    assert value == {"a": ["xy", "z"]}
    assert parser.value is value


PIECES_OF_STRINGS = [
    *("lorem", "é日本😀", r"a\nb", r"\n\n", r"\t", r"a\"b", r"\\", r"\\n", r"\/\b\f\r", 'a"'),
    *(r'a"\t', r'\t"', r'\n"', r"\\" + '"', r"\"" + '"', r"\u00e9", r"\x", "\\", "\\n\\"),
    *("\xa0", "\x01", "a\nb"),
]


@pytest.mark.parametrize("piece", PIECES_OF_STRINGS)
def test_piece_of_an_open_string_reads_the_same_as_the_whole(piece: str) -> None:
    """``feed`` takes plain pieces itself. Some only look plain."""
    assert exact(run(['["', piece, '"]'])[1]) == exact(run(['["' + piece + '"]'])[1])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00", '"\\/\b\f\n\r\tAé€😀'),
        *((f"a{odd}b", f"a{odd}b") for odd in "\x7f\x85\xa0\u2028\ufeff\U000e0001"),
        # Surrogates pair up or become the replacement character.
        (r"\ud83d", "\ufffd"), (r"\ude00", "\ufffd"), (r"\ud83dx", "\ufffdx"),
        (r"\ud83d\n", "\ufffd\n"), (r"\ud83d\u0041", "\ufffdA"), (r"\uD83D\uDE00", "😀"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"), (r"\ude00\ud83d", "\ufffd\ufffd"),
        (r"\ud800\udc00\udbff\udfff", "\U00010000\U0010ffff"),
        (r"\ud7ff\ue000", "\ud7ff\ue000"), (r"\udbff\ue000", "\ufffd\ue000"),
        (r"\udc00\udc00", "\ufffd\ufffd"), (r"\u0041b", "Ab"),
    ],
)  # fmt: skip
def test_strings_and_keys_are_decoded(written: str, read: str) -> None:
    for name, chunks in chunkings(f'{{"{written}": "{written}"}}'):
        assert run(chunks)[0].value == {read: read}, name


@pytest.mark.parametrize(
    ("chunks", "read"),
    [
        (['"\ud83d', '\ude00"'], "😀"), (['"\ud83d\ude00"'], "😀"), (['"\ude00"'], "\ufffd"),
        (['"\ud83d', 'x"'], "\ufffdx"), (['"\ud83d', r"\ude", '00"'], "😀"),
        ([r'"\ud83d', '\ude00"'], "😀"),
    ],
)  # fmt: skip
def test_unescaped_surrogates_are_decoded_the_same_way(chunks: list[str], read: str) -> None:
    assert run(chunks)[0].value == read


def test_utf_8_may_be_cut_anywhere() -> None:
    parser = fed(b'"\xf0\x9f')
    assert parser.value == ""
    assert parser.feed(b"\x98") == []
    assert parser.feed(b"\x80") == [Text((), "😀")]
    kinds: list[Any] = [bytes, bytearray, memoryview]
    for kind in kinds:
        assert run([kind(b'"caf\xc3\xa9"')])[0].value == "café"
    parser = fed(b'"\xc3')  # which str cannot complete
    assert parser.feed("") == []
    assert parser.feed("x") == [Invalid((), 1, "invalid_utf8")]


@pytest.mark.parametrize(
    "data", [b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf5\x80"', b'"\xe2\x82"', b'"\x80"']
)
def test_invalid_utf_8_in_a_string_is_malformed(data: bytes) -> None:
    for name, chunks in chunkings(data):
        assert run(chunks)[0].error == Invalid((), 1, "invalid_utf8"), name


@pytest.mark.parametrize("tail", [b"\xc3\xa9", b"\xc3", b"\xff", b"\xe2\x82"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[1,", "unexpected_character"), (b'{"key":', "unexpected_character"),
        (b'["text"', "unexpected_character"), (b"[1", "bad_number"), (b"[tr", "bad_literal"),
        (rb'["\u0', "bad_escape"), (rb'["\ud83d' + b"\\", "bad_escape"), (b"[] ", "extra_text"),
    ],
)  # fmt: skip
def test_first_byte_of_a_misplaced_character_is_an_error(
    text: bytes, reason: Reason, tail: bytes
) -> None:
    for name, chunks in chunkings(text + tail):
        error = feed_all(chunks).error
        assert error is not None, name
        assert (error.offset, error.reason) == (len(text), reason), name


def test_impossible_second_byte_of_utf_8_is_an_error() -> None:
    def is_utf_8(data: bytes) -> bool:
        return "\ufffd" not in data.decode(errors="replace")

    for first in (0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4):
        for second in range(256):
            pair = bytes([first, second])
            is_possible = any(is_utf_8(pair + rest) for rest in (b"", b"\x80", b"\x80\x80"))
            assert (fed(b'"', pair).error is None) == is_possible, pair


REFUSED: dict[Reason, list[tuple[str, JsonPath, int]]] = {
    "unexpected_character": [
        ("x", (), 0), ("\ufeff{}", (), 0), ("]", (), 0), ("[1}", (), 2), ("{,}", (), 1),
        ("[1,]", (), 3), ("[1 2]", (), 3), ("[True]", (), 1), ("[NaN]", (), 1), ("[+1]", (), 1),
        ('{"a" 1}', ("a",), 5), ('{"a":1,}', (), 7), ('{"a": {"b": [1, x', ("a", "b"), 16),
    ],
    "extra_text": [("{} {", (), 3), ("1 2", (), 2)],
    "bad_literal": [("[tru]", (0,), 4), ("[nuLl]", (0,), 3)],
    "bad_number": [
        ("[01]", (0,), 2), ("[-x]", (0,), 2), ("[1.]", (0,), 3), ("[1.e1]", (0,), 3),
        ("[1e+]", (0,), 4), ("[1_000]", (0,), 2),
    ],
    "bad_escape": [
        (r'"\x"', (), 2), (r'"\ug234"', (), 3), (r'"\u12g4"', (), 5), (r'"\ud83d\x"', (), 8),
        (r'{"\q":1}', (), 3),
    ],
    "control_character": [
        ('{"a\nb":1}', (), 3), ('"\t"', (), 1), ('{"a": {"b": [1, "\x01', ("a", "b", 1), 17),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "text", "path", "offset"),
    [(reason, *case) for reason, cases in REFUSED.items() for case in cases],
)
def test_error_is_at_the_first_impossible_character(
    reason: Reason, text: str, path: JsonPath, offset: int
) -> None:
    for name, chunks in every_way(text):
        parser, fragments = run(chunks)
        assert parser.verdict == "malformed", name
        assert parser.error is fragments[-1], name
        assert parser.error == Invalid(path, offset, reason), name
        assert (parser.path, parser.offset) == (path, offset), name
    parser = fed(text[:offset])
    assert parser.error is None
    parser.feed(text[offset])
    assert parser.error is not None


def test_text_before_an_error_is_one_fragment() -> None:
    _, fragments = run(['["ok\\n\x01'])
    expected: list[Fragment] = [Text((0,), "ok\n"), Invalid((0,), 6, "control_character")]
    assert list(map(repr, fragments[-2:])) == list(map(repr, expected))
    expected = [Text((), "abc\ufffd"), Invalid((), 12, "bad_escape")]
    fragments = fed('"x').feed(b"abc\\ud83d\\\xc3")
    assert list(map(repr, fragments)) == list(map(repr, expected))


@pytest.mark.parametrize(
    ("chunks", "max_chars"),
    [
        (['["ab'], 99), (['["ab\\'], 99), (['["ab', b"\xff"], 99), (['["ab', b"\xc3"], 99),
        (['["ab', b"\xc3", "x"], 99), (['["ab', "\x01"], 99), (['["ab', "cd"], 4),
        (['["ab', "cd"], 5), (["[1", "x"], 99), (['{"a'], 99), (["[]"], 99),
    ],
)  # fmt: skip
def test_input_after_the_end_changes_nothing(chunks: list[str | bytes], max_chars: int) -> None:
    def state() -> tuple[object, ...]:
        return parser.verdict, parser.error, parser.offset, parser.path, repr(parser.value)

    parser, _ = run(chunks, Limits(max_chars=max_chars))
    before = state()
    for later in ("x", '"]', "\\n", b"x", b"\xa9", "", b""):
        assert parser.feed(later) == []
    assert parser.close() == []
    assert state() == before


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda parser: parser.feed({}), "accepts str or bytes, not dict"),
        *((copied, "cannot be copied or pickled") for copied in (copy.copy, copy.deepcopy)),
        (pickle.dumps, "cannot be copied or pickled"),
    ],
)
def test_misuse_raises(misuse: Callable[[Any], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        misuse(Parser())
    assert issubclass(UsageError, ArgstreamError)


def test_parser_whose_value_was_emptied_raises() -> None:
    parser = fed('{"a": "x')
    assert isinstance(parser.value, dict)
    parser.value.clear()
    with pytest.raises(KeyError):
        parser.feed('y"')
    with pytest.raises(UsageError, match="of this Parser was interrupted"):
        parser.feed("}")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[", ()), ("[[", (0,)), ('{"a', ()), ('{"a"', ("a",)), ('{"a": ', ("a",)),
        ('{"a": "x', ("a",)), ('{"a": "x"', ()), ('{"a": [1, 2', ("a", 1)),
        ('{"a": [1, 2,', ("a",)), ('{"a": [1, tr', ("a", 1)), ('{"a": []}', ()),
    ],
)  # fmt: skip
def test_path_is_that_of_the_open_value(text: str, path: JsonPath) -> None:
    for chunks in ([text], cut(text, [1])):
        parser = feed_all(chunks)
        assert (parser.path, parser.offset) == (path, len(text))


def test_last_of_duplicate_keys_wins_and_all_are_listed() -> None:
    parser, _ = run(['{"a": 1, "b": 2, "\\u0061": {"c": 1, "c": 2}}'])
    assert parser.value == {"a": {"c": 2}, "b": 2}
    assert list(parser.value) == ["a", "b"]
    assert parser.duplicates == (("a",), ("a", "c"))
    parser = fed('{"a": 1, "a": ')
    assert parser.value == {"a": 1}  # until the later value begins
    parser.feed('"x')
    assert parser.value == {"a": "x"}


def test_duplicate_key_can_be_refused_at_its_closing_quote() -> None:
    for _, chunks in chunkings('{"a": 1, "a": 2}'):
        parser = Parser(unique_keys=True)
        fragments = [fragment for chunk in chunks for fragment in parser.feed(chunk)]
        assert fragments[-1] == Invalid(("a",), 11, "duplicate_key")
        assert (parser.value, parser.duplicates) == ({"a": 1}, (("a",),))


DEPTH, CHARS = Limits(max_depth=3), Limits(max_chars=5)
KEY_CHARS, DIGITS = Limits(max_key_chars=6), Limits(max_digits=4)


@pytest.mark.parametrize(
    ("limits", "texts"),
    [
        (DEPTH, ["[[[]]]", '{"a":{"a":{"a":1}}}']),
        (CHARS, ["[123]"]),
        (KEY_CHARS, [f'{{"{key}":1}}' for key in ("abcdef", r"\u0041", "ab😀😀ef", "")]),
        (DIGITS, ["[1234]", "[-1234]", "[-1.2e+34]", "[0.123]", "[1e999]"]),
    ],
)
def test_text_within_the_limits_is_complete(limits: Limits, texts: list[str]) -> None:
    for text in texts:
        for name, chunks in every_way(text):
            parser, _ = run(chunks, limits)
            assert parser.verdict == "complete", (text, name)
            assert parser.value == json.loads(text), (text, name)


@pytest.mark.parametrize(
    ("limits", "text", "error"),
    [
        (DEPTH, "[[[[", Invalid((0, 0, 0), 3, "too_deep")),
        (DEPTH, '{"a":' * 3 + "[", Invalid(("a", "a", "a"), 15, "too_deep")),
        (CHARS, "[123] ", Invalid((), 5, "too_long")),
        (CHARS, "[1234]", Invalid((0,), 5, "too_long")),
        (CHARS, '["ab"]', Invalid((), 5, "too_long")),
        (CHARS, '["é"]   ', Invalid((), 5, "too_long")),
        (CHARS, '"aé😀bcd', Invalid((), 5, "too_long")),
        (CHARS, "[x    ", Invalid((), 1, "unexpected_character")),  # an error before the limit
        (KEY_CHARS, '{"abcdefg":1}', Invalid((), 8, "key_too_long")),
        (KEY_CHARS, r'{"a\u0041":1}', Invalid((), 8, "key_too_long")),
        (KEY_CHARS, '{"abcdef\\":1}', Invalid((), 8, "key_too_long")),
        (KEY_CHARS, '{"abcdefé":1}', Invalid((), 8, "key_too_long")),
        (KEY_CHARS, r'{"abcdef\x":1}', Invalid((), 8, "key_too_long")),
        (DIGITS, "[12345]", Invalid((0,), 5, "number_too_long")),
        (DIGITS, "[-1.2e+345]", Invalid((0,), 9, "number_too_long")),
        (DIGITS, "[0.1234]", Invalid((0,), 6, "number_too_long")),
    ],
)
def test_first_character_over_a_limit_fails(limits: Limits, text: str, error: Invalid) -> None:
    for name, chunks in every_way(text):
        assert run(chunks, limits)[0].error == error, name
    assert run([text[: error.offset + 1]], limits)[0].error == error


def test_text_before_the_limit_is_kept() -> None:
    parser, fragments = run(['"abcdefg'], Limits(max_chars=4))
    assert parser.value == "abc"
    assert exact(fragments[1:]) == exact([Text((), "abc"), Invalid((), 4, "too_long")])


def test_subclass_of_str_counts_the_same() -> None:
    class Other(str):
        __slots__ = ()

        def __getitem__(self, index: SupportsIndex | slice) -> "Other":
            return Other(super().__getitem__(index))

    parser, _ = run([Other('["a'), Other('b"]')], Limits(max_chars=6))
    assert (parser.value, parser.verdict) == (["ab"], "complete")
    assert type(run([Other('"ab"')])[0].value) is str
    assert run([Other('["abc"]')], Limits(max_chars=6))[0].verdict == "malformed"


def test_digit_limit_of_the_interpreter_is_an_error_too() -> None:
    limits, digits = Limits(max_digits=10_000), "1" * (sys.get_int_max_str_digits() + 1)
    for text, path, offset in ((f"[{digits}]", (0,), 1), (digits, (), 0)):
        expected = Invalid(path, offset + len(digits), "number_too_long")
        assert run([text], limits)[0].error == expected
    assert run([digits + ".0"], limits)[0].verdict == "complete"  # a float has no such limit


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "9", True, None])
def test_limits_must_be_positive_integers(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"Limits: max_depth must be .* at least 1, not"):
        Limits(max_depth=wrong)


def test_parse_accepts_a_whole_text_or_chunks() -> None:
    text = '{"a": [1, "é"], "a": 2}'
    for form in (text, text.encode(), bytearray(text.encode()), iter(text)):
        assert exact(parse(form)) == exact(run([text])[1])
    assert list(parse("[[", Limits(max_depth=1)))[-1] == Invalid((0,), 1, "too_deep")


def test_state_before_and_after_the_first_characters() -> None:
    parser = Parser()
    assert (parser.verdict, parser.error, parser.path, parser.offset) == ("open", None, (), 0)
    assert repr(parser.value) == "PENDING"
    parser.feed('{"a": [1')
    assert repr(parser) == "<Parser open at 8, path ('a', 0)>"


def test_parse_fetches_chunks_only_as_needed() -> None:
    fetched = []

    def chunks() -> Iterator[str]:
        for chunk in ('{"a": 1, ', '"a"', ": 2", "}"):
            fetched.append(chunk)
            yield chunk

    fragments = parse(chunks(), unique_keys=True)
    assert next(fragments) == Start((), "object", 0)
    assert len(fetched) == 1
    assert list(fragments)[-1] == Invalid(("a",), 11, "duplicate_key")
    assert len(fetched) == 2  # nothing after the error


@given(st.text("ab\n", min_size=1))
def test_locate_counts_as_the_json_module(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    assert locate(text, caught.value.pos) == (caught.value.lineno, caught.value.colno)
