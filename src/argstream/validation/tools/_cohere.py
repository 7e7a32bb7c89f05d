"""``parameter_definitions``, by which the first version of Cohere's API tells of arguments.

Each has a type of Python, as text. What is no plain type may be anything, so that nothing is
stricter than what the model was told.
"""

from collections.abc import Mapping
from typing import Any, Final

from argstream.errors import UsageError

__all__ = ["schema_of_definitions"]

_TYPES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}


def schema_of_definitions(definitions: Any, where: str) -> dict[str, Any]:
    """Give the JSON Schema of the arguments that are defined so."""
    if not isinstance(definitions, Mapping) or not all(
        isinstance(told, Mapping) for told in definitions.values()
    ):
        raise UsageError(
            f"{where}: its parameter_definitions must be an object of objects, as Cohere has them"
        )
    return {
        "type": "object",
        "properties": {name: _schema(told) for name, told in definitions.items()},
        "required": [name for name, told in definitions.items() if told.get("required") is True],
    }


def _schema(told: Mapping[str, Any]) -> dict[str, Any]:
    plain = str(told.get("type")).partition("[")[0].strip().lower()  # "List[str]"
    name = _TYPES.get(plain, plain if plain in _TYPES.values() else None)
    schema = {"type": name, "description": told.get("description")}
    return {key: value for key, value in schema.items() if value is not None}
