"""Hostile texts: deep nesting, giant numbers, many tiny chunks.

``tests/streaming/test_cost.py`` bounds the memory that an open string takes.
"""

import gc
import sys
import time
import weakref
from collections.abc import Callable, Sequence

import pytest

from argstream.jsonstream import Limits, Parser, ToolArgStream
from argstream.testing import cut
from tests.growth import BOUND, growth
from tests.support import feed_all, run


@pytest.mark.bulk
@pytest.mark.parametrize("size", [1, 7, 256, 1_000_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_many_openings_hit_the_limit_at_depth_256(opening: str, size: int) -> None:
    parser = feed_all(cut(opening * 100_000, [size]))
    assert parser.error is not None
    assert (parser.error.reason, parser.error.offset) == ("too_deep", 256 * len(opening))


def test_parser_does_not_recurse() -> None:
    depth = 3 * sys.getrecursionlimit()
    parser, _ = run(["[" * depth + "]" * depth], Limits(max_depth=depth))
    assert parser.verdict == "complete"


@pytest.mark.parametrize("digits", [4301, 1_000_000])
@pytest.mark.parametrize("template", ["{}", "[-{}]", "[0.{}]", "[1e{}]"])
def test_longer_number_is_refused_in_less_than_a_second(digits: int, template: str) -> None:
    text = template.format("1" * digits)
    chunks = cut(text, [16])
    start = time.process_time()
    error = feed_all(chunks).error
    assert time.process_time() - start < 1
    assert error is not None
    assert error.reason == "number_too_long"
    # At the first digit too many: of all digits, those before the point and exponent included.
    assert sum(char.isdigit() for char in text[: error.offset]) == 4300
    assert run(["[" + "1" * 4300 + "]"])[0].value == [int("1" * 4300)]
    assert text[error.offset].isdigit()


# Invariant 6: linear, with the value read after every chunk


def feed_and_read(chunks: Sequence[str | bytes]) -> Callable[[], None]:
    limits = Limits(max_chars=2**30, max_digits=2**30, max_key_chars=2**30)

    def action() -> None:
        parser = Parser(limits)
        for chunk in chunks:
            parser.feed(chunk)
            assert parser.value is not None

    return action


@pytest.mark.timing
def test_cost_of_one_long_string_is_linear() -> None:
    def job(length: int) -> Callable[[], None]:
        return feed_and_read(['{"content": "', *["lore", "m ip"] * (length // 8)])

    assert growth(job, 2**18) <= BOUND


@pytest.mark.timing
@pytest.mark.parametrize(
    ("before", "unit"),
    [
        ('["', r"\t\\"),
        ('["', r"\u00e9"),
        ('["', r"\ud83d\ude00"),
        ('["', "\xa0\x7f"),
        ('["', r"short \u00e9 and slow "),
        (b'["', "lorem é ip".encode()),
        ("[", '{"id": 12, "ok": true}, '),
        ("[", "[[]], "),
        ("[", "     \n"),
        ("[", "12, "),
        ('{"', "key "),
        ("[1.", "1234"),
    ],
)
def test_cost_of_any_text_is_linear(before: str, unit: str) -> None:
    def job(length: int) -> Callable[[], None]:
        return feed_and_read(cut(before + unit * (length // len(unit)), [4]))

    assert growth(job, 2**16) <= BOUND


@pytest.mark.timing
@pytest.mark.parametrize("chunk", [4, 2**30])
def test_cost_of_the_fields_of_a_tool_call_is_linear(chunk: int) -> None:
    def job(length: int) -> Callable[[], object]:
        fields = ",".join(f'"key {number}": {number}' for number in range(length // 20))
        chunks = cut("{" + fields + "}", [chunk])

        def feed() -> None:
            stream = ToolArgStream("call")
            for piece in chunks:
                stream.feed(piece)

        return feed

    assert growth(job, 2**15) <= BOUND


@pytest.mark.timing
def test_cost_of_strings_that_grow_side_by_side_is_linear() -> None:
    def job(length: int) -> Callable[[], None]:
        def feed_in_turn() -> None:
            parsers = [feed_all(['"']) for _ in range(50)]
            for _ in range(length // 8):
                for parser in parsers:
                    parser.feed("lorem ip")

        return feed_in_turn

    assert growth(job, 5_000) <= BOUND


@pytest.mark.parametrize("text", ['{"a": ["x', "[1, 2]", "[x]", '{"k'])
def test_abandoned_parser_is_freed_without_the_collector(text: str) -> None:
    class Watched(Parser):
        __slots__ = ("__weakref__",)

    gc.disable()
    try:
        parser = Watched()
        parser.feed(text)
        references = [weakref.ref(parser), weakref.ref(parser._send.__self__)]  # type: ignore[attr-defined]
        del parser
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()
