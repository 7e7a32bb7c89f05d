"""What the handlers of requests share: the runs, those who watch them, and what a client may do."""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from argstream.agent import Conversation
from argstream.decisions import Decisions
from argstream.log import RunInfo
from argstream.protocols.encoding import Encoder
from argstream.protocols.native import NativeEncoder
from argstream.server.bodies import read_json
from argstream.server.channels import Channels
from argstream.server.limits import Limits
from argstream.server.log_reading import LogReading
from argstream.server.problems import Problem
from argstream.server.rates import Place, Rates, client_of
from argstream.server.runs import Runs
from argstream.server.streams import EventStream, Source

__all__ = ["Context"]

T = TypeVar("T")
_LONGEST_ID: Final = 256


class Context:
    """Starts runs and opens streams for clients, as far as the limits allow."""

    def __init__(self, runs: Runs, channels: Channels, limits: Limits, rates: Rates) -> None:
        self.runs = runs
        self.channels = channels
        self.limits = limits
        self._rates = rates

    async def body(
        self,
        request: Request,
        kind: type[T],
        default: T | None = None,
        *,
        most: int | None = None,
    ) -> T:
        """Read the body of a request as JSON of a kind; a ``Problem`` says where it is wrong.

        It may have ``most`` bytes, or as many as the limits say.
        """
        incoming = self._rates.incoming
        return await read_json(
            request, kind, self.limits, default=default, incoming=incoming, most=most
        )

    def count_wrong_token(self, request: Request) -> None:
        """Count that a client named another token than that of the server, or refuse it: 429."""
        self._rates.wrong_token(client_of(request.scope))

    def user(self, request: Request) -> str:
        """Say whose request it is; "" if the host app names nobody."""
        user: str = request.scope.get("argstream.user", "")
        return user

    async def conversation(self, request: Request, conversation_id: str) -> Conversation:
        """Give the conversation of a client that goes on, or another one for an empty id."""
        if len(conversation_id) > _LONGEST_ID:
            raise Problem(
                422, "unusable", f"the id of a conversation has at most {_LONGEST_ID} characters"
            )
        if not conversation_id.isprintable():
            raise Problem(
                422, "unusable", "the id of a conversation has no line breaks or the like"
            )
        user = self.user(request)
        if not conversation_id:
            return Conversation(user=user)
        return await self.runs.conversation(conversation_id, user)

    async def newest(self, request: Request, conversation_id: str) -> RunInfo | None:
        """Give the newest run of a conversation of a client."""
        return await self.runs.newest(conversation_id, self.user(request))

    async def stop(self, request: Request, conversation_id: str) -> Response:
        """End the newest run of a conversation; of one that is over, all is as wanted."""
        info = await self.newest(request, conversation_id)
        if info is not None and not info.is_over:
            await self.runs.stop(info.run_id, "the user stopped it")
        return Response(status_code=204)

    async def decide(self, stream: EventStream, run_id: str, decisions: Decisions) -> EventStream:
        """Decide on calls for a client who watches already: what comes of it is for him."""
        try:
            await self.runs.decide(run_id, decisions)
        except BaseException:
            stream.close()
            raise
        return stream

    async def start(
        self, request: Request, prompt: str, conversation: Conversation, *, watched: bool = True
    ) -> str:
        """Begin a run for a client, and give its id.

        If he is to watch it, there must be room for that first: what he is refused has not begun.
        """
        if not prompt.strip():
            raise Problem(422, "unusable", "a message is a text that is not empty")
        if len(prompt) > (most := self.limits.max_prompt_chars):
            raise Problem(
                413,
                "message-too-long",
                f"a message has at most {most} characters (max_prompt_chars)",
            )
        client = client_of(request.scope)
        if watched:
            self._rates.viewers.take(client).release()
        self._rates.start(client)
        place = self._rates.running.take(client)
        return await self.runs.start(prompt, conversation, place.release)

    async def watch(  # noqa: PLR0913 - by name
        self,
        request: Request,
        run_id: str,
        key: Hashable,
        make: Callable[[], Encoder],
        *,
        after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> EventStream:
        """Open a stream for a client: all of a run so far, or what comes after a record."""
        place = self._rates.viewers.take(client_of(request.scope))
        try:
            viewer = await self.channels.watch(run_id, key, make, after=after)
        except BaseException:
            place.release()
            raise
        return self._stream(viewer, place, run_id, headers)

    def log(
        self, request: Request, info: RunInfo, encoder: NativeEncoder, *, after: int
    ) -> EventStream:
        """Open a stream of what is in the log of a run now, which takes a place as any other."""
        place = self._rates.viewers.take(client_of(request.scope))
        reading = LogReading(self.runs.store, info.run_id, encoder, after=after, until=info.seq)
        headers = {"content-type": "application/x-ndjson", "cache-control": "no-store"}
        return self._stream(reading, place, info.run_id, headers)

    def _stream(
        self, source: Source, place: Place, run_id: str, headers: Mapping[str, str] | None
    ) -> EventStream:
        return EventStream(
            source,
            {"x-argstream-run": run_id, **(headers or {})},
            closed=place.release,
            stalled_seconds=self.limits.stalled_seconds,
        )
