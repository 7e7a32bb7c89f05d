"""``/api/ag-ui``: what an ``HttpAgent`` of AG-UI asks for, in its versions 1.0 and 0.0.59.

====================================  ============================================================
``POST /api/ag-ui``                   what ``runAgent`` commands; the answer is a stream
``GET /api/ag-ui/{threadId}/stream``  the thread by the log: what was said, the newest run so far,
                                      and what comes. For ``connectAgent``, whose ``connect`` an
                                      ``HttpAgent`` does not have; see below
``POST /api/ag-ui/{threadId}/stop``   ends the run. ``agent.abortRun()`` only stops reading, and
                                      the run goes on
====================================  ============================================================

A thread is a conversation. What a client commands is one of three:

- ``resume`` answers interrupts: the run goes on that waits for these. The id of an interrupt is the
  digest of its request, which covers the exact arguments; to resolve a request that is not pending
  more is refused. To cancel that is no decision: the client is shown how the run has gone on. It
  has no other way to get rid of an interrupt.
- The last message is a person's: a new run.
- It is not, or it is what the run that still goes on was asked: so its stream was cut, and it is
  given that run anew, with all of its messages, in place of those that it has.

History is the log's: all else that a client tells is not heeded. That goes for its tools as well:
they would have to be run in the page, and agents here run theirs on the server. They are not
refused, since front ends send whatever is registered in them with each request.

To come back after the page was loaded anew, a front end can have::

    class Agent extends HttpAgent {
      connect(input) {
        const url = `${this.url}/${encodeURIComponent(input.threadId)}/stream?version=1.0`;
        const stream = runHttpRequest(() => fetch(url, { headers: this.headers }));
        return transformHttpEventStream(stream);
      }
    }
"""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argstream.errors import RunNotFoundError
from argstream.events import RunStarted
from argstream.protocols.ag_ui import (
    AgUiEncoder,
    Answers,
    RunAgentInput,
    answers_of,
    known_of,
    prompt_of,
    version_of,
)
from argstream.runs._records import Approval, RunInfo
from argstream.server._context import Context
from argstream.server._problems import Problem
from argstream.server._viewers import EventStream


def routes(context: Context) -> list[Route]:
    api = _AgUiApi(context)
    return [
        Route("/api/ag-ui", api.post, methods=["POST"]),
        Route("/api/ag-ui/{thread:path}/stream", api.connect, methods=["GET"]),
        Route("/api/ag-ui/{thread:path}/stop", api.stop, methods=["POST"]),
    ]


class _AgUiApi:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._runs = context.runs

    async def post(self, request: Request) -> Response:
        asked = await self._context.body(request, RunAgentInput)
        if asked.resume:
            return await self._answer(request, asked, answers_of(asked.resume))
        prompt = prompt_of(asked.messages)
        info = await self._context.newest(request, asked.thread_id)
        if info is not None and await self._is_about(prompt, info):
            return await self._watch(request, info.run_id, asked)
        if prompt is None:
            raise Problem(
                422, "unusable", "there is nothing to do: the last message must be the user's"
            )
        conversation = await self._context.conversation(request, asked.thread_id)
        run_id = await self._context.start(request, prompt, conversation)
        return await self._watch(request, run_id, asked, after=0)

    async def connect(self, request: Request) -> Response:
        thread_id = request.path_params["thread"]
        info = await self._context.newest(request, thread_id)
        if info is None:
            raise _unknown()
        version = version_of(request.query_params.get("version"))
        make = partial(AgUiEncoder, thread_id, info.run_id, version)
        return await self._context.watch(request, info.run_id, ("ag-ui", version), make)

    async def stop(self, request: Request) -> Response:
        return await self._context.stop(request, request.path_params["thread"])

    async def _answer(self, request: Request, asked: RunAgentInput, answers: Answers) -> Response:
        info = await self._context.newest(request, asked.thread_id)
        if info is None:
            raise _unknown()
        decisions = _decisions(info, answers)
        if not decisions:
            return await self._watch(request, info.run_id, asked)
        # What comes of it is for this client: so he watches before it is decided.
        stream = await self._watch(request, info.run_id, asked, after=info.seq)
        return await self._context.decide(stream, info.run_id, decisions)

    async def _is_about(self, prompt: str | None, info: RunInfo) -> bool:
        """Return True if a request without answers asks for the stream of this run."""
        if prompt is None or info.is_over:
            return prompt is None
        try:
            records = await self._runs.store.read(info.run_id, limit=1)
        except RunNotFoundError:  # it was deleted meanwhile
            return False
        event = records[0].event if records else None
        return isinstance(event, RunStarted) and event.prompt == prompt

    async def _watch(
        self, request: Request, run_id: str, asked: RunAgentInput, *, after: int | None = None
    ) -> EventStream:
        version = version_of(asked.protocol_version)
        # Who sees a run from its beginning is not told anything back.
        known = None if after == 0 else known_of(asked.messages)
        make = partial(AgUiEncoder, asked.thread_id, asked.run_id, version, known)
        # The client names its request in the stream, so it cannot be shared.
        return await self._context.watch(request, run_id, object(), make, after=after)


def _decisions(info: RunInfo, answers: Answers) -> dict[str, Approval]:
    """Return the decisions by call ID. Raise Problem for an interrupt that is not pending."""
    calls = info.calls_by_digest
    if answers.resolved.keys() - calls.keys():
        raise Problem(
            403,
            "not-pending",
            "the request is no longer pending, or has other arguments: cancel the interrupt to "
            "see how the run has gone on",
        )
    decided = {**answers.resolved, **answers.cancelled}
    return {calls[digest]: answer for digest, answer in decided.items() if digest in calls}


def _unknown() -> Problem:
    return Problem(404, "unknown-conversation", "there is no such thread here")
