"""``/api/runs``: runs as argstream has them, for pages and programs of one's own.

=======================================  =========================================================
``POST /api/runs``                       ``{message, conversation?}`` begins a run; with ``Accept:
                                         text/event-stream`` the answer is what ``events`` gives
``GET /api/runs``                        lists them: ``?status=``, ``?conversation=``, ``?limit=``;
                                         304 for a client that has that list (``If-None-Match``)
``GET /api/runs/{id}``                   what is known of one, and what it waits for
``GET /api/runs/{id}/events``            server-sent events: a snapshot, and then what comes; after
                                         ``Last-Event-ID`` or ``?after=`` only what comes; with
                                         ``?history=false`` without what was said before the run
``GET /api/runs/{id}/log``               all records so far, a line of JSON each; the same options
``POST /api/runs/{id}/decisions``        ``{decisions: {call_id: {decision, digest, …}}}``
``POST /api/runs/{id}/stop``             ends it; ``{reason?}``
``DELETE /api/runs/{id}``                forgets it
=======================================  =========================================================
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, cast, get_args
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argstream.events import ApprovalRequested, ApprovalScope, RunStatus
from argstream.protocols._base import Reason
from argstream.protocols.converse import ConverseEncoder
from argstream.protocols.native import NativeEncoder
from argstream.runs._records import Approval, Approve, Deny, RunInfo
from argstream.server._context import Context
from argstream.server._limits import client_of
from argstream.server._problems import Problem, etag_of, is_known
from argstream.server._runs import other_request
from argstream.server._security import Token, no_cookie, token_cookie

SESSION_PATH: Final = "/api/session"
_MOST_BYTES: Final = 4 * 1024
"""The size of a sign-in body: it holds only a token, and any client may send it."""
_LARGEST: Final = 2**53
_MOST: Final = 1_000


class _NewRun(Struct, forbid_unknown_fields=True):
    message: str
    conversation: str = ""


class _Decision(Struct, forbid_unknown_fields=True):
    decision: Literal["approve", "deny"]
    digest: str
    """Of the request that is decided on: it says what was shown to who decides."""
    arguments: dict[str, Any] | None = None
    always: ApprovalScope = "call"
    reason: Reason = ""


class _Decisions(Struct, forbid_unknown_fields=True):
    decisions: dict[str, _Decision]


class _Stop(Struct, forbid_unknown_fields=True):
    reason: Reason = ""


class _Asked(Struct):
    """A pending call, without what it is about."""

    call_id: str
    digest: str


class _Run(Struct):
    """A run as clients see it. They are not told which process drives it."""

    run: str
    conversation: str
    agent: str
    status: RunStatus
    seq: int
    created: float
    updated: float
    is_driven: bool
    prompt: str
    """What it was asked, as far as it fits into a list."""
    pending: "Sequence[ApprovalRequested | _Asked]"


def run_routes(context: Context) -> list[Route]:
    api = _RunsApi(context)
    return [
        Route("/api/runs", api.start, methods=["POST"]),
        Route("/api/runs", api.list, methods=["GET"]),
        Route("/api/runs/{run_id}", api.show, methods=["GET"]),
        Route("/api/runs/{run_id}", api.forget, methods=["DELETE"]),
        Route("/api/runs/{run_id}/events", api.events, methods=["GET"]),
        Route("/api/runs/{run_id}/log", api.log, methods=["GET"]),
        Route("/api/runs/{run_id}/decisions", api.decide, methods=["POST"]),
        Route("/api/runs/{run_id}/stop", api.stop, methods=["POST"]),
    ]


class _RunsApi:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._runs = context.runs

    async def start(self, request: Request) -> Response:
        body = await self._context.body(request, _NewRun)
        conversation = await self._context.conversation(request, body.conversation)
        watched = _wants_events(request)
        with_history = _with_history(request)
        run_id = await self._context.start(request, body.message, conversation, watched=watched)
        location = f"{request.url.path}/{run_id}"
        if watched:
            named = quote(conversation.id)  # by the client, who may name it as he likes
            headers = {"x-argstream-conversation": named, "location": location}
            return await self._watch(request, run_id, headers, with_history=with_history)
        return _json({"run": run_id, "conversation": conversation.id}, 201, location=location)

    async def list(self, request: Request) -> Response:
        query = request.query_params
        status = query.get("status")
        if status is not None and status not in get_args(RunStatus):
            known = ", ".join(get_args(RunStatus))
            raise Problem(422, "unusable", f"the status of a run is one of {known}")
        found = await self._runs.of_user(
            self._context.user(request),
            status=cast("RunStatus | None", status),
            conversation_id=query.get("conversation"),
            limit=_number(query.get("limit", "50"), "limit", 1, _MOST),
        )
        prompts = await self._runs.prompts.of(found)
        told = [
            _told(info, prompt, [_Asked(*one) for one in info.pending.items()])
            for info, prompt in zip(found, prompts, strict=True)
        ]
        return _unless_known(request, _json({"runs": told}))

    async def show(self, request: Request) -> Response:
        info = await self._info(request)
        [prompt] = await self._runs.prompts.of([info])
        return _json(_told(info, prompt, await self._runs.pending(info.run_id)))

    async def events(self, request: Request) -> Response:
        info = await self._info(request)
        after = _after(request)
        with_history = _with_history(request)
        if info.is_over and after is not None and after >= info.seq:
            return Response(status_code=204)  # by which browsers know that there is no more
        return await self._watch(request, info.run_id, after=after, with_history=with_history)

    async def log(self, request: Request) -> Response:
        info = await self._info(request)
        encoder = NativeEncoder(with_history=_with_history(request))
        return self._context.log(request, info, encoder, after=_after(request) or 0)

    async def decide(self, request: Request) -> Response:
        info = await self._info(request)
        body = await self._context.body(request, _Decisions)
        if not body.decisions:
            raise Problem(422, "unusable", "there is nothing to decide: name at least one call")
        for call_id, decision in body.decisions.items():
            if info.pending.get(call_id, decision.digest) != decision.digest:
                raise other_request(call_id)
        decisions = {call_id: _approval(one) for call_id, one in body.decisions.items()}
        await self._runs.decide(info.run_id, decisions)
        return _json({"run": info.run_id}, 202)

    async def stop(self, request: Request) -> Response:
        info = await self._info(request)
        body = await self._context.body(request, _Stop, _Stop())
        if not info.is_over:  # otherwise all is as wanted
            await self._runs.stop(info.run_id, body.reason)
        return Response(status_code=204)

    async def forget(self, request: Request) -> Response:
        info = await self._info(request)
        if info.owner is not None and not info.is_over:
            raise Problem(409, "run-taken", "the run goes on: stop it first")
        await self._runs.forget(info.run_id)
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


def _approval(decision: _Decision) -> Approval:
    if decision.decision == "deny":
        if decision.arguments is not None or decision.always != "call":
            raise Problem(422, "unusable", "what is denied has neither arguments nor always")
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
        raise Problem(422, "unusable", "history is true or false")
    return given == "true"


def _wants_events(request: Request) -> bool:
    accepted = request.headers.get("accept", "").lower().split(",")
    return any(kind.partition(";")[0].strip() == "text/event-stream" for kind in accepted)


def _number(text: str, what: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 16 and least <= int(text) <= most):
        raise Problem(422, "unusable", f"{what} is a number from {least} to {most}")
    return int(text)


def _told(info: RunInfo, prompt: str, pending: Sequence[ApprovalRequested | _Asked]) -> _Run:
    return _Run(
        info.run_id,
        info.conversation_id,
        info.agent,
        info.status,
        info.seq,
        info.created,
        info.updated,
        info.owner is not None,
        prompt,
        pending,
    )


def _unless_known(request: Request, answer: Response) -> Response:
    """Return the answer, or 304 if the client has it: pages ask every few seconds."""
    etag = etag_of(bytes(answer.body))
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if is_known(request, etag):
        return Response(status_code=304, headers=headers)
    answer.headers.update(headers)
    return answer


def _json(told: object, status: int = 200, **headers: str) -> Response:
    return Response(msgspec.json.encode(told), status, headers, "application/json")


class _Message(Struct, forbid_unknown_fields=True):
    message: str
    conversation: str = ""
    tool_deltas: bool = False
    """Whether texts in arguments are told while they grow."""


def converse_routes(context: Context) -> list[Route]:
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


class _SignIn(Struct, forbid_unknown_fields=True):
    token: str


class _Session(Struct):
    needs_token: bool
    signed_in: bool
    agent: str


def session_routes(context: Context, token: str | None) -> list[Route]:
    async def show(request: Request) -> Response:
        has_token: bool = request.scope["argstream.has_token"]
        told = _Session(not has_token, has_token and token is not None, context.runs.agent)
        return Response(msgspec.json.encode(told), media_type="application/json")

    async def sign_in(request: Request) -> Response:
        body = await context.body(request, _SignIn, most=_MOST_BYTES)
        if token is None:
            return Response(status_code=204)  # all is as wanted
        if not Token(token).is_same(body.token):
            context.rates.wrong_token(client_of(request.scope))
            raise Problem(401, "wrong-token", "wrong token", {"www-authenticate": "Bearer"})
        cookie = token_cookie(token, secure=_is_secure(request), path=_place(request))
        return Response(status_code=204, headers={"set-cookie": cookie})

    async def sign_out(request: Request) -> Response:
        # Its name is derived from the token, so it is sent only to clients that have the token.
        cookies = "; ".join(request.headers.getlist("cookie")).encode("latin-1")
        if token is None or not Token(token).is_in_cookie(cookies):
            return Response(status_code=204)
        cookie = no_cookie(token, secure=_is_secure(request), path=_place(request))
        return Response(status_code=204, headers={"set-cookie": cookie})

    return [
        Route(SESSION_PATH, show, methods=["GET"]),
        Route(SESSION_PATH, sign_in, methods=["POST"]),
        Route(SESSION_PATH, sign_out, methods=["DELETE"]),
    ]


def _place(request: Request) -> str:
    """Return the path that the app is mounted at, as browsers write it."""
    return quote(request.scope.get("root_path", "")) or "/"


def _is_secure(request: Request) -> bool:
    """Return True if the browser used HTTPS, also behind a proxy that does not say so."""
    origin = request.headers.get("origin", "")
    return request.url.scheme == "https" or origin.startswith("https://")
