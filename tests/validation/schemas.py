"""Random JSON Schemas and instances over one small vocabulary, so that they meet.

Any keyword may stand beside any other, and below it. References go to ``$defs``, recursively below
a property or an item. In place they go only to definitions further on, since a loop in place is no
schema; such loops are in ``test_hostile``.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

steady = settings(derandomize=settings().max_examples < 1_000)
"""The same examples in every run, except in a long one, which is to find new ones."""

NAMES = ["a", "b", "ab", "é😀", ""]
TEXTS = ["", "a", "b", "ab", "abc", "ba", "é😀", "\ufffd", "2020-01-01", 'a"\\\n']
NUMBERS = [0, -0.0, 1, 1.0, 2, 3, -1, 1.5, 15.0, 10**20, 0.1]
SCALARS = [*TEXTS, *NUMBERS, True, False, None]
DEFINITIONS = ["x", "y", "z"]
DRAFT_7 = "http://json-schema.org/draft-07/schema#"

names = st.sampled_from(NAMES)
small = st.integers(0, 3)
patterns = st.sampled_from(["^a", "b$", "a|b", "^(a|b)*$", "", "é", "^.{2}$", "[^a]"])
kinds = st.sampled_from(["string", "number", "integer", "boolean", "null", "array", "object"])
scalars = st.sampled_from(SCALARS)
instances: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda values: st.one_of(
        st.lists(values, max_size=4), st.dictionaries(names, values, max_size=4)
    ),
    max_leaves=8,
)
formats = st.sampled_from(["date", "email", "ipv4", "uuid", "regex", "no such format"])


def _unique(values: st.SearchStrategy[Any], min_size: int = 0) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=min_size, max_size=3, unique_by=json.dumps)


Draw = Callable[[st.DrawFn], Any]


class _Writer:
    """Writes one schema; knows which references are allowed where."""

    def __init__(self, draw: st.DrawFn, *, draft_7: bool) -> None:
        self.draw = draw
        self.draft_7 = draft_7
        self.definitions = "definitions" if draft_7 or draw(st.booleans()) else "$defs"
        self.room = draw(st.integers(1, 10))  # for how many more subschemas

    def root(self) -> Any:
        if self.draw(st.integers(0, 50)) == 0:
            return self.draw(st.booleans())
        schema = self.schema(0)
        if isinstance(schema, bool):
            schema = {} if schema else {"not": {}}
        defined = {name: self.schema(number + 1) for number, name in enumerate(DEFINITIONS)}
        schema[self.definitions] = defined
        if self.draft_7:
            schema["$schema"] = DRAFT_7
        return schema

    def below(self) -> Any:
        """Write a subschema for another value: any reference is allowed."""
        return self.schema(-1)

    def schema(self, rank: int) -> Any:
        """Write a subschema; in place, only definitions from that rank on may be referred to."""
        self.room -= 1
        if self.room < 0:
            leaf = [{"type": self.draw(kinds)}, True, {}, False, {"enum": ["a", "ab", 1]}]
            return self.draw(st.sampled_from(leaf))
        if self.draw(st.integers(0, 12)) == 0:
            return self.draw(st.booleans())
        writers = _WRITERS_7 if self.draft_7 else _WRITERS
        chosen = self.draw(st.lists(st.sampled_from(writers), min_size=1, max_size=3))
        schema: dict[str, Any] = {}
        for writer in chosen:
            schema |= writer(self, rank)
        return schema

    def schemas(self, rank: int) -> list[Any]:
        return [self.schema(rank) for _ in range(self.draw(st.integers(1, 3)))]

    def by_name(self, write: Callable[[], Any]) -> dict[str, Any]:
        return {name: write() for name in self.draw(_unique(names, 1))}


def _value(
    keyword: str, values: st.SearchStrategy[Any]
) -> Callable[[_Writer, int], dict[str, Any]]:
    return lambda writer, _rank: {keyword: writer.draw(values)}


def _below(keyword: str) -> Callable[[_Writer, int], dict[str, Any]]:
    return lambda writer, _rank: {keyword: writer.below()}


def _branches(keyword: str) -> Callable[[_Writer, int], dict[str, Any]]:
    return lambda writer, rank: {keyword: writer.schemas(rank)}


def _reference(writer: _Writer, rank: int) -> dict[str, Any]:
    targets = DEFINITIONS if rank < 0 else DEFINITIONS[rank:]
    choices = [f"#/{writer.definitions}/{name}" for name in targets]
    if rank < 0:
        choices.append("#")
    return {"$ref": writer.draw(st.sampled_from(choices))} if choices else {}


def _closed_object(writer: _Writer, _rank: int) -> dict[str, Any]:
    """Write what a tool's schema looks like."""
    properties = writer.by_name(writer.below)
    required = [name for name in properties if writer.draw(st.booleans())]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _patterned_object(writer: _Writer, _rank: int) -> dict[str, Any]:
    """Write keywords that share the members of an object among them."""
    return {
        "properties": writer.by_name(writer.below),
        "patternProperties": {name: writer.below() for name in writer.draw(_unique(patterns, 1))},
        "additionalProperties": writer.draw(st.booleans()) and writer.below(),
    }


def _tuple(writer: _Writer, _rank: int) -> dict[str, Any]:
    """Write keywords that share the items of an array among them."""
    first = [writer.below() for _ in range(writer.draw(st.integers(1, 3)))]
    rest = writer.draw(st.booleans()) and writer.below()
    if writer.draft_7:
        return {"items": first, "additionalItems": rest}
    return {"prefixItems": first, "items": rest}


def _texts_in_branches(writer: _Writer, _rank: int) -> dict[str, Any]:
    """Write branches that leave a string one by one."""
    branches = st.one_of(
        st.builds(lambda text: {"const": text}, st.sampled_from(TEXTS)),
        st.builds(lambda size: {"maxLength": size}, small),
        st.builds(lambda texts: {"enum": texts}, _unique(st.sampled_from(TEXTS), 1)),
    )
    keyword = writer.draw(st.sampled_from(["anyOf", "oneOf", "allOf"]))
    return {keyword: writer.draw(st.lists(branches, min_size=2, max_size=4))}


def _condition(writer: _Writer, rank: int) -> dict[str, Any]:
    condition = {"if": writer.schema(rank)}
    for keyword in ("then", "else"):
        if writer.draw(st.booleans()):
            condition[keyword] = writer.schema(rank)
    return condition


def _contains(writer: _Writer, _rank: int) -> dict[str, Any]:
    contains = {"contains": writer.below()}
    if not writer.draft_7:
        for keyword in ("minContains", "maxContains"):
            if writer.draw(st.booleans()):
                contains[keyword] = writer.draw(small)
    return contains


_BOTH: list[Callable[[_Writer, int], dict[str, Any]]] = [
    _value("type", st.one_of(kinds, _unique(kinds, 1))),
    _value("enum", _unique(st.one_of(scalars, st.sampled_from(TEXTS), instances), 1)),
    _value("const", st.one_of(scalars, instances)),
    lambda writer, _rank: {"properties": writer.by_name(writer.below)},
    _below("additionalProperties"),
    _value("additionalProperties", st.just(False)),
    _closed_object,
    _closed_object,
    _patterned_object,
    _tuple,
    _texts_in_branches,
    lambda writer, _rank: {"patternProperties": {writer.draw(patterns): writer.below()}},
    _below("propertyNames"),
    _value(
        "propertyNames",
        st.one_of(
            st.builds(lambda text: {"pattern": text}, patterns),
            st.builds(lambda text: {"enum": text}, _unique(names, 1)),
        ),
    ),
    _below("items"),
    _below("items"),
    _value("maxLength", small),
    _value("minLength", small),
    _value("maxItems", small),
    _value("minItems", small),
    _value("maxProperties", small),
    _value("minProperties", small),
    _value("required", _unique(names)),
    _value("uniqueItems", st.booleans()),
    _value("pattern", patterns),
    _value("format", formats),
    _value("minimum", st.sampled_from(NUMBERS)),
    _value("maximum", st.sampled_from(NUMBERS)),
    _value("exclusiveMinimum", st.sampled_from(NUMBERS)),
    _value("exclusiveMaximum", st.sampled_from(NUMBERS)),
    _value("multipleOf", st.sampled_from([1, 2, 0.5, 0.1])),
    _value("default", instances),
    _value("unknown", instances),
    _branches("allOf"),
    _branches("anyOf"),
    _branches("anyOf"),
    _branches("oneOf"),
    _branches("oneOf"),
    lambda writer, rank: {"not": writer.schema(rank)},
    _condition,
    _contains,
    _reference,
    _reference,
    _reference,
    lambda writer, rank: {
        "dependencies": writer.by_name(
            lambda: (
                writer.schema(rank) if writer.draw(st.booleans()) else writer.draw(_unique(names))
            )
        )
    },
]

_WRITERS = [
    *_BOTH,
    lambda writer, _rank: {
        "prefixItems": [writer.below() for _ in range(writer.draw(st.integers(1, 3)))]
    },
    lambda writer, _rank: {
        "dependentRequired": writer.by_name(lambda: writer.draw(_unique(names)))
    },
    lambda writer, rank: {"dependentSchemas": writer.by_name(lambda: writer.schema(rank))},
    _below("unevaluatedProperties"),
    _value("unevaluatedProperties", st.just(False)),
    _below("unevaluatedItems"),
    _value("unevaluatedItems", st.just(False)),
]

_WRITERS_7 = [
    *_BOTH,
    lambda writer, _rank: {
        "items": [writer.below() for _ in range(writer.draw(st.integers(1, 3)))],
    },
    lambda writer, _rank: {
        "items": [writer.below() for _ in range(writer.draw(st.integers(1, 3)))],
        "additionalItems": writer.below(),
    },
    _below("additionalItems"),
]


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """Draw a schema of draft 2020-12; now and then of draft 7, which says so."""
    return _Writer(draw, draft_7=draw(st.integers(0, 4)) == 0).root()


def random_instance(random: Random, depth: int = 2) -> Any:
    """Make an instance without Hypothesis: a continuation is made in the middle of a test."""
    choice = random.randrange(6) if depth else 0
    if choice < 3:
        return random.choice(SCALARS)
    size = random.randrange(4)
    if choice == 3:
        return [random_instance(random, depth - 1) for _ in range(size)]
    return {random.choice(NAMES): random_instance(random, depth - 1) for _ in range(size)}
