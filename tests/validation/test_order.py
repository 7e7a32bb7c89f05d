"""The lint of tools: what it says, and above all what it does not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.validation.order import Finding, lint, place
from argstream.validation.tools import ToolSpec
from tests.validation.schemas import schemas, steady

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
NUMBER = {"type": "number"}


def an_object(required: list[str] | None = None, /, **properties: Any) -> dict[str, Any]:
    """A closed object; unless told otherwise, everything is required."""
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
    """Whether a switch after it has to wait."""
    return bool(findings(an_object(**{name: schema, "overwrite": FLAG})))


def is_short(name: str, schema: dict[str, Any]) -> bool:
    """Whether somebody might wait for it behind a long text."""
    return bool(findings(an_object(content=TEXT, **{name: schema})))


class TestOrder:
    def test_a_long_text_before_what_one_decides_by_is_told_with_the_order_to_use(self) -> None:
        found = finding(an_object(content=TEXT, path=TEXT, overwrite=FLAG))
        assert (found.tool, found.path, found.code) == ("tool", (), "order")
        assert found.severity == "warning"
        assert found.suggestion == ("path", "overwrite", "content")
        assert found.message == (
            '"content" may be long and stands before "path" and "overwrite": most models, OpenAI\'s'
            ' every time, write in the order of the schema. Put "required" in the same order.'
        )

    def test_the_right_order_is_not_mentioned(self) -> None:
        assert findings(an_object(path=TEXT, overwrite=FLAG, content=TEXT)) == []

    def test_all_else_keeps_its_order(self) -> None:
        schema = an_object(b=TEXT, body=TEXT, a=TEXT, to=TEXT, message=TEXT)
        assert finding(schema).suggestion == ("b", "a", "to", "body", "message")

    def test_only_those_that_wait_are_named(self) -> None:
        schema = an_object(path=TEXT, content=TEXT, mode=TEXT, comment=TEXT)
        assert finding(schema).message.startswith(
            '"content" may be long and stands before "mode": '
        )

    def test_inside_of_arrays_and_objects(self) -> None:
        edit = an_object(old=TEXT, new=TEXT, path=TEXT)
        schema = an_object(edits={"type": "array", "items": edit})
        found = finding(schema)
        assert found.path == ("edits", "*")
        assert place(found.path) == "edits[*]"
        assert found.suggestion == ("path", "old", "new")

    def test_what_holds_a_long_text_is_long(self) -> None:
        edit = an_object(path=TEXT, old=TEXT, new=TEXT)
        schema = an_object(edits={"type": "array", "items": edit}, dry_run=FLAG)
        found = finding(schema)
        assert found.path == ()
        assert found.suggestion == ("dry_run", "edits")

    def test_references_are_followed_and_told_once(self) -> None:
        note = an_object(text=TEXT, id=TEXT)
        reference = {"$ref": "#/$defs/note"}
        schema = an_object(first=reference, second=reference) | {"$defs": {"note": note}}
        assert finding(schema).path == ("first",)

    def test_references_into_lists_and_patterns(self) -> None:
        one = {"$ref": "#/$defs/both/allOf/0"}
        table = {"type": "object", "patternProperties": {"^x": one}}
        schema = an_object(table=table)
        schema["$defs"] = {"both": {"allOf": [an_object(text=TEXT, id=TEXT)]}}
        assert finding(schema).path == ("table", "*")

    def test_a_schema_that_contains_itself(self) -> None:
        node = an_object(text=TEXT, id=TEXT, below={"type": "array", "items": {"$ref": "#"}})
        assert finding(node).suggestion == ("id", "text", "below")

    def test_required_is_mentioned_only_if_it_has_to_change(self) -> None:
        found = finding(an_object(["path", "content"], content=TEXT, path=TEXT))
        assert "required" not in found.message

    def test_gemini_writes_in_its_own_order(self) -> None:
        schema = an_object(content=TEXT, path=TEXT)
        assert findings(schema | {"propertyOrdering": ["path", "content"]}) == []
        schema = an_object(path=TEXT, content=TEXT)
        found = finding(schema | {"propertyOrdering": ["content", "path"]})
        assert found.suggestion == ("path", "content")
        assert found.message.endswith('Put "propertyOrdering" in the same order.')


class TestClaude:
    """Claude writes what is required first, so the right order is not enough."""

    def test_an_optional_short_one_comes_after_a_required_long_one(self) -> None:
        schema = an_object(["path", "content"], path=TEXT, overwrite=FLAG, content=TEXT)
        found = finding(schema)
        assert found.suggestion == ()
        assert found.message == (
            '"content" may be long and is required. "overwrite" is optional, and Claude writes what'
            " is required first: require it too, with null for what is not given."
        )

    def test_it_is_told_together_with_the_order(self) -> None:
        found = finding(an_object(["content"], content=TEXT, mode=TEXT, path=TEXT))
        assert found.suggestion == ("mode", "path", "content")
        assert '"mode" and "path" are optional, and Claude' in found.message

    def test_an_optional_long_one_keeps_nobody_waiting(self) -> None:
        assert findings(an_object(["path"], path=TEXT, overwrite=FLAG, content=TEXT)) == []
        assert findings(an_object([], path=TEXT, overwrite=FLAG, content=TEXT)) == []


class TestLength:
    @pytest.mark.parametrize(
        "name",
        [
            *("content", "file_text", "newString", "old_str", "body", "code", "python_code"),
            *("diff", "commit_message", "prompt", "HTML", "sql", "reason", "lines", "comments"),
        ],
    )
    def test_names_of_long_texts(self, name: str) -> None:
        assert is_long(name, TEXT)
        assert is_long(name, {"type": ["string", "null"]})
        assert is_long(name, {"anyOf": [TEXT, {"type": "null"}]})
        assert is_long(name, {"type": "array", "items": TEXT})

    @pytest.mark.parametrize(
        "name",
        [
            *("path", "filePath", "url", "content_type", "messageId", "to", "recipients"),
            *("command", "subagent_type", "text_files"),
        ],
    )
    def test_names_of_short_texts(self, name: str) -> None:
        assert is_short(name, TEXT)
        assert not is_long(name, TEXT)

    @pytest.mark.parametrize(
        "schema",
        [
            FLAG,
            NUMBER,
            {"enum": ["a", "b"]},
            {"const": 1},
            {"type": "string", "maxLength": 50},
            {"type": "string", "format": "date"},
            {"type": "string", "pattern": "^[A-Z]{3}$"},
            {"type": "array", "items": NUMBER},
            {"type": "object", "properties": {"x": NUMBER}, "additionalProperties": False},
            {"anyOf": [NUMBER, {"type": "null"}]},
            {"allOf": [{"description": "one of some"}, {"enum": ["a"]}]},
        ],
    )
    def test_what_is_short_whatever_it_is_called(self, schema: dict[str, Any]) -> None:
        assert is_short("spam", schema)
        assert not is_long("content", schema)

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "string", "maxLength": 5_000},
            {"type": "string", "contentMediaType": "text/html"},
            {"type": "string", "description": "The full text of the page"},
            {"type": "string", "description": "A SQL query, to be run on the replica"},
            {"type": "object", "additionalProperties": {"type": "string", "maxLength": 9_000}},
        ],
    )
    def test_what_is_long_whatever_it_is_called(self, schema: dict[str, Any]) -> None:
        assert is_long("spam", schema)

    @pytest.mark.parametrize(
        ("name", "description"),
        [
            ("description", "What this command does, in 5-10 words"),
            ("explanation", "One sentence about why the tool is used"),
            ("message", "Max 100 characters"),
            ("summary", "A short summary"),
            ("code", "The currency code, as in ISO 4217"),
        ],
    )
    def test_a_description_may_say_that_it_is_not_long(self, name: str, description: str) -> None:
        assert not is_long(name, {"type": "string", "description": description})

    @pytest.mark.parametrize(
        "name",
        # What a model thinks before it decides is meant to stand first; the others say too little.
        [
            *("reasoning", "thought", "query", "input", "value", "country_code", "alt_text"),
            *("is_new", "string", "0", ""),
        ],
    )
    def test_nothing_is_said_of_what_is_not_known(self, name: str) -> None:
        assert not is_long(name, TEXT)
        assert not is_short(name, TEXT)

    @pytest.mark.parametrize("name", ["limit", "timeout_ms", "max_results", "page", "encoding"])
    def test_nobody_waits_for_settings(self, name: str) -> None:
        assert not is_short(name, NUMBER)
        assert not is_short(name, TEXT)
        assert not is_short(name, {"enum": ["a", "b"]})

    def test_a_search_is_in_order(self) -> None:
        domains = {"type": "array", "items": TEXT}
        assert findings(an_object(["query"], query=TEXT, limit=NUMBER, domains=domains)) == []


class TestLate:
    def test_what_is_loose_is_one_finding(self) -> None:
        inner = {"type": "object", "properties": {"value": {}}}
        found = finding({"type": "object", "properties": {"filter": inner, "any": {}}})
        assert (found.path, found.code, found.suggestion) == ((), "late", ())
        assert found.message == (
            'Give "filter.value" and "any" a type: without one, any value passes. Say'
            ' "additionalProperties": false, also in "filter": then a misspelt name is refused at'
            " its closing quote, and otherwise late or never."
        )

    def test_arguments_without_names(self) -> None:
        for schema in ({}, True, {"type": "object"}):
            assert finding(schema).message.startswith('Name the arguments in "properties"')
        assert findings({"type": "object", "properties": {}}) == []

    def test_arguments_of_several_forms(self) -> None:
        forms = [an_object(kind={"const": kind}, path=TEXT) for kind in ("read", "list")]
        assert findings({"type": "object", "oneOf": forms}) == []

    def test_a_root_without_a_type(self) -> None:
        schema = an_object(path=TEXT)
        del schema["type"]
        assert finding(schema).message == 'Say "type": "object", as providers expect.'

    @pytest.mark.parametrize("more", [True, TEXT])
    def test_who_says_that_there_may_be_more_is_believed(self, more: Any) -> None:
        assert findings(an_object(path=TEXT) | {"additionalProperties": more}) == []

    @pytest.mark.parametrize(
        ("keyword", "value"),
        [
            ("if", {"required": ["path"]}),
            ("not", {"required": ["a", "b"]}),
            ("dependentRequired", {"a": ["b"]}),
            ("unevaluatedProperties", False),
        ],
    )
    def test_keywords_that_wait_for_the_whole_call(self, keyword: str, value: Any) -> None:
        found = finding(an_object(path=TEXT) | {keyword: value})
        assert found.path == ()
        assert found.message.startswith(f'"{keyword}" is judged only when the call is whole: say ')

    def test_keywords_that_wait_for_the_end_of_a_long_value(self) -> None:
        file = an_object(path=TEXT, content={"type": "string", "pattern": "^#"})
        files = {"type": "array", "items": file, "uniqueItems": True}
        array, content = findings(an_object(files=files))
        assert array.path == ("files",)
        assert array.message == (
            '"uniqueItems" is judged only when all of it is written, which may be long: leave it to'
            " the tool."
        )
        assert content.path == ("files", "*", "content")
        assert content.message.startswith('"pattern" is judged only when all of it is written')

    def test_on_short_values_a_late_word_is_no_loss(self) -> None:
        tags = {"type": "array", "items": TEXT, "uniqueItems": True, "minItems": 1}
        path = {"type": "string", "pattern": "^/", "minLength": 1}
        text = {"type": "string", "minLength": 1}  # too short a text is never a long one
        assert findings(an_object(path=path, tags=tags, content=text)) == []

    def test_forms_without_anything_that_tells_them_apart(self) -> None:
        shapes = [an_object(label=TEXT, **{size: NUMBER}) for size in ("radius", "width")]
        open_shapes = [shape | {"additionalProperties": True} for shape in shapes]
        found = finding(an_object(shape={"oneOf": open_shapes}))
        assert found.path == ("shape",)
        assert found.message.startswith("Let its 2 forms begin with a required property that tells")

    def test_many_forms_are_counted_all(self) -> None:
        forms = [an_object(path=TEXT, size={"const": number}) for number in range(300)]
        assert "Let its 300 forms begin" in finding({"type": "object", "anyOf": forms}).message
        forms = [an_object(path=TEXT, kind={"const": str(number)}) for number in range(300)]
        found = finding({"type": "object", "anyOf": forms})
        assert found.message.startswith('Put "kind" first, which tells its 300 forms apart')

    def test_what_tells_only_the_first_of_many_forms_apart_does_not_count(self) -> None:
        forms = [an_object(path=TEXT, kind={"const": str(number % 50)}) for number in range(60)]
        assert "Let its 60 forms begin" in finding({"type": "object", "anyOf": forms}).message

    def test_a_name_that_only_one_form_allows_tells_them_apart(self) -> None:
        shapes = [an_object(label=TEXT, **{size: NUMBER}) for size in ("radius", "width")]
        assert findings(an_object(shape={"oneOf": shapes})) == []

    def test_a_long_text_before_it_makes_it_late(self) -> None:
        shapes = [an_object(text=TEXT, **{size: TEXT}) for size in ("spam", "eggs")]
        assert finding(an_object(shape={"anyOf": shapes})).path == ("shape",)

    def test_what_tells_forms_apart_should_stand_first(self) -> None:
        shapes = [an_object(r=NUMBER, kind={"const": kind}) for kind in ("circle", "sphere")]
        found = finding(an_object(shape={"oneOf": shapes}))
        assert found.message.startswith('Put "kind" first, which tells its 2 forms apart: ')
        assert found.suggestion == ("kind", "r")
        shapes = [an_object(kind={"const": kind}, r=NUMBER) for kind in ("circle", "sphere")]
        assert findings(an_object(shape={"oneOf": shapes})) == []

    def test_what_tells_forms_apart_should_be_required(self) -> None:
        shapes = [an_object(["r"], kind={"const": kind}, r=NUMBER) for kind in ("a", "b")]
        found = finding(an_object(shape={"oneOf": shapes}))
        assert found.message.startswith('Require "kind", which tells its 2 forms apart: ')

    def test_forms_of_different_types_are_told_apart_at_once(self) -> None:
        assert findings(an_object(when={"anyOf": [TEXT, an_object(at=TEXT), NUMBER]})) == []

    def test_what_is_followed_only_at_the_end(self) -> None:
        schema = an_object(below={"$dynamicRef": "#node"}) | {"$dynamicAnchor": "node"}
        assert 'instead of "$dynamicRef"' in finding(schema).message
        schema = an_object(a={"$ref": "#name"}, b={"$ref": "#name"})
        schema["$defs"] = {"n": {"$anchor": "name", **TEXT}}
        assert finding(schema).message.startswith('Use "$ref" to "#/$defs/…" for "a" and "b": ')
        schema = an_object(a=TEXT) | {"$schema": "http://json-schema.org/draft-04/schema#"}
        assert finding(schema).message.startswith("Use draft 2020-12 or draft 7")


class TestUnusable:
    @pytest.mark.parametrize(
        "schema",
        [{"type": "objekt"}, {"properties": {"a": {"$ref": "#/$defs/none"}}}, {"$ref": "#"}],
    )
    def test_a_schema_that_does_not_compile_is_an_error(self, schema: dict[str, Any]) -> None:
        found = finding(schema)
        assert (found.code, found.severity) == ("unusable", "error")
        assert found.message.startswith("No call can be judged: ")

    def test_a_schema_that_refuses_everything(self) -> None:
        assert finding(False).message == "The schema is false: it refuses every call."


class TestTools:
    def test_nothing_is_said_of_tools_without_a_schema(self) -> None:
        assert lint([ToolSpec("shell", kind="custom"), ToolSpec("web_search")]) == []

    def test_each_finding_names_its_tool(self) -> None:
        bad, good = an_object(body=TEXT, to=TEXT), an_object(to=TEXT, body=TEXT)
        tools = [ToolSpec("a", schema=bad), ToolSpec("b", schema=good), ToolSpec("c", schema=bad)]
        assert [found.tool for found in lint(tools)] == ["a", "c"]


class TestHostile:
    def test_many_references_to_one_part_are_looked_at_once(self) -> None:
        # Written out, these would be 2 ** 200 schemas.
        definitions = {
            f"n{level}": {"properties": {name: {"$ref": f"#/$defs/n{level + 1}"} for name in "ab"}}
            for level in range(200)
        }
        schema = {"$ref": "#/$defs/n0", "$defs": {**definitions, "n200": TEXT}}
        assert [found.code for found in findings(schema)] == ["unusable"]

    def test_long_names_and_many_of_them_make_no_long_message(self) -> None:
        schema = an_object(content=TEXT, **{f"{'n' * 5_000}{index}": FLAG for index in range(99)})
        assert len(finding(schema).message) < 1_000

    @given(schemas())
    @steady
    def test_whatever_stands_in_a_schema_nothing_breaks(self, schema: Any) -> None:
        # One without any keyword that looks as if it meant something is no schema of a tool.
        told = {"title": "any"} | schema if isinstance(schema, dict) else schema
        codes = {found.code for found in findings(told)}
        assert ("unusable" in codes) == (schema is False)


@given(
    st.permutations(["path", "content", "mode", "edits", "limit", "spam"]),
    st.sets(st.sampled_from(["path", "content", "mode", "edits"])),
)
def test_who_follows_a_suggestion_hears_nothing_more_of_the_order(
    names: list[str], required: set[str]
) -> None:
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
    required_too = findings(an_object(**{name: known[name] for name in order}))
    assert required_too == []
