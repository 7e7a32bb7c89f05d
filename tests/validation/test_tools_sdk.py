"""Tools as the SDKs of the providers hold them: with their own objects."""

from collections.abc import Mapping
from typing import Annotated, Any

import anthropic
import cohere
import mcp_types
import openai
import pytest
import typing_extensions
from claude_agent_sdk import tool as agent_tool
from google.genai import types
from langchain_core.tools import tool as langchain_tool
from ollama import Tool as OllamaTool
from openai.types.responses import CustomTool, FunctionTool, ToolSearchTool, WebSearchTool
from pydantic import BaseModel
from xai_sdk.chat import tool as xai_tool  # type: ignore[import-untyped]  # it has no types
from xai_sdk.tools import web_search  # type: ignore[import-untyped]  # as above

from argstream.errors import UsageError
from argstream.validation import ToolSpec, tool_specs

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}


class WriteFile(BaseModel):
    """Write a file."""

    path: str


def write_file(path: str) -> str:
    """Write a file.

    Args:
        path: Where to.
    """
    return path


def required(spec: ToolSpec) -> Any:
    assert isinstance(spec.schema, Mapping)
    return spec.schema["required"]


def test_anthropic() -> None:
    spec = ToolSpec.of(anthropic.beta_tool(write_file))
    assert (spec.name, spec.description, required(spec)) == (
        "write_file",
        "Write a file.",
        ["path"],
    )


def test_openai_chat() -> None:
    spec = ToolSpec.of(openai.pydantic_function_tool(WriteFile))
    assert (spec.name, spec.description, required(spec)) == ("WriteFile", "Write a file.", ["path"])


def test_openai_responses() -> None:
    tools = [
        FunctionTool(type="function", name="write", parameters=SCHEMA, strict=True),
        CustomTool(type="custom", name="run"),
        WebSearchTool(type="web_search"),
        ToolSearchTool(
            type="tool_search", execution="client", description="Find.", parameters=SCHEMA
        ),
    ]
    assert tool_specs(tools) == [ToolSpec("write", "", SCHEMA), ToolSpec("run", kind="custom")]


def test_gemini() -> None:
    parameters = types.Schema(
        type=types.Type.OBJECT,
        properties={
            "path": types.Schema(type=types.Type.STRING, min_length=1, nullable=True),
            "mode": types.Schema(type=types.Type.INTEGER, enum=["1", "2"]),
        },
        required=["path"],
        property_ordering=["path", "mode"],
    )
    declarations = [
        types.FunctionDeclaration(name="write", description="W.", parameters=parameters),
        types.FunctionDeclaration(name="read", parameters_json_schema=SCHEMA),
        types.FunctionDeclaration(name="list"),
    ]
    tool = types.Tool(function_declarations=declarations, google_search=types.GoogleSearch())
    expected = [
        ToolSpec(
            "write",
            "W.",
            {
                "type": "object",
                "properties": {
                    "path": {"type": ["string", "null"], "minLength": 1},
                    "mode": {"type": "integer", "enum": [1, 2]},
                },
                "required": ["path"],
                "propertyOrdering": ["path", "mode"],
            },
        ),
        ToolSpec("read", "", SCHEMA),
        ToolSpec("list", "", {"type": "object"}),
    ]
    assert tool_specs([tool]) == expected
    assert tool_specs([tool.model_dump()]) == expected
    assert tool_specs([tool.model_dump(by_alias=True, exclude_none=True)]) == expected
    assert tool_specs(declarations) == expected
    assert tool_specs([{"functionDeclarations": declarations}]) == expected
    loose = {"name": "write", "description": "W.", "parameters": parameters}
    assert tool_specs([{"functionDeclarations": [loose]}]) == expected[:1]
    assert tool_specs([types.Tool(google_search=types.GoogleSearch())]) == []


def test_a_whole_request_of_gemini() -> None:
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="read")])
    config = types.GenerateContentConfig(tools=[tool, write_file])
    for given in (config, [config], {"model": "gemini", "config": config}):
        assert [spec.name for spec in tool_specs(given)] == ["read", "write_file"]


def test_one_object_of_an_sdk_is_read_like_one_mapping() -> None:
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="read")])
    one = [langchain_tool(write_file), anthropic.beta_tool(write_file), xai_tool("x", "", SCHEMA)]
    assert [tool_specs(given)[0].name for given in (tool, *one)] == [
        *("read", "write_file", "write_file", "x"),
    ]


def test_mcp() -> None:
    assert ToolSpec.of(mcp_types.Tool(name="write", input_schema=SCHEMA)).schema == SCHEMA


def test_cohere() -> None:
    function = cohere.ToolV2Function(name="write", parameters=SCHEMA)
    assert ToolSpec.of(cohere.ToolV2(function=function)).schema == SCHEMA


def test_cohere_before_its_second_version() -> None:
    """It tells of types as Python does; one that is not known may be anything."""

    def parameter(type_: str, *, required: bool | None = None) -> Any:
        return cohere.ToolParameterDefinitionsValue(
            type=type_, required=required, description=f"A {type_}."
        )

    tool = cohere.Tool(
        name="write",
        description="W.",
        parameter_definitions={
            "path": parameter("str", required=True),
            "lines": parameter("List[str]"),
            "size": parameter("integer", required=False),
            "mode": parameter("Union[int, str]"),
        },
    )
    properties = {
        "path": {"type": "string", "description": "A str."},
        "lines": {"type": "array", "description": "A List[str]."},
        "size": {"type": "integer", "description": "A integer."},
        "mode": {"description": "A Union[int, str]."},
    }
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    for given in (tool, tool.dict()):
        assert tool_specs([given]) == [ToolSpec("write", "W.", schema)]
    wrong: Any
    for wrong in ([], {"path": "str"}):
        with pytest.raises(UsageError, match="must be an object of objects"):
            tool_specs([{"name": "write", "parameter_definitions": wrong}])


def test_ollama() -> None:
    tool = OllamaTool.model_validate({"function": {"name": "write", "parameters": SCHEMA}})
    assert ToolSpec.of(tool).schema == SCHEMA


def test_xai() -> None:
    assert tool_specs([xai_tool("write", "W.", SCHEMA), web_search()]) == [
        ToolSpec("write", "W.", SCHEMA)
    ]


def test_langchain() -> None:
    spec = ToolSpec.of(langchain_tool(write_file))
    assert (spec.name, required(spec)) == ("write_file", ["path"])


async def handle(_: Any) -> dict[str, Any]:
    return {}


class Place(typing_extensions.TypedDict):
    city: Annotated[str, "Where it is."]
    codes: typing_extensions.NotRequired[list[int]]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (SCHEMA, SCHEMA),
        ({}, {}),
        ({"type": "object"}, {"type": "object"}),
        (WriteFile, {"type": "object"}),  # the SDK tells the model no more than that
        (
            {"type": str, "size": int | None, "tags": list[str], "any": dict[str, int]},
            {
                "type": "object",
                "properties": {
                    "type": {"type": "string"},
                    "size": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "any": {"type": "object"},
                },
                "required": ["type", "size", "tags", "any"],
            },
        ),
        (
            {"x": float | str, "y": set[str], "z": {"type": "string"}, "l": list, "b": bool},
            {
                "type": "object",
                "properties": {
                    "x": {"anyOf": [{"type": "number"}, {"type": "string"}]},
                    "y": {},
                    "z": {},
                    "l": {"type": "array"},
                    "b": {"type": "boolean"},
                },
                "required": ["x", "y", "z", "l", "b"],
            },
        ),
        (
            Place,
            {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "codes": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["city"],
            },
        ),
    ],
)
def test_the_claude_agent_sdk(told: Any, expected: Any) -> None:
    tool = agent_tool("write", "Write.", told)(handle)
    assert tool_specs([tool]) == [ToolSpec("write", "Write.", expected)]
    assert ToolSpec.of(tool, name="mcp__files__write").name == "mcp__files__write"


class Lost(typing_extensions.TypedDict):
    place: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 - that is the point


def test_types_of_the_claude_agent_sdk_that_are_not_there() -> None:
    with pytest.raises(UsageError, match="'write' cannot be read: name 'Nowhere'"):
        tool_specs([agent_tool("write", "", Lost)(handle)])
