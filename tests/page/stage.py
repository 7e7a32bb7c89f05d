"""Servers for the tests of the page, whose model and tools proceed as far as a test lets them."""

import asyncio
import math
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from argstream import Agent, ModelRequest, ToolContext, tool
from argstream.models import ScriptedModel
from argstream.runs import MemoryStore, Store
from argstream.server import AgentServer, Limits, Serving
from tests.server.talking import Client

_POLL = 0.005
_GENEROUS = Limits(runs_per_minute=10_000, requests_per_minute=100_000)


class HeldModel(ScriptedModel):
    """A model that writes as many pieces as a test lets it. Starts and ends of blocks are free."""

    def __init__(self, *replies: Any, **options: Any) -> None:
        super().__init__(*replies, **{"piece_size": 8, **options})
        self._left: float = 0

    def let(self, pieces: float = math.inf) -> None:
        """Let it write more pieces; without a number, all of them."""
        self._left += pieces

    async def stream(self, request: ModelRequest) -> AsyncGenerator[dict[str, Any], None]:
        async for payload in super().stream(request):
            if payload["type"] == "content_block_delta":
                while self._left < 1:
                    await asyncio.sleep(_POLL)
                self._left -= 1
            yield payload


class Tools:
    """The tools of the stage. ``done`` has their calls, in order."""

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.may_find = threading.Event()

    def write_file(self, path: str, content: str = "") -> str:
        """Write a file."""
        self.done.append(("write_file", {"path": path, "content": content}))
        return f"wrote {len(content)} characters to {path}"

    async def send_mail(self, to: str, subject: str = "", body: str = "") -> str:
        """Send a mail, which needs approval."""
        self.done.append(("send_mail", {"to": to, "subject": subject, "body": body}))
        return f"sent to {to}"

    async def search(self, query: str, context: ToolContext, limit: int = 10) -> str:
        """Search until the test sets ``may_find``."""
        context.output(f"searching for {query}\n")
        while not self.may_find.is_set():
            await asyncio.sleep(_POLL)
        self.done.append(("search", {"query": query, "limit": limit}))
        return f"found {query}"

    def all(self) -> list[Any]:
        confirmed = tool(requires_confirmation=True)(self.send_mail)
        return [self.write_file, confirmed, self.search]


@dataclass
class Stage:
    url: str
    client: Client
    model: HeldModel
    tools: Tools
    store: Store


_free_ports: list[int] = []  # that servers have had; the browser's cache knows them


@contextmanager
def _listening(server: AgentServer) -> Iterator[str]:
    """Serve on the port of an earlier server, if there was one."""
    with Serving(server, port=_free_ports.pop() if _free_ports else 0) as serving:
        yield serving.url
    _free_ports.append(serving.port)


@contextmanager
def on_stage(
    *replies: Any,
    held: bool = False,
    piece_size: int = 8,
    store: Store | None = None,
    delay: float = 0.0,
    **options: Any,
) -> Iterator[Stage]:
    """Serve a model with these replies. If it is held, it writes only as far as it is let."""
    model, tools = HeldModel(*replies, piece_size=piece_size, delay=delay), Tools()
    if not held:
        model.let()
    store = MemoryStore() if store is None else store
    agent = Agent(model, tools.all(), store=store)
    token = options.get("token")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with (
        _listening(AgentServer(agent, **{"token": None, "limits": _GENEROUS, **options})) as url,
        httpx.Client(base_url=url, timeout=10, verify=False) as http,  # certificates load slowly
    ):
        yield Stage(url, Client(http, **headers), model, tools, store)
