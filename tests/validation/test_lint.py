"""lint: a better order of arguments, and rules that can only be checked late."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.validation import Finding, Schema, ToolSpec, lint

TEXT, FLAG, NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "number"}
OPEN = 'add "additionalProperties": false: without it, unknown names are accepted'
UNTYPED = 'add "type": without it, any value passes'
UNNAMED = 'add "properties": without it, any object passes'


def an_object(required: list[str] | None = None, /, **properties: Any) -> dict[str, Any]:
    """A closed object. Everything is required by default."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def findings(schema: Any) -> list[Finding]:
    return lint([ToolSpec("tool", schema=schema)])


def finding(schema: Any) -> Finding:
    (found,) = findings(schema)
    return found


def is_long(name: str, schema: dict[str, Any]) -> bool:
    return bool(findings(an_object(**{name: schema, "overwrite": FLAG})))


def is_short(name: str, schema: dict[str, Any]) -> bool:
    return bool(findings(an_object(content=TEXT, **{name: schema})))


def test_long_text_before_short_arguments_is_reported_with_a_better_order() -> None:
    found = finding(an_object(content=TEXT, spam=TEXT, path=TEXT, overwrite=FLAG))
    assert (found.tool, found.path, found.code) == ("tool", (), "order")
    assert found.severity == "warning"
    assert found.suggestion == ("spam", "path", "overwrite", "content")
    assert found.message == (
        '"content" may be long: put "path" and "overwrite" first in "properties" and "required"'
    )
    assert findings(an_object(path=TEXT, overwrite=FLAG, content=TEXT)) == []


def test_order_inside_arrays_and_objects_names_the_place() -> None:
    edit = an_object(old=TEXT, new=TEXT, path=TEXT)
    found = finding(an_object(edits={"type": "array", "items": edit}))
    assert found.path == ("edits", "*")
    assert found.message.startswith('edits[*]: "old" and "new" may be long: put "path" first')
    assert found.suggestion == ("path", "old", "new")
    edits = {"type": "array", "items": an_object(path=TEXT, old=TEXT, new=TEXT)}  # contains texts
    assert finding(an_object(edits=edits, dry_run=FLAG)).suggestion == ("dry_run", "edits")


def test_references_are_followed_and_reported_once() -> None:
    reference = {"$ref": "#/$defs/note"}
    schema = an_object(first=reference, second=reference)
    schema["$defs"] = {"note": an_object(text=TEXT, id=TEXT)}
    assert finding(schema).path == ("first",)
    table = {"type": "object", "patternProperties": {"^x": {"$ref": "#/$defs/all/allOf/0"}}}
    schema = an_object(table=table)
    schema["$defs"] = {"all": {"allOf": [an_object(text=TEXT, id=TEXT)]}}
    assert finding(schema).path == ("table", "*")
    node = an_object(text=TEXT, id=TEXT, below={"type": "array", "items": {"$ref": "#"}})
    assert finding(node).suggestion == ("id", "text", "below")


def test_property_ordering_of_gemini_counts() -> None:
    schema = an_object(content=TEXT, path=TEXT)
    assert findings(schema | {"propertyOrdering": ["path", "content"]}) == []
    schema = an_object(path=TEXT, content=TEXT) | {"propertyOrdering": ["content", "path"]}
    found = finding(schema)
    assert found.suggestion == ("path", "content")
    assert found.message.endswith('first in "properties", "required" and "propertyOrdering"')


def test_optional_short_argument_comes_after_required_text_from_claude() -> None:
    advice = 'Claude writes what is required first: require "overwrite", allow null'
    found = finding(an_object(["path", "content"], path=TEXT, overwrite=FLAG, content=TEXT))
    assert (found.message, found.suggestion) == (advice, ())
    found = finding(an_object(["content"], content=TEXT, overwrite=FLAG))
    assert found.suggestion == ("overwrite", "content")
    assert found.message.endswith(f". {advice}")
    for required in (["path"], []):  # an optional text comes last by itself
        assert findings(an_object(required, path=TEXT, overwrite=FLAG, content=TEXT)) == []


@given(
    st.permutations(["path", "content", "mode", "edits", "limit", "spam"]),
    st.sets(st.sampled_from(["path", "content", "mode", "edits"])),
)
def test_suggested_order_has_no_findings(names: list[str], required: set[str]) -> None:
    known: dict[str, Any] = {
        **dict.fromkeys(names, TEXT),
        "limit": NUMBER,
        "edits": {"type": "array", "items": an_object(old=TEXT, new=TEXT)},
    }
    needed = [name for name in names if name in required]
    before = findings(an_object(needed, **{name: known[name] for name in names}))
    order = next((found.suggestion for found in before if found.suggestion), tuple(names))
    assert sorted(order) == sorted(names)
    after = findings(an_object(needed, **{name: known[name] for name in order}))
    assert not any(found.suggestion for found in after)
    assert findings(an_object(**{name: known[name] for name in order})) == []


LONG_NAMES = [
    *("content", "file_text", "newString", "old_str", "body", "code", "python_code"),
    *("diff", "commit_message", "prompt", "HTML", "sql", "reason", "lines", "comments"),
]
SHORT_NAMES = [
    *("path", "filePath", "url", "content_type", "messageId", "to", "recipients"),
    *("command", "subagent_type", "text_files"),
]
# Models are meant to write their reasoning first. The other names mean too little.
UNCLEAR_NAMES = [
    *("reasoning", "thought", "query", "input", "value", "country_code", "alt_text"),
    *("is_new", "string", "0", ""),
]
SETTINGS = ["limit", "timeout_ms", "max_results", "page", "encoding"]


def test_names_of_long_and_short_texts() -> None:
    optional, either = {"type": ["string", "null"]}, {"anyOf": [TEXT, {"type": "null"}]}
    for schema in (TEXT, optional, either, {"type": "array", "items": TEXT}):
        assert [name for name in LONG_NAMES if not is_long(name, schema)] == []
    assert [name for name in SHORT_NAMES if not is_short(name, TEXT)] == []
    assert [name for name in [*SHORT_NAMES, *UNCLEAR_NAMES] if is_long(name, TEXT)] == []
    assert [name for name in UNCLEAR_NAMES if is_short(name, TEXT)] == []
    for schema in (NUMBER, TEXT, {"enum": ["a", "b"]}):  # settings may follow a long text
        assert [name for name in SETTINGS if is_short(name, schema)] == []


SHORT_SCHEMAS: list[Any] = [
    *(FLAG, NUMBER, {"enum": ["a", "b"]}, {"const": 1}, {"type": "string", "maxLength": 50}),
    *({"type": "string", "format": "date"}, {"type": "array", "items": NUMBER}),
    {"type": "object", "properties": {"x": NUMBER}, "additionalProperties": False},
    *({"anyOf": [NUMBER, {"type": "null"}]}, {"allOf": [{"title": "one of"}, {"enum": ["a"]}]}),
]
LONG_SCHEMAS: list[Any] = [
    *({"maxLength": 5_000}, {"contentMediaType": "text/html"}, {"contentEncoding": "base64"}),
    {"description": "The full text of the page"},
    {"description": "A SQL query, to be run on the replica"},
    {"type": "object", "additionalProperties": {"type": "string", "maxLength": 9_000}},
]
SHORT_DESCRIPTIONS = [
    ("description", "What this command does, in 5-10 words"),
    ("explanation", "One sentence about why the tool is used"),
    *(("message", "Max 100 characters"), ("summary", "A short summary")),
    ("code", "The currency code, as in ISO 4217"),
]


def test_schemas_and_descriptions_of_long_and_short_values() -> None:
    assert [one for one in SHORT_SCHEMAS if not is_short("spam", one)] == []
    assert [one for one in SHORT_SCHEMAS if is_long("content", one)] == []
    assert [more for more in LONG_SCHEMAS if not is_long("spam", TEXT | more)] == []
    described = [(name, TEXT | {"description": text}) for name, text in SHORT_DESCRIPTIONS]
    assert [name for name, schema in described if is_long(name, schema)] == []


def test_open_objects_and_untyped_values_are_reported() -> None:
    inner = {"type": "object", "properties": {"value": {}}}
    properties = {"filter": inner, "any": {}, "free": {"type": "object"}}
    schema = {"type": "object", "properties": properties}
    assert [(found.code, found.path, found.message) for found in findings(schema)] == [
        ("late", (), OPEN),
        ("late", ("filter",), f"filter: {OPEN}"),
        ("late", ("filter", "value"), f"filter.value: {UNTYPED}"),
        ("late", ("any",), f"any: {UNTYPED}"),
        ("late", ("free",), f"free: {UNNAMED}"),
    ]


def test_undeclared_arguments_are_reported_unless_explicitly_allowed() -> None:
    for schema, message in (({}, UNTYPED), (True, UNTYPED), ({"type": "object"}, UNNAMED)):
        assert finding(schema).message == message
    assert findings({"type": "object", "properties": {}, "additionalProperties": False}) == []
    for more in (True, TEXT):
        assert findings(an_object(path=TEXT) | {"additionalProperties": more}) == []


@pytest.mark.parametrize(
    "rule",
    [
        *({"if": {"required": ["path"]}}, {"not": {"required": ["a", "b"]}}),
        *({"dependentRequired": {"a": ["b"]}}, {"unevaluatedProperties": False}),
    ],
)
def test_rule_about_the_whole_call_is_reported(rule: dict[str, Any]) -> None:
    message = finding(an_object(path=TEXT) | rule).message
    (keyword,) = rule
    assert message.startswith(f'"{keyword}" is checked only when the value is complete: use "')


def test_rule_about_a_long_value_is_reported() -> None:
    file = an_object(path=TEXT, content={"type": "string", "pattern": "^#"})
    files = {"type": "array", "items": file, "uniqueItems": True}
    late = "is checked only when the value is complete: let the tool check it"
    assert [found.message for found in findings(an_object(files=files))] == [
        f'files: "uniqueItems" {late}',
        f'files[*].content: "pattern" {late}',
    ]


def test_rules_about_short_values_or_without_effect_are_not_reported() -> None:
    tags = {"type": "array", "items": TEXT, "uniqueItems": True, "minItems": 1}
    path = {"type": "string", "pattern": "^/", "minLength": 1}
    lines = {"type": "array", "items": TEXT, "uniqueItems": False, "unevaluatedItems": True}
    assert findings(an_object(path=path, tags=tags, lines=lines)) == []


def shapes(*required: str, **first: Any) -> list[dict[str, Any]]:
    return [an_object(list(required), **first, kind={"const": kind}, r=NUMBER) for kind in "ab"]


def test_discriminator_should_come_first_and_be_required() -> None:
    assert findings({"type": "object", "oneOf": shapes("kind")}) == []
    assert findings(an_object(shape={"oneOf": shapes("kind", "r")})) == []
    found = finding(an_object(shape={"oneOf": shapes("kind", size=NUMBER)}))
    assert (found.path, found.suggestion) == (("shape",), ("kind", "size", "r"))
    advice = 'shape: put "kind" first and require it in each of the 2 forms'
    assert found.message == advice
    found = finding(an_object(shape={"anyOf": shapes("r")}))
    assert (found.message, found.suggestion) == (advice, ())


def test_forms_without_a_discriminator() -> None:
    closed = [an_object(label=TEXT, **{size: NUMBER}) for size in ("radius", "width")]
    assert findings(an_object(shape={"oneOf": closed})) == []  # the names tell them apart
    open_forms = [form | {"additionalProperties": True} for form in closed]
    advice = 'start each form with a required "const" of its own, such as "kind"'
    assert finding(an_object(shape={"oneOf": open_forms})).message == f"shape: {advice}"
    kinds = [an_object(kind={"const": str(n % 5)}) for n in range(9)]
    same = [form | {"additionalProperties": True} for form in kinds]
    assert "start each form with" in finding({"type": "object", "anyOf": same}).message
    assert findings(an_object(when={"anyOf": [TEXT, an_object(at=TEXT), NUMBER]})) == []


@pytest.mark.parametrize(
    "more",
    [
        {"properties": {"below": {"$dynamicRef": "#node"}}, "$dynamicAnchor": "node"},
        {"properties": {"a": {"$ref": "#name"}}, "$defs": {"n": {"$anchor": "name", **TEXT}}},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
    ],
)
def test_schema_that_is_only_checked_when_complete_is_reported(more: dict[str, Any]) -> None:
    found = finding(an_object(a=TEXT) | more)
    assert found.code == "late"
    assert found.message.endswith('use draft 2020-12, "$ref" to "#/$defs/…"')


def test_unusable_schema_is_an_error() -> None:
    unresolved = {"properties": {"a": {"$ref": "#/$defs/none"}}}
    for schema in ({"type": "objekt"}, unresolved, {"$ref": "#"}, False):
        found = finding(schema)
        assert (found.code, found.severity) == ("unusable", "error")


def test_each_finding_names_its_tool() -> None:
    bad, good = an_object(body=TEXT, to=TEXT), an_object(to=TEXT, body=TEXT)
    tools = [("a", bad), ("b", good), ("c", Schema(bad))]
    specs = [ToolSpec(name, schema=schema) for name, schema in tools]  # type: ignore[arg-type]
    assert [found.tool for found in lint(specs)] == ["a", "c"]
    assert lint([ToolSpec("shell", kind="custom"), ToolSpec("web_search")]) == []


def test_huge_schemas_give_short_findings() -> None:
    definitions = {
        f"n{level}": {"properties": {name: {"$ref": f"#/$defs/n{level + 1}"} for name in "ab"}}
        for level in range(200)
    }
    schema = {"$ref": "#/$defs/n0", "$defs": {**definitions, "n200": TEXT}}
    assert [found.code for found in findings(schema)] == ["unusable"]
    schema = an_object(content=TEXT, **{f"{'n' * 5_000}{index}": FLAG for index in range(99)})
    assert len(finding(schema).message) < 1_000
