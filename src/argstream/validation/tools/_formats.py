"""One tool, in whatever form a request has it → what is to be known of it.

Each provider's form is told by its keys, so nobody has to say whose it is. An SDK's objects are
dumped, or asked for what they would send; no SDK is imported.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from reprlib import Repr
from typing import Any, Final, Literal, NamedTuple

from argstream.errors import UsageError
from argstream.validation._signatures import (
    describe,
    is_definition,
    json_schema,
    read_definition,
)
from argstream.validation.tools._agent_sdk import is_agent_sdk_tool, schema_of_types
from argstream.validation.tools._builtin import (
    GEMINI_HOSTED,
    HOSTED_TYPES,
    NAMED_TYPES,
    TOOLSETS,
    UNNAMED_TYPES,
)
from argstream.validation.tools._cohere import schema_of_definitions
from argstream.validation.tools._gemini_schema import json_schema_of
from argstream.validation.tools._keywords import bare_schema, refuse_what_says_nothing
from argstream.validation.tools._spelling import SCHEMA_KEYS, intended_type, misspelt_schema

__all__ = ["FORMS", "FoundTool", "found", "is_sent", "listed", "tools_in"]

FORMS: Final = (
    "a ToolSpec, a pydantic model class, a function, or a tool in the format of Anthropic, OpenAI "
    "(Chat, Responses, Realtime), Gemini, Bedrock, Cohere, Ollama, xAI, LangChain, MCP or the "
    "Claude Agent SDK"
)
_DECLARATIONS: Final = ("functionDeclarations", "function_declarations")
_ENVELOPES: Final = ("toolConfig", "tool_config", "session", "setup", "result", "config")
_MOST_ENVELOPES: Final = 4  # one in the other
_short = Repr()
_short.maxstring = 60


class FoundTool(NamedTuple):
    """A tool that was read."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] | bool | None = None
    kind: Literal["function", "custom"] = "function"
    source: Any = None
    is_shared: bool = False
    """Whether another tool may have the same name: the calls tell them apart, names do not."""


def tools_in(tool: object, where: str) -> Iterator[FoundTool]:
    """Read one entry of a list of tools: it may hold several, or none that anybody can call."""
    if is_definition(tool):
        yield _defined(tool, where)
    elif isinstance(tool, Mapping):
        yield from _in_mapping(tool, where)
    elif hasattr(tool, "tool_call_schema"):  # LangChain
        fields = {name: getattr(tool, name, None) for name in ("name", "description")}
        yield _flat({**fields, "input_schema": getattr(tool, "tool_call_schema")}, where)  # noqa: B009 - of an object of any type
    elif (tools := listed(tool)) is not None:
        yield from _each(tools, where)
    elif is_sent(tool):
        yield from _in_mapping(_dumped(tool, where), where)
    elif is_agent_sdk_tool(tool):
        yield _of_agent_sdk(tool, where)
    else:
        raise _unreadable(tool, where)


def is_sent(tool: object) -> bool:
    """Say whether it is an object of an SDK, which knows what it would send."""
    return not isinstance(tool, type) and (
        hasattr(tool, "model_dump")
        or (hasattr(tool, "DESCRIPTOR") and hasattr(tool, "ListFields"))  # xAI’s, of protobuf
        or callable(getattr(tool, "to_dict", None))
    )


def listed(content: object, depth: int = _MOST_ENVELOPES) -> list[object] | None:
    """Find the list of tools in what may be a whole request; None if there is none."""
    if not depth or not (isinstance(content, Mapping) or is_sent(content)):
        return None
    if _member(content, "type") in ("namespace", "mcp_toolset"):
        return None
    for key in ("tools", "functions"):
        tools = _member(content, key)
        if isinstance(tools, Sequence) and not isinstance(tools, str | bytes):
            return list(tools)
    for key in _ENVELOPES:
        found = listed(_member(content, key), depth - 1)
        if found is not None:
            return found
    return None


def _member(content: Any, key: str) -> Any:
    return content.get(key) if isinstance(content, Mapping) else getattr(content, key, None)


def _each(tools: Iterable[object], where: str) -> Iterator[FoundTool]:
    for number, one in enumerate(tools):
        yield from tools_in(one, f"{where}.tools[{number}]")


def _defined(tool: Any, where: str) -> FoundTool:
    try:
        definition = read_definition(tool)
        schema = json_schema(definition)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return FoundTool(definition.name, definition.description, schema, source=tool)


def _in_mapping(tool: Mapping[str, Any], where: str) -> Iterator[FoundTool]:
    if (tools := listed(tool)) is not None:
        yield from _each(tools, where)
        return
    for key in _DECLARATIONS:
        for number, one in enumerate(_list(tool, key, where)):
            yield _declared(one, f"{where}.{key}[{number}]")
    if any(key in tool for key in _DECLARATIONS):
        _refuse_computer_use(tool, where)
    elif isinstance(inner := _first(tool, "toolSpec", "tool_spec", "function"), Mapping):
        yield _inside(inner, tool, where)
    elif isinstance(inner := tool.get("custom"), Mapping):
        yield _flat(inner, where)._replace(schema=None, kind="custom")
    elif isinstance(type_ := tool.get("type"), str):
        yield from _typed(tool, type_, where)
    elif "name" in tool:
        yield _flat(tool, where, is_gemini="parameters" in tool)
    elif not _is_hosted(tool, where):
        raise _unreadable(tool, where)


def _typed(tool: Mapping[str, Any], type_: str, where: str) -> Iterator[FoundTool]:
    """Read a tool that says of which type it is: OpenAI's Responses and Anthropic's own."""
    if type_ == "namespace":
        for inner in _each(_list(tool, "tools", where), where):
            yield inner._replace(is_shared=True)
    elif type_ in TOOLSETS:
        for name in _members(tool, type_, where):
            yield FoundTool(name, is_shared=True)
    elif type_ in NAMED_TYPES:
        yield FoundTool(NAMED_TYPES[type_])
    elif type_ in UNNAMED_TYPES:
        _refuse_unnamed(UNNAMED_TYPES[type_], where)
    elif type_ in HOSTED_TYPES and "name" not in tool:
        return  # what else it has, be it a schema, is between the provider and its own tool
    elif type_ not in HOSTED_TYPES and (meant := intended_type(type_)) is not None:
        raise UsageError(f"{where} has the type {type_!r}: did you mean {meant!r}?")
    elif type_ == "custom" and _schema_key(tool) is None:
        yield _flat(tool, where)._replace(schema=None, kind="custom")
    elif type_ in ("function", "custom"):
        yield _flat(tool, where)
    elif "name" not in tool:
        raise _unreadable(tool, where)
    elif _schema_key(tool) is not None:
        yield _flat(tool, where)
    else:  # Anthropic's own: bash_20250124, web_search_20260318 …
        yield _flat(tool, where)._replace(schema=None)


def _members(tool: Mapping[str, Any], type_: str, where: str) -> Iterator[str]:
    configs = tool.get("configs") or {}
    if not isinstance(configs, Mapping):
        raise UsageError(f"{where}: its configs must be an object, not {found(configs)}")
    for name in TOOLSETS[type_]:
        config = configs.get(name) or {}
        if not isinstance(config, Mapping):
            raise UsageError(f"{where}: configs.{name} must be an object, not {found(config)}")
        if config.get("enabled") is not False:
            yield name


def _list(tool: Mapping[str, Any], key: str, where: str) -> Iterable[object]:
    value = tool.get(key)
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise UsageError(f"{where}: {key} must be a list, not {found(value)}")
    return value


def _of_agent_sdk(tool: Any, where: str) -> FoundTool:
    try:
        schema = schema_of_types(tool.input_schema)
    except (NameError, TypeError) as error:
        raise UsageError(f"{where}: the types of {tool.name!r} cannot be read: {error}") from error
    return _flat({**vars(tool), "input_schema": schema}, where)


def _inside(inner: Mapping[str, Any], outer: Mapping[str, Any], where: str) -> FoundTool:
    """Read a tool that stands in another object: what is beside it counts for nothing."""
    key = _schema_key(outer) or misspelt_schema(outer)
    if key is not None and _schema_key(inner) is None:
        raise UsageError(f"{where}: {key!r} is not read there: put it beside the name")
    return _flat(inner, where)


def _declared(declaration: object, where: str) -> FoundTool:
    """Read a declaration of Gemini."""
    if not isinstance(declaration, Mapping):
        if not is_sent(declaration):
            raise _unreadable(declaration, where)
        declaration = _dumped(declaration, where)
    return _flat(declaration, where, is_gemini=True)


def _flat(tool: Mapping[str, Any], where: str, *, is_gemini: bool = False) -> FoundTool:
    """Read a name, a description and a schema that stand side by side."""
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{where}: a tool needs a name, but has {_short.repr(name)}")
    key = _schema_key(tool)
    if key is None and (keyword := bare_schema(tool)) is not None:
        raise UsageError(
            f"{where} ({name!r}): {keyword!r} is of a JSON Schema, which is not read beside the"
            " name: put the whole schema under 'input_schema' or 'parameters'"
        )
    if key is None and (misspelt := misspelt_schema(tool)) is not None:
        raise UsageError(
            f"{where} ({name!r}): {misspelt!r} is not read, but seems to be the schema of its"
            " arguments: call it 'input_schema' or 'parameters', as the provider does, or leave it"
            " out"
        )
    told = None if key is None else tool[key]
    if told is None and tool.get("parameter_definitions") is not None:
        told = schema_of_definitions(tool["parameter_definitions"], f"{where} ({name!r})")
    schema = _schema(told, f"{where} ({name!r})")
    if is_gemini and key == "parameters":
        schema = json_schema_of(schema)
    description = tool.get("description")
    return FoundTool(name, description if isinstance(description, str) else "", schema)


def _schema(told: Any, where: str) -> Mapping[str, Any] | bool:
    """Read a schema; where a tool has none, it takes an object of which nothing is said."""
    if told is None:
        return {"type": "object"}
    if isinstance(told, str):  # xAI’s, over gRPC
        told = _parsed(told, where)
    if isinstance(told, type) and is_definition(told):
        schema = _defined(told, where).schema
        return {} if schema is None else schema
    if isinstance(told, Mapping) and set(told) == {"json"} and isinstance(told["json"], Mapping):
        told = told["json"]  # Bedrock’s
    if isinstance(told, Mapping):
        refuse_what_says_nothing(told, where)
        return {key: value for key, value in told.items() if value is not None}
    if isinstance(told, bool):
        return told
    if hasattr(told, "model_dump"):
        return _dumped(told, where)
    raise UsageError(f"{where}: its schema must be a JSON Schema, not {describe(told)}")


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: its schema is no JSON: {error}") from error


def _dumped(tool: Any, where: str) -> Mapping[str, Any]:
    """Give an SDK's object as the mapping that it would send."""
    if hasattr(tool, "DESCRIPTOR") and hasattr(tool, "ListFields"):  # xAI’s, a protobuf message
        return {field.name: _of_message(value) for field, value in tool.ListFields()}
    try:
        sent = (
            tool.model_dump(mode="json", by_alias=True, exclude_none=True)
            if hasattr(tool, "model_dump")
            else tool.to_dict()
        )
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {describe(tool)} cannot be read: {error}") from error
    if not isinstance(sent, Mapping):
        raise _unreadable(tool, where)
    return sent


def _of_message(value: Any) -> Any:
    if not hasattr(value, "ListFields"):
        return value
    return {field.name: _of_message(inner) for field, inner in value.ListFields()}


def _is_hosted(tool: Mapping[str, Any], where: str) -> bool:
    """Say whether a tool without a type and a name is one that the provider runs."""
    _refuse_computer_use(tool, where)
    keys = {_camel_case(str(key)) for key in tool}
    of_bedrock = {"cachePoint", "systemTool"}
    return bool(keys) and (keys <= GEMINI_HOSTED or keys <= of_bedrock or keys <= HOSTED_TYPES)


def _camel_case(key: str) -> str:
    head, *rest = key.split("_")
    return key if key in HOSTED_TYPES else head + "".join(word.capitalize() for word in rest)


def _schema_key(tool: Mapping[str, Any]) -> str | None:
    return next((key for key in SCHEMA_KEYS if tool.get(key) is not None), None)


def _first(tool: Mapping[str, Any], *keys: str) -> Any:
    return next((tool[key] for key in keys if key in tool), None)


def _refuse_computer_use(tool: Mapping[str, Any], where: str) -> None:
    if _first(tool, "computerUse", "computer_use") is not None:
        _refuse_unnamed(UNNAMED_TYPES["computer_use"], where)


def _refuse_unnamed(told: str, where: str) -> None:
    raise UsageError(
        f"{where}: the functions of {told} depend on the model: put a ToolSpec(name) for each that "
        "you carry out in its place"
    )


def found(tool: object) -> str:
    """Say what was found, for a message."""
    if isinstance(tool, Mapping):
        keys = ", ".join(_short.repr(key) for key in list(tool)[:8]) or "nothing"
        told = f" and the type {_short.repr(tool['type'])}" if "type" in tool else ""
        return f"an object with {keys}{told}"
    if isinstance(tool, str | bytes | int | float | None):
        return _short.repr(tool)
    return describe(tool)


def _unreadable(tool: object, where: str) -> UsageError:
    return UsageError(
        f"{where} cannot be read: {found(tool)}; a tool is {FORMS}. If the provider runs it itself,"
        " leave it out"
    )
