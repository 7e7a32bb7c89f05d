"""Arguments that come as values: the text that is written for them, and what it makes of a call."""

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import inf, nan
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.assembly import Call, Numbering
from argstream.assembly._assembler import EventBuilder
from argstream.assembly._text_repair import JsonWriter, UnwritableError
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    Event,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
)
from argstream.jsonstream import Done, Limits, Parser
from argstream.jsonstream._parser import DEFAULT_LIMITS
from argstream.providers._deltas import (
    ArgumentValue,
    CallClosed,
    CallOpened,
    Delta,
    TurnClosed,
    TurnEnded,
)
from argstream.testing import cut
from tests.growth import BOUND, growth
from tests.provider_streams import of_type
from tests.support import exact

Path = tuple[str | int, ...]
Put = tuple[Path, Any] | tuple[Path, Any, bool]
"""A leaf at its path, and whether it is a piece of a string that goes on."""

CLOSED = CallClosed(0)

_keys = st.text(max_size=3) | st.sampled_from(["a", "b", 'quo"te', "0", "é😀"])
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
)
# Empty containers are nobody's leaf, so they are not in here.
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4)
        | st.dictionaries(_keys, inner, min_size=1, max_size=4)
    ),
    max_leaves=12,
)
_arguments: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    _keys, _values, min_size=1, max_size=4
)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All leaves, in document order."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from leaves(part, (*path, index))
    else:
        yield path, value


def pieces(path: Path, value: Any, sizes: list[int]) -> list[Put]:
    """A leaf as it is sent: a string in pieces, of which the last one ends it."""
    if not isinstance(value, str):
        return [(path, value)]
    return [*((path, piece, True) for piece in cut(value, sizes)), (path, "")]


def write(puts: Iterable[Put], limits: Limits = DEFAULT_LIMITS) -> list[str]:
    writer = JsonWriter(limits)
    texts = [writer.put(path, value, more=any(more)) for path, value, *more in puts]
    assert not writer.has_late
    return [*texts, writer.close()]


def run(
    puts: Iterable[Put], *, end: Delta | None = CLOSED, limits: Limits | None = None
) -> tuple[Call, list[Event]]:
    """Give all to a call, close it, and end its turn."""
    builder = EventBuilder(Numbering(), limits, ())
    deltas: list[Delta] = [CallOpened(0, "c", "tool")]
    deltas += [ArgumentValue(0, path, value, any(more)) for path, value, *more in puts]
    if end is not None:
        deltas.append(end)
    deltas += [TurnEnded("STOP", "finished"), TurnClosed()]
    events: list[Event] = []
    builder.take(deltas, events)
    (call,) = builder.calls
    return call, events


def same(found: Any, value: Any) -> bool:
    """Compare exactly: in Python, 1 equals True."""
    return json.dumps(found, sort_keys=True) == json.dumps(value, sort_keys=True)


def test_a_leaf_is_written_when_it_comes() -> None:
    puts: list[Put] = [
        (("a",), "x"),
        (("b", "c", 0), True),
        (("b", "c", 1), None),
        (("b", "d"), "y"),
        (("e", 0, 0), "z"),
        (("e", 1, "f"), [1, {}]),
    ]
    assert write(puts) == [
        *('{"a":"x"', ',"b":{"c":[true', ",null", '],"d":"y"', '},"e":[["z"', '],{"f":[1,{}]'),
        "}]}",
    ]


def test_a_string_grows_by_its_pieces() -> None:
    puts: list[Put] = [
        (("a", "b"), "", True),
        (("a", "b"), 'say "', True),
        (("a", "b"), "\n", True),
        (("a", "b"), ""),
        (("a", "c"), "d"),
    ]
    assert write(puts) == ['{"a":{"b":"', r"say \"", r"\n", '"', ',"c":"d"', "}}"]


def test_a_number_is_known_to_be_over_at_once() -> None:
    """JSON says so only by what follows, and the next leaf may be long in coming."""
    builder = EventBuilder(Numbering(), None, ())
    events: list[Event] = []
    builder.take([CallOpened(0, "c", "tool"), ArgumentValue(0, ("a",), 0.5)], events)
    assert events[-1] == ArgumentCompleted("c", "tool", ("a",), 0.5)


def test_a_string_that_is_left_open_is_ended_by_the_next_leaf_or_by_the_close() -> None:
    assert "".join(write([(("a",), "x", True), (("b",), "y", True)])) == '{"a":"x","b":"y"}'


@given(_arguments, st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_leaves_in_document_order_make_the_text_of_their_value(
    value: dict[str, Any], sizes: list[int]
) -> None:
    puts = [put for path, leaf in leaves(value) for put in pieces(path, leaf, sizes)]
    texts = write(puts)
    assert same(json.loads("".join(texts)), value)
    parser = Parser(unique_keys=True)
    fragments = [fragment for text in texts for fragment in parser.feed(text)]
    fragments += parser.close()
    whole = Parser(unique_keys=True)
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    expected = [*whole.feed(compact), *whole.close()]

    def without_offsets(found: Any) -> list[tuple[str, ...]]:
        return [entry if entry[0] == "Text" else entry[:-1] for entry in exact(found)]

    assert without_offsets(fragments) == without_offsets(expected)


@given(_arguments)
def test_each_leaf_is_done_with_its_own_text(value: dict[str, Any]) -> None:
    writer, parser = JsonWriter(DEFAULT_LIMITS), Parser()
    for path, leaf in leaves(value):
        fragments = parser.feed(writer.put(path, leaf))
        done = [fragment for fragment in fragments if isinstance(fragment, Done)]
        assert done[-1].path == path
        assert same(done[-1].value, leaf)


@given(_arguments, st.lists(st.integers(1, 5), min_size=1, max_size=4), st.randoms())
def test_in_any_order_a_call_gets_the_value_of_all_leaves(
    value: dict[str, Any], sizes: list[int], random: Random
) -> None:
    """Also strings whose pieces come between those of others."""
    queues = [pieces(path, leaf, sizes) for path, leaf in leaves(value)]
    puts: list[Put] = []
    while queues:
        queue = random.choice(queues)
        puts.append(queue.pop(0))
        if not queue:
            queues.remove(queue)
    call, events = run(puts)
    assert call.verdict == "complete"
    assert same(call.arguments, value)
    streamed = "".join(event.delta for event in of_type(events, ToolArgsDelta))
    assert streamed == call.raw
    # If the text is not all of it, that is told.
    assert (call.reinterpreted is None) == same(json.loads(streamed), value)
    # And what was shown is true: each value that was completed, but for strings that went on.
    for event in of_type(events, ArgumentCompleted):
        if isinstance(event.value, str):
            assert at(value, event.path).startswith(event.value)
        elif not isinstance(event.value, dict | list):
            assert same(at(value, event.path), event.value)


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


@pytest.mark.parametrize(
    ("puts", "streamed"),
    [
        ([(("a", "b"), 1), (("c",), "x"), (("a", "d"), 2)], '{"a":{"b":1 },"c":"x"}'),
        ([(("a", 1), "y"), (("a", 0), "x")], '{"a":["x"]}'),
        ([(("a", 0), "x"), (("b",), None), (("a", 1), "y")], '{"a":["x"],"b":null}'),
        ([(("a", 1, "b"), True), (("a", 0, "b"), False)], '{"a":[{"b":false}]}'),
    ],
)
def test_a_leaf_that_cannot_be_written_any_more_waits_for_the_close(
    puts: list[tuple[Path, Any]], streamed: str
) -> None:
    call, events = run(puts)
    assert (call.verdict, call.reinterpreted) == ("complete", "restated")
    assert call.raw == streamed
    expected: dict[str, Any] = {}
    for path, value in puts:
        put(expected, path, value)
    assert call.arguments == expected
    assert of_type(events, ToolArgsCompleted)[0].arguments == expected


def put(root: Any, path: Path, value: Any) -> None:
    """Put a value where it belongs, the naive way."""
    for key, below in pairwise(path):
        make_room(root, key)
        if root[key] is None:
            root[key] = [] if isinstance(below, int) else {}
        root = root[key]
    make_room(root, path[-1])
    root[path[-1]] = value


def make_room(container: Any, key: str | int) -> None:
    if isinstance(key, int):
        container.extend([None] * (key + 1 - len(container)))
    else:
        container.setdefault(key, None)


def test_a_field_of_a_container_that_is_still_open_does_not_wait() -> None:
    puts: list[Put] = [
        (("a", "b", "c"), 1),
        (("a", "d"), 2),
        (("e",), 3),
    ]
    call, _ = run(puts)
    assert call.raw == '{"a":{"b":{"c":1 },"d":2 },"e":3 }'
    assert call.reinterpreted is None


def test_what_waits_does_not_end_the_string_that_is_open() -> None:
    puts: list[Put] = [
        (("a", 1), "late"),
        (("b",), "one ", True),
        (("a", 2), "later"),
        (("b",), "string"),
        (("a", 0), "last"),
    ]
    call, events = run(puts)
    assert [event.text for event in of_type(events, ArgumentDelta)] == ["one ", "string", "last"]
    assert call.arguments == {"a": ["last", "late", "later"], "b": "one string"}


def test_a_call_of_which_all_waits_is_not_taken_for_one_without_arguments() -> None:
    call, _ = run([(("a", 1), "y"), (("a", 0), "x")], end=None)
    assert call.arguments == {"a": ["x", "y"]}
    call, _ = run([(("a", 1), "y")])
    assert call.verdict == "malformed"


CONTRADICTIONS: dict[str, list[Put]] = {
    "the same twice": [(("a",), 1), (("a",), 1)],
    "another value": [(("a",), "x"), (("a",), "y")],
    "more of a string that was over": [
        (("a",), "x", True),
        (("a",), ""),
        (("a",), "y", True),
    ],
    "a string that goes on as a number": [(("a",), "x", True), (("a",), 1)],
    "a string, left open, that goes on as a number": [
        (("a",), "x", True),
        (("b",), 1),
        (("a",), 1),
    ],
    "a part of a string": [(("a",), "x"), (("a", "b"), 1)],
    "a part of an open string": [(("a",), "x", True), (("a", "b"), 1)],
    "a part of what came whole": [(("a",), {"b": 1}), (("a", "c"), 1)],
    "a value for a container": [(("a", "b"), 1), (("a",), 1)],
    "a value for a container that was left": [
        (("a", "b"), 1),
        (("c",), 1),
        (("a",), 1),
    ],
    "an index in an object": [(("a", "b"), 1), (("a", 0), 1)],
    "a key in an array": [(("a", 0), 1), (("a", "0"), 1)],
    "an index in the root": [(("a",), 1), ((0,), 1)],
    "what waits twice": [(("a", 1), 1), (("a", 1), 1)],
    "a part of what waits": [(("a", 1), 1), (("a", 1, "b"), 1)],
    "an element that never came": [(("a", 0), 1), (("a", 2), 1)],
    "an element far away": [(("a", 10**9), 1)],
    "an array for the arguments": [((0,), 1)],
    "a negative index": [(("a", -1), 1)],
    "a whole beside its parts": [(("a",), 1), ((), {"b": 1})],
    "a piece that is no string": [(("a",), 1, True)],
    "a piece of the whole": [((), "x", True)],
    "no number": [(("a",), nan)],
    "an infinite number": [(("a",), inf)],
    "an infinite number inside": [(("a",), [-inf])],
    "an infinite number that waits": [(("a", 1), inf), (("a", 0), 1)],
    "too deep": [(("a",) * 257, 1)],
    "absurdly deep": [((0,) * 10**5, 1)],
}


@pytest.mark.parametrize("puts", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_what_contradicts_itself_is_malformed(puts: list[Put]) -> None:
    call, events = run([*puts, (("z",), "more")])
    assert call.verdict == "malformed"
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert len(invalid.error.path) <= DEFAULT_LIMITS.max_depth
    assert not of_type(events, ToolArgsCompleted)


def test_an_error_says_where_it_is() -> None:
    _, events = run(CONTRADICTIONS["a key in an array"])
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert (invalid.error.reason, invalid.error.path) == ("contradicted", ("a",))
    _, events = run([(("a",) * 3, 1)], limits=Limits(max_depth=2))
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert (invalid.error.reason, invalid.error.path) == ("too_deep", ("a", "a"))


def test_the_deepest_path_that_is_allowed_can_be_written() -> None:
    call, _ = run([(("a",) * 256, 1)])
    assert call.verdict == "complete"


def test_a_call_that_is_cut_is_not_saved_by_what_waits() -> None:
    puts: list[Put] = [(("a", 1), "y"), (("a", 0), "x")]
    call, _ = run(puts, end=CallClosed(0, cut=True))
    assert call.verdict == "truncated"


def test_a_value_for_a_call_that_is_complete_is_told() -> None:
    builder = EventBuilder(Numbering(), None, ())
    events: list[Event] = []
    deltas: list[Delta] = [
        CallOpened(0, "c", "tool"),
        ArgumentValue(0, ("a",), "x"),
        CallClosed(0),
        ArgumentValue(0, ("b",), "y"),
    ]
    builder.take(deltas, events)
    (failed,) = of_type(events, StreamFailed)
    assert failed.code == "late_text"
    assert builder.calls[0].arguments == {"a": "x"}


def test_halves_of_characters_are_joined_across_pieces() -> None:
    puts: list[Put] = [(("a",), "\ud83d", True), (("a",), "\ude00"), (("b",), "c")]
    call, _ = run(puts)
    assert call.arguments == {"a": "😀", "b": "c"}


def test_keys_that_cannot_be_encoded_are_found_again() -> None:
    key = "\ud83d"
    call, _ = run([((key, "a"), 1), (("b",), 2), ((key, "c"), 3)])
    assert call.arguments == {"\ufffd": {"a": 1, "c": 3}, "b": 2}


def test_a_refused_value_leaves_the_writer_usable() -> None:
    writer = JsonWriter(DEFAULT_LIMITS)
    text = writer.put(("a",), 1)
    with pytest.raises(UnwritableError):
        writer.put(("a",), 2)
    assert json.loads(text + writer.put(("b",), 2) + writer.close()) == {"a": 1, "b": 2}


def test_the_cost_of_a_leaf_does_not_grow_with_what_came_before() -> None:
    def job(size: int) -> Any:
        puts = [
            (("rows", index, "name"), piece, more)
            for index in range(size)
            for piece, more in (("abc", True), ("def", True), ("", False))
        ]
        return lambda: write(puts)

    assert growth(job, 5000) < BOUND


def test_the_cost_of_what_waits_does_not_grow_with_how_much_waits() -> None:
    def job(size: int) -> Any:
        puts: list[Put] = [(("rows", index), "x") for index in reversed(range(size))]
        return lambda: run(puts)

    assert growth(job, 5000) < BOUND
