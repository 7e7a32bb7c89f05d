"""Arguments by their names: ``name = value``, long texts line by line, whatever is in them."""

from collections.abc import Callable
from typing import Any, Final

from argstream.events import ArgumentCompleted, ArgumentDelta, ArgumentStarted
from argstream.jsonstream import JsonPath, Kind
from argstream.terminal.looks._block import Block, PaintByFirstLine, bar
from argstream.terminal.looks._wording import INDENT, SHORT, value_line, value_text
from argstream.terminal.looks.view import ArgumentEvent
from argstream.terminal.spans import Line, Span
from argstream.terminal.words import path_name, quoted

__all__ = ["PlainPart"]

_CONTAINERS: Final = ("object", "array")
_PATCHES: Final = ("diff", "patch")  # names of arguments that are one, however it begins


class PlainPart:
    """Shows values at any path, in the order in which they come."""

    def __init__(self, out: list[Line], when_long: Callable[[], None] = lambda: None) -> None:
        """Write to ``out``; say when something comes that may become long."""
        self._out = out
        self._when_long = when_long
        self._string: _OpenString | None = None
        self._packed: _Packed | None = None

    def take(self, event: ArgumentEvent) -> None:
        """Follow what an argument, or something inside one, becomes."""
        match event:
            case ArgumentStarted(path=path, kind=kind):
                self._start(path, kind)
            case ArgumentDelta(path=path, text=text):
                if self._string is None:  # its beginning was not seen
                    self._start(path, "string")
                self._add(text)
            case ArgumentCompleted(path=path, value=value):
                self._complete(path, value)
            case _:
                pass

    def growing(self, rows: int) -> list[Line]:
        """Give what is not final."""
        lines = [self._packed.line(is_open=True)] if self._packed and self._packed.values else []
        return (lines + (self._string.growing() if self._string else []))[-rows:]

    def finish(self) -> None:
        """Write out what is not complete, as far as it came."""
        self._unpack()
        if self._string is not None:
            self._string.end(is_complete=False)
            self._string = None

    def _start(self, path: JsonPath, kind: Kind) -> None:
        if kind in _CONTAINERS:
            self._unpack()
            self._when_long()
            if kind == "array":
                self._packed = _Packed(path)
        elif kind == "string":
            self._string = _OpenString(self._out, path)

    def _add(self, text: str) -> None:
        string = self._string
        if string is not None and string.add(text):
            self._unpack()
            self._when_long()
            string.become_block()

    def _complete(self, path: JsonPath, value: Any) -> None:
        if isinstance(value, dict | list):
            self._complete_container(path, value)
            return
        if isinstance(value, str) and self._string is None:  # its beginning was not seen
            self._start(path, "string")
            self._add(value)
        string, self._string = self._string, None
        if string is not None and string.is_block:
            string.end(is_complete=True)
        elif self._packed is not None and path[:-1] == self._packed.path:
            if not self._packed.add(value):
                self._unpack()
        else:
            self._out.append(value_line(path, value_text(value)))

    def _complete_container(self, path: JsonPath, value: dict[str, Any] | list[Any]) -> None:
        if self._packed is not None and self._packed.path == path:
            self._out.append(self._packed.line(is_open=False))
            self._packed = None
        elif not value:
            self._out.append(value_line(path, value_text(value)))

    def _unpack(self) -> None:
        if self._packed is not None:
            packed, self._packed = self._packed, None
            for index, value in enumerate(packed.values):
                self._out.append(value_line((*packed.path, index), value_text(value)))


class _Packed:
    """An array that may become one line, if it is short and nothing in it has parts."""

    def __init__(self, path: JsonPath) -> None:
        self.path = path
        self.values: list[Any] = []
        self._length = 0

    def add(self, value: Any) -> bool:
        """Take an item, and say whether all of them still fit."""
        self.values.append(value)
        self._length += len(value_text(value)) + 2
        return self._length <= SHORT

    def line(self, *, is_open: bool) -> Line:
        """Give the line."""
        items = ", ".join(map(value_text, self.values))
        return value_line(self.path, f"[{items}, …" if is_open else f"[{items}]")


class _OpenString:
    """A string that is being written: in quotes as long as it is short, then as a block."""

    def __init__(self, out: list[Line], path: JsonPath) -> None:
        self._out = out
        self._path = path
        self._so_far = ""  # while it is short
        self._block: Block | None = None

    @property
    def is_block(self) -> bool:
        """Whether it was too long for one line."""
        return self._block is not None

    def add(self, text: str) -> bool:
        """Take the next piece, and say whether it is only now too long for one line."""
        if self._block is not None:
            self._block.add(text)
            return False
        self._so_far += text
        return _is_long(self._so_far)

    def become_block(self) -> None:
        """Write the name, and then line by line."""
        self._out.append(Line((Span(path_name(self._path), "argument"), Span(" =")), INDENT))
        paint = PaintByFirstLine(is_patch=True if self._path[-1] in _PATCHES else None)
        self._block = Block(self._out, bar, paint)
        self._block.add(self._so_far)
        self._so_far = ""

    def end(self, *, is_complete: bool) -> None:
        """Write out the rest. What is not complete has no closing quote."""
        if self._block is None:
            text = quoted(self._so_far)
            self._out.append(value_line(self._path, text if is_complete else text[:-1]))
        elif is_complete or self._block.has_open_line:
            self._block.end()

    def growing(self) -> list[Line]:
        """Give the end of it."""
        if self._block is not None:
            return self._block.growing()
        return [value_line(self._path, quoted(self._so_far)[:-1])]


def _is_long(text: str) -> bool:
    return len(text) > SHORT or "\n" in text
