"""What a mock model answers, in words that belong to no provider.

::

    Reply(
        Think("The file is small."),
        Say("I write it."),
        CallTool("write_file", {"path": "a.txt", "content": "hello"}),
    )

The same as a file, for ``argstream mock``::

    {"replies": [
        {"parts": [
            {"think": "The file is small."},
            {"say": "I write it."},
            {"call": "write_file", "arguments": {"path": "a.txt", "content": "hello"}}
        ], "stop": "tool_use", "faults": ["cut=500"]}
    ]}
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from argstream.errors import UsageError
from argstream.testing.faults import Fault, checked_faults, parse_fault

__all__ = ["EXAMPLE", "CallTool", "Part", "Reply", "Say", "Stop", "Think", "parse_script"]

Stop: TypeAlias = Literal["end_turn", "tool_use", "max_tokens", "refusal"]
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
    """Without one, the provider makes an id from the number of the reply and of the call."""

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
    """One answer of the model: its parts in order, why it stopped, and what goes wrong.

    A string is something to say. If ``stop`` is not given, it is ``tool_use`` for an answer that
    calls a tool and ``end_turn`` for any other.

    >>> Reply("Hello").stop, Reply(CallTool("now")).stop
    ('end_turn', 'tool_use')
    """

    parts: tuple[Part, ...]
    stop: Stop
    faults: tuple[Fault, ...]
    piece_size: int
    """How many characters the model writes at a time."""

    def __init__(
        self,
        *parts: Part | str,
        stop: Stop | None = None,
        faults: Iterable[Fault] = (),
        piece_size: int = 4,
    ) -> None:
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
        object.__setattr__(self, "faults", checked_faults(faults))
        object.__setattr__(self, "piece_size", piece_size)

    @property
    def is_cut(self) -> bool:
        """Whether the model was stopped before it was done."""
        return self.stop in ("max_tokens", "refusal")


def parse_script(text: str | bytes) -> list[Reply]:
    """Read a script file."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the script is not JSON: {error}") from None
    match document:
        case {"replies": [_, *_] as replies, **others} if not others:
            return [_reply(reply, f"reply {n}") for n, reply in enumerate(replies, 1)]
        case _:
            raise UsageError(
                'a script is an object with nothing but "replies", a list of one or more'
            )


def _reply(reply: object, where: str) -> Reply:
    match reply:
        case {"parts": [*parts], **others} if others.keys() <= {"stop", "faults", "piece_size"}:
            options: dict[str, Any] = {str(name): value for name, value in others.items()}
            if not isinstance(options.get("piece_size", 1), int):
                raise UsageError(f'{where}: "piece_size" is a number')
            read = [_part(part, f"{where}, part {n}") for n, part in enumerate(parts, 1)]
            faults = options.pop("faults", [])
            if not isinstance(faults, list) or not all(isinstance(text, str) for text in faults):
                raise UsageError(f'{where}: "faults" is a list of texts such as "cut=500"')
            try:
                return Reply(*read, faults=map(parse_fault, faults), **options)
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from None
        case _:
            raise UsageError(
                f'{where}: a reply is an object with "parts", a list, and maybe "stop", "faults" '
                'and "piece_size"'
            )


def _part(part: object, where: str) -> Part:
    match part:
        case {"say": str(text), **others} if not others:
            return Say(text)
        case {"think": str(text), **others} if not others:
            return Think(text)
        case {"call": str(name), **others} if others.keys() <= {"arguments", "id"}:
            arguments = others.get("arguments", {})
            call_id = others.get("id")
            if isinstance(arguments, dict | str) and isinstance(call_id, str | None):
                return CallTool(name, arguments, call_id=call_id)
        case _:
            pass
    raise UsageError(
        f'{where}: a part is {{"say": text}}, {{"think": text}} or {{"call": name, "arguments": '
        'an object, or a text that may be no JSON}, maybe with "id"'
    )


EXAMPLE: Final = (
    Reply(
        Think("They want a program. Primes are small enough to write at once."),
        Say("I write the file now."),
        CallTool(
            "write_file",
            {
                "path": "src/primes.py",
                "content": "def primes(limit):\n"
                '    """Yield the primes below a limit."""\n'
                "    composite = set()\n"
                "    for n in range(2, limit):\n"
                "        if n not in composite:\n"
                "            yield n\n"
                "            composite.update(range(n * n, limit, n))\n",
            },
        ),
    ),
    Reply("Done: src/primes.py yields the primes below a limit – 2, 3, 5 and so on."),
)
"""Two turns of an agent that writes a file: what ``argstream mock`` plays if given no script."""
