"""What the request handlers share: runs, viewers and limits."""

from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from argstream.agent import Conversation
from argstream.protocols._base import Encoder
from argstream.protocols.native import NativeEncoder
from argstream.runs._records import Decisions, RunInfo
from argstream.server._limits import Limits, Rates, client_of, read_json
from argstream.server._problems import Problem
from argstream.server._runs import Runs
from argstream.server._viewers import Broadcasts, EventStream, log_pieces

T = TypeVar("T")
_LONGEST_ID: Final = 256


class Context:
    """Starts runs and opens streams for clients, within the limits."""

    def __init__(self, runs: Runs, broadcasts: Broadcasts, limits: Limits, rates: Rates) -> None:
        self.runs = runs
        self.broadcasts = broadcasts
        self.limits = limits
        self.rates = rates

    async def body(
        self,
        request: Request,
        kind: type[T],
        default: T | None = None,
        *,
        most: int | None = None,
    ) -> T:
        incoming = self.rates.incoming
        return await read_json(request, kind, self.limits, incoming, default=default, most=most)

    def user(self, request: Request) -> str:
        """Return the user of a request; "" if the host app names none."""
        user: str = request.scope.get("argstream.user", "")
        return user

    async def conversation(self, request: Request, conversation_id: str) -> Conversation:
        """Return the conversation with this ID, or a new one if the ID is empty."""
        if len(conversation_id) > _LONGEST_ID:
            raise Problem(
                422, "unusable", f"a conversation ID has at most {_LONGEST_ID} characters"
            )
        if not conversation_id.isprintable():
            raise Problem(422, "unusable", "a conversation ID must not contain control characters")
        user = self.user(request)
        if not conversation_id:
            return Conversation(user=user)
        return await self.runs.conversation(conversation_id, user)

    async def newest(self, request: Request, conversation_id: str) -> RunInfo | None:
        return await self.runs.newest(conversation_id, self.user(request))

    async def stop(self, request: Request, conversation_id: str) -> Response:
        """Stop the newest run of a conversation. Do nothing if it is over."""
        info = await self.newest(request, conversation_id)
        if info is not None and not info.is_over:
            await self.runs.stop(info.run_id, "the user stopped it")
        return Response(status_code=204)

    async def decide(
        self, request: Request, stream: EventStream, run_id: str, decisions: Decisions
    ) -> EventStream:
        """Decide on calls for a client whose stream is open already, so that it misses no event."""
        try:
            loaded = await self.runs.load(run_id, self.user(request))
            await self.runs.decide(loaded, decisions)
        except BaseException:
            stream.close()
            raise
        return stream

    async def start(
        self, request: Request, prompt: str, conversation: Conversation, *, watched: bool = True
    ) -> str:
        """Start a run for a client, and return its ID.

        If the client will watch it, the limit of viewers is checked first, so that no run starts
        that the client cannot watch.
        """
        if not prompt.strip():
            raise Problem(422, "unusable", "the message must not be empty")
        if len(prompt) > (most := self.limits.max_prompt_chars):
            raise Problem(
                413,
                "message-too-long",
                f"a message has at most {most} characters (max_prompt_chars)",
            )
        client = client_of(request.scope)
        if watched:
            self.rates.viewers.acquire(client).release()
        self.rates.start(client)
        place = self.rates.running.acquire(client)
        return await self.runs.start(prompt, conversation, place.release)

    async def watch(
        self,
        request: Request,
        run_id: str,
        key: Hashable,
        make: Callable[[], Encoder],
        *,
        after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> EventStream:
        """Open a stream of a run: all so far, or only what follows ``after``."""
        place = self.rates.viewers.acquire(client_of(request.scope))
        try:
            viewer = await self.broadcasts.watch(run_id, key, make, after=after)
        except BaseException:
            place.release()
            raise

        def close() -> None:
            viewer.close()
            place.release()

        return self._stream(viewer.pieces(), close, run_id, headers)

    def log(
        self, request: Request, info: RunInfo, encoder: NativeEncoder, *, after: int
    ) -> EventStream:
        """Open a stream of the log as it is now. It counts as a viewer."""
        place = self.rates.viewers.acquire(client_of(request.scope))
        pieces = log_pieces(self.runs.store, info.run_id, encoder, after=after, until=info.seq)
        headers = {"content-type": "application/x-ndjson", "cache-control": "no-store"}
        return self._stream(pieces, place.release, info.run_id, headers)

    def _stream(
        self,
        pieces: AsyncGenerator[bytes, None],
        close: Callable[[], None],
        run_id: str,
        headers: Mapping[str, str] | None,
    ) -> EventStream:
        own = {"x-argstream-run": run_id, **(headers or {})}
        return EventStream(pieces, own, close, self.limits.stalled_seconds)


def not_pending(fix: str) -> Problem:
    message = f"the request is no longer pending, or has other arguments. {fix}"
    return Problem(403, "not-pending", message)
