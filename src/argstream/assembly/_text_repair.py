"""Text of arguments that the provider does not send as plain pieces of JSON.

Quirks: servers that write arguments in a way of their own, read live because the caller named the
quirk. Otherwise such a text is read once more when its call is closed (``SecondInterpretation``):
the arguments are right then, but what was shown before was the literal text.

``JsonWriter``: providers that send values instead of text. It writes the text that others would
have sent, leaf by leaf, so that a call has one text that is logged, digested and approved. A number
is followed by a space, since only what follows says that it is complete. A leaf for a container
that the text has left waits for the close (``restated``); one that contradicts another makes the
call malformed.
"""

import json
from collections.abc import Collection
from typing import Any, Literal, TypeAlias, get_args

from argstream.errors import UsageError
from argstream.events import ErrorReason
from argstream.jsonstream import PENDING, JsonPath, Limits, Parser, Text
from argstream.sanitise import replace_lone_surrogates

Quirk: TypeAlias = Literal["cumulative", "empty_prefix", "double_encoded"]


class TextQuirk:
    """Turns the pieces that come into the pieces that are meant."""

    name: Quirk

    def __init__(self) -> None:
        self.applied = False  # any piece was changed
        self.is_whole = True  # whether, after the close, nothing is missing that it takes away

    def feed(self, piece: str) -> str:
        """Return what is new in a piece."""
        raise NotImplementedError

    def close(self) -> str:
        """Return what was held back."""
        return ""


class _Cumulative(TextQuirk):
    """Each piece repeats all before it."""

    name = "cumulative"

    def __init__(self) -> None:
        super().__init__()
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
    """An empty object comes before the real one."""

    name = "empty_prefix"

    def __init__(self) -> None:
        super().__init__()
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
    """The object is in a JSON string."""

    name = "double_encoded"

    def __init__(self) -> None:
        super().__init__()
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
        # What is wrong outside the string is not hidden: it is left where the object ends.
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


def checked(quirks: Collection[Quirk]) -> tuple[Quirk, ...]:
    if isinstance(quirks, str):
        raise UsageError(f"quirks is a collection of names: quirks=({quirks!r},)")
    unknown = [repr(name) for name in quirks if name not in _QUIRKS]
    if unknown:
        known = ", ".join(get_args(Quirk))
        raise UsageError(f"no quirk is called {', '.join(unknown)}; there are: {known}")
    return tuple(quirks)


def make_quirks(names: Collection[Quirk]) -> list[TextQuirk]:
    return [_QUIRKS[name]() for name in names]


dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class UnwritableError(ValueError):
    """A value that has no place beside those that came before it."""

    def __init__(
        self, message: str, path: JsonPath = (), reason: ErrorReason = "contradicted"
    ) -> None:
        super().__init__(message)
        self.path: JsonPath = tuple(
            replace_lone_surrogates(key) if isinstance(key, str) else key for key in path
        )
        self.reason = reason


class _Leaf:
    """A value that came whole, or a string whose pieces come."""

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open  # the provider has said that more comes
        self.is_written = False
        self.late: list[Any] = []  # what could not be written: the value, or pieces of it


class _Container:
    """An object or an array, and what came for it."""

    def __init__(self, first: str | int) -> None:
        self.is_array = isinstance(first, int)
        self.children: dict[str | int, _Container | _Leaf] = {}
        self.count = 0  # how many of them are in the text
        self.state: Literal["new", "open", "left"] = "new"

    def begin(self) -> str:
        self.state = "open"
        return "[" if self.is_array else "{"

    def leave(self) -> str:
        self.state = "left"
        return "]" if self.is_array else "}"

    def add(self, key: str | int) -> str:
        comma = "," if self.count else ""
        self.count += 1
        return comma if self.is_array else f"{comma}{dumps(key)}:"


class JsonWriter:
    """Writes the text of one call's arguments, leaf by leaf, or a whole value at once."""

    def __init__(self, limits: Limits) -> None:
        self.has_late = False
        """Whether something could not be written, so that the text is not all that came."""
        self._max_depth = limits.max_depth
        self._root: _Container | None = None
        self._open: list[_Container] = []  # from the root to where the text stands
        self._string: _Leaf | None = None  # that the text is in
        self._string_path: JsonPath = ()

    def put(self, path: JsonPath, value: Any, *, more: bool = False) -> str:
        """Return the text to add for a value at a path, or for a piece of a string there."""
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
        return bool(self._open)

    def close(self) -> str:
        """Return the text that ends what is open."""
        return self._leave(0)

    def whole(self, written: object) -> str:
        """Return the complete text, with the late values. ``written`` is the value so far."""
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
        """Return the containers on the way to a leaf, creating those that are missing."""
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
        depth = len(self._open)
        pieces = []
        for container in containers:
            pieces += [self._open[-1].add(path[depth - 1]), container.begin()]
            self._open.append(container)
            depth += 1
        pieces.append(self._open[-1].add(path[-1]))
        return "".join(pieces)

    def _leave(self, depth: int) -> str:
        text = ""
        if self._string is not None:
            text = '"'
            self._string = None
        while len(self._open) > depth:
            text += self._open.pop().leave()
        return text


def _is_next(containers: list[_Container], path: JsonPath, opened: int) -> bool:
    """Return True if the leaf can be written after what is there."""
    if opened == 0 or any(container.state == "left" for container in containers[opened:]):
        return False
    start = opened - 1
    return all(
        not container.is_array or key == container.count
        for container, key in zip(containers[start:], path[start:], strict=True)
    )


def _merged(node: _Container | _Leaf, written: Any, path: JsonPath) -> Any:
    """Return the value of all leaves. ``written`` is PENDING where nothing was written."""
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
        key: _merged(child, fields.get(replace_lone_surrogates(str(key)), PENDING), (*path, key))
        for key, child in node.children.items()
    }


def _value(leaf: _Leaf, written: Any, path: JsonPath) -> Any:
    if not leaf.is_written:
        return leaf.late[0] if len(leaf.late) == 1 else "".join(leaf.late)
    if written is PENDING:
        raise UnwritableError("what was written cannot be read again", path)
    return written + "".join(leaf.late) if leaf.late else written
