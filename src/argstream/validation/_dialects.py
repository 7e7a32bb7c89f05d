"""The drafts of JSON Schema, and the validators of jsonschema-rs.

A schema is read as draft 2020-12 unless it declares another draft or uses the keywords of one. Only
three differences matter here: whether keywords beside ``$ref`` count, whether ``items`` may be a
list, and whether ``prefixItems`` exists. The library handles the rest.
"""

from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from argstream.errors import MissingExtraError, SchemaError, UsageError

if TYPE_CHECKING:
    import jsonschema_rs

JsonSchema: TypeAlias = dict[str, Any] | bool


class Dialect(NamedTuple):
    name: str  # in jsonschema-rs; empty if the library must detect the draft
    ref_stands_alone: bool = False  # keywords beside ``$ref`` are ignored
    items_may_be_list: bool = False  # with ``additionalItems``, and without ``prefixItems``


# Keywords that have one subschema, several, or several by name. All of ``$defs`` is read too,
# because a reference may name any of it.
ONE: Final = (
    "additionalProperties", "propertyNames", "items", "additionalItems", "contains", "not", "if",
    "then", "else", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
SEVERAL: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
BY_NAME: Final = (
    "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions",
)  # fmt: skip
# With these, the meaning of a part depends on its context, so only whole values can be checked.
DYNAMIC: Final = ("$dynamicRef", "$recursiveRef")
_NEWEST: Final = Dialect("Draft202012")
_LISTS: Final = Dialect("Draft201909", items_may_be_list=True)
_UNKNOWN: Final = Dialect("")
_DRAFT_7: Final = Dialect("Draft7", ref_stands_alone=True, items_may_be_list=True)
_BY_URI: Final = {
    "http://json-schema.org/draft-04/schema": _UNKNOWN,
    "http://json-schema.org/draft-06/schema": _DRAFT_7._replace(name="Draft6"),
    "http://json-schema.org/draft-07/schema": _DRAFT_7,
    "https://json-schema.org/draft/2019-09/schema": _LISTS,
    "https://json-schema.org/draft/2020-12/schema": _NEWEST,
}


def dialect_of(schema: JsonSchema, others: Container[str] = ()) -> Dialect:
    """Return the dialect of a schema; ``others`` are the addresses of other documents.

    A schema that declares no draft, or an unknown one, may use the keywords of draft 7. It is read
    as draft 2019-09, which has these too and allows other keywords beside ``$ref``.
    """
    if isinstance(schema, bool):
        return _NEWEST
    uri = _declared(schema)
    if uri in others:
        return _UNKNOWN
    return _BY_URI.get(uri) or (_LISTS if _has_lists(schema) else _NEWEST)


def declares_dialect(schema: JsonSchema, others: Container[str] = ()) -> bool:
    uri = "" if isinstance(schema, bool) else _declared(schema)
    return uri in _BY_URI or uri in others


def _declared(schema: dict[str, Any]) -> str:
    uri = str(schema.get("$schema", "")).rstrip("#/")
    return uri.replace("https://json-schema.org/draft-", "http://json-schema.org/draft-")


def _has_lists(schema: object) -> bool:
    if not isinstance(schema, dict):
        return False
    parts = (value for _, _, value in parts_of(schema))
    return isinstance(schema.get("items"), list) or any(map(_has_lists, parts))


def parts_of(schema: dict[str, Any]) -> Iterator[tuple[str, str | int | None, Any]]:
    """Yield each subschema with its keyword, and its name or index; None if it is the only one."""
    for keyword in ONE:
        if isinstance(value := schema.get(keyword), dict | bool):
            yield keyword, None, value
    for keyword in SEVERAL:
        if isinstance(listed := schema.get(keyword), list):
            yield from ((keyword, index, value) for index, value in enumerate(listed))
    for keyword in BY_NAME:
        if isinstance(named := schema.get(keyword), dict):
            # A list is a dependency on names.
            values = named.items()
            yield from ((keyword, key, one) for key, one in values if not isinstance(one, list))


class SchemaLimits(Struct, frozen=True, kw_only=True):
    """Limits of a schema.

    The first three raise ``SchemaError`` when the schema is compiled. A value with more than
    ``max_branches`` is checked when it is complete.
    """

    max_depth: int = 200
    """The nesting depth of the schema as JSON."""
    max_subschemas: int = 10_000
    max_expansion: int = 500_000
    """The number of subschemas if each ``$ref`` were replaced by its target.

    Twenty definitions that refer to the next one twice are a million subschemas for one value.
    """
    max_branches: int = 256
    """The number of branches of ``anyOf`` and ``oneOf`` that are followed for one value."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise UsageError(f"SchemaLimits: {name} must be an int of at least 1, not {size!r}")


DEFAULT_SCHEMA_LIMITS = SchemaLimits()


def escaped(name: str | int) -> str:
    """Escape a step of a JSON pointer.

    >>> escaped("a/b~c")
    'a~1b~0c'
    """
    return str(name).replace("~", "~0").replace("/", "~1")


_HOME: Final = "argstream://schema/"  # the base URI of a schema without an $id
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_BACKTRACKS: Final = 100_000  # for patterns with lookaround or backreferences; others are linear


class Library:
    """Validators for a schema, for parts of it, and for small schemas in the same dialect."""

    def __init__(
        self, schema: JsonSchema, dialect: Dialect, resources: Mapping[str, Any], *, formats: bool
    ) -> None:
        try:
            import jsonschema_rs
        except ImportError:
            raise MissingExtraError("validation", "checking calls by a JSON Schema") from None
        self._library = jsonschema_rs
        self._dialect = dialect
        self._formats = formats
        self._resources = [(_HOME, schema), *resources.items()]
        self._registry: jsonschema_rs.Registry | None = None
        self._root = self._root_validator(schema)

    def is_valid(self, value: object) -> bool:
        return is_valid(self._root, value)

    def at(self, pointer: str) -> "jsonschema_rs.Validator":
        return self.of({"$ref": f"{_HOME}#{quote(pointer)}"})

    def of(self, schema: JsonSchema, base_uri: str | None = None) -> "jsonschema_rs.Validator":
        make: type[jsonschema_rs.Validator] = getattr(
            self._library, f"{self._dialect.name}Validator"
        )
        return make(schema, base_uri=base_uri, **self._options())

    def _root_validator(self, schema: JsonSchema) -> "jsonschema_rs.Validator":
        library = self._library
        try:
            draft = getattr(library, self._dialect.name or "Draft202012")
            self._registry = library.Registry(self._resources, draft=draft)
        except (library.ReferencingError, ValueError) as error:
            raise _unresolvable(_line(error), "") from None
        try:
            if self._dialect.name:
                return self.of(schema, base_uri=_HOME)
            detected: jsonschema_rs.Validator = library.validator_for(
                schema, base_uri=_HOME, **self._options()
            )
        except library.ValidationError as error:
            raise _schema_error(error) from None
        except (library.ReferencingError, ValueError) as error:
            raise SchemaError(f"the schema cannot be used: {_line(error)}") from None
        return detected

    def _options(self) -> dict[str, Any]:
        return {
            "registry": self._registry,
            "offline": True,
            "validate_formats": self._formats,
            "pattern_options": self._library.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
        }


def is_valid(validator: "jsonschema_rs.Validator", value: object) -> bool:
    """Validate a value. Values that the library cannot handle, such as infinity, are not valid."""
    try:
        return validator.is_valid(value)
    except ValueError:
        return False


def _schema_error(error: "jsonschema_rs.ValidationError") -> SchemaError:
    message = _line(error)
    pointer = "".join(f"/{escaped(step)}" for step in error.instance_path)
    if isinstance(error.kind, type(error.kind).Referencing):
        return _unresolvable(message, pointer)
    if pointer.endswith("/type") and isinstance(error.instance, str):
        message = f"unknown type {error.instance!r}. Known types: {', '.join(_TYPES)}"
    return SchemaError(f"the schema is not valid: {message}", pointer=f"#{pointer}")


def _unresolvable(message: str, pointer: str) -> SchemaError:
    if "registry" in message:
        message = f"{message}. Pass other documents in Schema(resources=…); none are fetched"
    return SchemaError(message, pointer=f"#{pointer}", reason="unresolvable")


def _line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
