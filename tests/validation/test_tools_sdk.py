"""Tools as the SDKs of the providers hold them: with their own objects."""

from collections.abc import Mapping
from typing import Any

import anthropic
import cohere
import mcp_types
import openai
from google.genai import types
from langchain_core.tools import tool as langchain_tool
from ollama import Tool as OllamaTool
from openai.types.responses import CustomTool, FunctionTool, WebSearchTool
from pydantic import BaseModel
from xai_sdk.chat import tool as xai_tool  # type: ignore[import-untyped]
from xai_sdk.tools import web_search  # type: ignore[import-untyped]

from argstream.validation.tools import ToolSpec, tool_specs

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


def test_mcp() -> None:
    assert ToolSpec.of(mcp_types.Tool(name="write", input_schema=SCHEMA)).schema == SCHEMA


def test_cohere() -> None:
    function = cohere.ToolV2Function(name="write", parameters=SCHEMA)
    assert ToolSpec.of(cohere.ToolV2(function=function)).schema == SCHEMA


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
