"""How much a schema may ask for. Schemas come from strangers too: from an MCP server, for one."""

from msgspec import Struct

from argstream.errors import UsageError

__all__ = ["DEFAULT_SCHEMA_LIMITS", "SchemaLimits"]


class SchemaLimits(Struct, frozen=True, kw_only=True):
    """Limits of a schema. One that passes them is refused when it is compiled.

    The first three raise ``SchemaError``; beyond ``max_branches`` a value is judged at its close.
    """

    max_depth: int = 200
    """How deep the schema may be nested, as JSON."""
    max_subschemas: int = 10_000
    max_expansion: int = 500_000
    """How many subschemas it would have if each ``$ref`` were replaced by what it refers to.

    Twenty definitions that each name the next one twice are a million: so long would one value
    take to check.
    """
    max_branches: int = 256
    """How many branches of ``anyOf`` and ``oneOf`` are followed at one value."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
                raise UsageError(f"SchemaLimits.{name} is a whole number above 0, not {limit!r}")


DEFAULT_SCHEMA_LIMITS = SchemaLimits()
