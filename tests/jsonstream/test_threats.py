"""What must not happen: the rows of the threat list that concern a parser."""

import gc
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable, Sequence

import pytest

from argstream.jsonstream import Limits, Parser, ToolArgStream
from argstream.testing import cut
from tests.growth import BOUND, growth
from tests.support import every_way, feed_all, run


class TestDeepNesting:
    @pytest.mark.bulk
    @pytest.mark.parametrize("size", [1, 7, 256, 1_000_000])
    @pytest.mark.parametrize("opening", ["[", '{"a":'])
    def test_a_million_openings_hit_the_limit_at_depth_256(self, opening: str, size: int) -> None:
        parser = feed_all(cut(opening * 1_000_000, [size]))
        assert parser.error is not None
        assert (parser.error.reason, parser.error.offset) == ("too_deep", 256 * len(opening))

    def test_nothing_recurses(self) -> None:
        depth = 3 * sys.getrecursionlimit()
        parser = feed_all(["[" * depth + "]" * depth], Limits(max_depth=depth))
        assert parser.close() == []
        assert parser.verdict == "complete"


class TestGiantNumbers:
    def test_4300_digits_are_a_number(self) -> None:
        for name, chunks in every_way("1" * 4300 + " "):
            assert run(chunks)[0].value == int("1" * 4300), name

    @pytest.mark.parametrize("digits", [4301, 1_000_000])
    @pytest.mark.parametrize("template", ["{}", "[-{}]", "[0.{}]", "[1e{}]"])
    def test_more_are_a_typed_limit_in_less_than_a_second(self, digits: int, template: str) -> None:
        text = template.format("1" * digits)
        chunks = cut(text, [16])
        start = time.process_time()
        parser = feed_all(chunks)
        assert time.process_time() - start < 1
        assert parser.error is not None
        assert parser.error.reason == "number_too_long"
        # At the first digit too many: of all digits, those before the point and exponent included.
        assert sum(char.isdigit() for char in text[: parser.error.offset]) == 4300
        assert text[parser.error.offset].isdigit()


@pytest.mark.timing
class TestManyTinyChunks:
    """Invariant 6: linear, whatever the value looks like, with the value read after every chunk."""

    @staticmethod
    def feed_and_read(chunks: Sequence[str | bytes]) -> Callable[[], None]:
        limits = Limits(max_chars=2**30, max_digits=2**30, max_key_chars=2**30)

        def action() -> None:
            parser = Parser(limits)
            for chunk in chunks:
                parser.feed(chunk)
                assert parser.value is not None

        return action

    @pytest.mark.timeout(240)
    @pytest.mark.parametrize("size", [2**20, 2**22, 2**23])
    def test_one_long_string_up_to_16_mib(self, size: int) -> None:
        def job(length: int) -> Callable[[], None]:
            return self.feed_and_read(['{"content": "', *["lore", "m ip"] * (length // 8)])

        assert growth(job, size) <= BOUND

    @pytest.mark.parametrize(
        ("before", "unit"),
        [
            ('["', r"\t\\"),
            ('["', r"\u00e9"),
            ('["', r"\ud83d\ude00"),
            ('["', "\xa0\x7f"),
            ('["', r"short \u00e9 and slow "),
            ("[", '{"id": 12, "ok": true}, '),
            ("[", "[[]], "),
            ("[", "     \n"),
            ("[", "12, "),
            ('{"', "key "),
            ("[1.", "1234"),
        ],
    )
    @pytest.mark.parametrize("size", [2**16, 2**18])
    def test_everything_else_up_to_half_a_mib(self, before: str, unit: str, size: int) -> None:
        def job(length: int) -> Callable[[], None]:
            return self.feed_and_read(cut(before + unit * (length // len(unit)), [4]))

        assert growth(job, size) <= BOUND

    def test_bytes(self) -> None:
        def job(length: int) -> Callable[[], None]:
            data = ('["' + "lorem é ip" * (length // 10)).encode()
            return self.feed_and_read(cut(data, [4]))

        assert growth(job, 2**18) <= BOUND

    @pytest.mark.parametrize("chunk", [4, 2**30])
    def test_the_fields_of_a_tool_call(self, chunk: int) -> None:
        def job(length: int) -> Callable[[], object]:
            fields = ",".join(f'"key {number}": {number}' for number in range(length // 20))
            chunks = cut("{" + fields + "}", [chunk])

            def feed() -> None:
                stream = ToolArgStream("call")
                for piece in chunks:
                    stream.feed(piece)

            return feed

        assert growth(job, 2**17) <= BOUND

    def test_many_strings_that_grow_side_by_side(self) -> None:
        def job(length: int) -> Callable[[], None]:
            def feed_in_turn() -> None:
                parsers = [Parser() for _ in range(50)]
                for parser in parsers:
                    parser.feed('"')
                for _ in range(length // 8):
                    for parser in parsers:
                        parser.feed("lorem ip")

            return feed_in_turn

        assert growth(job, 20_000) <= BOUND


@pytest.mark.timing
class TestMemory:
    def test_an_open_string_costs_at_most_4_bytes_per_character(self) -> None:
        chunk = "lorem ip"
        tracemalloc.start()
        try:
            parser = Parser()
            parser.feed('{"content": "')
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            for _ in range(1_000_000 // len(chunk)):
                parser.feed(chunk)
            now, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert now - before <= 4 * 1_000_000
        assert peak - before <= 4 * 1_000_000

    @pytest.mark.parametrize("text", ['{"a": ["x', "[1, 2]", "[x]", '{"k'])
    def test_an_abandoned_parser_is_freed_at_once(self, text: str) -> None:
        class Watched(Parser):
            __slots__ = ("__weakref__",)

        gc.disable()  # at once: without the help of the collector
        try:
            parser = Watched()
            parser.feed(text)
            reference = weakref.ref(parser)
            reader = weakref.ref(parser._send.__self__)  # type: ignore[attr-defined]
            del parser
            assert reference() is None
            assert reader() is None
        finally:
            gc.enable()


class TestEmptyChunks:
    def test_they_change_nothing_anywhere(self) -> None:
        text = r'{"a": [1.5e3, true, "x\ud83d\ude00y"], "b": null}'
        expected = run(cut(text, [1]))[1]
        for empty in ("", b"", bytearray(), memoryview(b"")):
            chunks: list[str | bytes] = []
            for char in cut(text, [1]):
                chunks += [empty, char, empty]  # type: ignore[list-item]
            assert run(chunks)[1] == expected
