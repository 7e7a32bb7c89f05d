"""What of a live call has settled, by the rules that its readers follow.

Whatever still grows is only looked at: a string that something refers to would be copied with every
piece that is added to it. So nothing here returns such a value, and no frame that raises holds one.
"""

from typing import Any, Final, Protocol

from argstream.errors import ArgumentUnavailable
from argstream.events import ArgumentsError
from argstream.jsonstream import PENDING, JsonPath

__all__ = [
    "LiveCall",
    "at",
    "invalid",
    "is_certain",
    "is_settled",
    "kind_at",
    "settled_items",
    "unavailable",
]

_UNITS: Final[dict[type, str]] = {dict: "key", list: "item", str: "character"}


class LiveCall(Protocol):
    """What is read of a call; ``argstream.Call`` has it."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def error(self) -> ArgumentsError | None: ...
    @property
    def partial(self) -> Any: ...
    @property
    def path(self) -> JsonPath: ...
    @property
    def in_doubt(self) -> bool: ...
    @property
    def in_leaves(self) -> bool: ...


def is_certain(call: LiveCall) -> bool:
    """Say whether the text so far is meant as it was read, as far as anybody can tell."""
    return not call.in_doubt or call.verdict == "complete"


def is_settled(call: LiveCall, path: JsonPath) -> bool:
    """Say whether a value that is there is final. The root is, once the call is complete."""
    if call.verdict == "complete":
        return True
    if call.in_doubt or not path or call.path[: len(path)] == path:
        return False
    return not (call.in_leaves and kind_at(call, path) in (dict, list))


def at(call: LiveCall, path: JsonPath) -> Any:
    """Give what stands at a path, PENDING if nothing does: for what has settled."""
    value = call.partial
    for key in path:
        if isinstance(value, dict):
            value = value.get(key, PENDING)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return PENDING
    return value


def kind_at(call: LiveCall, path: JsonPath) -> type | None:
    """Say of which type the value at a path is; None if there is none."""
    value = at(call, path)
    return None if value is PENDING else type(value)


def settled_items(call: LiveCall, path: JsonPath, known: int) -> int:
    """Count the items of an array that have settled before one that has not.

    So many were known to have settled before: they are not looked at again.
    """
    items = at(call, path)
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
        why = "it was not given" if call.verdict == "complete" else _verdict(call)
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
    value: Any = at(call, path) if path else None
    unit = _UNITS.get(type(value))
    return "" if unit is None else f"{len(value)} {unit}{'' if len(value) == 1 else 's'}"


def _verdict(call: LiveCall) -> str:
    told = "reading was stopped" if call.error is None else call.error.message
    return f"the call is {call.verdict} ({told})"
