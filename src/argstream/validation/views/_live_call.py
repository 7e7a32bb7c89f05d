"""What a typed view asks of a live call, beyond the rules of ``argstream.settled``.

Nothing here returns a value that still grows, and no frame that raises holds one.
"""

from typing import Any, Final, Protocol

from argstream.errors import ArgumentUnavailable, UsageError
from argstream.events import ArgumentsError
from argstream.jsonstream import PENDING, JsonPath
from argstream.settled import LiveCall, is_settled, value_at, verdict_words
from argstream.validation._signatures import describe

__all__ = [
    "CallHolder",
    "invalid",
    "is_certain",
    "kind_at",
    "live_call",
    "settled_items",
    "unavailable",
]

_UNITS: Final[dict[type, str]] = {dict: "key", list: "item", str: "character"}
_OF_CALLS: Final = ("name", "kind", "verdict", "in_doubt", "in_leaves")


class CallHolder(Protocol):
    """Who has a live call: the readers of ``live_calls()`` do."""

    @property
    def call(self) -> LiveCall:
        """The call itself."""


def live_call(given: LiveCall | CallHolder) -> LiveCall:
    """Give the call that is meant; raise UsageError if there is none."""
    found: Any
    for found in (given, getattr(given, "call", None)):
        if not isinstance(found, type) and all(hasattr(found, name) for name in _OF_CALLS):
            return found  # type: ignore[no-any-return]
    raise UsageError(
        f"{describe(given)} is no call: give a call of events.calls, or a reader of live_calls()"
    )


def is_certain(call: LiveCall) -> bool:
    """Say whether the text so far is meant as it was read, as far as anybody can tell."""
    return not call.in_doubt or call.verdict == "complete"


def kind_at(call: LiveCall, path: JsonPath) -> type | None:
    """Say of which type the value at a path is; None if there is none."""
    value = value_at(call.partial, path)
    return None if value is PENDING else type(value)


def settled_items(call: LiveCall, path: JsonPath, known: int) -> int:
    """Count the items of an array that have settled before one that has not.

    So many were known to have settled before: they are not looked at again.
    """
    items = value_at(call.partial, path)
    if not isinstance(items, list) or not is_certain(call):
        return 0
    if is_settled(call, path):
        return len(items)
    here = call.path
    depth = len(path)
    index = here[depth] if len(here) > depth and here[:depth] == path else len(items)
    count = min(index, len(items)) if isinstance(index, int) else 0
    if not call.in_leaves:
        return count
    while known < count and not isinstance(items[known], dict | list):
        known += 1
    return min(known, count)


def unavailable(call: LiveCall, path: JsonPath, told: str, reason: str = "") -> ArgumentUnavailable:
    """Say that a value has not settled, or never will."""
    size = _size(call, path)
    if call.verdict != "open":
        why = "it was not given" if call.verdict == "complete" else verdict_words(call)
        message = f"{told} {'is not whole' if size else 'did not come'}: {why}"
    elif call.in_doubt:
        message = f"{told} has not settled: the text of the call may be meant in another way"
    elif reason:
        message = f"{told} has not settled: {reason}"
    else:
        message = f"{told} has not settled: {size} so far" if size else f"{told} has not come yet"
    return ArgumentUnavailable(message, path=path, verdict=call.verdict, error=call.error)


def invalid(call: LiveCall, path: JsonPath, told: str, reason: str) -> ArgumentUnavailable:
    """Say that a value has settled and is not valid."""
    error = ArgumentsError("invalid", reason, path=path)
    return ArgumentUnavailable(
        f"{told} is not valid: {reason}", path=path, verdict=call.verdict, error=error
    )


def _size(call: LiveCall, path: JsonPath) -> str:
    value: Any = value_at(call.partial, path) if path else None
    unit = _UNITS.get(type(value))
    return "" if unit is None else f"{len(value)} {unit}{'' if len(value) == 1 else 's'}"
