"""A JSON Schema, compiled once, by which many values are judged while they are written."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from argstream.errors import SchemaError
from argstream.validation._dialects import dialect_of, says_dialect
from argstream.validation._library import Library
from argstream.validation._nodes import Nodes
from argstream.validation._pointers import escaped
from argstream.validation._subschemas import read_subschemas
from argstream.validation.check import SchemaCheck
from argstream.validation.limits import DEFAULT_SCHEMA_LIMITS, SchemaLimits

__all__ = ["Schema"]


class Schema:
    r"""A JSON Schema of draft 2020-12; the spellings of draft 7 are understood.

    >>> from argstream.jsonstream import Parser
    >>> schema = Schema({"properties": {"mode": {"enum": ["read", "write"]}}})
    >>> check, parser = schema.check(), Parser(unique_keys=True)
    >>> check.feed(parser.feed('{"mode": "w')), check.verdict
    (None, 'open')
    >>> check.feed(parser.feed('ipe_every')).error.message
    '\'mode\' must be one of "read" or "write", not "wi…'
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | bool,  # noqa: FBT001 - the two forms of a schema
        *,
        limits: SchemaLimits | None = None,
        formats: bool = False,
        resources: Mapping[str, Any] | None = None,
    ) -> None:
        """Compile a schema; raises ``SchemaError`` if it cannot be used.

        ``formats`` makes ``format`` count: by itself it is an annotation. ``resources`` gives other
        documents that it refers to, by their addresses; nothing is ever fetched.
        """
        limits = limits or DEFAULT_SCHEMA_LIMITS
        if not isinstance(schema, Mapping | bool):
            raise SchemaError(f"a schema is an object or a boolean, not {type(schema).__name__}")
        plain = _plain(schema, limits.max_depth)
        documents = {
            uri: _plain(other, limits.max_depth) for uri, other in (resources or {}).items()
        }
        self.source: Mapping[str, Any] | bool = plain
        """What it was made of."""
        dialect = dialect_of(plain, documents)
        if isinstance(plain, dict) and not says_dialect(plain, documents):
            plain.pop("$schema", None)  # the library would look for it
        root = read_subschemas(plain, dialect, limits, documents.values())
        self._library = Library(plain, dialect, documents, formats=formats)
        nodes = Nodes(self._library, limits.max_branches)
        self._root = None if root is None else nodes.node([root])

    def check(self) -> SchemaCheck:
        """Begin to judge a value."""
        return SchemaCheck(self._root, self._library)

    def is_valid(self, value: object) -> bool:
        """Judge a whole value."""
        return self._library.is_valid(value)


def _plain(schema: object, depth: int, pointer: str = "#") -> Any:
    """Copy what must be JSON, so that nobody changes it afterwards, and not nested too deeply."""
    if isinstance(schema, float) and not isfinite(schema):
        raise SchemaError(f"{schema} is no number of JSON", pointer=pointer)
    if isinstance(schema, str | int | float | bool) or schema is None:
        return schema
    if depth == 0:
        raise SchemaError("it is nested too deeply", reason="too_deep")
    if isinstance(schema, Mapping):
        for key in schema:
            if not isinstance(key, str):
                raise SchemaError(f"a key is a string, not {key!r}", pointer=pointer)
        return {
            key: _plain(part, depth - 1, f"{pointer}/{escaped(key)}")
            for key, part in schema.items()
        }
    if isinstance(schema, list | tuple):
        return [_plain(part, depth - 1, f"{pointer}/{i}") for i, part in enumerate(schema)]
    raise SchemaError(f"it is not JSON: {type(schema).__name__}", pointer=pointer)
