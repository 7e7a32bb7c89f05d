"""Arguments that a provider sends as values, written as the JSON text that others send.

So every call has a text: the pieces join to what is logged, and what is shown live is read out of
them like any other. Leaves are written as they come, each at its path: containers are opened on the
way to a leaf and closed when a leaf lies outside of them. Text cannot be taken back, so a leaf for
a container that was closed, and an element of an array that is not its next one, wait: at the end
the whole text is written anew. A leaf that contradicts an earlier one is refused.

A leaf costs O(depth) of its path; a piece of the string that is open costs its length.
"""

import json
from typing import Any, Literal

from argstream.assembly._surrogates import mended
from argstream.jsonstream import PENDING, JsonPath, Limits

__all__ = ["JsonWriter", "UnwritableError", "dumps"]

dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Write a value as text."""


class UnwritableError(ValueError):
    """A value that has no place beside those that came before it."""

    def __init__(self, message: str, path: JsonPath = (), reason: str = "contradicted") -> None:
        super().__init__(message)
        self.path: JsonPath = tuple(mended(key) if isinstance(key, str) else key for key in path)
        self.reason = reason


class _Leaf:
    """A value that came whole, or a string whose pieces come."""

    __slots__ = ("is_open", "is_written", "late")

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        """Whether the provider has said that more comes."""
        self.is_written = False
        self.late: list[Any] = []  # what could not be written: the value, or pieces of it


class _Container:
    """An object or an array, and what came for it."""

    __slots__ = ("children", "count", "is_array", "state")

    def __init__(self, first: str | int) -> None:
        self.is_array = isinstance(first, int)
        self.children: dict[str | int, _Container | _Leaf] = {}
        self.count = 0
        """How many of them are in the text."""
        self.state: Literal["new", "open", "left"] = "new"

    def begin(self) -> str:
        self.state = "open"
        return "[" if self.is_array else "{"

    def leave(self) -> str:
        self.state = "left"
        return "]" if self.is_array else "}"

    def add(self, key: str | int) -> str:
        """Give what stands before the next value."""
        comma = "," if self.count else ""
        self.count += 1
        return comma if self.is_array else f"{comma}{dumps(key)}:"


class JsonWriter:
    """Writes the text of one call's arguments, leaf by leaf, or a whole value at once."""

    __slots__ = ("_max_depth", "_open", "_root", "_string", "_string_path", "has_late")

    def __init__(self, limits: Limits) -> None:
        self.has_late = False
        """Whether something could not be written, so that the text is not all that came."""
        self._max_depth = limits.max_depth
        self._root: _Container | None = None
        self._open: list[_Container] = []  # from the root to where the text stands
        self._string: _Leaf | None = None  # that the text is in
        self._string_path: JsonPath = ()

    def put(self, path: JsonPath, value: Any, *, more: bool = False) -> str:
        """Give the text to add for a value at a path, or for a piece of a string there."""
        if (string := self._string) is not None and path == self._string_path:
            if not isinstance(value, str):
                raise UnwritableError("a string goes on as something else", path)
            if more:
                return dumps(value)[1:-1]
            string.is_open = False
            self._string = None
            return dumps(value)[1:]
        if not path:
            if self._root is not None or more:
                raise UnwritableError("a value for the whole, beside values for its parts")
            return dumps(value)
        if len(path) > self._max_depth:
            message = "nested deeper than Limits.max_depth allows"
            raise UnwritableError(message, path[: self._max_depth], "too_deep")
        if more and not isinstance(value, str):
            raise UnwritableError("a piece of something that is no string", path)
        return self._put_leaf(path, value, more=more)

    @property
    def is_open(self) -> bool:
        """Whether the text stands inside of something."""
        return bool(self._open)

    def close(self) -> str:
        """Give the text that ends what is open."""
        return self._leave(0)

    def whole(self, written: object) -> str:
        """Give the whole text anew, with what came too late; ``written`` is the value so far."""
        return "{}" if self._root is None else dumps(_merged(self._root, written, ()))

    def _put_leaf(self, path: JsonPath, value: Any, *, more: bool) -> str:
        text = self._begin_root(path[0])
        containers = self._reach(path)
        home, key = containers[-1], path[-1]
        known = home.children.get(key)
        if known is not None:
            if isinstance(known, _Container) or not known.is_open or not isinstance(value, str):
                raise UnwritableError("a value was already given here", path)
            leaf = known
            leaf.is_open = more
        else:
            leaf = home.children[key] = _Leaf(is_open=more)
        opened = sum(container.state == "open" for container in containers)
        if known is not None or not _is_next(containers, path, opened):
            leaf.late.append(value)
            self.has_late = True
            return text
        leaf.is_written = True
        text += self._leave(opened) + self._enter(containers[opened:], path)
        written = dumps(value)
        if more:
            self._string, self._string_path = leaf, path
            return text + written[:-1]
        # Only what follows a number says that it is over.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{text}{written} " if is_number else text + written

    def _begin_root(self, first: str | int) -> str:
        """Open the root at the first leaf, also if that must wait: something has come."""
        if self._root is not None:
            return ""
        self._root = _Container(first)
        self._open.append(self._root)
        return self._root.begin()

    def _reach(self, path: JsonPath) -> list[_Container]:
        """Give the containers on the way to a leaf; those that nobody spoke of are made."""
        container: _Container | _Leaf | None = self._root
        way: list[_Container] = []
        for depth, key in enumerate(path):
            if not isinstance(container, _Container):
                raise UnwritableError("a part of a value that was given as a whole", path)
            if isinstance(key, int) is not container.is_array:
                message = "the same container as an object and as an array"
                raise UnwritableError(message, path[:depth])
            way.append(container)
            if depth < len(path) - 1:
                children = container.children
                container = children.get(key)
                if container is None:
                    container = children[key] = _Container(path[depth + 1])
        return way

    def _enter(self, containers: list[_Container], path: JsonPath) -> str:
        """Go down from where the text stands to a leaf."""
        depth = len(self._open)
        pieces = []
        for container in containers:
            pieces += [self._open[-1].add(path[depth - 1]), container.begin()]
            self._open.append(container)
            depth += 1
        pieces.append(self._open[-1].add(path[-1]))
        return "".join(pieces)

    def _leave(self, depth: int) -> str:
        """End the string, and every container below this depth."""
        text = ""
        if self._string is not None:
            text = '"'
            self._string = None
        while len(self._open) > depth:
            text += self._open.pop().leave()
        return text


def _is_next(containers: list[_Container], path: JsonPath, opened: int) -> bool:
    """Say whether a leaf can be written after what is there."""
    if opened == 0 or any(container.state == "left" for container in containers[opened:]):
        return False
    start = opened - 1
    return all(
        not container.is_array or key == container.count
        for container, key in zip(containers[start:], path[start:], strict=True)
    )


def _merged(node: _Container | _Leaf, written: Any, path: JsonPath) -> Any:
    """Give the value of all that came; what is written of it is PENDING if nothing is."""
    if isinstance(node, _Leaf):
        return _value(node, written, path)
    if node.is_array:
        elements = dict(enumerate(written)) if isinstance(written, list) else {}
        indexes = range(len(node.children))
        for index in indexes:
            if index not in node.children:
                message = "an element of an array never came, but one after it did"
                raise UnwritableError(message, (*path, index))
        return [
            _merged(node.children[index], elements.get(index, PENDING), (*path, index))
            for index in indexes
        ]
    fields = written if isinstance(written, dict) else {}
    return {
        key: _merged(child, fields.get(mended(str(key)), PENDING), (*path, key))
        for key, child in node.children.items()
    }


def _value(leaf: _Leaf, written: Any, path: JsonPath) -> Any:
    if not leaf.is_written:
        return leaf.late[0] if len(leaf.late) == 1 else "".join(leaf.late)
    if written is PENDING:
        raise UnwritableError("what was written cannot be read again", path)
    return written + "".join(leaf.late) if leaf.late else written
