r"""The tools that a model was offered, in whatever form you hold them.

>>> anthropic = {"name": "read", "input_schema": {"type": "object", "required": ["path"]}}
>>> openai = {"type": "function", "function": {"name": "write"}}
>>> gemini = {"functionDeclarations": [{"name": "find"}, {"name": "move"}]}
>>> [tool.name for tool in tool_specs([anthropic, openai, gemini])]
['read', 'write', 'find', 'move']

Tools that the provider runs itself are left out, or known by name alone. A tool without parameters
takes any object: a schema is never stricter than what the provider was told.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from reprlib import Repr
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Struct

from argstream.errors import UsageError
from argstream.validation._dialects import DEFAULT_SCHEMA_LIMITS
from argstream.validation._schema import Schema
from argstream.validation._signatures import (
    describe,
    is_definition,
    is_typed_dict,
    json_schema,
    read_definition,
)

_FORMS: Final = (
    "a ToolSpec, a pydantic model class, a function, or a tool in the format of Anthropic, OpenAI "
    "(Chat, Responses, Realtime), Gemini, Bedrock, Cohere, Ollama, xAI, LangChain, MCP or the "
    "Claude Agent SDK"
)
_DECLARATIONS: Final = ("functionDeclarations", "function_declarations")
_ENVELOPES: Final = ("toolConfig", "tool_config", "session", "setup", "result", "config")
_MOST_ENVELOPES: Final = 4  # one in the other
_TYPES_OF_TOOLS: Final = ("function", "custom")


_JSON_TYPES: Final = {"object", "array", "string", "number", "integer", "boolean", "null"}


_SCHEMA_KEYS: Final = (
    *("input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema"),
    *("parameters", "schema"),
)
"""Under which the schema of a tool's arguments may stand; the first one counts."""
_short = Repr()
_short.maxstring = 60


_HOSTED_TYPES: Final = frozenset(
    {
        # OpenAI Responses and Realtime; xAI and others that speak like it. Some of these are run
        # by the client (shell, computer). Their calls are of the kind "client".
        *("file_search", "web_search", "web_search_2025_08_26", "code_interpreter", "mcp"),
        *("web_search_preview", "web_search_preview_2025_03_11", "image_generation"),
        *("programmatic_tool_calling", "tool_search", "shell", "local_shell", "computer"),
        *("computer_use_preview", "x_search", "collections_search", "attachment_search"),
        *("browser_search", "document_search", "live_search"),
        # Anthropic: the tools of an MCP server that it talks to.
        "mcp_toolset",
        # Gemini Interactions
        *("google_search", "google_maps", "code_execution", "url_context", "mcp_server"),
        "retrieval",
    }
)
"""Types of tools that have no schema: calls to them are not checked against the list of tools."""

_APPLY_PATCH: Final = "apply_patch"  # has no name in the request; its calls have this one

_COMPUTER_USE: Final = "computer_use"  # its calls have names that the provider makes up

_GEMINI_HOSTED: Final = frozenset(
    {
        *("retrieval", "fileSearch", "googleSearch", "googleSearchRetrieval", "googleMaps"),
        *("codeExecution", "enterpriseWebSearch", "parallelAiSearch", "exaAiSearch"),
        *("urlContext", "mcpServers"),
    }
)
"""The same in a ``Tool`` of Gemini, each a key of its own."""

_POINTING: Final = (
    *("double_click", "hold_key", "key", "left_click", "left_click_drag", "left_mouse_down"),
    *("left_mouse_up", "middle_click", "mouse_move", "right_click", "screenshot", "scroll"),
    *("triple_click", "type", "wait", "zoom"),
)
_TOOLSETS: Final = {
    "computer_toolset_20260801": ("cursor_position", *_POINTING),
    "browser_toolset_20260801": (
        *("close_tab", "file_upload", "find", "form_input", "get_page_text", "hover"),
        *("javascript_exec", "list_tabs", "navigate", "new_tab", "read_console", "read_network"),
        *("read_page", "scroll_to", "switch_tab"),
        *_POINTING,
    ),
}
"""Anthropic's families of tools: the calls have the names of the members."""


class ToolSpec(Struct, frozen=True):
    """A tool that a model may call."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] | bool | Schema | None = None
    """The JSON Schema of its arguments; None: nothing is known of them (free text, built-in).

    One that is compiled already (``Schema``) may have its own limits, formats and resources.
    """
    kind: Literal["function", "custom"] = "function"
    """``custom`` takes free text."""
    source: Any = None
    """The class or the function that it was made of, if it was."""

    def __post_init__(self) -> None:
        name: object = self.name
        if name == "" or not isinstance(name, str):
            raise UsageError(
                f"a tool needs a name, not {_shown(self.name)}; of a class or a function, "
                "ToolSpec.of makes one"
            )
        where = f"the tool {self.name!r}"
        if not isinstance(self.description, str):
            raise UsageError(
                f"{where}: its description must be a str, not {_shown(self.description)}; "
                f"the schema is the third: ToolSpec({self.name!r}, description, schema)"
            )
        if isinstance(self.schema, Mapping):
            _refuse_what_says_nothing(self.schema, where)
        elif not isinstance(self.schema, bool | Schema | None):
            raise UsageError(
                f"{where}: its schema must be a JSON Schema, not {_shown(self.schema)}; of a class "
                "or a function, ToolSpec.of makes one"
            )
        if self.kind not in _TYPES_OF_TOOLS:
            raise UsageError(
                f"{where}: its kind must be 'function' or 'custom', not {_shown(self.kind)}"
            )

    @classmethod
    def of(
        cls, tool: object, *, name: str | None = None, description: str | None = None
    ) -> "ToolSpec":
        """Read one tool: a pydantic model class, a function, or what a provider's request has."""
        specs = _read([("the tool", tool)])
        if len(specs) != 1:
            told = f"holds {len(specs)} tools" if specs else "is run by the provider itself"
            raise UsageError(f"{_shown(tool)} {told}: use tool_specs for a list")
        (spec,) = specs
        return cls(
            spec.name if name is None else name,
            spec.description if description is None else description,
            spec.schema,
            spec.kind,
            spec.source,
        )


def tool_specs(tools: Iterable[object]) -> list[ToolSpec]:
    """Read tools, of any mix of formats; of one request with its tools, these.

    Tools of the Claude Agent SDK have the names that they were given; its calls say
    ``mcp__server__name``, so use ``ToolSpec.of(tool, name=…)`` to check them. Raises UsageError for
    what cannot be read, and for two tools of one name.
    """
    return _read((f"tools[{number}]", tool) for number, tool in enumerate(_entries(tools)))


def load_tools(path: str | Path) -> list[ToolSpec]:
    """Read the tools of a JSON file: a list of tools, a whole request with its tools, or one tool.

    Raises UsageError, which names the file and what to do, if there is none to be read.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # JSON, or UTF-8
        raise UsageError(
            f"{path} is no JSON: {error}; give a list of tools, or a request with its tools"
        ) from error
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply to be read") from error
    if not isinstance(content, list | dict):
        raise UsageError(f"{path} has no tools in it: give a list of tools, not {_shown(content)}")
    try:
        return tool_specs(content)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _entries(tools: object) -> list[object]:
    if isinstance(tools, Mapping) or (_is_sent(tools) and not isinstance(tools, list | tuple)):
        inner = _listed(tools)
        return [tools] if inner is None else inner
    if isinstance(tools, ToolSpec | str | bytes) or not isinstance(tools, Iterable):
        raise UsageError(f"tools must be a list, not {_shown(tools)}; a tool is {_FORMS}")
    return list(tools)


class _FoundTool(NamedTuple):
    name: str
    description: str = ""
    schema: Mapping[str, Any] | bool | None = None
    kind: Literal["function", "custom"] = "function"
    source: Any = None
    is_shared: bool = False
    """Whether another tool may have the same name: the calls tell them apart, names do not."""


def _read(entries: Iterable[tuple[str, object]]) -> list[ToolSpec]:
    specs: dict[str, ToolSpec] = {}
    shared: set[str] = set()
    for where, tool in entries:
        own = tool if isinstance(tool, ToolSpec) else getattr(tool, "spec", None)
        if isinstance(own, ToolSpec):  # a tool of an agent has one
            _add(own, where, specs)
            continue
        for one in _found_tools(tool, where):
            spec = ToolSpec(one.name, one.description, one.schema, one.kind, one.source)
            known = specs.get(one.name)
            is_same = known is not None and (known.schema, known.kind) == (spec.schema, spec.kind)
            if is_same and (one.is_shared or one.name in shared):
                pass  # which of them a call means does not matter
            elif known is not None and one.is_shared and one.name in shared:
                specs[one.name] = ToolSpec(one.name, kind=known.kind)
            else:
                _add(spec, where, specs)
            if not one.is_shared:
                shared.discard(one.name)
            elif known is None:
                shared.add(one.name)
    return list(specs.values())


def _found_tools(tool: object, where: str) -> list[_FoundTool]:
    try:
        return list(_tools_in(tool, where))
    except RecursionError as error:
        raise UsageError("the tools are nested too deeply to be read") from error


def _add(spec: ToolSpec, where: str, specs: dict[str, ToolSpec]) -> None:
    if spec.name in specs:
        raise UsageError(
            f"{where}: there are two tools of the name {spec.name!r}; a call could mean either"
        )
    specs[spec.name] = spec


def _tools_in(tool: object, where: str) -> Iterator[_FoundTool]:
    """Read one entry of a list of tools. It may hold several, or none that can be called."""
    if is_definition(tool):
        yield _defined(tool, where)
    elif isinstance(tool, Mapping):
        yield from _in_mapping(tool, where)
    elif hasattr(tool, "tool_call_schema"):  # LangChain
        fields = {name: getattr(tool, name, None) for name in ("name", "description")}
        yield _flat({**fields, "input_schema": getattr(tool, "tool_call_schema", None)}, where)
    elif (tools := _listed(tool)) is not None:
        yield from _each(tools, where)
    elif _is_sent(tool):
        yield from _in_mapping(_dumped(tool, where), where)
    elif _is_agent_sdk_tool(tool):
        yield _of_agent_sdk(tool, where)
    else:
        raise _unreadable(tool, where)


def _is_sent(tool: object) -> bool:
    """Return True for an SDK object that can dump what it would send."""
    return not isinstance(tool, type) and (
        hasattr(tool, "model_dump")
        or (hasattr(tool, "DESCRIPTOR") and hasattr(tool, "ListFields"))  # xAI’s, of protobuf
        or callable(getattr(tool, "to_dict", None))
    )


def _listed(content: object, depth: int = _MOST_ENVELOPES) -> list[object] | None:
    """Return the list of tools in what may be a whole request; None if there is none."""
    if not depth or not (isinstance(content, Mapping) or _is_sent(content)):
        return None
    if _member(content, "type") in ("namespace", "mcp_toolset"):
        return None
    for key in ("tools", "functions"):
        tools = _member(content, key)
        if isinstance(tools, Sequence) and not isinstance(tools, str | bytes):
            return list(tools)
    for key in _ENVELOPES:
        found = _listed(_member(content, key), depth - 1)
        if found is not None:
            return found
    return None


def _member(content: Any, key: str) -> Any:
    return content.get(key) if isinstance(content, Mapping) else getattr(content, key, None)


def _each(tools: Iterable[object], where: str) -> Iterator[_FoundTool]:
    for number, one in enumerate(tools):
        yield from _tools_in(one, f"{where}.tools[{number}]")


def _defined(tool: Any, where: str) -> _FoundTool:
    try:
        definition = read_definition(tool)
        schema = json_schema(definition)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return _FoundTool(definition.name, definition.description, schema, source=tool)


def _in_mapping(tool: Mapping[str, Any], where: str) -> Iterator[_FoundTool]:
    if (tools := _listed(tool)) is not None:
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


def _typed(tool: Mapping[str, Any], type_: str, where: str) -> Iterator[_FoundTool]:
    """Read a tool that has a type: OpenAI Responses, and Anthropic's own."""
    if type_ == "namespace":
        for inner in _each(_list(tool, "tools", where), where):
            yield inner._replace(is_shared=True)
    elif type_ in _TOOLSETS:
        for name in _members(tool, type_, where):
            yield _FoundTool(name, is_shared=True)
    elif type_ == _APPLY_PATCH:
        yield _FoundTool(_APPLY_PATCH)
    elif type_ == _COMPUTER_USE:
        _refuse_computer_use(tool, where)
    elif type_ in _HOSTED_TYPES and "name" not in tool:
        return  # what else it has, be it a schema, is between the provider and its own tool
    elif type_ not in _HOSTED_TYPES and (meant := _intended_type(type_)) is not None:
        raise UsageError(f"{where} has the type {type_!r}: did you mean {meant!r}?")
    elif type_ == "custom" and _schema_key(tool) is None:
        yield _flat(tool, where)._replace(schema=None, kind="custom")
    elif type_ not in _TYPES_OF_TOOLS and "name" not in tool:
        raise _unreadable(tool, where)
    elif type_ in _TYPES_OF_TOOLS or _schema_key(tool) is not None:
        yield _flat(tool, where)
    else:  # Anthropic's own: bash_20250124, web_search_20260318 …
        yield _flat(tool, where)._replace(schema=None)


def _members(tool: Mapping[str, Any], type_: str, where: str) -> Iterator[str]:
    configs = tool.get("configs") or {}
    if not isinstance(configs, Mapping):
        raise UsageError(f"{where}: its configs must be an object, not {_shown(configs)}")
    for name in _TOOLSETS[type_]:
        config = configs.get(name) or {}
        if not isinstance(config, Mapping):
            raise UsageError(f"{where}: configs.{name} must be an object, not {_shown(config)}")
        if config.get("enabled") is not False:
            yield name


def _list(tool: Mapping[str, Any], key: str, where: str) -> Iterable[object]:
    value = tool.get(key)
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise UsageError(f"{where}: {key} must be a list, not {_shown(value)}")
    return value


def _of_agent_sdk(tool: Any, where: str) -> _FoundTool:
    try:
        schema = _schema_of_types(tool.input_schema)
    except (NameError, TypeError) as error:
        raise UsageError(f"{where}: the types of {tool.name!r} cannot be read: {error}") from error
    return _flat({**vars(tool), "input_schema": schema}, where)


def _inside(inner: Mapping[str, Any], outer: Mapping[str, Any], where: str) -> _FoundTool:
    """Read a tool that stands in another object. What stands beside it has no effect."""
    key = _schema_key(outer) or _misspelt_schema(outer)
    if key is not None and _schema_key(inner) is None:
        raise UsageError(f"{where}: {key!r} is not read there: put it beside the name")
    return _flat(inner, where)


def _declared(declaration: object, where: str) -> _FoundTool:
    if not isinstance(declaration, Mapping):
        if not _is_sent(declaration):
            raise _unreadable(declaration, where)
        declaration = _dumped(declaration, where)
    return _flat(declaration, where, is_gemini=True)


def _flat(tool: Mapping[str, Any], where: str, *, is_gemini: bool = False) -> _FoundTool:
    """Read a name, a description and a schema that stand side by side."""
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{where}: a tool needs a name, but has {_short.repr(name)}")
    key = _schema_key(tool)
    if key is None and (keyword := _bare_schema(tool)) is not None:
        raise UsageError(
            f"{where} ({name!r}): {keyword!r} is of a JSON Schema, which is not read beside the"
            " name: put the whole schema under 'input_schema' or 'parameters'"
        )
    if key is None and (misspelt := _misspelt_schema(tool)) is not None:
        raise UsageError(
            f"{where} ({name!r}): {misspelt!r} is not read, but seems to be the schema of its"
            " arguments: call it 'input_schema' or 'parameters', as the provider does, or leave it"
            " out"
        )
    told = None if key is None else tool[key]
    if told is None and tool.get("parameter_definitions") is not None:
        told = _schema_of_definitions(tool["parameter_definitions"], f"{where} ({name!r})")
    schema = _schema(told, f"{where} ({name!r})")
    if is_gemini and key == "parameters":
        schema = _json_schema_of(schema)
    description = tool.get("description")
    return _FoundTool(name, description if isinstance(description, str) else "", schema)


def _schema(told: Any, where: str) -> Mapping[str, Any] | bool:
    """Read a schema. A tool without one accepts any object."""
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
        _refuse_what_says_nothing(told, where)
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
    """Return an SDK's object as the mapping that it would send."""
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
    """Return True if a tool without a type and a name is one that the provider runs."""
    _refuse_computer_use(tool, where)
    keys = {_camel_case(str(key)) for key in tool}
    of_bedrock = {"cachePoint", "systemTool"}
    return bool(keys) and (keys <= _GEMINI_HOSTED or keys <= of_bedrock or keys <= _HOSTED_TYPES)


def _camel_case(key: str) -> str:
    head, *rest = key.split("_")
    return key if key in _HOSTED_TYPES else head + "".join(word.capitalize() for word in rest)


def _schema_key(tool: Mapping[str, Any]) -> str | None:
    return next((key for key in _SCHEMA_KEYS if tool.get(key) is not None), None)


def _first(tool: Mapping[str, Any], *keys: str) -> Any:
    return next((tool[key] for key in keys if key in tool), None)


def _refuse_computer_use(tool: Mapping[str, Any], where: str) -> None:
    if _first(tool, "computerUse", "computer_use") is not None or tool.get("type") == _COMPUTER_USE:
        raise UsageError(
            f"{where}: the functions of Gemini’s computer use depend on the model: put a "
            "ToolSpec(name) for each that you carry out in its place"
        )


def _shown(tool: object) -> str:
    if isinstance(tool, Mapping):
        keys = ", ".join(_short.repr(key) for key in list(tool)[:8]) or "nothing"
        told = f" and the type {_short.repr(tool['type'])}" if "type" in tool else ""
        return f"an object with {keys}{told}"
    if isinstance(tool, str | bytes | int | float | None):
        return _short.repr(tool)
    return describe(tool)


def _unreadable(tool: object, where: str) -> UsageError:
    return UsageError(
        f"{where} cannot be read: {_shown(tool)}; a tool is {_FORMS}. If the provider runs it "
        "itself, leave it out"
    )


_JSON: Final = (str, int, float, bool, Mapping, list, tuple, type(None))
_NAMES: Final[dict[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
_BY_NAME: Final = {type_.__name__: name for type_, name in _NAMES.items()}
_WRAPPERS: Final = ("NotRequired", "Required", "ReadOnly")


def _is_agent_sdk_tool(tool: object) -> bool:
    """Return True for a tool of the Claude Agent SDK, without importing the SDK."""
    return dataclasses.is_dataclass(tool) and all(
        hasattr(tool, name) for name in ("name", "input_schema", "handler")
    )


def _schema_of_types(told: Any) -> Any:
    if isinstance(told, Mapping):
        if all(isinstance(value, _JSON) for value in told.values()):
            return told
        return _object({name: _agent_sdk_schema(hint) for name, hint in told.items()}, list(told))
    if isinstance(told, type):
        return _agent_sdk_schema(told) if is_typed_dict(told) else {"type": "object"}
    return told


def _agent_sdk_schema(hint: Any) -> dict[str, Any]:
    origin = get_origin(hint)
    inner = get_args(hint)
    if origin is Annotated or getattr(origin, "_name", None) in _WRAPPERS:
        return _agent_sdk_schema(inner[0])
    if origin is Union or isinstance(hint, UnionType):
        # None is left out by the SDK, too: it tells the model of the other types alone.
        forms = [_agent_sdk_schema(one) for one in inner if one is not type(None)]
        return forms[0] if len(forms) == 1 else {"anyOf": forms}
    if origin is list and inner:
        return {"type": "array", "items": _agent_sdk_schema(inner[0])}
    if is_typed_dict(hint):
        types = get_type_hints(hint, include_extras=True)
        parts = {name: _agent_sdk_schema(one) for name, one in types.items()}
        return _object(parts, sorted(hint.__required_keys__))
    name = _NAMES.get(origin or hint) if isinstance(origin or hint, type) else None
    return {} if name is None else {"type": name}


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _schema_of_definitions(definitions: Any, where: str) -> dict[str, Any]:
    if not isinstance(definitions, Mapping) or not all(
        isinstance(told, Mapping) for told in definitions.values()
    ):
        raise UsageError(
            f"{where}: its parameter_definitions must be an object of objects, as Cohere has them"
        )
    return {
        "type": "object",
        "properties": {name: _cohere_schema(told) for name, told in definitions.items()},
        "required": [name for name, told in definitions.items() if told.get("required") is True],
    }


def _cohere_schema(told: Mapping[str, Any]) -> dict[str, Any]:
    plain = str(told.get("type")).partition("[")[0].strip().lower()  # "List[str]"
    name = _BY_NAME.get(plain, plain if plain in _BY_NAME.values() else None)
    schema = {"type": name, "description": told.get("description")}
    return {key: value for key, value in schema.items() if value is not None}


_SPELLINGS: Final[dict[str, str]] = {
    "additional_properties": "additionalProperties",
    "any_of": "anyOf",
    "max_items": "maxItems",
    "max_length": "maxLength",
    "max_properties": "maxProperties",
    "min_items": "minItems",
    "property_ordering": "propertyOrdering",  # no keyword of JSON Schema, but the lint wants it
    "min_length": "minLength",
    "min_properties": "minProperties",
    "prefix_items": "prefixItems",
    "defs": "$defs",
    "ref": "$ref",
}
_LEFT_OUT: Final = {"nullable", "example"}  # "example" is OpenAPI's
_COUNTS: Final = {
    *("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"),
    *("maximum", "minimum"),
}
_SCHEMAS: Final = {"items", "additionalProperties", "not"}
_LISTS: Final = {"anyOf", "allOf", "oneOf", "prefixItems"}
_MAPS: Final = {"properties", "$defs", "definitions", "patternProperties"}


class _TooDeepError(Exception):
    """The schema is nested more deeply than any that can be used."""


def _json_schema_of(parameters: Any) -> Any:
    """Translate a schema, and all that it contains.

    What has a wrong form is left as it is, and so is all of a schema that is nested too deeply, or
    in itself: whoever compiles it says what is wrong.
    """
    try:
        return _gemini_schema(parameters, 0)
    except _TooDeepError:
        return parameters


def _gemini_schema(schema: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    if depth >= DEFAULT_SCHEMA_LIMITS.max_depth:
        raise _TooDeepError
    told: Mapping[str, Any] = schema
    found: dict[str, Any] = {}
    for name, value in told.items():
        keyword = _SPELLINGS.get(name, name)
        if name not in _LEFT_OUT and (value is not None or name == "const"):
            found[keyword] = _translated(keyword, value, depth + 1)
    _mend_type(found)
    _mend_enum(found)
    return _with_null(found) if told.get("nullable") is True else found


def _translated(keyword: str, value: Any, depth: int) -> Any:
    if keyword in _SCHEMAS:
        return _gemini_schema(value, depth)
    if keyword in _LISTS and isinstance(value, list | tuple):
        return [_gemini_schema(one, depth + 1) for one in value]
    if keyword in _MAPS and isinstance(value, Mapping):
        return {name: _gemini_schema(one, depth + 1) for name, one in value.items()}
    if keyword in _COUNTS and isinstance(value, str):
        number = _number(value)
        return value if number is None else number
    if keyword == "$ref" and isinstance(value, str) and value.startswith("#/defs/"):
        return f"#/$defs/{value.removeprefix('#/defs/')}"
    return value


def _mend_type(schema: dict[str, Any]) -> None:
    told = schema.get("type")
    if isinstance(told, str):
        schema["type"] = _type(told)
    elif isinstance(told, list | tuple):
        schema["type"] = [_type(one) for one in told]
    if "type_unspecified" in _types(schema):
        del schema["type"]
    if schema.get("format") == "enum":
        del schema["format"]


def _type(told: Any) -> Any:
    name = getattr(told, "value", told)  # the SDK's is an enum
    return name.lower() if isinstance(name, str) else told


def _mend_enum(schema: dict[str, Any]) -> None:
    """Convert an enum of numbers: Gemini writes all values as strings."""
    values = schema.get("enum")
    types = _types(schema)
    if not isinstance(values, list | tuple) or types in ([], ["string"]):
        return
    read = [_number(value) if isinstance(value, str) else value for value in values]
    if types in (["integer"], ["number"]) and None not in read:
        schema["enum"] = read
    elif any(isinstance(value, str) for value in values) and "string" not in types:
        del schema["enum"]  # no value of the type could be among them


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    types = _types(schema)
    if types and "null" not in types:
        schema["type"] = [*types, "null"]
    for keyword, null in (("enum", None), ("anyOf", {"type": "null"})):
        told = schema.get(keyword)
        if isinstance(told, list | tuple) and null not in told:
            schema[keyword] = [*told, null]
    return schema


def _types(schema: dict[str, Any]) -> list[Any]:
    """Return the types that a schema names; none if they cannot be used."""
    told = schema.get("type")
    if isinstance(told, str):
        return [told]
    return told if isinstance(told, list) else []


def _number(text: str) -> int | float | None:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None


_OF_OBJECTS: Final = {
    *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
    *("propertyNames", "dependentSchemas", "dependentRequired", "additional_properties"),
    *("additionalItems", "unevaluatedItems", "contentSchema"),
}
"""Keywords that are no word of any other language, so whoever uses one means it."""
_NO_OBJECTS: Final = {
    *("type", "enum", "title", "description", "format", "pattern", "required", "id", "nullable"),
    *("allOf", "anyOf", "oneOf", "any_of", "prefixItems", "prefix_items", "ref", "examples"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("min_length", "max_length", "min_items", "max_items", "min_properties", "max_properties"),
    *("minContains", "maxContains", "contentEncoding", "contentMediaType"),
    *("readOnly", "writeOnly", "deprecated", "propertyOrdering", "property_ordering"),
}
"""Keywords whose value is never an object: with one, it is the name of a property."""
_EITHER: Final = {
    *("items", "contains", "not", "if", "then", "else", "default", "const", "example"),
    *("definitions", "defs", "dependencies", "discriminator", "xml", "externalDocs"),
}
"""Keywords that may as well be names of properties: they decide nothing."""
_BESIDE: Final = ("properties", "patternProperties", "additionalProperties", "required")


def _bare_schema(tool: Mapping[str, Any]) -> str | None:
    """Return the keyword of a JSON Schema that stands in the tool itself, or None."""
    told = tool.get("type")
    if isinstance(told, str) and told.lower() in _JSON_TYPES:
        return "type"
    for keyword in (*_BESIDE, "anyOf", "oneOf", "allOf", "$ref", "$defs", "$schema"):
        value = tool.get(keyword)
        if isinstance(value, Mapping | list | tuple) or (keyword[0] == "$" and value is not None):
            return keyword
    return None


def _refuse_what_says_nothing(schema: Mapping[Any, Any], where: str) -> None:
    """Raise UsageError for what is no schema, but would count as one that allows everything."""
    strange: str | None = None
    for key, value in schema.items():
        if not isinstance(key, str) or value is None or key in _EITHER:
            continue
        is_object = isinstance(value, Mapping)
        if key.startswith("$") or key in _OF_OBJECTS or (key in _NO_OBJECTS and not is_object):
            return
        if strange is None and not key.startswith(("x-", "_")) and _means_something(value):
            strange = key
    if strange is not None:
        raise UsageError(
            f"{where}: its schema has {strange!r}, and no keyword of JSON Schema, so it would allow"
            ' everything: give {"type": "object", "properties": {…}} itself'
        )


def _means_something(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() in _JSON_TYPES or value in _BY_NAME
    return isinstance(value, Mapping | type)


_OTHERS: Final = {
    *("name", "description", "type", "function", "custom", "title", "strict", "format", "behavior"),
    *("annotations", "cache_control", "execution", "icons", "input_examples", "meta", "metadata"),
    "parameter_definitions",  # of Cohere's, which is read by itself
    # The schemas of what a tool returns.
    *("output_schema", "outputSchema", "response", "response_json_schema", "responseJsonSchema"),
    *("response_schema", "responseSchema", "returns"),
}
_SAME: Final = {"args", "arguments", "input", "inputs", "param", "params"}
"""What a schema is never called, though people may think so."""
_PLAIN: Final = {key.replace("_", "").lower(): key for key in _SCHEMA_KEYS}
_KEYWORDS: Final = {
    *("$defs", "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "oneOf", "properties"),
}
_LONGEST: Final = 64  # of what may be a slip of the pen
_MOST_KEYS: Final = 100  # that are looked at: to compare spellings takes time
_ALIKE: Final = 0.8
_TYPES_ALIKE: Final = 0.65  # "costum"


def _misspelt_schema(tool: Mapping[Any, Any]) -> str | None:
    """Return the key of a value that looks like a schema but is not read as one, or None."""
    for key, value in islice(tool.items(), _MOST_KEYS):
        if not isinstance(key, str) or value is None or key.startswith("_"):
            continue
        if key not in _SCHEMA_KEYS and key not in _OTHERS and _seems_schema(key, value):
            return key
    return None


def _intended_type(told: str) -> str | None:
    """Return the type of tool that a misspelt one means, or None."""
    plain = told.strip().lower()
    if told in _TYPES_OF_TOOLS or not plain.isalpha():  # "azure_function" is somebody's own type
        return None
    near = [
        known
        for known in _TYPES_OF_TOOLS
        if abs(len(plain) - len(known)) <= 1 or (len(plain) > 1 and known.startswith(plain))
    ]
    close = get_close_matches(plain, near, n=1, cutoff=_TYPES_ALIKE)
    return close[0] if close else None


def _seems_schema(key: str, value: object) -> bool:
    plain = key.replace("_", "").replace("-", "").lower()
    if plain in _SAME:
        return isinstance(value, Mapping | type)
    if len(key) <= _LONGEST and get_close_matches(plain, _PLAIN, n=1, cutoff=_ALIKE):
        return True
    return _is_like_a_schema(value)


def _is_like_a_schema(value: object) -> bool:
    if isinstance(value, type):  # a model
        return True
    if not isinstance(value, Mapping):
        return False
    kind = value.get("type")
    is_typed = isinstance(kind, str) and kind.lower() in _JSON_TYPES
    return is_typed or not _KEYWORDS.isdisjoint(value)
