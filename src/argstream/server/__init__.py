"""Serves an agent over HTTP, with resumable runs and several UI protocols.

::

    from argstream.server import AgentServer, serve

    serve(AgentServer(agent, token="…"))
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from argstream._lazy import lazy_exports
from argstream.errors import MissingExtraError

if TYPE_CHECKING:
    from argstream.server._limits import Limits
    from argstream.server._security import LOOPBACK_HOSTS, token_cookie
    from argstream.server._serve import Serving, serve
    from argstream.server.app import AgentServer
    from argstream.server.claude_agent import ClaudeAgentDriver

__all__ = [
    "LOOPBACK_HOSTS",
    "AgentServer",
    "ClaudeAgentDriver",
    "Limits",
    "Serving",
    "serve",
    "token_cookie",
]

_HOMES: Final = {
    "_limits": "Limits",
    "_security": "LOOPBACK_HOSTS token_cookie",
    "_serve": "Serving serve",
    "app": "AgentServer",
    "claude_agent": "ClaudeAgentDriver",
}

if not all(map(find_spec, ("starlette", "uvicorn", "httptools"))):
    raise MissingExtraError("server", "the server")

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOMES)
