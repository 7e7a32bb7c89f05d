"""What a model that follows a script answers, in words that belong to no provider.

::

    Reply(
        Think("The file is small."),
        Say("I write it."),
        CallTool("write_file", {"path": "a.txt", "content": "hello"}),
    )
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from argstream.errors import UsageError

__all__ = ["CallTool", "Part", "Reply", "Say", "Stop", "Think"]

Stop: TypeAlias = Literal["end_turn", "tool_use", "max_tokens", "refusal", "pause_turn"]
"""Why the model stopped, in Anthropic's words; each API gets it in its own."""


@dataclass(frozen=True)
class Say:
    """Text for the user."""

    text: str


@dataclass(frozen=True)
class Think:
    """Thinking, as a block, a summary or ``reasoning_content``, whichever the API has."""

    text: str


@dataclass(frozen=True, init=False)
class CallTool:
    """A tool call. Give its arguments as a mapping, or as text that may be cut or no JSON at all.

    >>> CallTool("add", {"a": 1})
    CallTool(name='add', arguments='{"a": 1}', call_id=None)
    >>> CallTool("add", '{"a": ').is_whole
    False
    """

    name: str
    arguments: str
    call_id: str | None
    """Without one, an id is made from the number of the reply and of the call."""

    def __init__(
        self, name: str, arguments: Mapping[str, Any] | str = "{}", *, call_id: str | None = None
    ) -> None:
        if not name or not isinstance(name, str):
            raise UsageError(f"CallTool: give the name of a tool, not {name!r}")
        if isinstance(arguments, Mapping):
            arguments = json.dumps(dict(arguments), ensure_ascii=False)
        if not isinstance(arguments, str):
            raise UsageError(f"CallTool: arguments are a mapping or a text, not {arguments!r}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "arguments", arguments)
        object.__setattr__(self, "call_id", call_id)

    @property
    def value(self) -> dict[str, Any] | None:
        """The arguments as an object, or None if they are not one."""
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are a JSON object."""
        return self.value is not None


Part: TypeAlias = Say | Think | CallTool


@dataclass(frozen=True, init=False)
class Reply:
    """One answer of the model: its parts in order, and why it stopped.

    A string is something to say. If ``stop`` is not given, it is ``tool_use`` for an answer that
    calls a tool and ``end_turn`` for any other.

    >>> Reply("Hello").stop, Reply(CallTool("now")).stop
    ('end_turn', 'tool_use')
    """

    parts: tuple[Part, ...]
    stop: Stop
    piece_size: int
    """How many characters the model writes at a time."""

    def __init__(self, *parts: Part | str, stop: Stop | None = None, piece_size: int = 4) -> None:
        whole = tuple(Say(part) if isinstance(part, str) else part for part in parts)
        if stop is None:
            calls = any(isinstance(part, CallTool) for part in whole)
            stop = "tool_use" if calls else "end_turn"
        if stop not in get_args(Stop):
            raise UsageError(f"Reply: stop is one of {', '.join(get_args(Stop))}, not {stop!r}")
        if piece_size < 1:
            raise UsageError(f"Reply: piece_size is a number of 1 or more, not {piece_size!r}")
        object.__setattr__(self, "parts", whole)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "piece_size", piece_size)

    @property
    def is_cut(self) -> bool:
        """Whether the model was stopped before it was done."""
        return self.stop in ("max_tokens", "refusal")
