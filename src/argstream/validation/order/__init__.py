"""What of a tool's schema keeps people and rules waiting, and how to mend it.

``lint`` looks at schemas only; it has not seen a call. A model writes its arguments one after the
other, mostly in the order of the schema. If the content of a file stands before its path, whoever
has to decide by the path waits until all of the content is written. So the lint warns of

- ``order``: a long text before the short properties that one decides by;
- ``late``: what can be judged only at the end of a value, or never;
- ``unusable``: a schema that cannot be compiled. This is an error.

What is long and what is short is in ``_lengths``. If the schema does not tell, nothing is
said. docs/tool-order.md has the reasons and the measurements.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from argstream.errors import SchemaError
from argstream.validation.order._findings import Finding, FindingCode, SchemaPath, listed, place
from argstream.validation.order._lateness import remarks
from argstream.validation.order._lengths import Lengths
from argstream.validation.order._schemas import Document, Node, in_order, properties, required
from argstream.validation.schema import Schema
from argstream.validation.tools import ToolSpec

__all__ = ["Finding", "FindingCode", "SchemaPath", "lint", "place"]


def lint(tools: Iterable[ToolSpec]) -> list[Finding]:
    """Say what is to be mended in the schemas of some tools, in their order.

    A tool without a schema has nothing to be judged by, and nothing is said of it. Raises
    MissingExtra if what schemas are compiled with is not installed.
    """
    return [finding for tool in tools for finding in _lint(tool)]


def _lint(tool: ToolSpec) -> Iterator[Finding]:
    schema = tool.schema.source if isinstance(tool.schema, Schema) else tool.schema
    if schema is None:
        return
    problem = _problem(schema)
    if problem is not None:  # it may be too large, too, to look at it any further
        yield Finding(tool.name, (), "unusable", problem)
        return
    document = Document(schema if isinstance(schema, Mapping) else {})
    lengths = Lengths(document)
    for part in document.parts():
        yield from _order(tool.name, part.path, part.node, lengths)
    for path, message, suggestion in remarks(document, lengths):
        yield Finding(tool.name, path, "late", message, suggestion)


def _problem(schema: Mapping[str, Any] | bool) -> str | None:  # noqa: FBT001 - a schema may be one
    """Say why no call could be judged by a schema."""
    if schema is False:
        return "The schema is false: it refuses every call."
    try:
        Schema(schema)
    except SchemaError as error:
        return f"No call can be judged: {error}"
    return None


def _order(tool: str, path: SchemaPath, node: Node, lengths: Lengths) -> Iterator[Finding]:
    names = in_order(node)
    if len(names) < 2:
        return
    known = {name: lengths.of(name, schema) for name, schema in properties(node).items()}
    long = [name for name in names if known[name] == "long"]
    short = [name for name in names if known[name] == "short"]
    if not long or not short:
        return
    position = {name: index for index, name in enumerate(names)}
    waiting = [name for name in short if position[name] > position[long[0]]]
    needed = set(required(node))
    held_up_by = [name for name in long if name in needed]
    optional = [name for name in short if name not in needed] if held_up_by else []
    if waiting:
        before = [name for name in long if position[name] < position[waiting[-1]]]
        message = _stands_before(before, waiting)
        order = (*(name for name in names if name not in set(long)), *long)
        if optional:
            message += f" {_is_optional(optional)}"
        message += _elsewhere(node, order)
        yield Finding(tool, path, "order", message, order)
    elif optional:
        yield Finding(tool, path, "order", _is_required(held_up_by, optional))


def _stands_before(long: list[str], short: list[str]) -> str:
    stands = "stands" if len(long) == 1 else "stand"
    return (
        f"{listed(long)} may be long and {stands} before {listed(short)}: most models, OpenAI's"
        " every time, write in the order of the schema."
    )


def _is_required(long: list[str], short: list[str]) -> str:
    are = "is" if len(long) == 1 else "are"
    return f"{listed(long)} may be long and {are} required. {_is_optional(short)}"


def _is_optional(short: list[str]) -> str:
    """Say what is measured of Claude: the order of the schema is not all."""
    are, them = ("is", "it") if len(short) == 1 else ("are", "them")
    return (
        f"{listed(short)} {are} optional, and Claude writes what is required first: require {them}"
        " too, with null for what is not given."
    )


def _elsewhere(node: Node, order: tuple[str, ...]) -> str:
    """Say where else the order is written, and differs."""
    places = []
    written = required(node)
    if written != [name for name in order if name in set(written)]:
        places.append("required")
    if isinstance(node.get("propertyOrdering"), list):
        places.append("propertyOrdering")
    return f" Put {listed(places)} in the same order." if places else ""
