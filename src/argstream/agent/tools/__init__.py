"""Tools: functions that a model may call, how they are run, and texts that they read early."""

from argstream.agent.tools._origin import refuse_while_imported
from argstream.agent.tools._outcomes import failure_words
from argstream.agent.tools._texts import is_as_streamed, parsed_anew
from argstream.agent.tools._threads import run_in_thread
from argstream.agent.tools.context import ToolContext, encodable
from argstream.agent.tools.streamed import Streamed, TextFeed
from argstream.agent.tools.tool import Bound, FunctionTool, Tool, as_tool, tool

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
    "is_as_streamed",
    "parsed_anew",
    "refuse_while_imported",
    "run_in_thread",
    "tool",
]
