"""An agent around the stream: tools are functions, every argument is visible, a person is asked."""

from argstream.errors import MissingExtraError

try:
    import pydantic  # noqa: F401 - to find out whether the extra is there
except ModuleNotFoundError:
    raise MissingExtraError("agent", "an agent") from None

from argstream.agent._driver import EventHook
from argstream.agent._run import Run
from argstream.agent.agent import Agent
from argstream.agent.approvals import Approval, Approve, Approver, Decisions, Deny, Grant
from argstream.agent.observer import Observer, observe
from argstream.agent.result import Conversation, RunResult, ToolUse
from argstream.agent.tools import Streamed, TextFeed, Tool, ToolContext, as_tool, tool

__all__ = [
    "Agent",
    "Approval",
    "Approve",
    "Approver",
    "Conversation",
    "Decisions",
    "Deny",
    "EventHook",
    "Grant",
    "Observer",
    "Run",
    "RunResult",
    "Streamed",
    "TextFeed",
    "Tool",
    "ToolContext",
    "ToolUse",
    "as_tool",
    "observe",
    "tool",
]
