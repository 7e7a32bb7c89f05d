"""An incremental JSON parser without dependencies: chunks of any size → typed fragments.

``Parser.feed`` parses ``str`` or ``bytes`` and returns ``Key``, ``Start``, ``Text``, ``Done`` and
``Invalid`` fragments. ``parse`` does so for a whole text or an iterable of chunks.
``FragmentAggregator`` builds values from fragments. ``NestedParser`` returns fragments in the
recursive form of jp's RFD 043, and ``nested`` translates a fragment into it (``recursive`` has the
types). ``ToolArgStream`` reports the top-level fields of a tool call's arguments.
"""

from typing import TYPE_CHECKING

from argstream._lazy import lazy_exports
from argstream.jsonstream._fragments import (
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
from argstream.jsonstream._parser import (
    PENDING,
    Limits,
    Location,
    Parser,
    Pending,
    Verdict,
    locate,
    parse,
)

if TYPE_CHECKING:
    from argstream.jsonstream._tool_args import (
        ToolArgStream,
        ToolFieldDelta,
        ToolFieldEnd,
        ToolFieldEvent,
        ToolFieldStart,
    )
    from argstream.jsonstream.recursive import FragmentAggregator, NestedParser, nested

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

_HOMES = {
    "_tool_args": "ToolArgStream ToolFieldDelta ToolFieldEnd ToolFieldEvent ToolFieldStart",
    "recursive": "FragmentAggregator NestedParser nested",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOMES)
