"""A schema as the lint walks through it: every part once, local references followed.

A schema may come from anywhere, so nothing of its form is relied on, a loop ends, and a part that
many refer to is looked at once: the walk is linear.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from argstream.validation._pointers import is_local, local_pointer, steps
from argstream.validation.order._findings import SchemaPath

__all__ = [
    "Document",
    "Node",
    "Part",
    "branches",
    "in_order",
    "properties",
    "required",
    "types",
]

Node: TypeAlias = Mapping[str, Any]

_NOTHING: Final[Node] = {}
_MAX_REFERENCES: Final = 32  # from one to the next; what is beyond is not looked at
_MAX_DEPTH: Final = 256  # as deep as arguments may be


class Part(NamedTuple):
    """One schema inside of a tool's, and where it stands."""

    path: SchemaPath
    node: Node
    role: Literal["value", "branch", "composed"] = "value"
    """Whether it stands for a value by itself, as one of several forms, or with others."""
    reference: object = None
    """The ``$ref`` that stood there and was followed."""


class Document:
    """A tool's schema."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self._followed: dict[int, Node] = {}

    def follow(self, node: object) -> Node:
        """Give what a schema says with what it refers to; a boolean says nothing."""
        if not isinstance(node, Mapping):
            return _NOTHING
        if "$ref" not in node:
            return node
        if id(node) not in self._followed:
            self._followed[id(node)] = self._merged(node)
        return self._followed[id(node)]

    def _merged(self, node: Node) -> Node:
        merged: Node = {key: value for key, value in node.items() if key != "$ref"}
        for target in self._targets(node):
            merged = {**{key: value for key, value in target.items() if key != "$ref"}, **merged}
        return merged

    def _targets(self, node: Node) -> Iterator[Node]:
        """Give what a reference means, and if that is a reference, what this means, and so on."""
        for _ in range(_MAX_REFERENCES):
            if "$ref" not in node:
                return
            node = self._target(node["$ref"])
            if node is _NOTHING:
                return
            yield node

    def _target(self, reference: object) -> Node:
        """Find what a reference means, if it is a pointer into this very schema."""
        if not isinstance(reference, str) or not is_local(reference):
            return _NOTHING
        found: object = self.root
        for key in steps(local_pointer(reference)):
            if isinstance(found, Mapping):
                found = found.get(key)
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                return _NOTHING
        return found if isinstance(found, Mapping) else _NOTHING

    def parts(self) -> Iterator[Part]:
        """Give every schema that a value may meet, outer ones first, in the order of the text."""
        seen: set[int] = set()
        waiting = [Part((), self.root)]
        while waiting:
            part = waiting.pop()
            meant = id(deque((part.node, *self._targets(part.node)), maxlen=1).pop())
            if meant in seen or len(part.path) > _MAX_DEPTH:
                continue
            seen.add(meant)
            reference = part.node.get("$ref")
            followed = part._replace(node=self.follow(part.node), reference=reference)
            yield followed
            waiting += reversed(list(_children(followed)))


def _children(part: Part) -> Iterator[Part]:
    path, node = part.path, part.node
    for name, child in properties(node).items():
        if isinstance(child, Mapping):
            yield Part((*path, name), child)
    inner = (*path, "*")
    for keyword in ("items", "prefixItems", "additionalProperties", "patternProperties"):
        children = node.get(keyword)
        if keyword == "patternProperties" and isinstance(children, Mapping):
            children = list(children.values())
        for child in children if isinstance(children, list) else [children]:
            if isinstance(child, Mapping):
                yield Part(inner, child)
    for keyword in ("anyOf", "oneOf"):
        # Beside properties of its own, a form is only a part of what is said.
        role: Literal["branch", "composed"] = "composed" if properties(node) else "branch"
        for child in branches(node, keyword):
            yield Part(path, child, role)
    for keyword in ("then", "else", "allOf"):
        children = node.get(keyword)
        for child in children if isinstance(children, list) else [children]:
            if isinstance(child, Mapping):
                yield Part(path, child, "composed")


def properties(node: Node) -> Mapping[str, Any]:
    """Give the properties of an object, whatever stands there."""
    found = node.get("properties")
    return found if isinstance(found, Mapping) else {}


def required(node: Node) -> list[str]:
    """Give the names of what is required."""
    found = node.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def in_order(node: Node) -> list[str]:
    """Give the names of an object's properties in the order in which a model is told of them."""
    names = list(properties(node))
    told = node.get("propertyOrdering")  # Gemini's
    if not isinstance(told, list):
        return names
    first = dict.fromkeys(
        name for name in told if isinstance(name, str) and name in properties(node)
    )
    return [*first, *(name for name in names if name not in first)]


def branches(node: Node, *keywords: str) -> list[Node]:
    """Give the forms that a value may have, or all that it must have."""
    found = [node.get(keyword) for keyword in keywords]
    lists = [item for item in found if isinstance(item, list)]
    return [branch for item in lists for branch in item if isinstance(branch, Mapping)]


def types(node: Node) -> list[str]:
    """Give the types that a schema allows, without null: that is short and says nothing more."""
    kinds = node.get("type")
    if kinds is None and properties(node):
        kinds = "object"
    names = kinds if isinstance(kinds, list) else [kinds]
    # Gemini writes them in capitals.
    return [kind.lower() for kind in names if isinstance(kind, str) and kind.lower() != "null"]
