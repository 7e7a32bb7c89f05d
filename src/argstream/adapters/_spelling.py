"""Names in camelCase and in snake_case: the JSON of protocol buffers has both.

On the wire the first is usual; Google's and xAI's SDKs, and some proxies, have the second.
"""

import base64
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, get_args, get_type_hints

from msgspec import Struct

from argstream.adapters._payloads import plain

__all__ = ["camel_cased", "names_in", "snake", "snake_cased"]


@lru_cache(1000)
def snake(name: str) -> str:
    """Give a name in snake_case."""
    return re.sub("([A-Z])", lambda capital: f"_{capital[1].lower()}", name)


@lru_cache(1000)
def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda letter: letter[1].upper(), name)


def names_in(struct: type[Struct]) -> frozenset[str]:
    """Give the names of all fields of a struct, and of the structs in it."""
    found = set(struct.__struct_fields__)
    for hint in get_type_hints(struct).values():
        options = get_args(hint) or (hint,)
        for part in (*options, *(item for option in options for item in get_args(option))):
            if isinstance(part, type) and issubclass(part, Struct):
                found |= names_in(part)
    return frozenset(found)


def snake_cased(value: Any, names: Collection[str], of_any_names: Collection[str] = ()) -> Any:
    """Give JSON, or an SDK's objects, as plain values under names in snake_case.

    Only fields with these names are kept: an object may carry much more. Inside a field of any
    names, such as arguments, nothing is changed.
    """
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return getattr(value, "value", value)  # Google's enumerations are strings
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [snake_cased(part, names, of_any_names) for part in value]
    fields = value if isinstance(value, Mapping) else getattr(value, "__dict__", None)
    if fields is None:
        return None
    found = {}
    for given, part in fields.items():
        name = snake(given) if isinstance(given, str) else ""
        if part is not None and name in names:
            is_free = name in of_any_names
            found[name] = plain(part) if is_free else snake_cased(part, names, of_any_names)
    return found


def camel_cased(value: Any, of_any_names: Collection[str]) -> Any:
    """Give JSON as it is on the wire: names in camelCase, bytes in base64, nothing that is None."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [camel_cased(part, of_any_names) for part in value]
    if not isinstance(value, Mapping):
        return value
    return {
        _camel(name): part if snake(name) in of_any_names else camel_cased(part, of_any_names)
        for name, part in value.items()
        if part is not None
    }
