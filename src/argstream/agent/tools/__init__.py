"""Tools: functions that a model may call, how they are run, and texts that they read early."""

from argstream.agent.tools._execute import BoundCall, failure_message
from argstream.agent.tools._streamed import Streamed, TextFeed, ToolContext
from argstream.agent.tools._tool import (
    FunctionTool,
    Tool,
    ToolOptions,
    as_tool,
    parse_arguments,
    tool,
)

__all__ = [
    "BoundCall",
    "FunctionTool",
    "Streamed",
    "TextFeed",
    "Tool",
    "ToolContext",
    "ToolOptions",
    "as_tool",
    "failure_message",
    "parse_arguments",
    "tool",
]
