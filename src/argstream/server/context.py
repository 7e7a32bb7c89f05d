"""What the handlers of requests share: the runs, those who watch them, and what a client may do."""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, TypeVar

from starlette.requests import Request

from argstream.agent import Conversation
from argstream.protocols.encoding import Encoder
from argstream.server.bodies import read_json
from argstream.server.channels import Channels
from argstream.server.limits import Limits
from argstream.server.problems import Problem
from argstream.server.rates import Rates, client_of
from argstream.server.runs import Runs
from argstream.server.streams import EventStream

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

    async def body(self, request: Request, kind: type[T]) -> T:
        """Read the body of a request as JSON of a kind; a ``Problem`` says where it is wrong."""
        return await read_json(request, kind, self.limits)

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
        user = self.user(request)
        if not conversation_id:
            return Conversation(user=user)
        return await self.runs.conversation(conversation_id, user)

    async def start(self, request: Request, prompt: str, conversation: Conversation) -> str:
        """Begin a run for a client, and give its id."""
        if not prompt.strip():
            raise Problem(422, "unusable", "a message is a text that is not empty")
        if len(prompt) > self.limits.max_prompt_chars:
            raise Problem(
                413,
                "message-too-long",
                f"a message has at most {self.limits.max_prompt_chars} characters",
            )
        client = client_of(request.scope)
        self._rates.start(client)
        place = self._rates.running.take(client)
        try:
            return await self.runs.start(prompt, conversation, place.release)
        except BaseException:
            place.release()
            raise

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
        return EventStream(viewer, headers, closed=place.release)
