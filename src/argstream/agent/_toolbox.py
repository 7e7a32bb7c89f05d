"""The tools of an agent, and what its rules say of calls to them."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from argstream.agent.tools import Tool, as_tool
from argstream.assembly import Call
from argstream.clients import OfferedTool
from argstream.errors import UsageError
from argstream.events import ArgumentsError
from argstream.judging import Decision
from argstream.policy import Policy
from argstream.streaming import make_judge

__all__ = ["Asking", "Toolbox"]


class Asking(Struct, frozen=True):
    """Why a person must be asked."""

    reason: str
    rule: str | None = None


class Toolbox:
    """The tools by their names, and the policy for them."""

    def __init__(self, tools: Iterable[object], policy: Policy | None) -> None:
        self._tools: dict[str, Tool] = {}
        for given in tools:
            found = as_tool(given)
            if found.name in self._tools:
                raise UsageError(
                    f"there are two tools of the name {found.name!r}: give one another name, "
                    "@tool(name=…)"
                )
            self._tools[found.name] = found
        self.policy = policy
        self.judge = make_judge([found.spec for found in self._tools.values()], policy)
        self.offered = tuple(_offered(found) for found in self._tools.values())

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def get(self, name: str) -> Tool | None:
        """Give the tool of this name, if there is one."""
        return self._tools.get(name)

    def asking(self, name: str, arguments: dict[str, Any]) -> Asking | ArgumentsError | None:
        """Say whether a person must be asked about this call, or that it must not be made."""
        wanted = self._tools[name].requires_confirmation
        policies = [self.policy, wanted if isinstance(wanted, Policy) else None]
        decisions = [one.decide(name, arguments) for one in policies if one is not None]
        for decision in decisions:
            if decision.action == "deny":
                return ArgumentsError("denied", decision.reason, path=decision.path)
        asks = [decision for decision in decisions if decision.action == "ask"]
        if wanted is True and not asks:
            return Asking(f"{name} must be confirmed each time")
        return _asking(name, asks[0]) if asks else None

    def refusal(self, name: str, arguments: dict[str, Any]) -> ArgumentsError | None:
        """Say why arguments that no model wrote must not be used, if so."""
        judge = None if self.judge is None else self.judge.open(name, "function")
        if judge is None or isinstance(judge, ArgumentsError):
            return judge
        return judge.error or judge.finish(arguments, as_read=False)

    def may_start_early(self, call: Call) -> bool:
        """Say whether a tool may read the text of this call while it is written.

        Not before all that could forbid it, or ask, has spoken.
        """
        found = self._tools.get(call.name)
        if found is None or found.streamed is None or found.requires_confirmation is not False:
            return False
        return self.policy is None or (
            call.decision is not None and call.decision.action == "allow"
        )


def _asking(name: str, decision: Decision) -> Asking:
    return Asking(decision.reason or f"the policy asks about {name}", decision.rule)


def _offered(found: Tool) -> OfferedTool:
    return OfferedTool(
        name=found.name,
        description=found.description,
        schema=found.schema,
        eager_input_streaming=found.eager_input_streaming,
    )
