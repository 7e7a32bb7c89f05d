"""How much of a wrong call is read before it is rejected: no clock, the same in every run.

The text comes one character at a time, as from Anthropic, so that it is seen to the character.
"""

from dataclasses import dataclass

from argstream import ToolArgsInvalid, stream
from argstream.jsonstream import JsonPath
from big_streams import anthropic_payloads
from workloads import write
from wrong_calls import CALLS, IN_BOTH_ORDERS, RULES, TOOLS, WrongCall


@dataclass(frozen=True)
class Rejection:
    """Where a wrong call was rejected."""

    call: WrongCall
    path: JsonPath
    by: str
    """The keyword of the schema, or what else decided."""
    read: int
    """Characters."""
    whole: int
    """Of so many: as many as are read if arguments are validated at the end."""

    @property
    def share(self) -> float:
        """How much of it was read."""
        return self.read / self.whole


@dataclass(frozen=True)
class Earliness:
    """What came of all wrong calls."""

    rejections: list[Rejection]
    in_both_orders: list[tuple[Rejection, Rejection]]
    """With the long argument last, and with it first."""

    @property
    def share(self) -> float:
        """How much of all the text was read."""
        return sum(one.read for one in self.rejections) / sum(one.whole for one in self.rejections)


def gather_earliness() -> Earliness:
    """Read all wrong calls."""
    return Earliness(
        [_reject(call) for call in CALLS],
        [(_reject(last), _reject(first)) for last, first in IN_BOTH_ORDERS],
    )


def _reject(call: WrongCall) -> Rejection:
    text = write(call.arguments)
    payloads = anthropic_payloads(text, call.tool)
    events = stream(payloads, tools=TOOLS, policy=RULES, stop_on="rejected")
    (found,) = [event for event in events if isinstance(event, ToolArgsInvalid)]
    error = found.error
    by = error.keyword or {"denied": "a rule", "unknown_tool": "the tool's name"}[error.reason]
    return Rejection(call, error.path, by, len(found.raw), len(text))
