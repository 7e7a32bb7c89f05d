"""Models: send a history to a provider and return its response stream.

Models over HTTP need the extra ``http``, which is imported on first use. ``ScriptedModel`` and
``as_model`` for functions and iterators need no network.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from argstream.errors import MissingExtraError
from argstream.models._iterators import as_model
from argstream.models._scripted import CallTool, Reply, Say, ScriptedModel, Think
from argstream.providers._requests import (
    Model,
    ModelRequest,
    ModelSettings,
    OfferedTool,
    request_body,
)

if TYPE_CHECKING:
    from argstream.models._http import HttpModel, Timeouts, make_model
    from argstream.models._retries import Retries

__all__ = [
    "CallTool",
    "HttpModel",
    "Model",
    "ModelRequest",
    "ModelSettings",
    "OfferedTool",
    "Reply",
    "Retries",
    "Say",
    "ScriptedModel",
    "Think",
    "Timeouts",
    "as_model",
    "make_model",
    "request_body",
]

_HTTP_NAMES = ("HttpModel", "Retries", "Timeouts", "make_model")

if not TYPE_CHECKING:  # with a __getattr__, type checkers would accept misspelt names

    def __getattr__(name: str) -> object:
        if name not in _HTTP_NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            module = import_module("argstream.models._http")
        except ModuleNotFoundError as error:
            if error.name not in ("httpx2", "anyio"):
                raise
            raise MissingExtraError("http", "a model over HTTP") from None
        value = globals()[name] = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
