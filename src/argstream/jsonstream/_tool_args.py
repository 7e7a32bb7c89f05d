"""The arguments of one tool call, field by field: axio's ``ToolArgStream`` on our engine.

Only top-level fields produce events. Strings are decoded; other values are passed on as raw JSON.

The original silently passes malformed text on. This one stops sending events and sets ``error``.
``close()`` detects truncated text. Duplicate arguments and arguments that are not an object are
errors too, because they make a tool call unusable.
"""

from dataclasses import dataclass
from typing import TypeAlias

from argstream.errors import UsageError
from argstream.jsonstream._fragments import Done, Invalid, Key, Start, Text
from argstream.jsonstream._parser import Limits, Parser


@dataclass(frozen=True, slots=True)
class _OfField:
    index: int
    tool_use_id: str
    key: str


@dataclass(frozen=True, slots=True)
class ToolFieldStart(_OfField):
    """The name of a top-level field is complete and its value has not started."""


@dataclass(frozen=True, slots=True)
class ToolFieldDelta(_OfField):
    """The next piece of the field's value: decoded text of a string, raw JSON of other values."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolFieldEnd(_OfField):
    """The field's value is complete."""


ToolFieldEvent: TypeAlias = ToolFieldStart | ToolFieldDelta | ToolFieldEnd


class ToolArgStream:
    """Turns the pieces of a tool call's arguments into events about its top-level fields.

    >>> stream = ToolArgStream("call_1")
    >>> for event in stream.feed('{"path":"/tmp/f'):
    ...     print(event)
    ToolFieldStart(index=0, tool_use_id='call_1', key='path')
    ToolFieldDelta(index=0, tool_use_id='call_1', key='path', text='/tmp/f')
    >>> stream.feed('oo.py"}')[-1]
    ToolFieldEnd(index=0, tool_use_id='call_1', key='path')
    """

    def __init__(self, tool_use_id: str, index: int = 0, *, limits: Limits | None = None) -> None:
        self.tool_use_id = tool_use_id
        self.index = index
        self._parser = Parser(limits, unique_keys=True)
        self._key = ""
        self._before_colon = False
        self._in_raw = False  # inside a value that is passed on as raw JSON
        self._done = False
        self._not_an_object: Invalid | None = None

    @property
    def current_key(self) -> str:
        """The field that started last, or "" before the first."""
        return self._key

    @property
    def done(self) -> bool:
        """Whether the whole object has been read."""
        return self._done

    @property
    def error(self) -> Invalid | None:
        """Why the text is not valid as arguments, or None."""
        return self._not_an_object or self._parser.error

    def feed(self, chunk: str) -> list[ToolFieldEvent]:
        """Return the events of the next piece of the arguments, often none."""
        if not isinstance(chunk, str):
            raise UsageError(f"ToolArgStream.feed accepts str, not {type(chunk).__name__}")
        if self.error is not None:
            return []
        origin = self._parser.offset
        fragments = self._parser.feed(chunk)
        text = chunk[: self._parser.offset - origin]  # the valid part
        events = self._field_start(text, 0) if self._before_colon else []
        raw_from = 0
        for fragment in fragments:
            match fragment:
                case Key((str(key),), offset):
                    self._key = key
                    events += self._field_start(text, offset + 1 - origin)
                case Text((_,), piece):
                    events += self._field_delta(piece)
                case Start((_,), kind, offset) if kind != "string":
                    self._in_raw = True
                    raw_from = offset - origin
                case Done((_,), _, offset):
                    if self._in_raw:
                        events += self._field_delta(text[raw_from : offset - origin])
                        self._in_raw = False
                    events.append(ToolFieldEnd(self.index, self.tool_use_id, self._key))
                case Done((), _, _):
                    self._done = True
                case Start((), kind, offset) if kind != "object":
                    self._not_an_object = Invalid((), offset, "not_an_object")
                    return []
                case _:
                    pass  # inside a raw value, or Invalid, which ``error`` reports
        if self._in_raw:
            events += self._field_delta(text[raw_from:])
        return events

    def close(self) -> Invalid | None:
        """End the arguments. Returns the error, or None."""
        self._parser.close()
        return self.error

    def _field_start(self, text: str, start: int) -> list[ToolFieldEvent]:
        self._before_colon = text.find(":", start) < 0
        if self._before_colon:
            return []
        return [ToolFieldStart(self.index, self.tool_use_id, self._key)]

    def _field_delta(self, text: str) -> list[ToolFieldEvent]:
        return [ToolFieldDelta(self.index, self.tool_use_id, self._key, text)] if text else []
