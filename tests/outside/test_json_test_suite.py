"""conformance/json_test_suite: accept, refuse at the right character, or call it cut off.

Of its n_ files 156 are malformed and 32 are merely cut off; two of the latter are so deep that they
hit the limit first.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from argstream.jsonstream import Invalid, Limits, Parser
from argstream.testing import chunkings, cut
from tests.reference import judge
from tests.support import encode, every_way, exact, feed_all, loads, program_is_missing, run

TOO_DEEP = {"n_structure_100000_opening_arrays.json", "n_structure_open_array_object.json"}


@pytest.fixture(scope="session")
def suite(outside_data: Path) -> Path:
    folder = outside_data / "conformance" / "json_test_suite"
    if not folder.is_dir():
        program_is_missing(f"outside data is absent: {folder}")
    return folder


def files(suite: Path, prefix: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted((suite / "test_parsing").glob(f"{prefix}_*.json")):
        yield path.name, path.read_bytes()


def test_y_files_are_accepted_with_the_value_of_json_loads(suite: Path) -> None:
    accepted = 0
    for name, data in files(suite, "y"):
        expected = repr(loads(data))
        for chunking, chunks in every_way(data.decode()):
            parser, _ = run(chunks)
            assert parser.verdict == "complete", (name, chunking)
            assert repr(parser.value) == expected, (name, chunking)
        accepted += 1
    assert accepted == 95


def test_n_files_are_refused_as_malformed_or_truncated(suite: Path) -> None:
    verdicts: Counter[str] = Counter()
    for name, data in files(suite, "n"):
        parser, fragments = run([data])
        assert isinstance(fragments[-1], Invalid), name
        verdicts["too_deep" if fragments[-1].reason == "too_deep" else parser.verdict] += 1
        assert (fragments[-1].reason == "too_deep") == (name in TOO_DEEP), name
    assert verdicts == {"malformed": 156, "truncated": 30, "too_deep": 2}


def test_n_files_are_refused_at_the_exact_character(suite: Path) -> None:
    compared = 0
    for name, data in files(suite, "n"):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        if name not in TOO_DEEP:
            parser, _ = run([text])
            assert (parser.verdict, parser.offset) == judge(text), name
            compared += 1
    assert compared > 150


@pytest.mark.parametrize("prefix", ["n", "i"])
def test_every_chunking_says_the_same(suite: Path, prefix: str) -> None:
    for name, data in files(suite, prefix):
        beginning = data[:5_000]  # of two files that repeat one thing 100,000 times
        _, expected = run([beginning])
        try:
            ways = list(every_way(beginning.decode()))
        except UnicodeDecodeError:
            ways = [*chunkings(beginning)]
        for chunking, chunks in ways:
            assert exact(run(chunks)[1]) == exact(expected), (name, chunking)


def test_i_files_have_a_verdict_and_raise_nothing(suite: Path) -> None:
    seen = 0
    for name, data in files(suite, "i"):
        parser, fragments = run([data])
        assert parser.verdict in ("complete", "malformed", "truncated"), name
        encode([fragments, parser.value])
        seen += 1
    assert seen == 35


def test_every_prefix_of_a_y_file_is_open(suite: Path) -> None:
    prefixes = 0
    for name, data in files(suite, "y"):
        parser = Parser()
        for byte in cut(data, [1]):
            assert parser.verdict == "open", (name, prefixes)
            parser.feed(byte)
            prefixes += 1
        assert parser.verdict == "open", name
    assert prefixes > 1_000


def test_the_same_depth_limit_in_every_chunking(suite: Path) -> None:
    for name in TOO_DEEP:
        data = (suite / "test_parsing" / name).read_bytes()
        for size in (1, 7, len(data)):
            parser = feed_all(cut(data, [size]))
            assert parser.error is not None
            assert parser.error.reason == "too_deep"
            assert len(parser.error.path) == Limits().max_depth


def test_transform_files_have_the_value_of_json_loads(suite: Path) -> None:
    transformed = 0
    for path in sorted((suite / "test_transform").glob("*.json")):
        data = path.read_bytes()
        try:
            expected = loads(data.decode())
        except UnicodeDecodeError:
            assert run([data])[0].verdict == "malformed", path.name
        else:
            for name, chunks in chunkings(data):
                assert repr(run(chunks)[0].value) == repr(expected), (path.name, name)
        transformed += 1
    assert transformed == 22
