"""The peers, each used in the cheapest way that its own interface allows.

What each of them cannot do is said where it is listed, in ``PEERS``; the report prints it.
"""

import types
from collections.abc import Generator, Iterable
from functools import partial
from typing import Any, Literal

import ijson
import jiter
import json_repair
import json_stream
import jsonriver
import partial_json_parser
from ijson.common import ObjectBuilder
from json_stream.base import StreamingJSONList, StreamingJSONObject
from langchain_core.utils.json import parse_partial_json

from readers import Peer, Reparser


class Jiter:
    """jiter over a growing ``bytes``, all again with each chunk, as the anthropic SDK does."""

    def __init__(self, partial_mode: Literal[True, "trailing-strings"]) -> None:
        self._bytes = b""
        self._partial_mode = partial_mode
        self.value: object = None

    def feed(self, chunk: str) -> None:
        """Append, then parse everything."""
        self._bytes += chunk.encode()
        self.value = jiter.from_json(self._bytes, partial_mode=self._partial_mode)

    def skip(self, text: str) -> None:
        """Take text without the parsing."""
        self._bytes += text.encode()


class Ijson:
    """ijson's push interface, with the builder that ijson itself makes values with."""

    def __init__(self, backend: str) -> None:
        self._builder = ObjectBuilder()
        self._events = ijson.sendable_list()
        parse = ijson.get_backend(backend).basic_parse_coro(self._events, use_float=True)
        self._send = parse.send

    @property
    def value(self) -> object:
        """What the builder has made of the events so far."""
        return self._builder.value

    def feed(self, chunk: str) -> None:
        """Push bytes, then hand the events they gave to the builder."""
        self._send(chunk.encode())
        events = self._events
        if events:
            for event, value in events:
                self._builder.event(event, value)
            events.clear()


class Jsonriver:
    """jsonriver's async generator, resumed by hand: an event loop would only add to its cost."""

    def __init__(self) -> None:
        self.value: object = None
        running = self._run()
        running.send(None)
        self._resume = running.send

    async def _run(self) -> None:
        async for value in jsonriver.parse(_Mailbox()):
            self.value = value

    def feed(self, chunk: str) -> None:
        """Wake it with the next chunk."""
        self._resume(chunk)


class _Mailbox:
    """An async iterator that sleeps until it is sent a chunk."""

    @types.coroutine
    def __anext__(self) -> Generator[None, str, str]:
        return (yield)


class JsonStream:
    """json-stream's transient mode, copied into dicts and lists as it goes."""

    def __init__(self) -> None:
        self.value: dict[str, object] = {}

    def pull(self, chunks: Iterable[str]) -> None:
        """Walk through the whole text."""
        _copy_object(json_stream.load(iter(chunks)), self.value)


def _copy_object(source: Any, target: dict[str, object]) -> None:
    for key, item in source.items():
        if isinstance(item, StreamingJSONObject):
            members: dict[str, object] = {}
            target[key] = members
            _copy_object(item, members)
        elif isinstance(item, StreamingJSONList):
            items: list[object] = []
            target[key] = items
            _copy_list(item, items)
        else:
            target[key] = item


def _copy_list(source: Any, target: list[object]) -> None:
    for item in source:
        if isinstance(item, StreamingJSONObject):
            members: dict[str, object] = {}
            target.append(members)
            _copy_object(item, members)
        elif isinstance(item, StreamingJSONList):
            items: list[object] = []
            target.append(items)
            _copy_list(item, items)
        else:
            target.append(item)


PEERS = [
    Peer(
        "jsonriver",
        Jsonriver,
        package="jsonriver",
        remark="An async generator, here resumed by hand without an event loop. All numbers are "
        "floats. It keeps a second reference to the open string, so each append copies it.",
    ),
    Peer(
        "jiter",
        partial(Jiter, "trailing-strings"),
        package="jiter",
        remark="A one-shot parser, fast, but all text is parsed again with each chunk. A number "
        "is shown before it is complete.",
    ),
    Peer(
        "jiter, no open string",
        partial(Jiter, partial_mode=True),
        package="jiter",
        remark="The mode that the anthropic SDK uses: the string that is being written is left "
        "out until its closing quote.",
        shows_open_strings=False,
    ),
    Peer(
        "ijson yajl2_c",
        partial(Ijson, "yajl2_c"),
        package="ijson",
        remark="A C library, push. A string appears when it is complete; until then a chunk "
        "costs the more, the longer that string already is.",
        shows_open_strings=False,
    ),
    Peer(
        "ijson python",
        partial(Ijson, "python"),
        package="ijson",
        remark="The same interface in Python. A string appears when it is complete.",
        shows_open_strings=False,
    ),
    Peer(
        "json-stream",
        JsonStream,
        package="json-stream",
        remark="It fetches its input and cannot be fed: the value so far can be seen only from "
        "inside the iterable that provides the chunks, and an async source needs a thread. "
        "A string appears when it is complete.",
        shows_open_strings=False,
    ),
    Peer(
        "partial-json-parser",
        partial(Reparser, partial_json_parser.loads),
        package="partial-json-parser",
        remark="Completes the text, then `json.loads`: all again with each chunk. It leaves out "
        "white space at the end of an open string and shows a number before it is complete.",
    ),
    Peer(
        "langchain-core",
        partial(Reparser, parse_partial_json),
        package="langchain-core",
        remark="`parse_partial_json`: all text again with each chunk, character by character. A "
        "number is shown before it is complete.",
    ),
    Peer(
        "json-repair",
        partial(Reparser, partial(json_repair.loads, stream_stable=True)),
        package="json-repair",
        remark="Made to repair broken JSON, here with `stream_stable=True`; all text again with "
        "each chunk. It guesses: half a word becomes a string, a key without its value an item or "
        "an empty string. One parse of a long open string is quadratic by itself.",
    ),
]
