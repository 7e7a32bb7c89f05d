"""Arguments that the provider does not send as plain pieces of JSON.

Quirks handle servers that write arguments in a nonstandard way. If the caller names the quirk, the
arguments are correct while they are written. Otherwise the text is reinterpreted when the call is
closed (``SecondInterpretation``): until then, the literal text is shown.

``JsonWriter`` handles providers that send values instead of text. It writes the JSON text value by
value, so that every call has one text that is logged, digested and approved. A number is followed
by a space, because only the next character ends a number. A value for a container that is already
closed is added when the call is closed (``restated``). Values that contradict each other make the
call malformed.
"""

import json
from collections.abc import Collection
from typing import Any, Literal, TypeAlias, get_args

from argstream.errors import UsageError
from argstream.events import ErrorReason
from argstream.jsonstream import JsonPath, Limits, Parser, Text
from argstream.sanitise import replace_lone_surrogates

Quirk: TypeAlias = Literal["cumulative", "empty_prefix", "double_encoded"]


class TextQuirk:
    """Turns the pieces that a server sends into plain pieces of JSON."""

    name: Quirk
    applied = False  # whether any piece was changed
    is_whole = True  # after the close: whether the text was complete

    def feed(self, piece: str) -> str:
        raise NotImplementedError

    def close(self) -> str:
        """Return text that was held back."""
        return ""


class _Cumulative(TextQuirk):
    name = "cumulative"

    def __init__(self) -> None:
        self._all = ""

    def feed(self, piece: str) -> str:
        if self._all and piece.startswith(self._all):
            self.applied = True
            known, self._all = len(self._all), piece
            return piece[known:]
        so_far, self._all = self._all, ""
        so_far += piece  # in place: nothing else refers to it (invariant 6)
        self._all = so_far
        return piece


class _EmptyPrefix(TextQuirk):
    name = "empty_prefix"

    def __init__(self) -> None:
        self._held: str | None = ""

    def feed(self, piece: str) -> str:
        if self._held is None:
            return piece
        if not self._held and piece.strip() == "{}":
            self._held = piece
            return ""
        self.applied = bool(self._held)
        self._held = None
        return piece

    def close(self) -> str:
        held, self._held = self._held, None
        return held or ""


class _DoubleEncoded(TextQuirk):
    name = "double_encoded"

    def __init__(self) -> None:
        self._outer: Parser | None = None
        self._decided = False

    def feed(self, piece: str) -> str:
        if not self._decided and piece.strip():
            self._decided = True
            if piece.lstrip().startswith('"'):
                self._outer = Parser()
                self.applied = True
        if self._outer is None:
            return piece
        # After an error outside the string, pieces pass unchanged, so that it is reported.
        text = [part.text for part in self._outer.feed(piece) if isinstance(part, Text)]
        return "".join(text) if self._outer.error is None else piece

    def close(self) -> str:
        if self._outer is not None:
            self._outer.close()
            self.is_whole = self._outer.verdict != "truncated"
        return ""


_QUIRKS: dict[Quirk, type[TextQuirk]] = {
    quirk.name: quirk for quirk in (_Cumulative, _EmptyPrefix, _DoubleEncoded)
}


def checked_quirks(quirks: Collection[Quirk]) -> tuple[Quirk, ...]:
    if isinstance(quirks, str):
        raise UsageError(f"quirks must be a collection, not a string. Use quirks=({quirks!r},)")
    unknown = [repr(name) for name in quirks if name not in _QUIRKS]
    if unknown:
        known = ", ".join(get_args(Quirk))
        raise UsageError(f"unknown quirk {', '.join(unknown)}. Known quirks: {known}")
    return tuple(quirks)


def make_quirks(names: Collection[Quirk]) -> list[TextQuirk]:
    return [_QUIRKS[name]() for name in names]


dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class UnwritableError(ValueError):
    """A value that contradicts earlier values, or is nested too deeply."""

    def __init__(
        self, message: str, path: JsonPath = (), reason: ErrorReason = "contradicted"
    ) -> None:
        super().__init__(message)
        self.path: JsonPath = tuple(
            replace_lone_surrogates(key) if isinstance(key, str) else key for key in path
        )
        self.reason = reason


class _Leaf:
    """A complete value, or a string that arrives in pieces."""

    def __init__(self) -> None:
        self.is_open = False  # more pieces are announced
        self.pieces: list[Any] = []  # of a string, or the only value


class _Container:
    def __init__(self, first: str | int) -> None:
        self.is_array = isinstance(first, int)
        self.opening, self.closing = "[]" if self.is_array else "{}"
        self.children: dict[str | int, _Container | _Leaf] = {}
        self.count = 0  # how many children are in the text

    def add(self, key: str | int) -> str:
        comma = "," if self.count else ""
        self.count += 1
        return comma if self.is_array else f"{comma}{dumps(key)}:"


class JsonWriter:
    """Writes the text of one call's arguments from values with paths, or from one whole value."""

    def __init__(self, limits: Limits) -> None:
        self.has_late = False  # some values could not be written
        self._max_depth = limits.max_depth
        self._root: _Container | None = None
        self._open: list[_Container] = []  # the open containers, from the root
        self._string: _Leaf | None = None  # the open string
        self._string_path: JsonPath = ()

    def put(self, path: JsonPath, value: Any, *, more: bool = False) -> str:
        """Return the text to append for a value, or for a piece of a string (``more``)."""
        if (string := self._string) is not None and path == self._string_path:
            if not isinstance(value, str):
                raise UnwritableError("a piece of a string is not a string", path)
            string.pieces.append(value)
            if more:
                return dumps(value)[1:-1]
            string.is_open = False
            self._string = None
            return dumps(value)[1:]
        if not path:
            if self._root is not None or more:
                raise UnwritableError("the provider sent the whole value and also parts of it")
            return dumps(value)
        if len(path) > self._max_depth:
            message = f"nested deeper than Limits.max_depth ({self._max_depth})"
            raise UnwritableError(message, path[: self._max_depth], "too_deep")
        if more and not isinstance(value, str):
            raise UnwritableError("only strings can be sent in pieces", path)
        return self._put_leaf(path, value, more=more)

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def close(self) -> str:
        """Return the text that closes the open string and containers."""
        return self._close_to(0)

    def complete_text(self) -> str:
        """Return the complete text, with the late values."""
        return "{}" if self._root is None else dumps(_value_of(self._root, ()))

    def _put_leaf(self, path: JsonPath, value: Any, *, more: bool) -> str:
        text = ""
        if self._root is None:  # opened at the first value, also if that is written later
            self._root = _Container(path[0])
            self._open.append(self._root)
            text = self._root.opening
        containers = self._containers(path)
        container, key = containers[-1], path[-1]
        known = container.children.get(key)
        if known is not None and not (
            isinstance(known, _Leaf) and known.is_open and isinstance(value, str)
        ):
            raise UnwritableError("the provider sent two values for one path", path)
        leaf = container.children[key] = known or _Leaf()
        leaf.is_open = more
        leaf.pieces.append(value)
        opened = sum(one is other for one, other in zip(containers, self._open, strict=False))
        if known is not None or not _is_next(containers, path, opened):
            self.has_late = True
            return text
        text += self._close_to(opened) + self._enter(containers[opened:], path)
        written = dumps(value)
        if more:
            self._string, self._string_path = leaf, path
            return text + written[:-1]
        # Only the next character ends a number.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{text}{written} " if is_number else text + written

    def _containers(self, path: JsonPath) -> list[_Container]:
        """Return the containers of a path, and create the missing ones."""
        container: _Container | _Leaf | None = self._root
        found: list[_Container] = []
        for depth, key in enumerate(path):
            if not isinstance(container, _Container):
                raise UnwritableError("the provider sent a value and also a part of it", path)
            if isinstance(key, int) is not container.is_array:
                message = "the provider sent keys and indexes for the same container"
                raise UnwritableError(message, path[:depth])
            found.append(container)
            if depth < len(path) - 1:
                children = container.children
                container = children.get(key)
                if container is None:
                    container = children[key] = _Container(path[depth + 1])
        return found

    def _enter(self, containers: list[_Container], path: JsonPath) -> str:
        depth = len(self._open)
        pieces = []
        for container in containers:
            pieces += [self._open[-1].add(path[depth - 1]), container.opening]
            self._open.append(container)
            depth += 1
        pieces.append(self._open[-1].add(path[-1]))
        return "".join(pieces)

    def _close_to(self, depth: int) -> str:
        text = ""
        if self._string is not None:
            text = '"'
            self._string = None
        while len(self._open) > depth:
            text += self._open.pop().closing
        return text


def _is_next(containers: list[_Container], path: JsonPath, opened: int) -> bool:
    """Return True if the value can be appended to the text so far."""
    if opened == 0 or any(container.count for container in containers[opened:]):
        return False  # a container with children that is not open is closed
    start = opened - 1
    return all(
        not container.is_array or key == container.count
        for container, key in zip(containers[start:], path[start:], strict=True)
    )


def _value_of(node: _Container | _Leaf, path: JsonPath) -> Any:
    if isinstance(node, _Leaf):
        return node.pieces[0] if len(node.pieces) == 1 else "".join(node.pieces)
    children = node.children
    if not node.is_array:
        return {key: _value_of(child, (*path, key)) for key, child in children.items()}
    for index in range(len(children)):
        if index not in children:
            message = "an item of an array is missing, but a later one was sent"
            raise UnwritableError(message, (*path, index))
    return [_value_of(children[index], (*path, index)) for index in range(len(children))]
