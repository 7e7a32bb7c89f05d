"""Tools are read in every common format, and never made stricter than they are."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import jsonschema_rs
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from argstream.errors import SchemaError, UsageError
from argstream.validation import Schema, ToolSpec, load_tools, tool_specs
from argstream.validation.lint import lint
from tests.strategies import json_values

PROPERTIES = {"path": {"type": "string"}}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": ["path"]}
ANY_OBJECT = {"type": "object"}


class WriteFile(BaseModel):
    """Write a file."""

    path: str
    content: str = ""


def write_file(path: str, content: str = "") -> None:
    """Write a file."""


def names(*tools: object) -> list[str]:
    return [spec.name for spec in tool_specs(tools)]


TOOL = {"name": "write", "description": "Write a file."}
OPENAI = {**TOOL, "parameters": SCHEMA}


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param({**TOOL, "input_schema": SCHEMA}, id="anthropic"),
        pytest.param({**TOOL, "type": "custom", "input_schema": SCHEMA}, id="anthropic, type"),
        pytest.param({**TOOL, "type": None, "input_schema": SCHEMA}, id="anthropic, type null"),
        pytest.param({**OPENAI, "type": "function", "strict": True}, id="responses"),
        pytest.param(OPENAI, id="gemini, one declaration"),
        pytest.param({**TOOL, "parametersJsonSchema": SCHEMA}, id="gemini, JSON Schema"),
        pytest.param({**TOOL, "inputSchema": SCHEMA}, id="mcp"),
        pytest.param({**TOOL, "schema": SCHEMA}, id="ToolSpec"),
        pytest.param({"type": "function", "function": OPENAI}, id="openai-chat"),
        pytest.param({"functionDeclarations": [OPENAI]}, id="gemini"),
        pytest.param({"function_declarations": [OPENAI]}, id="gemini, snake_case"),
    ],
)
def test_tool_is_read_in_each_format(tool: dict[str, Any]) -> None:
    assert ToolSpec.of(tool) == ToolSpec("write", "Write a file.", SCHEMA)


def test_tool_of_bedrock_and_its_whole_configuration() -> None:
    tool = {"toolSpec": {"name": "write", "inputSchema": {"json": SCHEMA}}}
    expected = [ToolSpec("write", "", SCHEMA)]
    assert tool_specs([tool, {"cachePoint": {"type": "default"}}]) == expected
    assert tool_specs({"tools": [tool], "toolChoice": {"auto": {}}}) == expected
    assert tool_specs([{"toolConfig": {"tools": [tool]}}]) == expected


def test_free_text_tool_has_no_schema() -> None:
    for tool in (
        {"type": "custom", "name": "run", "format": {"type": "text"}},
        {"type": "custom", "custom": {"name": "run"}},
    ):
        assert ToolSpec.of(tool) == ToolSpec("run", kind="custom")


def test_tool_without_parameters_accepts_any_object() -> None:
    """A stricter schema would reject calls that the provider allows."""
    tools = [
        {"type": "function", "function": {"name": "chat"}},
        {"type": "function", "name": "responses", "parameters": None},
        {"functionDeclarations": [{"name": "gemini"}]},
        {"name": "anthropic", "input_schema": {"type": "object", "properties": None}},
    ]
    assert [spec.schema for spec in tool_specs(tools)] == [ANY_OBJECT] * 4
    several = {"functionDeclarations": [{"name": "a"}, {"name": "b"}]}
    assert names(several, {"name": "c"}) == ["a", "b", "c"]


def test_schema_may_be_a_boolean_a_model_or_compiled() -> None:
    assert ToolSpec.of({"name": "any", "inputSchema": True}).schema is True
    model = ToolSpec.of({"name": "w", "input_schema": WriteFile})
    assert model.schema == WriteFile.model_json_schema()
    assert isinstance(ToolSpec("read", "", Schema(SCHEMA)).schema, Schema)


def test_tools_defined_by_providers_have_the_names_of_their_calls() -> None:
    tools = [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "web_search_20260318", "name": "web_search", "max_uses": 3},
        {"type": "function_20270101", "name": "later"},
        {"type": "apply_patch"},
    ]
    expected = ("bash", "str_replace_based_edit_tool", "web_search", "later", "apply_patch")
    assert tool_specs(tools) == [ToolSpec(name) for name in expected]


def test_toolset_is_replaced_by_its_members() -> None:
    """The calls have the members' names, and two families share some."""
    computer = {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}}
    found = names(computer, {"type": "browser_toolset_20260801"})
    assert {"left_click", "cursor_position", "navigate", "zoom"} <= set(found)
    assert len(found) == len(set(found))
    assert "zoom" not in names(computer)


FIND = {"type": "function", "name": "find", "parameters": SCHEMA}
OTHER_FIND = {**FIND, "parameters": ANY_OBJECT}


def namespace(name: str, tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": "", "tools": [tool]}


def test_members_of_a_namespace_are_called_by_their_own_names() -> None:
    assert tool_specs([namespace("crm", FIND)]) == [ToolSpec("find", "", SCHEMA)]
    # The name alone is ambiguous here, so the arguments are not checked.
    (spec,) = tool_specs([namespace("crm", FIND), namespace("shop", OTHER_FIND)])
    assert (spec.name, spec.schema) == ("find", None)


def test_tool_may_also_be_in_a_namespace_if_it_is_the_same() -> None:
    """That is so after a search has found it. If they differ, a call could mean either."""
    crm = namespace("crm", FIND)
    for tools in ([FIND, crm], [crm, FIND]):
        assert tool_specs(tools) == [ToolSpec("find", "", SCHEMA)]
    different = namespace("crm", OTHER_FIND)
    twice = [[OTHER_FIND, crm], [crm, OTHER_FIND], [FIND, crm, different], [FIND, crm, FIND]]
    for tools in twice:
        with pytest.raises(UsageError, match="two tools with the name 'find'"):
            tool_specs(tools)


@pytest.mark.parametrize(
    "tool",
    [
        *({"type": "web_search"}, {"type": "local_shell"}, {"googleSearch": {}}),
        {"type": "tool_search", "execution": "client", "parameters": SCHEMA},
        {"type": "mcp", "server_label": "x", "server_url": "https://example.com"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "mcp_toolset", "mcp_server_name": "x", "tools": [{"name": "y"}]},
        {"url_context": {}, "code_execution": {}},
        {"systemTool": {"name": "nova_grounding"}},
    ],
)
def test_tool_that_the_provider_runs_is_left_out(tool: dict[str, Any]) -> None:
    assert names(tool, {"name": "mine"}) == ["mine"]
    with pytest.raises(UsageError, match="run by the provider"):
        ToolSpec.of(tool)


def schema_of(tool: Any) -> dict[str, Any]:
    schema = ToolSpec.of(tool).schema
    assert isinstance(schema, dict)
    return schema


def test_model_class_and_function() -> None:
    spec = ToolSpec.of(WriteFile)
    assert (spec.name, spec.description, spec.source) == ("WriteFile", "Write a file.", WriteFile)
    assert spec.schema == WriteFile.model_json_schema()
    assert ToolSpec.of(WriteFile, name="write", description="W.").name == "write"
    spec = ToolSpec.of(write_file)
    assert (spec.name, spec.description, spec.source) == ("write_file", "Write a file.", write_file)
    schema = schema_of(write_file)
    content = {"default": "", "title": "Content", "type": "string"}
    assert (schema["required"], schema["properties"]["content"]) == (["path"], content)
    assert "additionalProperties" not in schema


def test_parameters_of_a_function() -> None:
    def odd(schema: int, _hidden: str, model_config: bool = True, **more: Any) -> None: ...
    def typed(path: str, **more: int) -> None: ...
    def annotated(count: Annotated[int, Field(gt=0, description="How many.")], name=None) -> None:  # type: ignore[no-untyped-def]
        ...

    assert list(schema_of(odd)["properties"]) == ["schema", "_hidden", "model_config"]
    assert schema_of(odd)["additionalProperties"] is True
    assert schema_of(typed)["additionalProperties"] == {"type": "integer"}
    count = schema_of(annotated)["properties"]["count"]
    assert (count["exclusiveMinimum"], count["description"]) == (0, "How many.")
    assert schema_of(annotated)["required"] == ["count"]


def test_bound_method_has_no_self() -> None:
    class Files:
        def write(self, path: str) -> None: ...

    assert list(schema_of(Files().write)["properties"]) == ["path"]
    with pytest.raises(UsageError, match="Pass the method of an object"):
        ToolSpec.of(Files.write)


def test_dataclass_and_typed_dict() -> None:
    @dataclasses.dataclass
    class Point:
        x: int

    class Line(typing_extensions.TypedDict):
        """A line."""

        length: float

    point, line = tool_specs([Point, Line])
    assert (point.name, point.description) == ("Point", "")
    assert (line.name, line.description) == ("Line", "A line.")
    assert schema_of(Point)["required"] == ["x"]


class Options(typing_extensions.TypedDict):
    size: int


def by_position(path: str, /) -> None: ...
def any_number(*paths: str) -> None: ...
def unknown_type(path: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the point
def no_json(callback: Callable[[], int]) -> None: ...
def unpacked(**more: typing_extensions.Unpack[Options]) -> None: ...


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (by_position, "'path' by position"),
        (any_number, r"'\*paths' by position"),
        (unknown_type, "'Nowhere' is not defined"),
        (no_json, "has no JSON Schema"),
        (unpacked, "a parameter for each key"),
        (lambda path: path, "as a function"),
        (int, "class int does not define a tool"),
    ],
)
def test_definition_that_cannot_be_a_tool_raises(tool: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ToolSpec.of(tool)


class Listing:
    def to_dict(self) -> list[str]:
        return ["write"]


class Handler(BaseModel):
    name: str = "write"
    handler: object = object()


COMPUTER = {"type": "computer_toolset_20260801"}


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (3, r"tools\[1\] cannot be read: 3. A tool is a ToolSpec, a pydantic"),
        (object(), "an object of type object"),
        (Listing(), "an object of type Listing"),
        (Handler(), "an object of type Handler cannot be read: Unable to serialize"),
        ({}, "an object with nothing"),
        ({5: 5}, "an object with 5"),
        ({"type": "fnuction"}, "the unknown type 'fnuction'"),
        ({"type": "function", "function": {}}, "needs a name, not None"),
        ({"functionDeclarations": [{"name": "a"}, {}]}, r"tools\[1\].functionDeclarations\[1\]: a"),
        ({"functionDeclarations": 5}, "functionDeclarations must be a list, not 5"),
        ({"functionDeclarations": [5]}, r"functionDeclarations\[0\] cannot be read: 5"),
        ({"type": "namespace", "tools": 5}, r"tools\[1\]: tools must be a list, not 5"),
        ({**COMPUTER, "configs": 5}, "configs must be an object, not 5"),
        ({**COMPUTER, "configs": {"key": 5}}, "configs.key must be an"),
        ({"name": "x", "input_schema": 3}, r"'x'\): the schema must be a JSON Schema"),
        ({"name": "x", "parameters": "[" * 100_000}, "the schema is not valid JSON"),
        (
            {"type": "openrouter:web_search", "parameters": {"x": 1}},
            "Remove it if the provider runs it",
        ),
        ({"type": "azure_function", "azure_function": {}}, "cannot be read: .* Remove it"),
        ({"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}, "Replace it by a ToolSpec"),
        ({"type": "computer_use"}, "Replace it by a ToolSpec"),
        (ToolSpec("first"), "two tools with the name 'first'"),
        # A typo must not turn the check off.
        ({"name": "w", "inputschema": SCHEMA}, "'w'.: 'inputschema' is ignored, but looks like"),
        ({"type": "function", "function": {"name": "w", "Parameters": SCHEMA}}, "'Parameters'"),
        ({"functionDeclarations": [{"name": "w", "parameter": {"x": 1}}]}, "'parameter'"),
        ({"toolSpec": {"name": "w", "input_shema": {"json": SCHEMA}}}, "'input_shema'"),
        ({"type": "bash_20250124", "name": "w", "takes": SCHEMA}, "'takes'"),
        ({"name": "w", "definition": {"$ref": "#/$defs/w"}}, "'definition'"),
        ({"name": "w", "args": PROPERTIES}, "'args'"),
        ({"name": "w", "model": WriteFile}, "'model'"),
        ({"type": "function", "function": {"name": "w"}, "parameters": SCHEMA}, "beside the name"),
        (
            {"type": "funtion", "name": "w"},
            "has the unknown type 'funtion'. Did you mean 'function'?",
        ),
        ({"type": "Function", "name": "w", "parameters": SCHEMA}, "Did you mean 'function'?"),
        ({"type": "costum", "name": "w"}, "Did you mean 'custom'?"),
    ],
)
def test_unreadable_tool_raises_with_its_place(tool: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tool_specs([{"name": "first"}, tool])


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": PROPERTIES, "required": ["path"]},
        {"type": "object", "properties": PROPERTIES},
        {"type": "object"},
        {"type": "function", "required": ["path"]},
        {"additionalProperties": {"type": "string"}},
        {"$ref": "#/$defs/read", "$defs": {"read": SCHEMA}},
    ],
)
def test_schema_with_a_name_is_not_a_tool(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="Put the whole schema under 'input_schema'"):
        tool_specs([{"name": "read", **schema}])


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ({"schema": SCHEMA}, "schema"),
        ({"name": "read", "strict": True, "schema": SCHEMA}, "schema"),
        ({"json": SCHEMA, "cachePoint": {}}, "json"),
        (PROPERTIES, "path"),
        ({"path": {}}, "path"),
        ({"path": "str", "size": "int"}, "path"),
        ({"path": str}, "path"),
        ({"id": {"type": "string"}}, "id"),
        ({"items": {"type": "array"}, "query": {"type": "string"}}, "query"),
    ],
)
def test_object_without_a_keyword_is_not_a_schema(schema: dict[str, Any], key: str) -> None:
    """It would accept everything."""
    message = f"the schema has '{key}', but no keyword of JSON Schema"
    for tool in ({"name": "read", "input_schema": schema}, {"name": "read", "parameters": schema}):
        with pytest.raises(UsageError, match=message):
            tool_specs([tool])
    with pytest.raises(UsageError, match=message):
        ToolSpec("read", "", schema)


SMALL_SCHEMAS: list[dict[str, Any]] = [
    *({}, {"type": "object"}, {"$ref": "https://example.com/read"}, {"description": "Anything."}),
    *({"title": "Read"}, {"$comment": "Anything."}, {"properties": {}}, {"required": ["path"]}),
    *({"additionalProperties": False}, {"items": {"type": "string"}}, {"not": {"type": "string"}}),
    *({"definitions": {"read": SCHEMA}}, {"anyOf": [SCHEMA]}, {"x-origin": {"type": "string"}}),
    *({"minProperties": 1, "schema": {"type": "string"}}, {"strict": True}),
    {"$ref": "#/$defs/read", "$defs": {"read": SCHEMA}},
]


def test_small_schemas_and_the_spellings_of_gemini_are_schemas() -> None:
    for schema in SMALL_SCHEMAS:
        expected = [ToolSpec("read", "", schema)]
        assert tool_specs([{"name": "read", "input_schema": schema}]) == expected
    for schema in ({"any_of": [{"type": "OBJECT"}]}, {"ref": "#/defs/x", "defs": {"x": SCHEMA}}):
        tool = {"functionDeclarations": [{"name": "read", "parameters": schema}]}
        assert names(tool) == ["read"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("read", SCHEMA), "description must be a str, not .*The schema comes third"),
        (("",), "a tool needs a name, not ''"),
        ((WriteFile,), "not the class WriteFile. For a class or a function, use ToolSpec.of"),
        (("read", "", WriteFile), "JSON Schema, not the class WriteFile.* use ToolSpec.of"),
        (("read", "", "{}"), "schema must be a JSON Schema, not '{}'"),
        (("read", "", SCHEMA, "foo"), "kind must be 'function' or 'custom', not 'foo'"),
        (("read", "", SCHEMA, ["custom"]), "kind must be 'function' or 'custom'"),
    ],
)
def test_wrong_arguments_of_tool_spec_raise(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ToolSpec(*arguments)


@pytest.mark.parametrize(
    "more",
    [
        {"output_schema": SCHEMA},
        {"response": {"type": "OBJECT"}, "behavior": "BLOCKING"},
        {"cache_control": {"type": "ephemeral"}, "defer_loading": True},
        {"user_location": {"type": "approximate", "city": "Rome"}},
        {"_meta": {"properties": {}}, "annotations": {"title": "W"}},
        {"input_examples": [{"type": "object"}], "allowed_callers": ["direct"]},
        {"parameter": None, 5: SCHEMA},
    ],
)
def test_other_keys_of_a_tool_are_ignored(more: dict[Any, Any]) -> None:
    for tool in ({"name": "w"}, {"type": "function", "name": "w"}):
        assert tool_specs([{**tool, **more}]) == [ToolSpec("w", "", ANY_OBJECT)]
    assert tool_specs([{"type": "bash_20250124", "name": "w", **more}]) == [ToolSpec("w")]


def test_tools_that_contain_themselves_or_are_no_list_raise() -> None:
    request: dict[str, Any] = {}
    request["config"] = request
    with pytest.raises(UsageError, match="cannot be read"):
        tool_specs(request)
    request["tools"] = [request]
    with pytest.raises(UsageError, match="nested too deeply"):
        tool_specs(request)
    tools: Any
    for tools in (WriteFile, write_file, ToolSpec("x"), "x", 3, None):
        with pytest.raises(UsageError, match="must be a list"):
            tool_specs(tools)


KEYS = st.sampled_from(
    [
        *("name", "type", "function", "custom", "tools", "functionDeclarations", "toolSpec"),
        *("parameters", "input_schema", "schema", "configs", "key", "nullable", "enum", "anyOf"),
        *("items", "properties", "$ref", "minItems", "format", "description", "config"),
    ]
)
WORDS = st.sampled_from(
    ["w", "function", "custom", "namespace", "computer_toolset_20260801", "OBJECT", "integer", "1"]
)
LEAVES = (WORDS, st.none(), st.booleans(), st.integers(0, 9), st.floats())
ANYTHING = json_values(*LEAVES, keys=KEYS, size=5, max_leaves=12)


@given(ANYTHING, ANYTHING)
def test_any_value_is_read_and_linted_or_refused(tool: Any, schema: Any) -> None:
    for given_tool in (tool, {"name": "w", "parameters": schema}):
        with suppress(UsageError):
            lint(tool_specs([given_tool]))


def translated(parameters: dict[str, Any]) -> Any:
    return ToolSpec.of({"functionDeclarations": [{"name": "f", "parameters": parameters}]}).schema


PET, NULL = {"$ref": "#/$defs/Pet"}, {"type": "null"}
EITHER = [{"type": "string"}, {"type": "integer"}]
GEMINI_ARRAY = {"type": "ARRAY", "minItems": "1", "max_items": 3, "items": {"type": "NUMBER"}}
JSON_ARRAY = {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "number"}}


@pytest.mark.parametrize(
    ("gemini", "expected"),
    [
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "string"}, {"type": "string"}),
        ({"type": "TYPE_UNSPECIFIED"}, {}),
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        ({"type": "STRING", "format": "enum", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        (
            {"type": "STRING", "enum": ["a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        ({"type": "INTEGER", "format": "enum", "enum": ["1"]}, {"type": "integer", "enum": [1]}),
        ({"type": "NUMBER", "enum": ["0.5"]}, {"type": "number", "enum": [0.5]}),
        ({"type": "BOOLEAN", "enum": ["true"]}, {"type": "boolean"}),
        (GEMINI_ARRAY, JSON_ARRAY),
        ({"type": "STRING", "example": "x", "title": "T"}, {"type": "string", "title": "T"}),
        ({"any_of": EITHER, "nullable": True}, {"anyOf": [*EITHER, NULL]}),
        ({"ref": "#/defs/Pet"}, PET),
        ({**PET, "nullable": True}, {"anyOf": [PET, NULL]}),
        ({"additional_properties": False}, {"additionalProperties": False}),
    ],
)
def test_property_is_translated(gemini: dict[str, Any], expected: dict[str, Any]) -> None:
    pets = {"Pet": {"type": "STRING"}}
    schema = translated({"type": "OBJECT", "properties": {"p": gemini}, "defs": pets})
    assert schema["properties"]["p"] == expected
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.validator_for(schema)


def test_property_may_have_the_name_of_a_keyword() -> None:
    properties = {
        "type": {"type": "STRING"},
        "nullable": {"type": "BOOLEAN"},
        "any_of": {"type": "ARRAY", "items": {"type": "STRING"}},
        "example": {"type": "STRING"},
    }
    schema = translated({"type": "OBJECT", "properties": properties, "required": ["example"]})
    assert list(schema["properties"]) == list(properties)
    assert schema["required"] == ["example"]


@pytest.mark.parametrize("spelling", ["propertyOrdering", "property_ordering"])
def test_order_of_properties_is_kept(spelling: str) -> None:
    schema = translated({"type": "OBJECT", spelling: ["b", "a"]})
    assert schema == {"type": "object", "propertyOrdering": ["b", "a"]}


def test_json_schema_is_unchanged() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "integer"], "enum": ["x", 1]},
            "b": {"const": None},
            "c": {"oneOf": [{"type": "integer", "enum": [1, 2]}, {"type": "null"}]},
        },
        "patternProperties": {"^x": {"not": {"type": "string"}}},
        "additionalProperties": False,
    }
    assert translated(schema) == schema


WRONG: list[Any] = [
    *({"type": 5}, {"type": [5]}, {"type": []}, {"properties": 5}, {"items": 5}),
    *({"type": 5, "nullable": True, "enum": ["1"]}, {"type": {"a": 1}, "enum": ["1"]}),
    *({"nullable": True, "anyOf": 3}, {"nullable": True, "enum": 5}),
]


def test_malformed_part_is_kept_and_refused_when_compiled() -> None:
    for wrong in WRONG:
        for schema in (wrong, {"properties": {"p": wrong}}):
            with pytest.raises(SchemaError):
                Schema(translated(schema))


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "STRING"}
    for _ in range(levels):
        schema = {"type": "ARRAY", "items": schema}
    return schema


def test_deepest_allowed_schema_is_translated_and_deeper_ones_are_refused() -> None:
    assert Schema(translated(deep(199))).is_valid([[["text"]]]) is False
    assert Schema(translated(deep(199))).is_valid([])
    endless: dict[str, Any] = {"type": "OBJECT"}
    endless["anyOf"] = [endless, endless]
    for schema in (deep(200), deep(5_000), endless):
        with pytest.raises(UsageError, match="nested too deeply"):
            Schema(translated(schema))


ANTHROPIC = {"name": "write", "input_schema": SCHEMA}
FUNCTION = {"name": "write", "parameters": SCHEMA}
GEMINI = {"functionDeclarations": [FUNCTION]}
BEDROCK = {"toolSpec": {"name": "write", "inputSchema": {"json": SCHEMA}}}


def test_file_may_have_a_list_of_tools_or_a_request(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    for content in (
        *([ANTHROPIC], ANTHROPIC, GEMINI, {"functions": [FUNCTION]}),
        {"model": "claude", "messages": [], "tools": [ANTHROPIC]},
        {"contents": [], "tools": [GEMINI]},
        {"toolConfig": {"tools": [BEDROCK]}},
        {"type": "session.update", "session": {"tools": [{"type": "function", **FUNCTION}]}},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [ANTHROPIC]}},
    ):
        file.write_text(json.dumps(content))
        assert load_tools(file) == [ToolSpec("write", "", SCHEMA)], content


def test_unreadable_file_raises_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    for content, message in (
        (b"[", "tools.json is not valid JSON"),
        (b"\xff", "tools.json is not valid JSON"),
        (b"3", "tools.json must contain a list of tools"),
        (b'{"model": "x"}', "tools.json: tools.0. cannot be read: an object with 'model'"),
        (b'[{"name": "a"}, 3]', r"tools.json: tools\[1\]"),
    ):
        file.write_bytes(content)
        with pytest.raises(UsageError, match=message):
            load_tools(file)
    with pytest.raises(UsageError, match=r"nowhere.json cannot be read: No such file"):
        load_tools(tmp_path / "nowhere.json")


def test_only_tools_defined_in_python_need_pydantic() -> None:
    program = """
import sys
sys.modules["pydantic"] = None
from argstream.errors import MissingExtraError
from argstream.validation.lint import lint
from argstream.validation import tool_specs
assert tool_specs([{"name": "x"}])[0].name == "x"
def tool(path: str) -> None: ...
try:
    tool_specs([tool])
except MissingExtraError as error:
    print(error)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "pip install '.[validation]'" in done.stdout, done.stderr
