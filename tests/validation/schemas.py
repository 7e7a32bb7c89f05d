"""Random JSON Schemas and instances over one small vocabulary, so that they often match.

Any keyword may stand beside any other, and below it. References go to ``$defs``, recursively below
a property or an item. In place they go only to later definitions, because a loop in place is not a
schema. Such loops are in ``test_wrong_schemas``.
"""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from tests.strategies import json_values

# The same examples in every run, except in a soak run, which is to find new ones.
steady = settings(derandomize=settings().max_examples < 1_000)

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
instances = json_values(scalars, keys=names, size=4)
formats = st.sampled_from(["date", "email", "ipv4", "uuid", "regex", "no such format"])


def _unique(values: st.SearchStrategy[Any], min_size: int = 0) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=min_size, max_size=3, unique_by=json.dumps)


class _Writer:
    """Writes one schema. Knows which references are allowed where."""

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
        return schema | {self.definitions: defined} | ({"$schema": DRAFT_7} if self.draft_7 else {})

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
        keywords = _DRAFT_7 if self.draft_7 else _DRAFT_2020
        schema: dict[str, Any] = {}
        for keyword in self.draw(st.lists(st.sampled_from(keywords), min_size=1, max_size=3)):
            schema |= keyword(self, rank)
        return schema

    def some_below(self) -> list[Any]:
        return [self.below() for _ in range(self.draw(st.integers(1, 3)))]

    def by_name(self, write: Callable[[], Any]) -> dict[str, Any]:
        return {name: write() for name in self.draw(_unique(names, 1))}


Keyword = Callable[[_Writer, int], dict[str, Any]]


def _value(keyword: str, values: st.SearchStrategy[Any]) -> Keyword:
    return lambda writer, _rank: {keyword: writer.draw(values)}


def _below(keyword: str) -> Keyword:
    return lambda writer, _rank: {keyword: writer.below()}


def _branches(keyword: str) -> Keyword:
    sizes = st.integers(1, 3)
    return lambda writer, rank: {keyword: [writer.schema(rank) for _ in range(writer.draw(sizes))]}


def _reference(writer: _Writer, rank: int) -> dict[str, Any]:
    targets = DEFINITIONS if rank < 0 else DEFINITIONS[rank:]
    choices = [f"#/{writer.definitions}/{name}" for name in targets] + ["#"] * (rank < 0)
    return {"$ref": writer.draw(st.sampled_from(choices))} if choices else {}


def _closed_object(writer: _Writer, _rank: int) -> dict[str, Any]:
    properties = writer.by_name(writer.below)
    required = [name for name in properties if writer.draw(st.booleans())]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _patterned_object(writer: _Writer, _rank: int) -> dict[str, Any]:
    return {
        "properties": writer.by_name(writer.below),
        "patternProperties": {name: writer.below() for name in writer.draw(_unique(patterns, 1))},
        "additionalProperties": writer.draw(st.booleans()) and writer.below(),
    }


def _tuple(writer: _Writer, _rank: int) -> dict[str, Any]:
    first, rest = writer.some_below(), writer.draw(st.booleans()) and writer.below()
    if writer.draft_7:
        return {"items": first, "additionalItems": rest}
    return {"prefixItems": first, "items": rest}


def _texts_in_branches(writer: _Writer, _rank: int) -> dict[str, Any]:
    """Write branches that fail one by one while a string is written."""
    branches = st.one_of(
        st.builds(lambda text: {"const": text}, st.sampled_from(TEXTS)),
        st.builds(lambda size: {"maxLength": size}, small),
        st.builds(lambda texts: {"enum": texts}, _unique(st.sampled_from(TEXTS), 1)),
    )
    keyword = writer.draw(st.sampled_from(["anyOf", "oneOf", "allOf"]))
    return {keyword: writer.draw(st.lists(branches, min_size=2, max_size=4))}


def _condition(writer: _Writer, rank: int) -> dict[str, Any]:
    branches = [word for word in ("then", "else") if writer.draw(st.booleans())]
    return {word: writer.schema(rank) for word in ("if", *branches)}


def _contains(writer: _Writer, _rank: int) -> dict[str, Any]:
    limits = () if writer.draft_7 else ("minContains", "maxContains")
    chosen = [limit for limit in limits if writer.draw(st.booleans())]
    return {"contains": writer.below(), **{limit: writer.draw(small) for limit in chosen}}


def _dependency(writer: _Writer, rank: int) -> Any:
    return writer.schema(rank) if writer.draw(st.booleans()) else writer.draw(_unique(names))


_names_as_schema = st.one_of(
    st.builds(lambda text: {"pattern": text}, patterns),
    st.builds(lambda text: {"enum": text}, _unique(names, 1)),
)
_SIZES = ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_BOTH: list[Keyword] = [  # more likely if repeated
    _value("type", st.one_of(kinds, _unique(kinds, 1))),
    _value("enum", _unique(st.one_of(scalars, st.sampled_from(TEXTS), instances), 1)),
    _value("const", st.one_of(scalars, instances)),
    lambda writer, _rank: {"properties": writer.by_name(writer.below)},
    _value("additionalProperties", st.just(False)),
    *(_closed_object, _closed_object, _patterned_object, _tuple, _texts_in_branches),
    lambda writer, _rank: {"patternProperties": {writer.draw(patterns): writer.below()}},
    _value("propertyNames", _names_as_schema),
    *map(_below, ("additionalProperties", "propertyNames", "items", "items")),
    *(_value(keyword, small) for keyword in _SIZES),
    _value("required", _unique(names)),
    _value("uniqueItems", st.booleans()),
    _value("pattern", patterns),
    _value("format", formats),
    *(_value(keyword, st.sampled_from(NUMBERS)) for keyword in _BOUNDS),
    _value("multipleOf", st.sampled_from([1, 2, 0.5, 0.1])),
    *(_value(keyword, instances) for keyword in ("default", "unknown")),
    *map(_branches, ("allOf", "anyOf", "anyOf", "oneOf", "oneOf")),
    lambda writer, rank: {"not": writer.schema(rank)},
    *(_condition, _contains, _reference, _reference, _reference),
    lambda writer, rank: {"dependencies": writer.by_name(lambda: _dependency(writer, rank))},
]
_DRAFT_2020: list[Keyword] = [
    *_BOTH,
    lambda writer, _rank: {"prefixItems": writer.some_below()},
    lambda writer, _rank: {
        "dependentRequired": writer.by_name(lambda: writer.draw(_unique(names)))
    },
    lambda writer, rank: {"dependentSchemas": writer.by_name(lambda: writer.schema(rank))},
    *map(_below, ("unevaluatedProperties", "unevaluatedItems")),
    *(_value(f"unevaluated{kind}", st.just(False)) for kind in ("Properties", "Items")),
]
_DRAFT_7: list[Keyword] = [
    *_BOTH,
    lambda writer, _rank: {"items": writer.some_below()},
    lambda writer, _rank: {"items": writer.some_below(), "additionalItems": writer.below()},
    _below("additionalItems"),
]


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    return _Writer(draw, draft_7=draw(st.integers(0, 4)) == 0).root()
