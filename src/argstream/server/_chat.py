"""``/api/chat``: what ``useChat`` of the AI SDK asks for, in its versions 6 and 7.

==============================  ==================================================================
``POST /api/chat``              what ``DefaultChatTransport`` commands; the answer is a stream
``GET /api/chat/{id}``          all messages so far, for a page that is loaded anew, and the newest
                                run; of a chat that is not there, none
``GET /api/chat/{id}/stream``   all of the answer so far and what comes, for ``resumeStream``; 204
                                if the last run is over. With ``?ended=true`` that run is told as
                                well: for one whose connection broke before its end
``POST /api/chat/{id}/stop``    ends the run. ``chat.stop()`` only stops reading, and the run goes
                                on: a button that should stop the agent must ask for this as well
                                (as JSON, though no body is needed)
==============================  ==================================================================

``id`` is that of the chat, which is the id of the conversation. A page that is loaded anew does::

    const {messages} = await (await fetch(`/api/chat/${encodeURIComponent(id)}`)).json()
    const chat = new Chat({id, messages, …})  // or useChat({id, messages, resume: true, …})
    await chat.resumeStream()

Of the messages that a client commands only the last one counts, or the one of the assistant that it
names (``messageId``): the history is what the store has. It can be

- a message of the user: a new run. If it takes the place of an earlier one (``regenerate``, or
  ``sendMessage`` with a ``messageId``), the run goes on from before that one;
- a message of the assistant in which approvals are answered: the run goes on that waits for these.
  An approval's id is the digest of its request, which covers the exact arguments; a
  request that is no longer pending is refused.

The protocol has no way to change the input of a call on approving it. A front end can do it with a
field of the body: ``edits``, by the ids of approvals, each with the whole input that is to be run::

    chat.addToolApprovalResponse({id, approved: true, options: {body: {edits: {[id]: input}}}})

A new message is refused while a run waits for an approval. It stays the last on the page, and the
approval can still be answered: then ``chat.sendMessage()``, with nothing, sends the answer, and
``chat.regenerate()`` what had been refused.
"""

from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argstream.agent import Conversation
from argstream.errors import RunNotFoundError
from argstream.protocols.ai_sdk import (
    HEADERS,
    AiSdkEncoder,
    Answer,
    Answered,
    ChatBody,
    ChatHistory,
    Said,
    history_before,
    meant,
)
from argstream.runs._records import Approval, Approve, Deny, RunInfo
from argstream.server._context import Context
from argstream.server._problems import Problem
from argstream.server._viewers import EventStream

_FORMAT: Final = "ai-sdk"
_RUNS_SHOWN: Final = 100
"""How many runs of a conversation are read for its messages: each log has all that was said before
it. What is before these is told by the oldest of them."""


def routes(context: Context) -> list[Route]:
    api = _ChatApi(context)
    return [
        Route("/api/chat", api.post, methods=["POST"]),
        Route("/api/chat/{id:path}/stream", api.resume, methods=["GET"]),
        Route("/api/chat/{id:path}/stop", api.stop, methods=["POST"]),
        Route("/api/chat/{id:path}", api.show, methods=["GET"]),
    ]


class _ChatApi:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._runs = context.runs

    async def post(self, request: Request) -> Response:
        body = await self._context.body(request, ChatBody)
        match meant(_up_to_answers(body)):
            case Said() as said:
                return await self._say(request, body.id, said)
            case Answered() as answered:
                return await self._answer(request, body.id, answered)

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
        told = {"id": chat_id, "messages": history.messages(), "run": newest}
        headers = {"cache-control": "no-store"}
        return Response(msgspec.json.encode(told), 200, headers, "application/json")

    async def resume(self, request: Request) -> Response:
        info = await self._context.newest(request, request.path_params["id"])
        wants_ended = request.query_params.get("ended") == "true"
        if info is None or (info.is_over and not wants_ended):
            return Response(status_code=204)
        return await self._watch(request, info.run_id)

    async def stop(self, request: Request) -> Response:
        return await self._context.stop(request, request.path_params["id"])

    async def _say(self, request: Request, chat_id: str, said: Said) -> Response:
        conversation = await self._context.conversation(request, chat_id)
        if said.is_again:
            before = history_before(conversation.messages, said)
            grants = conversation.grants
            conversation = Conversation(before, id=conversation.id, user=conversation.user)
            conversation.grants = grants
        run_id = await self._context.start(request, said.prompt, conversation)
        return await self._watch(request, run_id)

    async def _answer(self, request: Request, chat_id: str, answered: Answered) -> Response:
        info = await self._context.newest(request, chat_id)
        if info is None:
            raise Problem(404, "unknown-conversation", "there is no such conversation here")
        decisions = _decisions(info, answered)
        if info.status != "paused":
            raise _out_of_date()
        # What comes of it is for this client: so he watches before it is decided.
        stream = await self._watch(request, info.run_id, after=info.seq)
        return await self._context.decide(stream, info.run_id, decisions)

    async def _watch(
        self, request: Request, run_id: str, *, after: int | None = None
    ) -> EventStream:
        make = partial(AiSdkEncoder, run_id)
        return await self._context.watch(
            request, run_id, _FORMAT, make, after=after, headers=HEADERS
        )


def _up_to_answers(body: ChatBody) -> ChatBody:
    """Leave out what is behind a message of the assistant that is sent for its answers.

    A client sends these though its user has said something else meanwhile, which was refused; it
    goes on in the message that it names.
    """
    if body.trigger == "submit-message":
        for place, message in enumerate(body.messages):
            if message.role == "assistant" and message.id == body.message_id:
                return replace(body, messages=body.messages[: place + 1])
    return body


def _decisions(info: RunInfo, answered: Answered) -> dict[str, Approval]:
    """Return the decisions by call ID. Raise Problem if they do not match what is pending."""
    calls = info.calls_by_digest
    if answered.answers.keys() - calls.keys():
        raise Problem(
            403,
            "not-pending",
            "the request is no longer pending, or has other arguments: resume the stream to "
            "see what is asked now",
        )
    if calls.keys() != answered.answers.keys() | answered.unanswered:
        raise _out_of_date()
    return {calls[digest]: _approval(digest, one) for digest, one in answered.answers.items()}


def _out_of_date() -> Problem:
    return Problem(
        409,
        "out-of-date",
        "the run has gone on since: resume the stream, and answer what is asked then",
    )


def _approval(digest: str, answer: Answer) -> Approval:
    if answer.approved:
        return Approve(arguments=answer.edit, digest=digest, reason=answer.reason)
    if answer.edit is not None:
        raise Problem(422, "unusable", "what is denied has no edit")
    return Deny(answer.reason)
