"""Tools for tests: ways to cut a stream, and a mock provider with faults."""

from typing import TYPE_CHECKING

from argstream._lazy import lazy_exports
from argstream.models._scripted import (
    CallTool,
    Cut,
    ErrorEvent,
    Fault,
    Malformed,
    Reply,
    Say,
    Slow,
    Split,
    Status,
    Think,
)
from argstream.testing._chunking import at_every_place, chunkings, cut
from argstream.testing._replies import parse_fault, parse_script

if TYPE_CHECKING:
    from argstream.testing._mock import HangUp, MockProvider, ReceivedRequest

__all__ = [
    "CallTool",
    "Cut",
    "ErrorEvent",
    "Fault",
    "HangUp",
    "Malformed",
    "MockProvider",
    "ReceivedRequest",
    "Reply",
    "Say",
    "Slow",
    "Split",
    "Status",
    "Think",
    "at_every_place",
    "chunkings",
    "cut",
    "parse_fault",
    "parse_script",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, {"_mock": "HangUp MockProvider ReceivedRequest"})
