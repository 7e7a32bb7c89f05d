"""Tools are read in whatever form people hold them, and never made stricter than they are."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from argstream.errors import UsageError
from argstream.validation import Schema, ToolSpec, load_tools, tool_specs
from argstream.validation.lint import lint

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
ANY_OBJECT = {"type": "object"}


class WriteFile(BaseModel):
    """Write a file."""

    path: str
    content: str = ""


def write_file(path: str, content: str = "") -> None:
    """Write a file."""


def names(*tools: object) -> list[str]:
    return [spec.name for spec in tool_specs(tools)]


# One tool in each format


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param({"input_schema": SCHEMA}, id="anthropic"),
        pytest.param({"type": "custom", "input_schema": SCHEMA}, id="anthropic, with its type"),
        pytest.param({"type": None, "input_schema": SCHEMA}, id="anthropic, with a type of null"),
        pytest.param({"type": "function", "parameters": SCHEMA, "strict": True}, id="responses"),
        pytest.param({"parameters": SCHEMA}, id="gemini, one declaration"),
        pytest.param({"parametersJsonSchema": SCHEMA}, id="gemini, in JSON Schema"),
        pytest.param({"inputSchema": SCHEMA}, id="mcp"),
        pytest.param({"schema": SCHEMA}, id="as a ToolSpec has it"),
    ],
)
def test_a_flat_tool(tool: dict[str, Any]) -> None:
    spec = ToolSpec.of({"name": "write", "description": "Write a file.", **tool})
    assert spec == ToolSpec("write", "Write a file.", SCHEMA)


@pytest.mark.parametrize(
    "wrapped",
    [
        pytest.param(lambda tool: {"type": "function", "function": tool}, id="openai-chat"),
        pytest.param(lambda tool: {"functionDeclarations": [tool]}, id="gemini"),
        pytest.param(lambda tool: {"function_declarations": [tool]}, id="gemini, snake_case"),
    ],
)
def test_a_tool_inside_another_object(wrapped: Callable[[Any], Any]) -> None:
    tool = {"name": "write", "description": "Write a file.", "parameters": SCHEMA}
    assert ToolSpec.of(wrapped(tool)) == ToolSpec("write", "Write a file.", SCHEMA)


def test_a_tool_of_bedrock_and_its_whole_configuration() -> None:
    tool = {"toolSpec": {"name": "write", "inputSchema": {"json": SCHEMA}}}
    expected = [ToolSpec("write", "", SCHEMA)]
    assert tool_specs([tool, {"cachePoint": {"type": "default"}}]) == expected
    assert tool_specs({"tools": [tool], "toolChoice": {"auto": {}}}) == expected
    assert tool_specs([{"toolConfig": {"tools": [tool]}}]) == expected


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "custom", "name": "run", "format": {"type": "text"}},
        {"type": "custom", "custom": {"name": "run"}},
    ],
)
def test_free_text_has_no_schema(tool: dict[str, Any]) -> None:
    assert ToolSpec.of(tool) == ToolSpec("run", kind="custom")


def test_a_tool_without_parameters_takes_any_object() -> None:
    """A schema that forbids what nobody had forbidden would refuse what the provider allows."""
    tools = [
        {"type": "function", "function": {"name": "chat"}},
        {"type": "function", "name": "responses", "parameters": None},
        {"functionDeclarations": [{"name": "gemini"}]},
        {"name": "anthropic", "input_schema": {"type": "object", "properties": None}},
    ]
    assert [spec.schema for spec in tool_specs(tools)] == [ANY_OBJECT] * 4


def test_one_tool_of_gemini_holds_several() -> None:
    assert names({"functionDeclarations": [{"name": "a"}, {"name": "b"}]}, {"name": "c"}) == [
        "a",
        "b",
        "c",
    ]


def test_a_schema_may_be_a_boolean_or_a_model() -> None:
    assert ToolSpec.of({"name": "any", "inputSchema": True}).schema is True
    assert ToolSpec.of({"name": "w", "input_schema": WriteFile}).schema == (
        WriteFile.model_json_schema()
    )


# Tools that providers define


def test_tools_that_anthropic_defines_are_known_by_name() -> None:
    tools = [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "web_search_20260318", "name": "web_search", "max_uses": 3},
        {"type": "function_20270101", "name": "later"},
    ]
    assert tool_specs(tools) == [
        ToolSpec("bash"),
        ToolSpec("str_replace_based_edit_tool"),
        ToolSpec("web_search"),
        ToolSpec("later"),
    ]


def test_a_toolset_stands_for_its_members() -> None:
    """Their calls have the members' names, and two families share some."""
    found = names(
        {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}},
        {"type": "browser_toolset_20260801"},
    )
    assert {"left_click", "cursor_position", "navigate", "zoom"} <= set(found)
    assert len(found) == len(set(found))
    alone = names({"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}})
    assert "zoom" not in alone


def test_the_members_of_a_namespace_are_called_by_their_own_names() -> None:
    def namespace(name: str, schema: dict[str, Any]) -> dict[str, Any]:
        tool = {"type": "function", "name": "find", "parameters": schema}
        return {"type": "namespace", "name": name, "description": "", "tools": [tool]}

    (spec,) = tool_specs([namespace("crm", SCHEMA)])
    assert (spec.name, spec.schema) == ("find", SCHEMA)
    # A name alone does not tell which of two is meant, so nothing is known of the arguments.
    (spec,) = tool_specs([namespace("crm", SCHEMA), namespace("shop", ANY_OBJECT)])
    assert (spec.name, spec.schema) == ("find", None)


def test_a_tool_may_stand_in_a_namespace_as_well_if_it_is_the_same() -> None:
    """So it is, once a search has found it. If they differ, a call could mean either."""
    tool = {"type": "function", "name": "find", "parameters": SCHEMA}
    other = {**tool, "parameters": ANY_OBJECT}
    namespace = {"type": "namespace", "name": "crm", "tools": [tool]}
    for tools in ([tool, namespace], [namespace, tool]):
        assert tool_specs(tools) == [ToolSpec("find", "", SCHEMA)]
    different = {**namespace, "tools": [other]}
    for tools in ([other, namespace], [namespace, other], [tool, namespace, different]):
        with pytest.raises(UsageError, match="two tools of the name 'find'"):
            tool_specs(tools)
    with pytest.raises(UsageError, match="two tools of the name 'find'"):
        tool_specs([tool, namespace, tool])


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search"},
        {"type": "tool_search", "execution": "client", "parameters": SCHEMA},
        {"type": "mcp", "server_label": "x", "server_url": "https://example.com"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "local_shell"},
        {"type": "mcp_toolset", "mcp_server_name": "x", "tools": [{"name": "y"}]},
        {"googleSearch": {}},
        {"url_context": {}, "code_execution": {}},
        {"systemTool": {"name": "nova_grounding"}},
    ],
)
def test_what_the_provider_runs_is_left_out(tool: dict[str, Any]) -> None:
    assert names(tool, {"name": "mine"}) == ["mine"]
    with pytest.raises(UsageError, match="run by the provider"):
        ToolSpec.of(tool)


def test_a_patch_has_the_name_of_its_calls() -> None:
    assert tool_specs([{"type": "apply_patch"}]) == [ToolSpec("apply_patch")]


# Tools defined in Python


def test_a_model_class() -> None:
    spec = ToolSpec.of(WriteFile)
    assert (spec.name, spec.description, spec.source) == ("WriteFile", "Write a file.", WriteFile)
    assert spec.schema == WriteFile.model_json_schema()
    assert ToolSpec.of(WriteFile, name="write", description="W.").name == "write"


def test_a_function() -> None:
    spec = ToolSpec.of(write_file)
    assert (spec.name, spec.description, spec.source) == ("write_file", "Write a file.", write_file)
    assert isinstance(spec.schema, dict)
    assert spec.schema["required"] == ["path"]
    assert spec.schema["properties"]["content"] == {
        "default": "",
        "title": "Content",
        "type": "string",
    }
    assert "additionalProperties" not in spec.schema


def test_a_parameter_may_have_any_name() -> None:
    def tool(schema: int, _hidden: str, model_config: bool = True, **more: Any) -> None: ...

    spec = ToolSpec.of(tool)
    assert isinstance(spec.schema, dict)
    assert list(spec.schema["properties"]) == ["schema", "_hidden", "model_config"]
    assert spec.schema["additionalProperties"] is True


def test_arguments_without_a_parameter_may_have_a_type() -> None:
    def tool(path: str, **more: int) -> None: ...

    spec = ToolSpec.of(tool)
    assert isinstance(spec.schema, dict)
    assert spec.schema["additionalProperties"] == {"type": "integer"}


def test_what_annotations_say_of_a_parameter_counts() -> None:
    def tool(count: Annotated[int, Field(gt=0, description="How many.")], name=None) -> None:  # type: ignore[no-untyped-def]
        ...

    spec = ToolSpec.of(tool)
    assert isinstance(spec.schema, dict)
    assert spec.schema["properties"]["count"]["exclusiveMinimum"] == 0
    assert spec.schema["properties"]["count"]["description"] == "How many."
    assert spec.schema["required"] == ["count"]


def test_a_bound_method_has_no_self() -> None:
    class Files:
        def write(self, path: str) -> None: ...

    spec = ToolSpec.of(Files().write)
    assert isinstance(spec.schema, dict)
    assert list(spec.schema["properties"]) == ["path"]
    with pytest.raises(UsageError, match="give the method of an object"):
        ToolSpec.of(Files.write)


def test_a_dataclass_and_a_typed_dict() -> None:
    @dataclasses.dataclass
    class Point:
        x: int

    class Line(typing_extensions.TypedDict):
        """A line."""

        length: float

    point, line = tool_specs([Point, Line])
    assert (point.name, point.description) == ("Point", "")
    assert (line.name, line.description) == ("Line", "A line.")
    assert isinstance(point.schema, dict)
    assert point.schema["required"] == ["x"]


class Options(typing_extensions.TypedDict):
    size: int


def by_position(path: str, /) -> None: ...
def any_number(*paths: str) -> None: ...
def unknown_type(path: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the point
def no_json(callback: Callable[[], int]) -> None: ...
def unpacked(**more: typing_extensions.Unpack[Options]) -> None: ...


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        (by_position, "'path' by its position"),
        (any_number, r"'\*paths' by its position"),
        (unknown_type, "'Nowhere' is not defined"),
        (no_json, "has no JSON Schema"),
        (unpacked, "a parameter for each of them"),
        (lambda path: path, "define a function"),
        (int, "class int defines no tool"),
    ],
)
def test_a_definition_that_cannot_be_a_tool(tool: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        ToolSpec.of(tool)


# What cannot be read


class Listing:
    def to_dict(self) -> list[str]:
        return ["write"]


class Handler(BaseModel):
    name: str = "write"
    handler: object = object()


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        (3, r"tools\[1\] cannot be read: 3; a tool is a ToolSpec, a pydantic"),
        ("write", "'write'"),
        (object(), "something of the type object"),
        (Listing(), "something of the type Listing"),
        (Handler(), "something of the type Handler cannot be read: Unable to serialize"),
        ({}, "an object with nothing"),
        ({"type": "fnuction"}, "the type 'fnuction'"),
        ({"type": "function", "function": {}}, "needs a name, but has None"),
        ({"functionDeclarations": [{"name": "a"}, {}]}, r"tools\[1\].functionDeclarations\[1\]: a"),
        ({"name": "x", "input_schema": 3}, r"'x'\): its schema must be a JSON Schema"),
        ({"name": "x", "parameters": "{"}, "its schema is no JSON"),
        ({"type": "openrouter:web_search", "parameters": {"x": 1}}, "itself, leave it out"),
        ({"type": "azure_function", "azure_function": {}}, "cannot be read: .* leave it out"),
        ({"type": "action"}, "cannot be read: .* leave it out"),
        ({"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}, "put a ToolSpec"),
        ({"type": "computer_use"}, "put a ToolSpec"),
        (ToolSpec("first"), "two tools of the name 'first'"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(tool: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        tool_specs([{"name": "first"}, tool])


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ({"name": "w", "inputschema": SCHEMA}, "'w'.: 'inputschema' is not read, but seems to be"),
        ({"type": "function", "name": "w", "paramters": SCHEMA}, "'paramters' is not read"),
        ({"type": "function", "function": {"name": "w", "Parameters": SCHEMA}}, "'Parameters'"),
        ({"functionDeclarations": [{"name": "w", "parameter": {"x": 1}}]}, "'parameter'"),
        ({"toolSpec": {"name": "w", "input_shema": {"json": SCHEMA}}}, "'input_shema'"),
        ({"type": "custom", "name": "w", "input_schemas": SCHEMA}, "'input_schemas'"),
        ({"type": "bash_20250124", "name": "w", "takes": SCHEMA}, "'takes'"),
        ({"name": "w", "definition": {"$ref": "#/$defs/w"}}, "'definition'"),
        ({"name": "w", "definition": {"type": "OBJECT"}}, "'definition'"),
        ({"name": "w", "args": {"path": {"type": "string"}}}, "'args'"),
        ({"name": "w", "model": WriteFile}, "'model'"),
        ({"type": "function", "function": {"name": "w"}, "parameters": SCHEMA}, "beside the name"),
        ({"type": "function", "function": {"name": "w"}, "params": SCHEMA}, "beside the name"),
        ({"type": "funtion", "name": "w"}, "has the type 'funtion': did you mean 'function'?"),
        ({"type": "Function", "name": "w", "parameters": SCHEMA}, "did you mean 'function'?"),
        ({"type": "func", "name": "w"}, "did you mean 'function'?"),
        ({"type": "costum", "name": "w"}, "did you mean 'custom'?"),
    ],
)
def test_a_slip_of_the_pen_does_not_mean_that_nothing_is_validated(tool: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        tool_specs([tool])


PROPERTIES = {"path": {"type": "string"}}


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param({"properties": PROPERTIES, "required": ["path"]}, id="properties"),
        pytest.param({"type": "object", "properties": PROPERTIES}, id="with its type"),
        pytest.param({"type": "object"}, id="the type alone"),
        pytest.param({"type": "function", "required": ["path"]}, id="required"),
        pytest.param({"additionalProperties": {"type": "string"}}, id="a map"),
        pytest.param({"$ref": "#/$defs/read", "$defs": {"read": SCHEMA}}, id="a reference"),
    ],
)
def test_a_schema_that_has_a_name_is_no_tool(tool: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="put the whole schema under 'input_schema'"):
        tool_specs([{"name": "read", **tool}])


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ({"schema": SCHEMA}, "schema"),
        ({"json_schema": SCHEMA}, "json_schema"),
        ({"name": "read", "strict": True, "schema": SCHEMA}, "schema"),
        ({"json": SCHEMA, "cachePoint": {}}, "json"),
        (PROPERTIES, "path"),
        ({"path": {}}, "path"),
        ({"path": "string"}, "path"),
        ({"path": "str", "size": "int"}, "path"),
        ({"path": str}, "path"),
        ({"type": {"type": "string"}, "title": {"type": "string"}}, "type"),
        ({"items": {"type": "array"}, "query": {"type": "string"}}, "query"),
    ],
)
def test_what_is_no_schema_does_not_count_as_one_that_allows_everything(
    schema: dict[str, Any], key: str
) -> None:
    told = f"its schema has '{key}', and no keyword of JSON Schema"
    for tool in ({"name": "read", "input_schema": schema}, {"name": "read", "parameters": schema}):
        with pytest.raises(UsageError, match=told):
            tool_specs([tool])
    with pytest.raises(UsageError, match=told):
        ToolSpec("read", "", schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"$ref": "#/$defs/read", "$defs": {"read": SCHEMA}},
        {"$ref": "https://example.com/read"},
        {"description": "Anything."},
        {"title": "Read"},
        {"$comment": "Anything."},
        {"properties": {}},
        {"required": ["path"]},
        {"additionalProperties": False},
        {"items": {"type": "string"}},
        {"not": {"type": "string"}},
        {"definitions": {"read": SCHEMA}},
        {"anyOf": [SCHEMA]},
        {"x-origin": {"type": "string"}},
        {"minProperties": 1, "schema": {"type": "string"}},
        {"strict": True},
    ],
)
def test_a_schema_that_says_little_is_a_schema(schema: dict[str, Any]) -> None:
    expected = [ToolSpec("read", "", schema)]
    assert tool_specs([{"name": "read", "input_schema": schema}]) == expected


@pytest.mark.parametrize(
    "parameters", [{"any_of": [{"type": "OBJECT"}]}, {"ref": "#/defs/x", "defs": {"x": SCHEMA}}]
)
def test_nor_are_the_spellings_of_gemini_strange(parameters: dict[str, Any]) -> None:
    assert names({"functionDeclarations": [{"name": "read", "parameters": parameters}]}) == ["read"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("read", SCHEMA), "its description must be a str, not .*; the schema is the third"),
        (("read", None), "its description must be a str, not None"),
        ((5,), "a tool needs a name, not 5"),
        (("",), "a tool needs a name, not ''"),
        ((WriteFile,), "not the class WriteFile; of a class or a function, ToolSpec.of makes"),
        (("read", "", WriteFile), "JSON Schema, not the class WriteFile; .* ToolSpec.of makes one"),
        (("read", "", "{}"), "its schema must be a JSON Schema, not '{}'"),
        (("read", "", SCHEMA, "foo"), "its kind must be 'function' or 'custom', not 'foo'"),
        (("read", "", SCHEMA, ["custom"]), "its kind must be 'function' or 'custom'"),
    ],
)
def test_a_spec_of_a_wrong_form_is_refused(arguments: tuple[Any, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        ToolSpec(*arguments)


def test_a_spec_may_have_a_schema_that_is_compiled_already() -> None:
    assert isinstance(ToolSpec("read", "", Schema(SCHEMA)).schema, Schema)


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
def test_what_else_a_tool_may_say_is_let_pass(more: dict[Any, Any]) -> None:
    for tool in ({"name": "w"}, {"type": "function", "name": "w"}):
        assert tool_specs([{**tool, **more}]) == [ToolSpec("w", "", ANY_OBJECT)]
    assert tool_specs([{"type": "bash_20250124", "name": "w", **more}]) == [ToolSpec("w")]


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ({"type": "namespace", "tools": 5}, r"tools\[0\]: tools must be a list, not 5"),
        ({"functionDeclarations": 5}, "functionDeclarations must be a list, not 5"),
        ({"functionDeclarations": "abc"}, "functionDeclarations must be a list, not 'abc'"),
        ({"functionDeclarations": [5]}, r"functionDeclarations\[0\] cannot be read: 5"),
        ({"type": "computer_toolset_20260801", "configs": 5}, "configs must be an object, not 5"),
        ({"type": "computer_toolset_20260801", "configs": {"key": 5}}, "configs.key must be an"),
        ({5: 5}, "an object with 5"),
        ({"name": "w", "parameters": "[" * 100_000}, "its schema is no JSON"),
    ],
)
def test_a_part_of_a_wrong_form_is_named(tool: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        tool_specs([tool])


def test_tools_that_contain_themselves_are_refused() -> None:
    request: dict[str, Any] = {}
    request["config"] = request
    with pytest.raises(UsageError, match="cannot be read"):
        tool_specs(request)
    request["tools"] = [request]
    with pytest.raises(UsageError, match="nested too deeply"):
        tool_specs(request)


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
ANYTHING = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(0, 9) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
)


@given(ANYTHING, ANYTHING)
def test_whatever_comes_is_read_or_refused(tool: Any, schema: Any) -> None:
    """And what is read can be linted."""
    for given_tool in (tool, {"name": "w", "parameters": schema}):
        with suppress(UsageError):
            lint(tool_specs([given_tool]))


@pytest.mark.parametrize("tools", [WriteFile, write_file, ToolSpec("x"), "x", 3, None])
def test_tools_must_be_a_list(tools: Any) -> None:
    with pytest.raises(UsageError, match="must be a list"):
        tool_specs(tools)


# Files

ANTHROPIC = {"name": "write", "input_schema": SCHEMA}
OPENAI = {"name": "write", "parameters": SCHEMA}
GEMINI = {"functionDeclarations": [OPENAI]}
BEDROCK = {"toolSpec": {"name": "write", "inputSchema": {"json": SCHEMA}}}


@pytest.mark.parametrize(
    "content",
    [
        [ANTHROPIC],
        ANTHROPIC,
        {"model": "claude", "messages": [], "tools": [ANTHROPIC]},
        GEMINI,
        {"contents": [], "tools": [GEMINI]},
        {"toolConfig": {"tools": [BEDROCK]}},
        {"functions": [OPENAI]},
        {"type": "session.update", "session": {"tools": [{"type": "function", **OPENAI}]}},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [ANTHROPIC]}},
    ],
)
def test_a_file_may_hold_tools_in_a_list_or_in_a_request(content: Any, tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(content))
    assert load_tools(file) == [ToolSpec("write", "", SCHEMA)]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[", "tools.json is no JSON"),
        (b"\xff", "tools.json is no JSON"),
        (b"3", "tools.json has no tools in it"),
        (b'{"model": "x"}', "tools.json: tools.0. cannot be read: an object with 'model'"),
        (b'[{"name": "a"}, 3]', r"tools.json: tools\[1\]"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(content: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=told):
        load_tools(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere.json cannot be read: No such file"):
        load_tools(tmp_path / "nowhere.json")


def test_only_what_is_defined_in_python_needs_the_extra() -> None:
    """Whoever has JSON Schemas needs no pydantic to have them read."""
    program = """
import sys
sys.modules["pydantic"] = None
from argstream.errors import MissingExtra
from argstream.validation.lint import lint
from argstream.validation import tool_specs
assert tool_specs([{"name": "x"}])[0].name == "x"
def tool(path: str) -> None: ...
try:
    tool_specs([tool])
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "pip install '.[validation]'" in done.stdout, done.stderr
