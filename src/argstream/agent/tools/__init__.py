"""Tools: functions that a model may call, how they are run, and texts that they read early."""

from argstream.agent.tools._execute import (
    BoundCall,
    cancel_until_done,
    failure_message,
    run_in_thread,
    shielded,
)
from argstream.agent.tools._streamed import Streamed, TextFeed, ToolContext, current_loop
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
    "cancel_until_done",
    "current_loop",
    "failure_message",
    "parse_arguments",
    "run_in_thread",
    "shielded",
    "tool",
]
