"""How long the value of a property will be, as far as its schema tells.

Long is a text that a person would not call a name or a number: the content of a file, the body of a
message. So is what holds one: edits with old and new text. Short is what is over after a few
characters and what a person or a rule decides by: a path, an amount, a switch, one of some words.
Everything else is unknown. Settings such as a limit or a timeout are unknown as well, for they are
short but nobody waits for them.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from argstream.validation.order._schemas import Document, Node, branches, properties, types
from argstream.validation.order._words import Length, is_setting, length_by_words

__all__ = ["Lengths"]

_SHORT_AT_MOST: Final = 200
_LONG_FROM: Final = 1_000
_MAX_DEPTH: Final = 32
_MAX_MEMBERS: Final = 256  # that are looked at, so that a schema cannot make it slow
_SHORT_FORMATS: Final = (
    *("date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname"),
    *("ipv4", "ipv6", "iri", "iri-reference", "time", "uri", "uri-reference", "url", "uuid"),
)
_SCALARS: Final = frozenset(("boolean", "integer", "number", "null"))
_UNBOUNDED: Final = re.compile(r"[*+]|\{\d*,\}")


class Lengths:
    """Answers for the schemas of one document, and remembers."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._known: dict[tuple[str, str, int], Length] = {}

    def of(self, name: str, schema: object, description: str = "", depth: int = 0) -> Length:
        """Say how long a value is that has this name and this schema."""
        node = self._document.follow(schema)
        told = node.get("description")
        description = told if isinstance(told, str) else description
        key = (name, description, id(node))
        if key not in self._known:
            self._known[key] = "unknown"  # for a schema that refers to itself
            if depth < _MAX_DEPTH:
                self._known[key] = self._of(name, node, description, depth + 1)
        return self._known[key]

    def _of(self, name: str, node: Node, description: str, depth: int) -> Length:
        if "const" in node or "enum" in node:
            return _of_choice(name, node)
        forms = branches(node, "anyOf", "oneOf")
        if forms:
            return _longest(
                self.of(name, form, description, depth)
                for form in islice(forms, _MAX_MEMBERS)
                if form.get("type") != "null"
            )
        for form in islice(branches(node, "allOf"), _MAX_MEMBERS):
            if (length := self.of(name, form, description, depth)) != "unknown":
                return length
        return _longest(self._of_type(kind, name, node, description, depth) for kind in types(node))

    def _of_type(self, kind: str, name: str, node: Node, description: str, depth: int) -> Length:
        match kind:
            case "string":
                return _of_string(name, node, description)
            case "array":
                return self._of_array(name, node, description, depth)
            case "object":
                return self._of_object(node, depth)
            case _:
                return "unknown" if kind not in _SCALARS or is_setting(name) else "short"

    def _of_array(self, name: str, node: Node, description: str, depth: int) -> Length:
        items, first = node.get("items"), node.get("prefixItems")
        kinds = [*(first if isinstance(first, list) else []), items]
        return _longest(
            self.of(name, item, description, depth)
            for item in islice(kinds, _MAX_MEMBERS)
            if isinstance(item, Mapping)
        )

    def _of_object(self, node: Node, depth: int) -> Length:
        values = node.get("additionalProperties")
        members = [*properties(node).items(), *([("", values)] if values is not None else [])]
        return _longest(
            self.of(name, member, "", depth)
            for name, member in islice(members, _MAX_MEMBERS)
            if isinstance(member, Mapping)
        )


def _of_choice(name: str, node: Node) -> Length:
    values = node["enum"] if "enum" in node else [node["const"]]
    if is_setting(name) or not isinstance(values, list):
        return "unknown"
    return "short" if all(_is_brief(value) for value in values) else "unknown"


def _is_brief(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _SHORT_AT_MOST
    return not isinstance(value, list | Mapping)


def _of_string(name: str, node: Node, description: str) -> Length:
    limit = node.get("maxLength")
    if isinstance(limit, int) and limit >= _LONG_FROM:
        return "long"
    if is_setting(name):
        return "unknown"
    if isinstance(limit, int) and limit <= _SHORT_AT_MOST:
        return "short"
    if "contentMediaType" in node or "contentEncoding" in node:
        return "long"
    if node.get("format") in _SHORT_FORMATS or _is_bounded(node.get("pattern")):
        return "short"
    return length_by_words(name, description)


def _is_bounded(pattern: object) -> bool:
    """Say whether a pattern allows a few characters only, such as ``^[A-Z]{3}$``."""
    return (
        isinstance(pattern, str)
        and pattern.startswith("^")
        and pattern.endswith("$")
        and not _UNBOUNDED.search(pattern)
    )


def _longest(lengths: Iterable[Length]) -> Length:
    """Say how long a value is that is one of these or holds them all."""
    found = set(lengths)
    if "long" in found:
        return "long"
    return "short" if found == {"short"} else "unknown"
