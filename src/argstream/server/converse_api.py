"""``POST /api/converse``: a message in, one answer out, as a stream of small objects.

``{message, conversation?, tool_deltas?}``; ``argstream.protocols.converse`` says what comes. The
conversation of an answer is in its last object, and in the header ``x-argstream-conversation``,
percent-encoded.
"""

from functools import partial
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argstream.protocols.converse import ConverseEncoder
from argstream.server.context import Context

__all__ = ["routes"]


class _Message(Struct, forbid_unknown_fields=True):
    message: str
    conversation: str = ""
    tool_deltas: bool = False
    """Whether texts in arguments are told while they grow."""


def routes(context: Context) -> list[Route]:
    """Give the one route that there is."""

    async def converse(request: Request) -> Response:
        body = await context.body(request, _Message)
        conversation = await context.conversation(request, body.conversation)
        run_id = await context.start(request, body.message, conversation)
        make = partial(ConverseEncoder, run_id, conversation.id, with_deltas=body.tool_deltas)
        named = quote(conversation.id)  # by the client, who may name it as he likes
        headers = {"x-argstream-conversation": named}
        return await context.watch(
            request, run_id, ("converse", body.tool_deltas), make, headers=headers
        )

    return [Route("/api/converse", converse, methods=["POST"])]
