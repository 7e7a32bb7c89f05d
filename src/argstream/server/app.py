"""``AgentServer``: an agent over HTTP, as an ASGI app that runs alone or inside another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

from msgspec import UNSET, UnsetType
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from argstream.agent import Agent
from argstream.errors import UsageError
from argstream.server import _ag_ui, _api, _chat
from argstream.server._api import Context
from argstream.server._limits import Limits, Rates
from argstream.server._page import Page
from argstream.server._runs import AgentDriver, Driver, Runs
from argstream.server._security import (
    LOOPBACK_HOSTS,
    OPEN_PATH,
    Access,
    NameUser,
    Problem,
    SecurityMiddleware,
    problem_response,
)
from argstream.server._serve import ShutdownSignals
from argstream.server._viewers import Broadcasts

__all__ = ["AgentServer"]

_HEALTHY_WITHIN: Final = 2.0
"""Seconds within which the store must answer a health check."""
_CLOSED: Final = Problem(503, "closed", "the server is closed. Enter it again to use it")


class AgentServer:
    """Serves the runs of an agent, in the native format and for AI SDK and AG-UI front ends.

    ::

        agent = Agent("anthropic:claude-opus-4-7", tools, store="runs.db")
        app = AgentServer(agent, token="…")               # uvicorn module:app
        other_app.mount("/agent", AgentServer(agent, hosts=None, user=name_of_user))

    Inside another app, which checks the Host itself, pass ``hosts=None``. Enter the server
    (``async with server:``) when that app starts. It then resumes the runs of processes that died.
    Otherwise the first request starts that.
    """

    def __init__(
        self,
        agent: Agent | Driver,
        *,
        token: str | UnsetType | None = UNSET,
        hosts: tuple[str, ...] | None = LOOPBACK_HOSTS,
        origins: tuple[str, ...] = (),
        user: NameUser | None = None,
        limits: Limits | None = None,
        recovery_seconds: float = 5.0,
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

        Every ``recovery_seconds`` the server resumes runs whose process died. A web page is served
        at ``/`` unless ``page`` is False.
        """
        if isinstance(token, UnsetType):
            if user is None:
                raise UsageError(
                    "AgentServer needs token=… or user=…. Without them, any process that can reach "
                    "the port can start runs and approve calls. Pass token=None to allow that"
                )
            token = None
        self.limits: Limits = limits or Limits()
        """The limits on sizes, rates and connections."""
        self.access: Access = Access(token=token, hosts=hosts, origins=origins, user=user)
        """Which requests are accepted."""
        driver = AgentDriver(agent) if isinstance(agent, Agent) else agent
        self._runs = Runs(
            driver, recovery_seconds=recovery_seconds, max_running=self.limits.max_running
        )
        self._broadcasts = Broadcasts(driver.store)
        self._shutdown_signals = ShutdownSignals(self._broadcasts.drain)
        self._is_closed = False
        self._app = self._make_app(has_page=page)

    def _make_app(self, *, has_page: bool) -> SecurityMiddleware:
        rates = Rates(self.limits)
        context = Context(self._runs, self._broadcasts, rates)
        routes = [
            Route(OPEN_PATH, self._health, methods=["GET"]),
            *_api.run_routes(context),
            *_api.conversation_routes(context, self.access.token),
            *_api.converse_routes(context),
            *_api.session_routes(context, self.access.token),
            *_chat.routes(context),
            *_ag_ui.routes(context),
            *(Page().routes() if has_page else ()),
        ]
        router = Router(routes, lifespan=self._lifespan)
        return SecurityMiddleware(router, self.access, rates, has_page=has_page)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        if scope["type"] == "http":
            if self._is_closed:
                await problem_response(_CLOSED)(scope, receive, send)
                return
            self._begin()
        await self._app(scope, receive, send)

    async def __aenter__(self) -> Self:
        self._broadcasts.open()
        self._is_closed = False
        self._begin()
        return self

    def _begin(self) -> None:
        """Start recovery and listen for signals, unless this is already done."""
        self._runs.driving.begin_recovery()
        self._shutdown_signals.listen()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def drain(self) -> None:
        """Ask all viewers to reconnect: the first step of a shutdown."""
        self._broadcasts.drain()

    async def aclose(self) -> None:
        """Stop driving runs. Other processes, or the next start of this one, resume them."""
        self._is_closed = True
        self._shutdown_signals.forget()
        await self._broadcasts.aclose()
        await self._runs.aclose()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with self:
            yield

    async def _health(self, _: Request) -> Response:
        try:
            async with asyncio.timeout(_HEALTHY_WITHIN):
                await self._runs.store.runs(limit=1)
        except TimeoutError:
            raise Problem(503, "store-failure", "the store does not answer") from None
        return JSONResponse({"status": "ok"})
