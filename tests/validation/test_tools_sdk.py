"""Tools as objects of the SDKs of the providers."""

from collections.abc import Mapping
from typing import Annotated, Any

import pytest
import typing_extensions
from pydantic import BaseModel

from argstream.errors import UsageError
from argstream.validation import ToolSpec, tool_specs

PATH: dict[str, Any] = {"path": {"type": "string"}}
SCHEMA: dict[str, Any] = {"type": "object", "properties": PATH, "required": ["path"]}


class WriteFile(BaseModel):
    """Write a file."""

    path: str


def write_file(path: str) -> str:
    """Write a file.

    Args:
        path: Where to.
    """
    return path


def test_tool_made_of_python() -> None:
    import anthropic
    import openai
    from langchain_core.tools import tool as langchain_tool

    tools: list[tuple[Any, str]] = [
        (anthropic.beta_tool(write_file), "write_file"),
        (openai.pydantic_function_tool(WriteFile), "WriteFile"),
        (langchain_tool(write_file), "write_file"),
    ]
    for tool, name in tools:
        spec = ToolSpec.of(tool)
        assert (spec.name, spec.description[:13]) == (name, "Write a file.")
        assert isinstance(spec.schema, Mapping)
        assert spec.schema["required"] == ["path"]
        assert tool_specs(tool)[0].name == name


def test_tool_made_of_a_schema() -> None:
    import cohere
    import mcp_types
    import ollama
    from openai.types.responses import FunctionTool

    flat = FunctionTool(type="function", name="write", parameters=SCHEMA, strict=True)
    mcp = mcp_types.Tool(name="write", input_schema=SCHEMA)
    function = cohere.ToolV2Function(name="write", parameters=SCHEMA)
    of_ollama = ollama.Tool.model_validate({"function": function.dict()})
    for tool in (flat, mcp, cohere.ToolV2(function=function), of_ollama):
        assert ToolSpec.of(tool).schema == SCHEMA


def test_gemini() -> None:
    from google.genai import types

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
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": ["string", "null"], "minLength": 1},
            "mode": {"type": "integer", "enum": [1, 2]},
        },
        "required": ["path"],
        "propertyOrdering": ["path", "mode"],
    }
    expected = [
        ToolSpec("write", "W.", schema),
        ToolSpec("read", "", SCHEMA),
        ToolSpec("list", "", {"type": "object"}),
    ]
    dumped = tool.model_dump(by_alias=True, exclude_none=True)
    loose_list = {"functionDeclarations": declarations}
    for tools in ([tool], [tool.model_dump()], [dumped], declarations, [loose_list]):
        assert tool_specs(tools) == expected
    loose = {"name": "write", "description": "W.", "parameters": parameters}
    assert tool_specs([{"functionDeclarations": [loose]}]) == expected[:1]
    assert tool_specs([types.Tool(google_search=types.GoogleSearch())]) == []
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="read")])
    config = types.GenerateContentConfig(tools=[tool, write_file])
    for given in (config, [config], {"model": "gemini", "config": config}):
        assert [spec.name for spec in tool_specs(given)] == ["read", "write_file"]
    assert tool_specs(tool)[0].name == "read"


def test_cohere_v1_has_types_of_python() -> None:
    """An unknown type accepts any value."""
    import cohere

    types_ = {"path": "str", "lines": "List[str]", "size": "integer", "mode": "Union[int, str]"}
    required = {"path": True, "size": False}
    definitions = {
        name: cohere.ToolParameterDefinitionsValue(
            type=type_, required=required.get(name), description=f"A {type_}."
        )
        for name, type_ in types_.items()
    }
    tool = cohere.Tool(name="write", description="W.", parameter_definitions=definitions)
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


def test_xai() -> None:
    from xai_sdk.chat import tool  # type: ignore[import-untyped]  # it has no types
    from xai_sdk.tools import web_search  # type: ignore[import-untyped]  # as above

    write = tool("write", "W.", SCHEMA)
    for given in (write, [write, web_search()]):
        assert tool_specs(given) == [ToolSpec("write", "W.", SCHEMA)]


async def handle(_: Any) -> dict[str, Any]:
    return {}


class Place(typing_extensions.TypedDict):
    city: Annotated[str, "Where it is."]
    codes: typing_extensions.NotRequired[list[int]]


def an_object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    names = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": names}


STRING, INTEGER, LIST = {"type": "string"}, {"type": "integer"}, {"type": "array"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (SCHEMA, SCHEMA),
        ({}, {}),
        ({"type": "object"}, {"type": "object"}),
        (WriteFile, {"type": "object"}),  # the SDK sends no more than that to the model
        (
            {"type": str, "size": int | None, "tags": list[str], "any": dict[str, int]},
            an_object(
                type=STRING, size=INTEGER, tags={**LIST, "items": STRING}, any={"type": "object"}
            ),
        ),
        (
            {"x": float | str, "y": set[str], "z": {"type": "string"}, "l": list, "b": bool},
            an_object(
                x={"anyOf": [{"type": "number"}, STRING]}, y={}, z={}, l=LIST, b={"type": "boolean"}
            ),
        ),
        (Place, an_object(["city"], city=STRING, codes={**LIST, "items": INTEGER})),
    ],
)
def test_claude_agent_sdk(given: Any, expected: Any) -> None:
    from claude_agent_sdk import tool as agent_tool

    tool = agent_tool("write", "Write.", given)(handle)
    assert tool_specs([tool]) == [ToolSpec("write", "Write.", expected)]
    assert ToolSpec.of(tool, name="mcp__files__write").name == "mcp__files__write"


class Lost(typing_extensions.TypedDict):
    place: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 - that is the point


def test_undefined_type_in_the_claude_agent_sdk_raises() -> None:
    from claude_agent_sdk import tool as agent_tool

    with pytest.raises(UsageError, match="'write' cannot be read: name 'Nowhere'"):
        tool_specs([agent_tool("write", "", Lost)(handle)])
