"""What our own tests are made of, for yours: ways to cut a stream, and a provider one can start."""

from argstream.testing.chunking import at_every_place, chunkings, cut
from argstream.testing.faults import Cut, ErrorEvent, Fault, Malformed, Slow, Split, Status
from argstream.testing.mock_provider import HangUp, MockProvider, ReceivedRequest
from argstream.testing.script import CallTool, Reply, Say, Think

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
]
