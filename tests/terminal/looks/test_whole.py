"""Nothing is ever left out: whole arguments, arguments in pieces, and what is cut."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from argstream.events import ArgumentDelta
from argstream.jsonstream import JsonPath
from argstream.sanitise import visible_line
from argstream.terminal.tool_views import Command, Diff, File, Look, Looks, Plain, Table
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
ANY_LOOKS = Looks(LOOKS, read_file={"a.py": "one\ntwo\nthree\n", "b": ""}.get)

text = st.one_of(
    st.text(st.sampled_from('ab}"\\\n\n\t\r\x1b\u202e⟦日é'), max_size=24),
    st.sampled_from(["a.py", "b", "two", "one\ntwo\n", "x" * 90, "*** Begin Patch\n+x"]),
)
scalars = st.one_of(text, st.integers(-9, 99), st.booleans(), st.none())
objects = st.dictionaries(st.sampled_from(NAMES), st.one_of(scalars, text), max_size=4)
values = st.one_of(
    scalars,
    text,
    st.lists(objects, max_size=7),
    st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
        ),
        max_leaves=8,
    ),
)
arguments = st.dictionaries(st.sampled_from(NAMES), values, max_size=6)
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


def is_leaf_shown(leaf: Any, lines: Sequence[str]) -> bool:
    return is_shown(leaf if isinstance(leaf, str) else json.dumps(leaf), lines)


@given(tools, arguments)
def test_every_character_of_every_argument_is_shown_to_who_decides(
    name: str, complete: dict[str, Any]
) -> None:
    lines = texts(ANY_LOOKS.whole(name, complete))
    for value in complete.values():
        for leaf in leaves(value):
            if leaf not in NAMES:  # names of what is shown in a look are known
                assert is_leaf_shown(leaf, lines), leaf


@given(tools, arguments, st.integers(1, 9))
def test_chunking_does_not_matter(name: str, complete: dict[str, Any], size: int) -> None:
    in_pieces = follow(complete, name, ANY_LOOKS, size=size)
    at_once = follow(complete, name, ANY_LOOKS, size=100_000)
    assert (in_pieces.title, in_pieces.lines) == (at_once.title, at_once.lines)


@given(tools, arguments, st.floats(0, 1))
def test_what_came_before_a_cut_is_shown(name: str, complete: dict[str, Any], part: float) -> None:
    raw = json.dumps(complete)
    raw = raw[: int(len(raw) * part)]
    seen = follow(raw, name, ANY_LOOKS)
    lines = [seen.title, *texts(seen.lines)]
    came: dict[JsonPath, str] = {}
    for event in events(raw, name, "function", 5):
        if isinstance(event, ArgumentDelta):
            came[event.path] = came.get(event.path, "") + event.text
    for value in came.values():
        assert is_shown(value, lines), value


def test_the_title_is_a_line_of_the_whole() -> None:
    looks = Looks()
    assert texts(looks.whole("read", {"path": "a.py"})) == ['  path = "a.py"']
    assert texts(looks.whole("bash", {"command": "ls"})) == ["  $ ls"]


def test_a_call_that_is_text_is_shown_as_text() -> None:
    assert texts(Looks().whole("patch", "*** Begin Patch\n+x")) == ["  │ *** Begin Patch", "  │ +x"]


def test_what_no_json_has_is_shown_too() -> None:
    lines = texts(Looks().whole("t", {"a": (1, 2), "b": {3}, "c": float("inf")}))
    assert lines == ["  a = [1, 2]", '  b = "{3}"', "  c = Infinity"]


def test_names_that_no_json_has_are_shown_too() -> None:
    lines = texts(Looks().whole("t", {"a": {(1, 2): 3}, "b": ({b"x": 1},)}))
    assert lines == ['  a["(1, 2)"] = 3', "  b = ({b'x': 1},)"]
    assert texts(Looks().whole("t", {"rows": [{1: 2}]})) == ["  rows[0].1 = 2"]


def test_a_name_is_made_visible() -> None:
    name = "a\n  b = 1"
    assert texts(Looks().whole("t", {name: 1})) == [f'  ["{visible_line(name)}"] = 1']
