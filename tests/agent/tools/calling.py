"""Runs a tool as the agent does."""

import json
from typing import Any

from argstream.agent.tools import ToolContext, as_tool


async def run(given: object, output: list[str] | None = None, /, **arguments: Any) -> Any:
    """Bind the arguments and execute the tool. Its output is added to the list."""
    tool = as_tool(given)
    return await tool.execute(tool.bind(json.dumps(arguments)), context_for(tool.name, output))


def context_for(name: str, output: list[str] | None = None) -> ToolContext:
    emit = (lambda _: None) if output is None else output.append
    return ToolContext("run-1", "call-1", name, "key-1", emit)
