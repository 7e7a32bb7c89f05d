"""How the tests of tools run one: bound to arguments, in an event loop, with what it said."""

import json
from typing import Any

from argstream.agent.tools import ToolContext, as_tool


async def run(given: object, said: list[str] | None = None, /, **arguments: Any) -> Any:
    """Run a tool once, as a runner would."""
    tool = as_tool(given)
    return await tool.execute(tool.bind(json.dumps(arguments)), context_for(tool.name, said))


def context_for(name: str, said: list[str] | None = None) -> ToolContext:
    """Make the context of a call; what the tool says is added to the list."""
    emit = (lambda _: None) if said is None else said.append
    return ToolContext("run-1", "call-1", name, "key-1", emit)
