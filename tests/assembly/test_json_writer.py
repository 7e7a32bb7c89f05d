"""Arguments that come as values: the text written for them, and the call that it makes."""

import json
from collections.abc import Callable, Iterable, Iterator
from math import inf, nan
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import events as ev
from argstream.assembly import Assembler, Call
from argstream.assembly._text_repair import JsonWriter
from argstream.jsonstream import Done, Limits, Parser, parse
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
_scalars = st.sampled_from([None, True, False, 1, 1.0, -0.5, 1e300, 10**20]) | st.text(max_size=8)
# Without empty containers, which have no leaves.
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(_keys, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)
_arguments = st.dictionaries(_keys, _values, min_size=1, max_size=3)


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


def take(*deltas: Delta, limits: Limits | None = None) -> tuple[Call, list[ev.Event]]:
    assembler = Assembler(limits=limits)
    events: list[ev.Event] = []
    assembler._apply(deltas, events)
    (call,) = assembler.calls
    return call, events


def run(
    puts: Iterable[Put], *, end: Delta | None = CLOSED, limits: Limits | None = None
) -> tuple[Call, list[ev.Event]]:
    """Feed all values to a call, close it, and end its turn."""
    values = [ArgumentValue(0, path, value, any(more)) for path, value, *more in puts]
    closing = [*([] if end is None else [end]), TurnEnded("STOP", "finished"), TurnClosed()]
    return take(CallOpened(0, "c", "tool"), *values, *closing, limits=limits)


def same(found: Any, value: Any) -> bool:
    """Compare exactly: in Python, 1 equals True."""
    return json.dumps(found, sort_keys=True) == json.dumps(value, sort_keys=True)


@given(_arguments, st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_leaves_in_document_order_write_the_text_of_their_value(
    value: dict[str, Any], sizes: list[int]
) -> None:
    puts = [put for path, leaf in leaves(value) for put in pieces(path, leaf, sizes)]
    texts = write(puts)
    assert same(json.loads("".join(texts)), value)
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    fragments, expected = list(parse(texts, unique_keys=True)), list(parse(compact))

    def without_offsets(found: Any) -> list[tuple[str, ...]]:
        return [entry if entry[0] == "Text" else entry[:-1] for entry in exact(found)]

    assert without_offsets(fragments) == without_offsets(expected)
    # A leaf that comes at once is complete with its own text.
    writer, parser = JsonWriter(DEFAULT_LIMITS), Parser()
    for path, leaf in leaves(value):
        fragments = parser.feed(writer.put(path, leaf))
        done = [fragment for fragment in fragments if isinstance(fragment, Done)]
        assert done[-1].path == path
        assert same(done[-1].value, leaf)


@given(_arguments, st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers())
def test_in_any_order_a_call_gets_the_value_of_all_leaves(
    value: dict[str, Any], sizes: list[int], seed: int
) -> None:
    """Also strings whose pieces come between those of others."""
    random = Random(seed)
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
    streamed = "".join(event.delta for event in of_type(events, ev.ToolArgsDelta))
    assert streamed == call.raw
    # A call whose text is not all of it is marked.
    assert (call.reinterpreted is None) == same(json.loads(streamed), value)
    # Each completed value is true, except that a string may have gone on.
    for event in of_type(events, ev.ArgumentCompleted):
        if isinstance(event.value, str):
            assert at(value, event.path).startswith(event.value)
        elif not isinstance(event.value, dict | list):
            assert same(at(value, event.path), event.value)


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


@pytest.mark.parametrize(
    ("puts", "streamed", "arguments"),
    [
        ([(("a", "b"), 1), (("c",), "x"), (("a", "d"), 2)], '{"a":{"b":1 },"c":"x"}',
         {"a": {"b": 1, "d": 2}, "c": "x"}),
        ([(("a", 1), "y"), (("a", 0), "x")], '{"a":["x"]}', {"a": ["x", "y"]}),
        ([(("a", 0), "x"), (("b",), None), (("a", 1), "y")], '{"a":["x"],"b":null}',
         {"a": ["x", "y"], "b": None}),
        ([(("a", 1, "b"), True), (("a", 0, "b"), False)], '{"a":[{"b":false}]}',
         {"a": [{"b": False}, {"b": True}]}),
    ],
)  # fmt: skip
def test_late_leaf_waits_for_the_close(puts: list[Put], streamed: str, arguments: Any) -> None:
    call, events = run(puts)
    assert (call.verdict, call.reinterpreted, call.raw) == ("complete", "restated", streamed)
    assert call.arguments == of_type(events, ev.ToolArgsCompleted)[0].arguments == arguments
    assert run(puts, end=None)[0].arguments == arguments
    assert run(puts, end=CallClosed(0, cut=True))[0].verdict == "truncated"


def test_field_of_an_open_container_does_not_wait() -> None:
    call, _ = run([(("a", "b", "c"), 1), (("a", "d"), 2), (("e",), 3)])
    assert call.raw == '{"a":{"b":{"c":1 },"d":2 },"e":3 }'
    assert call.reinterpreted is None


def test_late_leaf_does_not_end_the_open_string() -> None:
    late: list[Put] = [(("a", 1), "late"), (("b",), "one ", True), (("a", 2), "later")]
    call, events = run([*late, (("b",), "string"), (("a", 0), "last")])
    assert [event.text for event in of_type(events, ev.ArgumentDelta)] == ["one ", "string", "last"]
    assert call.arguments == {"a": ["last", "late", "later"], "b": "one string"}


CONTRADICTIONS: dict[str, list[Put]] = {
    "the same twice": [(("a",), 1), (("a",), 1)],
    "another value": [(("a",), "x"), (("a",), "y")],
    "more of a string that was over": [(("a",), "x", True), (("a",), ""), (("a",), "y", True)],
    "a string that goes on as a number": [(("a",), "x", True), (("a",), 1)],
    "an open string that becomes a number": [(("a",), "x", True), (("b",), 1), (("a",), 1)],
    "a part of a string": [(("a",), "x"), (("a", "b"), 1)],
    "a part of an open string": [(("a",), "x", True), (("a", "b"), 1)],
    "a part of a whole value": [(("a",), {"b": 1}), (("a", "c"), 1)],
    "a value for a container": [(("a", "b"), 1), (("a",), 1)],
    "a value for a closed container": [(("a", "b"), 1), (("c",), 1), (("a",), 1)],
    "an index in an object": [(("a", "b"), 1), (("a", 0), 1)],
    "a key in an array": [(("a", 0), 1), (("a", "0"), 1)],
    "an index in the root": [(("a",), 1), ((0,), 1)],
    "a late leaf twice": [(("a", 1), 1), (("a", 1), 1)],
    "a part of a late leaf": [(("a", 1), 1), (("a", 1, "b"), 1)],
    "an element before the first": [(("a", 1), "y")],
    "an element that never came": [(("a", 0), 1), (("a", 2), 1)],
    "an element far away": [(("a", 10**9), 1)],
    "an array for the arguments": [((0,), 1)],
    "a negative index": [(("a", -1), 1)],
    "a whole beside its parts": [(("a",), 1), ((), {"b": 1})],
    "a piece that is no string": [(("a",), 1, True)],
    "a piece of the whole": [((), "x", True)],
    "not a number": [(("a",), nan)],
    "an infinite number": [(("a",), inf)],
    "an infinite number inside": [(("a",), [-inf])],
    "a late infinite number": [(("a", 1), inf), (("a", 0), 1)],
    "too deep": [(("a",) * 257, 1)],
    "absurdly deep": [((0,) * 10**5, 1)],
}


@pytest.mark.parametrize("puts", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradiction_is_malformed(puts: list[Put]) -> None:
    call, events = run([*puts, (("z",), "more")])
    assert call.verdict == "malformed"
    (invalid,) = of_type(events, ev.ToolArgsInvalid)
    assert len(invalid.error.path) <= DEFAULT_LIMITS.max_depth
    assert not of_type(events, ev.ToolArgsCompleted)


@pytest.mark.parametrize(
    ("puts", "max_depth", "reason", "path"),
    [
        (CONTRADICTIONS["a key in an array"], 256, "contradicted", ("a",)),
        ([(("a",) * 3, 1)], 2, "too_deep", ("a", "a")),
    ],
)
def test_error_has_a_reason_and_a_path(puts: Any, max_depth: int, reason: str, path: Path) -> None:
    (invalid,) = of_type(run(puts, limits=Limits(max_depth=max_depth))[1], ev.ToolArgsInvalid)
    assert (invalid.error.reason, invalid.error.path) == (reason, path)


def test_deepest_allowed_path_is_written() -> None:
    assert run([(("a",) * 256, 1)])[0].verdict == "complete"


def test_value_for_a_complete_call_is_a_failure() -> None:
    values = ArgumentValue(0, ("a",), "x"), ArgumentValue(0, ("b",), "y")
    call, events = take(CallOpened(0, "c", "tool"), values[0], CallClosed(0), values[1])
    assert [failed.code for failed in of_type(events, ev.StreamFailed)] == ["late_text"]
    assert call.arguments == {"a": "x"}


def test_surrogates_are_joined_across_pieces_and_replaced_in_keys() -> None:
    call, _ = run([(("a",), "\ud83d", True), (("a",), "\ude00"), (("b",), "c")])
    assert call.arguments == {"a": "😀", "b": "c"}
    key = "\ud83d"
    call, _ = run([((key, "a"), 1), (("b",), 2), ((key, "c"), 3)])
    assert call.arguments == {"\ufffd": {"a": 1, "c": 3}, "b": 2}


STRING_IN_PIECES = [("abc", True), ("def", True), ("", False)]


@pytest.mark.parametrize(
    ("use", "make_puts"),
    [
        (write, lambda size: [(("rows", index, "name"), piece, more)
                              for index in range(size) for piece, more in STRING_IN_PIECES]),
        (run, lambda size: [(("rows", index), "x") for index in reversed(range(size))]),
    ],
    ids=["in order", "late"],
)  # fmt: skip
def test_cost_is_linear_in_the_number_of_leaves(
    use: Callable[[list[Put]], object], make_puts: Callable[[int], list[Put]]
) -> None:
    def job(size: int) -> Callable[[], object]:
        puts = make_puts(size)
        return lambda: use(puts)

    assert growth(job, 1_000) < BOUND
