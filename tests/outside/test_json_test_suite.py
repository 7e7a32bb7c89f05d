"""conformance/json_test_suite: accepted, refused at the exact character, or truncated.

Of its n_ files 156 are malformed and 32 are truncated. Two of the latter exceed the depth limit.
"""

from collections import Counter
from pathlib import Path

import pytest

from argstream.jsonstream import Invalid, Parser
from argstream.testing import chunkings, cut
from tests.reference import judge
from tests.support import encode, every_way, exact, loads, run

TOO_DEEP = {"n_structure_100000_opening_arrays.json", "n_structure_open_array_object.json"}


def files(suite: Path, prefix: str) -> list[tuple[str, bytes]]:
    paths = sorted((suite / "test_parsing").glob(f"{prefix}_*.json"))
    return [(path.name, path.read_bytes()) for path in paths]


def test_y_files_equal_json_loads_and_every_prefix_is_open(json_test_suite: Path) -> None:
    accepted = files(json_test_suite, "y")
    assert len(accepted) == 95
    for name, data in accepted:
        expected = repr(loads(data))
        for chunking, chunks in every_way(data.decode()):
            parser, _ = run(chunks)
            assert parser.verdict == "complete", (name, chunking)
            assert repr(parser.value) == expected, (name, chunking)
        parser = Parser()
        for byte in cut(data, [1]):
            assert parser.verdict == "open", name
            parser.feed(byte)
        assert parser.verdict == "open", name


def test_n_files_are_refused_at_the_exact_character(json_test_suite: Path) -> None:
    verdicts: Counter[str] = Counter()
    compared = 0
    for name, data in files(json_test_suite, "n"):
        parser, fragments = run([data])
        assert isinstance(fragments[-1], Invalid), name
        too_deep = fragments[-1].reason == "too_deep"
        assert too_deep == (name in TOO_DEEP), name
        verdicts["too_deep" if too_deep else parser.verdict] += 1
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        if not too_deep:
            parser, _ = run([text])
            assert (parser.verdict, parser.offset) == judge(text), name
            compared += 1
    assert verdicts == {"malformed": 156, "truncated": 30, "too_deep": 2}
    assert compared > 150


@pytest.mark.parametrize("prefix", ["n", "i"])
def test_chunking_changes_nothing(json_test_suite: Path, prefix: str) -> None:
    for name, data in files(json_test_suite, prefix):
        beginning = data[:5_000]  # of two files that repeat one thing 100,000 times
        _, expected = run([beginning])
        try:
            ways = list(every_way(beginning.decode()))
        except UnicodeDecodeError:
            ways = [*chunkings(beginning)]
        for chunking, chunks in ways:
            assert exact(run(chunks)[1]) == exact(expected), (name, chunking)


def test_i_files_have_a_verdict_and_raise_nothing(json_test_suite: Path) -> None:
    seen = files(json_test_suite, "i")
    assert len(seen) == 35
    for name, data in seen:
        parser, fragments = run([data])
        assert parser.verdict in ("complete", "malformed", "truncated"), name
        encode([fragments, parser.value])


def test_transform_files_have_the_value_of_json_loads(json_test_suite: Path) -> None:
    paths = sorted((json_test_suite / "test_transform").glob("*.json"))
    assert len(paths) == 22
    for path in paths:
        data = path.read_bytes()
        try:
            expected = loads(data.decode())
        except UnicodeDecodeError:
            assert run([data])[0].verdict == "malformed", path.name
        else:
            for name, chunks in chunkings(data):
                assert repr(run(chunks)[0].value) == repr(expected), (path.name, name)
