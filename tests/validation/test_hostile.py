"""Hostile schemas: a typed error when they are compiled, or a right verdict in time. Never a hang.

Whether a schema is refused or judged is for the limits to decide; for each case both are fine where
a test says "refused or judged". What is not: to take long, or to recurse without end.
"""

from collections.abc import Callable
from typing import Any

import pytest

from argstream.errors import SchemaError
from argstream.testing import cut
from argstream.validation import Schema
from tests.validation.rulings import compiled, judge, refused_or_judged, within

LOOPS: dict[str, Any] = {
    "to itself": {"$ref": "#"},
    "to itself, in a branch": {"anyOf": [{"$ref": "#"}, {"type": "string"}]},
    "to itself, in all of them": {"allOf": [{"$ref": "#"}]},
    "to itself, in oneOf": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "to itself, negated": {"not": {"$ref": "#"}},
    "to itself, as a condition": {"if": {"$ref": "#"}, "then": {"$ref": "#"}},
    "to itself, dependent": {"dependentSchemas": {"a": {"$ref": "#"}}},
    "to each other": {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    },
    "to each other, in branches": {
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"allOf": [{"anyOf": [{"$ref": "#/$defs/b"}]}]},
            "b": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/a"}]},
        },
    },
    "below a property": {
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"$ref": "#/$defs/a"}},
    },
    "by anchor": {"$anchor": "me", "allOf": [{"$ref": "#me"}]},
    "dynamic": {"$dynamicAnchor": "me", "$dynamicRef": "#me"},
    "around a ring of a thousand": {
        "$ref": "#/$defs/0",
        "$defs": {str(n): {"$ref": f"#/$defs/{(n + 1) % 1000}"} for n in range(1000)},
    },
    "of names": {"propertyNames": {"$ref": "#"}},
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("text", ["{}", '{"a": {"a": 1}}', '"a"', "[1]", "1"])
def test_a_loop_of_references_is_refused_or_judged(name: str, text: str) -> None:
    refused_or_judged(LOOPS[name], text)


@pytest.mark.parametrize("name", ["to itself", "to each other", "around a ring of a thousand"])
def test_a_loop_that_says_nothing_is_refused_as_a_loop(name: str) -> None:
    outcome = compiled(LOOPS[name])
    assert isinstance(outcome, SchemaError)
    assert outcome.reason == "loop"


def test_a_recursive_schema_is_no_loop() -> None:
    tree = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"items": {"$ref": "#"}}},
        "additionalProperties": False,
    }
    schema = Schema(tree)
    deep = '{"name": "a", "children": [' * 60 + "]}" * 60
    assert judge(schema, cut(deep, [1])).verdict == "valid"
    assert judge(schema, cut(deep.replace("[]", '[{"nam":1}]'), [1])).verdict == "rejected"


def _chain(length: int, link: Callable[[str], Any], end: Any) -> dict[str, Any]:
    definitions = {str(n): link(f"#/$defs/{n + 1}") for n in range(length)}
    return {"$ref": "#/$defs/0", "$defs": {**definitions, str(length): end}}


@pytest.mark.timing
@pytest.mark.parametrize("length", [100, 5_000])
@pytest.mark.parametrize(
    ("link", "text", "expected"),
    [
        (lambda ref: {"$ref": ref}, "1", "rejected"),
        (lambda ref: {"$ref": ref}, '"a"', "valid"),
        (lambda ref: {"allOf": [{"$ref": ref}]}, "1", "rejected"),
        (lambda ref: {"anyOf": [{"$ref": ref}]}, "1", "rejected"),
        (lambda ref: {"properties": {"a": {"$ref": ref}}}, '{"a": {"a": 1}}', "valid"),
        (lambda ref: {"items": {"$ref": ref}}, "[[[]]]", "valid"),
    ],
)
def test_a_long_chain_of_references(
    length: int, link: Callable[[str], Any], text: str, expected: str
) -> None:
    refused_or_judged(_chain(length, link, {"type": "string"}), text, expected)


@pytest.mark.timing
@pytest.mark.parametrize("depth", [30, 3_000, 100_000])
@pytest.mark.parametrize(
    ("wrap", "text", "expected"),
    [
        (lambda inner: {"properties": {"a": inner}}, '{"a": {"a": 1}}', "valid"),
        (lambda inner: {"items": inner}, "[[1]]", "valid"),
        (lambda inner: {"allOf": [inner]}, "1", "rejected"),
        (lambda inner: {"anyOf": [inner]}, "1", "rejected"),
        (lambda inner: {"oneOf": [inner]}, '"a"', "valid"),
        (lambda inner: {"not": {"not": inner}}, "1", "rejected"),
        (lambda inner: {"if": inner, "else": False}, "1", None),
        (lambda inner: {"default": [inner]}, "1", "valid"),
        (lambda inner: {"const": [inner]}, "1", "rejected"),
        (lambda inner: {"$defs": {"a": inner}}, "1", "valid"),
        (lambda inner: {"unknown": inner}, "1", "valid"),
    ],
)
def test_a_deeply_nested_schema(
    depth: int, wrap: Callable[[Any], Any], text: str, expected: str | None
) -> None:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = wrap(schema)
    outcome = refused_or_judged(schema, text, expected)
    if depth == 30:
        assert isinstance(outcome, Schema)


def _doubled(levels: int, keyword: str, wrap: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a schema that is small when it is written, and 2 ** levels when it is walked."""

    def link(ref: str) -> Any:
        return {keyword: [wrap({"$ref": ref}), wrap({"$ref": ref})]}

    return _chain(levels, link, {"type": "string"})


@pytest.mark.timing
@pytest.mark.parametrize("levels", [4, 30, 300])
@pytest.mark.parametrize(
    ("keyword", "text", "expected"),
    [
        ("anyOf", "1", "rejected"),
        ("anyOf", '"a"', "valid"),
        ("allOf", "1", "rejected"),
        ("allOf", '"a"', "valid"),
        ("oneOf", "1", "rejected"),
        ("oneOf", '"a"', "rejected"),
    ],
)
def test_branches_that_double_at_each_level(
    levels: int, keyword: str, text: str, expected: str
) -> None:
    outcome = refused_or_judged(_doubled(levels, keyword, lambda inner: inner), text, expected)
    if levels == 4:
        assert isinstance(outcome, Schema)


@pytest.mark.timing
@pytest.mark.parametrize("levels", [4, 30, 200])
@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
@pytest.mark.parametrize("leaf", ["1", '"a"'])
def test_branches_that_double_at_each_level_of_the_instance(
    levels: int, keyword: str, leaf: str
) -> None:
    schema = _doubled(levels, keyword, lambda inner: {"type": "array", "items": inner})
    text = "[" * levels + leaf + "]" * levels
    expected = "valid" if leaf == '"a"' and keyword != "oneOf" else "rejected"
    outcome = refused_or_judged(schema, text, expected)
    if levels == 4:
        assert isinstance(outcome, Schema)


@pytest.mark.timing
@pytest.mark.parametrize("depth", [5, 200])
@pytest.mark.parametrize(
    ("schema", "leaf", "expected"),
    [
        *(
            (
                {keyword: [*[{"type": "array", "items": {"$ref": "#"}}] * 2, {"type": "string"}]},
                *end,
            )
            for keyword, end in [
                ("anyOf", ("1", "rejected")),
                ("anyOf", ('"a"', "valid")),
                ("oneOf", ("1", "rejected")),
                ("oneOf", ('"a"', "rejected")),
            ]
        ),
        ({"oneOf": [{"type": "array", "items": {"$ref": "#"}}, {"const": "a"}]}, '"a"', "valid"),
        (
            {
                "anyOf": [
                    {"type": "array", "items": {"$ref": "#"}, "uniqueItems": True},
                    {"type": "array", "contains": {"$ref": "#"}},
                    {"type": "array", "not": {"items": {"$ref": "#"}}},
                    {"minimum": 3, "type": "number"},
                ]
            },
            "4",
            "valid",
        ),
        (
            {
                "$ref": "#/$defs/e",
                "$defs": {
                    "e": {
                        "oneOf": [
                            {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/e"}]}},
                            {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/e"}]}},
                            {"type": "string"},
                        ]
                    }
                },
            },
            '"a"',
            "rejected",
        ),
    ],
)
def test_recursive_branches_over_a_deep_instance(
    depth: int, schema: Any, leaf: str, expected: str
) -> None:
    refused_or_judged(schema, "[" * depth + leaf + "]" * depth, expected)


@pytest.mark.timing
def test_a_recursive_union_of_objects_told_apart_by_a_member_that_comes_last() -> None:
    """The form that unions of models have; the worst order for a check."""
    kinds = ("add", "multiply", "negate", "number")
    branches = [
        {
            "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "kind": {"const": kind}},
            "required": ["kind"],
            "additionalProperties": False,
        }
        for kind in kinds
    ]
    text = '{"kind": "number"}'
    for _ in range(60):
        text = '{"left": ' + text + ', "kind": "add"}'
    refused_or_judged({"anyOf": branches}, text, "valid")
    refused_or_judged({"oneOf": branches}, text, "valid")
    refused_or_judged({"oneOf": branches}, text.replace("number", "nimber"), "rejected")


CATASTROPHIC = [
    *(r"^(a+)+$", r"^(a|aa)+$", r"^(a|a)*b$", r"^(?=(a+)+$)b", r"^(a|aa)+\1$"),
    *(r"^((a|a)(?=a))*b$", r"^(?!(a|a)*c)((a|a)*)*b$", r"(.*)*(.*)*(.*)*x(?=y)"),
    r"^((a{1,100}){1,100}){1,100}$",
]
EVIL = "a" * 5_000 + "!"


@pytest.mark.timing
@pytest.mark.parametrize("pattern", CATASTROPHIC)
@pytest.mark.parametrize(
    ("write", "text"),
    [
        (lambda pattern: {"pattern": pattern}, f'"{EVIL}"'),
        (lambda pattern: {"anyOf": [{"pattern": pattern}, {"type": "null"}]}, f'"{EVIL}"'),
        (lambda pattern: {"patternProperties": {pattern: False}}, f'{{"{EVIL}": 1}}'),
        (
            lambda pattern: {
                "patternProperties": {pattern: {"type": "string"}},
                "additionalProperties": False,
            },
            f'{{"{EVIL}": "a"}}',
        ),
        (lambda pattern: {"propertyNames": {"pattern": pattern}}, f'{{"{EVIL}": 1}}'),
    ],
)
def test_a_catastrophic_pattern(pattern: str, write: Callable[[str], Any], text: str) -> None:
    outcome = compiled(write(pattern))
    if isinstance(outcome, Schema):
        with within(1):
            assert judge(outcome, [text]).verdict in ("valid", "rejected")
    else:
        assert outcome.reason


@pytest.mark.timing
@pytest.mark.parametrize(
    "pattern",
    ["((a{1000}){1000}){1000}", "(" * 5_000 + ")" * 5_000, "[a-z]{1,99999}", "a{99999999}"],
)
def test_an_enormous_pattern(pattern: str) -> None:
    refused = compiled({"properties": {"a": {"pattern": pattern}}})
    if isinstance(refused, Schema):
        with within(1):
            judge(refused, ['{"a": "abc"}'])


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{2,1}", "\\"])
@pytest.mark.parametrize("keyword", ["pattern", "patternProperties"])
def test_a_pattern_that_is_none(keyword: str, pattern: str) -> None:
    schema = {keyword: pattern if keyword == "pattern" else {pattern: True}}
    outcome = compiled({"properties": {"a": schema}})
    assert isinstance(outcome, SchemaError)
    assert outcome.reason == "invalid"


@pytest.mark.timing
def test_an_enormous_enum() -> None:
    schema = compiled({"items": {"enum": [f"value {n}" for n in range(100_000)]}})
    assert isinstance(schema, Schema)
    with within(1):
        assert judge(schema, cut('["value 77777", "value 0"]', [1])).verdict == "valid"
        ruling = judge(schema, cut('["value 77777", "value 7x and more"]', [1]))
    assert ruling.verdict == "rejected"
    assert ruling.error is not None
    assert ruling.error.offset == '["value 77777", "value 7x'.index("x")
    with within(1):
        text = '["' + '", "'.join(f"value {n}" for n in range(3_000)) + '"]'
        assert judge(schema, cut(text, [1])).verdict == "valid"


@pytest.mark.timing
def test_an_enormous_enum_of_other_values() -> None:
    schema = compiled({"items": {"enum": [[n, {"a": n}] for n in range(20_000)]}})
    assert isinstance(schema, Schema)
    with within(1):
        assert judge(schema, cut('[[5, {"a": 5}]]', [1])).verdict == "valid"
        assert judge(schema, cut('[[5, {"a": 6}]]', [1])).verdict == "rejected"


@pytest.mark.timing
def test_thousands_of_properties() -> None:
    names = [f"property {n}" for n in range(5_000)]
    schema = compiled(
        {
            "type": "object",
            "properties": {name: {"type": "integer"} for name in names},
            "required": names,
            "additionalProperties": False,
        }
    )
    assert isinstance(schema, Schema)
    text = "{" + ", ".join(f'"{name}": 1' for name in names) + "}"
    with within(1):
        assert judge(schema, [text]).verdict == "valid"
        assert judge(schema, [text[:-1] + ', "another": 1}']).verdict == "rejected"
        assert judge(schema, ["{}"]).verdict == "rejected"


@pytest.mark.timing
def test_thousands_of_branches() -> None:
    schema = compiled({"anyOf": [{"const": f"value {n}"} for n in range(3_000)]})
    if isinstance(schema, Schema):
        with within(1):
            assert judge(schema, cut('"value 2999"', [1])).verdict == "valid"
            assert judge(schema, cut('"value 3000"', [1])).verdict == "rejected"
    else:
        assert schema.reason not in ("", "invalid")


LOOPS_OUTSIDE = {
    "of one document": {"http://x/a": {"$ref": "http://x/a"}},
    "of two documents": {"http://x/a": {"$ref": "b"}, "http://x/b": {"anyOf": [{"$ref": "a"}]}},
    "back to the schema": {"http://x/a": {"allOf": [{"$ref": "http://x/schema"}]}},
}


@pytest.mark.parametrize("name", LOOPS_OUTSIDE)
def test_a_loop_through_resources_is_refused_or_judged(name: str) -> None:
    schema = {"$id": "http://x/schema", "$ref": "http://x/a"}
    outcome = compiled(schema, resources=LOOPS_OUTSIDE[name])
    if isinstance(outcome, Schema):
        with within(1):
            assert judge(outcome, cut('{"a": [1]}', [1])).verdict in ("valid", "rejected")


@pytest.mark.timing
def test_resources_that_double_at_each_level_are_refused_or_judged() -> None:
    resources: dict[str, Any] = {
        f"http://x/{n}": {"anyOf": [{"$ref": f"http://x/{n + 1}"}] * 2} for n in range(30)
    }
    resources["http://x/30"] = {"type": "string"}
    outcome = compiled({"$ref": "http://x/0"}, resources=resources)
    if isinstance(outcome, Schema):
        with within(1):
            assert judge(outcome, ["1"]).verdict == "rejected"


@pytest.mark.timing
@pytest.mark.parametrize(
    ("named", "reference", "refer"),
    [
        ("$anchor", "$ref", "#a{}"),
        ("$dynamicAnchor", "$dynamicRef", "#a{}"),
        ("$id", "$ref", "a{}"),
    ],
)
def test_names_that_double_at_each_level_are_refused_or_judged(
    named: str, reference: str, refer: str
) -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {named: f"a{n}", "anyOf": [{reference: refer.format(n + 1)}] * 2}
        for n in range(30)
    }
    definitions["d30"] = {named: "a30", "type": "string"}
    outcome = compiled({"$id": "http://x/schema", reference: refer.format(0), "$defs": definitions})
    if isinstance(outcome, Schema):
        with within(1):
            assert judge(outcome, ["1"]).verdict == "rejected"
