r"""Reads the tools of a request, in the formats of all providers.

>>> anthropic = {"name": "read", "input_schema": {"type": "object", "required": ["path"]}}
>>> openai = {"type": "function", "function": {"name": "write"}}
>>> gemini = {"functionDeclarations": [{"name": "find"}, {"name": "move"}]}
>>> [tool.name for tool in tool_specs([anthropic, openai, gemini])]
['read', 'write', 'find', 'move']

Tools that the provider runs are omitted, or known by name only. A tool without parameters accepts
any object, so that the schema is never stricter than the request.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from reprlib import Repr
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Struct
from msgspec.structs import replace

from argstream.errors import UsageError
from argstream.providers._payloads import snake
from argstream.validation._compile import LATE_KEYWORDS
from argstream.validation._dialects import BY_NAME, ONE, SEVERAL
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
_MAX_ENVELOPES: Final = 4  # nested
_TYPES_OF_TOOLS: Final = ("function", "custom")
_MAX_WORD: Final = 64  # characters of a key or a type that may be misspelt
_JSON_TYPES: Final = {"object", "array", "string", "number", "integer", "boolean", "null"}
_SCHEMA_KEYS: Final = (
    *("input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema"),
    *("parameters", "schema"),
)
"""The keys of the schema of a tool's arguments. The first one counts."""
_short = Repr()
_short.maxstring = 60

_HOSTED_TYPES: Final = frozenset(
    {
        # OpenAI Responses and Realtime, and compatible servers such as xAI. The client runs some of
        # these (shell, computer): their calls have the kind "client".
        *("file_search", "web_search", "web_search_2025_08_26", "code_interpreter", "mcp"),
        *("web_search_preview", "web_search_preview_2025_03_11", "image_generation"),
        *("programmatic_tool_calling", "tool_search", "shell", "local_shell", "computer"),
        *("computer_use_preview", "x_search", "collections_search", "attachment_search"),
        *("browser_search", "document_search", "live_search"),
        # Anthropic: the tools of an MCP server that Anthropic connects to.
        "mcp_toolset",
        # Gemini Interactions
        *("google_search", "google_maps", "code_execution", "url_context", "mcp_server"),
        "retrieval",
    }
)
"""Types of tools that have no schema: calls to them are not checked against the list of tools."""

_APPLY_PATCH: Final = "apply_patch"  # has no name in the request; its calls have this name
_COMPUTER_USE: Final = "computer_use"  # the provider chooses the names of its calls
_HOSTED_KEYS: Final = _HOSTED_TYPES | {
    # Gemini generateContent
    *("google_search_retrieval", "enterprise_web_search", "parallel_ai_search", "exa_ai_search"),
    "mcp_servers",
    # Bedrock
    *("cache_point", "system_tool"),
}
"""The keys of tools without a type and a name, in snake case."""
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
"""Toolsets of Anthropic: the calls have the names of the members."""


class ToolSpec(Struct, frozen=True):
    """A tool that a model may call."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] | bool | Schema | None = None
    """The JSON Schema of the arguments; None if it is unknown (free text, built-in tools).

    A compiled ``Schema`` may have its own limits, formats and resources.
    """
    kind: Literal["function", "custom"] = "function"
    """``custom`` takes free text."""
    source: Any = None
    """The class or the function that defines the tool, if any."""

    def __post_init__(self) -> None:
        name: object = self.name
        if name == "" or not isinstance(name, str):
            raise UsageError(
                f"a tool needs a name, not {_shown(self.name)}. For a class or a function, use "
                "ToolSpec.of"
            )
        where = f"the tool {self.name!r}"
        if not isinstance(self.description, str):
            raise UsageError(
                f"{where}: description must be a str, not {_shown(self.description)}. "
                f"The schema comes third: ToolSpec({self.name!r}, description, schema)"
            )
        if isinstance(self.schema, Mapping):
            _require_schema(self.schema, where)
        elif not isinstance(self.schema, bool | Schema | None):
            raise UsageError(
                f"{where}: schema must be a JSON Schema, not {_shown(self.schema)}. For a class "
                "or a function, use ToolSpec.of"
            )
        if self.kind not in _TYPES_OF_TOOLS:
            raise UsageError(
                f"{where}: kind must be 'function' or 'custom', not {_shown(self.kind)}"
            )

    @classmethod
    def of(
        cls, tool: object, *, name: str | None = None, description: str | None = None
    ) -> "ToolSpec":
        """Read one tool: a pydantic model class, a function, or a tool of a provider's request."""
        specs = _read([("the tool", tool)])
        if len(specs) != 1:
            problem = f"contains {len(specs)} tools" if specs else "is run by the provider itself"
            raise UsageError(f"{_shown(tool)} {problem}. Use tool_specs for a list")
        (spec,) = specs
        given = {"name": name, "description": description}
        return replace(spec, **{key: text for key, text in given.items() if text is not None})


def tool_specs(tools: Iterable[object]) -> list[ToolSpec]:
    """Read a list of tools in any mix of formats, or the tools of a request.

    Tools of the Claude Agent SDK have short names, but their calls have the name
    ``mcp__server__name``. Use ``ToolSpec.of(tool, name=…)`` to check these. Raises UsageError for
    unreadable tools, and for two tools with the same name.
    """
    return _read((f"tools[{number}]", tool) for number, tool in enumerate(_entries(tools)))


def load_tools(path: str | Path) -> list[ToolSpec]:
    """Read the tools of a JSON file: a list of tools, a request with tools, or one tool."""
    try:
        content = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # JSON, or UTF-8
        raise UsageError(
            f"{path} is not valid JSON: {error}. Use a list of tools, or a request with tools"
        ) from error
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply") from error
    if not isinstance(content, list | dict):
        raise UsageError(f"{path} must contain a list of tools, not {_shown(content)}")
    try:
        return tool_specs(content)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _entries(tools: object) -> list[object]:
    if isinstance(tools, Mapping) or (_is_dumpable(tools) and not isinstance(tools, list | tuple)):
        inner = _listed(tools)
        return [tools] if inner is None else inner
    if isinstance(tools, ToolSpec | str | bytes) or not isinstance(tools, Iterable):
        raise UsageError(f"tools must be a list, not {_shown(tools)}. A tool is {_FORMS}")
    return list(tools)


_Found: TypeAlias = tuple[ToolSpec, bool]
"""A tool, and whether another one may have the same name, in another namespace."""


def _read(entries: Iterable[tuple[str, object]]) -> list[ToolSpec]:
    specs: dict[str, _Found] = {}
    for where, tool in entries:
        try:
            found = list(_tools_in(tool, where))
        except RecursionError as error:
            raise UsageError("the tools are nested too deeply") from error
        for spec, is_shared in found:
            name = spec.name
            known, was_shared = specs.get(name, (spec, True))
            is_same = (known.schema, known.kind) == (spec.schema, spec.kind)
            may_share = is_shared or was_shared if is_same else is_shared and was_shared
            if name in specs and not may_share:
                raise UsageError(
                    f"{where}: there are two tools with the name {name!r}. Rename one of them"
                )
            merged = known if is_same else ToolSpec(name, kind=known.kind)
            specs[name] = merged, is_shared and was_shared
    return [spec for spec, _ in specs.values()]


def _tools_in(tool: object, where: str) -> Iterator[_Found]:
    """Read one entry of a list of tools. It may contain several tools, or none."""
    own = tool if isinstance(tool, ToolSpec) else getattr(tool, "spec", None)
    if isinstance(own, ToolSpec):  # a tool of an agent
        yield own, False
    elif is_definition(tool):
        yield _defined(tool, where), False
    elif isinstance(tool, Mapping):
        yield from _in_mapping(tool, where)
    elif hasattr(tool, "tool_call_schema"):  # LangChain
        fields = {name: getattr(tool, name, None) for name in ("name", "description")}
        schema = getattr(tool, "tool_call_schema", None)
        yield _flat({**fields, "input_schema": schema}, where), False
    elif (tools := _listed(tool)) is not None:
        yield from _each(tools, where)
    elif _is_dumpable(tool):
        yield from _in_mapping(_dumped(tool, where), where)
    elif _is_agent_sdk_tool(tool):
        yield _of_agent_sdk(tool, where), False
    else:
        raise _unreadable(tool, where)


def _is_dumpable(tool: object) -> bool:
    """Return True for an SDK object that can be dumped as a mapping."""
    return not isinstance(tool, type) and (
        hasattr(tool, "model_dump")
        or hasattr(tool, "ListFields")  # xAI’s, of protobuf
        or callable(getattr(tool, "to_dict", None))
    )


def _listed(content: object, depth: int = _MAX_ENVELOPES) -> list[object] | None:
    """Return the tools of a request; None if it has none."""
    if not depth or not (isinstance(content, Mapping) or _is_dumpable(content)):
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


def _each(tools: Iterable[object], where: str) -> Iterator[_Found]:
    for number, one in enumerate(tools):
        yield from _tools_in(one, f"{where}.tools[{number}]")


def _defined(tool: Any, where: str) -> ToolSpec:
    try:
        definition = read_definition(tool)
        schema = json_schema(definition)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return ToolSpec(definition.name, definition.description, schema, source=tool)


def _in_mapping(tool: Mapping[str, Any], where: str) -> Iterator[_Found]:
    if (tools := _listed(tool)) is not None:
        yield from _each(tools, where)
        return
    for key in _DECLARATIONS:
        for number, one in enumerate(_list(tool, key, where)):
            place = f"{where}.{key}[{number}]"
            yield _flat(_dumped(one, place), place, is_gemini=True), False
    if any(key in tool for key in _DECLARATIONS):
        _refuse_computer_use(tool, where)
    elif isinstance(inner := _first(tool, "toolSpec", "tool_spec", "function"), Mapping):
        yield _inside(inner, tool, where), False
    elif isinstance(inner := tool.get("custom"), Mapping):
        yield replace(_flat(inner, where), schema=None, kind="custom"), False
    elif isinstance(type_ := tool.get("type"), str):
        yield from _typed(tool, type_, where)
    elif "name" in tool:
        yield _flat(tool, where, is_gemini="parameters" in tool), False
    else:
        _refuse_computer_use(tool, where)
        if not tool or any(snake(str(key)) not in _HOSTED_KEYS for key in tool):
            raise _unreadable(tool, where)


def _typed(tool: Mapping[str, Any], type_: str, where: str) -> Iterator[_Found]:
    """Read a tool that has a type: OpenAI Responses, and Anthropic's own."""
    if type_ == "namespace":
        for inner, _ in _each(_list(tool, "tools", where), where):
            yield inner, True
    elif type_ in _TOOLSETS:
        for name in _members(tool, type_, where):
            yield ToolSpec(name), True
    elif type_ == _APPLY_PATCH:
        yield ToolSpec(_APPLY_PATCH), False
    elif type_ == _COMPUTER_USE:
        _refuse_computer_use(tool, where)
    elif type_ in _HOSTED_TYPES and "name" not in tool:
        return  # its other keys, also a schema, are for the provider
    elif type_ not in _HOSTED_TYPES and (meant := _intended_type(type_)) is not None:
        raise UsageError(f"{where} has the unknown type {type_!r}. Did you mean {meant!r}?")
    elif type_ == "custom" and _schema_key(tool) is None:
        yield replace(_flat(tool, where), schema=None, kind="custom"), False
    elif type_ not in _TYPES_OF_TOOLS and "name" not in tool:
        raise _unreadable(tool, where)
    elif type_ in _TYPES_OF_TOOLS or _schema_key(tool) is not None:
        yield _flat(tool, where), False
    else:  # Anthropic's own: bash_20250124, web_search_20260318 …
        yield replace(_flat(tool, where), schema=None), False


def _members(tool: Mapping[str, Any], type_: str, where: str) -> Iterator[str]:
    configs = tool.get("configs") or {}
    if not isinstance(configs, Mapping):
        raise UsageError(f"{where}: configs must be an object, not {_shown(configs)}")
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


def _of_agent_sdk(tool: Any, where: str) -> ToolSpec:
    try:
        schema = _schema_of_types(tool.input_schema)
    except (NameError, TypeError) as error:
        raise UsageError(f"{where}: the types of {tool.name!r} cannot be read: {error}") from error
    return _flat({**vars(tool), "input_schema": schema}, where)


def _inside(inner: Mapping[str, Any], outer: Mapping[str, Any], where: str) -> ToolSpec:
    """Read a tool that is nested in another object. Keys beside it have no effect."""
    key = _schema_key(outer) or _misspelt_schema(outer)
    if key is not None and _schema_key(inner) is None:
        raise UsageError(f"{where}: {key!r} is ignored there. Put it beside the name")
    return _flat(inner, where)


def _flat(tool: Mapping[str, Any], where: str, *, is_gemini: bool = False) -> ToolSpec:
    """Read a mapping with a name, a description and a schema."""
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{where}: a tool needs a name, not {_short.repr(name)}")
    key = _schema_key(tool)
    if key is None and (ignored := _bare_schema(tool) or _misspelt_schema(tool)) is not None:
        raise UsageError(
            f"{where} ({name!r}): {ignored!r} is ignored, but looks like the schema of the "
            "arguments or a part of it. Put the whole schema under 'input_schema' or 'parameters'"
        )
    raw = None if key is None else tool[key]
    if raw is None and tool.get("parameter_definitions") is not None:
        raw = _schema_of_definitions(tool["parameter_definitions"], f"{where} ({name!r})")
    schema = _schema(raw, f"{where} ({name!r})")
    if is_gemini and key == "parameters":
        schema = _gemini_schema(schema)
    description = tool.get("description")
    return ToolSpec(name, description if isinstance(description, str) else "", schema)


def _schema(raw: Any, where: str) -> Mapping[str, Any] | bool | Schema | None:
    """Read a schema. A tool without one accepts any object."""
    if raw is None:
        return {"type": "object"}
    if isinstance(raw, str):  # xAI’s, over gRPC
        try:
            raw = json.loads(raw or "{}")
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where}: the schema is not valid JSON: {error}") from error
    if isinstance(raw, type):
        return _defined(raw, where).schema
    if isinstance(raw, Mapping) and set(raw) == {"json"} and isinstance(raw["json"], Mapping):
        raw = raw["json"]  # Bedrock’s
    if isinstance(raw, Mapping):
        _require_schema(raw, where)
        return {key: value for key, value in raw.items() if value is not None}
    if isinstance(raw, bool):
        return raw
    if hasattr(raw, "model_dump"):
        return _dumped(raw, where)
    raise UsageError(f"{where}: the schema must be a JSON Schema, not {describe(raw)}")


def _dumped(tool: Any, where: str) -> Mapping[str, Any]:
    """Return an SDK object, or a mapping, as the mapping that is sent."""
    sent: Any = tool
    try:
        if hasattr(tool, "model_dump"):
            sent = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
        elif hasattr(tool, "ListFields"):
            sent = _of_message(tool)
        elif not isinstance(tool, Mapping) and _is_dumpable(tool):
            sent = tool.to_dict()
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {describe(tool)} cannot be read: {error}") from error
    if not isinstance(sent, Mapping):
        raise _unreadable(tool, where)
    return sent


def _of_message(value: Any) -> Any:
    """Return a protobuf message as a dict, and other values unchanged."""
    if not hasattr(value, "ListFields"):
        return value
    return {field.name: _of_message(inner) for field, inner in value.ListFields()}


def _schema_key(tool: Mapping[str, Any]) -> str | None:
    return next((key for key in _SCHEMA_KEYS if tool.get(key) is not None), None)


def _first(tool: Mapping[str, Any], *keys: str) -> Any:
    return next((tool[key] for key in keys if key in tool), None)


def _refuse_computer_use(tool: Mapping[str, Any], where: str) -> None:
    if _first(tool, "computerUse", "computer_use") is not None or tool.get("type") == _COMPUTER_USE:
        raise UsageError(
            f"{where}: the functions of Gemini’s computer use depend on the model. Replace it by "
            "a ToolSpec(name) for each function that you run"
        )


def _shown(tool: object) -> str:
    if isinstance(tool, Mapping):
        keys = ", ".join(_short.repr(key) for key in list(tool)[:8]) or "nothing"
        type_ = f" and the type {_short.repr(tool['type'])}" if "type" in tool else ""
        return f"an object with {keys}{type_}"
    if isinstance(tool, str | bytes | int | float | None):
        return _short.repr(tool)
    return describe(tool)


def _unreadable(tool: object, where: str) -> UsageError:
    return UsageError(
        f"{where} cannot be read: {_shown(tool)}. A tool is {_FORMS}. Remove it if the provider "
        "runs it itself"
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


def _schema_of_types(raw: Any) -> Any:
    if isinstance(raw, Mapping):
        if all(isinstance(value, _JSON) for value in raw.values()):
            return raw
        return _object({name: _agent_sdk_schema(hint) for name, hint in raw.items()}, list(raw))
    if isinstance(raw, type):
        return _agent_sdk_schema(raw) if is_typed_dict(raw) else {"type": "object"}
    return raw


def _agent_sdk_schema(hint: Any) -> dict[str, Any]:
    origin = get_origin(hint)
    inner = get_args(hint)
    if origin is Annotated or getattr(origin, "_name", None) in _WRAPPERS:
        return _agent_sdk_schema(inner[0])
    if origin is Union or isinstance(hint, UnionType):
        # The SDK omits None too.
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
        isinstance(raw, Mapping) for raw in definitions.values()
    ):
        raise UsageError(
            f"{where}: parameter_definitions must be an object of objects, as in Cohere's API"
        )
    required = [name for name, raw in definitions.items() if raw.get("required") is True]
    return _object({name: _cohere_schema(raw) for name, raw in definitions.items()}, required)


def _cohere_schema(raw: Mapping[str, Any]) -> dict[str, Any]:
    plain = str(raw.get("type")).partition("[")[0].strip().lower()  # "List[str]"
    name = _BY_NAME.get(plain, plain if plain in _BY_NAME.values() else None)
    schema = {"type": name, "description": raw.get("description")}
    return {key: value for key, value in schema.items() if value is not None}


_COUNTS: Final = (
    *("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"),
    *("maximum", "minimum"),
)
# ``propertyOrdering`` is not a keyword of JSON Schema. It is used by lint.
_RENAMED: Final = ("additionalProperties", "anyOf", "prefixItems", "propertyOrdering", *_COUNTS)
_SPELLINGS: Final = {snake(name): name for name in _RENAMED} | {"defs": "$defs", "ref": "$ref"}
_OMITTED: Final = {"nullable", "example"}  # of OpenAPI


def _gemini_schema(schema: Any) -> Any:
    """Translate a schema of Gemini. Invalid parts are kept: the compiler reports them."""
    if not isinstance(schema, Mapping):
        return schema
    raw: Mapping[str, Any] = schema
    found: dict[str, Any] = {}
    for name, value in raw.items():
        keyword = _SPELLINGS.get(name, name)
        if name not in _OMITTED and (value is not None or name == "const"):
            found[keyword] = _translated(keyword, value)
    _fix_type(found)
    _fix_enum(found)
    return _with_null(found) if raw.get("nullable") is True else found


def _translated(keyword: str, value: Any) -> Any:
    if keyword in SEVERAL and isinstance(value, list | tuple):
        return [_gemini_schema(one) for one in value]
    if keyword in BY_NAME and isinstance(value, Mapping):
        return {name: _gemini_schema(one) for name, one in value.items()}
    if keyword in ONE:
        return _gemini_schema(value)
    if keyword in _COUNTS and isinstance(value, str):
        return value if (number := _number(value)) is None else number
    if keyword == "$ref" and isinstance(value, str) and value.startswith("#/defs/"):
        return f"#/$defs/{value.removeprefix('#/defs/')}"
    return value


def _fix_type(schema: dict[str, Any]) -> None:
    raw = schema.get("type")
    if isinstance(raw, str):
        schema["type"] = _type(raw)
    elif isinstance(raw, list | tuple):
        schema["type"] = [_type(one) for one in raw]
    if "type_unspecified" in _types(schema):
        del schema["type"]
    if schema.get("format") == "enum":
        del schema["format"]


def _type(raw: Any) -> Any:
    name = getattr(raw, "value", raw)  # an enum in the SDK
    return name.lower() if isinstance(name, str) else raw


def _fix_enum(schema: dict[str, Any]) -> None:
    """Convert an enum of numbers: Gemini writes all values as strings."""
    values = schema.get("enum")
    types = _types(schema)
    if not isinstance(values, list | tuple) or types in ([], ["string"]):
        return
    read = [_number(value) if isinstance(value, str) else value for value in values]
    if types in (["integer"], ["number"]) and None not in read:
        schema["enum"] = read
    elif any(isinstance(value, str) for value in values) and "string" not in types:
        del schema["enum"]  # no value of this type is a string


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    types = _types(schema)
    if types and "null" not in types:
        schema["type"] = [*types, "null"]
    for keyword, null in (("enum", None), ("anyOf", {"type": "null"})):
        raw = schema.get(keyword)
        if isinstance(raw, list | tuple) and null not in raw:
            schema[keyword] = [*raw, null]
    return schema


def _types(schema: dict[str, Any]) -> list[Any]:
    """Return the types of a schema; none if they are invalid."""
    raw = schema.get("type")
    if isinstance(raw, str):
        return [raw]
    return raw if isinstance(raw, list) else []


def _number(text: str) -> int | float | None:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None


_AMBIGUOUS: Final = {
    *("items", "contains", "not", "if", "then", "else", "default", "const", "example"),
    *("definitions", "defs", "dependencies", "discriminator", "xml", "externalDocs"),
}
"""Keywords that may also be names of properties: they are ignored here."""
_KEYWORDS: Final = {
    *(*ONE, *SEVERAL, *BY_NAME, *_COUNTS, *chain(*LATE_KEYWORDS.values())),
    *("type", "enum", "title", "description", "required", "examples", "propertyOrdering"),
    *("minContains", "maxContains", "contentSchema", "readOnly", "writeOnly", "deprecated"),
    *("additional_properties", "any_of", "prefix_items"),
} - _AMBIGUOUS
"""A schema with one of these restricts or describes a value. Wrong values are refused later."""
_BESIDE: Final = (
    *("properties", "patternProperties", "additionalProperties", "required"),
    *("anyOf", "oneOf", "allOf", "$ref", "$defs", "$schema"),
)


def _bare_schema(tool: Mapping[str, Any]) -> str | None:
    """Return a keyword of JSON Schema that is in the tool itself, or None."""
    raw = tool.get("type")
    if isinstance(raw, str) and raw.lower() in _JSON_TYPES:
        return "type"
    for keyword in _BESIDE:
        value = tool.get(keyword)
        if isinstance(value, Mapping | list | tuple) or (keyword[0] == "$" and value is not None):
            return keyword
    return None


def _require_schema(schema: Mapping[Any, Any], where: str) -> None:
    """Raise UsageError for a mapping without keywords, which would allow everything."""
    names = [key for key in schema if isinstance(key, str) and schema[key] is not None]
    if any(name.startswith("$") or name in _KEYWORDS for name in names):
        return
    for name in names:
        is_ignored = name in _AMBIGUOUS or name.startswith(("x-", "_"))
        if not is_ignored and _describes_property(schema[name]):
            raise UsageError(
                f"{where}: the schema has {name!r}, but no keyword of JSON Schema, so it would "
                'allow everything. Use {"type": "object", "properties": {…}}'
            )


def _describes_property(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() in _JSON_TYPES or value in _BY_NAME
    return isinstance(value, Mapping | type)


_OTHER_SCHEMAS: Final = {
    *(*_SCHEMA_KEYS, "function", "custom", "annotations", "meta", "metadata"),
    "parameter_definitions",  # of Cohere, read separately
    # Schemas of results.
    *("output_schema", "outputSchema", "response", "response_json_schema", "responseJsonSchema"),
    *("response_schema", "responseSchema", "returns"),
}
"""Keys whose values may look like the schema of the arguments."""
_WRONG_NAMES: Final = {"args", "arguments", "input", "inputs", "param", "params"}
"""Wrong names of the schema that users may try."""


def _misspelt_schema(tool: Mapping[Any, Any]) -> str | None:
    """Return the key of a value that looks like a schema but is not read as one, or None."""
    names = (key for key in tool if isinstance(key, str) and not key.startswith("_"))
    others = (name for name in names if name not in _OTHER_SCHEMAS)
    return next((name for name in others if _is_schema_like(name, tool[name])), None)


def _is_schema_like(key: str, value: object) -> bool:
    if isinstance(value, Mapping):
        is_misspelt = key.lower() in _WRONG_NAMES or _near(key, _SCHEMA_KEYS, 0.8) is not None
        return is_misspelt or _bare_schema(value) is not None
    return isinstance(value, type)  # a model


def _intended_type(raw: str) -> str | None:
    """Return the type of tool that a misspelt one means. A typo must not turn a check off."""
    if raw in _TYPES_OF_TOOLS or not raw.isalpha():  # "azure_function" is another server's
        return None
    return _near(raw, _TYPES_OF_TOOLS, 0.65)  # matches "costum"


def _near(word: str, known: Sequence[str], cutoff: float) -> str | None:
    if len(word) > _MAX_WORD:  # comparing is slow
        return None
    plain = {one.replace("_", "").lower(): one for one in known}
    near = get_close_matches(word.replace("_", "").lower(), plain, 1, cutoff)
    return plain[near[0]] if near else None
