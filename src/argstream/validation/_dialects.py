"""Which JSON Schema a schema is written in: draft 2020-12 unless it says or shows another.

Drafts differ for us in three ways only: whether what stands beside ``$ref`` counts, whether
``items`` may be a list, and whether there is ``prefixItems``. All else is the library's business.
"""

from collections.abc import Container
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from types import ModuleType

    import jsonschema_rs

__all__ = [
    "BY_NAME",
    "DYNAMIC",
    "ONE",
    "SEVERAL",
    "Dialect",
    "JsonSchema",
    "dialect_of",
    "says_dialect",
]

JsonSchema: TypeAlias = dict[str, Any] | bool


class Dialect(NamedTuple):
    """A draft of JSON Schema."""

    name: str
    """As jsonschema-rs calls it; empty for one that it must find out about itself."""
    ref_stands_alone: bool = False
    """Whether what stands beside ``$ref`` is ignored."""
    items_may_be_list: bool = False
    """Whether ``items`` may be a list, with ``additionalItems``; it has no ``prefixItems``."""

    @property
    def is_known(self) -> bool:
        """Whether we can read it ourselves."""
        return bool(self.name)

    def draft(self, library: "ModuleType") -> int:
        """Give the library's number for it."""
        number: int = getattr(library, self.name or "Draft202012")
        return number

    def validator(self, library: "ModuleType") -> "type[jsonschema_rs.Validator]":
        """Give the library's class for it."""
        made: type[jsonschema_rs.Validator] = getattr(library, f"{self.name}Validator")
        return made


# Keywords that have one subschema, several, or several by name. ``$defs`` only keeps them; all of
# them are read, for they may also be referred to by a name.
ONE: Final = (
    "additionalProperties", "propertyNames", "items", "additionalItems", "contains", "not", "if",
    "then", "else", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
SEVERAL: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
BY_NAME: Final = (
    "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions",
)  # fmt: skip
DYNAMIC: Final = ("$dynamicRef", "$recursiveRef")
"""Where the meaning of a part depends on who asks: then only the whole can be judged."""
_NEWEST: Final = Dialect("Draft202012")
_LISTS: Final = Dialect("Draft201909", items_may_be_list=True)
_UNKNOWN: Final = Dialect("")
_LIBRARYS: Final = ("http://json-schema.org/draft-04/schema",)
_BY_URI: Final = {
    "http://json-schema.org/draft-06/schema": Dialect(
        "Draft6", ref_stands_alone=True, items_may_be_list=True
    ),
    "http://json-schema.org/draft-07/schema": Dialect(
        "Draft7", ref_stands_alone=True, items_may_be_list=True
    ),
    "https://json-schema.org/draft/2019-09/schema": _LISTS,
    "https://json-schema.org/draft/2020-12/schema": _NEWEST,
}


def dialect_of(schema: JsonSchema, others: Container[str] = ()) -> Dialect:
    """Say in which dialect a schema is written; ``others`` are addresses of other documents.

    One that does not say may use the spellings of draft 7. Draft 2019-09 understands these too, and
    still lets other keywords stand beside ``$ref``. So is one read that says what nobody knows.
    """
    if isinstance(schema, bool):
        return _NEWEST
    uri = _declared(schema)
    if uri in _LIBRARYS or uri in others:
        return _UNKNOWN
    return _BY_URI.get(uri, _LISTS if _has_lists(schema) else _NEWEST)


def says_dialect(schema: JsonSchema, others: Container[str] = ()) -> bool:
    """Say whether a schema declares a dialect that somebody knows."""
    uri = "" if isinstance(schema, bool) else _declared(schema)
    return uri in _BY_URI or uri in _LIBRARYS or uri in others


def _declared(schema: dict[str, Any]) -> str:
    uri = str(schema.get("$schema", "")).rstrip("#/")
    return uri.replace("https://json-schema.org/draft-", "http://json-schema.org/draft-")


def _has_lists(schema: object) -> bool:
    """Say whether any ``items`` is a list. Nesting is limited by now."""
    if not isinstance(schema, dict):
        return False
    if isinstance(schema.get("items"), list):
        return True
    parts = [schema.get(keyword) for keyword in ONE]
    for keyword in SEVERAL:
        if isinstance(listed := schema.get(keyword), list):
            parts += listed
    for keyword in BY_NAME:
        if isinstance(named := schema.get(keyword), dict):
            parts += named.values()
    return any(map(_has_lists, parts))
