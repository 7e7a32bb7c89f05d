"""JSON in pieces of any size → typed fragments, at once. It has no dependencies.

``Parser`` is the engine: feed it ``str`` or ``bytes``, get ``Key``, ``Start``, ``Text``, ``Done``
and, if it must be, ``Invalid``. ``parse`` does that for a whole text or an iterable of pieces.
``FragmentAggregator`` builds values from fragments. ``NestedParser`` returns fragments in the
recursive form of jp's RFD 043, and ``nested`` translates a fragment into it (``recursive`` has the
types). ``ToolArgStream`` reports the top-level fields of a tool call's arguments.
"""

from argstream.jsonstream.aggregator import FragmentAggregator
from argstream.jsonstream.fragments import (
    Done,
    Fragment,
    Invalid,
    JsonPath,
    JsonValue,
    Key,
    Kind,
    Reason,
    Start,
    Text,
)
from argstream.jsonstream.limits import Limits
from argstream.jsonstream.location import Location, locate
from argstream.jsonstream.parser import Parser, Verdict, parse
from argstream.jsonstream.pending import PENDING, Pending
from argstream.jsonstream.recursive import NestedParser, nested
from argstream.jsonstream.tool_args import (
    ToolArgStream,
    ToolFieldDelta,
    ToolFieldEnd,
    ToolFieldEvent,
    ToolFieldStart,
)

__all__ = [
    "PENDING",
    "Done",
    "Fragment",
    "FragmentAggregator",
    "Invalid",
    "JsonPath",
    "JsonValue",
    "Key",
    "Kind",
    "Limits",
    "Location",
    "NestedParser",
    "Parser",
    "Pending",
    "Reason",
    "Start",
    "Text",
    "ToolArgStream",
    "ToolFieldDelta",
    "ToolFieldEnd",
    "ToolFieldEvent",
    "ToolFieldStart",
    "Verdict",
    "locate",
    "nested",
    "parse",
]
