"""jsonschema-rs, which has the final word, in the few ways in which we use it.

Only ``is_valid`` is asked. It remembers what it found at a recursive reference, so it is linear;
the calls that explain an error do not, and a few nested unions keep them busy for hours. Nothing is
ever fetched: by itself the library would follow a ``$ref`` to a URL or to a local file.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from argstream.errors import MissingExtra, SchemaError
from argstream.validation._dialects import Dialect, JsonSchema
from argstream.validation._pointers import escaped

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["Library", "is_valid"]

_HOME: Final = "argstream://schema/"  # where relative references of a schema without an $id begin
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_BACKTRACKS: Final = 100_000  # for patterns that look around or back; all others are linear


class Library:
    """Validators for a schema, for parts of it, and for small schemas in the same dialect."""

    def __init__(
        self,
        schema: JsonSchema,
        dialect: Dialect,
        resources: Mapping[str, Any],
        *,
        formats: bool,
    ) -> None:
        """Compile a schema; raises ``SchemaError`` if the library cannot."""
        try:
            import jsonschema_rs  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtra("validation", "judging calls by a JSON Schema") from None
        self._library = jsonschema_rs
        self._dialect = dialect
        self._formats = formats
        self._resources = [(_HOME, schema), *resources.items()]
        self._registry: jsonschema_rs.Registry | None = None
        self._root = self._root_validator(schema)

    def is_valid(self, value: object) -> bool:
        """Give the final word."""
        return is_valid(self._root, value)

    def at(self, pointer: str) -> "jsonschema_rs.Validator":
        """Give a validator for what stands at this place of the schema."""
        return self._make({"$ref": f"{_HOME}#{quote(pointer)}"})

    def of(self, keywords: dict[str, Any]) -> "jsonschema_rs.Validator":
        """Give a validator for keywords that refer to nothing else."""
        return self._make(keywords)

    def _root_validator(self, schema: JsonSchema) -> "jsonschema_rs.Validator":
        library = self._library
        made: jsonschema_rs.Validator
        try:
            self._registry = library.Registry(self._resources, draft=self._dialect.draft(library))
        except (library.ReferencingError, ValueError) as error:
            raise _unresolvable(_line(error), "") from None
        try:
            if self._dialect.is_known:
                made = self._make(schema, base_uri=_HOME)
            else:
                made = library.validator_for(schema, base_uri=_HOME, **self._options())
        except library.ValidationError as error:
            raise _told(error) from None
        except (library.ReferencingError, ValueError) as error:
            raise SchemaError(f"the schema cannot be used: {_line(error)}") from None
        return made

    def _make(self, schema: JsonSchema, base_uri: str | None = None) -> "jsonschema_rs.Validator":
        make = self._dialect.validator(self._library)
        return make(schema, base_uri=base_uri, **self._options())

    def _options(self) -> dict[str, Any]:
        return {
            "registry": self._registry,
            "offline": True,
            "validate_formats": self._formats,
            "pattern_options": self._library.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
        }


def is_valid(validator: "jsonschema_rs.Validator", value: object) -> bool:
    """Ask a validator; what it cannot take, such as an infinite number, is not valid."""
    try:
        return validator.is_valid(value)
    except ValueError:
        return False


def _told(error: "jsonschema_rs.ValidationError") -> SchemaError:
    message = _line(error)
    pointer = "".join(f"/{escaped(step)}" for step in error.instance_path)
    if isinstance(error.kind, type(error.kind).Referencing):
        return _unresolvable(message, pointer)
    if pointer.endswith("/type") and isinstance(error.instance, str):
        message = f"{error.instance!r} is no type of JSON: there are {', '.join(_TYPES)}"
    return SchemaError(f"the schema is not valid: {message}", pointer=f"#{pointer}")


def _unresolvable(message: str, pointer: str) -> SchemaError:
    if "registry" in message:
        message = f"{message}; nothing is fetched: give other documents to Schema(resources=…)"
    return SchemaError(message, pointer=f"#{pointer}", reason="unresolvable")


def _line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
