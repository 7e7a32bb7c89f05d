"""What calls are judged by on the command line: ``--tools`` and ``--policy``."""

from typing import NamedTuple

from argstream.policy import Policy
from argstream.validation import ToolSpec, load_tools

__all__ = ["NO_RULES", "Rules", "read_rules"]


class Rules(NamedTuple):
    """Tools and a policy, where they are given."""

    tools: list[ToolSpec] | None = None
    policy: Policy | None = None


NO_RULES = Rules()


def read_rules(tools: str | None, policy: str | None) -> Rules:
    """Read the files that were named; raises ``UsageError`` if one is no such thing."""
    return Rules(
        None if tools is None else load_tools(tools),
        None if policy is None else Policy.load(policy),
    )
