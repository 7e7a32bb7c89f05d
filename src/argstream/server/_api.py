"""What the request handlers share, and the native API of docs/server.md.

``/api/runs``, ``/api/conversations``, ``/api/converse`` and ``/api/session``.
"""

from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeVar, cast, get_args
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argstream.agent import Conversation
from argstream.errors import UsageError
from argstream.events import ApprovalScope, RunStatus
from argstream.protocols._base import Encoder, Reason
from argstream.protocols.converse import ConverseEncoder
from argstream.protocols.native import NativeEncoder
from argstream.runs._records import Approval, Approve, ConversationInfo, Decisions, Deny, RunInfo
from argstream.server._limits import Rates, read_json
from argstream.server._page import etag_of, is_known
from argstream.server._runs import Runs, other_request
from argstream.server._security import (
    SESSION_PATH,
    Problem,
    Token,
    client_of,
    no_cookie,
    token_cookie,
)
from argstream.server._viewers import Broadcasts, EventStream, log_pieces

_MOST_BYTES: Final = 4 * 1024
"""The largest sign-in body. It holds only a token, and any client may send it."""
_LARGEST: Final = 2**53
_MOST: Final = 1_000
_LONGEST_TITLE: Final = 200
_LONGEST_ID: Final = 256
T = TypeVar("T")


class Context:
    """Starts runs and opens streams for clients, within the limits."""

    def __init__(self, runs: Runs, broadcasts: Broadcasts, rates: Rates) -> None:
        self.runs = runs
        self.broadcasts = broadcasts
        self.rates = rates
        self.limits = rates.limits

    def user(self, request: Request) -> str:
        """Return the user of a request; "" if the host app names none."""
        user: str = request.scope.get("argstream.user", "")
        return user

    async def conversation(self, request: Request, conversation_id: str) -> Conversation:
        """Return the conversation with this ID, or a new one if the ID is empty."""
        if len(conversation_id) > _LONGEST_ID:
            raise UsageError(f"a conversation ID has at most {_LONGEST_ID} characters")
        if not conversation_id.isprintable():
            raise UsageError("a conversation ID must not contain control characters")
        user = self.user(request)
        if not conversation_id:
            return Conversation(user=user)
        return await self.runs.conversation(conversation_id, user)

    async def stop(self, request: Request) -> Response:
        """Stop the newest run of the conversation ``id``. Do nothing if it is over."""
        info = await self.runs.newest(request.path_params["id"], self.user(request))
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
            raise UsageError("the message must not be empty")
        if len(prompt) > (most := self.limits.max_prompt_chars):
            detail = f"a message has at most {most} characters (max_prompt_chars)"
            raise Problem(413, "message-too-long", detail)
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


class Handlers:
    """The request handlers of one API."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._runs = context.runs


def not_pending(fix: str) -> Problem:
    message = f"the request is no longer pending, or has other arguments. {fix}"
    return Problem(403, "not-pending", message)


class _NewRun(Struct, forbid_unknown_fields=True):
    message: str
    conversation: str = ""
    replaces: str = ""
    """The last run of the conversation, to try it again: the new run takes its place."""


class _Decision(Struct, forbid_unknown_fields=True):
    decision: Literal["approve", "deny"]
    digest: str
    """The digest of the request, so that the decision is about the arguments that were shown."""
    arguments: dict[str, Any] | None = None
    always: ApprovalScope = "call"
    reason: Reason = ""


class _Decisions(Struct, forbid_unknown_fields=True):
    decisions: dict[str, _Decision]


class _NewTitle(Struct, forbid_unknown_fields=True):
    title: Annotated[str, Meta(min_length=1, max_length=_LONGEST_TITLE)]


class _Stop(Struct, forbid_unknown_fields=True):
    reason: Reason = ""


def run_routes(context: Context) -> list[Route]:
    api = _RunsApi(context)
    return [
        Route("/api/runs", api.start, methods=["POST"]),
        Route("/api/runs", api.list, methods=["GET"]),
        Route("/api/runs/{run_id}", api.show, methods=["GET"]),
        Route("/api/runs/{run_id}", api.delete, methods=["DELETE"]),
        Route("/api/runs/{run_id}/events", api.events, methods=["GET"]),
        Route("/api/runs/{run_id}/log", api.log, methods=["GET"]),
        Route("/api/runs/{run_id}/decisions", api.decide, methods=["POST"]),
        Route("/api/runs/{run_id}/stop", api.stop, methods=["POST"]),
    ]


class _RunsApi(Handlers):
    async def start(self, request: Request) -> Response:
        body = await read_json(request, _NewRun, self._context.rates)
        conversation = await self._context.conversation(request, body.conversation)
        if body.replaces:
            conversation = await self._runs.conversation_before(body.replaces, conversation)
        watched = _wants_events(request)
        with_history = _with_history(request)
        run_id = await self._context.start(request, body.message, conversation, watched=watched)
        location = f"{request.url.path}/{run_id}"
        if watched:
            named = quote(conversation.id)  # clients may choose any ID
            headers = {"x-argstream-conversation": named, "location": location}
            return await self._watch(request, run_id, headers, with_history=with_history)
        started = {"run": run_id, "conversation": conversation.id}
        return json_response(started, 201, location=location)

    async def list(self, request: Request) -> Response:
        query = request.query_params
        user, conversation_id = self._context.user(request), query.get("conversation")
        status = query.get("status")
        if status is not None and status not in get_args(RunStatus):
            known = ", ".join(get_args(RunStatus))
            raise UsageError(f"status must be one of {known}")
        found = await self._runs.of_user(
            user,
            status=cast("RunStatus | None", status),
            conversation_id=conversation_id,
            limit=_number(query.get("limit", "50"), "limit", 1, _MOST),
        )
        if conversation_id and await self._runs.is_deleted(conversation_id, user):
            found = []
        content = [
            # Without the arguments of the pending calls.
            _summary(
                info, [{"call_id": id, "digest": digest} for id, digest in info.pending.items()]
            )
            for info in found
        ]
        return _unless_known(request, json_response({"runs": content}))

    async def show(self, request: Request) -> Response:
        info = await self._info(request)
        return json_response(_summary(info, await self._runs.pending(info.run_id)))

    async def events(self, request: Request) -> Response:
        info = await self._info(request)
        after = _after(request)
        with_history = _with_history(request)
        if info.is_over and after is not None and after >= info.seq:
            return Response(status_code=204)  # so that browsers do not reconnect
        return await self._watch(request, info.run_id, after=after, with_history=with_history)

    async def log(self, request: Request) -> Response:
        info = await self._info(request)
        encoder = NativeEncoder(with_history=_with_history(request))
        return self._context.log(request, info, encoder, after=_after(request) or 0)

    async def decide(self, request: Request) -> Response:
        run_id: str = request.path_params["run_id"]
        loaded = await self._runs.load(run_id, self._context.user(request))
        body = await read_json(request, _Decisions, self._context.rates)
        if not body.decisions:
            raise UsageError("decisions is empty. Decide on at least one call")
        digests = {one.call_id: one.digest for one in loaded.state.pending}
        for call_id, decision in body.decisions.items():
            if digests.get(call_id, decision.digest) != decision.digest:
                raise other_request(call_id)
        decisions = {call_id: _approval(one) for call_id, one in body.decisions.items()}
        await self._runs.decide(loaded, decisions)
        return json_response({"run": run_id}, 202)

    async def stop(self, request: Request) -> Response:
        info = await self._info(request)
        body = await read_json(request, _Stop, self._context.rates, default=_Stop())
        if not info.is_over:
            await self._runs.stop(info.run_id, body.reason)
        return Response(status_code=204)

    async def delete(self, request: Request) -> Response:
        info = await self._info(request)
        if info.owner is not None and not info.is_over:
            raise Problem(409, "run-taken", "the run is in progress. Stop it first")
        await self._runs.store.delete(info.run_id)
        return Response(status_code=204)

    async def _watch(
        self,
        request: Request,
        run_id: str,
        headers: Mapping[str, str] | None = None,
        *,
        after: int | None = None,
        with_history: bool,
    ) -> Response:
        make = partial(NativeEncoder, with_history=with_history)
        key = ("native", with_history)
        return await self._context.watch(request, run_id, key, make, after=after, headers=headers)

    async def _info(self, request: Request) -> RunInfo:
        run_id: str = request.path_params["run_id"]
        return await self._runs.info(run_id, self._context.user(request))


def conversation_routes(context: Context, token: str | None) -> list[Route]:
    runs = context.runs

    async def list_all(request: Request) -> Response:
        limit = _number(request.query_params.get("limit", "50"), "limit", 1, _MOST)
        found = await runs.conversations(context.user(request), limit)
        content = {
            "agent": runs.agent,
            "model": runs.model,
            "tools": runs.tools,
            "signed_in": token is not None,
            "conversations": [_listed(row, newest) for row, newest in found],
        }
        return _unless_known(request, json_response(content))

    async def rename(request: Request) -> Response:
        conversation_id, user = request.path_params["id"], context.user(request)
        body = await read_json(request, _NewTitle, context.rates)
        await runs.newest_of(conversation_id, user)
        await runs.store.rename_conversation(conversation_id, body.title, user=user)
        return Response(status_code=204)

    async def delete(request: Request) -> Response:
        await runs.delete_conversation(request.path_params["id"], context.user(request))
        return Response(status_code=204)

    async def restore(request: Request) -> Response:
        conversation_id, user = request.path_params["id"], context.user(request)
        await runs.newest_of(conversation_id, user)
        await runs.store.restore_conversation(conversation_id, user=user)
        return Response(status_code=204)

    one = "/api/conversations/{id:path}"
    return [
        Route("/api/conversations", list_all, methods=["GET"]),
        Route(f"{one}/restore", restore, methods=["POST"]),
        Route(one, rename, methods=["PATCH"]),
        Route(one, delete, methods=["DELETE"]),
    ]


def _listed(row: ConversationInfo, newest: RunInfo) -> dict[str, object]:
    """Return a conversation in a list, with the state of its newest run."""
    return {
        "conversation": row.conversation_id,
        "title": row.title,
        "created": row.created,
        "updated": newest.updated,
        "run": newest.run_id,
        "status": newest.status,
        "is_driven": newest.owner is not None,
        "pending": 0 if newest.is_over else len(newest.pending),
    }


def _approval(decision: _Decision) -> Approval:
    if decision.decision == "deny":
        if decision.arguments is not None or decision.always != "call":
            problem = 'a denial cannot have "arguments" or "always"'
            raise UsageError(f"{problem}. Remove them, or approve the call")
        return Deny(decision.reason)
    return Approve(
        arguments=decision.arguments,
        always=decision.always,
        digest=decision.digest,
        reason=decision.reason,
    )


def _after(request: Request) -> int | None:
    """Return the last seq that the client has seen. Reconnecting browsers send a header."""
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    return None if given is None else _number(given, "after", 0, _LARGEST)


def _with_history(request: Request) -> bool:
    given = request.query_params.get("history", "true")
    if given not in ("true", "false"):
        raise UsageError(f"history must be true or false, not {given!r}")
    return given == "true"


def _wants_events(request: Request) -> bool:
    accepted = request.headers.get("accept", "").lower().split(",")
    return any(kind.partition(";")[0].strip() == "text/event-stream" for kind in accepted)


def _number(text: str, what: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 16 and least <= int(text) <= most):
        raise UsageError(f"{what} must be a number from {least} to {most}")
    return int(text)


def _summary(info: RunInfo, pending: Sequence[object]) -> dict[str, object]:
    """Return what clients see of a run. It does not name the process that drives the run."""
    return {
        "run": info.run_id,
        "conversation": info.conversation_id,
        "agent": info.agent,
        "status": info.status,
        "seq": info.seq,
        "created": info.created,
        "updated": info.updated,
        "is_driven": info.owner is not None,
        "prompt": info.prompt,
        "replaces": info.replaces,
        "pending": pending,
    }


def _unless_known(request: Request, answer: Response) -> Response:
    """Return the response, or 304 if the client has it. Pages poll the list."""
    etag = etag_of(bytes(answer.body))
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if is_known(request, etag):
        return Response(status_code=304, headers=headers)
    answer.headers.update(headers)
    return answer


def json_response(content: object, status: int = 200, **headers: str) -> Response:
    return Response(msgspec.json.encode(content), status, headers, "application/json")


class _Message(Struct, forbid_unknown_fields=True):
    message: str
    conversation: str = ""
    tool_deltas: bool = False
    """Whether strings in arguments are sent while they grow."""


def converse_routes(context: Context) -> list[Route]:
    async def converse(request: Request) -> Response:
        body = await read_json(request, _Message, context.rates)
        conversation = await context.conversation(request, body.conversation)
        run_id = await context.start(request, body.message, conversation)
        make = partial(ConverseEncoder, run_id, conversation.id, with_deltas=body.tool_deltas)
        key = ("converse", body.tool_deltas)
        headers = {"x-argstream-conversation": quote(conversation.id)}  # clients may choose any ID
        return await context.watch(request, run_id, key, make, headers=headers)

    return [Route("/api/converse", converse, methods=["POST"])]


class _SignIn(Struct, forbid_unknown_fields=True):
    token: str


def session_routes(context: Context, token: str | None) -> list[Route]:
    async def show(request: Request) -> Response:
        has_token: bool = request.scope["argstream.has_token"]
        signed_in = has_token and token is not None
        agent = context.runs.agent
        return json_response({"needs_token": not has_token, "signed_in": signed_in, "agent": agent})

    async def sign_in(request: Request) -> Response:
        body = await read_json(request, _SignIn, context.rates, most=_MOST_BYTES)
        if token is None:
            return Response(status_code=204)  # no token is needed
        if not Token(token).is_same(body.token):
            context.rates.wrong_token(client_of(request.scope))
            raise Problem(401, "wrong-token", "wrong token", {"www-authenticate": "Bearer"})
        return _with_cookie(request, token_cookie, token)

    async def sign_out(request: Request) -> Response:
        # Its name is derived from the token, so it is sent only to clients that have the token.
        cookies = "; ".join(request.headers.getlist("cookie")).encode("latin-1")
        if token is None or not Token(token).is_in_cookie(cookies):
            return Response(status_code=204)
        return _with_cookie(request, no_cookie, token)

    return [
        Route(SESSION_PATH, show, methods=["GET"]),
        Route(SESSION_PATH, sign_in, methods=["POST"]),
        Route(SESSION_PATH, sign_out, methods=["DELETE"]),
    ]


def _with_cookie(request: Request, write: Callable[..., str], token: str) -> Response:
    # A proxy may not forward that the browser used HTTPS.
    schemes = request.url.scheme, request.headers.get("origin", "").partition(":")[0]
    path = quote(request.scope.get("root_path", "")) or "/"  # as browsers write it
    cookie = write(token, secure="https" in schemes, path=path)
    return Response(status_code=204, headers={"set-cookie": cookie})
