"""What every parser looks like to the stopwatch.

A reader is made for one text. It either takes the text chunk by chunk (``Feeder``), or insists on
fetching the chunks itself (``Puller``). After each chunk its ``value`` is as much of the value as
that parser can show.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from argstream.jsonstream import Parser


class Feeder(Protocol):
    """Takes chunks. ``argstream.jsonstream.Parser`` is one as it is."""

    @property
    def value(self) -> object:
        """The value so far."""

    def feed(self, chunk: str, /) -> object:
        """Take the next chunk."""


@runtime_checkable
class Skipper(Feeder, Protocol):
    """A feeder whose cost is all in looking at the text again, which can be left out at will."""

    def skip(self, text: str, /) -> None:
        """Take text without a look, to get quickly to the place that is to be measured."""


@runtime_checkable
class Puller(Protocol):
    """Fetches chunks. Between two of them it can be looked at by who provides them."""

    @property
    def value(self) -> object:
        """The value so far."""

    def pull(self, chunks: Iterable[str], /) -> None:
        """Read everything."""


Reader: TypeAlias = Feeder | Puller


@dataclass(frozen=True)
class Peer:
    """A parser to be measured."""

    name: str
    make: Callable[[], Reader]
    package: str
    remark: str
    """What who reads the figures must know about it."""
    shows_open_strings: bool = True
    """Whether a string is seen while it is being written."""
    gives_values: bool = True
    """Whether what it shows is the JSON value, and can be checked against it."""


class Reparser:
    """Keeps all text and parses it again from its beginning with each chunk."""

    def __init__(self, parse: Callable[[str], object]) -> None:
        self._parse = parse
        self._text = ""
        self.value: object = None

    def feed(self, chunk: str) -> None:
        """Append, then parse everything."""
        self._text += chunk
        self.value = self._parse(self._text)

    def skip(self, text: str) -> None:
        """Append only."""
        self._text += text


ARGSTREAM = Peer(
    "argstream",
    Parser,
    package="argstream",
    remark="`Parser.feed`, which also makes the fragments, and `Parser.value`.",
)


def drive(reader: Reader, chunks: Iterable[str]) -> None:
    """Give a reader all chunks and read its value after each: this is the loop that is timed."""
    if isinstance(reader, Puller):
        reader.pull(chunks)
        return
    feed = reader.feed
    for chunk in chunks:
        feed(chunk)
        value = reader.value  # noqa: F841 - reading it is the point
