"""The tools of an agent, and what its rules say of calls to them."""

from collections.abc import Container, Iterable
from typing import Any

from msgspec import Struct

from argstream.agent.approvals import Grant
from argstream.agent.tools import Tool, as_tool
from argstream.assembly import Call
from argstream.clients import OfferedTool
from argstream.errors import UsageError
from argstream.events import ArgumentsError
from argstream.policy import Policy, Rule
from argstream.streaming import make_judge

__all__ = ["Asking", "Toolbox"]


class Asking(Struct, frozen=True):
    """Why a person must be asked."""

    reason: str
    name: str | None = None
    """The name of the rule that asks."""
    rule: Rule | None = None
    """The rule that asks; None if it is no rule of a policy that is here."""

    @property
    def grant(self) -> Grant | None:
        """What ``always="rule"`` grants: this rule, not another one with the same name."""
        return None if self.rule is None else Grant("rule", self.name or "", self.rule)

    def granted_by(self, grants: Container[Grant]) -> bool:
        """Return True if the rule that asks was granted for the rest of the conversation."""
        return self.grant is not None and self.grant in grants


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
        # "report": the agent requests approval itself, when the arguments are whole.
        specs = [found.spec for found in self._tools.values()]
        self.judge = make_judge(specs, policy, on_ask="report")
        self.offered = tuple(_offered(found) for found in self._tools.values())

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def get(self, name: str) -> Tool | None:
        """Give the tool of this name, if there is one."""
        return self._tools.get(name)

    def askings(self, name: str, arguments: dict[str, Any]) -> list[Asking] | ArgumentsError:
        """Say for what reasons a person must be asked about this call, or that it must not be."""
        wanted = self._tools[name].requires_confirmation
        found: list[Asking] = []
        for policy in (self.policy, wanted):
            if not isinstance(policy, Policy):
                continue
            decision = policy.decide(name, arguments)
            if decision.action == "deny":
                return ArgumentsError("denied", decision.reason, path=decision.path)
            if decision.action == "ask":
                reason = decision.reason or f"the policy asks about {name}"
                rule = None if decision.rule is None else policy.find_rule(decision.rule)
                found.append(Asking(reason, decision.rule, rule))
        if wanted is True:
            found.append(Asking(f"{name} must be confirmed each time"))
        return found

    def refusal(self, name: str, arguments: dict[str, Any]) -> ArgumentsError | None:
        """Say why arguments that no model wrote must not be used, if so."""
        judge = None if self.judge is None else self.judge.open(name, "function")
        if isinstance(judge, ArgumentsError):
            return judge
        error = None if judge is None else judge.error or judge.finish(arguments, as_read=False)
        askings = self.askings(name, arguments)
        return error or (askings if isinstance(askings, ArgumentsError) else None)

    def may_start_early(self, call: Call) -> bool:
        """Say whether a tool may read the text of this call while it is written.

        Not before all that could forbid it, or ask, has spoken.
        """
        found = self._tools.get(call.name)
        if found is None or found.streamed is None or found.requires_confirmation is not False:
            return False
        return self.policy is None or (
            call.policy_decision is not None and call.policy_decision.action == "allow"
        )


def _offered(found: Tool) -> OfferedTool:
    return OfferedTool(
        name=found.name,
        description=found.description,
        schema=found.schema,
        eager_input_streaming=found.eager_input_streaming,
    )
