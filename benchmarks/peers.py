"""The other parsers, each used in the cheapest way that its interface allows.

Each library is loaded when its peer is made: axio needs an environment that has none of the others.
"""

import types
from collections.abc import Callable, Generator
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from argstream.jsonstream import Parser

ARGSTREAM, AXIO = "argstream", "axio"


class Reader(Protocol):
    """Reads one text. After each chunk, ``value`` is as much as the parser can show."""

    @property
    def value(self) -> object:
        """The value so far."""

    def feed(self, chunk: str, /) -> object:
        """Read the next chunk."""


class Reparser:
    """Parses the whole text again with each chunk."""

    def __init__(self, parse: Callable[[str], object]) -> None:
        self._parse = parse
        self._text = ""
        self.value: object = None

    def feed(self, chunk: str) -> None:
        """Append, then parse everything."""
        self._text += chunk
        self.value = self._parse(self._text)

    def skip(self, text: str) -> None:
        """Append without parsing, to get to the place that is measured."""
        self._text += text


class _Jsonriver:
    """Resumes the async generator by hand: an event loop would only add to its cost."""

    def __init__(self) -> None:
        self.value: object = None
        running = self._run(import_module("jsonriver").parse)
        running.send(None)
        self.feed = running.send

    async def _run(self, parse: Callable[[object], Any]) -> None:
        async for value in parse(_Mailbox()):
            self.value = value


class _Mailbox:
    """An async iterator that waits until it is sent a chunk."""

    @types.coroutine
    def __anext__(self) -> Generator[None, str, str]:
        return (yield)


class _Ijson:
    """Pushes bytes, and builds the value as ijson itself does. Strings appear when complete."""

    def __init__(self) -> None:
        ijson = import_module("ijson")
        self._builder = import_module("ijson.common").ObjectBuilder()
        self._events: list[tuple[str, object]] = ijson.sendable_list()
        parse = ijson.get_backend("yajl2_c").basic_parse_coro(self._events, use_float=True)
        self._send = parse.send

    @property
    def value(self) -> object:
        """What the builder has made so far."""
        return self._builder.value

    def feed(self, chunk: str) -> None:
        """Push a chunk, then build from its events."""
        self._send(chunk.encode())
        for event, value in self._events:
            self._builder.event(event, value)
        self._events.clear()


class _Axio:
    """Appends each delta to its field, the plain way to keep them. Nested values stay raw text."""

    def __init__(self) -> None:
        self._feed = import_module("axio.tool_args").ToolArgStream("call_1").feed
        self._delta = import_module("axio.events").ToolFieldDelta
        self.value: dict[str, str] = {}

    def feed(self, chunk: str) -> None:
        """Read a chunk."""
        fields = self.value
        for event in self._feed(chunk):
            if isinstance(event, self._delta):
                fields[event.key] = fields.get(event.key, "") + event.text


def _jiter() -> Reparser:
    from_json = import_module("jiter").from_json
    return Reparser(lambda text: from_json(text.encode(), partial_mode="trailing-strings"))


def _imported(module: str, function: str) -> Reparser:
    return Reparser(getattr(import_module(module), function))


PARSERS: dict[str, Callable[[], Reader]] = {
    ARGSTREAM: Parser,
    "jsonriver": _Jsonriver,
    "jiter": _jiter,
    "ijson": _Ijson,
    "partial-json-parser": partial(_imported, "partial_json_parser", "loads"),
    "langchain-core": partial(_imported, "langchain_core.utils.json", "parse_partial_json"),
    AXIO: _Axio,
}
