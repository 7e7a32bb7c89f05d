"""Tools: functions that a model may call, how they are run, and texts that they read early."""

from argstream.agent.tools._binding import parsed_anew
from argstream.agent.tools._execute import Bound, failure_words, run_in_thread
from argstream.agent.tools._streamed import Streamed, TextFeed, ToolContext, encodable
from argstream.agent.tools._tool import FunctionTool, Tool, as_tool, tool

__all__ = [
    "Bound",
    "FunctionTool",
    "Streamed",
    "TextFeed",
    "Tool",
    "ToolContext",
    "as_tool",
    "encodable",
    "failure_words",
    "parsed_anew",
    "run_in_thread",
    "tool",
]
