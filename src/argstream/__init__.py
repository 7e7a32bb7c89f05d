"""argstream reads a model's tool call while it is still being written.

Everything public can be imported from here and is loaded when it is first used, so that ``import
argstream`` is quick and needs no extra. The engine has a package of its own:
``argstream.jsonstream``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argstream.errors import ArgstreamError, MissingExtra, UsageError
    from argstream.jsonstream import (
        ToolArgStream,
        ToolFieldDelta,
        ToolFieldEnd,
        ToolFieldEvent,
        ToolFieldStart,
    )

__version__ = "0.1.0"

__all__ = [
    "ArgstreamError",
    "MissingExtra",
    "ToolArgStream",
    "ToolFieldDelta",
    "ToolFieldEnd",
    "ToolFieldEvent",
    "ToolFieldStart",
    "UsageError",
]

_HOMES = {
    "argstream.errors": ("ArgstreamError", "MissingExtra", "UsageError"),
    "argstream.jsonstream": (
        "ToolArgStream",
        "ToolFieldDelta",
        "ToolFieldEnd",
        "ToolFieldEvent",
        "ToolFieldStart",
    ),
}


if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name valid

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(home), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
