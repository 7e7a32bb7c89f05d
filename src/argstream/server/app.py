"""``AgentServer``: an agent over HTTP, as an ASGI app that runs alone or inside another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from types import TracebackType
from typing import Final, Self

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from argstream.agent import Agent
from argstream.errors import UsageError
from argstream.server import ag_ui_api, chat_api, converse_api, runs_api, session_api
from argstream.server._endings import Endings
from argstream.server.channels import Channels
from argstream.server.context import Context
from argstream.server.doors import LOOPBACK_HOSTS, Doors, NameUser
from argstream.server.drivers import AgentDriver, Driver
from argstream.server.guarding import OPEN_PATH, Guard
from argstream.server.limits import Limits
from argstream.server.page import Page
from argstream.server.problems import Problem, problem_response
from argstream.server.rates import Rates
from argstream.server.runs import Runs
from argstream.server.session_api import SESSION_PATH

__all__ = ["AgentServer"]

_HEALTHY_WITHIN: Final = 2.0
"""How long the store may take to answer, in seconds, to be taken for one that works."""


class _Unset(Enum):
    """Tells an argument that was left out from one that is None."""

    UNSET = "unset"


_CLOSED: Final = Problem(503, "closed", "this server has ended: enter it again to use it")


class AgentServer:
    """Serves the runs of an agent, in our own format and in those that front ends speak.

    ::

        agent = Agent("anthropic:claude-opus-4-7", tools, store="runs.db")
        app = AgentServer(agent, token="…")               # uvicorn module:app
        other_app.mount("/agent", AgentServer(agent, hosts=None, user=name_of_user))

    Inside another app, which checks the Host itself, pass ``hosts=None``. Enter the server
    (``async with server:``) when that app starts, so that runs which another process has left are
    resumed before the first request. Otherwise the first request does it.
    """

    def __init__(  # noqa: PLR0913 - by name, and once
        self,
        agent: Agent | Driver,
        *,
        token: str | _Unset | None = _Unset.UNSET,
        hosts: tuple[str, ...] | None = LOOPBACK_HOSTS,
        origins: tuple[str, ...] = (),
        user: NameUser | None = None,
        limits: Limits | None = None,
        look_out_seconds: float = 5.0,
        page: bool = True,
    ) -> None:
        """Serve an agent that has a store, or the runs of another driver.

        Pass ``token``, which clients send as ``Authorization: Bearer …``; or ``user``, a function
        that returns the name of a request's user; or both. Without either, any process that reaches
        the port could start runs and approve calls. To allow that, pass ``token=None``.

        Requests must name one of ``hosts`` as their Host (None: any). Pages of other origins must
        be listed in ``origins``.

        ``user`` may be async. Users see only their own runs. If it returns None or "", the answer
        is 401. To refuse in another way it raises ``starlette.exceptions.HTTPException`` (which
        FastAPI's is): status, detail and headers are sent as they are. Any other exception is
        logged, and the answer is 500.

        Every ``look_out_seconds`` the server resumes runs that another process has left. A web
        page is served at ``/`` unless ``page`` is False.
        """
        if isinstance(token, _Unset):
            if user is None:
                raise UsageError(
                    "AgentServer needs token=… or user=…. Without them, any process that can reach "
                    "the port can start runs and approve calls. Pass token=None to allow that"
                )
            token = None
        self.limits = limits or Limits()
        """How much it takes on."""
        rates = Rates(self.limits)
        driver = AgentDriver(agent) if isinstance(agent, Agent) else agent
        self._runs = Runs(
            driver, look_out_seconds=look_out_seconds, max_running=self.limits.max_running
        )
        self._channels = Channels(driver.store)
        self._endings = Endings(self._channels.drain)
        self._is_closed = False
        context = Context(self._runs, self._channels, self.limits, rates)
        apis = (runs_api, converse_api, chat_api, ag_ui_api)
        routes = [route for api in apis for route in api.routes(context)]
        routes += session_api.routes(context, token)
        if page:
            routes += Page().routes()
        router = Router(
            [Route(OPEN_PATH, self._health, methods=["GET"]), *routes], lifespan=self._lifespan
        )
        self.doors = Doors(token=token, hosts=hosts, origins=origins, user=user)
        """What it lets in."""

        def is_open(method: str, path: str) -> bool:
            return path == SESSION_PATH or (page and method in ("GET", "HEAD") and Page.is_at(path))

        self._app = Guard(router, self.doors, rates, is_open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        if scope["type"] == "http":
            if self._is_closed:
                await problem_response(_CLOSED)(scope, receive, send)
                return
            self._begin()
        await self._app(scope, receive, send)

    async def __aenter__(self) -> Self:
        self._runs.open()
        self._channels.open()
        self._is_closed = False
        self._begin()
        return self

    def _begin(self) -> None:
        """Begin to look for runs that others have left, and to hear of the end; once is enough."""
        self._runs.look_out()
        self._endings.listen()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def drain(self) -> None:
        """Tell all who watch to come again: the first thing to do when the server is to end.

        Runs that go on are left to other processes, or to the next start of this one.
        """
        self._channels.drain()

    async def aclose(self) -> None:
        """End what goes on here; what has happened is in the store."""
        self._is_closed = True
        self._endings.forget()
        await self._channels.aclose()
        await self._runs.aclose()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with self:
            yield

    async def _health(self, _: Request) -> Response:
        """Say that the server is alive, if its store is."""
        try:
            async with asyncio.timeout(_HEALTHY_WITHIN):
                await self._runs.store.runs(limit=1)
        except TimeoutError:
            raise Problem(503, "store-failure", "the store does not answer") from None
        return JSONResponse({"status": "ok"})
