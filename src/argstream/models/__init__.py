"""Models: send a history to a provider and return its response stream.

Models over HTTP need the extra ``http``, which is imported on first use. ``ScriptedModel`` and
``as_model`` for functions and iterators need only the core.
"""

from typing import TYPE_CHECKING

from argstream._lazy import lazy_exports
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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__, {"_http": "HttpModel Timeouts make_model", "_retries": "Retries"}
    )
