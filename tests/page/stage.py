"""Servers for the tests of the page, whose model and tools do what a test lets them, and when."""

import asyncio
import math
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from argstream import Agent, ModelRequest, ToolContext, tool
from argstream.events import Event
from argstream.models import ScriptedModel
from argstream.runs import MemoryStore, Record, Store
from argstream.server import Limits
from tests.page.looking import run_async
from tests.server.talking import Client, served

__all__ = ["HeldModel", "Stage", "Tools", "kept", "on_stage"]

_OFTEN = 0.005
_GENEROUS = Limits(runs_per_minute=10_000, requests_per_minute=100_000)


class HeldModel(ScriptedModel):
    """A model that writes as far as it is let: a test says how far, and not the clock.

    What opens and closes a block is not held up: so a call is there before anything of its
    arguments is.
    """

    def __init__(self, *replies: Any, piece_size: int = 8) -> None:
        super().__init__(*replies, piece_size=piece_size)
        self._left: float = 0

    def let(self, pieces: float = math.inf) -> None:
        """Let it write so many pieces more; without a number, all that comes."""
        self._left += pieces

    async def stream(self, request: ModelRequest) -> AsyncGenerator[dict[str, Any], None]:
        """Give the payloads of the next answer, each when it may be written."""
        async for payload in super().stream(request):
            if payload["type"] == "content_block_delta":
                while self._left < 1:
                    await asyncio.sleep(_OFTEN)
                self._left -= 1
            yield payload


class Tools:
    """What the model of the stage can call; ``done`` says what was done, in order."""

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.may_find = threading.Event()

    def write_file(self, path: str, content: str = "") -> str:
        """Write a file."""
        self.done.append(("write_file", {"path": path, "content": content}))
        return f"wrote {len(content)} characters to {path}"

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text in a file."""
        self.done.append(("edit_file", {"path": path, "old": old, "new": new}))
        return f"edited {path}"

    async def send_mail(self, to: str, subject: str = "", body: str = "") -> str:
        """Send a mail. Somebody must approve of it."""
        self.done.append(("send_mail", {"to": to, "subject": subject, "body": body}))
        return f"sent to {to}"

    async def search(self, query: str, context: ToolContext, limit: int = 10) -> str:
        """Search, for as long as the test has it."""
        context.output(f"searching for {query}\n")
        while not self.may_find.is_set():
            await asyncio.sleep(_OFTEN)
        self.done.append(("search", {"query": query, "limit": limit}))
        return f"found {query}"

    def all(self) -> list[Any]:
        """Give them, as an agent takes them."""
        confirmed = tool(requires_confirmation=True)(self.send_mail)
        return [self.write_file, self.edit_file, confirmed, self.search]


@dataclass
class Stage:
    """A server with its page, and all that plays on it."""

    url: str
    client: Client
    model: HeldModel
    tools: Tools
    store: Store


@contextmanager
def on_stage(
    *replies: Any,
    held: bool = False,
    piece_size: int = 8,
    store: Store | None = None,
    **doors: Any,
) -> Iterator[Stage]:
    """Serve a model that answers these; ``held``: only as far as it is let."""
    model, tools = HeldModel(*replies, piece_size=piece_size), Tools()
    if not held:
        model.let()
    store = MemoryStore() if store is None else store
    agent = Agent(model, tools.all(), store=store)
    with served(agent, **{"limits": _GENEROUS, **doors}) as anybody:
        token = doors.get("token")
        client = Client(anybody.http, Authorization=f"Bearer {token}") if token else anybody
        yield Stage(f"{client.http.base_url}", client, model, tools, store)


def kept(
    store: Store,
    run_id: str,
    events: Sequence[Event],
    *,
    conversation: str = "conversation",
    begun: float = 1_700_000_000.0,
    apart: float = 0.05,
) -> None:
    """Write a run into a store, as if it had been driven: each event so many seconds after another.

    Its claim is given up, so a run that these do not end would be taken up by a server.
    """
    records = [
        Record(seq, begun + apart * seq, run_id, conversation, "agent", event)
        for seq, event in enumerate(events, 1)
    ]

    async def write() -> None:
        claim = await store.begin(records[:1], "test", 3_600.0)
        await store.append(claim, records[1:])

    run_async(write())
