"""What of a tool is spelt wrongly: a key that nobody reads means that nothing is validated.

So a tool without a schema is looked at again. A key that is no provider's is let pass, unless it
is nearly that of a schema, or what stands there looks like one.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from argstream.validation.tools._keywords import JSON_TYPES

__all__ = ["SCHEMA_KEYS", "intended_type", "misspelt_schema"]

SCHEMA_KEYS: Final = (
    *("input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema"),
    *("parameters", "schema"),
)
"""Under which the schema of a tool's arguments may stand; the first one counts."""

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
_PLAIN: Final = {key.replace("_", "").lower(): key for key in SCHEMA_KEYS}
_KEYWORDS: Final = {
    *("$defs", "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "oneOf", "properties"),
}
_LONGEST: Final = 64  # of what may be a slip of the pen
_MOST_KEYS: Final = 100  # that are looked at: to compare spellings takes time
_ALIKE: Final = 0.8
_TYPES_OF_TOOLS: Final = ("function", "custom")
_TYPES_ALIKE: Final = 0.65  # "costum"


def misspelt_schema(tool: Mapping[Any, Any]) -> str | None:
    """Find the key of what seems to be a schema, and is none by its name."""
    for key, value in islice(tool.items(), _MOST_KEYS):
        if not isinstance(key, str) or value is None or key.startswith("_"):
            continue
        if key not in SCHEMA_KEYS and key not in _OTHERS and _seems_schema(key, value):
            return key
    return None


def intended_type(told: str) -> str | None:
    """Say which type of tool is meant by one that is nearly the same, but not it."""
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
    is_typed = isinstance(kind, str) and kind.lower() in JSON_TYPES
    return is_typed or not _KEYWORDS.isdisjoint(value)
