"""The ``SdkMcpTool`` of the Claude Agent SDK: what it tells the model of a tool's arguments.

Its schema may be a JSON Schema, a TypedDict, or a dict of names and types. Of types it knows a few,
and what it does not know it calls a string; here that is anything, so that nothing is stricter than
what the model was told.
"""

import dataclasses
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from argstream.validation._signatures import is_typed_dict

__all__ = ["is_agent_sdk_tool", "schema_of_types"]

_JSON: Final = (str, int, float, bool, Mapping, list, tuple, type(None))
_NAMES: Final[dict[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
_WRAPPERS: Final = ("NotRequired", "Required", "ReadOnly")


def is_agent_sdk_tool(tool: object) -> bool:
    """Say whether it is one; the SDK is not imported."""
    return dataclasses.is_dataclass(tool) and all(
        hasattr(tool, name) for name in ("name", "input_schema", "handler")
    )


def schema_of_types(told: Any) -> Any:
    """Give the JSON Schema of what such a tool has as its schema."""
    if isinstance(told, Mapping):
        if all(isinstance(value, _JSON) for value in told.values()):
            return told
        return _object({name: _schema(hint) for name, hint in told.items()}, list(told))
    if isinstance(told, type):
        return _schema(told) if is_typed_dict(told) else {"type": "object"}
    return told


def _schema(hint: Any) -> dict[str, Any]:
    origin = get_origin(hint)
    inner = get_args(hint)
    if origin is Annotated or getattr(origin, "_name", None) in _WRAPPERS:
        return _schema(inner[0])
    if origin is Union or isinstance(hint, UnionType):
        # None is left out by the SDK, too: it tells the model of the other types alone.
        forms = [_schema(one) for one in inner if one is not type(None)]
        return forms[0] if len(forms) == 1 else {"anyOf": forms}
    if origin is list and inner:
        return {"type": "array", "items": _schema(inner[0])}
    if is_typed_dict(hint):
        types = get_type_hints(hint, include_extras=True)
        parts = {name: _schema(one) for name, one in types.items()}
        return _object(parts, sorted(hint.__required_keys__))
    name = _NAMES.get(origin or hint) if isinstance(origin or hint, type) else None
    return {} if name is None else {"type": name}


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}
