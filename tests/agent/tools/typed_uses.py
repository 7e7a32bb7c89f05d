"""Tools as users write them. mypy and pyright check the types (``tests.test_types``)."""

from collections.abc import AsyncIterator
from typing import assert_type

from argstream.agent.tools import FunctionTool, Streamed, Tool, ToolContext, as_tool, tool


@tool
def sync(path: str, size: int = 0) -> int:
    return len(path) + size


@tool(timeout=3, idempotent=True)
async def in_loop(path: str, *, context: ToolContext) -> list[str]:
    return [path, context.run_id]


@tool
async def echoes(text: Streamed[str]) -> AsyncIterator[str]:
    async for piece in text:
        assert_type(piece, str)
        yield piece


class Shelf:
    @tool
    def find(self, word: str) -> list[str]:
        return [word]

    @tool(requires_confirmation=True)
    async def take(self, word: str) -> str:
        return word

    @staticmethod
    @tool
    def loose(word: str) -> str:
        return word


async def uses(shelf: Shelf, text: Streamed[str], context: ToolContext) -> None:
    assert_type(sync("a", size=2), int)
    assert_type(await in_loop("a", context=context), list[str])
    assert_type(echoes(text), AsyncIterator[str])
    assert_type(shelf.find("a"), list[str])
    assert_type(await shelf.take(word="a"), str)
    assert_type(Shelf.loose("a"), str)
    assert_type(await text.read(), str)
    assert_type(as_tool(sync), Tool)
    tools: list[Tool] = [sync, in_loop, echoes, shelf.find, shelf.take]
    assert_type(tools[0].name, str)
    made: FunctionTool[[str], list[str]] = shelf.find
    assert_type(made.timeout, float | None)
    sync(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    shelf.find()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    made_here = tool(name="other", timeout=1.5, idempotent=True)(sync.function)
    assert_type(made_here.name, str)
    tool(timout=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    tool(timeout="3")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
