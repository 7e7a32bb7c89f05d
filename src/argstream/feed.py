"""Items for frameworks whose events already keep the calls apart.

``stream()`` reads an iterable of these like the stream of a provider: the same events, checks,
readers and verdicts. Translate each event of the framework into one item.

>>> from argstream import feed, stream
>>> items = [
...     feed.CallStarted("call_1", "write_file"),
...     feed.CallText("call_1", '{"path": "a'),
...     feed.CallText("call_1", '.txt"}'),
...     feed.CallClosed("call_1"),
...     feed.TurnEnded("tool_calls"),
... ]
>>> events = stream(items)
>>> [event.text for event in events if event.type == "argument_delta"]
['a', '.txt']
>>> events.calls[0].arguments
{'path': 'a.txt'}

The ID of a call is the one that results refer to. It must be unique within a turn. A turn begins
with its first item and ends with ``TurnEnded``. If the items end before that, the open calls are
truncated, as with a provider that closes the connection. A field of a wrong type raises
``UsageError`` when the item is created.
"""

from types import NoneType
from typing import Any, Final, TypeAlias, get_args

from msgspec import Struct

from argstream.errors import UsageError
from argstream.events import Usage
from argstream.history import CallKind

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys(("id", "name", "text"), (str,)),
    "arguments": (str, dict, NoneType),
    "stop": (str, NoneType),
    "usage": (Usage,),
}


class _Item(Struct, frozen=True, dict=True):  # with a __dict__, as other payloads
    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if not isinstance(value, _TYPES.get(field, object)):
                expected = " or ".join(one.__name__ for one in _TYPES[field] if one is not NoneType)
                problem = f"be {expected}, not {type(value).__name__}"
            elif field == "id" and not value:
                problem = "not be empty"
            elif field == "kind" and value not in get_args(CallKind):
                problem = f"be one of {', '.join(get_args(CallKind))}, not {value!r}"
            else:
                continue
            raise UsageError(f"{type(self).__name__}.{field} must {problem}")


class Text(_Item, frozen=True):
    """The next piece of the model's text."""

    text: str


class Thinking(_Item, frozen=True):
    """The next piece of the model's thinking. Any other item ends the block."""

    text: str


class CallStarted(_Item, frozen=True):
    """The model calls a tool."""

    id: str
    name: str
    kind: CallKind = "function"
    """``server`` or ``mcp`` if the provider runs the call itself, ``custom`` for free text."""


class CallText(_Item, frozen=True):
    """The next piece of the arguments: JSON, cut anywhere, never repeated."""

    id: str
    text: str


class CallClosed(_Item, frozen=True):
    """The model has finished the call.

    Optional: ``TurnEnded`` closes the calls that are open. With this item, a call is complete
    before its turn is.
    """

    id: str
    arguments: str | dict[str, Any] | None = None
    """All arguments, if the framework repeats them, or if it sent no pieces."""


class CallResult(_Item, frozen=True):
    """The result of a call that the framework or the provider ran."""

    id: str
    result: Any
    failed: bool = False


class TurnEnded(_Item, frozen=True):
    """The model stopped."""

    stop: str | None = None
    """Why: a ``StopKind`` such as ``tool_calls`` or ``length``, or the provider's own word.

    Without it, it is not known whether a call without arguments was cut. Such a call is truncated.
    """
    usage: Usage = Usage()


Item: TypeAlias = Text | Thinking | CallStarted | CallText | CallClosed | CallResult | TurnEnded
