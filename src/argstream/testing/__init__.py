"""What our own tests are made of, for yours: ways to cut a stream, and a provider one can start."""

from importlib import import_module
from typing import TYPE_CHECKING

from argstream.testing.chunking import at_every_place, chunkings, cut
from argstream.testing.faults import Cut, ErrorEvent, Fault, Malformed, Slow, Split, Status
from argstream.testing.script import CallTool, Reply, Say, Think

if TYPE_CHECKING:
    from argstream.testing.mock_provider import HangUp, MockProvider, ReceivedRequest

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


if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name valid

    def __getattr__(name: str) -> object:
        """Load the server only for those who start one: the command line looks at the faults."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("argstream.testing.mock_provider"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
