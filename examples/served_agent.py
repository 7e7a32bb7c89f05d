"""An agent inside a web app of one's own: each user sees his own runs, and decides over HTTP.

::

    python examples/served_agent.py            # serves it, and plays a client that decides
    python examples/served_agent.py --serve    # serves it on http://127.0.0.1:8000 until Ctrl-C

Needs no key: a scripted model plays along. The client is what a page does, in Python: it follows
the run, sees the mail grow while it is written, and approves of exactly what it has seen.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from argstream import Agent, ModelRequest, ScriptedModel, tool
from argstream.history import ResultPart
from argstream.models import CallTool, Reply
from argstream.runs import MemoryStore
from argstream.sanitise import visible_line
from argstream.server import AgentServer, Serving, serve

MAIL = {"to": "ada@example.org", "text": "We are late.\nThe train is, too.\n"}


def answer(request: ModelRequest) -> Reply:
    """Write a mail, and say what became of it."""
    last = request.messages[-1].parts[-1]
    if isinstance(last, ResultPart):
        return Reply(f"Done: {last.result}")
    return Reply("I write to Ada.", CallTool("send_mail", MAIL))


@tool(requires_confirmation=True)
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"{len(text)} characters went to {to}"


def name_of_user(request: Request) -> str:
    """Say who asks; a real app would look into its session."""
    return request.headers.get("x-user", "nobody")


agent = Agent(ScriptedModel(answer, repeat=True, delay=0.02), [send_mail], store=MemoryStore())
server = AgentServer(agent, user=name_of_user)


async def home(_: Request) -> PlainTextResponse:
    """Show a page of the app itself."""
    return PlainTextResponse("The agent is at /agent.\n")


app = Starlette(routes=[Route("/", home), Mount("/agent", server)])  # uvicorn served_agent:app


async def frames(client: aiohttp.ClientSession, run: str) -> AsyncIterator[dict[str, Any]]:
    """Follow a run, as an EventSource does."""
    async with client.get(f"/api/runs/{run}/events") as answer:
        async for line in answer.content:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


async def play(url: str) -> None:
    """Be a client: ask, watch, decide."""
    async with aiohttp.ClientSession(url, headers={"x-user": "bob"}) as client:
        prompt = {"message": "Tell Ada that we are late."}
        async with client.post("/api/runs", json=prompt) as reply:
            run = (await reply.json())["run"]
        async for frame in frames(client, run):
            event = frame.get("event")
            if event is None:
                continue  # the first frame is a snapshot of the run so far
            for view in frame.get("arguments", ()):
                if view["type"] == "argument_delta":
                    print(f"  {'.'.join(view['path'])} += {visible_line(view['text'])}")
            if event["type"] == "approval_requested":
                print(f"{event['name']} needs a yes, and gets it")
                decision = {"decision": "approve", "digest": event["digest"]}
                decisions = {"decisions": {event["call_id"]: decision}}
                async with client.post(f"/api/runs/{run}/decisions", json=decisions) as reply:
                    reply.raise_for_status()
            if event["type"] == "run_completed":
                print(visible_line(event["result"]))
        async with client.get(f"/api/runs/{run}", headers={"x-user": "eve"}) as reply:
            print(f"for another user: {reply.status} {(await reply.json())['detail']}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(server, on_listening=lambda url: print(f"listening at {url}"))
    else:
        with Serving(server) as serving:
            asyncio.run(play(serving.url))
