"""Runs a tool as the agent does."""

import asyncio
import json
from typing import Any

from argstream.agent.tools import Tool, ToolContext, as_tool


async def run(given: object, output: list[str] | None = None, /, **arguments: Any) -> Any:
    """Bind the arguments and execute the tool. Its output is added to the list."""
    tool = as_tool(given)
    return await tool.execute(tool.bind(json.dumps(arguments)), context_for(tool.name, output))


def context_for(name: str, output: list[str] | None = None) -> ToolContext:
    emit = (lambda _: None) if output is None else output.append
    return ToolContext("run-1", "call-1", name, "key-1", emit)


class Consumer:
    """A consumer of output that has no room until ``has_room`` is set."""

    def __init__(self) -> None:
        self.output: list[str] = []
        self.has_room = asyncio.Event()

    async def start(self, given: Tool, **arguments: Any) -> "asyncio.Task[Any]":

        async def room() -> None:
            is_waiting.set()
            await self.has_room.wait()

        is_waiting = asyncio.Event()
        context = ToolContext("r", "c", given.name, "k", self.output.append, room)
        bound = given.bind(json.dumps(arguments))
        task = asyncio.create_task(given.execute(bound, context))
        await is_waiting.wait()
        return task
