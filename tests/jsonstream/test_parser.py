"""The engine by example: what each piece of text says, and when."""

import copy
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import SupportsIndex

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
    Location,
    Parser,
    Reason,
    Start,
    Text,
    locate,
    parse,
)
from argstream.testing import chunkings, cut
from tests.support import every_way, exact, feed_all, run


class TestFragments:
    def test_each_is_said_with_the_character_that_settles_it(self) -> None:
        parser = Parser()
        said = [(char, exact(parser.feed(char))) for char in cut('{"k":["a",-1,true]}', [1])]
        expected: list[tuple[str, list[Fragment]]] = [
            ("{", [Start((), "object", 0)]),
            ('"', []),
            ("k", []),
            ('"', [Key(("k",), 3)]),
            (":", []),
            ("[", [Start(("k",), "array", 5)]),
            ('"', [Start(("k", 0), "string", 6)]),
            ("a", [Text(("k", 0), "a")]),
            ('"', [Done(("k", 0), "a", 9)]),
            (",", []),
            ("-", [Start(("k", 1), "number", 10)]),
            ("1", []),
            (",", [Done(("k", 1), -1, 12)]),
            ("t", [Start(("k", 2), "boolean", 13)]),
            ("r", []),
            ("u", []),
            ("e", [Done(("k", 2), True, 17)]),
            ("]", [Done(("k",), ["a", -1, True], 18)]),
            ("}", [Done((), {"k": ["a", -1, True]}, 19)]),
        ]
        assert said == [(char, exact(fragments)) for char, fragments in expected]
        assert parser.close() == []
        assert parser.verdict == "complete"

    def test_the_path_is_one_object_for_all_fragments_of_a_value(self) -> None:
        parser = Parser()
        fragments = [fragment for char in '{"k":"ab"}' for fragment in parser.feed(char)]
        assert len({id(fragment.path) for fragment in fragments if fragment.path}) == 1


class TestNumbersAndWords:
    @pytest.mark.parametrize("text", ["1", "-0", "10.5", "1e5", "0.0E-7"])
    def test_a_number_at_the_root_is_done_only_at_the_end(self, text: str) -> None:
        parser = Parser()
        (start,) = parser.feed(text)
        assert start == Start((), "number", 0)
        assert parser.value is PENDING
        (done,) = parser.close()
        assert exact([done]) == exact([Done((), eval(text), len(text))])
        assert parser.offset == len(text)

    def test_a_number_is_done_with_the_character_after_it(self) -> None:
        parser = Parser()
        parser.feed("[4")
        assert parser.value == []
        parser.feed("2")
        assert parser.value == []
        assert parser.feed(" ") == [Done((0,), 42, 3)]
        assert parser.value == [42]

    def test_a_huge_exponent_is_infinite_as_in_json_loads(self) -> None:
        assert run(["[1e999]"])[0].value == [float("inf")]

    def test_words_are_done_at_their_last_letter(self) -> None:
        parser = Parser()
        assert parser.feed("nul") == [Start((), "null", 0)]
        assert parser.value is PENDING
        assert parser.feed("l") == [Done((), None, 4)]
        assert parser.value is None


class TestStrings:
    def test_all_escapes(self) -> None:
        text = r'"\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00"'
        for name, chunks in chunkings(text):
            assert run(chunks)[0].value == '"\\/\b\f\n\r\tAé€😀', name

    @pytest.mark.parametrize(
        ("written", "read"),
        [
            (r"\ud83d", "\ufffd"),
            (r"\ude00", "\ufffd"),
            (r"\ud83dx", "\ufffdx"),
            (r"\ud83d\n", "\ufffd\n"),
            (r"\ud83d\u0041", "\ufffdA"),
            (r"\ud83d\ud83d\ude00", "\ufffd😀"),
            (r"\ude00\ud83d", "\ufffd\ufffd"),
            (r"\uD83D\uDE00", "😀"),
            (r"\ud800\udc00\udbff\udfff", "\U00010000\U0010ffff"),
            (r"\ud7ff\ue000", "\ud7ff\ue000"),
            (r"\udbff\ue000", "\ufffd\ue000"),
        ],
    )
    def test_surrogates_pair_up_or_become_the_replacement_character(
        self, written: str, read: str
    ) -> None:
        for name, chunks in chunkings(f'{{"{written}": "{written}"}}'):
            assert run(chunks)[0].value == {read: read}, name

    @pytest.mark.parametrize(
        ("chunks", "read"),
        [
            (['"\ud83d', '\ude00"'], "😀"),
            (['"\ud83d\ude00"'], "😀"),
            (['"\ud83d', 'x"'], "\ufffdx"),
            (['"\ude00"'], "\ufffd"),
            (['"\ud83d', r"\ude", '00"'], "😀"),
            ([r'"\ud83d', '\ude00"'], "😀"),
        ],
    )
    def test_surrogates_that_stand_in_the_chunks_themselves_are_read_the_same_way(
        self, chunks: list[str], read: str
    ) -> None:
        assert run(chunks)[0].value == read

    def test_half_an_escape_waits(self) -> None:
        parser = Parser()
        parser.feed('"a')
        for piece in ("\\", "u", "d", "8", "3", "d", "\\", "u", "d", "e", "0"):
            assert parser.feed(piece) == []
            assert parser.value == "a"
        assert parser.feed("0") == [Text((), "😀")]

    def test_a_surrogate_is_given_up_as_soon_as_its_partner_cannot_come(self) -> None:
        parser = Parser()
        parser.feed(r'"\ud83d')
        assert parser.value == ""
        assert parser.feed(r"\u0") == [Text((), "\ufffd")]

    @pytest.mark.parametrize("space", ["\x7f", "\x85", "\xa0", "\u2028", "\ufeff", "\U000e0001"])
    def test_odd_characters_are_text_like_any_other(self, space: str) -> None:
        for name, chunks in chunkings(f'"a{space}b"'):
            assert run(chunks)[0].value == f"a{space}b", name

    def test_text_before_an_error_is_delivered(self) -> None:
        _, fragments = run(['["ok\\n\x01'])
        assert exact(fragments[-2:]) == exact(
            [Text((0,), "ok\n"), Invalid((0,), 6, "control_character")]
        )


class TestTheShortPath:
    """Pieces of an open string that feed() takes itself, and those that only look like it."""

    @pytest.mark.parametrize(
        "piece",
        [
            *("lorem", "é日本😀", r"a\nb", r"\n\n", r"\t", r"a\"b", r"\\", r"\\n", r"\/\b\f\r"),
            *(
                'a"',
                r'a"\t',
                r'\t"',
                r'\n"',
                r"\\" + '"',
                r"\"" + '"',
                r"\u00e9",
                r"\x",
                "\\",
                "\\n\\",
            ),
            *("\xa0", "\x01", "a\nb"),
        ],
    )
    def test_says_the_same_as_the_long_one(self, piece: str) -> None:
        _, expected = run(['["' + piece + '"]'])
        parser = Parser()
        fragments = [*parser.feed('["'), *parser.feed(piece), *parser.feed('"]'), *parser.close()]
        assert exact(fragments) == exact(expected)


class TestBytes:
    def test_utf_8_may_be_cut_anywhere(self) -> None:
        parser = Parser()
        parser.feed(b'"\xf0\x9f')
        assert parser.value == ""
        assert parser.feed(b"\x98") == []
        assert parser.feed(b"\x80") == [Text((), "😀")]

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_every_kind_of_bytes_is_taken(self, kind: type) -> None:
        assert run([kind(b'"caf\xc3\xa9"')])[0].value == "café"

    @pytest.mark.parametrize(
        "data",
        [b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf5\x80"', b'"\xe2\x82"', b'"\x80"'],
    )
    def test_other_bytes_in_a_string_are_malformed(self, data: bytes) -> None:
        for name, chunks in chunkings(data):
            parser, _ = run(chunks)
            assert parser.error == Invalid((), 1, "invalid_utf8"), name

    @pytest.mark.parametrize("tail", [b"\xc3\xa9", b"\xc3", b"\xff", b"\xe2\x82"])
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (b"[1,", "unexpected_character"),
            (b'{"key":', "unexpected_character"),
            (b'["text"', "unexpected_character"),
            (b"[1", "bad_number"),
            (b"[tr", "bad_literal"),
            (rb'["\u0', "bad_escape"),
            (rb'["\ud83d' + b"\\", "bad_escape"),
            (b"[] ", "extra_text"),
        ],
    )
    def test_where_no_such_character_can_stand_its_first_byte_is_enough(
        self, text: bytes, reason: Reason, tail: bytes
    ) -> None:
        for name, chunks in chunkings(text + tail):
            parser = feed_all(chunks)
            assert parser.error is not None, name
            assert (parser.error.offset, parser.error.reason) == (len(text), reason), name

    def test_what_cannot_become_utf_8_is_refused_with_its_second_byte(self) -> None:
        for second in range(256):
            for first in (0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4):
                parser = Parser()
                parser.feed(b'"')
                parser.feed(bytes([first, second]))
                endings = (b"", b"\x80", b"\x80\x80")
                assert (parser.error is None) == any(
                    is_utf_8(bytes([first, second]) + ending) for ending in endings
                ), (first, second)

    def test_there_is_one_text_per_value_and_feed_even_before_an_error(self) -> None:
        parser = Parser()
        parser.feed('"x')
        assert exact(parser.feed(b"abc\\ud83d\\\xc3")) == exact(
            [Text((), "abc\ufffd"), Invalid((), 12, "bad_escape")]
        )

    def test_text_cannot_end_a_character_begun_in_bytes(self) -> None:
        parser = Parser()
        parser.feed(b'"\xc3')
        assert parser.feed("") == []
        assert parser.feed("x") == [Invalid((), 1, "invalid_utf8")]

    def test_a_byte_order_mark_is_not_json(self) -> None:
        for data in ("\ufeff{}", "\ufeff{}".encode()):
            assert run([data])[0].error == Invalid((), 0, "unexpected_character")


def is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


REFUSED: list[tuple[str, int, Reason]] = [
    ("x", 0, "unexpected_character"),
    ("[1,]", 3, "unexpected_character"),
    ("[1 2]", 3, "unexpected_character"),
    ("{,}", 1, "unexpected_character"),
    ('{"a" 1}', 5, "unexpected_character"),
    ('{"a":1,}', 7, "unexpected_character"),
    ("[1}", 2, "unexpected_character"),
    ("]", 0, "unexpected_character"),
    ("{} {", 3, "extra_text"),
    ("1 2", 2, "extra_text"),
    ("[tru]", 4, "bad_literal"),
    ("[nuLl]", 3, "bad_literal"),
    ("[True]", 1, "unexpected_character"),
    ("[NaN]", 1, "unexpected_character"),
    ("[01]", 2, "bad_number"),
    ("[-x]", 2, "bad_number"),
    ("[1.]", 3, "bad_number"),
    ("[1.e1]", 3, "bad_number"),
    ("[1e+]", 4, "bad_number"),
    ("[1_000]", 2, "bad_number"),
    ("[+1]", 1, "unexpected_character"),
    (r'"\x"', 2, "bad_escape"),
    (r'"\u12g4"', 5, "bad_escape"),
    (r'"\ud83d\x"', 8, "bad_escape"),
    ('{"a\nb":1}', 3, "control_character"),
    (r'{"\q":1}', 3, "bad_escape"),
    ('"\t"', 1, "control_character"),
]


class TestErrors:
    @pytest.mark.parametrize(("text", "offset", "reason"), REFUSED)
    def test_are_said_at_the_first_impossible_character(
        self, text: str, offset: int, reason: Reason
    ) -> None:
        for name, chunks in every_way(text):
            parser, fragments = run(chunks)
            assert parser.verdict == "malformed", name
            assert isinstance(fragments[-1], Invalid), name
            assert (fragments[-1].offset, fragments[-1].reason) == (offset, reason), name
            assert parser.error is fragments[-1], name
            assert parser.offset == offset, name

    def test_come_with_the_character_itself_not_at_the_close(self) -> None:
        for text, offset, _ in REFUSED:
            parser = Parser()
            parser.feed(text[:offset])
            assert parser.error is None, text
            parser.feed(text[offset])
            assert parser.error is not None, text

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ('{"a": {"b": [1, x', ("a", "b")),
            ('{"a": {"b": [1, "\x01', ("a", "b", 1)),
            ('{"a" x', ("a",)),
            ('{"a": 1, x', ()),
        ],
    )
    def test_say_the_path_where_they_stand(self, text: str, path: JsonPath) -> None:
        parser, _ = run([text])
        assert parser.error is not None
        assert parser.error.path == path
        assert parser.path == path

    @pytest.mark.parametrize(
        "text",
        [
            *("", " ", "[", "[1", "[1,", "{", '{"', '{"a', '{"a"', '{"a":', '{"a":1,'),
            *('"', '"\\', '"\\u12', '"\\ud83d', "-", "1.", "1e", "1e+", "tr"),
        ],
    )
    def test_a_text_that_ends_too_early_is_truncated(self, text: str) -> None:
        parser, fragments = run([text])
        assert parser.verdict == "truncated"
        assert fragments[-1] == Invalid(parser.path, len(text), "truncated")

    def test_have_a_message_one_can_act_on(self) -> None:
        error = run(['{"a": "\n"}'])[0].error
        assert error is not None
        assert error.message == (
            r"a control character in a string must be escaped, as \n or \u0000 (at character 7)"
        )

    @pytest.mark.parametrize(
        ("chunks", "limits"),
        [
            (['["ab'], Limits()),
            (['["ab\\'], Limits()),
            (['["ab', b"\xff"], Limits()),
            (['["ab', b"\xc3"], Limits()),
            (['["ab', b"\xc3", "x"], Limits()),
            (['["ab', "\x01"], Limits()),
            (['["ab', "cd"], Limits(max_chars=4)),
            (['["ab', "cd"], Limits(max_chars=5)),
            (["[1", "x"], Limits()),
            (['{"a'], Limits()),
            (["[]"], Limits()),
        ],
    )
    def test_later_input_changes_nothing(self, chunks: list[str | bytes], limits: Limits) -> None:
        parser, _ = run(chunks, limits)
        before = (parser.verdict, parser.error, parser.offset, parser.path, repr(parser.value))
        for later in ("x", '"]', "\\n", b"x", b"\xa9", "", b""):
            assert parser.feed(later) == []
        assert parser.close() == []
        after = (parser.verdict, parser.error, parser.offset, parser.path, repr(parser.value))
        assert after == before

    def test_only_misuse_raises(self) -> None:
        with pytest.raises(UsageError, match="takes str or bytes, not dict"):
            Parser().feed({})  # type: ignore[arg-type]
        assert issubclass(UsageError, ArgstreamError)

    @pytest.mark.parametrize("copy", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_copying_would_share_the_machine_so_it_is_misuse(
        self, copy: Callable[[Parser], object]
    ) -> None:
        with pytest.raises(UsageError, match="cannot be copied or pickled"):
            copy(Parser())

    def test_a_parser_whose_value_was_taken_away_says_so(self) -> None:
        parser = Parser()
        parser.feed('{"a": "x')
        assert isinstance(parser.value, dict)
        parser.value.clear()
        with pytest.raises(KeyError):
            parser.feed('y"')
        with pytest.raises(UsageError, match="broke off in an earlier feed"):
            parser.feed("}")


class TestState:
    def test_before_the_first_character(self) -> None:
        parser = Parser()
        assert parser.value is PENDING
        assert repr(parser.value) == "PENDING"
        assert (parser.verdict, parser.error, parser.path, parser.offset) == ("open", None, (), 0)

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("[", ()),
            ("[[", (0,)),
            ('{"a', ()),
            ('{"a"', ("a",)),
            ('{"a": ', ("a",)),
            ('{"a": "x', ("a",)),
            ('{"a": "x"', ()),
            ('{"a": [1, 2', ("a", 1)),
            ('{"a": [1, 2,', ("a",)),
            ('{"a": [1, tr', ("a", 1)),
            ('{"a": []}', ()),
        ],
    )
    def test_path_says_where_it_stands(self, text: str, path: JsonPath) -> None:
        for chunks in ([text], cut(text, [1])):
            parser = feed_all(chunks)
            assert parser.path == path
            assert parser.offset == len(text)

    def test_the_value_grows_in_place(self) -> None:
        parser = Parser()
        parser.feed('{"a": ["x')
        value = parser.value
        assert value == {"a": ["x"]}
        parser.feed('y", "z"')
        assert value == {"a": ["xy", "z"]}
        assert parser.value is value

    def test_a_key_without_a_value_does_not_show(self) -> None:
        parser = Parser()
        parser.feed('{"a": 1, "b": ')
        assert parser.value == {"a": 1}


class TestDuplicateKeys:
    def test_the_last_one_wins_as_in_json_loads_and_it_is_told(self) -> None:
        parser, _ = run(['{"a": 1, "b": 2, "\\u0061": {"c": 1, "c": 2}}'])
        assert parser.value == {"a": {"c": 2}, "b": 2}
        assert list(parser.value) == ["a", "b"]
        assert parser.duplicates == (("a",), ("a", "c"))

    def test_the_earlier_value_shows_until_the_later_one_begins(self) -> None:
        parser = Parser()
        parser.feed('{"a": 1, "a": ')
        assert parser.value == {"a": 1}
        parser.feed('"x')
        assert parser.value == {"a": "x"}

    def test_they_can_be_refused_at_the_closing_quote(self) -> None:
        for _, chunks in chunkings('{"a": 1, "a": 2}'):
            parser = Parser(unique_keys=True)
            fragments = [fragment for chunk in chunks for fragment in parser.feed(chunk)]
            assert fragments[-1] == Invalid(("a",), 11, "duplicate_key")
            assert parser.value == {"a": 1}
            assert parser.duplicates == (("a",),)


class TestLimits:
    @pytest.mark.parametrize("opening", ["[", '{"a":'])
    def test_depth(self, opening: str) -> None:
        limits = Limits(max_depth=3)
        for name, chunks in chunkings(opening * 3):
            assert run(chunks, limits)[0].verdict == "truncated", name
        for name, chunks in chunkings(opening * 3 + "["):
            parser, _ = run(chunks, limits)
            assert parser.error is not None, name
            assert parser.error.offset == len(opening * 3), name
            assert parser.error.reason == "too_deep", name
            assert len(parser.error.path) == 3, name

    def test_characters_in_total(self) -> None:
        limits = Limits(max_chars=5)
        for name, chunks in every_way("[123]"):
            assert run(chunks, limits)[0].verdict == "complete", name
        for text in ("[123] ", "[1234]", '["ab"]', '["é"]   ', '"aé😀bcd'):
            for name, chunks in every_way(text):
                parser, _ = run(chunks, limits)
                assert parser.error is not None, name
                assert (parser.error.offset, parser.error.reason) == (5, "too_long"), name

    def test_a_str_of_another_class_counts_the_same(self) -> None:
        class Other(str):
            __slots__ = ()

            def __getitem__(self, index: SupportsIndex | slice) -> "Other":
                return Other(super().__getitem__(index))

        assert run([Other('["a'), Other('b"]')], Limits(max_chars=6))[0].value == ["ab"]
        assert type(run([Other('"ab"')])[0].value) is str
        assert run([Other('["abc"]')], Limits(max_chars=6))[0].verdict == "malformed"

    def test_an_error_before_the_limit_comes_first(self) -> None:
        parser, _ = run(["[x    "], Limits(max_chars=5))
        assert parser.error == Invalid((), 1, "unexpected_character")

    def test_nothing_is_lost_before_the_limit(self) -> None:
        parser, fragments = run(['"abcdefg'], Limits(max_chars=4))
        assert parser.value == "abc"
        assert exact(fragments[1:]) == exact([Text((), "abc"), Invalid((), 4, "too_long")])

    def test_characters_of_a_key(self) -> None:
        limits = Limits(max_key_chars=6)
        for key in ("abcdef", r"\u0041", "ab😀😀ef", ""):
            text = f'{{"{key}":1}}'
            for name, chunks in every_way(text):
                assert run(chunks, limits)[0].verdict == "complete", (key, name)
        for key in ("abcdefg", r"a\u0041", "abcdef\\", "abcdefé", "abcdef\\x"):
            for name, chunks in chunkings(f'{{"{key}":1}}'):
                parser, _ = run(chunks, limits)
                assert parser.error == Invalid((), 8, "key_too_long"), (key, name)

    def test_digits_of_a_number(self) -> None:
        limits = Limits(max_digits=4)
        for number in ("1234", "-1234", "-1.2e+34", "0.123"):
            for name, chunks in chunkings(f"[{number}]"):
                assert run(chunks, limits)[0].value == [eval(number)], (number, name)
        for number, offset in (("12345", 5), ("-1.2e+345", 9), ("0.1234", 6)):
            for name, chunks in chunkings(f"[{number}]"):
                parser, _ = run(chunks, limits)
                assert parser.error == Invalid((0,), offset, "number_too_long"), (number, name)

    def test_the_interpreters_own_limit_is_a_typed_reason_too(self) -> None:
        digits = sys.get_int_max_str_digits() + 1
        parser, _ = run(["[" + "1" * digits + "]"], Limits(max_digits=10_000))
        assert parser.error == Invalid((0,), digits + 1, "number_too_long")
        parser, _ = run(["1" * digits], Limits(max_digits=10_000))
        assert parser.error == Invalid((), digits, "number_too_long")
        # As a float it is no trouble.
        assert run(["1" * digits + ".0"], Limits(max_digits=10_000))[0].verdict == "complete"

    @pytest.mark.parametrize("wrong", [0, -1, 1.5, "9", True, None])
    def test_must_be_whole_and_positive(self, wrong: object) -> None:
        with pytest.raises(UsageError, match=r"Limits\(max_depth=.*at least 1"):
            Limits(max_depth=wrong)  # type: ignore[arg-type]


class TestParse:
    def test_takes_a_whole_text_or_chunks(self) -> None:
        expected = exact(run(['{"a": [1, "é"]}'])[1])
        text = '{"a": [1, "é"]}'
        assert exact(parse(text)) == expected
        assert exact(parse(text.encode())) == expected
        assert exact(parse(bytearray(text.encode()))) == expected
        assert exact(parse(iter(text))) == expected

    def test_reads_chunks_only_as_they_are_wanted(self) -> None:
        taken = []

        def chunks() -> Iterator[str]:
            for chunk in ("[", "1", "]"):
                taken.append(chunk)
                yield chunk

        fragments = parse(chunks())
        assert next(fragments) == Start((), "array", 0)
        assert taken == ["["]

    def test_asks_for_nothing_more_after_an_error(self) -> None:
        chunks = iter(['{"a": 1, ', '"a"', ": 2", "}"])
        *_, last = parse(chunks, unique_keys=True)
        assert last == Invalid(("a",), 11, "duplicate_key")
        assert list(chunks) == [": 2", "}"]


class TestLocation:
    def test_an_error_is_located_as_editors_count(self) -> None:
        text = '{\n  "a": 1,\n  "b" 2\n}'
        error = run([text])[0].error
        assert error is not None
        assert locate(text, error.offset) == Location(line=3, column=7)

    @given(st.text("ab\n", min_size=1))
    def test_it_counts_as_the_json_module_does(self, text: str) -> None:
        with pytest.raises(json.JSONDecodeError) as caught:
            json.loads(text)
        assert locate(text, caught.value.pos) == (caught.value.lineno, caught.value.colno)


def test_a_parser_shows_where_it_is() -> None:
    parser = Parser()
    parser.feed('{"a": [1')
    assert repr(parser) == "<Parser open at 8, path ('a', 0)>"
