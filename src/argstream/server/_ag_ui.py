"""``/api/ag-ui``: the requests of an ``HttpAgent`` of AG-UI, in its versions 1.0 and 0.0.59.

The routes are in docs/server.md. A thread is a conversation. A request is one of three:

- ``resume`` answers interrupts, and the run that waits for them continues. The ID of an interrupt
  is the digest of its request, which covers the exact arguments. A client can also cancel an
  interrupt that is no longer pending, because it has no other way to remove it. It then gets the
  stream of the newest run.
- The last message is the user's, and starts a run.
- The last message is not the user's, or is the prompt of the run in progress. Then the stream was
  interrupted, and is sent again.

The history is that of the store. Tools of the client are ignored: agents run their tools on the
server, and front ends send all of their tools with each request.

An ``HttpAgent`` has no ``connect``. To continue after the page was loaded again, add one::

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

from argstream.errors import RunNotFoundError, UsageError
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
from argstream.server._api import Context, Handlers, not_pending
from argstream.server._limits import read_json
from argstream.server._viewers import EventStream


def routes(context: Context) -> list[Route]:
    api = _AgUiApi(context)
    return [
        Route("/api/ag-ui", api.post, methods=["POST"]),
        Route("/api/ag-ui/{id:path}/stream", api.connect, methods=["GET"]),
        Route("/api/ag-ui/{id:path}/stop", context.stop, methods=["POST"]),
    ]


class _AgUiApi(Handlers):
    async def post(self, request: Request) -> Response:
        body = await read_json(request, RunAgentInput, self._context.rates)
        if body.resume:
            return await self._answer(request, body, answers_of(body.resume))
        prompt = prompt_of(body.messages)
        info = await self._runs.newest(body.thread_id, self._context.user(request))
        if info is not None and await self._is_about(prompt, info):
            return await self._watch(request, info.run_id, body)
        if prompt is None:
            raise UsageError("the last message must be the user's")
        conversation = await self._context.conversation(request, body.thread_id)
        run_id = await self._context.start(request, prompt, conversation)
        return await self._watch(request, run_id, body, after=0)

    async def connect(self, request: Request) -> Response:
        thread_id = request.path_params["id"]
        info = await self._runs.newest_of(thread_id, self._context.user(request))
        version = version_of(request.query_params.get("version"))
        make = partial(AgUiEncoder, thread_id, info.run_id, version)
        return await self._context.watch(request, info.run_id, ("ag-ui", version), make)

    async def _answer(self, request: Request, body: RunAgentInput, answers: Answers) -> Response:
        info = await self._runs.newest_of(body.thread_id, self._context.user(request))
        decisions = _decisions(info, answers)
        if not decisions:
            return await self._watch(request, info.run_id, body)
        # The client watches before the decision, so that it misses nothing.
        stream = await self._watch(request, info.run_id, body, after=info.seq)
        return await self._context.decide(request, stream, info.run_id, decisions)

    async def _is_about(self, prompt: str | None, info: RunInfo) -> bool:
        """Return True if a request without answers asks for the stream of this run."""
        if prompt is None or info.is_over:
            return prompt is None
        try:
            return (await self._runs.store.snapshot(info.run_id)).prompt == prompt
        except RunNotFoundError:  # it was deleted meanwhile
            return False

    async def _watch(
        self, request: Request, run_id: str, body: RunAgentInput, *, after: int | None = None
    ) -> EventStream:
        version = version_of(body.protocol_version)
        # A client that sees a run from its beginning has all messages.
        known = None if after == 0 else known_of(body.messages)
        make = partial(AgUiEncoder, body.thread_id, body.run_id, version, known)
        # The stream contains the client's request ID, so it cannot be shared.
        return await self._context.watch(request, run_id, object(), make, after=after)


def _decisions(info: RunInfo, answers: Answers) -> dict[str, Approval]:
    """Return the decisions by call ID. Raise Problem for an interrupt that is not pending."""
    calls = info.calls_by_digest
    if answers.resolved.keys() - calls.keys():
        raise not_pending("Cancel the interrupt to see how the run continued")
    decided = {**answers.resolved, **answers.cancelled}
    return {calls[digest]: answer for digest, answer in decided.items() if digest in calls}
