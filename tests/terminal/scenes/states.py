"""A run for each state of a call, up to the moment at which a user looks at it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from argstream import events as ev
from argstream import stream
from argstream.agent import Agent, Approve, Deny, ToolContext, tool
from argstream.events import Event
from argstream.models import CallTool, ModelRequest, Reply, Say, ScriptedModel
from argstream.policy import Glob, Policy, Rule
from argstream.runs import MemoryStore
from tests import provider_streams as api
from tests.agent.following import stopped_at
from tests.terminal.approving.sitting import sitting
from tests.terminal.scenes.scripts import APP, PIECE, run, write_file

REPORTING = (
    "python3 -m pytest tests/test_shop.py --maxfail=1 --durations=5 -p no:cacheprovider"
    " && python3 report.py sales.csv --format html > build/report.html"
)
WRITE = CallTool("write_file", {"path": "src/greeter/app.py", "content": APP})
TESTS = CallTool("run_command", {"command": "python3 -m pytest tests"})
REPORT = CallTool("run_command", {"command": REPORTING})
SECRET = CallTool("write_file", {"path": "config/.env.local", "content": "KEY=1"})
CUT = CallTool("write_file", WRITE.arguments[:200])
WRONG = CallTool("write_file", {"path": 3, "content": APP})
BROKEN = CallTool("write_file", '{"path": "a.txt", "content": "one\\ntwo" "three"}')
EDITED = {"path": "src/greeter/app.py", "content": APP.replace("Hello", "Good evening")}
SECRETS = Rule("deny", argument="path", when=Glob("**/.env*"), name="no secrets")
SHELL = Rule("ask", tool="run_command", name="shell", reason="Shell commands always need approval")
ASK = Policy([SHELL], default="ask")
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@tool
async def run_command(context: ToolContext, command: str) -> str:
    """Run a command."""
    context.output("collected 12 items\n")
    context.output(f"tests/test_shop.py {'.' * 11}F [100%]\n")
    if command == REPORTING:
        raise RuntimeError("exit status 1: FileNotFoundError: 'sales.csv' in report.py, line 12")
    return "1 failed, 11 passed in 0.41s"


TOOLS = [write_file, run_command]


class Stalling(ScriptedModel):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[dict[str, Any], None]:
        number = 0
        async for payload in super().stream(request):
            yield payload
            number += 1
            if number == 30:
                await asyncio.Event().wait()


def act(*calls: CallTool, **options: Any) -> list[Event]:
    reply = Reply(Say("I will check it."), *calls)
    options = {"prompt": "Is the shop ready?", "tools": TOOLS, **options}
    return run(reply, "One test **fails**.", **options)


def asked(call: CallTool, answer: Any) -> list[Event]:
    return act(call, policy=ASK, approver=lambda _: answer)


def up_to(number: int, kind: type[Event], events: list[Event]) -> list[Event]:
    places = [place for place, event in enumerate(events, 1) if isinstance(event, kind)]
    return events[: places[number - 1]]


def stopped() -> list[Event]:
    agent = Agent(Stalling(Reply(WRITE), piece_size=PIECE), TOOLS)
    with patch("argstream.agent._driver._FLUSH_INTERVAL", 0):
        return stopped_at(agent.run_stream("Is the shop ready?"), ev.ToolArgsDelta)


def running_two() -> list[Event]:
    *before, output = up_to(2, ev.ToolOutputDelta, act(TESTS, REPORT))
    assert isinstance(output, ev.ToolOutputDelta)
    return [*before, replace(output, text=output.text.partition("\n")[0] + "\n")]


def retried() -> list[Event]:
    events = act(WRITE)
    return [*up_to(12, ev.ToolArgsDelta, events), ev.TurnStarted(1, 2), *events[2:]]


def failing() -> Iterable[Event]:
    payloads = api.anthropic_call(WRITE.arguments[:120])[:3]
    return stream([payloads[0], api.tool_use(0, "write_file"), payloads[2], OVERLOADED])


STATES: dict[str, Callable[[], Iterable[Event]]] = {
    "writing": lambda: up_to(24, ev.ToolArgsDelta, act(WRITE)),
    "writing the second call": lambda: up_to(45, ev.ToolArgsDelta, act(WRITE, REPORT)),
    "running": lambda: up_to(1, ev.ToolOutputDelta, act(TESTS)),
    "running two": running_two,
    "done": lambda: act(WRITE, TESTS),
    "failed": lambda: act(REPORT),
    "approved with edits": lambda: asked(WRITE, Approve(arguments=EDITED)),
    "denied": lambda: asked(REPORT, Deny("The report is not needed before Friday")),
    "blocked": lambda: act(SECRET, policy=Policy([SECRETS], default="allow")),
    "invalid": lambda: act(WRONG),
    "invalid JSON": lambda: act(BROKEN),
    "stopped": stopped,
    "incomplete": lambda: run(Reply(CUT, stop="length"), "I was cut off."),
    "incomplete, since the provider failed": failing,
    "paused with two requests": lambda: act(WRITE, REPORT, policy=ASK, store=MemoryStore()),
    "retried": retried,
}
PENDING = {
    "pending: a short command": [TESTS],
    "pending: a long command": [REPORT],
    "pending: a file": [WRITE],
    "pending: two calls": [WRITE, REPORT],
}


async def pending_screen(calls: list[CallTool], columns: int, rows: int) -> list[str]:
    reply = Reply(Say("I will check it."), *calls, piece_size=PIECE)
    options: Any = {"columns": columns, "rows": rows, "policy": ASK, "tools": TOOLS}
    async with sitting(reply, is_slow=True, **options) as at:
        for text in ("? help", "1 of 2", "ready")[: 1 if len(calls) == 1 else 3]:
            await at.sees(text)
        seen = at.screen().rstrip().split("\n")
        at.run.stop()
        return seen
