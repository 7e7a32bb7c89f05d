"""``/api/chat``: the requests of ``useChat`` of the AI SDK, in its versions 6 and 7.

The routes are in docs/server.md. ``id`` is the ID of the conversation. Only the last message of a
request is read, or the message of the assistant that it names (``messageId``). The history is that
of the store.

- A message of the user starts a run. If it replaces an earlier message, the run continues from
  before that one.
- A message of the assistant answers approval requests, and the run that waits for them continues.
  The ID of an approval is the digest of its request, which covers the exact arguments.

The protocol cannot change the input of a call that is approved. A front end can send the new input
in the field ``edits`` of the body, by the IDs of approvals.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argstream.agent import Conversation
from argstream.errors import RunNotFoundError
from argstream.protocols.ai_sdk import (
    HEADERS,
    AiSdkEncoder,
    Answered,
    ChatBody,
    ChatHistory,
    Said,
    history_before,
    meant,
)
from argstream.runs._records import Approval, RunInfo
from argstream.server._api import Context, Handlers, json_response, not_pending
from argstream.server._limits import read_json
from argstream.server._security import Problem
from argstream.server._viewers import EventStream

_RUNS_SHOWN: Final = 100
"""How many runs of a conversation are read for its messages. Earlier messages come from the history
of the oldest of them."""


def routes(context: Context) -> list[Route]:
    api = _ChatApi(context)
    return [
        Route("/api/chat", api.post, methods=["POST"]),
        Route("/api/chat/{id:path}/stream", api.resume, methods=["GET"]),
        Route("/api/chat/{id:path}/stop", context.stop, methods=["POST"]),
        Route("/api/chat/{id:path}", api.show, methods=["GET"]),
    ]


class _ChatApi(Handlers):
    async def post(self, request: Request) -> Response:
        body = await read_json(request, ChatBody, self._context.rates)
        match meant(body):
            case Said() as said:
                return await self._start(request, body.id, said)
            case Answered() as decided:
                return await self._decide(request, body.id, decided)

    async def show(self, request: Request) -> Response:
        chat_id = request.path_params["id"]
        history, newest = ChatHistory(), None
        for info in await self._runs.of_user(
            self._context.user(request), conversation_id=chat_id, limit=_RUNS_SHOWN
        ):
            try:
                run = await self._runs.store.snapshot(info.run_id)
            except RunNotFoundError:  # it was deleted meanwhile
                continue
            newest = newest or {"id": run.run_id, "status": run.status}
            history.add(run)
            if history.is_whole:
                break
        return json_response({"id": chat_id, "messages": history.messages(), "run": newest})

    async def resume(self, request: Request) -> Response:
        info = await self._runs.newest(request.path_params["id"], self._context.user(request))
        wants_ended = request.query_params.get("ended") == "true"
        if info is None or (info.is_over and not wants_ended):
            return Response(status_code=204)
        return await self._watch(request, info.run_id)

    async def _start(self, request: Request, chat_id: str, said: Said) -> Response:
        conversation = await self._context.conversation(request, chat_id)
        if said.is_again:
            before = history_before(conversation.messages, said)
            grants = conversation.grants
            conversation = Conversation(before, id=conversation.id, user=conversation.user)
            conversation.grants = grants
        run_id = await self._context.start(request, said.prompt, conversation)
        return await self._watch(request, run_id)

    async def _decide(self, request: Request, chat_id: str, decided: Answered) -> Response:
        info = await self._runs.newest_of(chat_id, self._context.user(request))
        decisions = _decisions(info, decided)
        # The client watches before the decision, so that it misses nothing.
        stream = await self._watch(request, info.run_id, after=info.seq)
        return await self._context.decide(request, stream, info.run_id, decisions)

    def _watch(
        self, request: Request, run_id: str, *, after: int | None = None
    ) -> Awaitable[EventStream]:
        make = partial(AiSdkEncoder, run_id)
        return self._context.watch(request, run_id, "ai-sdk", make, after=after, headers=HEADERS)


def _decisions(info: RunInfo, decided: Answered) -> dict[str, Approval]:
    """Return the decisions by call ID. Raise Problem if they do not match what is pending."""
    calls = info.calls_by_digest
    if decided.answers.keys() - calls.keys():
        raise not_pending("Resume the stream to see the pending requests")
    is_current = calls.keys() == decided.answers.keys() | decided.unanswered
    if not is_current or info.status != "paused":
        message = "the run has continued. Resume the stream, and decide on its pending requests"
        raise Problem(409, "out-of-date", message)
    return {calls[digest]: decision for digest, decision in decided.answers.items()}
