"""An agent over HTTP: runs that survive, watched by any number, in the formats that others speak.

::

    from argstream.server import AgentServer, serve

    serve(AgentServer(agent, token="…"))
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from argstream.errors import MissingExtra

if TYPE_CHECKING:
    from argstream.server._tokens import token_cookie
    from argstream.server.app import AgentServer
    from argstream.server.claude_agent import ClaudeAgentDriver
    from argstream.server.doors import LOOPBACK_HOSTS
    from argstream.server.limits import Limits
    from argstream.server.serving import Serving, serve

__all__ = [
    "LOOPBACK_HOSTS",
    "AgentServer",
    "ClaudeAgentDriver",
    "Limits",
    "Serving",
    "serve",
    "token_cookie",
]

_MODULES: Final = {
    "LOOPBACK_HOSTS": "doors",
    "AgentServer": "app",
    "ClaudeAgentDriver": "claude_agent",
    "Limits": "limits",
    "Serving": "serving",
    "serve": "serving",
    "token_cookie": "_tokens",
}

if not all(map(find_spec, ("starlette", "uvicorn", "httptools"))):
    raise MissingExtra("server", "the server")

if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name valid

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
