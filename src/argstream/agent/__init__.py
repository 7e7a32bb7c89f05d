"""An agent around the stream: tools are functions, every argument is visible, a person is asked."""

from argstream.errors import MissingExtraError

try:
    import anyio  # noqa: F401 - to find out whether the extra is there
    import pydantic  # noqa: F401 - the same
except ModuleNotFoundError:
    raise MissingExtraError("agent", "an agent") from None

from argstream.agent._agent_run import AgentRun
from argstream.agent._driver import EventHook
from argstream.agent.agent import Agent
from argstream.agent.approvals import Approval, Approve, Approver, Decisions, Deny, Grant
from argstream.agent.observer import ObservedRun, Observer, observe
from argstream.agent.result import Conversation, RunResult, ToolUse
from argstream.agent.tools import Streamed, TextFeed, Tool, ToolContext, as_tool, tool

__all__ = [
    "Agent",
    "AgentRun",
    "Approval",
    "Approve",
    "Approver",
    "Conversation",
    "Decisions",
    "Deny",
    "EventHook",
    "Grant",
    "ObservedRun",
    "Observer",
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
