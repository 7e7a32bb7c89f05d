"""Nothing is left out: whole arguments, arguments in pieces, and arguments that are cut."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.events import ArgumentDelta
from argstream.jsonstream import JsonPath
from argstream.terminal import Command, Diff, File, Look, Plain, Table, ToolViews
from tests.terminal.looks.following import events, follow, is_shown, texts

NAMES = ["path", "content", "old", "new", "edits", "rows", "command", "language", "file", "x y"]
LOOKS: dict[str, Look] = {
    "file": File(),
    "diff": Diff(old="old", new="new"),
    "edits": Diff(old="old", new="new", within="edits"),
    "command": Command(),
    "table": Table(),
    "plain": Plain(),
}
ANY_LOOKS = ToolViews(LOOKS, read_file={"a.py": "one\ntwo\nthree\n", "b": ""}.get)

names = st.sampled_from(NAMES)
text = st.one_of(
    st.text(st.sampled_from('ab}"\\\n\n\t\r\x1b\u202e⟦日é'), max_size=24),
    st.sampled_from(["a.py", "b", "two", "one\ntwo\n", "x" * 90, "*** Begin Patch\n+x"]),
)
scalars = st.one_of(text, st.integers(-9, 99), st.booleans(), st.none())
rows = st.lists(st.dictionaries(names, st.one_of(scalars, text), max_size=4), max_size=7)
nested = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=8,
)
arguments = st.dictionaries(names, st.one_of(scalars, text, rows, nested), max_size=6)
tools = st.sampled_from([*LOOKS, "write_file", "edit", "something"])


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


@given(tools, arguments)
def test_approver_sees_every_character_of_arguments(name: str, complete: dict[str, Any]) -> None:
    lines = texts(ANY_LOOKS.whole(name, complete))
    for value in complete.values():
        for leaf in leaves(value):
            if leaf not in NAMES:  # a look replaces the names that it knows
                assert is_shown(leaf if isinstance(leaf, str) else json.dumps(leaf), lines), leaf


@given(tools, arguments, st.integers(1, 9))
def test_chunking_does_not_matter(name: str, complete: dict[str, Any], size: int) -> None:
    in_pieces = follow(complete, name, ANY_LOOKS, size=size)
    at_once = follow(complete, name, ANY_LOOKS, size=100_000)
    assert (in_pieces.title, in_pieces.lines) == (at_once.title, at_once.lines)


@given(tools, arguments, st.floats(0, 1))
def test_text_before_a_cut_is_shown(name: str, complete: dict[str, Any], part: float) -> None:
    raw = json.dumps(complete)
    raw = raw[: int(len(raw) * part)]
    seen = follow(raw, name, ANY_LOOKS)
    lines = [seen.title, *texts(seen.lines)]
    received: dict[JsonPath, str] = {}
    for event in events(raw, name, "function", 5):
        if isinstance(event, ArgumentDelta):
            received[event.path] = received.get(event.path, "") + event.text
    for value in received.values():
        assert is_shown(value, lines), value


@pytest.mark.parametrize(
    ("name", "complete", "lines"),
    [
        ("read", {"path": "a.py"}, ['  path = "a.py"']),  # the title is a line, too
        ("bash", {"command": "ls"}, ["  $ ls"]),
        ("patch", "*** Begin Patch\n+x", ["  │ *** Begin Patch", "  │ +x"]),
        ("t", {"a\n  b = 1": 1}, ['  ["a⟦LF⟧  b = 1"] = 1']),
        # Values and names that JSON does not have.
        ("t", {"a": (1, 2), "b": {3}}, ["  a = [1, 2]", '  b = "{3}"']),
        ("t", {"c": float("inf")}, ["  c = Infinity"]),
        ("t", {"a": {(1, 2): 3}, "b": ({b"x": 1},)}, ['  a["(1, 2)"] = 3', "  b = ({b'x': 1},)"]),
        ("t", {"rows": [{1: 2}]}, ["  rows[0].1 = 2"]),
    ],
)
def test_unusual_arguments_are_shown(name: str, complete: Any, lines: list[str]) -> None:
    assert texts(ToolViews().whole(name, complete)) == lines
