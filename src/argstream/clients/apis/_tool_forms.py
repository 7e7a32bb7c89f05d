"""Tools as an API wants to see them: their schemas, whether one can be strict, and the choice."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from argstream.clients.request import ModelRequest, OfferedTool
from argstream.errors import UsageError

__all__ = ["choice_of", "is_strict", "openai_tools", "schema_of"]

# What structured outputs understand, of which none changes the meaning of another.
_STRICT_KEYWORDS: Final = {
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "enum",
    "const",
    "$defs",
    "$ref",
}
_OPENAI_CHOICES: Final = {"auto": "auto", "none": "none", "any": "required"}


def schema_of(tool: OfferedTool) -> dict[str, Any]:
    """Give the schema of a tool's arguments. All APIs want it to say that they are an object."""
    schema = dict(tool.schema)
    if schema.setdefault("type", "object") != "object":
        raise UsageError(
            f'the schema of the tool {tool.name!r} must have "type": "object", not '
            f"{schema['type']!r}: arguments have names"
        )
    if "$ref" not in schema:
        schema.setdefault("properties", {})  # OpenAI refuses a schema without
    return schema


def choice_of(request: ModelRequest) -> str | None:
    """Give the choice of tools, if it is one of the words for it or names a tool that is there."""
    choice, names = request.settings.tool_choice, [tool.name for tool in request.tools]
    is_known = choice in (None, "auto", "any", "none", *names)
    if is_known or "tools" in request.settings.extra:  # where there may be others
        return choice
    raise UsageError(
        f"tool_choice: no tool is called {choice!r}: say auto, any, none, or the name of one, of "
        f"which there are: {', '.join(names)}"
    )


def openai_tools(
    request: ModelRequest,
    *,
    tool: Callable[[OfferedTool], dict[str, Any]],
    choice: Callable[[str], dict[str, Any]],
) -> dict[str, Any]:
    """Give the fields that are about tools, which OpenAI's APIs share but for two forms.

    ``tool`` writes a tool, and ``choice`` that the one of this name is to be called.
    """
    if not request.tools:
        return {}
    settings = request.settings
    fields: dict[str, Any] = {"tools": [tool(offered) for offered in request.tools]}
    if (chosen := choice_of(request)) is not None:
        fields["tool_choice"] = _OPENAI_CHOICES.get(chosen) or choice(chosen)
    if settings.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = settings.parallel_tool_calls
    return fields


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Say whether OpenAI takes a schema as strict: each object says all that it has, and no more.

    In doubt it is not: what is not strict is taken in any case.
    """
    return schema.get("type") == "object" and "anyOf" not in schema and _is_strict(schema)


def _is_strict(schema: object) -> bool:
    if not isinstance(schema, Mapping) or schema.keys() - _STRICT_KEYWORDS:
        return False
    if "$ref" in schema:
        return len(schema) == 1  # not even a description may be beside it
    types = schema.get("type")
    types = [types] if isinstance(types, str) else types
    if not types and not schema.get("anyOf"):
        return False  # any value would do, also if it says which
    types = types or []
    properties = schema.get("properties")
    if "object" in types or properties is not None:
        if not isinstance(properties, Mapping) or schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required") or ()) != set(properties):
            return False
    below = [*(properties or {}).values(), *(schema.get("$defs") or {}).values()]
    below += schema.get("anyOf") or []
    if "items" in schema:
        below.append(schema["items"])
    elif "array" in types:
        return False
    return all(map(_is_strict, below))
