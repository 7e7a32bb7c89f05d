"""The parts of argstream.js: its reader of server-sent events, its JSON, and large inputs."""

import json
from pathlib import Path
from typing import Any

import pytest

from argstream.wire import Broken, SseDecoder
from tests.server.nodes import run_node

STREAMS = [
    'data: {"a": 1}\n\n',
    "data: one\r\ndata: two\r\n\r\ndata: three\r\r",
    "data:one\ndata:  two\ndata\n\ndata\n\n",
    ": a comment\n\nretry: 1500\nid: 7\nevent: x\ndata: y\n\n:\n\n",
    "retry: 1.5\nretry: -1\nretry: \nretry: x\n\ndata: z\n\n",
    "\r\n\r\n\n\r\rdata: late\r\n\ndata: never ended",
    "data: é😀\u2028\u2029\x85\x0b\x0c\x1c\n\nDATA: no\n data: no\ndata : no\n\n",
    "data: a: b:c\n\ndata:: d\n\n",
    "id: 1\rdata: x\r\rid: 2\rdata: y\r\r",
    ": only\r\n: comments\r\n\r\n",
]

INTEGERS = [
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "12345678901234567890",
    "-" + "9" * 400,
    "1" + "0" * 4000,
    "0",
    "-1",
]
VALUES = [
    *INTEGERS,
    f"[{', '.join(INTEGERS)}]",
    f'{{"a": {{"b": [{INTEGERS[2]}, "{INTEGERS[2]}"]}}, "{INTEGERS[2]}": {INTEGERS[3]}}}',
    '"9007199254740993"',
    '["\\"9007199254740993", "\\\\", 9007199254740993, "\\u0022, 9007199254740993"]',
    "[-0.0, 1.5, 123456789012345680000.0, 9007199254740993]",
    "1.2345678901234567",
    "0.00000000000000012345678901234567890",
    "-123456789012345678.5",
    "12345678901234567e2",
    "1234567890123456789E-3",
    '{"__proto__": 9007199254740993, "constructor": {"__proto__": [1234567890123456789]}}',
    " [ 1234567890123456789 , true, false, null ]\n",
]
REFUSED = [
    "{1234567890123456789: 1}",
    "01234567890123456789",
    "+1234567890123456789",
    "1234567890123456789 1",
    "[1234567890123456789",
    '"1234567890123456789',
    "--1234567890123456789",
    "",
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """All that Node says, in one go."""
    file: Path = tmp_path_factory.mktemp("units") / "units.json"
    file.write_text(json.dumps({"streams": STREAMS, "numbers": [*VALUES, *REFUSED]}))
    return run_node("argstream_js_units.mjs", str(file))


def of(told: list[dict[str, Any]], test: str) -> list[dict[str, Any]]:
    return [one for one in told if one["test"] == test]


def test_streams_are_read_the_same_however_they_are_cut(told: list[dict[str, Any]]) -> None:
    for stream, read in zip(STREAMS, of(told, "stream"), strict=True):
        decoder = SseDecoder()
        data = []
        for event in decoder.feed(stream.encode()):
            assert not isinstance(event, Broken)
            data.append(event.data.decode())
        retry = None if decoder.retry is None else decoder.retry / 1_000
        assert read["ways"] == [{"data": data, "retry": retry}]


def test_bytes_may_be_cut_anywhere(told: list[dict[str, Any]]) -> None:
    assert [one["prompts"] for one in of(told, "bytes")] == [["é😀\u2028\ufeff stopped"]]


def test_integers_stay_what_they_are_in_every_engine(told: list[dict[str, Any]]) -> None:
    [read] = of(told, "numbers")
    assert read["new"] == read["old"]
    expected = [json.loads(text) for text in VALUES]
    values = [one["value"] for one in read["new"][: len(VALUES)]]
    assert list(map(repr, values)) == list(map(repr, expected))
    assert [type(value) for value in values[: len(INTEGERS)]] == [int] * len(INTEGERS)


def test_what_is_no_json_is_refused_in_every_engine(told: list[dict[str, Any]]) -> None:
    [read] = of(told, "numbers")
    for engine in ("new", "old"):
        assert read[engine][len(VALUES) :] == [{"refused": "SyntaxError"}] * len(REFUSED)


def test_the_rest_is_written_as_javascript_writes_it(told: list[dict[str, Any]]) -> None:
    assert of(told, "as stringify") == [{"test": "as stringify", "same": True}]


def test_integers_are_written_as_they_are_also_where_a_page_has_taught_them_json(
    told: list[dict[str, Any]],
) -> None:
    assert [one["text"] for one in of(told, "helped")] == [
        '{"huge":[1180591620717411303424,-0.0,1.152921504606847e+18]}'
    ]


def test_what_comes_in_many_pieces_is_read_once(told: list[dict[str, Any]]) -> None:
    size = 64 * 150_000
    assert of(told, "large frame")[0]["lengths"] == [size]
    assert of(told, "large run")[0]["lengths"] == [size] * 4


def test_what_a_snapshot_knows_nothing_of_is_let_go(told: list[dict[str, Any]]) -> None:
    [scene] = of(told, "lost end")
    assert (scene["isKept"], scene["isFresh"], scene["isLost"]) == (True, True, True)
    assert scene["place"] == [4, "talk"]
