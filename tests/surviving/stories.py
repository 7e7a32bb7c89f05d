"""What happens in the runs that are cut off: their tools, and a model that any process can ask.

The model has no memory. What it answers follows from what it is told, so it does not matter which
process asks, nor how often.
"""

from asyncio import sleep
from collections.abc import Callable, Iterable
from typing import Final

from argstream.agent import Streamed, Tool, ToolContext, tool
from argstream.history import Message, ResultPart
from argstream.models import CallTool, ModelRequest, Reply, Say, ScriptedModel, Think
from tests.surviving.outside import Outside
from tests.surviving.points import Points

PROMPT: Final = "Write to Ada, and tidy up"
USER: Final = "grace"
TEXT: Final = "Dear Ada, the report is done, and it is on your desk."
DONE: Final = "All of it is done."
IDEMPOTENT: Final = {"pay"}
STREAMED: Final = {"draft"}
SECONDS_TO_WRITE: Final = 0.01


def tools(outside: Outside, points: Points) -> list[Tool]:
    """The tools: each leaves a line outside when it does what it does."""

    def act(context: ToolContext) -> None:
        points.reach(f"before {context.name} does something")
        outside.execute(context)
        points.reach(f"after {context.name} did something")

    @tool(requires_confirmation=True)
    def send(to: str, text: str, context: ToolContext) -> str:
        act(context)
        return f"sent {len(text)} characters to {to}"

    @tool
    async def write(path: str, content: str, context: ToolContext) -> str:
        act(context)
        context.output("writing …")
        await sleep(SECONDS_TO_WRITE)
        return f"wrote {len(content)} characters to {path}"

    @tool(idempotent=True)
    def pay(amount: int, context: ToolContext) -> str:
        act(context)
        return f"paid {amount}"

    @tool
    async def draft(path: str, content: Streamed[str], context: ToolContext) -> str:
        act(context)
        return f"drafted {len(await content.read())} characters in {path}"

    return [send, write, pay, draft]


def model(answer: Callable[[int], Reply], outside: Outside, delay: float = 0.001) -> ScriptedModel:
    """A model whose answer follows from how many results it was told."""

    def answered(request: ModelRequest) -> Reply:
        outside.ask(request.messages)
        return answer(len(_results(request.messages)))

    return ScriptedModel(answered, piece_size=16, delay=delay, repeat=True)


def letters(results: int) -> Reply:
    """Two calls at once, one of which must be approved; then one that may run again."""
    if results == 0:
        return Reply(
            Think("Ada waits for the report."),
            Say("I write to Ada, and tidy up."),
            CallTool("send", {"to": "ada@example.org", "text": TEXT}),
            CallTool("write", {"path": "report.txt", "content": "done, on " * 4}),
        )
    if results == 2:
        return Reply(Say("Now the bill."), CallTool("pay", {"amount": 12}))
    return Reply(DONE)


def drafts(results: int) -> Reply:
    """A tool that begins while its text is written, and another one beside it."""
    if results == 0:
        return Reply(
            Say("I draft it."),
            CallTool("draft", {"path": "report.txt", "content": TEXT * 2}),
            CallTool("write", {"path": "log.txt", "content": "drafted"}),
        )
    return Reply(DONE)


STORIES: Final = {"letters": letters, "decided": letters, "drafts": drafts, "stopped": letters}
"""In one of them, who follows the run decides while it goes on; in another he stops it."""


def _results(messages: Iterable[Message]) -> list[ResultPart]:
    return [part for one in messages for part in one.parts if isinstance(part, ResultPart)]
